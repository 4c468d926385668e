//! Owns the views, which list orders by immutable entries, and reading them page by page.
//! Invariant: an entry exists once, however often it is written.

use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{MerchantCode, OrderId, OrderKey, PartnerCode};
use rusqlite::{Connection, Row, ToSql, params};

use super::layout::LAYOUT;
use crate::EngineError;
use crate::orders::cursor::{self, Entries};
use crate::orders::time_view::{Direction, TimeWalk};
use crate::orders::{Cursor, Page, Scan, ViewEntry};
use crate::sqlite::seam_error;

/// Adds entries.
pub(super) fn store(
    connection: &Connection,
    entries: &[(OrderKey, ViewEntry)],
) -> Result<(), EngineError> {
    // Sorted by view and mostly as the view's table is, so that inserts go forward through its
    // tree.
    let mut sorted: Vec<_> = entries.iter().collect();
    sorted.sort_unstable_by(|(a_key, a), (b_key, b)| (a, a_key).cmp(&(b, b_key)));
    let sql = |view: &str, marks: &str| {
        format!("INSERT OR IGNORE INTO view_{view}_g{LAYOUT} VALUES ({marks})")
    };
    let prepare = |sql: String| connection.prepare_cached(&sql).map_err(seam_error);
    let mut created = prepare(sql("created", "?, ?"))?;
    let mut deadline = prepare(sql("deadline", "?, ?"))?;
    let mut reference = prepare(sql("reference", "?, ?, ?"))?;
    let mut provider_ref = prepare(sql("provider_ref", "?, ?, ?"))?;
    let mut nonce = prepare(sql("nonce", "?, ?, ?, ?"))?;
    for (key, entry) in sorted {
        let order_id = key.order_id.as_str();
        let account = || format!("{}/{}", key.partner, key.merchant_code);
        let added = match entry {
            ViewEntry::Created(time) => {
                created.execute(params![time.unix_nanos(), key.to_string()])
            }
            ViewEntry::Deadline(time) => {
                deadline.execute(params![time.unix_nanos(), key.to_string()])
            }
            ViewEntry::Reference(text) => reference.execute([&account(), text.as_str(), order_id]),
            ViewEntry::ProviderRef(text) => {
                provider_ref.execute([&account(), text.as_str(), order_id])
            }
            ViewEntry::Nonce(text, digest) => {
                nonce.execute(params![account(), text.as_str(), digest.as_bytes(), order_id])
            }
        };
        added.map_err(seam_error)?;
    }
    Ok(())
}

/// Reads one page of a view.
pub(super) fn scan(
    connection: &Connection,
    scan: &Scan,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<Page, EngineError> {
    let fetch = cursor::fetch_count(limit)?;
    if let Some(walk) = TimeWalk::of(scan, after)? {
        return Ok(cursor::page(scan, by_time(connection, &walk, fetch)?, limit));
    }
    let entries = match scan {
        Scan::Created { .. } | Scan::Newest { .. } | Scan::Deadline { .. } => {
            unreachable!("time views are walked")
        }
        Scan::Reference(partner, merchant, text) => {
            let (view, name) = ("reference", text.as_str());
            let entry = ViewEntry::Reference(text.clone());
            let wanted = NameQuery { view, name, partner, merchant_code: merchant, entry };
            by_name(connection, wanted, after, fetch)?
        }
        Scan::ProviderRef(partner, merchant, text) => {
            let (view, name) = ("provider_ref", text.as_str());
            let entry = ViewEntry::ProviderRef(text.clone());
            let wanted = NameQuery { view, name, partner, merchant_code: merchant, entry };
            by_name(connection, wanted, after, fetch)?
        }
        Scan::Nonce(..) => by_nonce(connection, scan, after, fetch)?,
    };
    Ok(cursor::page(scan, entries, limit))
}

fn by_time(
    connection: &Connection,
    walk: &TimeWalk<'_>,
    limit: usize,
) -> Result<Entries, EngineError> {
    let TimeWalk { view, direction, start, end } = *walk;
    let range = match direction {
        Direction::OldestFirst => "(time, key) > (?, ?) AND time < ? ORDER BY time, key",
        Direction::NewestFirst => "(time, key) < (?, ?) AND time >= ? ORDER BY time DESC, key DESC",
    };
    let sql = format!("SELECT time, key FROM view_{}_g{LAYOUT} WHERE {range} LIMIT ?", view.name());
    collect(connection, &sql, params![start.0, start.1, end, sql_limit(limit)], |row| {
        let key = row.get_ref(1).and_then(|key| Ok(key.as_str()?)).map_err(seam_error)?;
        let entry = view.entry(row.get(0).map_err(seam_error)?);
        Ok((OrderKey::parse(key).map_err(unreadable)?, entry))
    })
}

/// A query for the orders of one account with a name.
struct NameQuery<'a> {
    view: &'a str,
    name: &'a str,
    partner: &'a PartnerCode,
    merchant_code: &'a MerchantCode,
    /// The view's entry for each of these orders.
    entry: ViewEntry,
}

