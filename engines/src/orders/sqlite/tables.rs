//! Owns the tables in the file of a build, and how far its folding has come. Invariants:
//! progress moves in the transaction that writes the rows; it never goes back, never changes its
//! log, and one position never gets two digests.

use std::path::Path;

use payfold_schemas::chain::Head;
use payfold_schemas::digest::Digest;
use payfold_schemas::position::Position;
use payfold_schemas::publication::Publication;
use rusqlite::{Connection, OptionalExtension, params};

use super::heads;
use super::layout::LAYOUT;
use super::settings::SqliteOrdersSettings;
use crate::EngineError;
use crate::orders::{Folded, Footprint, Progress};
use crate::sqlite::{from_sql, not_a, open_writer, seam_error, to_sql};

const SCHEMA_VERSION: i64 = 1;

/// Columns of the progress table that the first version did not have.
const ADDED_COLUMNS: [(&str, &str); 3] = [
    ("tables", "INTEGER NOT NULL DEFAULT 1"),
    ("number", "INTEGER NOT NULL DEFAULT 1"),
    ("head", "BLOB"),
];

/// Opens the writer's connection and creates missing tables.
///
/// `synchronous = NORMAL` syncs at checkpoints only. After a power cut the store may be in a
/// slightly older state, rows and progress together, and the missing records are folded again. It
/// is never ahead of the log, because the log is synced before its records can be read.
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
    create(&connection, LAYOUT).map_err(seam_error)?;
    add_columns(&connection).map_err(seam_error)?;
    Ok(connection)
}

fn create(connection: &Connection, layout: u32) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE;
         CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
         CREATE TABLE IF NOT EXISTS progress_g{layout} (partition INTEGER PRIMARY KEY,
             offset INTEGER NOT NULL, digest BLOB NOT NULL, log_id BLOB NOT NULL);
         CREATE TABLE IF NOT EXISTS orders_g{layout} (key TEXT PRIMARY KEY, partition INTEGER NOT \
         NULL,
             offset INTEGER NOT NULL, row BLOB NOT NULL);
         CREATE TABLE IF NOT EXISTS view_created_g{layout} (time INTEGER, key TEXT,
             PRIMARY KEY (time, key)) WITHOUT ROWID;
         CREATE TABLE IF NOT EXISTS view_deadline_g{layout} (time INTEGER, key TEXT,
             PRIMARY KEY (time, key)) WITHOUT ROWID;
         CREATE TABLE IF NOT EXISTS view_reference_g{layout} (account TEXT, reference TEXT,
             order_id TEXT, PRIMARY KEY (account, reference, order_id)) WITHOUT ROWID;
         CREATE TABLE IF NOT EXISTS view_provider_ref_g{layout} (account TEXT, provider_ref TEXT,
             order_id TEXT, PRIMARY KEY (account, provider_ref, order_id)) WITHOUT ROWID;
         CREATE TABLE IF NOT EXISTS view_nonce_g{layout} (account TEXT, nonce TEXT, digest BLOB,
             order_id TEXT, PRIMARY KEY (account, nonce, digest, order_id)) WITHOUT ROWID;
         INSERT OR IGNORE INTO meta VALUES ('schema_version', {SCHEMA_VERSION});
         COMMIT"
    ))
}

/// Adds the columns and the table that files of older versions lack.
fn add_columns(connection: &Connection) -> rusqlite::Result<()> {
    for (name, kind) in ADDED_COLUMNS {
        let sql = format!("SELECT 1 FROM pragma_table_info('progress_g{LAYOUT}') WHERE name = ?");
        if connection.query_row(&sql, [name], |_| Ok(())).optional()?.is_none() {
            let sql = format!("ALTER TABLE progress_g{LAYOUT} ADD COLUMN {name} {kind}");
            connection.execute_batch(&sql)?;
        }
    }
    heads::create(connection)
}

/// Empties the file of a build that is thrown away and can't be taken away itself.
pub(super) fn empty(connection: &Connection) -> rusqlite::Result<()> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'meta'";
    let mut statement = connection.prepare(sql)?;
    let names: Vec<String> =
        statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    drop(statement);
    let drops: String = names.iter().map(|name| format!("DROP TABLE {name};")).collect();
    connection.execute_batch(&format!("BEGIN IMMEDIATE; {drops} COMMIT"))?;
    create(connection, LAYOUT)?;
    add_columns(connection)?;
    connection.execute_batch("VACUUM")
}

