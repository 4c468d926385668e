//! Owns the count of what an erasure covers: the records in the log with bytes that the given keys
//! of an account seal.

use payfold_engines::log::walk::Walk;
use payfold_engines::log::{Delivered, Topic};
use payfold_kit::search;
use payfold_schemas::ids::KeyId;
use payfold_schemas::month::Month;
use payfold_schemas::record::{Parts, Record};
use payfold_schemas::time::Time;
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
}

impl SealedCounts {
    /// Counts by reading the log. Errors: the engines'; a newer program wrote a record.
    pub(crate) async fn count(
        engines: &Engines,
        (account, keys): (&str, &[KeyId]),
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
                    covered.take(message, (account, keys))?;
                }
                bar.inc(u64::try_from(page.len())?);
            }
            bar.finish_and_clear();
        }
        Ok(covered)
    }

    fn take(
        &mut self,
        message: &Delivered,
        (account, keys): (&str, &[KeyId]),
    ) -> anyhow::Result<()> {
        let Some(record) = search::decode_undamaged(message)? else { return Ok(()) };
        let Record { parts, raw_key_id, raw } = record;
        if !raw_key_id.is_some_and(|id| keys.contains(&id)) {
            return Ok(());
        }
        let (of, came, counter) = match &parts {
            Parts::Fact(fact) => (fact.order.account_name(), fact.delivered_at(), &mut self.intake),
            Parts::Quarantine(record) => {
                (record.account.clone(), record.received_at, &mut self.quarantine)
            }
            Parts::Switch(_) | Parts::Parked(_) => return Ok(()),
        };
        if of == account {
            *counter += 1;
            self.bytes += u64::try_from(raw.len())?;
            self.first = Some(self.first.map_or(came, |first| first.min(came)));
            self.last = self.last.max(Some(came));
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
        let Self { intake, quarantine, bytes, first, last } = self;
        let came = first.zip(*last).map_or(String::new(), |(first, last)| {
            format!(", received {} to {}", output::time(first), output::time(last))
        });
        let keys: Vec<&str> = keys.iter().map(KeyId::as_str).collect();
        output::line(&format!(
            "{account} {month}: {} {} the bytes of {intake} facts and {quarantine} quarantined \
             notices, {bytes} bytes{came}",
            keys.join(" "),
            if keys.len() == 1 { "seals" } else { "seal" }
        ));
        Ok(())
    }
}
