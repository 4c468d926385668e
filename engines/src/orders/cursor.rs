//! Owns the text of the cursors of views, and whether a page has a next one, the same for every
//! engine. Walks have cursors of their own (`walked`). Invariants: a page starts right after the
//! entry that its cursor names, whatever was added meanwhile, but never before its window; a cursor
//! is valid for its own view only. Whether it comes from the same query is not checked.

use payfold_schemas::digest::Digest;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::time::Time;

use crate::EngineError;
use crate::orders::{Cursor, Page, Scan, ViewEntry};

/// What cursors name the view of creation by where it is read from its newest entry. So a cursor of
/// one direction is none of the other.
const NEWEST: &str = "newest";

/// Entries in the order of their view.
pub(super) type Entries = Vec<(OrderKey, ViewEntry)>;

/// How many entries to read for a page: one more than `limit`, to know whether there is a next
/// page. Errors: `Invalid` for a limit of 0.
pub(super) fn fetch_count(limit: usize) -> Result<usize, EngineError> {
    match limit {
        0 => Err(EngineError::Invalid("a page needs a limit of at least 1".to_owned())),
        limit => Ok(limit.saturating_add(1)),
    }
}

/// Makes a page of up to `limit` entries from up to `limit + 1`.
pub(super) fn page(scan: &Scan, mut entries: Entries, limit: usize) -> Page {
    let more = entries.len() > limit;
    entries.truncate(limit);
    let next = if more { entries.last().map(|last| scan.cursor_behind(last)) } else { None };
    Page { entries, next }
}

impl Scan {
    /// The cursor of a page that ends with this entry: the name of the view, which `Newest` has
    /// under a name of its own, then the entry's sort key within it.
    pub fn cursor_behind(&self, (key, entry): &(OrderKey, ViewEntry)) -> Cursor {
        Cursor(match entry {
            ViewEntry::Created(time) if matches!(self, Self::Newest { .. }) => {
                by_time(NEWEST, time.unix_nanos(), key)
            }
            ViewEntry::Created(time) => by_time("created", time.unix_nanos(), key),
            ViewEntry::Deadline(time) => by_time("deadline", time.unix_nanos(), key),
            ViewEntry::Reference(_) => format!("reference/{}", key.order_id),
            ViewEntry::ProviderRef(_) => format!("provider_ref/{}", key.order_id),
            ViewEntry::Nonce(_, digest) => format!("nonce/{digest}/{}", key.order_id),
        })
    }
}

/// The text of a cursor in a time view.
pub(super) fn by_time(view: &str, unix_nanos: i64, key: impl std::fmt::Display) -> String {
    format!("{view}/{unix_nanos}/{key}")
}

/// The (unix nanoseconds, key) after which a page of a time view starts: the cursor's entry, or
/// `from` if that is later, because a cursor of another window must not lead out of this one.
/// Errors: `Invalid`.
pub(super) fn after_time<'a>(
    view: &str,
    after: Option<&'a Cursor>,
    from: Time,
) -> Result<(i64, &'a str), EngineError> {
    // No key is empty, so the empty key sorts before the first entry of its instant.
    let first = (from.unix_nanos(), "");
    Ok(after.map(|cursor| place_in(view, cursor)).transpose()?.map_or(first, |at| at.max(first)))
}

/// The (unix nanoseconds, key) that a page of `Newest` starts before: the cursor's entry, or
/// `until` if that is earlier. Errors: `Invalid`.
pub(super) fn before_time(after: Option<&Cursor>, until: Time) -> Result<(i64, &str), EngineError> {
    let last = (until.unix_nanos(), "");
    Ok(after.map(|cursor| place_in(NEWEST, cursor)).transpose()?.map_or(last, |at| at.min(last)))
}

/// The (unix nanoseconds, key) that a cursor names in a time view. Errors: `Invalid`.
fn place_in<'a>(view: &str, cursor: &'a Cursor) -> Result<(i64, &'a str), EngineError> {
    let (time, key) = rest_of(view, cursor)?.split_once('/').ok_or_else(|| bad(cursor))?;
    Ok((time.parse().map_err(|_| bad(cursor))?, key))
}

/// The order id after which a page of the reference or provider-ref view starts. Errors: `Invalid`.
pub(super) fn after_name<'a>(
    view: &str,
    after: Option<&'a Cursor>,
) -> Result<&'a str, EngineError> {
    Ok(after.map(|cursor| rest_of(view, cursor)).transpose()?.unwrap_or(""))
}

/// The (digest, order id) after which a page of the nonce view starts. Errors: `Invalid`.
pub(super) fn after_nonce(after: Option<&Cursor>) -> Result<(Vec<u8>, &str), EngineError> {
    let Some(cursor) = after else { return Ok((Vec::new(), "")) };
    let (digest, order_id) =
        rest_of("nonce", cursor)?.split_once('/').ok_or_else(|| bad(cursor))?;
    let digest: Digest = digest.parse().map_err(|_| bad(cursor))?;
    Ok((digest.as_bytes().to_vec(), order_id))
}

/// The part of a cursor after the view's name. Errors: `Invalid` for another view's cursor.
fn rest_of<'a>(view: &str, cursor: &'a Cursor) -> Result<&'a str, EngineError> {
    let rest = cursor.0.strip_prefix(view).and_then(|rest| rest.strip_prefix('/'));
    rest.ok_or_else(|| bad(cursor))
}

fn bad(cursor: &Cursor) -> EngineError {
    EngineError::Invalid(format!(
        "{:?} is not a cursor of this listing: start the listing again without a cursor",
        cursor.0
    ))
}
