//! Owns the reading of one file: the head, the header, the rows and the tail, and the checks of the
//! whole file. Every record is reported once, in the order of the file.

mod columns;
mod tail_buffer;
mod text_checks;

use std::io;

use self::tail_buffer::TailBuffer;
use self::text_checks::{check_start, check_text, parse_object};
use super::cells::Cells;
use super::entry::{RowContent, read_row};
use super::frame::{Frame, FrameReader};
use super::plan::all_hold;
use super::row::{Columns, Row};
use super::source::{HashingReader, UnpackedSource};
use super::spec::{CsvHeader, FileFormat, RecordsSpec};
use super::tail::{FoundTail, TailRule, Totals};
use crate::records::types::{FileSummary, ReadLine, RowFault, UnfitFile};

impl RecordsSpec {
    /// Reads a stream to its end and calls `each` for every record, in order. Blocks. Memory does
    /// not grow with the file. Gzip is unpacked. Errors: `UnfitFile`; then no result that `each`
    /// got may be used.
    pub fn read(
        &self,
        mut source: impl io::Read,
        each: &mut dyn FnMut(ReadLine),
    ) -> Result<FileSummary, UnfitFile> {
        read(self, &mut source, each)
    }
}

/// Reads a whole file.
pub(super) fn read(
    spec: &RecordsSpec,
    source: &mut dyn io::Read,
    each: &mut dyn FnMut(ReadLine),
) -> Result<FileSummary, UnfitFile> {
    let mut stored = HashingReader::new(source);
    let mut frames = FrameReader::new(UnpackedSource::open(&mut stored)?);
    check_start(&mut frames)?;
    let mut run = FileRun {
        spec,
        each,
        columns: Columns::default(),
        header: Vec::new(),
        totals: Totals::default(),
        tail: FoundTail::default(),
        counts: LineCounts::default(),
    };
    run.file(&mut frames)?;
    let LineCounts { entries, ignored, bad } = run.counts;
    let lines = frames.lines();
    drop(frames);
    let (sha256, bytes) = stored.finish()?;
    Ok(FileSummary { lines, entries, ignored, bad, sha256, bytes })
}

#[derive(Clone, Copy, Debug, Default)]
struct LineCounts {
    entries: u64,
    ignored: u64,
    bad: u64,
}

struct FileRun<'r> {
    spec: &'r RecordsSpec,
    each: &'r mut dyn FnMut(ReadLine),
    columns: Columns,
    /// The header's bytes. A later row that is equal is the beginning of another file.
    header: Vec<u8>,
    totals: Totals,
    tail: FoundTail,
    counts: LineCounts,
}

impl<'r> FileRun<'r> {
    fn file(&mut self, frames: &mut FrameReader<'_>) -> Result<(), UnfitFile> {
        let spec = self.spec;
        let mut cells = match &spec.shape {
            FileFormat::Csv { dialect, header, skip_head } => {
                let mut cells = Cells::new(dialect);
                self.head(frames, *skip_head)?;
                self.header(frames, &mut cells, *header)?;
                Some(cells)
            }
            FileFormat::Jsonl => None,
        };
        let mut holding = TailBuffer::of(spec.tail.as_ref());
        loop {
            let frame = match &mut cells {
                Some(cells) => frames.record(cells)?,
                None => frames.line()?,
            };
            let Some(frame) = frame else { break };
            let ignored_because = self.ignored_because(&frame, cells.as_ref());
            let Some(holding) = &mut holding else {
                self.record(&frame, ignored_because, cells.as_ref())?;
                continue;
            };
            holding.push(&frame, ignored_because);
            while let Some(held) = holding.surplus() {
                let frame = held.frame();
                split_held_record(&mut cells, &frame);
                self.record(&frame, held.ignored_because, cells.as_ref())?;
                holding.take_back(held);
            }
        }
        for held in holding.into_iter().flat_map(TailBuffer::rest) {
            let frame = held.frame();
            split_held_record(&mut cells, &frame);
            match (held.ignored_because, &spec.tail) {
                (None, Some(rule)) => self.tail_row(rule, &frame, cells.as_ref())?,
                (why, _) => self.ignored(held.line, why.unwrap_or_default()),
            }
        }
        self.check_whole()
    }

