//! Owns the last rows of a file while nobody knows yet that they are the last: where the tail is told by nothing but its
//! place, so many rows are held back. How many is bounded, also of blanks and comments between them.

use std::collections::VecDeque;

use crate::records::frame::{Broken, Frame};
use crate::records::tail::TailRule;

/// Records at most; blanks and comments beyond it push rows out as if they were no tail.
const RECORDS_MAX: usize = 256;

/// A record that is held back.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) line: u64,
    bytes: Vec<u8>,
    broken: Option<Broken>,
    is_ended: bool,
    /// Why it says nothing, if it does.
    pub(super) quiet: Option<&'static str>,
}

impl Held {
    pub(super) fn frame(&self) -> Frame<'_> {
        let Self { line, bytes, broken, is_ended, .. } = self;
        Frame { line: *line, bytes, broken: *broken, is_ended: *is_ended }
    }
}

/// What is held back.
#[derive(Clone, Debug)]
pub(super) struct Holding {
    rows_max: usize,
    rows: usize,
    held: VecDeque<Held>,
    /// Memory of records that went on.
    spare: Vec<Vec<u8>>,
}

impl Holding {
    /// For a tail that is the last rows, whatever they are.
    pub(super) fn of(rule: Option<&TailRule>) -> Option<Self> {
        let rule = rule.filter(|rule| rule.when.is_empty())?;
        Some(Self { rows_max: rule.lines, rows: 0, held: VecDeque::new(), spare: Vec::new() })
    }

    pub(super) fn push(&mut self, frame: &Frame<'_>, quiet: Option<&'static str>) {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(frame.bytes);
        let Frame { line, broken, is_ended, .. } = *frame;
        self.rows += usize::from(quiet.is_none());
        self.held.push_back(Held { line, bytes, broken, is_ended, quiet });
    }

    /// The next that is no part of the tail.
    pub(super) fn surplus(&mut self) -> Option<Held> {
        let first = self.held.front()?;
        let goes =
            first.quiet.is_some() || self.rows > self.rows_max || self.held.len() > RECORDS_MAX;
        if !goes {
            return None;
        }
        self.rows -= usize::from(first.quiet.is_none());
        self.held.pop_front()
    }

    /// Takes the memory of one that went on.
    pub(super) fn take_back(&mut self, held: Held) {
        if self.spare.len() < self.rows_max {
            self.spare.push(held.bytes);
        }
    }

    /// All that is left.
    pub(super) fn rest(self) -> VecDeque<Held> {
        self.held
    }
}
