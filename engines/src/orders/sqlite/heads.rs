//! Owns the heads of the log's hash chain, one for each commit and partition: proof of the records
//! that were folded. Invariants: a head is written in the transaction of its commit and never
//! changed; in a store that was folded before heads were kept, the first head records that
//! (`Head::resumed`).

use payfold_schemas::chain::Head;
use payfold_schemas::digest::Digest;
use payfold_schemas::position::Position;
use rusqlite::{Connection, params};

use super::layout::LAYOUT;
use crate::EngineError;
use crate::sqlite::{from_sql, seam_error, to_sql};

/// Creates the table if it doesn't exist.
pub(super) fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "CREATE TABLE IF NOT EXISTS heads_g{LAYOUT} (partition INTEGER, offset INTEGER, head BLOB \
         NOT NULL,
             PRIMARY KEY (partition, offset)) WITHOUT ROWID"
    ))
}

/// Adds a head, inside the transaction of its commit.
pub(super) fn add(
    connection: &Connection,
    position: Position,
    head: Head,
) -> Result<(), EngineError> {
    let sql = format!("INSERT OR IGNORE INTO heads_g{LAYOUT} VALUES (?, ?, ?)");
    let digest = head.digest();
    let values = params![position.partition, to_sql(position.offset), digest.as_bytes()];
    connection
        .prepare_cached(&sql)
        .and_then(|mut statement| statement.execute(values))
        .map(|_| ())
        .map_err(seam_error)
}

/// Reads up to `limit` heads of a partition after a position, in order. A file that this version
/// has opened for reading only may lack the table.
pub(super) fn after(
    connection: &Connection,
    after: Position,
    limit: usize,
) -> Result<Vec<(Position, Head)>, EngineError> {
    let name = format!("heads_g{LAYOUT}");
    if !connection.table_exists(None, name.as_str()).map_err(seam_error)? {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT offset, head FROM {name} WHERE partition = ? AND offset > ? ORDER BY offset LIMIT ?"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(seam_error)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let values = params![after.partition, to_sql(after.offset), limit];
    let mut rows = statement.query(values).map_err(seam_error)?;
    let mut heads = Vec::new();
    while let Some(row) = rows.next().map_err(seam_error)? {
        let offset = from_sql(row.get(0).map_err(seam_error)?)?;
        let head = Head::kept(Digest::from_bytes(row.get(1).map_err(seam_error)?));
        heads.push((Position { offset, ..after }, head));
    }
    Ok(heads)
}
