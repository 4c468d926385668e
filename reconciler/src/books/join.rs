//! Owns the bringing together of two sorted streams, orders and lines, group by group, in constant memory.

use std::io;
use std::iter::Peekable;

use payfold_schemas::finding::BookLine;

use super::ours::OurOrder;
use super::spool::Sorted;

/// More lines of one group are no lines of one payment.
pub(crate) const GROUP_MAX: usize = 4_096;

/// An order, or none, with the lines of its group. One of the two is there.
pub(crate) struct Group {
    pub(crate) key: Vec<u8>,
    pub(crate) ours: Vec<OurOrder>,
    pub(crate) lines: Vec<BookLine>,
    /// Lines over the bound, which are left out.
    pub(crate) left_out: u64,
}

/// The groups of both streams, by key.
pub(crate) struct Join {
    ours: Peekable<Sorted<OurOrder>>,
    lines: Peekable<Sorted<BookLine>>,
}

impl Join {
    pub(crate) fn of(ours: Sorted<OurOrder>, lines: Sorted<BookLine>) -> Self {
        Self { ours: ours.peekable(), lines: lines.peekable() }
    }

    fn group(&mut self) -> io::Result<Option<Group>> {
        let key = match (peek(&mut self.ours)?, peek(&mut self.lines)?) {
            (Some(a), Some(b)) => a.min(b).to_vec(),
            (Some(key), None) | (None, Some(key)) => key.to_vec(),
            (None, None) => return Ok(None),
        };
        let (ours, _) = take(&mut self.ours, &key)?;
        let (lines, left_out) = take(&mut self.lines, &key)?;
        Ok(Some(Group { key, ours, lines, left_out }))
    }
}

impl Iterator for Join {
    type Item = io::Result<Group>;

    fn next(&mut self) -> Option<Self::Item> {
        self.group().transpose()
    }
}

type Items<T> = Peekable<Sorted<T>>;

fn peek<T: for<'b> minicbor::Decode<'b, ()>>(items: &mut Items<T>) -> io::Result<Option<&[u8]>> {
    if let Some(error) = items.next_if(Result::is_err).and_then(Result::err) {
        return Err(error);
    }
    Ok(items.peek().and_then(|item| item.as_ref().ok()).map(|(key, _)| key.as_slice()))
}

fn take<T: for<'b> minicbor::Decode<'b, ()>>(
    items: &mut Items<T>,
    key: &[u8],
) -> io::Result<(Vec<T>, u64)> {
    let (mut taken, mut left_out) = (Vec::new(), 0);
    while let Some(item) =
        items.next_if(|item| item.as_ref().map_or(true, |(found, _)| found == key))
    {
        let (_, value) = item?;
        if taken.len() < GROUP_MAX { taken.push(value) } else { left_out += 1 }
    }
    Ok((taken, left_out))
}
