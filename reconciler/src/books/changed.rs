//! Owns what a run or a closing looks at of flags beside the orders of its window: the orders that have changed since a
//! time, and those with findings of flags that stand. An order that is too old for the window, and that no line names, may
//! still get a flag. What has changed is read from intake, by the keys of its records; memory is one page and the keys of
//! the last ones.

use std::collections::HashSet;

use chrono::NaiveDate;
use payfold_engines::log::{Extent, Topic};
use payfold_schemas::finding::Code;
use payfold_schemas::ids::{OrderKey, PartnerCode};
use payfold_schemas::order::OrderMoney;
use payfold_schemas::record::{Position, decode_intake};
use payfold_schemas::run::{RunEnded, RunResult};
use payfold_schemas::time::Time;

use super::BooksError;
use super::flag_days::{AHEAD_MS_MAX, DatedFlags};
use super::flags::OrderFlags;
use super::judge::IdHash;
use super::ledger::Ledger;
use super::orders::date_flags;
use super::ours::OurOrder;
use super::rules::Rules;
use super::shelf::{Standing, Which};
use crate::run::{Halt, Shared};

/// Records of one page.
const PAGE: usize = 1_000;
/// Orders that are remembered as looked at, some 8 MB; then all are forgotten.
const LOOKED_AT_MAX: usize = 1 << 16;

/// Which orders are looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangedOrders<'a> {
    pub(crate) partner: &'a PartnerCode,
    /// Records that were received before are left out.
    pub(crate) since: Time,
    /// Orders that were first seen from then on are left out: they are read by their creation.
    pub(crate) created_before: Time,
}

impl<'a> ChangedOrders<'a> {
    /// What a run of this day looks at beside the orders that were created from `created_before` on: what no complete run
    /// has looked at. A run looks at its own day and all before. What is of a later day came after its own day's end,
    /// but for a payment time that was ahead.
    pub(crate) fn of_run(
        ledger: &Ledger,
        partner: &'a PartnerCode,
        (day, created_before): (NaiveDate, Time),
    ) -> Self {
        let day = day.to_string();
        let runs = ledger.runs().filter(|run| run.partner == *partner);
        let complete = runs.filter(|run| run.result == RunResult::Complete);
        let looked_at = |run: &RunEnded| match run.day >= day {
            true => run.started_at,
            false => run.started_at.min(run.until.plus_ms(-AHEAD_MS_MAX)),
        };
        let since = complete.map(looked_at).max().unwrap_or(created_before);
        Self { partner, since, created_before }
    }

    /// The flags of these orders, each with its day; an order may come more than once. Errors: the log's, the store's, and
    /// those of `each`.
    pub(crate) async fn flags(
        self,
        shared: &Shared,
        rules: &Rules,
        mut each: impl FnMut(DatedFlags) -> Result<(), BooksError>,
    ) -> Result<(), BooksError> {
        let ask = || shared.log.extent(Topic::Intake);
        let extents = shared.ask("read how far intake reaches", ask).await?;
        let mut looked_at = HashSet::new();
        for extent in &extents {
            let mut after = self.begin(shared, extent).await?;
            while after.offset < extent.last {
                let ask = || shared.log.read_after(Topic::Intake, after, PAGE);
                let page = shared.ask("read the orders that have changed", ask).await?;
                let Some(last) = page.last() else { break };
                after = last.position;
                let keys = page.iter().filter_map(|record| OrderKey::parse(&record.key).ok());
                let keys = keys.filter(|key| key.partner == *self.partner);
                let new: Vec<_> = keys.filter(|key| looked_at.insert(key.clone())).collect();
                self.look(shared, rules, (&new, &mut each)).await?;
                if looked_at.len() > LOOKED_AT_MAX {
                    looked_at.clear();
                }
                if *shared.stop.borrow() {
                    return Err(Halt::Stopped.into());
                }
            }
        }
        Ok(())
    }

    async fn look(
        &self,
        shared: &Shared,
        rules: &Rules,
        (keys, each): (&[OrderKey], &mut impl FnMut(DatedFlags) -> Result<(), BooksError>),
    ) -> Result<(), BooksError> {
        for keys in keys.chunks(shared.settings.page_entries) {
            for row in shared.load(keys).await?.into_iter().flatten() {
                if row.first_seen >= self.created_before {
                    continue;
                }
                let money = OrderMoney::from(row);
                let Some(flags) = OrderFlags::of(&money) else { continue };
                each(date_flags(shared, rules, flags, OurOrder::of(money)).await?)?;
            }
        }
        Ok(())
    }

    /// A position of the partition before every record that was received since then, as far as clocks agree.
    async fn begin(&self, shared: &Shared, extent: &Extent) -> Result<Position, Halt> {
        let margin_ms = i64::try_from(shared.settings.clock_margin.as_millis()).unwrap_or(0);
        let since = self.since.plus_ms(-margin_ms);
        let partition = extent.partition;
        let (mut low, mut high) = (extent.first.saturating_sub(1), extent.last);
        while low < high {
            let offset = low + (high - low) / 2;
            let ask = || shared.log.read_after(Topic::Intake, Position { partition, offset }, 1);
            let next = shared.ask("read intake", ask).await?;
            let received = |value: &[u8]| decode_intake(value).ok().map(|r| r.received_at());
            let before = next.first().filter(|record| {
                // A record that can't be read says nothing: the reading begins before it.
                received(&record.value).is_some_and(|received| received < since)
            });
            match before {
                Some(record) => low = record.position.offset,
                None => high = offset,
            }
        }
        Ok(Position { partition, offset: low })
    }
}

/// The findings of flags of a day that stand, and that the orders still have as they are now.
pub(crate) async fn still_raised(
    shared: &Shared,
    ledger: &Ledger,
    (partner, day): (&PartnerCode, &str),
) -> Result<HashSet<IdHash>, BooksError> {
    let (code, standing) = (Some(Code::OpenFlag), Some(Standing::All));
    let which = Which { partner: Some(partner), day: Some(day), code, standing, after: "" };
    let mut findings = ledger.findings(which);
    let mut still_raised = HashSet::new();
    loop {
        let page = findings.by_ref().take(shared.settings.page_entries);
        let page = page.collect::<Result<Vec<_>, _>>()?;
        if page.is_empty() {
            return Ok(still_raised);
        }
        let named = page.iter().filter_map(|known| {
            let (merchant_code, order_id) =
                known.merchant_code.clone().zip(known.order_id.clone())?;
            let key = OrderKey { partner: partner.clone(), merchant_code, order_id };
            Some((key, known.flag?, IdHash::of(&known.finding_id)))
        });
        let named: Vec<_> = named.collect();
        let keys: Vec<_> = named.iter().map(|(key, ..)| key.clone()).collect();
        for (row, (_, flag, id)) in shared.load(&keys).await?.into_iter().zip(named) {
            let flags = row.and_then(|row| OrderFlags::of(&OrderMoney::from(row)));
            let has = |flags: OrderFlags| flags.flags.iter().any(|raised| raised.flag == flag);
            if flags.is_some_and(has) {
                still_raised.insert(id);
            }
        }
    }
}
