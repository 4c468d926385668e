//! Owns the reading of our orders: those that may have money of the day, sorted like the records.
//! Memory is constant: orders are read page by page and sorted in a file. The reading also detects
//! references with two paid attempts.

use std::io;
use std::path::Path;

use futures_util::future::try_join_all;
use payfold_engines::SeamFuture;
use payfold_engines::log::Topic;
use payfold_engines::orders::{Cursor, MoneyPage, Window};
use payfold_kit::Halt;
use payfold_kit::search::message_at;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::order::OrderState;
use payfold_schemas::order_money::OrderMoney;
use payfold_schemas::position::Position;
use payfold_schemas::record::{FactRecord, IntakeRecord};
use payfold_schemas::time::Time;
use tokio::sync::{Mutex, mpsc};

use super::blocking::run_blocking;
use super::comparer::{MatchKey, groups_of};
use super::day_rules::DayRules;
use super::detected_finding::DetectedFinding;
use super::error::ReconcileError;
use super::external_sort::{ExternalSort, LANES, SortedLane};
use super::flag_days::{DatedFlags, FlagSpills};
use super::flags::OrderFlags;
use super::ours::OurOrder;
use super::paid_twice::{self, TriedReference};
use super::spill_file::SpillFile;
use crate::shared::SharedContext;

/// Orders of one page; a page takes some 1 MB.
const PAGE: usize = 1_024;
/// Pages that wait in the channel, besides the one that is being processed.
const PAGES_WAITING: usize = 1;
/// Readers that read the window side by side. Each reads one stretch at a time.
const READERS: usize = 3;
/// Stretches of equal length that the window is divided into: far more than readers, because most
/// orders may have been created in a few of them.
const STRETCHES: i64 = 64;

/// The sorted orders of a window, and the findings and flags detected while they were read.
pub(crate) struct SortedOrders {
    pub(crate) sorted: [SortedLane<OurOrder>; LANES],
    /// The window's begin: older orders were not read.
    pub(crate) from: Time,
    /// Findings of references with two paid attempts.
    pub(crate) paid_twice: SpillFile<DetectedFinding>,
    /// Flags of the day's orders, and open flags of earlier days.
    pub(crate) flagged: FlagSpills,
}

/// Reads and sorts the orders created from `from` until the end of the day. Calls `show_progress`
/// with the number of orders so far. Errors: temporary files; a halt.
pub(crate) async fn read_orders(
    shared: &SharedContext,
    partner: &PartnerCode,
    (rules, by): (&DayRules, MatchKey),
    (from, folder): (Time, &Path),
    show_progress: impl Fn(u64),
) -> Result<SortedOrders, ReconcileError> {
    let sort = ExternalSort::in_folder(folder).map_err(ReconcileError::scratch_disk)?;
    let mut collector = OrderCollector { sort, by, dates_refunds: rules.lists.refunds };
    let (mut paid_twice, mut flagged) =
        (SpillFile::in_folder(folder), FlagSpills::in_folder(folder));
    // The next page is read while the last one is processed.
    let (sender, mut pages) = mpsc::channel::<Vec<OrderMoney>>(PAGES_WAITING);
    let collected = async {
        let mut count = 0;
        while let Some(page) = pages.recv().await {
            count += u64::try_from(page.len()).unwrap_or(0);
            let (returned, lookups) = run_blocking(move || {
                let lookups = collector.add_page(page);
                (collector, lookups)
            })
            .await;
            collector = returned;
            let PageLookups { later_attempts, undated, flags } =
                lookups.map_err(ReconcileError::scratch_disk)?;
            for tried_reference in later_attempts {
                let found = paid_twice::detect_paid_twice(shared, tried_reference).await?;
                let mut found = found.iter();
                found.try_for_each(|f| paid_twice.push(f)).map_err(ReconcileError::scratch_disk)?;
            }
            for (flags, ours) in flags {
                let dated = date_flags(shared, rules, flags, ours).await?;
                flagged.push(&dated, rules)?;
            }
            for mut ours in undated {
                date_refunds(shared, &mut ours).await?;
                collector.push(ours).map_err(ReconcileError::scratch_disk)?;
            }
            show_progress(count);
        }
        Ok::<_, ReconcileError>(collector.sort)
    };
    let reading = async { Ok(read_all(shared, window(partner, rules, from), sender).await?) };
    let ((), sort) = tokio::try_join!(reading, collected)?;
    let sorted = sort.sorted().map_err(ReconcileError::scratch_disk)?;
    Ok(SortedOrders { sorted, from, paid_twice, flagged })
}

