//! Owns the demo's account at the sandbox partner and the orders that `payfold demo ipn` opens on
//! it without a create call. Loopback and test keys only.

use std::sync::Arc;

use payfold_engines::EngineError;
use payfold_engines::clock::Clock;
use payfold_engines::log::{EventLog, Message, Topic};
pub(crate) use payfold_sandbox::demo::{MERCHANT, PARTNER, profile};
use payfold_schemas::fact::{Create, Fact, Presentation, Session};
use payfold_schemas::ids::{
    MerchantCode, OrderId, OrderKey, PartnerCode, ProviderRef, Reference, RequestId,
};
use payfold_schemas::record::{FactRecord, Record};
use payfold_schemas::time::Time;

use payfold_api::demo::{DemoOrder, OpenedOrder};

const SESSION_MS: i64 = 15 * 60 * 1_000;
const GRACE_MS: i64 = 2 * 60 * 1_000;

/// Opens orders on the demo's account.
pub(crate) struct DemoOrders {
    /// The log as checkout writes it.
    log: Arc<dyn EventLog>,
    partner: PartnerCode,
    merchant_code: MerchantCode,
}

impl DemoOrders {
    /// Opens them in this log, which is the one that checkout writes.
    pub(crate) fn new(log: Arc<dyn EventLog>) -> Self {
        Self {
            log,
            partner: PartnerCode::parse(PARTNER).expect("the demo's partner code is one"),
            merchant_code: MerchantCode::parse(MERCHANT).expect("the demo's merchant code is one"),
        }
    }

    /// Appends `CreateRequested` and `SessionOpened` of a new order. Errors: the log's.
    pub(crate) async fn open(
        &self,
        clock: &dyn Clock,
        asked: DemoOrder,
    ) -> Result<OpenedOrder, EngineError> {
        let (now, request_id) = (clock.now(), clock.request_id());
        let order_id =
            OrderId::parse(&format!("ord-{request_id}")).expect("an order id may hold a UUID");
        let provider_ref =
            ProviderRef::parse(&format!("sbx-{request_id}")).expect("a ref may hold a UUID");
        let order = OrderKey {
            partner: self.partner.clone(),
            merchant_code: self.merchant_code.clone(),
            order_id,
        };
        let create = Create {
            amount: asked.amount,
            currency: asked.currency,
            reference: Reference::parse("demo").expect("a reference"),
            attempt: 1,
            deadline: now.plus_ms(2 * SESSION_MS),
        };
        let session = Session {
            provider_ref: provider_ref.clone(),
            presentation: Presentation::QrPayload(format!("payfold-demo:{provider_ref}")),
            expires_at: now.plus_ms(SESSION_MS),
            deadline: now.plus_ms(SESSION_MS + GRACE_MS),
            create: create.digest(),
        };
        let facts = [Fact::CreateRequested(create), Fact::SessionOpened(session)];
        let messages = facts.map(|fact| message(&order, fact, request_id, now)).into();
        self.log.append_all(Topic::Intake, messages).await?;
        Ok(OpenedOrder { order, provider_ref })
    }
}

fn message(order: &OrderKey, fact: Fact, request_id: RequestId, now: Time) -> Message {
    let record =
        FactRecord { order: order.clone(), fact, request_id, received_at: now, source: None };
    Message {
        key: order.to_string(),
        event: None,
        value: Record::of_fact(record, Vec::new()).encode(),
        mac: None,
    }
}
