//! Owns the splitting of a file into records: physical lines, or CSV records with quoted cells that
//! may span several lines. The buffer always holds a whole record, so that the result does not
//! depend on how the bytes arrive.

use memchr::memchr;

use super::cells::{self, Cells, RecordEnd, WINDOW_BYTES};
use super::source::UnpackedSource;
use crate::records::types::UnfitFile;

const BUFFER_BYTES: usize = 4 * WINDOW_BYTES;

/// Splits a file into records, one at a time.
pub(super) struct FrameReader<'s> {
    source: UnpackedSource<'s>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    is_drained: bool,
    /// The physical lines before the next record.
    lines: u64,
}

/// Why a record can't be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameFault {
    TooLong,
    /// There is text after the closing quote of this cell, from 0.
    Stray(usize),
}

/// One record of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'f> {
    /// The physical line it begins on, from 1.
    pub(super) line: u64,
    /// The record without its line end; empty if it is broken.
    pub(super) bytes: &'f [u8],
    pub(super) broken: Option<FrameFault>,
    /// Whether a newline follows. Only the last record may have none.
    pub(super) is_ended: bool,
}

impl<'s> FrameReader<'s> {
    pub(super) fn new(source: UnpackedSource<'s>) -> Self {
        let buffer = vec![0; BUFFER_BYTES];
        Self { source, buffer, start: 0, end: 0, is_drained: false, lines: 0 }
    }

    /// The number of physical lines so far.
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// The next `WINDOW_BYTES`, which hold the longest record and its end, or the rest of the file.
    pub(super) fn peek(&mut self) -> Result<&[u8], UnfitFile> {
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

    /// Skips this many bytes.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.start = self.end.min(self.start + bytes);
    }

    /// The next physical line; `None` at the end. Errors: `UnfitFile`.
    pub(super) fn line(&mut self) -> Result<Option<Frame<'_>>, UnfitFile> {
        self.next(cells::line)
    }

    /// The next CSV record, and its cells in `cells`; `None` at the end. Errors: `UnfitFile`, also
    /// for a quote that is not closed.
    pub(super) fn record(&mut self, cells: &mut Cells<'_>) -> Result<Option<Frame<'_>>, UnfitFile> {
        self.next(|window| cells.cut(window))
    }

    fn next(
        &mut self,
        cut: impl FnOnce(&[u8]) -> RecordEnd,
    ) -> Result<Option<Frame<'_>>, UnfitFile> {
        let line = self.lines + 1;
        let window = self.peek()?;
        if window.is_empty() {
            return Ok(None);
        }
        let (text, next, lines, broken, is_ended) = match cut(window) {
            RecordEnd::Whole { text, next, lines, is_ended } => (text, next, lines, None, is_ended),
            RecordEnd::Stray { cell, next, lines, is_ended } => {
                (0, next, lines, Some(FrameFault::Stray(cell)), is_ended)
            }
            RecordEnd::Open { cell } => {
                let problem = format!(
                    "the quote that column {} begins with is not closed, so the rest of the file \
                     can't be split into cells: the file is cut off, or records.quote is wrong",
                    cell + 1
                );
                return Err(UnfitFile::at(line, problem));
            }
            RecordEnd::None => {
                let is_ended = self.skip_line()?;
                return Ok(Some(Frame {
                    line,
                    bytes: &[],
                    broken: Some(FrameFault::TooLong),
                    is_ended,
                }));
            }
        };
        self.lines += lines;
        let start = self.start;
        self.start += next;
        Ok(Some(Frame { line, bytes: &self.buffer[start..start + text], broken, is_ended }))
    }

    /// Skips the rest of a physical line, however long. Returns whether a newline ended it.
    fn skip_line(&mut self) -> Result<bool, UnfitFile> {
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
