//! Owns the reading of our side: the orders that may have money of the day, sorted as the records are. Constant memory: a
//! page at a time, sorted in files. On the way it looks for references of which two attempts are paid.

use std::io;
use std::path::Path;

use futures_util::future::try_join_all;
use payfold_engines::log::Topic;
use payfold_engines::orders::{Cursor, MoneyPage, Window};
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::order::{OrderMoney, OrderState};
use payfold_schemas::record::{Position, decode_fact};
use payfold_schemas::time::Time;
use tokio::sync::{Mutex, mpsc};

use super::flag_days::{DatedFlags, FlagPiles};
use super::flags::OrderFlags;
use super::found::Found;
use super::judge::{By, groups_of};
use super::ours::OurOrder;
use super::pile::Pile;
use super::rules::Rules;
use super::siblings::{self, Tried};
use super::spool::{LANES, Sorted, Spool};
use super::{BooksError, blocking};
use crate::run::{Halt, Shared};

/// Orders of one page: some 1 MB.
const PAGE: usize = 1_024;
/// Pages that wait to be taken in.
const PAGES_WAITING: usize = 1;
/// So many readers read side by side, each a stretch of the window at a time.
const READERS: usize = 3;
/// Stretches of equal length: most orders may lie in a few of them.
const STRETCHES: i64 = 64;

/// What our side came to.
pub(crate) struct Orders {
    pub(crate) sorted: [Sorted<OurOrder>; LANES],
    /// Older orders were not read.
    pub(crate) from: Time,
    /// Two attempts of one reference are paid.
    pub(crate) paid_twice: Pile<Found>,
    /// The flags of the day's orders, and those of earlier days.
    pub(crate) flagged: FlagPiles,
}

/// Reads the orders that were created so long before the day's end. `tell` hears how many there were.
pub(crate) async fn read(
    shared: &Shared,
    partner: &PartnerCode,
    (rules, by): (&Rules, By),
    (from, folder): (Time, &Path),
    tell: impl Fn(u64),
) -> Result<Orders, BooksError> {
    let spool = Spool::in_folder(folder).map_err(BooksError::scratch)?;
    let mut taking = Taking { spool, by, dates_refunds: rules.lists.refunds };
    let (mut paid_twice, mut flagged) = (Pile::in_folder(folder), FlagPiles::in_folder(folder));
    // Pages are read while those before them are taken in.
    let (sender, mut pages) = mpsc::channel::<Vec<OrderMoney>>(PAGES_WAITING);
    let taken = async {
        let mut count = 0;
        while let Some(page) = pages.recv().await {
            count += u64::try_from(page.len()).unwrap_or(0);
            let (back, left) = blocking(move || {
                let left = taking.page(page);
                (taking, left)
            })
            .await;
            taking = back;
            let Left { tried_again, undated, flags } = left.map_err(BooksError::scratch)?;
            for tried in tried_again {
                let found = siblings::paid_twice(shared, tried).await?;
                let mut found = found.iter();
                found.try_for_each(|f| paid_twice.push(f)).map_err(BooksError::scratch)?;
            }
            for (flags, ours) in flags {
                let dated = date_flags(shared, rules, flags, ours).await?;
                flagged.push(&dated, rules).map_err(BooksError::scratch)?;
            }
            for mut ours in undated {
                date_refunds(shared, &mut ours).await?;
                taking.push(ours).map_err(BooksError::scratch)?;
            }
            tell(count);
        }
        Ok::<_, BooksError>(taking.spool)
    };
    let reading = async { Ok(read_all(shared, window(partner, rules, from), sender).await?) };
    let ((), spool) = tokio::try_join!(reading, taken)?;
    let sorted = spool.sorted().map_err(BooksError::scratch)?;
    Ok(Orders { sorted, from, paid_twice, flagged })
}

/// The flags of the orders that were created so long before the day's end, each with its day.
pub(crate) async fn flags(
    shared: &Shared,
    partner: &PartnerCode,
    (rules, from): (&Rules, Time),
    mut each: impl FnMut(DatedFlags) -> Result<(), BooksError>,
) -> Result<(), BooksError> {
    let (sender, mut pages) = mpsc::channel::<Vec<OrderMoney>>(PAGES_WAITING);
    let taken = async {
        while let Some(page) = pages.recv().await {
            for order in page {
                let Some(flags) = OrderFlags::of(&order) else { continue };
                each(date_flags(shared, rules, flags, OurOrder::of(order)).await?)?;
            }
        }
        Ok::<_, BooksError>(())
    };
    let reading = async { Ok(read_all(shared, window(partner, rules, from), sender).await?) };
    tokio::try_join!(reading, taken).map(|_| ())
}

