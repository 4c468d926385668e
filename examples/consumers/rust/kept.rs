//! Owns the orders that this reader keeps in SQLite, each as its newest event says. Invariant:
//! (epoch, version) of an order only ever rises, whatever comes, however often, in whatever order.

use std::error::Error;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};

const TABLE: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS orders (
        key TEXT PRIMARY KEY, epoch INTEGER NOT NULL, version INTEGER NOT NULL, data TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;";
const UPSERT: &str = "
    INSERT INTO orders VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (key) DO UPDATE SET epoch = excluded.epoch, version = excluded.version, \
    data = excluded.data
    WHERE (excluded.epoch, excluded.version) > (epoch, version)";

/// The fields of an event's data that this reader uses. Data may have more fields, and new ones.
#[derive(Debug, Deserialize)]
pub struct OrderChanged {
    pub epoch: i64,
    pub version: i64,
    pub state: String,
}

/// The fields of an order that `--show` prints.
#[derive(Deserialize, Serialize)]
struct Shown {
    #[serde(default)]
    order: String,
    epoch: i64,
    version: i64,
    state: String,
    fulfil: bool,
}

/// The stored orders.
pub struct Kept(Connection);

impl Kept {
    /// Opens the database file, or creates it.
    pub fn open(path: &Path) -> rusqlite::Result<Self> {
        let db = Connection::open(path)?;
        db.execute_batch(TABLE)?;
        Ok(Self(db))
    }

    /// Stores events durably, in one transaction. Returns those that were new, in the order they
    /// came.
    pub fn keep(
        &mut self,
        events: &[(String, String)],
    ) -> Result<Vec<(String, OrderChanged)>, Box<dyn Error>> {
        let mut news = Vec::new();
        let transaction = self.0.transaction()?;
        for (key, text) in events {
            let data: OrderChanged = serde_json::from_str(text)?;
            report_gap(&transaction, key, &data)?;
            if transaction.execute(UPSERT, (key, data.epoch, data.version, text))? > 0 {
                news.push((key.clone(), data));
            }
        }
        transaction.commit()?;
        Ok(news)
    }

    /// Every order as one JSON object, in the order of their keys.
    pub fn lines(&self) -> Result<Vec<String>, Box<dyn Error>> {
        let mut select = self.0.prepare("SELECT key, data FROM orders ORDER BY key")?;
        let rows = select.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut lines = Vec::new();
        for row in rows {
            let (key, data): (String, String) = row?;
            let shown = Shown { order: key, ..serde_json::from_str(&data)? };
            lines.push(serde_json::to_string(&shown)?);
        }
        Ok(lines)
    }
}

/// Warns if a version is missing between the stored event and this one.
fn report_gap(db: &Connection, key: &str, data: &OrderChanged) -> rusqlite::Result<()> {
    let select = "SELECT epoch, version FROM orders WHERE key = ?1";
    let known: Option<(i64, i64)> =
        db.query_row(select, [key], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let (epoch, version) = known.unwrap_or((data.epoch, 0));
    if epoch == data.epoch && data.version > version + 1 {
        tracing::warn!(key, from = version, to = data.version, "a version is left out");
    }
    Ok(())
}
