//! Owns the reading of a window's orders in one statement: the walk along the view holds the place in the table of rows,
//! which orders that came after each other mostly share.
//! Invariant: no row of another partner is looked up.

use payfold_schemas::order::OrderMoney;
use rusqlite::{Connection, Row, params};

use super::tables::LAYOUT;
use crate::EngineError;
use crate::orders::{Cursor, MoneyPage, Window, cursor, row};
use crate::sqlite::seam_error;

/// One page of a window.
pub(super) fn page(
    connection: &Connection,
    window: &Window,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<MoneyPage, EngineError> {
    let fetch = i64::try_from(cursor::fetch(limit)?).unwrap_or(i64::MAX);
    let (time, key) = cursor::after_time("created", after, window.from)?;
    // No partner's code has a slash; 0 stands behind it.
    let (first, beyond) = (format!("{}/", window.partner), format!("{}0", window.partner));
    // The outer join also keeps the view outside: SQLite walks it, and looks up each key it finds.
    let sql = format!(
        "SELECT v.time, v.key, o.row FROM view_created_g{LAYOUT} v LEFT JOIN orders_g{LAYOUT} o
         ON o.key = CASE WHEN v.key >= ?4 AND v.key < ?5 THEN v.key END
         WHERE (v.time, v.key) > (?1, ?2) AND v.time < ?3 ORDER BY v.time, v.key LIMIT ?6"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(seam_error)?;
    let values = params![time, key, window.until.unix_nanos(), first, beyond, fetch];
    let mut rows = statement.query(values).map_err(seam_error)?;
    let (mut orders, mut looked_at, mut last) = (Vec::with_capacity(limit), 0, None);
    while let Some(found) = rows.next().map_err(seam_error)? {
        if looked_at == limit {
            return Ok(MoneyPage { orders, next: last });
        }
        looked_at += 1;
        orders.extend(order(found)?);
        if looked_at == limit {
            last = Some(cursor_on(found).map_err(seam_error)?);
        }
    }
    Ok(MoneyPage { orders, next: None })
}

/// The order of an entry, unless it is another partner's or has no row.
fn order(found: &Row<'_>) -> Result<Option<OrderMoney>, EngineError> {
    let columns = || {
        let key = found.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
        let row = found.get_ref(2)?.as_blob_or_null().map_err(rusqlite::Error::from)?;
        Ok((key, row))
    };
    let (key, row) = columns().map_err(seam_error)?;
    row.map(|row| row::decode(key, row)).transpose()
}

fn cursor_on(found: &Row<'_>) -> rusqlite::Result<Cursor> {
    let key = found.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
    Ok(Cursor(cursor::by_time("created", found.get(0)?, key)))
}
