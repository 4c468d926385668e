//! Owns the log's tables and their SQL. Invariants: a topic's offsets are 1, 2, 3, … without a gap;
//! the one writer assigns last + 1, and no offset is reused, because nothing is ever deleted. Every
//! read checks that there is no gap. (AUTOINCREMENT isn't needed for this, and its sequence table
//! would cost one more page per commit.)

use std::path::Path;

use payfold_schemas::position::Position;
use payfold_schemas::record_mac::RecordMac;
use rusqlite::types::Value;
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use crate::EngineError;
use crate::log::{Authenticity, Delivered, DeliveredEvent, Extent, Message, Topic};
use crate::sqlite::{at, from_sql, not_a, open_writer, reopen_writer, seam_error, to_sql};

/// Version 2 has a column for the MAC of each message.
const SCHEMA_VERSION: i64 = 2;
const WITHOUT_MACS: i64 = 1;

/// How many of the last rows the estimate of a topic's size is made from.
const SAMPLE_ROWS: u64 = 256;

/// Page cache of the writer, KiB. The writer touches the last pages of the tables only.
const CACHE_KIB: u32 = 2_048;

// FULL syncs the write-ahead log before a commit returns. The writer itself runs checkpoints,
// between groups, so that no append waits for one.
const PRAGMAS: &str = "PRAGMA page_size = 8192; PRAGMA synchronous = FULL; PRAGMA fullfsync = ON;
    PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -2048;";

/// One value per topic, at its `Topic::index`.
pub(super) type PerTopic<T> = [T; Topic::ALL.len()];

/// A position of SQLite's one partition.
pub(super) fn position(offset: u64) -> Position {
    Position { partition: 0, offset }
}

/// Opens the writer's connection; creates the tables and the log's id in a new file.
pub(super) fn open(path: &Path) -> Result<Connection, EngineError> {
    let connection = open_writer(path, PRAGMAS)?;
    create(&connection).map_err(seam_error)?;
    if matches!(meta(&connection, "schema_version"), Ok(Value::Integer(WITHOUT_MACS))) {
        add_macs(&connection).map_err(seam_error)?;
    }
    Ok(connection)
}

/// Opens the writer's connection again, to the log with this id. Creates nothing, because a new
/// file would be an empty log. Errors: `Unavailable` if there is no file, `Corrupt` if it is
/// another log.
pub(super) fn reopen(path: &Path, id: [u8; 16]) -> Result<Connection, EngineError> {
    let connection = reopen_writer(path, PRAGMAS)?;
    if log_id(&connection).map_err(|error| at(path, error))? == id {
        return Ok(connection);
    }
    let text = "the file holds another log than the one that was open: stop payfold, and restore \
        the right file";
    Err(at(path, EngineError::Corrupt(text.to_owned())))
}

fn create(connection: &Connection) -> rusqlite::Result<()> {
    let made: bool = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))?
        > 0;
    if made {
        return Ok(());
    }
    connection.execute_batch("BEGIN IMMEDIATE")?;
    connection.execute_batch(
        "CREATE TABLE meta (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
         CREATE TABLE acks (grp TEXT, topic TEXT, position INTEGER NOT NULL,
             PRIMARY KEY (grp, topic)) WITHOUT ROWID;",
    )?;
    for topic in Topic::ALL {
        connection.execute_batch(&format!(
            "CREATE TABLE {} (position INTEGER PRIMARY KEY, key TEXT NOT NULL, id TEXT, type TEXT,
                 time TEXT, value BLOB NOT NULL, mac BLOB)",
            topic.name()
        ))?;
    }
    // SQLite seeds its random generator from the operating system's.
    connection.execute("INSERT INTO meta VALUES ('log_id', randomblob(16))", [])?;
    connection.execute("INSERT INTO meta VALUES ('schema_version', ?)", [SCHEMA_VERSION])?;
    connection.execute_batch("COMMIT")
}

/// Upgrades a file of version 1. Its rows are not touched: they have no MAC.
fn add_macs(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    for topic in Topic::ALL {
        connection.execute_batch(&format!("ALTER TABLE {} ADD COLUMN mac BLOB", topic.name()))?;
    }
    let sql = "UPDATE meta SET value = ? WHERE name = 'schema_version'";
    connection.execute(sql, [SCHEMA_VERSION])?;
    connection.execute_batch("COMMIT")
}

/// One value of the table `meta`. Errors: `Corrupt` if the file is no log.
fn meta(connection: &Connection, name: &str) -> Result<Value, EngineError> {
    let sql = "SELECT value FROM meta WHERE name = ?";
    connection.query_row(sql, [name], |row| row.get(0)).map_err(|error| not_a("log", error))
}