/// Calls `each` with the flags of every order created from `from` until the end of the day. Errors:
/// those of `each`; a halt.
pub(crate) async fn each_flags(
    shared: &SharedContext,
    partner: &PartnerCode,
    (rules, from): (&DayRules, Time),
    mut each: impl FnMut(DatedFlags) -> Result<(), ReconcileError>,
) -> Result<(), ReconcileError> {
    let (sender, mut pages) = mpsc::channel::<Vec<OrderMoney>>(PAGES_WAITING);
    let collected = async {
        while let Some(page) = pages.recv().await {
            for order in page {
                let Some(flags) = OrderFlags::of(&order) else { continue };
                each(date_flags(shared, rules, flags, OurOrder::of(order)).await?)?;
            }
        }
        Ok::<_, ReconcileError>(())
    };
    let reading = async { Ok(read_all(shared, window(partner, rules, from), sender).await?) };
    tokio::try_join!(reading, collected).map(|_| ())
}

/// Dates the refunds of an order and gives its flags their day. Errors: a halt.
pub(crate) async fn date_flags(
    shared: &SharedContext,
    rules: &DayRules,
    flags: OrderFlags,
    mut ours: OurOrder,
) -> Result<DatedFlags, ReconcileError> {
    date_refunds(shared, &mut ours).await?;
    Ok(DatedFlags::of(flags, &ours, rules))
}

/// The creation times of orders that may have money of the day.
fn window(partner: &PartnerCode, rules: &DayRules, from: Time) -> Window {
    let until = rules.until.plus_ms(rules.cut_off_ms).min(rules.now);
    Window { partner: partner.clone(), from, until }
}

/// Reads a window, several stretches side by side; the pages come in no particular order.
async fn read_all(
    shared: &SharedContext,
    Window { partner, from, until }: Window,
    sender: mpsc::Sender<Vec<OrderMoney>>,
) -> Result<(), Halt> {
    let windows = Mutex::new(stretches(&partner, (from, until)));
    let readers = (0..READERS).map(|_| read_pages(shared, &windows, sender.clone()));
    let readers: Vec<_> = readers.collect();
    drop(sender);
    try_join_all(readers).await.map(|_| ())
}

/// Divides a window into stretches without gap or overlap.
fn stretches(
    partner: &PartnerCode,
    (from, until): (Time, Time),
) -> impl Iterator<Item = Window> + use<> {
    let span_ms = until.unix_ms().saturating_sub(from.unix_ms());
    let border = move |n: i64| match n {
        STRETCHES => until,
        n => from.plus_ms(span_ms / STRETCHES * n),
    };
    let partner = partner.clone();
    (0..STRETCHES).map(move |n| Window {
        partner: partner.clone(),
        from: border(n),
        until: border(n + 1),
    })
}

