//! Owns the count of what an erasure covers: the records in the log with bytes that the given keys
//! of an account seal.

use payfold_engines::log::walk::Walk;
use payfold_engines::log::{Delivered, Topic};
use payfold_kit::search;
use payfold_schemas::ids::KeyId;
use payfold_schemas::month::Month;
use payfold_schemas::record::{Parts, Record};
use payfold_schemas::time::Time;
use payfold_views::listing::moment;
use serde::Serialize;

use crate::args::{OutputArgs, OutputFormat};
use crate::output;
use crate::wiring::Engines;

const PAGE: usize = 2_000;

/// The keys of a month that an erasure would destroy.
pub(crate) struct ErasableKeys<'a> {
    /// `partner/merchantCode`.
    pub account: &'a str,
    /// The month.
    pub month: Month,
    /// The ids of the keys.
    pub keys: &'a [KeyId],
}

/// What an erasure covers, as JSON output shows it.
#[derive(Serialize)]
struct ErasureReport<'a> {
    account: &'a str,
    month: String,
    keys: &'a [KeyId],
    #[serde(flatten)]
    covered: &'a SealedCounts,
}

/// Counts of sealed records in both topics.
#[derive(Debug, Default, Serialize)]
pub(crate) struct SealedCounts {
    intake: u64,
    quarantine: u64,
    bytes: u64,
    /// When the first of them was received.
    first: Option<Time>,
    /// When the last of them was received.
    last: Option<Time>,
    /// Notices of the month with bytes that no key seals.
    unsealed: u64,
}

impl SealedCounts {
    /// Counts by reading the log. Errors: the engines'; a newer program wrote a record.
    pub(crate) async fn count(
        engines: &Engines,
        erasable: &ErasableKeys<'_>,
        output: &OutputArgs,
    ) -> anyhow::Result<Self> {
        let mut covered = Self::default();
        for topic in [Topic::Intake, Topic::Quarantine] {
            let extents = engines.log.extent(topic).await?;
            let records = extents.iter().map(|extent| extent.last.saturating_sub(extent.first));
            let bar = output::progress_bar(output.output, records.sum(), "records");
            let mut walk = Walk::to_the_end(&*engines.log, topic).await?;
            while let Some(page) = walk.next(PAGE).await? {
                for message in &page {
                    covered.take(message, erasable)?;
                }
                bar.inc(u64::try_from(page.len())?);
            }
            bar.finish_and_clear();
        }
        Ok(covered)
    }

    fn take(&mut self, message: &Delivered, erasable: &ErasableKeys<'_>) -> anyhow::Result<()> {
        let Some(record) = search::decode_undamaged(message)? else { return Ok(()) };
        let Record { parts, raw_key_id, raw } = record;
        let (of, came, counter) = match &parts {
            Parts::Fact(fact) => (fact.order.account_name(), fact.delivered_at(), &mut self.intake),
            Parts::Quarantine(record) => {
                (record.account.clone(), record.received_at, &mut self.quarantine)
            }
            Parts::Switch(_) | Parts::Parked(_) | Parts::ParkingProposed(_) => return Ok(()),
        };
        if of != erasable.account || raw.is_empty() {
            return Ok(());
        }
        match raw_key_id {
            Some(id) if erasable.keys.contains(&id) => {
                *counter += 1;
                self.bytes += u64::try_from(raw.len())?;
                self.first = Some(self.first.map_or(came, |first| first.min(came)));
                self.last = self.last.max(Some(came));
            }
            None if Month::of(came) == erasable.month => self.unsealed += 1,
            Some(_) | None => {}
        }
        Ok(())
    }

    /// Prints the counts.
    pub(crate) fn print(
        &self,
        erasable: &ErasableKeys<'_>,
        output: &OutputArgs,
    ) -> anyhow::Result<()> {
        let ErasableKeys { account, month, keys } = *erasable;
        if output.output != OutputFormat::Table {
            let month = month.to_string();
            return output::object(
                output.output,
                &ErasureReport { account, month, keys, covered: self },
            );
        }
        let Self { intake, quarantine, bytes, first, last, unsealed } = self;
        let came = first.zip(*last).map_or(String::new(), |(first, last)| {
            format!(", received {} to {}", moment(first), moment(last))
        });
        let keys: Vec<&str> = keys.iter().map(KeyId::as_str).collect();
        output::line(&format!(
            "{account} {month}: {} {} the bytes of {intake} facts and {quarantine} quarantined \
             notices, {bytes} bytes{came}",
            keys.join(" "),
            if keys.len() == 1 { "seals" } else { "seal" }
        ));
        if *unsealed > 0 {
            output::line(&format!("{unsealed} notices of {month} are not sealed: they stay"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use payfold_engines::log::Authenticity;
    use payfold_schemas::fact::Fact;
    use payfold_schemas::ids::OrderKey;
    use payfold_schemas::position::Position;
    use payfold_schemas::record::FactRecord;

    use super::*;

    #[test]
    fn what_no_key_sealed_is_counted_by_its_month() {
        let account = "acme/SHOP";
        let key = KeyId::parse("body-2026-10").unwrap();
        let keys = [key.clone()];
        let month = "2026-10".parse().unwrap();
        let erasable = ErasableKeys { account, month, keys: &keys };
        let mut counts = SealedCounts::default();
        for (order, at, raw_key_id, raw) in [
            ("acme/SHOP/a", "2026-10-05T00:00:00Z", Some(&key), "sealed"),
            ("acme/SHOP/b", "2026-10-06T00:00:00Z", None, "open"),
            ("acme/SHOP/c", "2026-10-07T00:00:00Z", None, ""),
            ("acme/SHOP/d", "2026-11-01T00:00:00Z", None, "of the next month"),
            ("acme/OTHER/e", "2026-10-06T00:00:00Z", None, "of another account"),
        ] {
            let fact = FactRecord {
                order: OrderKey::parse(order).unwrap(),
                fact: Fact::DeadlinePassed { deadline: Time::parse(at).unwrap() },
                request_id: "01939b1c-7a00-7000-8000-000000000001".parse().unwrap(),
                received_at: Time::parse(at).unwrap(),
                source: None,
            };
            let (parts, raw) = (Parts::Fact(fact), raw.as_bytes().to_vec());
            let value = Record { parts, raw_key_id: raw_key_id.cloned(), raw }.encode();
            let position = Position { partition: 0, offset: 1 };
            let message = Delivered {
                position,
                key: order.to_owned(),
                event: None,
                value,
                authenticity: Authenticity::Unchecked(None),
            };
            counts.take(&message, &erasable).unwrap();
        }
        assert_eq!((counts.intake, counts.unsealed, counts.bytes), (1, 1, 6));
    }
}