/// Reads the size of the file and the number of orders. Rows are never deleted, so they are
/// numbered without a gap.
pub(super) fn footprint(connection: &Connection) -> Result<Footprint, EngineError> {
    let of = |sql: &str| {
        connection.query_row(sql, [], |row| row.get(0)).map_err(seam_error).and_then(from_sql)
    };
    let orders = of(&format!("SELECT coalesce(max(rowid), 0) FROM orders_g{LAYOUT}"))?;
    let (pages, free) = (of("PRAGMA page_count")?, of("PRAGMA freelist_count")?);
    let bytes = pages.saturating_sub(free).saturating_mul(of("PRAGMA page_size")?);
    Ok(Footprint { orders: Some(orders), bytes: Some(bytes) })
}

/// Checks the file's schema version. Errors: `Invalid` for another version, `Corrupt` if the file
/// is not an order store.
pub(super) fn check(connection: &Connection) -> Result<(), EngineError> {
    let sql = "SELECT value FROM meta WHERE name = 'schema_version'";
    let version = connection.query_row(sql, [], |row| row.get(0));
    let version: i64 = version.map_err(|error| not_a("order store", error))?;
    if version == SCHEMA_VERSION {
        return Ok(());
    }
    Err(EngineError::Invalid(format!(
        "the order store has schema version {version}, and this program reads {SCHEMA_VERSION}: \
         run the payfold version that created it, or a later one"
    )))
}

/// Reads how far the store is folded.
pub(super) fn progress(connection: &Connection) -> Result<Option<Progress>, EngineError> {
    // `SELECT *`, because a file that this version has opened for reading only may lack the last
    // three columns.
    let sql = format!("SELECT * FROM progress_g{LAYOUT} ORDER BY partition");
    let mut statement = connection.prepare_cached(&sql).map_err(seam_error)?;
    let columns = statement.column_count();
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
            publication: if columns > 4 {
                let (build, epoch) = (row.get(4).map_err(seam_error)?, row.get(5));
                Publication { build, epoch: epoch.map_err(seam_error)? }
            } else {
                Publication::FIRST
            },
            head: match columns > 6 {
                true => row.get::<_, Option<_>>(6).map_err(seam_error)?.map(head_from_bytes),
                false => None,
            },
        };
        let known = progress.get_or_insert_with(|| Progress { log_id, folded: Vec::new() });
        if known.log_id != log_id {
            return Err(EngineError::Corrupt(
                "the order store's progress names two logs: restore log and order store from one \
                 backup"
                    .to_owned(),
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
        .prepare_cached(&format!("SELECT log_id FROM progress_g{LAYOUT} LIMIT 1"))
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
    let Folded { position, digest, publication, head } = folded;
    if let Some(stored) = stored(connection, position.partition)? {
        if stored.offset > position.offset {
            return Ok(());
        }
        if stored.offset == position.offset && stored.digest != *digest {
            return Err(EngineError::Corrupt(format!(
                "the record at {position} is not the one that was folded before"
            )));
        }
        if stored.head.is_none() && head.is_some() && stored.offset < position.offset {
            let place = Position { offset: stored.offset, ..*position };
            heads::add(connection, place, Head::resumed(log_id, place, stored.digest))?;
        }
    }
    if let Some(head) = head {
        heads::add(connection, *position, *head)?;
    }
    let sql = format!("INSERT OR REPLACE INTO progress_g{LAYOUT} VALUES (?, ?, ?, ?, ?, ?, ?)");
    let (offset, digest) = (to_sql(position.offset), digest.as_bytes());
    let Publication { build, epoch } = publication;
    let head = head.map(|head| *head.digest().as_bytes());
    let values = params![position.partition, offset, digest, log_id, build, epoch, head];
    connection
        .prepare_cached(&sql)
        .and_then(|mut statement| statement.execute(values))
        .map_err(seam_error)?;
    Ok(())
}

/// The stored progress of a partition.
struct StoredProgress {
    offset: u64,
    digest: Digest,
    head: Option<Head>,
}

fn stored(connection: &Connection, partition: u32) -> Result<Option<StoredProgress>, EngineError> {
    let sql = format!("SELECT offset, digest, head FROM progress_g{LAYOUT} WHERE partition = ?");
    let read = |row: &rusqlite::Row<'_>| {
        Ok((row.get::<_, i64>(0)?, row.get(1)?, row.get::<_, Option<_>>(2)?))
    };
    let found = connection
        .prepare_cached(&sql)
        .and_then(|mut statement| statement.query_row([partition], read).optional())
        .map_err(seam_error)?;
    let Some((offset, digest, head)) = found else { return Ok(None) };
    let (digest, head) = (Digest::from_bytes(digest), head.map(head_from_bytes));
    Ok(Some(StoredProgress { offset: from_sql(offset)?, digest, head }))
}

fn head_from_bytes(bytes: [u8; 32]) -> Head {
    Head::kept(Digest::from_bytes(bytes))
}
