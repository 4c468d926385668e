//! Owns the splitting of a CSV record into cells (RFC 4180, in the dialects that partners write).
//! csv-core splits; malformed cells that it accepts are refused here. A quote opens a cell only at
//! the cell's beginning, and its closing quote must be followed by a delimiter or the end of the
//! line.

use std::borrow::Cow;
use std::ops::Range;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};
use memchr::{memchr, memchr_iter};

use crate::records::types::RECORD_BYTES_MAX;

/// The bytes that are looked at for one record: one more than the longest record with `\r\n`. A
/// record without an end in it is too long.
pub(super) const WINDOW_BYTES: usize = RECORD_BYTES_MAX + 2;

/// The character encoding of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
pub(crate) enum TextEncoding {
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    #[serde(rename = "latin-1")]
    Latin1,
}

/// How the cells of a CSV file are delimited and quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CsvDialect {
    pub(crate) delimiter: u8,
    pub(crate) quote: Option<u8>,
    /// Characters of which one may precede a value without being part of it.
    pub(crate) prefix: Vec<u8>,
    pub(crate) encoding: TextEncoding,
}

/// Where a record ends in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordEnd {
    /// After `text` bytes. The next record begins at `next`, `lines` physical lines further.
    Whole { text: usize, next: usize, lines: u64, is_ended: bool },
    /// There is text after the closing quote of this cell, from 0. The next record begins at
    /// `next`, after the end of the physical line.
    Stray { cell: usize, next: usize, lines: u64, is_ended: bool },
    /// The quote of this cell, from 0, is not closed in the window.
    Open { cell: usize },
    /// The record is longer than the window, and no open quote is the cause.
    None,
}

/// Splits one record at a time and holds its cells. Its memory is bounded by the longest record.
#[derive(Debug)]
pub(super) struct Cells<'d> {
    pub(super) dialect: &'d CsvDialect,
    reader: Reader,
    /// The contents of all cells in a row, without enclosing quotes, and with doubled quotes
    /// undone.
    content: Vec<u8>,
    /// Where each cell ends in `content`.
    ends: Vec<usize>,
    count: usize,
}

impl<'d> Cells<'d> {
    pub(super) fn new(dialect: &'d CsvDialect) -> Self {
        let reader = ReaderBuilder::new()
            .delimiter(dialect.delimiter)
            .quoting(dialect.quote.is_some())
            .quote(dialect.quote.unwrap_or(b'"'))
            // A lone \r is data, so only \n ends a line.
            .terminator(Terminator::Any(b'\n'))
            .build();
        // Room for a window and the newline that `cut` adds: csv-core stops when a buffer is full.
        let bytes = WINDOW_BYTES + 2;
        Self { dialect, reader, content: vec![0; bytes], ends: vec![0; bytes], count: 0 }
    }

    /// Splits the record at the beginning of `window` into cells. `window` has `WINDOW_BYTES`, or
    /// the rest of the file if that is shorter.
    pub(super) fn cut(&mut self, window: &[u8]) -> RecordEnd {
        let Self { reader, content, ends, .. } = self;
        if matches!(window, [] | [b'\n', ..]) {
            // csv-core skips empty lines, but every line is reported.
            (ends[0], self.count) = (0, 1);
            return whole(window, 0, 1);
        }
        reader.reset();
        // csv-core drops a byte-order mark at the beginning of its input. After this empty line the
        // record is not at the beginning, so such bytes stay data.
        reader.read_record(b"\n", content, ends);
        let before = reader.line();
        let (mut result, next, length, mut count) = reader.read_record(window, content, ends);
        let mut end = next.saturating_sub(1);
        if result != ReadRecordResult::Record {
            // This is the file's last line, or a line that is too long. An added newline ends the
            // record, unless a quote is open.
            let (last, _, _, more) =
                reader.read_record(b"\n", &mut content[length..], &mut ends[count..]);
            (result, count, end) = (last, count + more, window.len());
        }
        let lines = reader.line() - before;
        self.count = count;
        let is_open = result != ReadRecordResult::Record;
        let text = text_end(window, end);
        if !is_open {
            self.ends[count - 1] -= end - text;
        }
        match self.stray(&window[..text]) {
            Some((cell, at)) => stray(window, cell, at),
            None if is_open => RecordEnd::Open { cell: count },
            None => whole(window, end, lines),
        }
    }

