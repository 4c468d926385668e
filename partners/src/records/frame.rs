//! Owns the cutting of a file into records: physical lines, or CSV records whose quoted cells may hold several. One
//! buffer, in which a whole record always fits: how the bytes arrive changes nothing of what is read.

use memchr::memchr;

use super::cells::{Cell, Dialect, End};
use super::source::Source;
use super::{RECORD_BYTES_MAX, Unfit};

/// One byte more than a line with its end: what has no end in it is too long.
const WINDOW_BYTES: usize = RECORD_BYTES_MAX + 2;
const BUFFER_BYTES: usize = 4 * WINDOW_BYTES;

/// A file, cut as it is asked for.
pub(super) struct Frames<'s> {
    source: Source<'s>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    is_drained: bool,
    /// Physical lines that are behind.
    lines: u64,
}

/// What makes a record no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    TooLong,
    /// Text behind the closing quote of this cell, from 0.
    Stray(usize),
}

/// One record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'f> {
    /// The physical line it begins on, from 1.
    pub(super) line: u64,
    /// Without its end; nothing of one that is broken.
    pub(super) bytes: &'f [u8],
    pub(super) broken: Option<Broken>,
    /// Whether a newline stands behind it; only the last may have none.
    pub(super) is_ended: bool,
}

impl<'s> Frames<'s> {
    pub(super) fn new(source: Source<'s>) -> Self {
        let buffer = vec![0; BUFFER_BYTES];
        Self { source, buffer, start: 0, end: 0, is_drained: false, lines: 0 }
    }

    /// Physical lines so far.
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// What comes next, a record and its end at least, or all that is left.
    pub(super) fn peek(&mut self) -> Result<&[u8], Unfit> {
        while self.end - self.start < WINDOW_BYTES && !self.is_drained {
            if self.start > 0 && self.buffer.len() - self.start < WINDOW_BYTES {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            let count = self.source.read(&mut self.buffer[self.end..])?;
            self.end += count;
            self.is_drained = count == 0;
        }
        Ok(&self.buffer[self.start..self.end.min(self.start + WINDOW_BYTES)])
    }

    /// Leaves out so many bytes of what comes next.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.start = self.end.min(self.start + bytes);
    }

    /// The next physical line; `None` at the end. Errors: `Unfit`.
    pub(super) fn line(&mut self) -> Result<Option<Frame<'_>>, Unfit> {
        let none = Dialect {
            delimiter: b'\n',
            quote: None,
            prefix: Vec::new(),
            encoding: super::cells::Encoding::Utf8,
        };
        self.record(&none, &mut Vec::new())
    }

    /// The next record and its cells; `None` at the end. Errors: `Unfit`, also for a quote that stays open.
    pub(super) fn record(
        &mut self,
        dialect: &Dialect,
        cells: &mut Vec<Cell>,
    ) -> Result<Option<Frame<'_>>, Unfit> {
        let line = self.lines + 1;
        let window = self.peek()?;
        if window.is_empty() {
            return Ok(None);
        }
        let (text, next, newlines, broken, is_ended) = match dialect.split(window, cells) {
            End::Whole { text, next, newlines, is_ended } => (text, next, newlines, None, is_ended),
            End::Stray { cell, next, newlines, is_ended } => {
                (0, next, newlines, Some(Broken::Stray(cell)), is_ended)
            }
            End::Open { cell } => {
                let problem = format!(
                    "the quote that column {} begins with is not closed, so nothing behind it can be told apart: \
                     the file is cut off, or records.quote is wrong",
                    cell + 1
                );
                return Err(Unfit::at(line, problem));
            }
            End::None => {
                let is_ended = self.skip_line()?;
                return Ok(Some(Frame {
                    line,
                    bytes: &[],
                    broken: Some(Broken::TooLong),
                    is_ended,
                }));
            }
        };
        let newlines = newlines + usize::from(!is_ended);
        self.lines += u64::try_from(newlines).unwrap_or(u64::MAX);
        let start = self.start;
        self.start += next;
        Ok(Some(Frame { line, bytes: &self.buffer[start..start + text], broken, is_ended }))
    }

    /// Leaves out the rest of a physical line, however long; whether a newline ended it.
    fn skip_line(&mut self) -> Result<bool, Unfit> {
        self.lines += 1;
        loop {
            let window = self.peek()?;
            let (length, newline) = (window.len(), memchr(b'\n', window));
            match newline {
                Some(at) => {
                    self.skip(at + 1);
                    return Ok(true);
                }
                None if length == 0 => return Ok(false),
                None => self.skip(length),
            }
        }
    }
}
