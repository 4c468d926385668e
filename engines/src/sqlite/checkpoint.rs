//! Owns the checkpoint, which copies the write-ahead log into the database.

use rusqlite::Connection;

/// How much of the write-ahead log a checkpoint copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checkpointed {
    /// All of it, synced.
    All,
    /// A part, because a reader holds an older state or another connection runs a checkpoint.
    Part,
}

/// Copies the write-ahead log into the database. `mode` is SQLite's name of the checkpoint mode.
pub(crate) fn checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<Checkpointed> {
    let sql = format!("PRAGMA wal_checkpoint({mode})");
    let mut statement = connection.prepare_cached(&sql)?;
    // SQLite returns whether it was blocked, the number of frames in the write-ahead log, and how
    // many of them are in the database; -1 if unknown.
    let (held_up, frames, written): (bool, i64, i64) =
        statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let is_known = frames >= 0 || !held_up;
    Ok(if frames == written && is_known { Checkpointed::All } else { Checkpointed::Part })
}
