//! Owns the heads of the log's hash chain, one for each commit and partition, in buckets of
//! offsets. Invariants: a head is a function of the log up to its position, so every writer writes
//! the same head; a head is written before the progress of its commit.

use payfold_schemas::chain::Head;
use payfold_schemas::digest::Digest;
use payfold_schemas::position::Position;
use scylla::statement::prepared::PreparedStatement;

use super::link::Link;
use super::timestamp;
use crate::EngineError;

/// A bucket has 2^16 offsets, so that a partition of the database has a few MiB at most.
const BUCKET_BITS: u32 = 16;

/// The statements on heads.
pub(super) struct Heads {
    select: PreparedStatement,
    insert: PreparedStatement,
}

impl Heads {
    pub(super) async fn prepare(link: &Link, build: u32) -> Result<Self, EngineError> {
        let table = format!("{}.heads_g{build}", link.keyspace);
        let select = format!(
            "SELECT at, head FROM {table} WHERE partition = ? AND bucket = ? AND at > ? LIMIT ?"
        );
        let insert = format!(
            "INSERT INTO {table} (partition, bucket, at, head) VALUES (?, ?, ?, ?) USING TIMESTAMP \
             {}",
            timestamp::OF_ENTRIES
        );
        Ok(Self { select: link.prepare(&select).await?, insert: link.prepare(&insert).await? })
    }

    /// Adds heads.
    pub(super) async fn store(
        &self,
        link: &Link,
        heads: &[(Position, Head)],
    ) -> Result<(), EngineError> {
        link.all(heads.iter().map(async |(position, head)| {
            let (partition, offset) = (i64::from(position.partition), to_cql(position.offset)?);
            let digest = head.digest();
            let values = (partition, offset >> BUCKET_BITS, offset, digest.as_bytes().as_slice());
            link.write(&self.insert, values).await
        }))
        .await
    }

    /// Reads up to `limit` heads of a partition after a position, up to an offset, in order.
    pub(super) async fn after(
        &self,
        link: &Link,
        (after, last): (Position, u64),
        limit: usize,
    ) -> Result<Vec<(Position, Head)>, EngineError> {
        let (mut offset, last) = (to_cql(after.offset)?, to_cql(last)?);
        let mut heads = Vec::new();
        for bucket in (offset >> BUCKET_BITS)..=(last >> BUCKET_BITS) {
            let left = limit.saturating_sub(heads.len());
            if left == 0 {
                break;
            }
            let left = i32::try_from(left).unwrap_or(i32::MAX);
            let values = (i64::from(after.partition), bucket, offset, left);
            let rows = link.read(&self.select, values).await?;
            let rows = rows.rows::<(i64, &[u8])>().map_err(|error| link.undecodable(&error))?;
            for row in rows {
                let (at, head) = row.map_err(|error| link.undecodable(&error))?;
                let digest = <[u8; 32]>::try_from(head).ok().map(Digest::from_bytes);
                let (Some(digest), Ok(at)) = (digest, u64::try_from(at)) else {
                    return Err(link.address.corrupt("a head of the log's chain does not decode"));
                };
                heads.push((Position { offset: at, ..after }, Head::kept(digest)));
            }
            offset = offset.max((bucket << BUCKET_BITS) - 1);
        }
        Ok(heads)
    }
}

fn to_cql(offset: u64) -> Result<i64, EngineError> {
    i64::try_from(offset)
        .map_err(|_| EngineError::Invalid(format!("offset {offset} is larger than a CQL bigint")))
}
