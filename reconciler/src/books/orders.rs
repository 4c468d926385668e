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

use tokio::sync::mpsc;

use super::BooksError;
use super::found::Found;
use super::judge::{By, groups_of};
use super::ours::OurOrder;
use super::pile::Pile;
use super::rules::Rules;
use super::siblings;
use super::spool::{LANES, Sorted, Spool};
use crate::run::Shared;

/// Orders of one page: some 2 MB. With fewer, threads wait for each other more than they work.
const PAGE: usize = 1_024;
/// Pages that wait to be sorted in.
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
    // Pages are loaded while those before them are sorted in.
    let (sender, mut pages) = mpsc::channel(PAGES_WAITING);
    let loaded = async {
        load(shared, partner, &scan, &sender, tell).await?;
        drop(sender);
        Ok::<(), BooksError>(())
    };
    let taken = async {
        while let Some(rows) = pages.recv().await {
            for order in &rows {
                if is_second_attempt(order) {
                    let found = siblings::paid_twice(shared, order).await?;
                    let mut found = found.iter();
                    found.try_for_each(|f| paid_twice.push(f)).map_err(BooksError::scratch)?;
                }
                take(shared, order, (rules, by), &mut spool).await?;
            }
        }
        Ok(())
    };
    tokio::try_join!(loaded, taken)?;
    let sorted = super::blocking(move || spool.sorted()).await.map_err(BooksError::scratch)?;
    Ok(Orders { sorted, paid_twice })
}

/// All orders of the partner in the window, page by page.
async fn load(
    shared: &Shared,
    partner: &PartnerCode,
    scan: &Scan,
    pages: &mpsc::Sender<Vec<Order>>,
    tell: impl Fn(u64),
) -> Result<(), BooksError> {
    let mut count = 0;
    let mut page = next(shared, scan, None).await?;
    loop {
        let mine = page.entries.into_iter().map(|(key, _)| key);
        let keys: Vec<OrderKey> = mine.filter(|key| key.partner == *partner).collect();
        let (one, other) = keys.split_at(keys.len() / 2);
        let following = async {
            match page.next {
                None => Ok(None),
                Some(after) => next(shared, scan, Some(after)).await.map(Some),
            }
        };
        // The next page is looked up while this one's orders are loaded, and these by two.
        let (one, other, following) =
            tokio::try_join!(shared.load(one), shared.load(other), following)?;
        // Nobody takes them if what is taken failed, and then nobody asks.
        let _ = pages.send(one.into_iter().chain(other).flatten().collect()).await;
        count += u64::try_from(keys.len()).unwrap_or(0);
        tell(count);
        match following {
            Some(following) => page = following,
            None => return Ok(()),
        }
    }
}

async fn next(
    shared: &Shared,
    scan: &Scan,
    after: Option<Cursor>,
) -> Result<Page, crate::run::Halt> {
    let ask = || shared.store.scan(scan.clone(), after.clone(), PAGE);
    shared.ask("walk the orders by creation", ask).await
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
