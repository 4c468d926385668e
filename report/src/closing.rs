//! Owns the section about the day's closing: who sealed which totals, and what has changed since.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use maud::{Markup, html};
use payfold_schemas::finding::FindingChanged;
use payfold_schemas::money::Currency;
use payfold_schemas::run::{ControlTotal, PeriodClosed, RunResult, Sum};

use super::codes;
use super::plots::total_kind;
use super::report::Report;
use super::text::{count, counted, isolated, len, short_id};
use crate::money;

/// The seal and the adjustments; empty while the day is open.
pub(super) fn section(report: &Report<'_>) -> Markup {
    let Some(closed) = report.closed else { return Markup::default() };
    html! {
        section aria-labelledby="closing" {
            h2 #closing { "Closing" }
            p {
                "Closed by " b { (isolated(closed.author.as_str())) } ", "
                (report.zone().moment(closed.at)) ", on the totals of run "
                code { (isolated(&closed.run)) } " and "
                (counted(len(&closed.findings), "finding")) "."
            }
            p { "Seal " code { (closed.seal) } }
            @match report.ended.result {
                RunResult::Complete => { (adjustments(closed, &report.ended.totals)) },
                RunResult::Incomplete => {
                    p { "The run of this page is incomplete: its totals are no adjustment." }
                },
            }
            (changed_findings(closed, report.findings))
        }
    }
}

/// How many findings are named.
const NAMED: usize = 20;

/// The findings that are new or have changed since the day was sealed, the most severe first; empty
/// if there are none.
fn changed_findings(closed: &PeriodClosed, findings: &[FindingChanged]) -> Markup {
    let sealed: HashSet<&str> = closed.findings.iter().map(String::as_str).collect();
    let is_sealed = |finding: &FindingChanged| sealed.contains(finding.event_id().as_str());
    let mut changed: Vec<_> = findings.iter().filter(|finding| !is_sealed(finding)).collect();
    changed.sort_by_key(|finding| (Reverse(finding.severity), finding.code));
    let more = changed.len().saturating_sub(NAMED);
    html! {
        @if !changed.is_empty() {
            p {
                (counted(len(&changed), "finding"))
                " of the day came or changed after it was sealed:"
            }
            ul {
                @for finding in changed.iter().take(NAMED) {
                    li {
                        (codes::title(finding.code)) ", now " (finding.status.as_str()) ": finding "
                        code { (isolated(short_id(&finding.finding_id))) }
                    }
                }
                @if more > 0 { li { "and " (more) " more" } }
            }
        }
    }
}

/// Our sum and the partner's.
type BothSums = (Sum, Sum);

/// The sealed and the present sums, by day, currency and kind.
fn sealed_and_present(
    closed: &PeriodClosed,
    now: &[ControlTotal],
) -> BTreeMap<(String, Currency, &'static str), (BothSums, BothSums)> {
    let of = |total: &ControlTotal| (total.day.clone(), total.currency, total_kind(total.status));
    let sides = |total: &ControlTotal| (total.ours.clone(), total.partners.clone());
    let mut sealed_and_present: BTreeMap<_, (BothSums, BothSums)> = BTreeMap::new();
    for total in &closed.totals {
        sealed_and_present.entry(of(total)).or_default().0 = sides(total);
    }
    for total in now {
        sealed_and_present.entry(of(total)).or_default().1 = sides(total);
    }
    sealed_and_present
}

fn sum(sum: &Sum, currency: Currency) -> Markup {
    html! { (money::major(sum.amount.into(), currency)) small { (count(sum.count)) " ×" } }
}

/// The present amount less the sealed amount, with its sign.
fn change(sealed: &Sum, now: &Sum, currency: Currency) -> String {
    money::signed(i128::from(now.amount) - i128::from(sealed.amount), currency)
}

fn adjustments(closed: &PeriodClosed, now: &[ControlTotal]) -> Markup {
    let sealed_and_present = sealed_and_present(closed, now);
    let changed: Vec<_> =
        sealed_and_present.iter().filter(|(_, (sealed, now))| sealed != now).collect();
    html! {
        @if changed.is_empty() {
            p { "Its totals are as they were sealed." }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Adjusted totals" {
                table.ledger {
                    caption { "Adjustments: what has changed since the day was sealed" }
                    thead { tr {
                        th scope="col" { "Day" }
                        th scope="col" { "Currency" }
                        th scope="col" { "Kind" }
                        th scope="col" { "Side" }
                        th.num scope="col" { "Sealed" }
                        th.num scope="col" { "Now" }
                        th.num scope="col" { "Change" }
                    } }
                    tbody { @for ((day, currency, kind), (sealed, present)) in changed {
                        @for (side, sealed, now) in
                            [("ours", &sealed.0, &present.0), ("partner", &sealed.1, &present.1)]
                        {
                            @if sealed != now { tr {
                                th scope="row" { (isolated(day)) }
                                td { (currency) }
                                td { (kind) }
                                td { (side) }
                                td.num { (sum(sealed, *currency)) }
                                td.num { (sum(now, *currency)) }
                                td.num { b { (change(sealed, now, *currency)) } }
                            } }
                        }
                    } }
                }
            }
        }
    }
}
