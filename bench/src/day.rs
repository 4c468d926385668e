//! Owns the data that the reconciliation is measured on: a day of paid orders, the partner's file
//! of that day in another order, and one difference of each kind per thousand payments. Nothing is
//! random: an equal number of orders gives equal data.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

use payfold_engines::EngineError;
use payfold_engines::log::EventLog;
use payfold_engines::orders::{Commit, OrderStore, ViewEntry};
use payfold_projector::fold::{fold, summarize};
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::{Create, Fact, Presentation, Session};
use payfold_schemas::finding::Code;
use payfold_schemas::ids::{MerchantCode, OrderId, OrderKey, PartnerCode, ProviderRef, Reference};
use payfold_schemas::ipn::{Ipn, IpnPolicy, MoneyContent, Status};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::order::Order;
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;

/// The reconciled day.
pub const DAY: &str = "2026-01-31";
/// The partner code.
pub const PARTNER: &str = "bench";
/// The merchant code.
pub const MERCHANT: &str = "BENCH";
/// The profile section for the partner's file, appended to the default scheme.
pub const RECORDS: &str = r#"
[records]
format = "csv"
zone = "UTC"
[records.map]
order = "{r.order}"
ref = "{r.ref}"
amount = "{r.amount}"
currency = "{r.currency}"
at = "{r.time}"
at_format = "rfc3339"
[[records.event]]
when = [{ value = "{r.status}", is = "SUCCESS" }]
outcome = "SUCCESS"
[[records.event]]
outcome = "refuse"
"#;

/// Orders per commit.
const BATCH: u64 = 5_000;
/// One difference of each kind per this many payments.
const DIFFERENCE_INTERVAL: u64 = 1_000;
/// A prime, so that the lines are permuted and each occurs.
const STRIDE: u64 = 7_368_787;

/// A day with a given number of payments.
pub struct ReconciliationDay {
    orders: u64,
    from: Time,
    currency: [Currency; 2],
}

impl ReconciliationDay {
    /// A day with this many payments. It begins at midnight of `DAY` in UTC.
    pub fn new(orders: u64) -> Self {
        let currency = |code| Currency::parse(code).expect("it is in ISO 4217");
        let from = Time::parse("2026-01-31T00:00:00Z").expect("a time");
        Self { orders, from, currency: [currency("VND"), currency("EUR")] }
    }

    /// The difference of a payment, if it has one.
    fn difference(number: u64) -> Option<Code> {
        Some(match number % DIFFERENCE_INTERVAL {
            0 => Code::MissingThere,
            1 => Code::MissingHere,
            2 => Code::StatusDiffers,
            3 => Code::AmountDiffers,
            4 => Code::CurrencyDiffers,
            5 => Code::RefDiffers,
            6 => Code::TimeDiffers,
            7 => Code::DuplicatedThere,
            _ => return None,
        })
    }

    /// All findings that the reconciliation must report: order and code.
    pub fn expected(&self) -> BTreeSet<(String, Code)> {
        let differing = |number| Some((order_id(number), Self::difference(number)?));
        (0..self.orders).filter_map(differing).collect()
    }

    fn created(&self, number: u64) -> Time {
        // From 01:00 for 21 hours, so that no payment is near the borders of the day.
        let span_ms = 21 * 3_600_000 * number / self.orders;
        self.from.plus_ms(3_600_000 + i64::try_from(span_ms).unwrap_or(0))
    }

    fn paid(&self, number: u64) -> Time {
        self.created(number).plus_ms(60_000)
    }

    fn amount(number: u64) -> u64 {
        10_000 + number % 90_000
    }

    /// The order of a payment; `None` if it is missing in the order store.
    fn order(&self, number: u64) -> Option<Order> {
        if Self::difference(number) == Some(Code::MissingHere) {
            return None;
        }
        let amount = Amount::parse(&Self::amount(number).to_string()).ok()?;
        let create = Create {
            amount,
            currency: self.currency[0],
            reference: Reference::parse(&format!("basket {number}")).ok()?,
            attempt: 1,
            // No order expires during the measurement.
            deadline: Time::parse("2099-01-01T00:00:00Z").ok()?,
        };
        let provider_ref = ProviderRef::parse(&provider_ref(number)).ok()?;
        let session = Session {
            provider_ref: provider_ref.clone(),
            presentation: Presentation::QrPayload(format!("qr-{number}")),
            expires_at: create.deadline,
            deadline: create.deadline,
            create: create.digest(),
        };
        let ipn = Ipn {
            provider_ref,
            status: Status::Success,
            money: MoneyContent {
                amount,
                currency: self.currency[0],
                paid_at: Some(self.paid(number)),
                event_ref: None,
            },
            timestamp: None,
            nonce: None,
            policy: IpnPolicy::default(),
        };
        let mut facts = vec![Fact::CreateRequested(create), Fact::SessionOpened(session)];
        if Self::difference(number) != Some(Code::StatusDiffers) {
            facts.push(Fact::Ipn(ipn));
        }
        let position = Position { partition: 0, offset: number + 1 };
        let (facts, version) = fold(facts.into_iter().map(|fact| (position, fact)));
        Some(Order {
            key: key(number)?,
            version,
            first_seen: self.created(number),
            position,
            summary: summarize(&facts),
            facts,
        })
    }