/// Reads stretch after stretch, page by page, until none is left; other readers take stretches from
/// the same list.
async fn read_pages(
    shared: &SharedContext,
    windows: &Mutex<impl Iterator<Item = Window>>,
    pages: mpsc::Sender<Vec<OrderMoney>>,
) -> Result<(), Halt> {
    loop {
        let Some(window) = windows.lock().await.next() else { return Ok(()) };
        let mut after: Option<Cursor> = None;
        loop {
            let ask = || shared.storage.store.money(window.clone(), after.clone(), PAGE);
            let MoneyPage { orders, next } =
                shared.storage.ask("read orders by creation", ask).await?;
            // Sending fails only if the receiver has failed, and then its error ends the read.
            let _ = pages.send(orders).await;
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
}

/// Sorts the orders of pages, and collects what needs further look-ups.
struct OrderCollector {
    sort: ExternalSort<OurOrder>,
    by: MatchKey,
    dates_refunds: bool,
}

/// What has to be looked up for the orders of a page.
#[derive(Default)]
struct PageLookups {
    /// References of paid orders that are second or later attempts.
    later_attempts: Vec<TriedReference>,
    /// Orders with undated refunds; they are sorted once their refunds are dated.
    undated: Vec<OurOrder>,
    /// Orders with flags that are findings of their day.
    flags: Vec<(OrderFlags, OurOrder)>,
}

impl OrderCollector {
    /// Adds the orders of a page. Orders without a notice or query answer are not sorted, but their
    /// flags count: a line that names such an order finds it by its key.
    fn add_page(&mut self, page: Vec<OrderMoney>) -> io::Result<PageLookups> {
        let mut lookups = PageLookups::default();
        for order in page {
            if is_second_attempt(&order) {
                lookups.later_attempts.extend(tried_reference(&order));
            }
            let has_no_statement =
                order.facts.ipns.is_empty() && order.facts.query_answers.is_empty();
            let flags = OrderFlags::of(&order);
            if has_no_statement && flags.is_none() {
                continue;
            }
            let ours = OurOrder::of(order);
            lookups.flags.extend(flags.map(|flags| (flags, ours.clone())));
            if has_no_statement {
                continue;
            }
            if self.dates_refunds && ours.has_undated_refunds() {
                lookups.undated.push(ours);
            } else {
                self.push(ours)?;
            }
        }
        Ok(lookups)
    }

    fn push(&mut self, ours: OurOrder) -> io::Result<()> {
        groups_of(self.by, ours).iter().try_for_each(|(key, group)| self.sort.push(key, group))
    }
}

fn is_second_attempt(order: &OrderMoney) -> bool {
    order.summary.state == OrderState::Paid && order.summary.attempt.is_some_and(|n| n > 1)
}

fn tried_reference(order: &OrderMoney) -> Option<TriedReference> {
    let (key, reference) = (order.key.clone(), order.summary.reference.clone()?);
    Some(TriedReference { partner: key.partner, merchant_code: key.merchant_code, reference })
}

/// Dates undated refunds: by the time in the first notice that states the refund, else by the
/// receipt of that record. Errors: a halt.
pub(crate) async fn date_refunds(
    shared: &SharedContext,
    ours: &mut OurOrder,
) -> Result<(), ReconcileError> {
    for refund in ours.refs.iter_mut().flat_map(|known| &mut known.refunds) {
        if refund.money.at.is_none() {
            refund.money.at = stated_at(shared, refund.position).await?;
        }
    }
    Ok(())
}

/// The time that a record of `intake` states, else its receipt; `None` if the record is gone.
async fn stated_at(
    shared: &SharedContext,
    position: Position,
) -> Result<Option<Time>, ReconcileError> {
    let record = record_at(shared, position).await?;
    Ok(record.map(|record| match record.fact {
        Fact::Ipn(ipn) => ipn.timestamp.unwrap_or(record.received_at),
        _ => record.received_at,
    }))
}

/// When a record of `intake` was received; `None` if it is gone.
pub(crate) async fn received_at(
    shared: &SharedContext,
    position: Position,
) -> Result<Option<Time>, ReconcileError> {
    Ok(record_at(shared, position).await?.map(|record| record.received_at))
}

async fn record_at(
    shared: &SharedContext,
    position: Position,
) -> Result<Option<FactRecord>, ReconcileError> {
    let log = &*shared.storage.log;
    let ask = || -> SeamFuture<'_, _, _> { Box::pin(message_at(log, Topic::Intake, position)) };
    let found = shared.storage.ask("read a record of intake", ask).await?;
    Ok(found.and_then(|message| match message.intake_record() {
        Ok(IntakeRecord::Fact(record)) => Some(record),
        Ok(
            IntakeRecord::Switch(_) | IntakeRecord::Parked(_) | IntakeRecord::ParkingProposed(_),
        )
        | Err(_) => None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_the_window_without_gap_or_overlap() {
        let partner = PartnerCode::parse("p").unwrap();
        for (from, until) in [(0, 691_200_000), (-7, 1_000), (5, 30), (9, 9), (9, 3)] {
            let (from, until) =
                (Time::from_unix_ms(from), Time::from_unix_nanos(until * 1_000_000 + 3));
            let all: Vec<Window> = stretches(&partner, (from, until)).collect();
            assert_eq!((all[0].from, all.last().unwrap().until), (from, until));
            assert!(all.windows(2).all(|two| two[0].until == two[1].from), "{all:?}");
            let ascends = all.iter().all(|one| one.from <= one.until);
            assert_eq!(ascends, from <= until, "{all:?}");
        }
    }
}
