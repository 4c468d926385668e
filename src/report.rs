//! Owns the report of a run as finance reads it: one HTML document that needs nothing else, no script, no network, and that
//! prints on A4. Pure. Invariants: what others wrote is escaped and isolated (`words`), money is written from its digits
//! (`money`), and a page has at most `FINDINGS_MAX` findings: the rest is counted, with the command that lists it.
//!
//! `parts` says which findings stand where, `verdict` what that means and what to do; `plots`, `findings`, `totals` with
//! `explain`, `records` and `seal` are the sections from top to bottom.

mod explain;
mod findings;
mod kinds;
mod parts;
mod plots;
mod records;
mod seal;
mod totals;
pub(crate) mod values;
mod verdict;
mod when;
mod words;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use payfold_schemas::digest::Digest;
use payfold_schemas::finding::FindingChanged;
use payfold_schemas::run::{PeriodClosed, RunEnded, RunResult};
use payfold_schemas::time::Time;

use parts::Parts;
use when::Zone;
use words::said;

const STYLE: &str = include_str!("report/style.css");
/// So many findings are shown one by one.
pub const FINDINGS_MAX: usize = 2_000;

/// What a report is made of.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The run.
    pub ended: &'a RunEnded,
    /// The findings of its day as they stand now, in any order.
    pub findings: &'a [FindingChanged],
    /// The day's seal, if it is closed.
    pub closed: Option<&'a PeriodClosed>,
    /// When the report is made: findings are aged as of then.
    pub now: Time,
}

impl Report<'_> {
    fn zone(&self) -> Zone {
        Zone::of(&self.ended.zone)
    }

    /// `--partner P --day D`, as commands take it.
    fn of_day(&self) -> String {
        format!("--partner {} --day {}", self.ended.partner, words::argument(&self.ended.day))
    }
}

/// The document.
pub fn page(report: &Report<'_>) -> String {
    let parts = Parts::of(report.findings);
    let style = format!("{STYLE}{}", running_head(report));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        STANDARD.encode(Digest::of_bytes(style.as_bytes()).as_bytes())
    );
    let title = format!("Reconciliation of {}, {}", report.ended.partner, report.ended.day);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                meta name="robots" content="noindex";
                title { (words::shown(&title)) }
                style { (PreEscaped(style)) }
            }
            body {
                main {
                    (head(report))
                    (verdict::section(report, &parts))
                    (plots::section(report, &parts))
                    (findings::section(report, &parts))
                    (totals::section(report))
                    (records::section(report))
                    (seal::section(report))
                    (foot(report))
                }
            }
        }
    };
    page.into_string()
}

fn result(report: &Report<'_>) -> &'static str {
    match report.ended.result {
        RunResult::Complete => "complete",
        RunResult::Incomplete => "incomplete",
    }
}

fn head(report: &Report<'_>) -> Markup {
    let (ended, zone) = (report.ended, report.zone());
    html! {
        header {
            p.over { "Reconciliation report" }
            h1 { (ended.partner) " " span.day { (said(&ended.day)) } }
            dl.facts {
                div { dt { "Result" } dd { b { (result(report)) } @if report.closed.is_some() { ", day closed" } } }
                div { dt { "Run" } dd { code { (said(&ended.run)) } " of " (zone.moment(ended.started_at)) } }
                div { dt { "Day" } dd { (zone.moment(ended.from)) " to " (zone.moment(ended.until)) ", " (said(&ended.zone)) } }
                div { dt { "Records" } dd { (said(&ended.records.name)) } }
                div { dt { "Page made" } dd { (zone.moment(report.now)) } }
            }
        }
    }
}

/// On every printed page: whose, which day, which run, what it came to.
fn running_head(report: &Report<'_>) -> String {
    let ended = report.ended;
    let left = format!("Payfold  {}  {}", ended.partner, words::shown(&ended.day));
    let right = format!("run {}  {}", words::shown(&ended.run), result(report));
    format!(
        "@page{{@top-left{{content:\"{}\"}}@top-right{{content:\"{}\"}}}}",
        css_string(&left),
        css_string(&right)
    )
}

/// The inside of a CSS string: what is not plain is written by its number.
fn css_string(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':' | '_');
    text.chars()
        .map(|c| if plain(c) { c.to_string() } else { format!("\\{:x} ", u32::from(c)) })
        .collect()
}

fn foot(report: &Report<'_>) -> Markup {
    html! {
        footer {
            p {
                "Times are in " (said(&report.ended.zone)) " with their offset from UTC. Money is in major units of its currency. \
                 “Here” is what this system knows from the partner's notices and answers; “partner” is what the partner's \
                 records say. A difference never changes an order: only a notice, a query's answer or a person's decision does."
            }
            p { "Made by payfold " (env!("CARGO_PKG_VERSION")) " from the findings of run " code { (said(&report.ended.run)) } "." }
        }
    }
}

#[cfg(test)]
mod tests;
