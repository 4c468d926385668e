//! Owns an order's flags on its page, each with what it means, who decided it, and the form for it.

use maud::{Markup, html};
use payfold_api::decisions::DECIDE_FLAG;
use payfold_report::codes::verdict_text;
use payfold_schemas::fact::Verdict;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::{Flag, RaisedFlag};
use payfold_views::decisions::{DecidedKind, DecisionRow, DecisionStatus};

use crate::choice::Choice;
use crate::decide::DecisionFields;
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
                " " (meaning(raised.flag))
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
        let form = DecisionFields::on(subject.path(), Choice::RECORDS);
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

/// What a flag means.
fn meaning(flag: Flag) -> &'static str {
    match flag {
        Flag::AmountMismatch => "The amount that was paid is not the one that was asked.",
        Flag::CurrencyMismatch => "What was paid is in another currency.",
        Flag::ContentVariant => "The partner sent one notice with different contents.",
        Flag::DoublePayment => "The order was paid more than once.",
        Flag::ProviderRefReused => "The partner used one reference for different orders.",
        Flag::CreateConflict => "The shop asked for this order with different contents.",
        Flag::SecondSession => "The partner opened a second session.",
        Flag::SuccessAndFailed => "The partner said both paid and failed.",
        Flag::SuccessAndExpired => "The partner said both paid and expired.",
        Flag::PaidAfterDeadline => "It was paid after the time to pay was over.",
        Flag::RefundWithoutSuccess => "Money was given back for a payment that no notice reported.",
        Flag::RefundAndNegative => "Money was given back, and the partner also said not paid.",
        Flag::PartialRefund => "A part of the money was given back.",
        Flag::UnknownOrder => {
            "The partner reports money for an order that the shop never asked for."
        }
        Flag::QueryDisagrees => "Asked, the partner answered something else than its notice says.",
        Flag::Unconfirmed => "A notice counts only once the partner confirms it when asked.",
        Flag::SettledByQuery => "The partner's answer settled it; its notice has not come.",
        Flag::ProviderRefUnexpected => "The notice has another reference than the session.",
        Flag::FactOverflow => "More was reported than an order keeps.",
        Flag::DecisionsConflict => "Two decisions about the same thing disagree.",
    }
}