    /// Skips the lines above the header.
    fn head(&mut self, frames: &mut FrameReader<'_>, lines: u64) -> Result<(), UnfitFile> {
        for _ in 0..lines {
            let Some(Frame { line, .. }) = frames.line()? else {
                let problem = format!(
                    "it ends within the {lines} lines of records.skip_head: is it cut off?"
                );
                return Err(UnfitFile::whole(problem));
            };
            self.ignored(line, "above the header");
        }
        Ok(())
    }

    /// Reads the columns' names, or takes their number from the profile. Then finds the column of
    /// every value location.
    fn header(
        &mut self,
        frames: &mut FrameReader<'_>,
        cells: &mut Cells<'_>,
        header: CsvHeader,
    ) -> Result<(), UnfitFile> {
        if let CsvHeader::Columns(count) = header {
            self.columns.count = count;
            return self.columns.find(&self.spec.places, 0);
        }
        loop {
            let Some(frame) = frames.record(cells)? else {
                return Err(UnfitFile::whole("there is no header: the file is empty or cut off"));
            };
            let line = frame.line;
            if let Some(why) = self.ignored_because(&frame, Some(cells)) {
                self.ignored(line, why);
                continue;
            }
            let content = check_text(&frame, Some(cells), &self.columns).map_err(|fault| {
                UnfitFile::at(line, format!("the header can't be read: {}", reported(&fault)))
            })?;
            let name = |cell| cells.value(content, cell).map(|name| name.trim().to_owned());
            self.columns.names = (0..cells.len()).filter_map(name).collect();
            self.columns.count = cells.len();
            self.header = frame.bytes.to_vec();
            self.columns.find(&self.spec.places, line)?;
            self.ignored(line, "the header");
            return Ok(());
        }
    }

