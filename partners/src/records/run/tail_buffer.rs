//! Owns the rows that are held back because they may be the tail. A tail without conditions is the
//! last rows of the file, so it is recognised only at the end. The number of held-back records has
//! a bound, which also counts blank lines and comments.

use std::collections::VecDeque;

use crate::records::frame::{Frame, FrameFault};
use crate::records::tail::TailRule;

/// The most held-back records. If blank lines and comments between tail rows exceed it, the first
/// tail rows are read as other rows.
const RECORDS_MAX: usize = 256;

/// A record that is held back.
#[derive(Clone, Debug)]
pub(super) struct BufferedRecord {
    pub(super) line: u64,
    bytes: Vec<u8>,
    broken: Option<FrameFault>,
    is_ended: bool,
    /// The reason for ignoring it, if it is ignored.
    pub(super) ignored_because: Option<&'static str>,
}

impl BufferedRecord {
    pub(super) fn frame(&self) -> Frame<'_> {
        let Self { line, bytes, broken, is_ended, .. } = self;
        Frame { line: *line, bytes, broken: *broken, is_ended: *is_ended }
    }
}

/// The records that are held back, in the order of the file.
#[derive(Clone, Debug)]
pub(super) struct TailBuffer {
    rows_max: usize,
    rows: usize,
    held: VecDeque<BufferedRecord>,
    /// Buffers of released records, for reuse.
    spare: Vec<Vec<u8>>,
}

impl TailBuffer {
    /// A buffer for a tail without conditions; `None` for any other file.
    pub(super) fn of(rule: Option<&TailRule>) -> Option<Self> {
        let rule = rule.filter(|rule| rule.when.is_empty())?;
        Some(Self { rows_max: rule.lines, rows: 0, held: VecDeque::new(), spare: Vec::new() })
    }

    pub(super) fn push(&mut self, frame: &Frame<'_>, ignored_because: Option<&'static str>) {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(frame.bytes);
        let Frame { line, broken, is_ended, .. } = *frame;
        self.rows += usize::from(ignored_because.is_none());
        self.held.push_back(BufferedRecord { line, bytes, broken, is_ended, ignored_because });
    }

    /// Takes out the first record if it can't be part of the tail.
    pub(super) fn surplus(&mut self) -> Option<BufferedRecord> {
        let first = self.held.front()?;
        let goes = first.ignored_because.is_some()
            || self.rows > self.rows_max
            || self.held.len() > RECORDS_MAX;
        if !goes {
            return None;
        }
        self.rows -= usize::from(first.ignored_because.is_none());
        self.held.pop_front()
    }

    /// Takes back the buffer of a released record.
    pub(super) fn take_back(&mut self, held: BufferedRecord) {
        if self.spare.len() < self.rows_max {
            self.spare.push(held.bytes);
        }
    }

    /// The records that are left at the end of the file: the tail.
    pub(super) fn rest(self) -> VecDeque<BufferedRecord> {
        self.held
    }
}
