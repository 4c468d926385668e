//! Owns the bringing together of two sorted streams, orders and lines, group by group, in constant memory.

use std::io;

use payfold_schemas::finding::BookLine;

use super::ours::OurOrder;
use super::spool::{KeyHash, Place, Sorted};

/// More lines of one group are no lines of one payment.
pub(crate) const GROUP_MAX: usize = 4_096;

/// What there is of one key: an order and its lines, as a rule. At least one of both is there; orders are several only
/// where they share a ref.
pub(crate) struct Group {
    pub(crate) hash: KeyHash,
    pub(crate) ours: Vec<OurOrder>,
    pub(crate) lines: Vec<BookLine>,
    /// Lines over the bound, which are left out.
    pub(crate) left_out: u64,
}

/// The groups of both streams, by key.
pub(crate) struct Join {
    ours: Sorted<OurOrder>,
    lines: Sorted<BookLine>,
    /// Of the group that is taken.
    key: Vec<u8>,
}

impl Join {
    pub(crate) fn of(ours: Sorted<OurOrder>, lines: Sorted<BookLine>) -> Self {
        Self { ours, lines, key: Vec::new() }
    }

    fn group(&mut self) -> io::Result<Option<Group>> {
        let first = match (self.ours.peek()?, self.lines.peek()?) {
            (Some(a), Some(b)) => a.min(b),
            (Some(place), None) | (None, Some(place)) => place,
            (None, None) => return Ok(None),
        };
        let hash = first.hash;
        self.key.clear();
        self.key.extend_from_slice(first.key);
        let place = Place { hash, key: &self.key };
        let (ours, _) = take(&mut self.ours, place)?;
        let (lines, left_out) = take(&mut self.lines, place)?;
        Ok(Some(Group { hash, ours, lines, left_out }))
    }
}

impl Iterator for Join {
    type Item = io::Result<Group>;

    fn next(&mut self) -> Option<Self::Item> {
        self.group().transpose()
    }
}

fn take<T: for<'b> minicbor::Decode<'b, ()>>(
    items: &mut Sorted<T>,
    place: Place<'_>,
) -> io::Result<(Vec<T>, u64)> {
    // As a rule there is one of each.
    let (mut taken, mut left_out) = (Vec::with_capacity(1), 0);
    while items.peek()? == Some(place) {
        let Some(value) = items.next()? else { break };
        if taken.len() < GROUP_MAX { taken.push(value) } else { left_out += 1 }
    }
    Ok((taken, left_out))
}
