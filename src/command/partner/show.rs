//! `payfold partner list|show`: the configured profiles, and one profile in detail.

use payfold_partners::profile::Profile;
use payfold_schemas::digest::Digest;
use serde::Serialize;
use serde_json::Value;

use super::source::ProfileSource;
use crate::args::OutputArgs;
use crate::listing::{Cells, Listing, Row};
use crate::settings::Loaded;
use crate::{accounts, keys, output};

#[derive(Serialize)]
struct ProfileRow<'a> {
    partner: &'a str,
    profile: &'a str,
    version: u32,
    stage: &'static str,
    scheme: &'static str,
    accounts: usize,
    exceptions: &'a [String],
    digest: Digest,
}

impl Row for ProfileRow<'_> {
    const COLUMNS: &'static str = "partner profile version stage scheme accounts exceptions digest";

    fn shown(&self, column: &str, _cells: Cells) -> Option<Value> {
        let short = || self.digest.to_string().chars().take(12).collect::<String>();
        (column == "digest").then(|| short().into())
    }
}

fn scheme_name(profile: &Profile) -> &'static str {
    if profile.is_default_scheme() { "default" } else { "custom" }
}

pub(super) fn list(loaded: &Loaded, output: &OutputArgs) -> anyhow::Result<()> {
    let accounts = accounts::accounts(loaded).unwrap_or_default();
    let mut listing = Listing::of::<ProfileRow<'_>>(output.output);
    for profile in keys::profiles(&loaded.settings)? {
        let code = profile.partner();
        let from = loaded.settings.partners.get(code.as_str());
        listing.row(&ProfileRow {
            partner: code.as_str(),
            profile: from.map_or("", |partner| &partner.profile),
            version: profile.stamp().version,
            stage: profile.stage().as_str(),
            scheme: scheme_name(&profile),
            accounts: accounts.iter().filter(|(partner, _)| partner == code).count(),
            exceptions: profile.scheme().exceptions(),
            digest: profile.digest(),
        })?;
    }
    listing.print()
}

pub(super) fn show(source: &ProfileSource) -> anyhow::Result<()> {
    let profile = source.profile()?;
    let (stamp, limits) = (profile.stamp(), profile.limits());
    let mut lines = vec![
        ("partner", stamp.partner.to_string()),
        ("version", stamp.version.to_string()),
        ("stage", profile.stage().as_str().to_owned()),
        ("digest", stamp.digest.to_string()),
        ("scheme", scheme_name(&profile).to_owned()),
        (
            "limits",
            format!("{} bytes, depth {}, {} keys", limits.body_bytes, limits.depth, limits.keys),
        ),
        ("retries for", format!("{} s", profile.retry_horizon_ms() / 1_000)),
    ];
    let scheme = profile.scheme();
    for sign in scheme.describe() {
        lines.push(("signs", sign));
    }
    lines.push(("accounts", scheme.describe_accounts()));
    lines.push(("creates", scheme.describe_create().unwrap_or_else(|| "nothing".to_owned())));
    lines.push(("asks", scheme.describe_query().unwrap_or_else(|| "nothing".to_owned())));
    if let Some(token) = scheme.describe_oauth() {
        lines.push(("access token", token));
    }
    lines.push(("headers kept", scheme.headers().join(" ")));
    for (name, why) in scheme.exceptions_explained(&profile) {
        lines.push(("exception", format!("{name}: {why}")));
    }
    if scheme.exceptions().is_empty() {
        lines.push(("exceptions", "none".to_owned()));
    }
    if profile.needs_client_certificate() {
        lines.push(("TLS", "client certificate from the account's channel tls".to_owned()));
    }
    if let Some(records) = profile.records() {
        lines.push(("records", records.describe()));
    }
    for (name, value) in lines {
        output::line(&format!("{name:<13} {value}"));
    }
    Ok(())
}
