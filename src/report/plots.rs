//! Owns the plots: open findings by kind and by age, totals side by side. Invariants: every bar has its number beside it in
//! text, no colour says what no word says, and lengths are integers of a whole that is the longest bar.

use std::collections::BTreeMap;

use maud::{Markup, html};
use payfold_schemas::finding::{Code, FindingChanged};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;
use payfold_schemas::order::Severity;
use payfold_schemas::run::ControlTotal;
use payfold_schemas::time::Time;

use super::Report;
use super::kinds::title;
use super::parts::{Parts, at_risk};
use super::when::age_days;
use super::words::{count, len};
use crate::money;

/// A bar's whole length.
const WHOLE: u128 = 1_000;
/// The ages that are counted together, by their last day.
const AGES: [(&str, u64); 5] =
    [("0–1", 1), ("2–3", 3), ("4–7", 7), ("8–30", 30), ("over 30", u64::MAX)];
/// From the loudest, as columns are stacked from the ground.
const LOUDNESS: [Severity; 3] = [Severity::Critical, Severity::High, Severity::Warn];

/// The plots of open findings; nothing where none is open.
pub(super) fn section(report: &Report<'_>, parts: &Parts<'_>) -> Markup {
    if parts.open.is_empty() {
        return Markup::default();
    }
    html! {
        div.plots {
            (by_kind(&parts.open))
            (ageing(&parts.open, report.now))
        }
    }
}

/// So many thousandths of the longest; at least one where there is anything.
fn length(part: u128, longest: u128) -> u128 {
    let length = part.saturating_mul(WHOLE) / longest.max(1);
    if part > 0 { length.max(1) } else { 0 }
}

fn bar(class: &str, part: u128, longest: u128) -> Markup {
    html! {
        svg.bar viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            rect.(class) width=(length(part, longest)) height="10" {}
        }
    }
}

fn by_kind(open: &[&FindingChanged]) -> Markup {
    let mut kinds: BTreeMap<Code, Vec<&FindingChanged>> = BTreeMap::new();
    for finding in open {
        kinds.entry(finding.code).or_default().push(finding);
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(code, findings)| (std::cmp::Reverse(findings.len()), *code));
    let longest = u128::from(kinds.iter().map(|(_, findings)| len(findings)).max().unwrap_or(0));
    html! {
        figure {
            table.bars {
                caption { "Open differences by kind" }
                thead.unseen { tr { th scope="col" { "Kind" } th scope="col" { "Bar" } th scope="col" { "Findings" } } }
                tbody {
                    @for (code, findings) in &kinds {
                        tr {
                            @let severity = findings.iter().map(|found| found.severity).max().unwrap_or(code.severity());
                            th scope="row" { (title(*code)) small { (severity.as_str()) } }
                            td.track { (bar(severity.as_str(), len(findings).into(), longest)) }
                            td.num { (count(len(findings))) @let risk = at_risk(findings);
                                @for (currency, minor) in risk.iter().filter(|(_, minor)| **minor != 0) {
                                    small { (money::named(*minor, *currency)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// How many findings of each loudness are of each age.
fn ages(open: &[&FindingChanged], now: Time) -> [[u64; LOUDNESS.len()]; AGES.len()] {
    let mut ages = [[0; LOUDNESS.len()]; AGES.len()];
    for finding in open {
        let days = age_days(finding.first_seen, now);
        let age = AGES.iter().position(|(_, last)| days <= *last).unwrap_or(AGES.len() - 1);
        let loudness = LOUDNESS.iter().position(|severity| *severity == finding.severity);
        ages[age][loudness.unwrap_or(LOUDNESS.len() - 1)] += 1;
    }
    ages
}

/// A column of the ageing plot: its place, its stack from the ground, its words.
struct Column {
    x: u64,
    /// Class, top and height.
    stack: Vec<(Severity, u64, u64)>,
    top: u64,
    count: u64,
    words: &'static str,
}

/// The ground of the columns, and how high the highest is.
const GROUND: u64 = 126;
const HEIGHT: u64 = 96;

fn columns(ages: &[[u64; LOUDNESS.len()]; AGES.len()]) -> Vec<Column> {
    let longest = ages.iter().map(|age| age.iter().sum::<u64>()).max().unwrap_or(0).max(1);
    let column =
        |((number, age), (words, _)): ((u64, &[u64; LOUDNESS.len()]), &(&'static str, u64))| {
            let (mut below, mut top, mut stack) = (0, GROUND, Vec::new());
            for (severity, here) in LOUDNESS.into_iter().zip(age) {
                below += here;
                let height = below.saturating_mul(HEIGHT) / longest;
                let from = if *here > 0 { (GROUND - height).min(top - 1) } else { top };
                if top > from {
                    stack.push((severity, from, top - from));
                }
                top = from;
            }
            Column { x: 8 + number * 62, stack, top, count: below, words }
        };
    (0..).zip(ages).zip(&AGES).map(column).collect()
}

fn ageing(open: &[&FindingChanged], now: Time) -> Markup {
    let ages = ages(open, now);
    let told: Vec<String> = AGES
        .iter()
        .zip(&ages)
        .map(|((days, _), age)| format!("{days} days: {}", age.iter().sum::<u64>()))
        .collect();
    html! {
        figure.ageing {
            figcaption { "Open differences by age, in days" }
            svg viewBox="0 0 320 150" role="img" aria-label=(told.join(", ")) {
                line.ground x1="0" x2="320" y1=(GROUND) y2=(GROUND) {}
                @for column in columns(&ages) {
                    @for (severity, y, height) in &column.stack {
                        rect.(severity.as_str()) x=(column.x) y=(y) width="48" height=(height) {}
                    }
                    text x=(column.x + 24) y=(column.top - 6) { (count(column.count)) }
                    text.under x=(column.x + 24) y="144" { (column.words) }
                }
            }
            ul.legend { @for severity in LOUDNESS {
                li { svg viewBox="0 0 10 10" aria-hidden="true" { rect.(severity.as_str()) width="10" height="10" {} } (severity.as_str()) }
            } }
        }
    }
}

/// Ours beside theirs, by currency; each currency is measured by its own largest sum.
pub(super) fn side_by_side(totals: &[ControlTotal]) -> Markup {
    let mut sums: BTreeMap<Currency, BTreeMap<&str, (i128, i128)>> = BTreeMap::new();
    for total in totals {
        let (ours, partners) =
            sums.entry(total.currency).or_default().entry(moved(total.status)).or_default();
        *ours += i128::from(total.ours.amount);
        *partners += i128::from(total.partners.amount);
    }
    html! {
        div.plots {
            @for (currency, kinds) in &sums {
                @let longest = kinds.values().map(|(a, b)| a.unsigned_abs().max(b.unsigned_abs())).max().unwrap_or(0);
                figure {
                    table.bars.pairs {
                        caption { (currency) ", ours and the partner's" }
                        thead.unseen { tr { th scope="col" { "Total" } th scope="col" { "Bar" } th scope="col" { "Sum" } } }
                        @for (kind, (ours, partners)) in kinds {
                            tbody {
                                @for (whose, class, minor) in [("ours", "ours", ours), ("partner", "theirs", partners)] {
                                    tr {
                                        th scope="row" { (kind) ", " (whose) }
                                        td.track { (bar(class, minor.unsigned_abs(), longest)) }
                                        td.num { (money::major(*minor, *currency)) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What a status is of money.
pub(super) fn moved(status: Status) -> &'static str {
    match status {
        Status::Success => "Paid",
        Status::Refunded => "Refunded",
        Status::Failed => "Failed",
        Status::Expired => "Expired",
    }
}