    /// Writes the orders; says after each commit how many there are. Errors: the store's.
    pub async fn fill(
        &self,
        log: &dyn EventLog,
        store: &dyn OrderStore,
        progress: impl Fn(u64),
    ) -> Result<(), EngineError> {
        let mut number = 0;
        while number < self.orders {
            let end = (number + BATCH).min(self.orders);
            let orders: Vec<_> =
                (number..end).filter_map(|n| self.order(n)).map(Arc::new).collect();
            let views = orders
                .iter()
                .flat_map(|order| {
                    let refs = order.facts.sessions.iter();
                    let refs = refs.map(|o| ViewEntry::ProviderRef(o.content.provider_ref.clone()));
                    let created = std::iter::once(ViewEntry::Created(order.first_seen));
                    created.chain(refs).map(|entry| (order.key.clone(), entry))
                })
                .collect();
            store.commit(Commit { orders, views, folded: Vec::new(), log_id: log.id() }).await?;
            number = end;
            progress(number);
        }
        Ok(())
    }

    /// Writes the partner's file.
    pub fn write_partner_file(&self, mut file: impl Write) -> std::io::Result<()> {
        writeln!(file, "order,ref,status,amount,currency,time,payer,method,note")?;
        for line in 0..self.orders {
            let number = line.wrapping_mul(STRIDE) % self.orders;
            let (mut amount, mut currency) = (Self::amount(number), self.currency[0]);
            let (mut name, mut time, mut times) = (provider_ref(number), self.paid(number), 1);
            match Self::difference(number) {
                Some(Code::MissingThere) => continue,
                Some(Code::AmountDiffers) => amount += 1,
                Some(Code::CurrencyDiffers) => currency = self.currency[1],
                Some(Code::RefDiffers) => name.push('x'),
                Some(Code::TimeDiffers) => time = time.plus_ms(3_600_000),
                Some(Code::DuplicatedThere) => times = 2,
                Some(_) | None => {}
            }
            for _ in 0..times {
                let order = order_id(number);
                writeln!(
                    file,
                    "{order},{name},SUCCESS,{amount},{currency},{time},P{number},qr,settled"
                )?;
            }
        }
        file.flush()
    }

    /// Writes the orders as a file, for comparisons without the order store.
    pub fn write_order_file(&self, mut file: impl Write) -> std::io::Result<()> {
        writeln!(file, "order,ref,status,amount,currency,time")?;
        for number in 0..self.orders {
            let status = match Self::difference(number) {
                Some(Code::MissingHere) => continue,
                Some(Code::StatusDiffers) => "PENDING",
                Some(_) | None => "SUCCESS",
            };
            let (amount, currency) = (Self::amount(number), self.currency[0]);
            let (order, name, time) = (order_id(number), provider_ref(number), self.paid(number));
            writeln!(file, "{order},{name},{status},{amount},{currency},{time}")?;
        }
        file.flush()
    }
}

fn order_id(number: u64) -> String {
    let digest = Digest::of_bytes(&number.to_be_bytes()).to_string();
    // As in checkout, order ids begin with the time.
    format!("ord-{number:012x}-{}", &digest[..16])
}

fn provider_ref(number: u64) -> String {
    format!("TX{:016}", number.wrapping_mul(STRIDE))
}

fn key(number: u64) -> Option<OrderKey> {
    Some(OrderKey {
        partner: PartnerCode::parse(PARTNER).ok()?,
        merchant_code: MerchantCode::parse(MERCHANT).ok()?,
        order_id: OrderId::parse(&order_id(number)).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_occurs_per_thousand_and_every_line_once() {
        let day = ReconciliationDay::new(2_000);
        let mut file = Vec::new();
        day.write_partner_file(&mut file).unwrap();
        let text = String::from_utf8(file).unwrap();
        let lines: BTreeSet<&str> = text.lines().skip(1).collect();
        // Two lines are missing, and two occur twice.
        assert_eq!((lines.len(), text.lines().count() - 1), (1_998, 2_000));
        assert_eq!(day.expected().len(), 16);
    }
}
