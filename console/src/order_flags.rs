//! Owns an order's flags on its page, each with what it means, who decided it, and the form for it.

use maud::{Markup, html};
use payfold_api::decisions::DECIDE_FLAG;
use payfold_report::codes::{action_for_flag, flag_meaning, verdict_text};
use payfold_schemas::fact::Verdict;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::RaisedFlag;
use payfold_views::decisions::{DecidedKind, DecisionRow, DecisionStatus};

use crate::choice::Choice;
use crate::decide::DecisionFields;
use crate::finding_row::action;
use crate::session::Session;
use crate::subject::Subject;
use crate::text::{moment, people, reasons};

/// The flags of an order.
pub(crate) struct OrderFlags<'o> {
    pub(crate) order: OrderKey,
    pub(crate) flags: &'o [RaisedFlag],
    /// The decisions about the order.
    pub(crate) decisions: &'o [DecisionRow],
    pub(crate) session: &'o Session,
}

impl OrderFlags<'_> {
    /// The flags, open ones first.
    pub(crate) fn render(&self) -> Markup {
        let (open, decided): (Vec<_>, Vec<_>) =
            self.flags.iter().partition(|raised| raised.is_open());
        html! {
            h2 { "What does not fit" }
            ul.flags {
                @for raised in open { (self.item(raised)) }
                @for raised in decided { (self.item(raised)) }
            }
        }
    }

    fn item(&self, raised: &RaisedFlag) -> Markup {
        let decisions: Vec<_> = self.decisions_on(raised).collect();
        html! {
            li {
                span.badge.(raised.severity.as_str()) { (raised.flag) }
                " " (flag_meaning(raised.flag))
                @if raised.needs_attention() { (action(action_for_flag(raised.flag))) }
                @for row in &decisions { (decision(row)) }
                @if let (true, Some(id)) = (decisions.is_empty(), &raised.decided_by) {
                    small { "decided, by the fact " code { (id) } }
                }
                @if raised.is_open() && self.session.may(&DECIDE_FLAG) {
                    (self.decision_fields(raised))
                }
            }
        }
    }

    /// The decisions on what raises the flag now. Those on other evidence no longer count.
    fn decisions_on(&self, raised: &RaisedFlag) -> impl Iterator<Item = &DecisionRow> {
        self.decisions.iter().filter(move |row| {
            row.kind == DecidedKind::Flag
                && row.code == raised.flag.as_str()
                && row.evidence == Some(raised.evidence)
        })
    }

    /// The form that decides a flag.
    fn decision_fields(&self, raised: &RaisedFlag) -> Markup {
        let subject = Subject::Flag(self.order.clone(), raised.flag, raised.evidence);
        let form = DecisionFields::on(subject.path(), Choice::RECORDS).of_severity(raised.severity);
        let waits = self.decisions_on(raised).find(|row| row.status == DecisionStatus::Waiting);
        let first = waits.map(|first| &first.author);
        html! {
            details {
                summary {
                    @if first == Some(&self.session.person.name) { "Take your decision back" }
                    @else { "Decide " (raised.flag) }
                }
                (form.offered(&subject, first, self.session))
            }
        }
    }
}

/// A decision on a flag, with its standing.
fn decision(row: &DecisionRow) -> Markup {
    let verdict = Verdict::parse(&row.verdict).map(verdict_text);
    html! {
        small {
            (moment(row.at)) " " (people(&row.author, row.seconded_by.as_ref()))
            @match row.status {
                DecisionStatus::Withdrawn => " took it back",
                _ => { ": " b { (verdict.unwrap_or(&row.verdict)) } }
            }
            ", " (reasons(&row.reason, row.second_reason.as_deref()))
            @match row.status {
                DecisionStatus::Waiting => " – waits for a second person",
                DecisionStatus::Superseded => " – completed or replaced by what follows",
                DecisionStatus::Replaced => " – replaced",
                DecisionStatus::Reopened => " – opened again since",
                DecisionStatus::Final | DecisionStatus::Withdrawn => "",
            }
        }
    }
}