    /// Why a record is ignored before it is read as a row; `None` if it is not.
    fn ignored_because(
        &self,
        frame: &Frame<'_>,
        cells: Option<&Cells<'_>>,
    ) -> Option<&'static str> {
        if frame.broken.is_some() {
            return None;
        }
        match frame.bytes.first() {
            Some(first) if Some(*first) == self.spec.comment => Some("a comment"),
            Some(first) if !first.is_ascii_whitespace() && !begins_empty(cells) => None,
            _ if frame.bytes.iter().all(u8::is_ascii_whitespace) => Some("blank"),
            _ if cells.is_some_and(|cells| cells.content().is_empty()) => Some("blank"),
            _ => None,
        }
    }

    /// Reports a record that is not held back, as ignored, a tail row, or a row.
    fn record(
        &mut self,
        frame: &Frame<'_>,
        ignored_because: Option<&'static str>,
        cells: Option<&Cells<'_>>,
    ) -> Result<(), UnfitFile> {
        if let Some(why) = ignored_because {
            self.ignored(frame.line, why);
            return Ok(());
        }
        if let Some(rule) = self.spec.tail.as_ref().filter(|rule| !rule.when.is_empty()) {
            if self.tail.rows >= rule.lines {
                let problem = "there is a row after the tail: two files in one, or \
                    records.tail.lines is too small";
                return Err(UnfitFile::at(frame.line, problem));
            }
            let begins = || self.with_row(frame, cells, |row| all_hold(&rule.when, row));
            // A row that can't be read does not begin the tail. `row` reports it as bad.
            if self.tail.rows > 0 || begins().is_ok_and(|is_tail| is_tail == Ok(true)) {
                return self.tail_row(rule, frame, cells);
            }
        }
        self.row(frame, cells)
    }

    fn row(&mut self, frame: &Frame<'_>, cells: Option<&Cells<'_>>) -> Result<(), UnfitFile> {
        let (spec, line) = (self.spec, frame.line);
        self.totals.rows += 1;
        if !self.header.is_empty() && frame.bytes == self.header {
            let problem =
                "the header is here again: this is two files in one; give each file by itself";
            return Err(UnfitFile::at(line, problem));
        }
        let judged = self.with_row(frame, cells, |row| {
            if let Some(cells) = cells {
                self.columns.check(cells.len())?;
            }
            read_row(spec, row, line)
        });
        match judged.and_then(|said| said) {
            Ok(RowContent::Ignored(why)) => self.ignored(line, why),
            Ok(RowContent::Entry(entry, signed)) => {
                self.totals.add(entry.currency, signed);
                self.counts.entries += 1;
                (self.each)(ReadLine::Entry(entry));
            }
            Err(fault) if !frame.is_ended => {
                let problem = format!(
                    "the file is cut off: its last line has no end, and {}",
                    reported(&fault)
                );
                return Err(UnfitFile::at(line, problem));
            }
            Err(RowFault { column, problem }) => {
                self.totals.bad += 1;
                self.counts.bad += 1;
                (self.each)(ReadLine::Bad { line, column, problem });
            }
        }
        Ok(())
    }

    fn tail_row(
        &mut self,
        rule: &TailRule,
        frame: &Frame<'_>,
        cells: Option<&Cells<'_>>,
    ) -> Result<(), UnfitFile> {
        let mut tail = std::mem::take(&mut self.tail);
        let taken = self.with_row(frame, cells, |row| tail.take(rule, row, frame.line));
        self.tail = tail;
        taken.map_err(|fault| {
            UnfitFile::at(frame.line, format!("the tail can't be read: {}", reported(&fault)))
        })??;
        self.ignored(frame.line, "the tail");
        Ok(())
    }

    /// Calls `then` with a record as a row. Errors: the record can't be a row.
    fn with_row<T>(
        &self,
        frame: &Frame<'_>,
        cells: Option<&Cells<'_>>,
        then: impl FnOnce(&Row<'_>) -> T,
    ) -> Result<T, RowFault> {
        let text = check_text(frame, cells, &self.columns)?;
        if let Some(cells) = cells {
            return Ok(then(&Row::Cells { cells, content: text, columns: &self.columns }));
        }
        let document = parse_object(text.unwrap_or_default())?;
        Ok(then(&Row::Object { document: &document, places: &self.spec.places }))
    }

    /// Checks the whole file: its tail, and that it has entries.
    fn check_whole(&self) -> Result<(), UnfitFile> {
        if let Some(rule) = &self.spec.tail {
            self.tail.check(rule, &self.spec.money, &self.totals)?;
        }
        if self.counts.entries == 0 && self.counts.bad == 0 && !self.spec.may_be_empty {
            let problem = "it has no entries; if a day without payments looks like this, set \
                records.empty = true";
            return Err(UnfitFile::whole(problem));
        }
        Ok(())
    }

    fn ignored(&mut self, line: u64, why: &str) {
        self.counts.ignored += 1;
        (self.each)(ReadLine::Ignored { line, why: why.to_owned() });
    }
}

fn begins_empty(cells: Option<&Cells<'_>>) -> bool {
    cells.and_then(|cells| cells.iter().next()).is_some_and(<[u8]>::is_empty)
}

/// Splits a held-back record into `cells`, which has the cells of a later record by now.
fn split_held_record(cells: &mut Option<Cells<'_>>, frame: &Frame<'_>) {
    if let Some(cells) = cells {
        cells.cut(frame.bytes);
    }
}

/// A fault and its column as one text.
fn reported(fault: &RowFault) -> String {
    match &fault.column {
        Some(column) => format!("{column}: {}", fault.problem),
        None => fault.problem.clone(),
    }
}
