//! Owns reading and replacing order rows. Invariant: a row is never replaced by one of an older
//! position.

use std::sync::Arc;

use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use rusqlite::{Connection, OptionalExtension, params};

use super::layout::LAYOUT;
use crate::EngineError;
use crate::orders::{Cursor, Walked, row, walked};
use crate::sqlite::{seam_error, to_sql};

/// Loads the rows of these keys, in the same order.
pub(super) fn load(
    connection: &Connection,
    keys: &[OrderKey],
) -> Result<Vec<Option<Order>>, EngineError> {
    // Sorted as the table is, so that no page is read twice.
    let mut sorted: Vec<_> = keys.iter().map(OrderKey::to_string).enumerate().collect();
    sorted.sort_unstable_by(|(_, a), (_, b)| a.cmp(b));
    // One read transaction for all queries, because each transaction locks and unlocks the file. It
    // ends on drop.
    let _reading = connection.unchecked_transaction().map_err(seam_error)?;
    let sql = format!("SELECT row FROM orders_g{LAYOUT} WHERE key = ?");
    let mut statement = connection.prepare_cached(&sql).map_err(seam_error)?;
    let mut found: Vec<Option<Order>> = keys.iter().map(|_| None).collect();
    for (index, key) in sorted {
        let found_row = statement.query_row([&key], |columns| {
            Ok(columns
                .get_ref(0)?
                .as_blob()
                .map_err(rusqlite::Error::from)
                .map(|bytes| row::decode(&key, bytes)))
        });
        if let Some(order) = found_row.optional().map_err(seam_error)? {
            found[index] = Some(order.map_err(seam_error)??);
        }
    }
    Ok(found)
}

/// Reads up to `limit` rows after a cursor, by key.
pub(super) fn walk(
    connection: &Connection,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<Vec<Walked>, EngineError> {
    let (_, key) = after.map(walked::after).transpose()?.unwrap_or_default();
    let sql = format!("SELECT key, row FROM orders_g{LAYOUT} WHERE key > ? ORDER BY key LIMIT ?");
    let mut statement = connection.prepare_cached(&sql).map_err(seam_error)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let of = |row: &rusqlite::Row<'_>| Ok(Walked { place: 0, key: row.get(0)?, row: row.get(1)? });
    let rows = statement.query_map(params![key, limit], of).map_err(seam_error)?;
    rows.map(|row| row.map_err(seam_error)).collect()
}

/// Writes rows; each replaces an older row of its key.
pub(super) fn store(connection: &Connection, orders: &[Arc<Order>]) -> Result<(), EngineError> {
    let mut sorted: Vec<_> = orders.iter().map(|order| (order.key.to_string(), order)).collect();
    sorted.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    let sql = format!(
        "INSERT INTO orders_g{LAYOUT} VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE
         SET partition = excluded.partition, offset = excluded.offset, row = excluded.row
         WHERE partition <> excluded.partition OR offset <= excluded.offset"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(seam_error)?;
    let mut bytes = Vec::new();
    for (key, order) in sorted {
        row::encode(order, &mut bytes);
        let position = order.position;
        let values = params![key, position.partition, to_sql(position.offset), bytes];
        statement.execute(values).map_err(seam_error)?;
    }
    Ok(())
}
