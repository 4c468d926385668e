//! Owns the generated facts that the projector is measured with: orders as shops and partners make
//! them, with the facts of concurrently open orders interleaved. A fifth of the records are
//! duplicates. Nothing is random: equal parameters give equal records.

use payfold_engines::log::{Message, Topic};
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::{Create, Fact, Presentation, QueryAnswer, Session};
use payfold_schemas::ids::{
    KeyId, MerchantCode, OrderId, OrderKey, PartnerCode, ProviderRef, Reference, RequestId,
};
use payfold_schemas::ipn::{Ipn, IpnPolicy, MoneyContent, Status};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::notice_source::{NoticeSource, ProfileStamp, RecordedRequest};
use payfold_schemas::record::{FactRecord, Record};
use payfold_schemas::record_keys::RecordKeys;
use payfold_schemas::time::Time;

/// Records per order. One of them repeats another, so a fifth of all records are duplicates.
const STEPS: u64 = 5;

/// Generates records in log order.
pub struct FactGenerator {
    orders: u64,
    window: u64,
    start: Time,
    partner: PartnerCode,
    merchant_code: MerchantCode,
    stamp: ProfileStamp,
    key_id: KeyId,
}

impl FactGenerator {
    /// Facts of `orders` orders, `window` of them open at the same time.
    pub fn new(orders: u64, window: u64, start: Time) -> Self {
        let partner = PartnerCode::parse("bench").expect("a partner code");
        Self {
            orders,
            window: window.clamp(1, orders.max(1)),
            start,
            stamp: ProfileStamp {
                partner: partner.clone(),
                version: 1,
                digest: Digest::of_bytes(b"bench"),
            },
            partner,
            merchant_code: MerchantCode::parse("BENCH").expect("a merchant code"),
            key_id: KeyId::parse("k1").expect("a key id"),
        }
    }

    /// The total number of records.
    pub fn records(&self) -> u64 {
        self.orders * STEPS
    }

    /// The record at an index of the log. Within a window, first every order gets its first record,
    /// then every order its second, and so on, each time in another sequence. It carries the MAC of
    /// its writer, if there are keys.
    pub(crate) fn message(&self, index: u64, keys: &RecordKeys) -> Message {
        let per_window = self.window * STEPS;
        let (window, inside) = (index / per_window, index % per_window);
        let first = window * self.window;
        let size = self.window.min(self.orders - first);
        let (step, slot) = (inside / size, inside % size);
        // Each step has its own odd stride, coprime to most sizes, so that neighbours differ from
        // step to step.
        let number = first + (slot * (2 * step + 1)) % size;
        let record = self.record(number, step, index);
        let key = keys.writes_with(record.writer(), record.received_at);
        let raw = if record.source.is_some() { vec![b'x'; 360] } else { Vec::new() };
        let message_key = record.order.to_message_key();
        let value = Record::of_fact(record, raw).encode();
        let message = Message { key: message_key, event: None, value, mac: None };
        match key {
            Some(key) => message.with_mac(Topic::Intake, key),
            None => message,
        }
    }

    fn record(&self, number: u64, step: u64, index: u64) -> FactRecord {
        let now = self.start.plus_ms(i64::try_from(index / 10).unwrap_or(0));
        let order_id =
            OrderId::parse(&format!("01939b1c-{number:012x}-bench")).expect("an order id");
        let order = OrderKey {
            partner: self.partner.clone(),
            merchant_code: self.merchant_code.clone(),
            order_id,
        };
        let request_id = RequestId::new(uuid::Uuid::from_u128(u128::from(index)));
        let fact = self.fact(number, step);
        let source = matches!(fact, Fact::Ipn(_)).then(|| NoticeSource {
            profile: self.stamp.clone(),
            key_id: self.key_id.clone(),
            request: RecordedRequest {
                target: "/api/payment/ipn".to_owned(),
                ..RecordedRequest::default()
            },
            released: None,
        });
        FactRecord { order, fact, request_id, received_at: now, source }
    }

    fn fact(&self, number: u64, step: u64) -> Fact {
        let opened = self.start.plus_ms(i64::try_from(number).unwrap_or(0));
        let amount = Amount::from_minor(100_000).expect("an amount");
        let currency = Currency::parse("VND").expect("a currency");
        let provider_ref = ProviderRef::parse(&format!("ref-{number:012x}")).expect("a ref");
        match step {
            0 => Fact::CreateRequested(Create {
                amount,
                currency,
                reference: Reference::parse(&format!("cart-{number}")).expect("a reference"),
                attempt: 1,
                deadline: opened.plus_ms(1_800_000),
            }),
            1 => Fact::SessionOpened(Session {
                provider_ref,
                presentation: Presentation::RedirectUrl(format!("https://pay.example/{number}")),
                expires_at: opened.plus_ms(900_000),
                deadline: opened.plus_ms(1_020_000),
                create: Digest::of_bytes(b"create"),
            }),
            2 | 3 => Fact::Ipn(Ipn {
                provider_ref,
                status: Status::Success,
                money: MoneyContent {
                    amount,
                    currency,
                    paid_at: Some(opened.plus_ms(60_000)),
                    event_ref: None,
                },
                timestamp: Some(opened.plus_ms(61_000)),
                nonce: None,
                policy: IpnPolicy::default(),
            }),
            _ => Fact::QueryAnswered(QueryAnswer {
                provider_ref,
                status: Status::Success,
                amount,
                currency,
            }),
        }
    }
}
