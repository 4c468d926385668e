//! Owns the reading of orders outside a run's window for their flags, which a run or a closing
//! needs: orders that have changed since a time, and orders with uncleared flag findings. An order
//! that is too old for the window, and that no line names, may still get a flag. Changed orders are
//! found by the keys of `intake` records. Memory is one page and a bounded set of keys.

use std::collections::HashSet;

use chrono::NaiveDate;
use payfold_engines::log::{Delivered, Extent, Topic};
use payfold_kit::Halt;
use payfold_schemas::finding::Code;
use payfold_schemas::ids::{OrderKey, PartnerCode};
use payfold_schemas::order::Order;
use payfold_schemas::order_money::OrderMoney;
use payfold_schemas::position::Position;
use payfold_schemas::run::{RunEnded, RunResult};
use payfold_schemas::time::Time;

use super::day_rules::DayRules;
use super::error::ReconcileError;
use super::findings_store::{FindingFilter, StatusFilter};
use super::flag_days::{AHEAD_MS_MAX, DatedFlags};
use super::flags::OrderFlags;
use super::ledger::Ledger;
use super::orders::date_flags;
use super::other_days::IdHash;
use super::ours::OurOrder;
use crate::shared::SharedContext;

/// Records that one read of the log returns.
const PAGE: usize = 1_000;
/// Orders remembered as read, some 8 MB. Beyond that all are forgotten, so an order may be read
/// again.
const REMEMBERED_MAX: usize = 1 << 16;

/// Selects orders by when they changed and when they were created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangedOrders<'a> {
    pub(crate) partner: &'a PartnerCode,
    /// Records received before this are not read.
    pub(crate) since: Time,
    /// Orders first seen from this time on are skipped: they are read by their creation.
    pub(crate) created_before: Time,
}

impl<'a> ChangedOrders<'a> {
    /// The orders that a run of this day has to read besides the orders created from
    /// `created_before` on: those that have changed since the last complete run. A run covers its
    /// own day and all earlier days. Orders of a later day arrived after the end of the run's day.
    /// The exception are payment times in the future, which are bounded by `AHEAD_MS_MAX`.
    pub(crate) fn since_last_run(
        ledger: &Ledger,
        partner: &'a PartnerCode,
        (day, created_before): (NaiveDate, Time),
    ) -> Self {
        let day = day.to_string();
        let runs = ledger.runs().filter(|run| run.partner == *partner);
        let complete = runs.filter(|run| run.result == RunResult::Complete);
        let covered_until = |run: &RunEnded| match run.day >= day {
            true => run.started_at,
            false => run.started_at.min(run.until.plus_ms(-AHEAD_MS_MAX)),
        };
        let since = complete.map(covered_until).max().unwrap_or(created_before);
        Self { partner, since, created_before }
    }

