//! Owns the making of `order.changed`: what one record's change of one order tells.
//! It depends on the log's prefix only, so that a repeat after a crash is byte-identical.

use payfold_engines::log::Message;
use payfold_schemas::event::{
    Cause, EventAttributes, EventProfile, ORDER_CHANGED_TYPE, OrderChanged, REBUILT, order_event_id,
};
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::ipn::Status;
use payfold_schemas::order::{Order, OrderState};
use payfold_schemas::publication::Switch;
use payfold_schemas::record::{FactRecord, Position};
use payfold_schemas::time::Time;

/// One change of one order.
pub(crate) struct Change<'a> {
    /// The order as the record left it.
    pub(crate) order: &'a Order,
    /// Where it stood before; none if this is its first.
    pub(crate) previous_state: Option<OrderState>,
    /// The record, and where it stands in `intake`.
    pub(crate) record: &'a FactRecord,
    pub(crate) position: Position,
}

impl Change<'_> {
    /// The message for the `orders` topic.
    pub(crate) fn to_message(&self, generation: u32) -> Message {
        let profile = self.record.source.as_ref().map(|source| &source.profile);
        let profile = profile
            .map(|profile| EventProfile { version: profile.version, digest: profile.digest });
        let data = data(self.order, generation, self.previous_state, self.cause());
        message(&self.order.key, &OrderChanged { profile, ..data }, occurred_at(self.record))
    }

    fn cause(&self) -> Cause {
        Cause {
            kind: self.record.fact.kind().to_owned(),
            status: self.record.fact.status(),
            position: self.position,
            request_id: self.record.request_id,
        }
    }
}

/// The event of an order that the new tables see in another way, told at the switch to them.
pub(crate) struct Rebuilt<'a> {
    /// As the new tables have it.
    pub(crate) order: &'a Order,
    /// Where it stood in the tables that were told before; none if it was not there.
    pub(crate) previous_state: Option<OrderState>,
    /// The marker, and where it stands in `intake`.
    pub(crate) switch: &'a Switch,
    pub(crate) position: Position,
}

impl Rebuilt<'_> {
    /// The message for the `orders` topic.
    pub(crate) fn to_message(&self) -> Message {
        let cause = Cause {
            kind: REBUILT.to_owned(),
            status: None,
            position: self.position,
            request_id: self.switch.request_id,
        };
        let number = self.switch.publication.number;
        let data = data(self.order, number, self.previous_state, cause);
        message(&self.order.key, &data, self.switch.at)
    }
}

/// What an event tells of an order apart from generation, version and cause: field by field, as people read it.
pub fn told(order: &Order) -> [(&'static str, String); 13] {
    let summary = &order.summary;
    let attention: Vec<&str> = summary.attention().map(|flag| flag.as_str()).collect();
    [
        ("state", summary.state.to_string()),
        ("fulfil", summary.fulfil.to_string()),
        ("attention", attention.join(" ")),
        ("paidAmount", summary.paid_amount.to_string()),
        ("refundedAmount", summary.refunded_amount.to_string()),
        ("amount", text(summary.amount.as_ref())),
        ("currency", text(summary.currency.as_ref())),
        ("reference", text(summary.reference.as_ref())),
        ("attempt", text(summary.attempt.as_ref())),
        ("sessionRef", text(summary.session_ref.as_ref())),
        ("paymentRef", text(summary.payment_ref.as_ref())),
        ("paidAt", text(summary.paid_at.as_ref())),
        ("deadline", text(summary.deadline.as_ref())),
    ]
}

fn text(value: Option<&impl ToString>) -> String {
    value.map(ToString::to_string).unwrap_or_default()
}

fn message(key: &OrderKey, data: &OrderChanged, time: Time) -> Message {
    let event = EventAttributes {
        id: order_event_id(key, data.generation, data.version),
        kind: ORDER_CHANGED_TYPE,
        time,
    };
    let value = serde_json::to_vec(data).expect("an event has string keys only");
    Message { key: key.to_string(), event: Some(event), value }
}

/// What an event tells of an order; the profile is the record's.
fn data(
    order: &Order,
    generation: u32,
    previous_state: Option<OrderState>,
    cause: Cause,
) -> OrderChanged {
    let (key, summary) = (&order.key, &order.summary);
    OrderChanged {
        partner: key.partner.clone(),
        merchant_code: key.merchant_code.clone(),
        order_id: key.order_id.clone(),
        reference: summary.reference.clone(),
        attempt: summary.attempt,
        generation,
        version: order.version,
        previous_state,
        state: summary.state,
        fulfil: summary.fulfil,
        attention: summary.attention().collect(),
        amount: summary.amount,
        currency: summary.currency,
        exponent: summary.currency.map(|currency| currency.exponent()),
        paid_amount: summary.paid_amount,
        refunded_amount: summary.refunded_amount,
        session_ref: summary.session_ref.clone(),
        payment_ref: summary.payment_ref.clone(),
        paid_at: summary.paid_at,
        deadline: summary.deadline,
        cause,
        profile: None,
    }
}

/// When what a record tells happened: S its paidAt; F, E, R the timestamp of the delivery, if it has one;
/// X the deadline; the others, and what is missing, when the record was received.
pub fn occurred_at(record: &FactRecord) -> Time {
    match &record.fact {
        Fact::Ipn(ipn) => {
            let said = match ipn.status {
                Status::Success => ipn.money.paid_at,
                Status::Failed | Status::Expired | Status::Refunded => ipn.timestamp,
            };
            said.unwrap_or(record.received_at)
        }
        Fact::DeadlinePassed { deadline } => *deadline,
        Fact::CreateRequested(_)
        | Fact::SessionOpened(_)
        | Fact::CreateFailed(_)
        | Fact::QueryAnswered(_)
        | Fact::RefShared(_)
        | Fact::Decided(_) => record.received_at,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::batch::{Telling, fold_batch};
    use crate::fold::testkit::{at, fact};

    /// A field that is added to the event has to be compared too.
    #[test]
    fn what_is_told_is_all_an_event_says_but_its_name_and_cause() {
        let record = FactRecord {
            order: OrderKey::parse("p/M/a").unwrap(),
            fact: fact("C 100"),
            request_id: "01939b1c-7a00-7000-8000-000000000001".parse().unwrap(),
            received_at: at("10:10"),
            source: None,
        };
        let telling = Telling { numbers: [(0, 1)].into(), ..Telling::default() };
        let changes =
            fold_batch(&mut Default::default(), &[(Position::default(), record)], &telling);
        let event: serde_json::Value = serde_json::from_slice(&changes.events[0].value).unwrap();
        let mut fields: BTreeSet<&str> =
            event.as_object().unwrap().keys().map(String::as_str).collect();
        for of_the_event in [
            "partner",
            "merchantCode",
            "orderId",
            "generation",
            "version",
            "previousState",
            "cause",
            "profile",
            "exponent",
        ] {
            assert!(fields.remove(of_the_event), "{of_the_event}");
        }
        let told: BTreeSet<&str> = told(&changes.orders[0]).iter().map(|(name, _)| *name).collect();
        assert_eq!(told, fields);
    }
}
