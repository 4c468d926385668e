//! Owns the join of two sorted streams, orders and lines, into groups by key, in constant memory.

use std::io;

use payfold_schemas::finding::BookLine;

use super::external_sort::{KeyHash, SortKey, SortedLane};
use super::ours::OurOrder;

/// Lines or orders of one group that are compared, at most. A payment never has as many.
pub(crate) const GROUP_MAX: usize = 4_096;

/// The orders and lines with one key: usually one order and its lines. At least one side is not
/// empty. A group has several orders only if they share a ref.
pub(crate) struct RecordGroup {
    pub(crate) hash: KeyHash,
    pub(crate) ours: Vec<OurOrder>,
    pub(crate) lines: Vec<BookLine>,
    /// Lines over the bound, which are not compared.
    pub(crate) left_out: u64,
}

/// Iterates over the groups of both streams, by key. Errors: the disk.
pub(crate) struct GroupJoin {
    ours: SortedLane<OurOrder>,
    lines: SortedLane<BookLine>,
    /// The key of the current group; kept to reuse its memory.
    key: Vec<u8>,
}

impl GroupJoin {
    pub(crate) fn new(ours: SortedLane<OurOrder>, lines: SortedLane<BookLine>) -> Self {
        Self { ours, lines, key: Vec::new() }
    }

    fn next_group(&mut self) -> io::Result<Option<RecordGroup>> {
        let first = match (self.ours.peek()?, self.lines.peek()?) {
            (Some(a), Some(b)) => a.min(b),
            (Some(sort_key), None) | (None, Some(sort_key)) => sort_key,
            (None, None) => return Ok(None),
        };
        let hash = first.hash;
        self.key.clear();
        self.key.extend_from_slice(first.key);
        let sort_key = SortKey { hash, key: &self.key };
        let (ours, _) = take_group(&mut self.ours, sort_key)?;
        let (lines, left_out) = take_group(&mut self.lines, sort_key)?;
        Ok(Some(RecordGroup { hash, ours, lines, left_out }))
    }
}

impl Iterator for GroupJoin {
    type Item = io::Result<RecordGroup>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_group().transpose()
    }
}

/// Takes the values with this key, and counts those over the bound.
fn take_group<T: for<'b> minicbor::Decode<'b, ()>>(
    items: &mut SortedLane<T>,
    sort_key: SortKey<'_>,
) -> io::Result<(Vec<T>, u64)> {
    // Most groups have one value on each side.
    let (mut taken, mut left_out) = (Vec::with_capacity(1), 0);
    while items.peek()? == Some(sort_key) {
        let Some(value) = items.next()? else { break };
        if taken.len() < GROUP_MAX { taken.push(value) } else { left_out += 1 }
    }
    Ok((taken, left_out))
}