/// An order's flags with the day they are of.
pub(crate) async fn date_flags(
    shared: &Shared,
    rules: &Rules,
    flags: OrderFlags,
    mut ours: OurOrder,
) -> Result<DatedFlags, BooksError> {
    date_refunds(shared, &mut ours).await?;
    Ok(DatedFlags::of(flags, &ours, rules))
}

/// The orders that may have money of a day.
fn window(partner: &PartnerCode, rules: &Rules, from: Time) -> Window {
    let until = rules.until.plus_ms(rules.cut_off_ms).min(rules.now);
    Window { partner: partner.clone(), from, until }
}

/// Reads a window, several stretches side by side; the orders come in no order.
async fn read_all(
    shared: &Shared,
    Window { partner, from, until }: Window,
    sender: mpsc::Sender<Vec<OrderMoney>>,
) -> Result<(), Halt> {
    let windows = Mutex::new(stretches(&partner, (from, until)));
    let readers = (0..READERS).map(|_| read_pages(shared, &windows, sender.clone()));
    let readers: Vec<_> = readers.collect();
    drop(sender);
    try_join_all(readers).await.map(|_| ())
}

/// A window in stretches, without a gap.
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

/// Reads one stretch after another, page by page; others do so beside it.
async fn read_pages(
    shared: &Shared,
    windows: &Mutex<impl Iterator<Item = Window>>,
    pages: mpsc::Sender<Vec<OrderMoney>>,
) -> Result<(), Halt> {
    loop {
        let Some(window) = windows.lock().await.next() else { return Ok(()) };
        let mut after: Option<Cursor> = None;
        loop {
            let ask = || shared.store.money(window.clone(), after.clone(), PAGE);
            let MoneyPage { orders, next } = shared.ask("read orders by creation", ask).await?;
            // Nobody takes them if what came before failed, and then nobody asks.
            let _ = pages.send(orders).await;
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
}

/// Takes orders in as they are compared.
struct Taking {
    spool: Spool<OurOrder>,
    by: By,
    dates_refunds: bool,
}

/// What of a page is to be looked up elsewhere.
#[derive(Default)]
struct Left {
    /// References of paid orders that are not the first attempts at them.
    tried_again: Vec<Tried>,
    /// Orders with refunds that say no time; they are not taken in yet.
    undated: Vec<OurOrder>,
    /// Orders with flags that are findings, if they are of the day.
    flags: Vec<(OrderFlags, OurOrder)>,
}

impl Taking {
    /// Orders nothing was ever said of are left out, but for their flags: a line that names one finds it by its key.
    fn page(&mut self, page: Vec<OrderMoney>) -> io::Result<Left> {
        let mut left = Left::default();
        for order in page {
            if is_second_attempt(&order) {
                left.tried_again.extend(tried(&order));
            }
            let is_silent = order.facts.ipns.is_empty() && order.facts.query_answers.is_empty();
            let flags = OrderFlags::of(&order);
            if is_silent && flags.is_none() {
                continue;
            }
            let ours = OurOrder::of(order);
            left.flags.extend(flags.map(|flags| (flags, ours.clone())));
            if is_silent {
                continue;
            }
            if self.dates_refunds && ours.has_undated_refunds() {
                left.undated.push(ours);
            } else {
                self.push(ours)?;
            }
        }
        Ok(left)
    }

    fn push(&mut self, ours: OurOrder) -> io::Result<()> {
        groups_of(self.by, ours).iter().try_for_each(|(key, group)| self.spool.push(key, group))
    }
}

fn is_second_attempt(order: &OrderMoney) -> bool {
    order.summary.state == OrderState::Paid && order.summary.attempt.is_some_and(|n| n > 1)
}

fn tried(order: &OrderMoney) -> Option<Tried> {
    let (key, reference) = (order.key.clone(), order.summary.reference.clone()?);
    Some((key.partner, key.merchant_code, reference))
}

/// A refund that says no time happened when its first notice says it was sent, else when that came.
pub(crate) async fn date_refunds(shared: &Shared, ours: &mut OurOrder) -> Result<(), BooksError> {
    for refund in ours.refs.iter_mut().flat_map(|known| &mut known.refunds) {
        if refund.money.at.is_none() {
            refund.money.at = told_at(shared, refund.position).await?;
        }
    }
    Ok(())
}

async fn told_at(shared: &Shared, position: Position) -> Result<Option<Time>, BooksError> {
    let Some(before) = position.offset.checked_sub(1) else { return Ok(None) };
    let before = Position { offset: before, ..position };
    let ask = || shared.log.read_after(Topic::Intake, before, 1);
    let messages = shared.ask("read a record of intake", ask).await?;
    let found = messages.first().filter(|message| message.position == position);
    let record = found.and_then(|message| decode_fact(&message.value).ok());
    Ok(record.map(|record| match record.fact {
        Fact::Ipn(ipn) => ipn.timestamp.unwrap_or(record.received_at),
        _ => record.received_at,
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
