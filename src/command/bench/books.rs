//! Owns the world the comparison is measured on: a day of paid orders, the partner's file of it in no order, and
//! differences of every kind, each in every thousandth payment. No randomness: the same number gives the same world.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

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
use payfold_schemas::record::Position;
use payfold_schemas::time::Time;

/// The day.
pub const DAY: &str = "2026-01-31";
/// The partner.
pub const PARTNER: &str = "bench";
/// The account.
pub const MERCHANT: &str = "BENCH";
/// Behind the contract's default scheme: how the file is written.
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

/// Orders of one commit.
const BATCH: u64 = 5_000;
/// A difference of each kind in so many payments.
const EVERY: u64 = 1_000;
/// Prime: lines are in no order, and each is there.
const STRIDE: u64 = 7_368_787;

/// A day of so many payments.
pub struct Day {
    orders: u64,
    from: Time,
    currency: [Currency; 2],
}

impl Day {
    /// Its first instant is that of `DAY` in UTC.
    pub fn of(orders: u64) -> Self {
        let currency = |code| Currency::parse(code).expect("it is in ISO 4217");
        let from = Time::parse("2026-01-31T00:00:00Z").expect("a time");
        Self { orders, from, currency: [currency("VND"), currency("EUR")] }
    }

    /// What differs in a payment, if anything does.
    fn difference(number: u64) -> Option<Code> {
        Some(match number % EVERY {
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

    /// Every finding there must be: the order and what differs.
    pub fn expected(&self) -> BTreeSet<(String, Code)> {
        let differing = |number| Some((order_id(number), Self::difference(number)?));
        (0..self.orders).filter_map(differing).collect()
    }

    fn created(&self, number: u64) -> Time {
        // From one in the morning for 21 hours: nothing is near the day's borders.
        let span_ms = 21 * 3_600_000 * number / self.orders;
        self.from.plus_ms(3_600_000 + i64::try_from(span_ms).unwrap_or(0))
    }

    fn paid(&self, number: u64) -> Time {
        self.created(number).plus_ms(60_000)
    }

    fn amount(number: u64) -> u64 {
        10_000 + number % 90_000
    }

    /// The order, unless it is the one that is missing here.
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
            // Nothing expires while this is measured.
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

    /// Writes the orders. `tell` hears how many there are.
    pub async fn fill(
        &self,
        log: &dyn EventLog,
        store: &dyn OrderStore,
        tell: impl Fn(u64),
    ) -> anyhow::Result<()> {
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
            tell(number);
        }
        Ok(())
    }

    /// Writes the partner's file.
    pub fn write(&self, mut file: impl Write) -> std::io::Result<()> {
        writeln!(file, "order,ref,status,amount,currency,time,payer,method,note")?;
        for turn in 0..self.orders {
            let number = turn.wrapping_mul(STRIDE) % self.orders;
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

    /// Writes what is known here as a file, for who can't read the order store.
    pub fn write_ours(&self, mut file: impl Write) -> std::io::Result<()> {
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
    // As checkout makes them: by time first.
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
    fn every_kind_is_in_every_thousand_and_every_line_is_there_once() {
        let day = Day::of(2_000);
        let mut file = Vec::new();
        day.write(&mut file).unwrap();
        let text = String::from_utf8(file).unwrap();
        let lines: BTreeSet<&str> = text.lines().skip(1).collect();
        // Two are missing and two are there twice.
        assert_eq!((lines.len(), text.lines().count() - 1), (1_998, 2_000));
        assert_eq!(day.expected().len(), 16);
    }
}
