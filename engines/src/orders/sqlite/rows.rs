//! Owns the order row: its encoding (a version byte, then CBOR) and how rows are read and replaced.
//! Invariants: a row never gives way to one of an older position; an unknown version is never skipped.

use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use rusqlite::{Connection, OptionalExtension, params};

use super::tables::GENERATION;
use crate::EngineError;
use crate::sqlite::{seam_error, to_sql};

const ROW_VERSION: u8 = 1;

fn encode(order: &Order, row: &mut Vec<u8>) {
    row.clear();
    row.push(ROW_VERSION);
    minicbor::encode(order, row).expect("encoding into memory can't fail");
}

fn decode(key: &str, row: &[u8]) -> Result<Order, EngineError> {
    match row.split_first() {
        Some((&ROW_VERSION, order)) => minicbor::decode(order).map_err(|error| {
            EngineError::Corrupt(format!("the row of {key} does not decode: {error}"))
        }),
        Some((version, _)) => Err(EngineError::Corrupt(format!(
            "the row of {key} has version {version}, this program reads {ROW_VERSION}: use the program that wrote it"
        ))),
        None => Err(EngineError::Corrupt(format!("the row of {key} is empty"))),
    }
}

/// Rows by key, in the keys' order.
pub(super) fn load(
    connection: &Connection,
    keys: &[OrderKey],
) -> Result<Vec<Option<Order>>, EngineError> {
    // In the table's order the same pages are not read twice.
    let mut sorted: Vec<_> = keys.iter().map(OrderKey::to_string).enumerate().collect();
    sorted.sort_unstable_by(|(_, a), (_, b)| a.cmp(b));
    // One read transaction for all: each on its own would lock and unlock the file once more. It ends when
    // it is dropped.
    let _reading = connection.unchecked_transaction().map_err(seam_error)?;
    let sql = format!("SELECT row FROM orders_g{GENERATION} WHERE key = ?");
    let mut statement = connection.prepare_cached(&sql).map_err(seam_error)?;
    let mut found: Vec<Option<Order>> = keys.iter().map(|_| None).collect();
    for (index, key) in sorted {
        let row = statement.query_row([&key], |row| {
            Ok(row
                .get_ref(0)?
                .as_blob()
                .map_err(rusqlite::Error::from)
                .map(|row| decode(&key, row)))
        });
        if let Some(order) = row.optional().map_err(seam_error)? {
            found[index] = Some(order.map_err(seam_error)??);
        }
    }
    Ok(found)
}

/// Writes rows, each over an older one of its key.
pub(super) fn store(connection: &Connection, orders: &[Order]) -> Result<(), EngineError> {
    let mut sorted: Vec<_> = orders.iter().map(|order| (order.key.to_string(), order)).collect();
    sorted.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    let sql = format!(
        "INSERT INTO orders_g{GENERATION} VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE
         SET partition = excluded.partition, offset = excluded.offset, row = excluded.row
         WHERE partition <> excluded.partition OR offset <= excluded.offset"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(seam_error)?;
    let mut row = Vec::new();
    for (key, order) in sorted {
        encode(order, &mut row);
        let position = order.position;
        let values = params![key, position.partition, to_sql(position.offset), row];
        statement.execute(values).map_err(seam_error)?;
    }
    Ok(())
}
