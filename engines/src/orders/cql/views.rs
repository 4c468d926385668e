//! Owns writing view entries, which are immutable. Invariants: an entry exists once, however often
//! it is written; an entry that was acknowledged recently is not written again, and one that was
//! not acknowledged is.

use std::collections::HashMap;

use futures_util::future::Either;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::OrderKey;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;

use super::buckets::{Buckets, bucket_of, shard_of};
use super::link::Link;
use super::recent::RecentWrites;
use super::timestamp;
use crate::EngineError;
use crate::orders::ViewEntry;
use crate::orders::time_view::TimeView;

/// How many entries are remembered as written, 32 bytes each.
const WRITTEN_MAX: usize = 1 << 16;

/// The limits of one batch. The databases warn about batches of 5 KiB or more.
const BATCH_ENTRIES_MAX: usize = 50;
const BATCH_BYTES_MAX: usize = 4 << 10;

/// The bytes of an entry besides its key: bucket, shard, instant, and their lengths.
const ENTRY_BYTES: usize = 40;

/// The values of one entry of a time view.
type TimeValues<'a> = (i64, i8, i64, &'a str);

/// The statements that write entries.
pub(super) struct Views {
    created: PreparedStatement,
    deadline: PreparedStatement,
    reference: PreparedStatement,
    provider_ref: PreparedStatement,
    nonce: PreparedStatement,
    written: RecentWrites<Digest>,
}

/// An entry of a view by name, with its order and the text of the order's key.
#[derive(Clone, Copy)]
struct NameEntry<'a> {
    order: &'a OrderKey,
    key: &'a str,
    entry: &'a ViewEntry,
}

impl Views {
    pub(super) async fn prepare(link: &Link, build: u32) -> Result<Self, EngineError> {
        let insert = async |view: &str, columns: &str| {
            let marks = columns.split(',').map(|_| "?").collect::<Vec<_>>().join(", ");
            link.prepare(&format!(
                "INSERT INTO {}.view_{view}_g{build} ({columns}) VALUES ({marks}) USING TIMESTAMP \
                 {}",
                link.keyspace,
                timestamp::OF_ENTRIES
            ))
            .await
        };
        Ok(Self {
            created: insert("created", "bucket, shard, at, key").await?,
            deadline: insert("deadline", "bucket, shard, at, key").await?,
            reference: insert("reference", "account, reference, order_id").await?,
            provider_ref: insert("provider_ref", "account, provider_ref, order_id").await?,
            nonce: insert("nonce", "account, nonce, digest, order_id").await?,
            written: RecentWrites::new(WRITTEN_MAX),
        })
    }

    /// Adds entries.
    pub(super) async fn store(
        &self,
        link: &Link,
        buckets: &Buckets,
        entries: &[(OrderKey, ViewEntry)],
    ) -> Result<(), EngineError> {
        let keys: Vec<String> = entries.iter().map(|(key, _)| key.to_string()).collect();
        let mut bytes = Vec::new();
        let digests: Vec<Digest> = (entries.iter().zip(&keys))
            .map(|((_, entry), key)| digest_of(key, entry, &mut bytes))
            .collect();
        let new = self.written.unknown(digests.iter().copied());
        let mut left = new.clone();
        let (mut by_time, mut by_name) = (HashMap::<_, Vec<_>>::new(), Vec::new());
        for (((order, entry), key), digest) in entries.iter().zip(&keys).zip(&digests) {
            if !left.remove(digest) {
                continue;
            }
            let (view, time) = match entry {
                ViewEntry::Created(time) => (TimeView::Created, time.unix_nanos()),
                ViewEntry::Deadline(time) => (TimeView::Deadline, time.unix_nanos()),
                ViewEntry::Reference(_) | ViewEntry::ProviderRef(_) | ViewEntry::Nonce(..) => {
                    by_name.push(NameEntry { order, key: key.as_str(), entry });
                    continue;
                }
            };
            let (bucket, shard) = (bucket_of(time), shard_of(key));
            by_time.entry((view, bucket, shard)).or_default().push((
                bucket,
                shard,
                time,
                key.as_str(),
            ));
        }
        buckets.add_to_list(link, by_time.keys().map(|(view, bucket, _)| (*view, *bucket))).await?;
        let by_name = by_name.into_iter().map(|named| Either::Left(self.write_name(link, named)));
        let by_time = (by_time.iter())
            .flat_map(|((view, ..), values)| in_batches(values).map(move |batch| (*view, batch)))
            .map(|(view, batch)| Either::Right(self.write_times(link, view, batch)));
        link.all(by_time.chain(by_name)).await?;
        self.written.add(new);
        Ok(())
    }