    /// Finds the first malformed cell that csv-core accepts: it begins with a quote, and differs
    /// from its content written in quotes. Returns the cell and the offset of its closing quote.
    fn stray(&self, raw: &[u8]) -> Option<(usize, usize)> {
        let quote = self.dialect.quote?;
        if self.content().len() + self.count == raw.len() + 1 {
            // Only the delimiters were dropped, so no cell has quotes. This skips the slow check
            // for most records.
            return None;
        }
        let mut at = 0;
        for (number, cell) in self.iter().enumerate() {
            if raw.get(at) == Some(&quote) {
                at += match length_in_quotes(&raw[at..], cell, quote) {
                    Ok(length) => length,
                    Err(closing) => return Some((number, at + closing)),
                };
            } else {
                at += cell.len();
            }
            at += 1;
        }
        None
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The contents of all cells in a row.
    pub(super) fn content(&self) -> &[u8] {
        let end = self.ends[..self.count].last().copied().unwrap_or_default();
        &self.content[..end]
    }

    /// The content of each cell.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.count).filter_map(|cell| self.content.get(self.range(cell)?))
    }

    fn range(&self, cell: usize) -> Option<Range<usize>> {
        let ends = &self.ends[..self.count];
        let start = cell.checked_sub(1).and_then(|before| ends.get(before)).copied();
        Some(start.unwrap_or_default()..*ends.get(cell)?)
    }

    /// The value of a cell, from 0. `content` is the content of all cells as UTF-8; without it each
    /// byte is a character of latin-1.
    pub(super) fn value<'c>(
        &'c self,
        content: Option<&'c str>,
        cell: usize,
    ) -> Option<Cow<'c, str>> {
        let range = self.range(cell)?;
        Some(match content.and_then(|content| content.get(range.clone())) {
            Some(text) => Cow::Borrowed(self.dialect.without_prefix(text)),
            None => {
                let text: String =
                    self.content[range].iter().map(|byte| char::from(*byte)).collect();
                Cow::Owned(self.dialect.without_prefix(&text).to_owned())
            }
        })
    }
}

impl CsvDialect {
    /// A value without its prefix character.
    fn without_prefix<'t>(&self, text: &'t str) -> &'t str {
        match text.as_bytes().first() {
            Some(first) if self.prefix.contains(first) => {
                let rest = &text[1..];
                // ="0012" keeps spreadsheets from dropping leading zeros.
                let quoted = rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
                quoted.filter(|_| *first == b'=').unwrap_or(rest)
            }
            _ => text,
        }
    }
}

/// Finds the end of the physical line at the beginning of `window`.
pub(super) fn line(window: &[u8]) -> RecordEnd {
    whole(window, memchr(b'\n', window).unwrap_or(window.len()), 1)
}

/// Whether a window holds more than the longest record.
fn is_over(window: &[u8]) -> bool {
    window.len() > RECORD_BYTES_MAX + 1
}

/// The end of a record's text, if its last line ends at `end`.
fn text_end(window: &[u8], end: usize) -> usize {
    if window[..end].ends_with(b"\r") { end - 1 } else { end }
}

/// The end of a record. Its last line ends at `end`, by a newline or by the end of the file.
fn whole(window: &[u8], end: usize, lines: u64) -> RecordEnd {
    let is_ended = end < window.len();
    let text = text_end(window, end);
    if text > RECORD_BYTES_MAX || (!is_ended && is_over(window)) {
        return RecordEnd::None;
    }
    RecordEnd::Whole { text, next: end + usize::from(is_ended), lines, is_ended }
}

/// The end of a record with text after the closing quote at `at`. No later cell can be recognised,
/// so the record ends with the physical line.
fn stray(window: &[u8], cell: usize, at: usize) -> RecordEnd {
    let (next, is_ended) = match memchr(b'\n', &window[at..]) {
        Some(newline) => (at + newline + 1, true),
        None if is_over(window) => return RecordEnd::None,
        None => (window.len(), false),
    };
    let newlines = memchr_iter(b'\n', &window[..next]).count() + usize::from(!is_ended);
    RecordEnd::Stray { cell, next, lines: u64::try_from(newlines).unwrap_or(u64::MAX), is_ended }
}

/// The length of a cell written in quotes, with its own quotes doubled, if `raw` begins with it.
/// Errors: the offset of the first difference.
fn length_in_quotes(raw: &[u8], cell: &[u8], quote: u8) -> Result<usize, usize> {
    let (mut at, mut start) = (1, 0);
    for end in memchr_iter(quote, cell).map(|quote| quote + 1).chain([cell.len()]) {
        // A quote follows each piece: the double of the piece's last byte, or the closing quote.
        let (piece, rest) = (&cell[start..end], &raw[at..]);
        if !rest.starts_with(piece) || rest.get(piece.len()) != Some(&quote) {
            return Err(at + piece.iter().zip(rest).take_while(|(a, b)| a == b).count());
        }
        at += piece.len() + 1;
        start = end;
    }
    Ok(at)
}
