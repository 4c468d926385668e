//! Owns listing the views page by page. Invariants: entries come in the order that
//! `OrderStore::scan` specifies, although those of one bucket are in several partitions; a scan
//! reads existing buckets only; no statement needs ALLOW FILTERING.

use futures_util::future::try_join_all;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::time::Time;
use scylla::statement::prepared::PreparedStatement;

use super::buckets::{self, Buckets, SHARDS, TimeView, bucket_of};
use super::link::Link;
use super::name_views::Names;
use super::view_entry::{CHUNK_ROWS_MAX, unreadable};
use crate::EngineError;
use crate::orders::cursor::{self, Entries};
use crate::orders::{Cursor, Page, Scan};

/// How many buckets are read at once, at most. A scan starts with one and doubles the number while
/// the buckets hold little.
const AHEAD_MAX: usize = 16;

/// The instant and the key of an entry of a time view.
type TimeEntry = (i64, String);

/// The statements that read views.
pub(super) struct Scans {
    created: PreparedStatement,
    deadline: PreparedStatement,
    names: Names,
}

impl Scans {
    pub(super) async fn prepare(link: &Link, build: u32) -> Result<Self, EngineError> {
        let by_time = async |view: TimeView| {
            // Both bounds have two columns, because CQL can't mix them with a bound of one column.
            // No key is empty, so (until, '') sorts before every entry of that instant.
            link.prepare(&format!(
                "SELECT at, key FROM {}.view_{}_g{build} WHERE bucket = ? AND shard = ?
                 AND (at, key) > (?, ?) AND (at, key) < (?, '') LIMIT ?",
                link.keyspace,
                view.name()
            ))
            .await
        };
        Ok(Self {
            created: by_time(TimeView::Created).await?,
            deadline: by_time(TimeView::Deadline).await?,
            names: Names::prepare(link, build).await?,
        })
    }

    /// Reads one page of a view.
    pub(super) async fn scan(
        &self,
        link: &Link,
        buckets: &Buckets,
        (scan, after): (&Scan, Option<&Cursor>),
        limit: usize,
    ) -> Result<Page, EngineError> {
        let fetch = cursor::fetch_count(limit)?;
        let walk = match scan {
            Scan::Created { from, until } => (TimeView::Created, *from, *until),
            Scan::Deadline { from, until } => (TimeView::Deadline, *from, *until),
            Scan::Reference(..) | Scan::ProviderRef(..) | Scan::Nonce(..) => {
                let entries = self.names.scan(link, scan, after, fetch).await?;
                return Ok(cursor::page(entries, limit));
            }
        };
        let entries = self.by_time(link, buckets, (walk, after), fetch).await?;
        Ok(cursor::page(entries, limit))
    }

    async fn by_time(
        &self,
        link: &Link,
        buckets: &Buckets,
        ((view, from, until), after): ((TimeView, Time, Time), Option<&Cursor>),
        fetch: usize,
    ) -> Result<Entries, EngineError> {
        let (at, key) = cursor::after_time(view.name(), after, from)?;
        let (start, until) = ((at, key.to_owned()), until.unix_nanos());
        let mut entries = Entries::new();
        let (mut first, mut ahead) = (bucket_of(at), 1);
        while at < until && entries.len() < fetch {
            let last = bucket_of(until - 1);
            let found = buckets.between(link, view, (first, last), ahead).await?;
            let Some(latest) = found.last() else { break };
            first = buckets::next(*latest);
            let (more, left) = (found.len() == ahead, fetch - entries.len());
            let read = |bucket| self.bucket(link, (view, bucket), (&start, until), left);
            let read = link.in_order(found.into_iter().map(read)).await?;
            for (at, key) in read.into_iter().flatten().take(left) {
                entries.push((
                    OrderKey::parse(&key).map_err(|error| unreadable(link, &error))?,
                    view.entry(at),
                ));
            }
            if !more {
                break;
            }
            ahead = (ahead * 2).min(AHEAD_MAX);
        }
        Ok(entries)
    }

    /// Reads up to `want` entries of a bucket, merged from its shards.
    async fn bucket(
        &self,
        link: &Link,
        (view, bucket): (TimeView, i64),
        (start, until): (&TimeEntry, i64),
        want: usize,
    ) -> Result<Vec<TimeEntry>, EngineError> {
        let statement = match view {
            TimeView::Created => &self.created,
            TimeView::Deadline => &self.deadline,
        };
        let (mut found, mut start) = (Vec::new(), start.clone());
        loop {
            let left = want - found.len();
            let rows = rows_per_shard(left);
            let shards = (0..SHARDS).map(async |shard| {
                let shard = i8::try_from(shard).expect("there are fewer than 128 shards");
                let limit = i32::try_from(rows).expect("it is at most CHUNK_ROWS_MAX");
                let values = (bucket, shard, start.0, &start.1, until, limit);
                let rows = link.read(statement, values).await?;
                let rows = rows.rows::<TimeEntry>().map_err(|error| link.undecodable(&error))?;
                rows.collect::<Result<Vec<_>, _>>().map_err(|error| link.undecodable(&error))
            });
            let shards = try_join_all(shards).await?;
            // A shard that returned its full number of rows may have more after its last one, so
            // entries beyond the smallest such last row are not known to be next in order.
            let full = shards.iter().filter(|shard| shard.len() == rows);
            let bound = full.filter_map(|shard| shard.last()).min().cloned();
            let mut merged: Vec<_> = shards.into_iter().flatten().collect();
            merged.sort_unstable();
            merged.retain(|place| bound.as_ref().is_none_or(|bound| place <= bound));
            merged.truncate(left);
            found.extend(merged);
            match (bound, found.last()) {
                (Some(_), Some(last)) if found.len() < want => start = last.clone(),
                _ => return Ok(found),
            }
        }
    }
}

/// How many rows to read from each shard: an equal part of what is wanted and a quarter more,
/// because the entries are not spread evenly.
fn rows_per_shard(want: usize) -> usize {
    let even = want.div_ceil(usize::from(SHARDS));
    (even + even / 4 + 8).min(want).min(CHUNK_ROWS_MAX)
}
