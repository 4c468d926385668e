//! `payfold partner explain`: explains one request: every field the scheme reads, the text each key
//! would sign, and what would have matched.

use payfold_engines::clock::{Clock, SystemClock};
use payfold_partners::scheme::{Explanation, NoticeRequest, SignatureAttempt};
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::time::Time;

use super::request::{self, StoredRequest};
use super::source::ProfileSource;
use crate::args::{ExplainArgs, OutputFormat};
use crate::error::Fixable;
use crate::settings::Loaded;
use crate::{keys, output};

pub(super) fn run(loaded: &Loaded, args: &ExplainArgs) -> anyhow::Result<()> {
    let profile = ProfileSource::of(loaded, &args.profile)?.profile()?;
    let directory = keys::directory_with(loaded, profile)?;
    let stored = request::read(&args.request)?;
    let at = args.at.as_deref().map_or(Ok(SystemClock.now()), Time::parse)?;
    let code = PartnerCode::parse(&args.profile.partner)?;
    let set = args.public_url.as_ref().unwrap_or(&loaded.settings.public_url);
    let request = as_request(&stored, set.trim_end_matches('/'));
    let Some(explanation) = directory.explain(code.as_str(), &request, at) else {
        return Err(Fixable::error(
            format!("partner {code} is not configured"),
            format!("add [partners.{code}] to payfold.toml"),
        ));
    };
    match args.output.output {
        OutputFormat::Table | OutputFormat::Csv => print(&explanation),
        format => output::object(format, &explanation)?,
    }
    Ok(())
}

fn as_request<'r>(stored: &'r StoredRequest, public_url: &'r str) -> NoticeRequest<'r> {
    let mut request = NoticeRequest::of_url(&stored.url);
    if !public_url.is_empty() {
        request.base_url = public_url;
    }
    request.method = &stored.method;
    request.body = &stored.body;
    request.headers =
        stored.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    request
}

fn print(explanation: &Explanation) {
    output::line(&explanation.verdict);
    if !explanation.places.is_empty() {
        let rows: Vec<Vec<String>> = explanation
            .places
            .iter()
            .map(|place| {
                let bytes = place.value.len().to_string();
                vec![place.token.clone(), place.kind.to_owned(), bytes, shown(&place.value)]
            })
            .collect();
        output::line("");
        output::line(&output::table(&["field", "kind", "bytes", "value"], &rows));
    }
    for attempt in &explanation.attempts {
        output::line("");
        for (name, value) in lines(attempt) {
            output::line(&format!("{name:<16} {value}"));
        }
    }
}

fn lines(attempt: &SignatureAttempt) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("key", format!("{} of {}, [[sign]] {}", attempt.key, attempt.account, attempt.sign)),
        ("signing text", shown(&attempt.text)),
        (
            "expected",
            attempt
                .expected
                .clone()
                .unwrap_or_else(|| "only the partner can sign with its private key".to_owned()),
        ),
    ];
    if attempt.received.is_empty() {
        lines.push(("received", "no signature where the profile expects it".to_owned()));
    }
    lines.extend(attempt.received.iter().map(|received| ("received", received.clone())));
    lines.push(("matches", if attempt.matches { "yes" } else { "no" }.to_owned()));
    lines.extend(attempt.would_match.iter().map(|change| ("would match with", change.clone())));
    lines
}

/// The text with control characters escaped.
fn shown(value: &str) -> String {
    value
        .chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect()
}
