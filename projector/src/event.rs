//! Owns the making of `order.changed`, the event of one record's change of one order. Invariant: an
//! event depends on the log's prefix only, so that a repeat after a crash is byte-identical.

use payfold_engines::log::Message;
use payfold_schemas::event::{
    Cause, EventAttributes, EventProfile, ORDER_CHANGED_TYPE, OrderChanged, REBUILT, order_event_id,
};
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::ipn::Status;
use payfold_schemas::order::{Order, OrderState};
use payfold_schemas::position::Position;
use payfold_schemas::publication::Switch;
use payfold_schemas::record::FactRecord;
use payfold_schemas::time::Time;

/// One change of one order.
pub(crate) struct OrderChange<'a> {
    /// The order after the record.
    pub(crate) order: &'a Order,
    /// The order's state before; `None` if this is its first record.
    pub(crate) previous_state: Option<OrderState>,
    pub(crate) record: &'a FactRecord,
    /// The record's position in `intake`.
    pub(crate) position: Position,
}

impl OrderChange<'_> {
    /// The message for the `orders` topic.
    pub(crate) fn to_message(&self, epoch: u32) -> Message {
        let profile = self.record.source.as_ref().map(|source| &source.profile);
        let profile = profile
            .map(|profile| EventProfile { version: profile.version, digest: profile.digest });
        let data = data(self.order, epoch, self.previous_state, self.cause());
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

/// The event of an order with other published fields in the new build. It is published at the
/// switch to that build.
pub(crate) struct RebuiltOrder<'a> {
    /// The order in the new build.
    pub(crate) order: &'a Order,
    /// The order's state in the build published before; `None` if the order was not there.
    pub(crate) previous_state: Option<OrderState>,
    pub(crate) switch: &'a Switch,
    /// The marker's position in `intake`.
    pub(crate) position: Position,
}

impl RebuiltOrder<'_> {
    /// The message for the `orders` topic.
    pub(crate) fn to_message(&self) -> Message {
        let cause = Cause {
            kind: REBUILT.to_owned(),
            status: None,
            position: self.position,
            request_id: self.switch.request_id,
        };
        let epoch = self.switch.publication.epoch;
        let data = data(self.order, epoch, self.previous_state, cause);
        message(&self.order.key, &data, self.switch.at)
    }
}

/// The fields of an event except its key, epoch, version, previous state, cause and profile, as
/// text. If none of them differs between two builds, a switch publishes nothing of the order.
pub(crate) fn published_fields(order: &Order) -> [(&'static str, String); 13] {
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
        id: order_event_id(key, data.epoch, data.version),
        kind: ORDER_CHANGED_TYPE,
        time,
    };
    let value = serde_json::to_vec(data).expect("an event has string keys only");
    Message { key: key.to_string(), event: Some(event), value, mac: None }
}

/// The data of an event, without the profile.
fn data(
    order: &Order,
    epoch: u32,
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
        epoch,
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

/// When the content of a record happened: for a notice of a success its `paidAt`, for the other
/// notices the timestamp of the delivery, for a passed deadline the deadline. For other records,
/// and where that time is missing, it is the time the record was received.
pub fn occurred_at(record: &FactRecord) -> Time {
    match &record.fact {
        Fact::Ipn(ipn) => {
            let stated = match ipn.status {
                Status::Success => ipn.money.paid_at,
                Status::Failed | Status::Expired | Status::Refunded => ipn.timestamp,
            };
            stated.unwrap_or(record.received_at)
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
    use crate::batch::{FoldOptions, fold_batch};
    use crate::fold::testkit::{at, fact};

    /// A field that is added to the event has to be compared, too.
    #[test]
    fn published_fields_are_all_fields_but_the_key_and_the_cause() {
        let record = FactRecord {
            order: OrderKey::parse("p/M/a").unwrap(),
            fact: fact("C 100"),
            request_id: "01939b1c-7a00-7000-8000-000000000001".parse().unwrap(),
            received_at: at("10:10"),
            source: None,
        };
        let options = FoldOptions { epochs: [(0, 1)].into(), ..FoldOptions::default() };
        let changes =
            fold_batch(&mut Default::default(), &[(Position::default(), record)], &options);
        let event: serde_json::Value = serde_json::from_slice(&changes.events[0].value).unwrap();
        let mut fields: BTreeSet<&str> =
            event.as_object().unwrap().keys().map(String::as_str).collect();
        for of_the_event in [
            "partner",
            "merchantCode",
            "orderId",
            "epoch",
            "version",
            "previousState",
            "cause",
            "profile",
            "exponent",
        ] {
            assert!(fields.remove(of_the_event), "{of_the_event}");
        }
        let published: BTreeSet<&str> =
            published_fields(&changes.orders[0]).iter().map(|(name, _)| *name).collect();
        assert_eq!(published, fields);
    }
}
