//! Owns the reading of our side: the orders that may have money of the day, sorted as the records are. Constant memory: a
//! page at a time, sorted in files. On the way it looks for references of which two attempts are paid.

use std::path::Path;

use payfold_engines::log::Topic;
use payfold_engines::orders::{Cursor, Page, Scan};
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::{OrderKey, PartnerCode};
use payfold_schemas::order::{Order, OrderState};
use payfold_schemas::record::{Position, decode_fact};
use payfold_schemas::time::Time;

use tokio::sync::{Mutex, mpsc};

use super::BooksError;
use super::found::Found;
use super::judge::{By, groups_of};
use super::ours::OurOrder;
use super::pile::Pile;
use super::rules::Rules;
use super::siblings;
use super::spool::{LANES, Sorted, Spool};
use crate::run::{Halt, Shared};

/// Orders of one page: some 1 MB.
const PAGE: usize = 512;
/// Pages that wait to be loaded, or to be taken in.
const PAGES_WAITING: usize = 1;

/// What our side came to.
pub(crate) struct Orders {
    pub(crate) sorted: [Sorted<OurOrder>; LANES],
    /// Two attempts of one reference are paid.
    pub(crate) paid_twice: Pile<Found>,
}

/// Reads the orders that were created so long before the day's end. `tell` hears how many there were.
pub(crate) async fn read(
    shared: &Shared,
    partner: &PartnerCode,
    (rules, by): (&Rules, By),
    (from, folder): (Time, &Path),
    tell: impl Fn(u64),
) -> Result<Orders, BooksError> {
    let until = rules.until.plus_ms(rules.cut_off_ms).min(rules.now);
    let scan = Scan::Created { from, until };
    let mut spool = Spool::in_folder(folder).map_err(BooksError::scratch)?;
    let mut paid_twice = Pile::in_folder(folder);
    // Pages are loaded side by side while those before them are taken in.
    let (walked, keys) = mpsc::channel(PAGES_WAITING);
    let (loaded, mut pages) = mpsc::channel::<Vec<Option<Order>>>(PAGES_WAITING);
    let keys = Mutex::new(keys);
    let taken = async {
        let mut count = 0;
        while let Some(rows) = pages.recv().await {
            count += u64::try_from(rows.len()).unwrap_or(0);
            for order in rows.iter().flatten() {
                if is_second_attempt(order) {
                    let found = siblings::paid_twice(shared, order).await?;
                    let mut found = found.iter();
                    found.try_for_each(|f| paid_twice.push(f)).map_err(BooksError::scratch)?;
                }
                take(shared, order, (rules, by), &mut spool).await?;
            }
            tell(count);
        }
        Ok::<(), BooksError>(())
    };
    let walking = async { Ok(walk(shared, (&scan, partner), walked).await?) };
    let loading = |loaded| async { Ok(load(shared, &keys, loaded).await?) };
    let (one, two, three) = (loaded.clone(), loaded.clone(), loaded);
    tokio::try_join!(walking, loading(one), loading(two), loading(three), taken)?;
    Ok(Orders { sorted: spool.sorted().map_err(BooksError::scratch)?, paid_twice })
}

/// The partner's orders in the window, page by page.
async fn walk(
    shared: &Shared,
    (scan, partner): (&Scan, &PartnerCode),
    pages: mpsc::Sender<Vec<OrderKey>>,
) -> Result<(), Halt> {
    let mut after: Option<Cursor> = None;
    loop {
        let (mine, next) = page(shared, (scan, partner), after, PAGE).await?;
        // Nobody takes them if what is loaded failed, and then nobody asks.
        let _ = pages.send(mine).await;
        match next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

/// A partner's orders of one page of a window, and where the next one begins.
pub(crate) async fn page(
    shared: &Shared,
    (scan, partner): (&Scan, &PartnerCode),
    after: Option<Cursor>,
    limit: usize,
) -> Result<(Vec<OrderKey>, Option<Cursor>), Halt> {
    let ask = || shared.store.scan(scan.clone(), after.clone(), limit);
    let Page { entries, next } = shared.ask("walk the orders by creation", ask).await?;
    let mine = entries.into_iter().map(|(key, _)| key).filter(|key| key.partner == *partner);
    Ok((mine.collect(), next))
}

/// Loads one page after another; others do so beside it.
async fn load(
    shared: &Shared,
    keys: &Mutex<mpsc::Receiver<Vec<OrderKey>>>,
    pages: mpsc::Sender<Vec<Option<Order>>>,
) -> Result<(), Halt> {
    loop {
        let Some(keys) = keys.lock().await.recv().await else { return Ok(()) };
        let rows = shared.load(&keys).await?;
        // As above.
        let _ = pages.send(rows).await;
    }
}

fn is_second_attempt(order: &Order) -> bool {
    order.summary.state == OrderState::Paid && order.summary.attempt.is_some_and(|n| n > 1)
}

/// Orders nothing was ever said of are left out: a line that names one finds it by its key.
async fn take(
    shared: &Shared,
    order: &Order,
    (rules, by): (&Rules, By),
    spool: &mut Spool<OurOrder>,
) -> Result<(), BooksError> {
    if order.facts.ipns.is_empty() && order.facts.query_answers.is_empty() {
        return Ok(());
    }
    let mut ours = OurOrder::of(order);
    if rules.lists.refunds {
        date_refunds(shared, &mut ours).await?;
    }
    for (key, of_group) in groups_of(by, ours) {
        spool.push(&key, &of_group).map_err(BooksError::scratch)?;
    }
    Ok(())
}

/// A refund that says no time happened when its first notice says it was sent, else when that came.
pub(crate) async fn date_refunds(shared: &Shared, ours: &mut OurOrder) -> Result<(), BooksError> {
    for known in &mut ours.refs {
        for refund in &mut known.refunds {
            if refund.money.at.is_none() {
                refund.money.at = told_at(shared, refund.position).await?;
            }
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
