//! Owns the order store's tables: their names by generation, and how far the folding has come.
//! Invariants: progress moves in the transaction that writes the rows; it never goes back, never changes
//! its log, and one position never gets two digests.

use std::path::Path;

use payfold_schemas::digest::Digest;
use payfold_schemas::record::Position;
use rusqlite::{Connection, OptionalExtension, params};

use super::SqliteOrdersSettings;
use crate::EngineError;
use crate::orders::{Folded, Progress};
use crate::sqlite::{from_sql, open_writer, seam_error, to_sql};

const SCHEMA_VERSION: i64 = 1;

/// The generation of every table this version makes.
pub(super) const GENERATION: u32 = 1;

/// Opens the writer's connection and makes the tables that are not there.
///
/// NORMAL syncs at checkpoints only. After a power cut the store may stand where it stood a little earlier,
/// rows and progress together, and what is missing is folded again. It is never ahead of the log, for the
/// log is synced before anybody can read it.
pub(super) fn open(
    path: &Path,
    settings: &SqliteOrdersSettings,
) -> Result<Connection, EngineError> {
    let pragmas = format!(
        "PRAGMA page_size = 4096; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 16384;
         PRAGMA cache_size = -{};",
        settings.writer_cache_kib
    );
    let connection = open_writer(path, &pragmas)?;
    create(&connection, GENERATION).map_err(seam_error)?;
    Ok(connection)
}

fn create(connection: &Connection, generation: u32) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE;
         CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
         CREATE TABLE IF NOT EXISTS progress_g{generation} (partition INTEGER PRIMARY KEY,
             offset INTEGER NOT NULL, digest BLOB NOT NULL, log_id BLOB NOT NULL);
         CREATE TABLE IF NOT EXISTS orders_g{generation} (key TEXT PRIMARY KEY, partition INTEGER NOT NULL,
             offset INTEGER NOT NULL, row BLOB NOT NULL);
         CREATE TABLE IF NOT EXISTS view_created_g{generation} (time INTEGER, key TEXT,
             PRIMARY KEY (time, key)) WITHOUT ROWID;
         CREATE TABLE IF NOT EXISTS view_deadline_g{generation} (time INTEGER, key TEXT,
             PRIMARY KEY (time, key)) WITHOUT ROWID;
         CREATE TABLE IF NOT EXISTS view_reference_g{generation} (account TEXT, reference TEXT,
             order_id TEXT, PRIMARY KEY (account, reference, order_id)) WITHOUT ROWID;
         CREATE TABLE IF NOT EXISTS view_provider_ref_g{generation} (account TEXT, provider_ref TEXT,
             order_id TEXT, PRIMARY KEY (account, provider_ref, order_id)) WITHOUT ROWID;
         CREATE TABLE IF NOT EXISTS view_nonce_g{generation} (account TEXT, nonce TEXT, digest BLOB,
             order_id TEXT, PRIMARY KEY (account, nonce, digest, order_id)) WITHOUT ROWID;
         INSERT OR IGNORE INTO meta VALUES ('schema_version', {SCHEMA_VERSION});
         COMMIT"
    ))
}

/// Refuses a file this program does not know. Errors: `Invalid` for another version, `Corrupt` for no store.
pub(super) fn check(connection: &Connection) -> Result<(), EngineError> {
    let sql = "SELECT value FROM meta WHERE name = 'schema_version'";
    let version: i64 = connection.query_row(sql, [], |row| row.get(0)).map_err(|error| {
        EngineError::Corrupt(format!("this is not a payfold order store: {error}"))
    })?;
    if version == SCHEMA_VERSION {
        return Ok(());
    }
    Err(EngineError::Invalid(format!(
        "the order store has schema version {version}, this program reads {SCHEMA_VERSION}: move it away and it will be rebuilt from the log"
    )))
}

/// How far the store has been folded.
pub(super) fn progress(connection: &Connection) -> Result<Option<Progress>, EngineError> {
    let sql = format!(
        "SELECT partition, offset, digest, log_id FROM progress_g{GENERATION} ORDER BY partition"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(seam_error)?;
    let mut rows = statement.query([]).map_err(seam_error)?;
    let mut progress: Option<Progress> = None;
    while let Some(row) = rows.next().map_err(seam_error)? {
        let log_id: [u8; 16] = row.get(3).map_err(seam_error)?;
        let folded = Folded {
            position: Position {
                partition: row.get(0).map_err(seam_error)?,
                offset: from_sql(row.get(1).map_err(seam_error)?)?,
            },
            digest: Digest::from_bytes(row.get(2).map_err(seam_error)?),
        };
        let known = progress.get_or_insert_with(|| Progress { log_id, folded: Vec::new() });
        if known.log_id != log_id {
            return Err(EngineError::Corrupt(
                "the order store's progress names two logs; move the store away and it will be rebuilt from the log".to_owned(),
            ));
        }
        known.folded.push(folded);
    }
    Ok(progress)
}

/// Moves progress forward, inside the transaction that writes the rows.
pub(super) fn advance(
    connection: &Connection,
    log_id: [u8; 16],
    folded: &[Folded],
) -> Result<(), EngineError> {
    let known = connection
        .prepare_cached(&format!("SELECT log_id FROM progress_g{GENERATION} LIMIT 1"))
        .and_then(|mut statement| {
            statement.query_row([], |row| row.get::<_, [u8; 16]>(0)).optional()
        })
        .map_err(seam_error)?;
    if known.is_some_and(|known| known != log_id) {
        return Err(EngineError::Corrupt(
            "a commit was folded from another log than this order store".to_owned(),
        ));
    }
    for one in folded {
        advance_partition(connection, log_id, one)?;
    }
    Ok(())
}

fn advance_partition(
    connection: &Connection,
    log_id: [u8; 16],
    folded: &Folded,
) -> Result<(), EngineError> {
    let Folded { position, digest } = folded;
    let sql = format!("SELECT offset, digest FROM progress_g{GENERATION} WHERE partition = ?");
    let stored = connection
        .prepare_cached(&sql)
        .and_then(|mut statement| {
            let read =
                |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 32]>(1)?));
            statement.query_row([position.partition], read).optional()
        })
        .map_err(seam_error)?;
    if let Some((offset, known)) = stored {
        if from_sql(offset)? > position.offset {
            return Ok(());
        }
        if from_sql(offset)? == position.offset && known != *digest.as_bytes() {
            return Err(EngineError::Corrupt(format!(
                "the record at {position} is not the one that was folded before"
            )));
        }
    }
    let sql = format!("INSERT OR REPLACE INTO progress_g{GENERATION} VALUES (?, ?, ?, ?)");
    let values = params![position.partition, to_sql(position.offset), digest.as_bytes(), log_id];
    connection
        .prepare_cached(&sql)
        .and_then(|mut statement| statement.execute(values))
        .map_err(seam_error)?;
    Ok(())
}
