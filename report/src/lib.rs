//! The report of a run for finance: one HTML document without scripts or network access, which
//! prints on A4. Pure. Invariants: text from partners and shops is escaped and isolated (`text`);
//! money is written from its digits (`money`); a page shows at most `FINDINGS_MAX` findings, and
//! counts the rest with the command that lists it.
//!
//! `finding_groups` groups the findings by status. `verdict` says what the run means and what to do
//! next; `plots`, `findings`, `totals` with `explanation`, `records` and `closing` are the sections
//! that follow, from top to bottom.
#![warn(missing_docs)]
#![cfg_attr(not(test), warn(unreachable_pub))]

mod closing;
pub mod codes;
mod explanation;
pub mod finding_groups;
mod findings;
pub mod money;
mod plots;
mod records;
mod report;
pub mod text;
mod times;
mod totals;
pub mod values;
mod verdict;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use payfold_schemas::digest::Digest;
use payfold_schemas::run::RunResult;

use self::finding_groups::FindingGroups;
pub use self::findings::FINDINGS_MAX;
pub use self::report::Report;
use self::text::isolated;

const STYLE: &str = include_str!("style.css");
/// Renders the report as an HTML document.
pub fn render_page(report: &Report<'_>) -> String {
    let groups = FindingGroups::new(report.findings);
    let style = format!("{STYLE}{}", running_head(report));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        STANDARD.encode(Digest::of_bytes(style.as_bytes()).as_bytes())
    );
    let title = format!("Reconciliation of {}, {}", report.ended.partner, report.ended.day);
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                meta name="robots" content="noindex";
                title { (text::shown(&title)) }
                style { (PreEscaped(style)) }
            }
            body {
                main {
                    (header(report))
                    (verdict::section(report, &groups))
                    (plots::section(report, &groups))
                    (findings::section(report, &groups))
                    (totals::section(report))
                    (records::section(report))
                    (closing::section(report))
                    (footer(report))
                }
            }
        }
    };
    document.into_string()
}

fn result_name(report: &Report<'_>) -> &'static str {
    match report.ended.result {
        RunResult::Complete => "complete",
        RunResult::Incomplete => "incomplete",
    }
}

fn header(report: &Report<'_>) -> Markup {
    let (ended, zone) = (report.ended, report.zone());
    html! {
        header {
            p.over { "Reconciliation report" }
            h1 { (ended.partner) " " span.day { (isolated(&ended.day)) } }
            dl.facts {
                div { dt { "Result" } dd {
                    b { (result_name(report)) } @if report.closed.is_some() { ", day closed" }
                } }
                div { dt { "Run" } dd {
                    code { (isolated(&ended.run)) } " of " (zone.moment(ended.started_at))
                } }
                div { dt { "Day" } dd {
                    (zone.moment(ended.from)) " to " (zone.moment(ended.until)) ", "
                    (isolated(&ended.zone))
                } }
                div { dt { "Records" } dd { (isolated(&ended.records.name)) } }
                div { dt { "Page made" } dd { (zone.moment(report.now)) } }
            }
        }
    }
}

/// CSS for the head of every printed page: partner, day, run and result.
fn running_head(report: &Report<'_>) -> String {
    let ended = report.ended;
    let left = format!("Payfold  {}  {}", ended.partner, text::shown(&ended.day));
    let right = format!("run {}  {}", text::shown(&ended.run), result_name(report));
    format!(
        "@page{{@top-left{{content:\"{}\"}}@top-right{{content:\"{}\"}}}}",
        css_string(&left),
        css_string(&right)
    )
}

/// Escapes text for a CSS string: every character that is not plain becomes its code point.
fn css_string(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':' | '_');
    text.chars()
        .map(|c| if plain(c) { c.to_string() } else { format!("\\{:x} ", u32::from(c)) })
        .collect()
}

fn footer(report: &Report<'_>) -> Markup {
    html! {
        footer {
            p {
                "Times are in " (isolated(&report.ended.zone))
                " with their offset from UTC. Money is in major units of its currency. \
                 “Here” is what this system knows from the partner's notices and answers; \
                 “partner” is what the partner's \
                 records say. A difference never changes an order: only a notice, a query's \
                 answer or a person's decision does."
            }
            p {
                "Made by payfold " (env!("CARGO_PKG_VERSION")) " from the findings of run "
                code { (isolated(&report.ended.run)) } "."
            }
        }
    }
}

#[cfg(test)]
mod tests;
