//! Owns what an erasure covers: the records whose bytes certain keys of one account seal, counted in the log itself.

use payfold_engines::log::{Delivered, Topic};
use payfold_schemas::ids::KeyId;
use payfold_schemas::month::Month;
use payfold_schemas::record::{Parts, Record};
use payfold_schemas::time::Time;
use serde_json::json;

use crate::args::{Form, OutputArgs};
use crate::output;
use crate::search;
use crate::walk::Walk;
use crate::wiring::Engines;

const PAGE: usize = 2_000;

/// Records of both topics.
#[derive(Debug, Default)]
pub struct Covered {
    intake: u64,
    quarantine: u64,
    bytes: u64,
    /// When the first and the last of them came.
    span: Option<(Time, Time)>,
}

impl Covered {
    /// Reads the log. Errors: the engines'; a record that can't be read.
    pub async fn count(
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
        let Some(record) = search::readable(message)? else { return Ok(()) };
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
            let (first, last) = self.span.unwrap_or((came, came));
            self.span = Some((first.min(came), last.max(came)));
        }
        Ok(())
    }

    /// Tells it.
    pub fn print(
        &self,
        (account, month, keys): (&str, Month, &[KeyId]),
        form: &OutputArgs,
    ) -> anyhow::Result<()> {
        let Self { intake, quarantine, bytes, span } = self;
        let keys: Vec<&str> = keys.iter().map(KeyId::as_str).collect();
        if form.output != Form::Table {
            return output::object(
                form.output,
                &json!({
                    "account": account, "month": month.to_string(), "keys": keys, "intake": intake,
                    "quarantine": quarantine, "bytes": bytes, "first": span.map(|span| span.0),
                    "last": span.map(|span| span.1),
                }),
            );
        }
        let came = span.map_or(String::new(), |(first, last)| {
            format!(", received {} to {}", output::time(first), output::time(last))
        });
        output::line(&format!(
            "{account} {month}: {} {} the bytes of {intake} facts and {quarantine} quarantined notices, {bytes} bytes{came}",
            keys.join(" "),
            if keys.len() == 1 { "seals" } else { "seal" }
        ));
        Ok(())
    }
}
