//! Owns reading the amounts of a window's orders in one statement. SQLite keeps its position in the
//! table of rows between two look-ups, and successive orders are mostly on the same page.
//! Invariant: rows of other partners are not looked up.

use payfold_schemas::order_money::OrderMoney;
use rusqlite::{Connection, Row, params};

use super::layout::LAYOUT;
use crate::EngineError;
use crate::orders::{Cursor, MoneyPage, Window, cursor, row};
use crate::sqlite::seam_error;

/// Reads one page of a window.
pub(super) fn page(
    connection: &Connection,
    window: &Window,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<MoneyPage, EngineError> {
    let fetch = i64::try_from(cursor::fetch_count(limit)?).unwrap_or(i64::MAX);
    let (time, key) = cursor::after_time("created", after, window.from)?;
    // The range of the partner's keys: no partner's code has a slash, and `0` is the character
    // after `/`.
    let (first, beyond) = (format!("{}/", window.partner), format!("{}0", window.partner));
    // The outer join makes SQLite use the view as the outer loop and look each of its keys up.
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

/// Decodes the order of an entry; `None` for another partner's, and for an entry without a row.
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
