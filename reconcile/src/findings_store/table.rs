//! Owns the table of the findings store: its columns, the statement that stores a version, the
//! numbers that stand for statuses and severities, and how rows are read. A finding is read from
//! its `body` column alone; the other columns are for selecting and counting.

use payfold_schemas::finding::{FindingChanged, FindingStatus};
use payfold_schemas::order::Severity;
use rusqlite::{Connection, Row, ToSql};
use serde::de::DeserializeOwned;

/// Nothing is synced to disk: after a crash the table is built from the log again. `order_key` is
/// the order of an uncleared finding, null for a cleared one. `has_all_lines` says whether the
/// finding carries all its lines. `is_waiting` says whether a first decision waits for a second
/// person. `checked_version` is the order's version at its last recheck.
pub(super) const TABLE: &str = "
PRAGMA journal_mode = MEMORY;
PRAGMA synchronous = OFF;
PRAGMA locking_mode = EXCLUSIVE;
CREATE TABLE finding (
    id TEXT PRIMARY KEY, version INTEGER NOT NULL, partner TEXT NOT NULL, day TEXT NOT NULL,
    run TEXT,
    code TEXT NOT NULL, status INTEGER NOT NULL, severity INTEGER NOT NULL, flag TEXT,
    currency TEXT, at_risk INTEGER NOT NULL,
    order_key TEXT, has_all_lines INTEGER NOT NULL, checked_version INTEGER, body BLOB NOT NULL,
    has_decisions INTEGER NOT NULL, is_waiting INTEGER NOT NULL
);
CREATE INDEX of_day ON finding (partner, day, id);
CREATE INDEX of_run ON finding (run) WHERE run IS NOT NULL;
CREATE INDEX uncleared ON finding (partner, code, id) WHERE status < 2;
CREATE INDEX open ON finding (code, severity, flag, currency, at_risk, is_waiting) WHERE status = 0;
CREATE INDEX waiting ON finding (id) WHERE is_waiting;
CREATE INDEX decided ON finding (id) WHERE has_decisions;
CREATE INDEX of_order ON finding (order_key, has_all_lines, checked_version)
    WHERE order_key IS NOT NULL;
";

/// Stores a version of a finding, unless the stored version is as high or higher.
pub(super) const UPSERT: &str = "
INSERT INTO finding
    (id, version, partner, day, run, code, status, severity, currency, at_risk, order_key,
    has_all_lines, body, flag, has_decisions, is_waiting)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
ON CONFLICT (id) DO UPDATE SET version = ?2, run = ?5, code = ?6, status = ?7, severity = ?8,
    currency = ?9,
    at_risk = ?10, order_key = ?11, has_all_lines = ?12, body = ?13,
    has_decisions = ?15, is_waiting = ?16,
    checked_version = CASE WHEN order_key IS ?11 THEN checked_version END
WHERE version < ?2";

pub(super) fn status_number(status: FindingStatus) -> u8 {
    match status {
        FindingStatus::Open => 0,
        FindingStatus::Decided => 1,
        FindingStatus::Cleared => 2,
    }
}

pub(super) fn severity_number(severity: Severity) -> u8 {
    match severity {
        Severity::Info => 0,
        Severity::Warn => 1,
        Severity::High => 2,
        Severity::Critical => 3,
    }
}

/// The inverse of `severity_number`.
pub(super) fn severity(severity_number: u8) -> Severity {
    match severity_number {
        0 => Severity::Info,
        1 => Severity::Warn,
        2 => Severity::High,
        _ => Severity::Critical,
    }
}

pub(super) fn finding(row: &Row<'_>) -> rusqlite::Result<FindingChanged> {
    from_json(row)
}

/// Reads the only column of a row.
pub(super) fn from_json<T: DeserializeOwned>(row: &Row<'_>) -> rusqlite::Result<T> {
    let body = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
    serde_json::from_slice(body).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, Box::new(error))
    })
}

/// The rows of a select with these values.
pub(super) fn all<T>(
    rows: &Connection,
    select: &str,
    values: &[&dyn ToSql],
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    rows.prepare_cached(select)?.query_map(values, read)?.collect()
}
