//! Explains one request: every place the scheme looks at, the text each key would sign, and what would have matched.

use payfold_engines::clock::{Clock, SystemClock};
use payfold_partners::scheme::{Attempt, Explanation, Request};
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::time::Time;
use serde_json::json;

use super::Source;
use super::request::{self, Stored};
use crate::args::{ExplainArgs, Form};
use crate::error::Fixable;
use crate::keys;
use crate::output;
use crate::settings::Loaded;

pub(super) fn run(loaded: &Loaded, args: &ExplainArgs) -> anyhow::Result<()> {
    let profile = Source::of(loaded, &args.profile)?.profile()?;
    let directory = keys::directory_with(loaded, profile)?;
    let stored = request::read(&args.request)?;
    let at = args.at.as_deref().map_or(Ok(SystemClock.now()), Time::parse)?;
    let code = PartnerCode::parse(&args.profile.partner)?;
    let set = args.public_url.as_ref().unwrap_or(&loaded.settings.public_url);
    let request = as_request(&stored, set.trim_end_matches('/'));
    let explained = directory
        .explain(code.as_str(), &request, at)
        .or_else(|| directory.explain_contract(code.as_str(), &stored.body, at));
    let Some(explanation) = explained else {
        return Err(Fixable::error(
            format!("partner {code} is not configured"),
            format!("put [partners.{code}] into payfold.toml"),
        ));
    };
    match args.output.output {
        Form::Table | Form::Csv => print(&explanation),
        Form::Json | Form::Jsonl => output::line(&as_json(&explanation).to_string()),
    }
    Ok(())
}

fn as_request<'r>(stored: &'r Stored, public_url: &'r str) -> Request<'r> {
    let mut request = Request::of_url(&stored.url);
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

fn lines(attempt: &Attempt) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("key", format!("{} of {}, [[sign]] {}", attempt.key, attempt.account, attempt.sign)),
        ("signing text", shown(&attempt.text)),
        (
            "expected",
            attempt.expected.clone().unwrap_or_else(|| "only the partner can make it".to_owned()),
        ),
    ];
    if attempt.received.is_empty() {
        lines.push(("received", "nothing where the profile says the signature is".to_owned()));
    }
    lines.extend(attempt.received.iter().map(|received| ("received", received.clone())));
    lines.push(("matches", if attempt.matches { "yes" } else { "no" }.to_owned()));
    lines.extend(attempt.would_match.iter().map(|change| ("would match with", change.clone())));
    lines
}

/// Control characters made visible.
fn shown(value: &str) -> String {
    value
        .chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect()
}

fn as_json(explanation: &Explanation) -> serde_json::Value {
    let places: Vec<_> = explanation
        .places
        .iter()
        .map(|place| json!({"field": place.token, "kind": place.kind, "value": place.value}))
        .collect();
    let attempts: Vec<_> = explanation
        .attempts
        .iter()
        .map(|a| {
            json!({
                "account": a.account, "sign": a.sign, "key": a.key, "signingText": a.text,
                "expected": a.expected, "received": a.received, "matches": a.matches,
                "wouldMatchWith": a.would_match,
            })
        })
        .collect();
    json!({"verdict": explanation.verdict, "fields": places, "attempts": attempts})
}
