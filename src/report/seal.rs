//! Owns the closing: who sealed which totals of the day, and what has changed since.

use std::collections::BTreeMap;

use maud::{Markup, html};
use payfold_schemas::money::Currency;
use payfold_schemas::run::{ControlTotal, PeriodClosed, RunResult, Sum};

use super::Report;
use super::plots::moved;
use super::words::{count, counted, len, said};
use crate::money;

/// The seal and the adjustments; nothing while the day is open.
pub(super) fn section(report: &Report<'_>) -> Markup {
    let Some(closed) = report.closed else { return Markup::default() };
    html! {
        section aria-labelledby="closing" {
            h2 #closing { "Closing" }
            p {
                "Closed by " b { (said(closed.author.as_str())) } ", " (report.zone().moment(closed.at)) ", on the totals of run "
                code { (said(&closed.run)) } " and " (counted(len(&closed.findings), "finding")) "."
            }
            p { "Seal " code { (closed.seal) } }
            @match report.ended.result {
                RunResult::Complete => { (adjustments(closed, &report.ended.totals)) },
                RunResult::Incomplete => {
                    p { "The run of this page is incomplete: what its totals say is no adjustment." }
                },
            }
        }
    }
}

/// Ours and theirs.
type Sides = (Sum, Sum);

/// What was sealed and what is now, by day, currency and kind.
fn beside(
    closed: &PeriodClosed,
    now: &[ControlTotal],
) -> BTreeMap<(String, Currency, &'static str), (Sides, Sides)> {
    let of = |total: &ControlTotal| (total.day.clone(), total.currency, moved(total.status));
    let sides = |total: &ControlTotal| (total.ours.clone(), total.partners.clone());
    let mut beside: BTreeMap<_, (Sides, Sides)> = BTreeMap::new();
    for total in &closed.totals {
        beside.entry(of(total)).or_default().0 = sides(total);
    }
    for total in now {
        beside.entry(of(total)).or_default().1 = sides(total);
    }
    beside
}

fn sum(sum: &Sum, currency: Currency) -> Markup {
    html! { (money::major(sum.amount.into(), currency)) small { (count(sum.count)) " ×" } }
}

fn adjustments(closed: &PeriodClosed, now: &[ControlTotal]) -> Markup {
    let beside = beside(closed, now);
    let changed: Vec<_> = beside.iter().filter(|(_, (sealed, now))| sealed != now).collect();
    html! {
        @if changed.is_empty() {
            p { "Its totals are as they were sealed." }
        } @else {
            div.scroll tabindex="0" role="region" aria-labelledby="closing" {
                table.ledger {
                    caption { "Adjustments: what has changed since the day was sealed" }
                    thead { tr {
                        th scope="col" { "Day" } th scope="col" { "Currency" } th scope="col" { "Kind" } th scope="col" { "Whose" }
                        th.num scope="col" { "Sealed" } th.num scope="col" { "Now" } th.num scope="col" { "Change" }
                    } }
                    tbody { @for ((day, currency, kind), ((ours, partners), (ours_now, partners_now))) in changed {
                        @for (whose, sealed, now) in [("ours", ours, ours_now), ("partner", partners, partners_now)] {
                            @if sealed != now { tr {
                                th scope="row" { (said(day)) }
                                td { (currency) }
                                td { (kind) }
                                td { (whose) }
                                td.num { (sum(sealed, *currency)) }
                                td.num { (sum(now, *currency)) }
                                td.num { b { (money::signed(i128::from(now.amount) - i128::from(sealed.amount), *currency)) } }
                            } }
                        }
                    } }
                }
            }
        }
    }
}
