//! Owns findings as rows of a table, which the list of findings and an order's page have.

use maud::{Markup, html};
use payfold_report::codes::{title_of, verdict_text};
use payfold_report::money::major_named;
use payfold_report::text::{isolated, short_id, shown};
use payfold_report::values::{OurCurrencies, ValueFormat, format_sides, source_of, what_differs};
use payfold_schemas::finding::{Code, FindingChanged, FindingDecision, FindingStatus, Side};

use crate::search::path_of_search;
use crate::subject::Subject;
use crate::table::{Head, table};
use crate::text::{moment, money, people, reasons};

/// A table of findings.
pub(crate) struct FindingTable<'a> {
    /// Our currencies of payments that differ in it.
    pub(crate) currencies: OurCurrencies<'a>,
    /// Whether an open finding has a box to tick.
    pub(crate) has_boxes: bool,
}

/// What a decision on a finding is on.
pub(crate) fn subject_of(finding: &FindingChanged) -> Subject {
    Subject::Finding(finding.finding_id.clone(), finding.evidence)
}

/// The texts of both sides, ours first.
pub(crate) fn sides<'a>(
    finding: &'a FindingChanged,
    currencies: &OurCurrencies<'a>,
) -> (String, String) {
    format_sides(finding, currencies, ValueFormat::with_money(major_named))
}

/// The address of the page of a finding's order; `None` if it names none. An order that only the
/// partner knows is searched for: it may have come since.
pub(crate) fn order_path(finding: &FindingChanged) -> Option<String> {
    let order = finding.order_key()?;
    Some(match finding.code {
        Code::MissingHere => path_of_search(order.order_id.as_str()),
        _ => format!("/orders/{order}"),
    })
}

/// Who decided what and why. The time is that of the first decision; of a flag, when it was
/// decided for good.
pub(crate) fn decision_text(finding: &FindingChanged, decision: &FindingDecision) -> Markup {
    html! {
        @if finding.flag.is_some() {
            (people(&decision.author, decision.seconded_by.as_ref())) " (" (moment(decision.at)) ")"
        } @else {
            (isolated(decision.author.as_str())) " (" (moment(decision.at)) ")"
            @if let Some(second) = &decision.seconded_by { " and " (isolated(second.as_str())) }
        }
        ": " b { (verdict_text(decision.accept)) } ", "
        (reasons(&decision.reason, decision.second_reason.as_deref()))
    }
}

impl<'a> FindingTable<'a> {
    /// The table.
    pub(crate) fn render(&self, findings: &[&'a FindingChanged]) -> Markup {
        let heads: &[_] = match findings.first() {
            Some(first) if first.flag.is_some() => &[
                Head::Text("Finding"),
                Head::Text("Flag"),
                Head::Number("At risk"),
                Head::Text("Found"),
            ],
            _ => &[
                Head::Text("Finding"),
                Head::Text("Field"),
                Head::Text("Here"),
                Head::Text("Partner"),
                Head::Number("At risk"),
                Head::Text("Found"),
            ],
        };
        // A page may have several tables of one kind.
        let label = findings.first().map_or_else(String::new, |first| {
            format!("{}, from {}", title_of(first), short_id(&first.finding_id))
        });
        table(&label, heads, &html! { @for finding in findings { (self.row(finding)) } })
    }

    fn row(&self, finding: &'a FindingChanged) -> Markup {
        let (ours, partners) = sides(finding, &self.currencies);
        let has_box = self.has_boxes && finding.status == FindingStatus::Open;
        let name = name(finding);
        html! {
            tr {
                th scope="row" {
                    @if has_box {
                        input type="checkbox" name="on" value=(subject_of(finding))
                            aria-label={ "decide " (name) };
                        " "
                    }
                    a href={ "/findings/" (finding.finding_id) } { (isolated(&name)) }
                    small { (finding.partner) " " (finding.day) }
                }
                td { (isolated(what_differs(finding))) }
                @if finding.flag.is_none() {
                    td { (side(&ours, finding, &finding.ours)) }
                    td { (side(&partners, finding, &finding.partners)) }
                }
                td.num {
                    @if finding.money_at_risk == 0 { "–" }
                    @else { (money(finding.money_at_risk, finding.currency)) }
                }
                td { (moment(finding.first_seen)) (standing(finding)) }
            }
        }
    }
}

/// What a person knows a finding by.
fn name(finding: &FindingChanged) -> String {
    let names = [
        finding.order_id.as_ref().map(|order| order.as_str()),
        finding.payment_ref.as_ref().map(|payment| payment.as_str()),
        finding.reference.as_ref().map(|reference| reference.as_str()),
    ];
    let name = names.into_iter().flatten().next();
    name.map_or_else(|| title_of(finding).to_owned(), str::to_owned)
}

/// A side's value and its source.
pub(crate) fn side(value: &str, finding: &FindingChanged, side: &Side) -> Markup {
    html! { (isolated(value)) small { (isolated(source_of(side, finding))) } }
}

/// What to do about a finding; commands are set as such.
pub(crate) fn action(action: &str) -> Markup {
    html! {
        p {
            b { "Do: " }
            @for (at, part) in action.split('`').enumerate() {
                @if at % 2 == 1 { code { (shown(part)) } } @else { (isolated(part)) }
            }
            "."
        }
    }
}

/// How far the decision on it has come.
fn standing(finding: &FindingChanged) -> Markup {
    html! {
        @match (finding.status, &finding.decision) {
            (FindingStatus::Cleared, _) => small { "cleared: its cause has gone" },
            (FindingStatus::Decided, Some(made)) => {
                small { "decided by " (decision_text(finding, made)) }
            }
            _ => {
                @if let Some(first) = finding.first_decision() {
                    small.waits { "waits for a second person. " (decision_text(finding, first)) }
                }
            }
        }
    }
}
