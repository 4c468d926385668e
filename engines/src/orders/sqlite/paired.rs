//! Owns the pairing of the claims' file with its log: the log's id, written into the file once, and
//! the search for claims by record. The caller decides which records must have a claim. Invariant:
//! a stored log id is never replaced.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension};

use super::claims;
use crate::EngineError;
use crate::sqlite::{ReadPool, at, file_exists, seam_error};

/// Page cache of the connection, KiB.
const CACHE_KIB: u32 = 512;

const LATEST: &str = "SELECT record FROM latest JOIN claims USING (key)";
const ALL: &str = "SELECT record FROM claims";

/// The file of claims beside an order store.
#[derive(Debug)]
pub struct PairedClaims {
    path: PathBuf,
    readers: ReadPool,
}

impl PairedClaims {
    /// The claims beside the store at `orders`; the file may not exist.
    pub fn beside(orders: &Path) -> Self {
        let path = claims::path_beside(orders);
        let readers = ReadPool::new(&path, CACHE_KIB);
        Self { path, readers }
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file exists. Errors: `Unavailable` if it can't be read.
    pub fn exists(&self) -> Result<bool, EngineError> {
        file_exists(&self.path)
    }

    /// Reads the id of the log that the claims belong to; `None` in a file of a version that didn't
    /// pair logs and claims. Blocks.
    pub fn log_id(&self) -> Result<Option<[u8; 16]>, EngineError> {
        self.readers.with(|connection| {
            if !has_table(connection, "meta")? {
                return Ok(None);
            }
            let sql = "SELECT value FROM meta WHERE name = 'log_id'";
            connection.query_row(sql, [], |row| row.get(0)).optional().map_err(seam_error)
        })
    }

    /// Writes the id of the log that the claims belong to, unless an id is stored. Durable when it
    /// returns. Blocks.
    pub fn pair(&self, log_id: [u8; 16]) -> Result<(), EngineError> {
        let connection = claims::open(&self.path)?;
        let sql = "INSERT OR IGNORE INTO meta VALUES ('log_id', ?)";
        let written = connection.execute(sql, [log_id]);
        written.map(drop).map_err(|error| at(&self.path, seam_error(error)))
    }

    /// The records of the newest claims, the newest first, this many at most. Files of older
    /// programs have no list of them. Blocks.
    pub fn newest(&self, count: u32) -> Result<Vec<Vec<u8>>, EngineError> {
        self.readers.with(|connection| match has_table(connection, "latest")? {
            true => read_newest(connection, count).map_err(seam_error),
            false => Ok(Vec::new()),
        })
    }

    /// Returns the records that no claim has. It searches the newest claims first, and all claims
    /// only if a record is not among those. Blocks.
    pub fn unclaimed<'a>(&self, records: &[&'a [u8]]) -> Result<HashSet<&'a [u8]>, EngineError> {
        let mut wanted: HashSet<&[u8]> = records.iter().copied().collect();
        self.readers.with(|connection| {
            // Files of older programs have no list of the newest; after a first start that was cut
            // off there is no table at all.
            if has_table(connection, "latest")? {
                remove_found(connection, LATEST, &mut wanted)?;
            }
            if has_table(connection, "claims")? {
                remove_found(connection, ALL, &mut wanted)?;
            }
            Ok(())
        })?;
        Ok(wanted)
    }
}

fn read_newest(connection: &Connection, count: u32) -> rusqlite::Result<Vec<Vec<u8>>> {
    let sql = format!("{LATEST} ORDER BY number DESC LIMIT ?");
    connection.prepare(&sql)?.query_map([count], |row| row.get(0))?.collect()
}

fn has_table(connection: &Connection, name: &str) -> Result<bool, EngineError> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?";
    let found = connection.query_row(sql, [name], |_| Ok(())).optional();
    found.map(|found| found.is_some()).map_err(seam_error)
}

/// Removes the records that a query returns from `wanted`; ends as soon as `wanted` is empty.
fn remove_found(
    connection: &Connection,
    sql: &str,
    wanted: &mut HashSet<&[u8]>,
) -> Result<(), EngineError> {
    let mut statement = connection.prepare(sql).map_err(seam_error)?;
    let mut rows = statement.query([]).map_err(seam_error)?;
    while !wanted.is_empty()
        && let Some(row) = rows.next().map_err(seam_error)?
    {
        let record = row.get_ref(0).map_err(seam_error)?;
        if let Ok(record) = record.as_blob() {
            wanted.remove(record);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orders::ClaimKey;
    use crate::orders::sqlite::claims::SqliteClaims;

    async fn claim(orders: &Path, keys: impl Iterator<Item = u32>) {
        let claims = SqliteClaims::open(orders).unwrap();
        for key in keys {
            let claim_key = ClaimKey::journal_entry(key.into());
            claims.claim(claim_key, key.to_be_bytes().to_vec()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_log_id_is_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let orders = dir.path().join("orders.db");
        let paired = PairedClaims::beside(&orders);
        assert!(!paired.exists().unwrap());
        claim(&orders, 0..1).await;
        assert_eq!((paired.exists(), paired.log_id()), (Ok(true), Ok(None)));
        paired.pair([1; 16]).unwrap();
        paired.pair([2; 16]).unwrap();
        assert_eq!(paired.log_id(), Ok(Some([1; 16])));
    }

    #[tokio::test]
    async fn records_are_found_among_the_newest_and_the_oldest_claims_and_in_an_older_file() {
        let dir = tempfile::tempdir().unwrap();
        let orders = dir.path().join("orders.db");
        let paired = PairedClaims::beside(&orders);
        claim(&orders, 0..1_500).await;
        let known = [0_u32, 700, 1_499].map(u32::to_be_bytes);
        let known: Vec<&[u8]> = known.iter().map(<[u8; 4]>::as_slice).collect();
        assert!(paired.unclaimed(&known).unwrap().is_empty());
        let newest = paired.newest(2).unwrap();
        assert_eq!(newest, [1_499_u32, 1_498].map(|key| key.to_be_bytes().to_vec()));
        let unknown = 1_500_u32.to_be_bytes();
        let missing = paired.unclaimed(&[known[0], &unknown, known[2]]).unwrap();
        assert_eq!(missing, HashSet::from([unknown.as_slice()]));

        let listed = |sql: &str| {
            let connection = claims::open(paired.path()).unwrap();
            connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap()
        };
        assert_eq!(listed("SELECT count(*) FROM latest"), 1_024);
        let older = Connection::open(paired.path()).unwrap();
        older.execute_batch("DROP TABLE latest; DROP TABLE meta").unwrap();
        drop(older);
        assert!(paired.unclaimed(&known).unwrap().is_empty());
        assert_eq!((paired.log_id(), paired.newest(2)), (Ok(None), Ok(Vec::new())));
    }

    #[test]
    fn a_file_of_a_first_start_that_was_cut_off_has_no_claims() {
        let dir = tempfile::tempdir().unwrap();
        let paired = PairedClaims::beside(&dir.path().join("orders.db"));
        std::fs::write(paired.path(), "").unwrap();
        assert_eq!((paired.exists(), paired.log_id()), (Ok(true), Ok(None)));
        assert_eq!(paired.unclaimed(&[]), Ok(HashSet::new()));
        assert_eq!(paired.unclaimed(&[b"record"]), Ok(HashSet::from([b"record".as_slice()])));
    }
}