fn by_name(
    connection: &Connection,
    wanted: NameQuery<'_>,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<Entries, EngineError> {
    let NameQuery { view, name, partner, merchant_code, entry } = wanted;
    let start = cursor::after_name(view, after)?;
    let sql = format!(
        "SELECT order_id FROM view_{view}_g{LAYOUT} WHERE account = ? AND {view} = ?
         AND order_id > ? ORDER BY order_id LIMIT ?"
    );
    let account = format!("{partner}/{merchant_code}");
    collect(connection, &sql, params![account, name, start, sql_limit(limit)], |row| {
        Ok((key_of(partner, merchant_code, row, 0)?, entry.clone()))
    })
}

fn by_nonce(
    connection: &Connection,
    scan: &Scan,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<Entries, EngineError> {
    let Scan::Nonce(partner, merchant_code, nonce) = scan else {
        unreachable!("called for this scan only");
    };
    let start = cursor::after_nonce(after)?;
    let sql = format!(
        "SELECT digest, order_id FROM view_nonce_g{LAYOUT} WHERE account = ? AND nonce = ?
         AND (digest, order_id) > (?, ?) ORDER BY digest, order_id LIMIT ?"
    );
    let account = format!("{partner}/{merchant_code}");
    let values = params![account, nonce.as_str(), start.0, start.1, sql_limit(limit)];
    collect(connection, &sql, values, |row| {
        let digest = Digest::from_bytes(row.get(0).map_err(seam_error)?);
        Ok((key_of(partner, merchant_code, row, 1)?, ViewEntry::Nonce(nonce.clone(), digest)))
    })
}

fn collect(
    connection: &Connection,
    sql: &str,
    values: &[&dyn ToSql],
    entry_of: impl Fn(&Row<'_>) -> Result<(OrderKey, ViewEntry), EngineError>,
) -> Result<Entries, EngineError> {
    let mut statement = connection.prepare_cached(sql).map_err(seam_error)?;
    let mut rows = statement.query(values).map_err(seam_error)?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next().map_err(seam_error)? {
        entries.push(entry_of(row)?);
    }
    Ok(entries)
}

fn key_of(
    partner: &PartnerCode,
    merchant_code: &MerchantCode,
    row: &Row<'_>,
    column: usize,
) -> Result<OrderKey, EngineError> {
    let text = row.get_ref(column).and_then(|text| Ok(text.as_str()?)).map_err(seam_error)?;
    let order_id = OrderId::parse(text).map_err(unreadable)?;
    Ok(OrderKey { partner: partner.clone(), merchant_code: merchant_code.clone(), order_id })
}

fn unreadable(error: payfold_schemas::text::TextError) -> EngineError {
    EngineError::Corrupt(format!("a view entry does not decode: {error}"))
}

fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