/// Makes the write-ahead log's file `bytes` long before the first append. Syncing a file that grew
/// must also write its new length and blocks, which makes commits slower. The gain was not measured
/// on an idle machine yet.
pub(super) fn reserve(connection: &Connection, bytes: u32) -> rusqlite::Result<()> {
    // The present content goes into the database first, so that the file can be truncated again if
    // the disk is full.
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
    // A row larger than the cache is spilled to the write-ahead log. The rollback drops the row,
    // and the file keeps its length.
    connection.execute_batch("PRAGMA cache_size = -256; BEGIN IMMEDIATE;")?;
    let sql = "INSERT INTO meta VALUES ('reserve', zeroblob(?))";
    let spilled = connection.execute(sql, [bytes]);
    if !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    connection.execute_batch(&format!("PRAGMA cache_size = -{CACHE_KIB}"))?;
    if spilled.is_err() {
        // On a disk this full the database needs the space.
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    }
    spilled.map(|_| ())
}

/// Reads the log's id. Errors: `Invalid` if another version created the file, `Corrupt` if it is no
/// log.
pub(super) fn log_id(connection: &Connection) -> Result<[u8; 16], EngineError> {
    match meta(connection, "schema_version")? {
        Value::Integer(SCHEMA_VERSION | WITHOUT_MACS) => {}
        other => {
            return Err(EngineError::Invalid(format!(
                "the log has schema version {other:?}, and this program reads up to \
                 {SCHEMA_VERSION}: run the payfold version that created the log"
            )));
        }
    }
    let id = match meta(connection, "log_id")? {
        Value::Blob(bytes) => bytes.try_into().ok(),
        _ => None,
    };
    id.ok_or_else(|| EngineError::Corrupt("the log's id is not 16 bytes".to_owned()))
}

/// The offset of intake after which every create request has its claim beside the order store;
/// `None` while no claims are paired with the log.
pub(super) fn claims_since(connection: &Connection) -> Result<Option<u64>, EngineError> {
    let sql = "SELECT value FROM meta WHERE name = 'claims_since'";
    let offset = connection.query_row(sql, [], |row| row.get(0)).optional();
    offset.map_err(seam_error)?.map(from_sql).transpose()
}

/// Records that claims are paired with the log from its end on, unless a pairing is recorded.
pub(super) fn pair_claims(path: &Path) -> Result<(), EngineError> {
    let sql =
        "INSERT OR IGNORE INTO meta SELECT 'claims_since', coalesce(max(position), 0) FROM intake";
    run_statement(path, sql)
}

/// Records that no claims are paired with the log.
pub(super) fn unpair_claims(path: &Path) -> Result<(), EngineError> {
    run_statement(path, "DELETE FROM meta WHERE name = 'claims_since'")
}

/// Runs one statement on a new connection, beside the writer's.
fn run_statement(path: &Path, sql: &str) -> Result<(), EngineError> {
    let connection = open_writer(path, PRAGMAS)?;
    connection.execute(sql, []).map(drop).map_err(|error| at(path, seam_error(error)))
}

/// The last offset of every topic; 0 while it is empty.
pub(super) fn heads(connection: &Connection) -> Result<PerTopic<u64>, EngineError> {
    let mut heads = [0; Topic::ALL.len()];
    for topic in Topic::ALL {
        let sql = format!("SELECT coalesce(max(position), 0) FROM {}", topic.name());
        let mut statement = connection.prepare_cached(&sql).map_err(seam_error)?;
        let last = statement.query_row([], |row| row.get(0)).map_err(seam_error)?;
        heads[topic.index()] = from_sql(last)?;
    }
    Ok(heads)
}

/// The statement that appends one message to a topic.
pub(super) fn appender(
    connection: &Connection,
    topic: Topic,
) -> rusqlite::Result<CachedStatement<'_>> {
    connection.prepare_cached(match topic {
        Topic::Intake => "INSERT INTO intake VALUES (?, ?, ?, ?, ?, ?, ?)",
        Topic::Orders => "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?)",
        Topic::Findings => "INSERT INTO findings VALUES (?, ?, ?, ?, ?, ?, ?)",
        Topic::Quarantine => "INSERT INTO quarantine VALUES (?, ?, ?, ?, ?, ?, ?)",
    })
}

/// Appends a message at an offset.
pub(super) fn append(
    statement: &mut CachedStatement<'_>,
    offset: u64,
    message: &Message,
) -> rusqlite::Result<()> {
    let Message { key, event, value, mac } = message;
    let mac = mac.map(RecordMac::to_bytes);
    match event {
        None => statement.execute(params![
            to_sql(offset),
            key,
            None::<&str>,
            None::<&str>,
            None::<&str>,
            value,
            mac
        ])?,
        Some(event) => {
            let time = event.time.to_rfc3339();
            statement.execute(params![
                to_sql(offset),
                key,
                event.id,
                event.kind,
                time,
                value,
                mac
            ])?
        }
    };
    Ok(())
}

