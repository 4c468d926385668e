//! Owns the plots: open findings by code and by age, and the totals side by side. Invariants: every
//! bar has its number beside it as text; no color carries a meaning that the text lacks; lengths
//! are integers relative to the longest bar.

use std::collections::BTreeMap;

use maud::{Markup, html};
use payfold_schemas::finding::{Code, FindingChanged};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;
use payfold_schemas::order::Severity;
use payfold_schemas::run::ControlTotal;
use payfold_schemas::time::Time;

use super::codes::title;
use super::finding_groups::{FindingGroups, at_risk};
use super::report::Report;
use super::text::{count, len};
use super::times::age_days;
use crate::money;

/// The length of the longest bar.
const BAR_LENGTH: u128 = 1_000;
/// The age groups in days: label and last day.
const AGES: [(&str, u64); 5] =
    [("0–1", 1), ("2–3", 3), ("4–7", 7), ("8–30", 30), ("over 30", u64::MAX)];
/// The severities from the highest, in the order columns are stacked from the baseline.
const SEVERITIES: [Severity; 3] = [Severity::Critical, Severity::High, Severity::Warn];

/// The plots of open findings; empty if none is open.
pub(super) fn section(report: &Report<'_>, groups: &FindingGroups<'_>) -> Markup {
    if groups.open.is_empty() {
        return Markup::default();
    }
    html! {
        div.plots {
            (plot_by_code(&groups.open))
            (plot_ages(&groups.open, report.now))
        }
    }
}

/// The length of a bar; at least 1 if its value is not zero, so that it is visible.
fn length(part: u128, longest: u128) -> u128 {
    let length = part.saturating_mul(BAR_LENGTH) / longest.max(1);
    if part > 0 { length.max(1) } else { 0 }
}

fn bar(class: &str, part: u128, longest: u128) -> Markup {
    html! {
        svg.bar viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true"
            focusable="false" {
            rect.(class) width=(length(part, longest)) height="10" {}
        }
    }
}

fn plot_by_code(open: &[&FindingChanged]) -> Markup {
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
                thead.unseen { tr {
                    th scope="col" { "Kind" } th scope="col" { "Bar" } th scope="col" { "Findings" }
                } }
                tbody {
                    @for (code, findings) in &kinds {
                        tr {
                            @let highest = findings.iter().map(|found| found.severity).max();
                            @let severity = highest.unwrap_or(code.severity());
                            th scope="row" { (title(*code)) small { (severity.as_str()) } }
                            td.track { (bar(severity.as_str(), len(findings).into(), longest)) }
                            td.num { (count(len(findings))) @let risk = at_risk(findings);
                                @for (currency, minor) in
                                    risk.iter().filter(|(_, minor)| **minor != 0)
                                {
                                    small { (money::major_named(*minor, *currency)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Counts findings by age group and severity.
fn count_ages(open: &[&FindingChanged], now: Time) -> [[u64; SEVERITIES.len()]; AGES.len()] {
    let mut ages = [[0; SEVERITIES.len()]; AGES.len()];
    for finding in open {
        let days = age_days(finding.first_seen, now);
        let age = AGES.iter().position(|(_, last)| days <= *last).unwrap_or(AGES.len() - 1);
        let severity_index = SEVERITIES.iter().position(|severity| *severity == finding.severity);
        ages[age][severity_index.unwrap_or(SEVERITIES.len() - 1)] += 1;
    }
    ages
}

/// A column of the ageing plot.
struct AgeColumn {
    x: u64,
    /// Severity, top and height of each part, from the baseline up.
    stack: Vec<(Severity, u64, u64)>,
    top: u64,
    count: u64,
    label: &'static str,
}

/// The baseline of the columns, and the height of the highest one, in units of the view box.
const BASELINE: u64 = 126;
const COLUMN_HEIGHT: u64 = 96;

fn columns(ages: &[[u64; SEVERITIES.len()]; AGES.len()]) -> Vec<AgeColumn> {
    let longest = ages.iter().map(|age| age.iter().sum::<u64>()).max().unwrap_or(0).max(1);
    let column =
        |((number, age), (label, _)): ((u64, &[u64; SEVERITIES.len()]), &(&'static str, u64))| {
            let (mut below, mut top, mut stack) = (0, BASELINE, Vec::new());
            for (severity, here) in SEVERITIES.into_iter().zip(age) {
                below += here;
                let height = below.saturating_mul(COLUMN_HEIGHT) / longest;
                let from = if *here > 0 { (BASELINE - height).min(top - 1) } else { top };
                if top > from {
                    stack.push((severity, from, top - from));
                }
                top = from;
            }
            AgeColumn { x: 8 + number * 62, stack, top, count: below, label }
        };
    (0..).zip(ages).zip(&AGES).map(column).collect()
}

fn plot_ages(open: &[&FindingChanged], now: Time) -> Markup {
    let ages = count_ages(open, now);
    let description: Vec<String> = AGES
        .iter()
        .zip(&ages)
        .map(|((days, _), age)| format!("{days} days: {}", age.iter().sum::<u64>()))
        .collect();
    html! {
        figure.ageing {
            figcaption { "Open differences by age, in days" }
            svg viewBox="0 0 320 150" role="img" aria-label=(description.join(", ")) {
                line.ground x1="0" x2="320" y1=(BASELINE) y2=(BASELINE) {}
                @for column in columns(&ages) {
                    @for (severity, y, height) in &column.stack {
                        rect.(severity.as_str()) x=(column.x) y=(y) width="48" height=(height) {}
                    }
                    text x=(column.x + 24) y=(column.top - 6) { (count(column.count)) }
                    text.under x=(column.x + 24) y="144" { (column.label) }
                }
            }
            ul.legend { @for severity in SEVERITIES {
                li {
                    svg viewBox="0 0 10 10" aria-hidden="true" {
                        rect.(severity.as_str()) width="10" height="10" {}
                    }
                    (severity.as_str())
                }
            } }
        }
    }
}

/// Plots our totals beside the partner's, by currency; each currency is relative to its own largest
/// sum.
pub(super) fn side_by_side(totals: &[ControlTotal]) -> Markup {
    let mut sums: BTreeMap<Currency, BTreeMap<&str, (i128, i128)>> = BTreeMap::new();
    for total in totals {
        let (ours, partners) =
            sums.entry(total.currency).or_default().entry(total_kind(total.status)).or_default();
        *ours += i128::from(total.ours.amount);
        *partners += i128::from(total.partners.amount);
    }
    html! {
        div.plots {
            @for (currency, kinds) in &sums {
                @let larger = kinds.values().map(|(a, b)| a.unsigned_abs().max(b.unsigned_abs()));
                @let longest = larger.max().unwrap_or(0);
                figure {
                    table.bars.pairs {
                        caption { (currency) ", ours and the partner's" }
                        thead.unseen { tr {
                            th scope="col" { "Total" }
                            th scope="col" { "Bar" }
                            th scope="col" { "Sum" }
                        } }
                        @for (kind, (ours, partners)) in kinds {
                            tbody {
                                @for (side, class, minor) in
                                    [("ours", "ours", ours), ("partner", "theirs", partners)]
                                {
                                    tr {
                                        th scope="row" { (kind) ", " (side) }
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

/// The kind of a total, by status.
pub(super) fn total_kind(status: Status) -> &'static str {
    match status {
        Status::Success => "Paid",
        Status::Refunded => "Refunded",
        Status::Failed => "Failed",
        Status::Expired => "Expired",
    }
}