    /// Writes entries of one partition in a batch, which the database applies as one write.
    async fn write_times(
        &self,
        link: &Link,
        view: TimeView,
        values: &[TimeValues<'_>],
    ) -> Result<(), EngineError> {
        let statement = match view {
            TimeView::Created => &self.created,
            TimeView::Deadline => &self.deadline,
        };
        if let [one] = values {
            return link.write(statement, one).await;
        }
        // Unlogged, because a batch within one partition is atomic without the batch log.
        let statements = values.iter().map(|_| statement.clone().into()).collect();
        let mut batch = Batch::new_with_statements(BatchType::Unlogged, statements);
        batch.set_is_idempotent(true);
        link.write_batch(&batch, values).await
    }

    async fn write_name(&self, link: &Link, named: NameEntry<'_>) -> Result<(), EngineError> {
        let NameEntry { order, key, entry } = named;
        let order_id = order.order_id.as_str();
        let account = account_of(key, order);
        match entry {
            ViewEntry::Reference(text) => {
                link.write(&self.reference, (account, text.as_str(), order_id)).await
            }
            ViewEntry::ProviderRef(text) => {
                link.write(&self.provider_ref, (account, text.as_str(), order_id)).await
            }
            ViewEntry::Nonce(text, digest) => {
                let digest = digest.as_bytes().as_slice();
                link.write(&self.nonce, (account, text.as_str(), digest, order_id)).await
            }
            ViewEntry::Created(_) | ViewEntry::Deadline(_) => {
                unreachable!("time views are written in batches")
            }
        }
    }
}

/// The account in an order's key, `partner/merchantCode`.
fn account_of<'a>(key: &'a str, order: &OrderKey) -> &'a str {
    let account = key.strip_suffix(order.order_id.as_str()).and_then(|rest| rest.strip_suffix('/'));
    account.expect("a key ends with its order id")
}

/// Splits the entries of one partition into batches.
fn in_batches<'v, 'k>(
    mut values: &'v [TimeValues<'k>],
) -> impl Iterator<Item = &'v [TimeValues<'k>]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = values.iter().take(BATCH_ENTRIES_MAX).take_while(|(.., key)| {
            bytes += key.len() + ENTRY_BYTES;
            bytes <= BATCH_BYTES_MAX
        });
        // At least one entry, even if a key is longer than a batch: an empty batch would loop for
        // ever.
        let (batch, rest) = values.split_at(fits.count().max(1).min(values.len()));
        values = rest;
        (!batch.is_empty()).then_some(batch)
    })
}

/// The digest that an entry is remembered by. No text contains a NUL, so different entries have
/// different bytes.
fn digest_of(key: &str, entry: &ViewEntry, bytes: &mut Vec<u8>) -> Digest {
    bytes.clear();
    bytes.extend_from_slice(key.as_bytes());
    let mut add = |kind: u8, rest: &[u8]| {
        bytes.extend_from_slice(&[0, kind]);
        bytes.extend_from_slice(rest);
    };
    match entry {
        ViewEntry::Created(time) => add(b'c', &time.unix_nanos().to_be_bytes()),
        ViewEntry::Deadline(time) => add(b'd', &time.unix_nanos().to_be_bytes()),
        ViewEntry::Reference(text) => add(b'r', text.as_str().as_bytes()),
        ViewEntry::ProviderRef(text) => add(b'p', text.as_str().as_bytes()),
        ViewEntry::Nonce(text, digest) => {
            add(b'n', text.as_str().as_bytes());
            add(b'=', digest.as_bytes());
        }
    }
    Digest::of_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_limited_by_count_and_by_size() {
        let cut = |count: usize, key_bytes: usize| -> Vec<usize> {
            let key = "k".repeat(key_bytes);
            let values: Vec<TimeValues<'_>> = vec![(0, 0, 0, &key); count];
            in_batches(&values).map(<[_]>::len).collect()
        };
        assert_eq!(cut(0, 1), [0; 0]);
        assert_eq!(cut(1, 5_000), [1]);
        assert_eq!(cut(2, 5_000), [1, 1]);
        assert_eq!(cut(120, 10), [50, 50, 20]);
        assert_eq!(cut(120, 162), [20; 6], "4,040 of 4,096 bytes");
    }
}
