//! Owns the section of control totals: ours beside the partner's by day, currency and kind, with
//! the explanation of each difference of sums.

use maud::{Markup, html};
use payfold_schemas::run::{ControlTotal, RunResult};

use super::codes::title;
use super::explanation::{self, Contributions};
use super::plots::{side_by_side, total_kind};
use super::report::Report;
use super::text::{count, isolated};
use crate::money;

/// The totals as plots and as a table.
pub(super) fn section(report: &Report<'_>) -> Markup {
    let totals = &report.ended.totals;
    let contributions = explanation::contributions(report);
    html! {
        section aria-labelledby="totals" {
            h2 #totals { "Control totals" }
            @if totals.is_empty() {
                p { @match report.ended.result {
                    RunResult::Complete => "No money moved on either side.",
                    RunResult::Incomplete => "There are none: the run is incomplete.",
                } }
            } @else {
                (side_by_side(totals))
                div.scroll tabindex="0" role="region" aria-label="Control totals as a table" {
                    table.ledger {
                        caption {
                            "Count and sum by day, currency and kind, as the run found them; the \
                             difference is ours less the partner's"
                        }
                        thead {
                            tr {
                                th scope="col" rowspan="2" { "Day" }
                                th scope="col" rowspan="2" { "Currency" }
                                th scope="col" rowspan="2" { "Kind" }
                                th.num scope="colgroup" colspan="2" { "Ours" }
                                th.num scope="colgroup" colspan="2" { "Partner" }
                                th.num scope="colgroup" colspan="2" { "Difference" }
                            }
                            tr { @for _ in 0..3 {
                                th.num scope="col" { "Count" } th.num scope="col" { "Sum" }
                            } }
                        }
                        @for total in totals { (rows(report, total, &contributions)) }
                    }
                }
            }
        }
    }
}

fn rows(report: &Report<'_>, total: &ControlTotal, contributions: &Contributions) -> Markup {
    let currency = total.currency;
    let sum = |minor: i64| money::major(i128::from(minor), currency);
    let explained = explanation(report, total, contributions);
    let (ours, partners) = (&total.ours, &total.partners);
    let counts = i128::from(ours.count) - i128::from(partners.count);
    html! {
        tbody {
            tr {
                th scope="row" { (isolated(&total.day)) }
                td { (currency) }
                td { (total_kind(total.status)) }
                td.num { (count(ours.count)) }
                td.num { (sum(ours.amount)) }
                td.num { (count(partners.count)) }
                td.num { (sum(partners.amount)) }
                td.num {
                    @if counts > 0 { "+" } @else if counts < 0 { "−" } (counts.unsigned_abs())
                }
                td.num { b { (money::signed(difference(total), currency)) } }
            }
            @if let Some(explained) = explained {
                tr.why { td colspan="9" { (explained) } }
            }
        }
    }
}

fn difference(total: &ControlTotal) -> i128 {
    i128::from(total.ours.amount) - i128::from(total.partners.amount)
}

/// The contributions of findings, and the rest that none explains; `None` if both sides
/// agree and no finding contributes.
fn explanation(
    report: &Report<'_>,
    total: &ControlTotal,
    contributions: &Contributions,
) -> Option<Markup> {
    let key = (total.day.clone(), total.currency, total.status);
    let contributions = contributions.get(&key);
    let explained: i128 =
        contributions.into_iter().flatten().map(|(_, contribution)| contribution.minor).sum();
    let rest = difference(total) - explained;
    let agrees = difference(total) == 0 && total.ours.count == total.partners.count;
    if agrees && contributions.is_none() {
        return None;
    }
    let signed = |minor| money::signed(minor, total.currency);
    Some(html! {
        @if let Some(contributions) = contributions {
            "Findings: "
            @for (index, (code, contribution)) in contributions.iter().enumerate() {
                @if index > 0 { "; " }
                (count(contribution.findings)) " × " (title(*code)) " "
                span.figure { (signed(contribution.minor)) }
            }
            ". "
        }
        @if rest != 0 { (unexplained(report, &signed(rest))) }
        @else if contributions.is_some() { "The whole sum is explained." }
        @else { "The sums agree; no finding explains the counts." }
    })
}

fn unexplained(report: &Report<'_>, rest: &str) -> Markup {
    let compared = &report.ended.compared;
    let (pending, cut_off) = (compared.pending, compared.cut_off);
    html! {
        "No finding explains " span.figure { (rest) } ": "
        @if report.ended.records.bad > 0 {
            "look first among the lines that could not be read."
        } @else if pending > 0 || cut_off > 0 {
            "look among the payments without a finding; the whole run has " (count(pending))
            " within the grace period and " (count(cut_off))
            " of a neighbouring day that this day's records list."
        } @else {
            "it belongs to findings that cleared after the run, or to notices of another amount, \
             which don't count as paid here. Run the day again to see what is left."
        }
    }
}