/// Stores a group's ack; an ack before the last one changes nothing.
pub(super) fn ack(
    connection: &Connection,
    group: &str,
    topic: Topic,
    offset: u64,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO acks VALUES (?, ?, ?) ON CONFLICT DO UPDATE
        SET position = max(position, excluded.position)";
    let mut statement = connection.prepare_cached(sql)?;
    statement.execute(params![group, topic.name(), to_sql(offset)])?;
    Ok(())
}

/// The offset of a group's last ack; 0 if it never acked.
pub(super) fn acked(
    connection: &Connection,
    group: &str,
    topic: Topic,
) -> Result<u64, EngineError> {
    let sql = "SELECT position FROM acks WHERE grp = ? AND topic = ?";
    let offset = connection.query_row(sql, [group, topic.name()], |row| row.get(0)).optional();
    from_sql(offset.map_err(seam_error)?.unwrap_or(0))
}

/// The statement that reads messages after an offset. A file of version 1 that is open for reading
/// only has no MACs.
fn after_statement(connection: &Connection, topic: Topic) -> rusqlite::Result<CachedStatement<'_>> {
    let reading = |mac: &str| {
        connection.prepare_cached(&format!(
            "SELECT position, key, id, type, time, value, {mac} FROM {} WHERE position > ? \
             ORDER BY position LIMIT ?",
            topic.name()
        ))
    };
    reading("mac").or_else(|error| match error.to_string().contains("no such column: mac") {
        true => reading("NULL"),
        false => Err(error),
    })
}

/// Reads up to `limit` messages after an offset. Errors: `Corrupt` at a gap.
pub(super) fn read_after(
    connection: &Connection,
    topic: Topic,
    after: u64,
    limit: usize,
) -> Result<Vec<Delivered>, EngineError> {
    let mut statement = after_statement(connection, topic).map_err(seam_error)?;
    let sql_limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![to_sql(after), sql_limit]).map_err(seam_error)?;
    let mut delivered = Vec::with_capacity(limit.min(8192));
    let mut last = after;
    while let Some(row) = rows.next().map_err(seam_error)? {
        let message = delivered_of(row).map_err(seam_error)?;
        let offset = message.position.offset;
        if offset != last + 1 {
            return Err(EngineError::Corrupt(format!(
                "messages are missing in topic {} between offsets {last} and {offset}: restore the \
                 log from a backup",
                topic.name()
            )));
        }
        last = offset;
        delivered.push(message);
    }
    assert!(delivered.len() <= limit, "a page has no more messages than were asked for");
    Ok(delivered)
}

fn delivered_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Delivered> {
    let offset = row.get_ref(0)?.as_i64()?;
    let event = match row.get::<_, Option<String>>(2)? {
        None => None,
        Some(id) => Some(DeliveredEvent { id, kind: row.get(3)?, time: row.get(4)? }),
    };
    Ok(Delivered {
        position: position(u64::try_from(offset).unwrap_or(0)),
        key: row.get_ref(1)?.as_str()?.to_owned(),
        event,
        value: row.get_ref(5)?.as_blob()?.to_owned(),
        authenticity: Authenticity::Unchecked(
            row.get_ref(6)?.as_blob_or_null()?.and_then(RecordMac::from_bytes),
        ),
    })
}

/// Reads the offsets a topic holds, and estimates its size.
pub(super) fn extent(connection: &Connection, topic: Topic) -> Result<Extent, EngineError> {
    let name = topic.name();
    // Two statements, because SQLite answers min or max alone from one end of the table, and both
    // in one statement by a scan.
    let end = |which: &str| {
        let sql = format!("SELECT coalesce({which}(position), 0) FROM {name}");
        connection.query_row(&sql, [], |row| row.get(0)).map_err(seam_error).and_then(from_sql)
    };
    let (first, last) = (end("min")?, end("max")?);
    let sample_sql =
        format!("SELECT coalesce(avg(length(value)), 0) FROM {name} WHERE position > ?");
    let sample_after = to_sql(last.saturating_sub(SAMPLE_ROWS));
    let average: f64 =
        connection.query_row(&sample_sql, [sample_after], |row| row.get(0)).map_err(seam_error)?;
    // Rounded to whole bytes by way of text: a float to integer cast isn't allowed here.
    let average: u64 = format!("{average:.0}").parse().unwrap_or(0);
    let count = if last == 0 { 0 } else { last - first + 1 };
    Ok(Extent { partition: 0, first, last, bytes: Some(count.saturating_mul(average)) })
}
