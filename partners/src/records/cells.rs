//! Owns how a record of a CSV file is cut into cells (RFC 4180, with the dialects partners write). Strict: a quote opens
//! a cell only at its beginning, and behind the one that closes it nothing may stand but the next delimiter.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memchr2};

use super::RECORD_BYTES_MAX;

/// What the bytes of a file mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub(crate) enum Encoding {
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    #[serde(rename = "latin-1")]
    Latin1,
}

/// How cells are told apart and written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub(crate) delimiter: u8,
    pub(crate) quote: Option<u8>,
    /// Characters that may stand once before a value and are no part of it.
    pub(crate) prefix: Vec<u8>,
    pub(crate) encoding: Encoding,
}

/// Where a cell stands in its record, its quotes left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    start: usize,
    end: usize,
    /// A quote in it is written twice.
    is_doubled: bool,
}

/// Where a record ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// After `text` bytes; the next one begins at `next`, behind so many newlines.
    Whole { text: usize, next: usize, newlines: usize, is_ended: bool },
    /// The closing quote of this cell, from 0, has text behind it; the next record begins at `next`.
    Stray { cell: usize, next: usize, newlines: usize, is_ended: bool },
    /// The quote of this cell, from 0, is not closed in what is there.
    Open { cell: usize },
    /// There is no end in what is there, and it is no quote that hides it.
    None,
}

impl Dialect {
    /// Cuts the record that `window` begins with. `window` is one byte longer than a line and its end may be, or all
    /// that is left of the file.
    pub(super) fn split(&self, window: &[u8], cells: &mut Vec<Cell>) -> End {
        cells.clear();
        let quote = self.quote.unwrap_or(b'\n');
        match memchr2(b'\n', quote, window) {
            Some(at) if window[at] == quote && self.quote.is_some() => {
                self.split_quoted((window, quote), cells)
            }
            Some(at) => self.split_plain(window, at, cells),
            None if is_over(window) => End::None,
            None => self.split_plain(window, window.len(), cells),
        }
    }

    fn split_plain(&self, window: &[u8], end: usize, cells: &mut Vec<Cell>) -> End {
        let whole = whole(window, end);
        let End::Whole { text, .. } = whole else { return whole };
        let mut start = 0;
        for at in memchr_iter(self.delimiter, &window[..text]) {
            cells.push(Cell { start, end: at, is_doubled: false });
            start = at + 1;
        }
        cells.push(Cell { start, end: text, is_doubled: false });
        whole
    }

    fn split_quoted(&self, (window, quote): (&[u8], u8), cells: &mut Vec<Cell>) -> End {
        let mut at = 0;
        loop {
            let is_quoted = window.get(at) == Some(&quote);
            let next = if is_quoted {
                let Some((close, is_doubled)) = closing(window, quote, at + 1) else {
                    return End::Open { cell: cells.len() };
                };
                cells.push(Cell { start: at + 1, end: close, is_doubled });
                close + 1
            } else {
                let rest = &window[at..];
                let next = memchr2(self.delimiter, b'\n', rest).map_or(window.len(), |i| at + i);
                cells.push(Cell { start: at, end: next, is_doubled: false });
                next
            };
            if window.get(next) == Some(&self.delimiter) {
                at = next + 1;
                continue;
            }
            let rest = &window[next..];
            if is_quoted && !matches!(rest, [] | [b'\n', ..] | [b'\r'] | [b'\r', b'\n', ..]) {
                return stray(window, next, cells.len() - 1);
            }
            let end = memchr(b'\n', rest).map_or(window.len(), |i| next + i);
            let mut whole = whole(window, end);
            if let End::Whole { newlines, .. } = &mut whole {
                *newlines += memchr_iter(b'\n', &window[..end]).count();
            }
            if let (End::Whole { text, .. }, false, Some(last)) =
                (whole, is_quoted, cells.last_mut())
            {
                last.end = last.end.min(text);
            }
            return whole;
        }
    }

    /// What stands in a cell, without what is around it.
    pub(super) fn text<'r>(&self, record: Record<'r>, cell: Cell) -> Cow<'r, str> {
        let written = match record.text.and_then(|text| text.get(cell.start..cell.end)) {
            Some(text) => Cow::Borrowed(text),
            None => {
                let bytes = &record.bytes[cell.start..cell.end];
                Cow::Owned(bytes.iter().map(|byte| char::from(*byte)).collect())
            }
        };
        match (written, self.quote) {
            (Cow::Borrowed(text), _) if !cell.is_doubled => Cow::Borrowed(self.bare(text)),
            (text, Some(quote)) if cell.is_doubled => {
                let quote = char::from(quote).to_string();
                Cow::Owned(self.bare(&text.replace(&quote.repeat(2), &quote)).to_owned())
            }
            (text, _) => Cow::Owned(self.bare(&text).to_owned()),
        }
    }

    /// A value without what may stand before it.
    fn bare<'t>(&self, text: &'t str) -> &'t str {
        match text.as_bytes().first() {
            Some(first) if self.prefix.contains(first) => {
                let rest = &text[1..];
                // Spreadsheets are made to leave digits alone with ="0012".
                let quoted = rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
                quoted.filter(|_| *first == b'=').unwrap_or(rest)
            }
            _ => text,
        }
    }
}

/// A record's bytes, and what they are as text; without it each byte is a character of latin-1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'r> {
    pub(super) bytes: &'r [u8],
    pub(super) text: Option<&'r str>,
}

impl Cell {
    pub(super) fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Whether a byte of the record is of this cell.
    pub(super) fn holds(self, at: usize) -> bool {
        (self.start..=self.end).contains(&at)
    }
}

/// Whether there is more in a window than one record may have.
fn is_over(window: &[u8]) -> bool {
    window.len() > RECORD_BYTES_MAX + 1
}

/// A record whose line ends at `end`, where a newline stands or the file ends.
fn whole(window: &[u8], end: usize) -> End {
    let is_ended = end < window.len();
    let text = if window[..end].ends_with(b"\r") { end - 1 } else { end };
    if text > RECORD_BYTES_MAX || (!is_ended && is_over(window)) {
        return End::None;
    }
    let newlines = usize::from(is_ended);
    End::Whole { text, next: end + newlines, newlines, is_ended }
}

fn stray(window: &[u8], from: usize, cell: usize) -> End {
    let (next, is_ended) = match memchr(b'\n', &window[from..]) {
        Some(at) => (from + at + 1, true),
        None if is_over(window) => return End::None,
        None => (window.len(), false),
    };
    let newlines = memchr_iter(b'\n', &window[..next]).count();
    End::Stray { cell, next, newlines, is_ended }
}

/// The place of the quote that closes a cell, and whether one is written twice before it.
fn closing(window: &[u8], quote: u8, mut from: usize) -> Option<(usize, bool)> {
    let mut is_doubled = false;
    loop {
        let at = from + memchr(quote, &window[from..])?;
        if window.get(at + 1) != Some(&quote) {
            return Some((at, is_doubled));
        }
        is_doubled = true;
        from = at + 2;
    }
}