    /// Calls `each` with the flags of these orders and their day; an order may come more than once.
    /// Errors: those of `each`; a halt.
    pub(crate) async fn collect_flags(
        self,
        shared: &SharedContext,
        rules: &DayRules,
        mut each: impl FnMut(DatedFlags) -> Result<(), ReconcileError>,
    ) -> Result<(), ReconcileError> {
        let mut pages = self.pages(shared).await?;
        while let Some(page) = pages.next(shared).await? {
            for row in page {
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

    /// The orders of which a record was received since then, page by page, whenever they were
    /// created; an order may come more than once. Errors: a halt.
    pub(crate) async fn pages(
        self,
        shared: &SharedContext,
    ) -> Result<ChangedPages<'a>, ReconcileError> {
        let ask = || shared.storage.log.extent(Topic::Intake);
        let extents = shared.storage.ask("read how far intake reaches", ask).await?;
        let mut left = Vec::new();
        for extent in &extents {
            left.push((self.find_start(shared, extent).await?, extent.last));
        }
        let (read_keys, keys) = (HashSet::new(), Vec::new());
        Ok(ChangedPages { partner: self.partner, left, read_keys, keys })
    }

    /// Finds by binary search a position of the partition before every record received since then.
    /// `clock_margin` allows for clocks that differ.
    async fn find_start(&self, shared: &SharedContext, extent: &Extent) -> Result<Position, Halt> {
        let margin_ms = i64::try_from(shared.settings.clock_margin.as_millis()).unwrap_or(0);
        let since = self.since.plus_ms(-margin_ms);
        let partition = extent.partition;
        // Receipt times ascend along a partition, as far as the appending clocks agree.
        let (mut low, mut high) = (extent.first.saturating_sub(1), extent.last);
        while low < high {
            let offset = low + (high - low) / 2;
            let ask =
                || shared.storage.log.read_after(Topic::Intake, Position { partition, offset }, 1);
            let next = shared.storage.ask("read intake", ask).await?;
            let received = |record: &Delivered| Some(record.intake_record().ok()?.received_at());
            let before = next.first().filter(|record| {
                // A record that can't be decoded has no time, so the reading starts before it.
                received(record).is_some_and(|received| received < since)
            });
            match before {
                Some(record) => low = record.position.offset,
                None => high = offset,
            }
        }
        Ok(Position { partition, offset: low })
    }
}

/// A reading of changed orders.
pub(crate) struct ChangedPages<'a> {
    partner: &'a PartnerCode,
    /// How far each partition is read, and its end.
    left: Vec<(Position, u64)>,
    read_keys: HashSet<OrderKey>,
    /// Orders of the last page of the log that are still to be loaded.
    keys: Vec<OrderKey>,
}

impl ChangedPages<'_> {
    /// The next orders; `None` at the end. Errors: a halt.
    pub(crate) async fn next(
        &mut self,
        shared: &SharedContext,
    ) -> Result<Option<Vec<Order>>, ReconcileError> {
        while self.keys.is_empty() {
            let Some((after, last)) = self.left.last_mut() else { return Ok(None) };
            let ask = || shared.storage.log.read_after(Topic::Intake, *after, PAGE);
            let page = shared.storage.ask("read the orders that have changed", ask).await?;
            let Some(record) = page.last().filter(|_| after.offset < *last) else {
                self.left.pop();
                continue;
            };
            *after = record.position;
            let keys = page.iter().filter_map(|record| OrderKey::parse(&record.key).ok());
            let keys = keys.filter(|key| key.partner == *self.partner);
            self.keys = keys.filter(|key| self.read_keys.insert(key.clone())).collect();
            if self.read_keys.len() > REMEMBERED_MAX {
                self.read_keys.clear();
            }
            if shared.storage.is_stopped() {
                return Err(Halt::Stopped.into());
            }
        }
        let rest = self.keys.len().saturating_sub(shared.settings.page_entries);
        let rows = shared.storage.load(&self.keys.split_off(rest)).await?;
        Ok(Some(rows.into_iter().flatten().collect()))
    }
}

/// Ids of the day's uncleared flag findings for which the order still has the flag. Errors: the
/// findings store fails; a halt.
pub(crate) async fn still_raised(
    shared: &SharedContext,
    ledger: &Ledger,
    (partner, day): (&PartnerCode, &str),
) -> Result<HashSet<IdHash>, ReconcileError> {
    let (code, status) = (Some(Code::OpenFlag), Some(StatusFilter::Uncleared));
    let which = FindingFilter {
        partner: Some(partner),
        day: Some(day),
        code,
        status,
        ..FindingFilter::default()
    };
    let mut findings = ledger.findings(which);
    let mut still_raised = HashSet::new();
    loop {
        let page = findings.by_ref().take(shared.settings.page_entries);
        let page = page.collect::<Result<Vec<_>, _>>()?;
        if page.is_empty() {
            return Ok(still_raised);
        }
        let named = page.iter().filter_map(|known| {
            Some((known.order_key()?, known.flag?, IdHash::of(&known.finding_id)))
        });
        let named: Vec<_> = named.collect();
        let keys: Vec<_> = named.iter().map(|(key, ..)| key.clone()).collect();
        for (row, (_, flag, id)) in shared.storage.load(&keys).await?.into_iter().zip(named) {
            let flags = row.and_then(|row| OrderFlags::of(&OrderMoney::from(row)));
            let has = |flags: OrderFlags| flags.flags.iter().any(|raised| raised.flag == flag);
            if flags.is_some_and(has) {
                still_raised.insert(id);
            }
        }
    }
}
