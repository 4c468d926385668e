//! Owns listing the views page by page. Invariants: entries come in the order that
//! `OrderStore::scan` specifies, although those of one bucket are in several partitions; a scan
//! reads existing buckets only; no statement needs ALLOW FILTERING.

use futures_util::future::try_join_all;
use payfold_schemas::ids::OrderKey;
use scylla::statement::prepared::PreparedStatement;

use super::buckets::{self, Buckets, SHARDS, bucket_of};
use super::link::Link;
use super::name_views::Names;
use super::view_entry::{CHUNK_ROWS_MAX, unreadable};
use crate::EngineError;
use crate::orders::cursor::{self, Entries};
use crate::orders::time_view::{Direction, TimeView, TimeWalk};
use crate::orders::{Cursor, Page, Scan};

/// How many buckets are read at once, at most. A scan starts with one and doubles the number while
/// the buckets hold little.
const AHEAD_MAX: usize = 16;

/// The instant and the key of an entry of a time view.
type TimeEntry = (i64, String);

/// The statements that read views.
pub(super) struct Scans {
    created: PreparedStatement,
    newest: PreparedStatement,
    deadline: PreparedStatement,
    names: Names,
}

impl Scans {
    pub(super) async fn prepare(link: &Link, build: u32) -> Result<Self, EngineError> {
        // Both bounds have two columns, because CQL can't mix them with a bound of one column. No
        // key is empty, so (until, '') sorts before every entry of that instant.
        let (forwards, backwards) = (
            "(at, key) > (?, ?) AND (at, key) < (?, '') ORDER BY at, key",
            "(at, key) < (?, ?) AND (at, key) >= (?, '') ORDER BY at DESC, key DESC",
        );
        let by_time = async |view: TimeView, range: &str| {
            link.prepare(&format!(
                "SELECT at, key FROM {}.view_{}_g{build} WHERE bucket = ? AND shard = ?
                 AND {range} LIMIT ?",
                link.keyspace,
                view.name()
            ))
            .await
        };
        Ok(Self {
            created: by_time(TimeView::Created, forwards).await?,
            newest: by_time(TimeView::Created, backwards).await?,
            deadline: by_time(TimeView::Deadline, forwards).await?,
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
        let entries = match TimeWalk::of(scan, after)? {
            Some(walk) => self.by_time(link, buckets, &walk, fetch).await?,
            None => self.names.scan(link, scan, after, fetch).await?,
        };
        Ok(cursor::page(scan, entries, limit))
    }

    async fn by_time(
        &self,
        link: &Link,
        buckets: &Buckets,
        walk: &TimeWalk<'_>,
        fetch: usize,
    ) -> Result<Entries, EngineError> {
        let TimeWalk { view, direction, start: (at, _), end } = *walk;
        let (is_empty, last) = match direction {
            Direction::OldestFirst => (at >= end, bucket_of(end.saturating_sub(1))),
            Direction::NewestFirst => (at < end, bucket_of(end)),
        };
        let mut entries = Entries::new();
        let (mut first, mut ahead) = (bucket_of(at), 1);
        while !is_empty && entries.len() < fetch {
            let found = buckets.between(link, (view, direction), (first, last), ahead).await?;
            let Some(latest) = found.last() else { break };
            first = buckets::next(*latest, direction);
            let (more, left) = (found.len() == ahead, fetch - entries.len());
            let read = |bucket| self.bucket(link, walk, bucket, left);
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
        walk: &TimeWalk<'_>,
        bucket: i64,
        want: usize,
    ) -> Result<Vec<TimeEntry>, EngineError> {
        let TimeWalk { direction, start: (at, key), end, .. } = *walk;
        let statement = self.statement(walk);
        let (mut found, mut start) = (Vec::new(), (at, key.to_owned()));
        loop {
            let left = want - found.len();
            let rows = rows_per_shard(left);
            let shards = (0..SHARDS).map(async |shard| {
                let shard = i8::try_from(shard).expect("there are fewer than 128 shards");
                let limit = i32::try_from(rows).expect("it is at most CHUNK_ROWS_MAX");
                let values = (bucket, shard, start.0, &start.1, end, limit);
                let rows = link.read(statement, values).await?;
                let rows = rows.rows::<TimeEntry>().map_err(|error| link.undecodable(&error))?;
                rows.collect::<Result<Vec<_>, _>>().map_err(|error| link.undecodable(&error))
            });
            let shards = try_join_all(shards).await?;
            // A shard that returned its full number of rows may have more behind its last one, so
            // entries behind the first such last row are not known to be next in order.
            let compare = |one: &TimeEntry, other: &TimeEntry| match direction {
                Direction::OldestFirst => one.cmp(other),
                Direction::NewestFirst => other.cmp(one),
            };
            let full = shards.iter().filter(|shard| shard.len() == rows);
            let lasts = full.filter_map(|shard| shard.last());
            let bound = lasts.min_by(|one, other| compare(one, other)).cloned();
            let mut merged: Vec<_> = shards.into_iter().flatten().collect();
            merged.sort_unstable_by(compare);
            merged.retain(|at| bound.as_ref().is_none_or(|bound| compare(at, bound).is_le()));
            merged.truncate(left);
            found.extend(merged);
            match (bound, found.last()) {
                (Some(_), Some(last)) if found.len() < want => start = last.clone(),
                _ => return Ok(found),
            }
        }
    }

    fn statement(&self, walk: &TimeWalk<'_>) -> &PreparedStatement {
        match (walk.view, walk.direction) {
            (TimeView::Created, Direction::OldestFirst) => &self.created,
            (TimeView::Created, Direction::NewestFirst) => &self.newest,
            (TimeView::Deadline, Direction::OldestFirst) => &self.deadline,
            (TimeView::Deadline, Direction::NewestFirst) => {
                unreachable!("no scan lists deadlines backwards")
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
