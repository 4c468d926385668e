//! Owns the partitions of the time views: buckets of ten minutes, each spread over shards, so that
//! current entries don't all go to one partition of the database; and the list of existing buckets.
//! Invariants: bucket and shard are functions of time and key and never change, because entries are
//! stored by them; a bucket is listed before its first entry is written, so that a walk along the
//! list misses no entry.

use payfold_schemas::digest::Digest;
use scylla::statement::prepared::PreparedStatement;

use super::link::Link;
use super::recent::RecentWrites;
use super::timestamp;
use crate::EngineError;
use crate::orders::time_view::{Direction, TimeView};

/// How many partitions of the database one bucket is spread over.
pub(super) const SHARDS: u8 = 8;

const BUCKET_S: i64 = 600;
const NANOS_PER_S: i64 = 1_000_000_000;

/// How many buckets are remembered as listed, some eight weeks of them.
const LISTED_MAX: usize = 1 << 13;

/// The bucket of an instant, named by its first second (Unix time).
pub(super) fn bucket_of(nanos: i64) -> i64 {
    nanos.div_euclid(BUCKET_S * NANOS_PER_S) * BUCKET_S
}

/// The shard of an order.
pub(super) fn shard_of(key: &str) -> i8 {
    let [first, ..] = *Digest::of_bytes(key.as_bytes()).as_bytes();
    i8::try_from(first % SHARDS).expect("there are fewer than 128 shards")
}

/// The list of existing buckets, and its statements.
pub(super) struct Buckets {
    insert: PreparedStatement,
    select: PreparedStatement,
    select_newest: PreparedStatement,
    listed: RecentWrites<(TimeView, i64)>,
}

impl Buckets {
    pub(super) async fn prepare(link: &Link, build: u32) -> Result<Self, EngineError> {
        let table = format!("{}.buckets_g{build}", link.keyspace);
        let insert = format!(
            "INSERT INTO {table} (name, bucket) VALUES (?, ?) USING TIMESTAMP {}",
            timestamp::OF_ENTRIES
        );
        let insert = link.prepare(&insert).await?;
        let select = |order| {
            format!(
                "SELECT bucket FROM {table} WHERE name = ? AND bucket >= ? AND bucket <= ?
                 ORDER BY bucket {order} LIMIT ?"
            )
        };
        let select_newest = link.prepare(&select("DESC")).await?;
        let select = link.prepare(&select("ASC")).await?;
        Ok(Self { insert, select, select_newest, listed: RecentWrites::new(LISTED_MAX) })
    }

    /// Adds buckets to the list. Must come before an entry is written to one of them.
    pub(super) async fn add_to_list(
        &self,
        link: &Link,
        buckets: impl Iterator<Item = (TimeView, i64)>,
    ) -> Result<(), EngineError> {
        let new = self.listed.unknown(buckets);
        let writes =
            new.iter().map(|(view, bucket)| link.write(&self.insert, (view.name(), bucket)));
        link.all(writes).await?;
        self.listed.add(new);
        Ok(())
    }

    /// Reads up to `limit` existing buckets from `first` to `last`, in this direction.
    pub(super) async fn between(
        &self,
        link: &Link,
        (view, direction): (TimeView, Direction),
        (first, last): (i64, i64),
        limit: usize,
    ) -> Result<Vec<i64>, EngineError> {
        let (statement, first, last) = match direction {
            Direction::OldestFirst => (&self.select, first, last),
            Direction::NewestFirst => (&self.select_newest, last, first),
        };
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let rows = link.read(statement, (view.name(), first, last, limit)).await?;
        let rows = rows.rows::<(i64,)>().map_err(|error| link.undecodable(&error))?;
        rows.map(|row| row.map(|(bucket,)| bucket).map_err(|error| link.undecodable(&error)))
            .collect()
    }
}

/// The bucket after this one in a direction.
pub(super) fn next(bucket: i64, direction: Direction) -> i64 {
    match direction {
        Direction::OldestFirst => bucket.saturating_add(BUCKET_S),
        Direction::NewestFirst => bucket.saturating_sub(BUCKET_S),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_and_shards_never_change() {
        let minute = 60 * NANOS_PER_S;
        for (nanos, bucket) in [
            (0, 0),
            (10 * minute - 1, 0),
            (10 * minute, 600),
            (-1, -600),
            (i64::MAX, 9_223_371_600),
            (i64::MIN, -9_223_372_200),
        ] {
            assert_eq!(bucket_of(nanos), bucket, "{nanos}");
        }
        assert_eq!(["p/M/a", "p/M/b", "p/M/c", "p/M/1"].map(shard_of), [1, 3, 0, 4]);
    }
}
