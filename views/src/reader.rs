//! Owns what rows are read from: the log, the orders, and the findings.

use std::sync::Arc;

use payfold_engines::log::EventLog;
use payfold_engines::orders::{Cursor, OrderStore, Page, Scan};
use payfold_projector::journal::Journal;
use payfold_reconcile::ledger::Ledger;
use payfold_schemas::order::Order;
use tokio::sync::Mutex;

use crate::error::ReadError;

/// The most orders of one page.
pub const ORDERS_MAX: usize = 500;
/// The fewest orders that are read at once: a filter may keep few of them.
const SCANNED_MIN: usize = 100;
/// How many orders are looked at for one page. A filter that few orders match gets short pages.
const LOOKED_AT_MAX: usize = 10_000;

/// The part of a listing that is asked for.
pub(crate) struct Range<'a> {
    /// The most rows.
    pub(crate) limit: Option<usize>,
    /// Where the page before ended.
    pub(crate) after: Option<&'a str>,
}

/// Reads rows.
pub struct Reader {
    pub(crate) log: Arc<dyn EventLog>,
    pub(crate) store: Arc<dyn OrderStore>,
    /// The findings, once they have been read. It follows the log at each read.
    ledger: Mutex<Option<Ledger>>,
    /// The decisions about builds.
    pub(crate) journal: Journal,
}

impl Reader {
    /// A reader of these engines.
    pub fn new(log: Arc<dyn EventLog>, store: Arc<dyn OrderStore>) -> Self {
        let journal = Journal::new(Arc::clone(&store));
        Self { log, store, ledger: Mutex::new(None), journal }
    }

    /// Reads the orders of a scan, and keeps those of which `keep` makes a row, up to the limit.
    /// Returns the rows, and where to go on: there may be more of them. Errors: the store's; those
    /// of `keep`.
    pub(crate) async fn rows_of<T>(
        &self,
        scan: Scan,
        Range { limit, after }: Range<'_>,
        keep: impl AsyncFn(Order) -> Result<Option<T>, ReadError>,
    ) -> Result<(Vec<T>, Option<String>), ReadError> {
        let limit = limit.unwrap_or(ORDERS_MAX).clamp(1, ORDERS_MAX);
        let (mut rows, mut looked_at) = (Vec::new(), 0);
        let mut after = after.map(|text| Cursor(text.to_owned()));
        loop {
            let count = limit.max(SCANNED_MIN);
            let Page { entries, next } = self.store.scan(scan.clone(), after, count).await?;
            let keys = entries.iter().map(|(key, _)| key.clone()).collect();
            let orders = self.store.load(keys).await?;
            looked_at += entries.len();
            let mut rest = entries.iter().zip(orders);
            while let Some((entry, order)) = rest.next() {
                let Some(order) = order else { continue };
                rows.extend(keep(order).await?);
                if rows.len() == limit {
                    let has_more = rest.next().is_some() || next.is_some();
                    return Ok((rows, has_more.then(|| scan.cursor_behind(entry).0)));
                }
            }
            match next {
                Some(next) if looked_at < LOOKED_AT_MAX => after = Some(next),
                next => return Ok((rows, next.map(|cursor| cursor.0))),
            }
        }
    }

    /// Reads from the ledger of findings, as the log is now. Errors: the log's; those of `read`.
    pub(crate) async fn ledger<T>(
        &self,
        read: impl FnOnce(&Ledger) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let mut kept = self.ledger.lock().await;
        let ledger = match &mut *kept {
            Some(ledger) => ledger,
            none => none.insert(Ledger::in_memory()?),
        };
        ledger.catch_up(&*self.log).await?;
        read(ledger)
    }
}
