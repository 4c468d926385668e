//! Shows profiles: all that are configured in a list, or one with everything it says.

use payfold_partners::profile::{Profile, Stage};
use serde_json::json;

use super::Source;
use crate::args::OutputArgs;
use crate::output::{self, Listing};
use crate::settings::Loaded;
use crate::{accounts, keys};

const COLUMNS: [&str; 8] =
    ["partner", "profile", "version", "stage", "scheme", "accounts", "exceptions", "digest"];

pub(in crate::command) const fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Draft => "draft",
        Stage::Sandbox => "sandbox",
        Stage::Frozen => "frozen",
        Stage::Live => "live",
    }
}

fn scheme_name(profile: &Profile) -> &'static str {
    if profile.scheme().is_some() { "own" } else { "contract" }
}

pub(super) fn list(loaded: &Loaded, output: &OutputArgs) -> anyhow::Result<()> {
    let accounts = accounts::accounts(loaded).unwrap_or_default();
    let mut listing = Listing::new(output.output, &COLUMNS);
    for profile in keys::profiles(&loaded.settings)? {
        let code = profile.partner();
        let count = accounts.iter().filter(|(partner, _)| partner == code).count();
        let exceptions = profile.scheme().map(|s| s.exceptions().to_vec()).unwrap_or_default();
        let from = loaded.settings.partners.get(code.as_str()).map(|p| p.profile.clone());
        let from = from.unwrap_or_default();
        let (stage, scheme) = (stage_name(profile.stage()), scheme_name(&profile));
        let (version, digest) = (profile.stamp().version, profile.digest().to_string());
        let object = json!({
            "partner": code, "profile": from, "version": version, "stage": stage, "scheme": scheme,
            "accounts": count, "exceptions": exceptions, "digest": digest,
        });
        let cells = vec![
            code.to_string(),
            from,
            version.to_string(),
            stage.to_owned(),
            scheme.to_owned(),
            count.to_string(),
            exceptions.join(" "),
            digest.chars().take(12).collect(),
        ];
        listing.row(cells, &object)?;
    }
    listing.print()
}

pub(super) fn show(source: &Source) -> anyhow::Result<()> {
    let profile = source.profile()?;
    let (stamp, limits) = (profile.stamp(), profile.limits());
    let mut lines = vec![
        ("partner", stamp.partner.to_string()),
        ("version", stamp.version.to_string()),
        ("stage", stage_name(profile.stage()).to_owned()),
        ("digest", stamp.digest.to_string()),
        ("scheme", scheme_name(&profile).to_owned()),
        (
            "limits",
            format!("{} bytes, depth {}, {} keys", limits.body_bytes, limits.depth, limits.keys),
        ),
        ("retries for", format!("{} s", profile.retry_horizon_ms() / 1_000)),
    ];
    match profile.scheme() {
        None => {
            let fields: Vec<_> = profile.signed_fields().iter().map(ToString::to_string).collect();
            let separator = char::from(profile.separator());
            lines.push(("signs", format!("{} joined with {separator:?}", fields.join(" "))));
            lines.push(("exceptions", "none".to_owned()));
        }
        Some(scheme) => {
            for sign in scheme.describe() {
                lines.push(("signs", sign));
            }
            lines.push(("accounts", scheme.describe_accounts()));
            let created = scheme.describe_create().unwrap_or_else(|| "nothing".to_owned());
            lines.push(("creates", created));
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
        }
    }
    if profile.needs_client_certificate() {
        lines.push(("TLS", "is shown the certificate of the account's channel tls".to_owned()));
    }
    if let Some(records) = profile.records() {
        lines.push(("records", records.describe()));
    }
    for (name, value) in lines {
        output::line(&format!("{name:<13} {value}"));
    }
    Ok(())
}
