//! Owns the making of `order.changed`: what one record's change of one order tells.
//! It depends on the log's prefix only, so that a repeat after a crash is byte-identical.

use payfold_engines::log::Message;
use payfold_schemas::event::{
    Cause, EventAttributes, EventProfile, ORDER_CHANGED_TYPE, OrderChanged, order_event_id,
};
use payfold_schemas::fact::Fact;
use payfold_schemas::ipn::Status;
use payfold_schemas::order::{Order, OrderState};
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
        let data = self.data(generation);
        let event = EventAttributes {
            id: order_event_id(&self.order.key, generation, self.order.version),
            kind: ORDER_CHANGED_TYPE,
            time: occurred_at(self.record),
        };
        let value = serde_json::to_vec(&data).expect("an event has string keys only");
        Message { key: self.order.key.to_string(), event: Some(event), value }
    }

    fn data(&self, generation: u32) -> OrderChanged {
        let (order, summary) = (self.order, &self.order.summary);
        let profile = self.record.source.as_ref().map(|source| &source.profile);
        OrderChanged {
            partner: order.key.partner.clone(),
            merchant_code: order.key.merchant_code.clone(),
            order_id: order.key.order_id.clone(),
            reference: summary.reference.clone(),
            attempt: summary.attempt,
            generation,
            version: order.version,
            previous_state: self.previous_state,
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
            cause: self.cause(),
            profile: profile
                .map(|profile| EventProfile { version: profile.version, digest: profile.digest }),
        }
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
