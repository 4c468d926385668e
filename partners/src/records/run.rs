//! Owns the way through one file: what is above the header, the header, the rows, the tail; and what must hold of the
//! whole. Every record is told once, in the order of the file.

mod columns;
mod held;
mod sound;

use std::io;

use self::held::Holding;
use self::sound::{begin, object, sound};
use super::cells::{Cell, Dialect};
use super::entry::{Said, said};
use super::frame::{Frame, Frames};
use super::plan::hold;
use super::row::{Columns, Row};
use super::source::{Counted, Source};
use super::spec::{Header, RecordsSpec, Shape};
use super::tail::{Tail, TailRule, Totals};
use super::{Fault, FileFacts, Read, Unfit};

/// Reads a whole file.
pub(super) fn read(
    spec: &RecordsSpec,
    source: &mut dyn io::Read,
    each: &mut dyn FnMut(Read),
) -> Result<FileFacts, Unfit> {
    let mut stored = Counted::new(source);
    let mut frames = Frames::new(Source::open(&mut stored)?);
    begin(&mut frames)?;
    let mut run = Run {
        spec,
        each,
        columns: Columns::default(),
        header: Vec::new(),
        totals: Totals::default(),
        tail: Tail::default(),
        counts: Counts::default(),
    };
    run.file(&mut frames)?;
    let Counts { entries, ignored, bad } = run.counts;
    let lines = frames.lines();
    drop(frames);
    let (sha256, bytes) = stored.finish()?;
    Ok(FileFacts { lines, entries, ignored, bad, sha256, bytes })
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    entries: u64,
    ignored: u64,
    bad: u64,
}

struct Run<'r> {
    spec: &'r RecordsSpec,
    each: &'r mut dyn FnMut(Read),
    columns: Columns,
    /// The header's bytes: a row like it is the beginning of another file.
    header: Vec<u8>,
    totals: Totals,
    tail: Tail,
    counts: Counts,
}

impl<'r> Run<'r> {
    fn file(&mut self, frames: &mut Frames<'_>) -> Result<(), Unfit> {
        let spec = self.spec;
        let csv = match &spec.shape {
            Shape::Csv { dialect, header, skip_head } => {
                self.head(frames, *skip_head)?;
                self.header(frames, dialect, *header)?;
                Some(dialect)
            }
            Shape::Jsonl => None,
        };
        let mut cells = Vec::new();
        let mut holding = Holding::of(spec.tail.as_ref());
        loop {
            let frame = match csv {
                Some(dialect) => frames.record(dialect, &mut cells)?,
                None => frames.line()?,
            };
            let Some(frame) = frame else { break };
            let quiet = self.quiet(&frame, &cells);
            let Some(holding) = &mut holding else {
                self.record(&frame, quiet, &cells)?;
                continue;
            };
            holding.push(&frame, quiet);
            while let Some(held) = holding.surplus() {
                let frame = held.frame();
                split(csv, &frame, &mut cells);
                self.record(&frame, held.quiet, &cells)?;
                holding.take_back(held);
            }
        }
        for held in holding.into_iter().flat_map(Holding::rest) {
            let frame = held.frame();
            split(csv, &frame, &mut cells);
            match (held.quiet, &spec.tail) {
                (None, Some(rule)) => self.tail_row(rule, &frame, &cells)?,
                (why, _) => self.ignored(held.line, why.unwrap_or_default()),
            }
        }
        self.whole()
    }

    /// What stands above the header.
    fn head(&mut self, frames: &mut Frames<'_>, lines: u64) -> Result<(), Unfit> {
        for _ in 0..lines {
            let Some(Frame { line, .. }) = frames.line()? else {
                let problem = format!(
                    "it ends within the {lines} lines of records.skip_head: is it cut off?"
                );
                return Err(Unfit::whole(problem));
            };
            self.ignored(line, "above the header");
        }
        Ok(())
    }

    /// Reads the names of the columns, or takes their number, and finds the column of every place.
    fn header(
        &mut self,
        frames: &mut Frames<'_>,
        dialect: &Dialect,
        header: Header,
    ) -> Result<(), Unfit> {
        if let Header::Columns(count) = header {
            self.columns.count = count;
            return self.columns.find(&self.spec.places, 0);
        }
        let mut cells = Vec::new();
        loop {
            let Some(frame) = frames.record(dialect, &mut cells)? else {
                return Err(Unfit::whole("there is no header: the file is empty or cut off"));
            };
            let line = frame.line;
            if let Some(why) = self.quiet(&frame, &cells) {
                self.ignored(line, why);
                continue;
            }
            let record =
                sound(&frame, Some((dialect, &cells)), &self.columns).map_err(|fault| {
                    Unfit::at(line, format!("the header can't be read: {}", told(&fault)))
                })?;
            let name = |cell: &Cell| dialect.text(record, *cell).trim().to_owned();
            self.columns.names = cells.iter().map(name).collect();
            self.columns.count = cells.len();
            self.header = frame.bytes.to_vec();
            self.columns.find(&self.spec.places, line)?;
            self.ignored(line, "the header");
            return Ok(());
        }
    }

    /// Why a record says nothing, if it does.
    fn quiet(&self, frame: &Frame<'_>, cells: &[Cell]) -> Option<&'static str> {
        if frame.broken.is_some() {
            return None;
        }
        match frame.bytes.first() {
            Some(first) if Some(*first) == self.spec.comment => Some("a comment"),
            Some(first) if !first.is_ascii_whitespace() && !is_empty_at_first(cells) => None,
            _ if frame.bytes.iter().all(u8::is_ascii_whitespace) => Some("blank"),
            _ if !cells.is_empty() && cells.iter().all(|cell| cell.is_empty()) => Some("blank"),
            _ => None,
        }
    }

    /// One record, not of those that are held back.
    fn record(
        &mut self,
        frame: &Frame<'_>,
        quiet: Option<&'static str>,
        cells: &[Cell],
    ) -> Result<(), Unfit> {
        if let Some(why) = quiet {
            self.ignored(frame.line, why);
            return Ok(());
        }
        if let Some(rule) = self.spec.tail.as_ref().filter(|rule| !rule.when.is_empty()) {
            if self.tail.rows >= rule.lines {
                let problem = "it stands behind the tail: two files in one, or records.tail.lines is too small";
                return Err(Unfit::at(frame.line, problem));
            }
            let begins = || self.with_row(frame, cells, |row| hold(&rule.when, row));
            // A row that can't be read is no tail; below it is told as what it is.
            if self.tail.rows > 0 || begins().is_ok_and(|is_tail| is_tail == Ok(true)) {
                return self.tail_row(rule, frame, cells);
            }
        }
        self.row(frame, cells)
    }

    fn row(&mut self, frame: &Frame<'_>, cells: &[Cell]) -> Result<(), Unfit> {
        let (spec, line) = (self.spec, frame.line);
        self.totals.rows += 1;
        if !self.header.is_empty() && frame.bytes == self.header {
            let problem = "the header stands here again: two files in one; give each by itself";
            return Err(Unfit::at(line, problem));
        }
        let is_csv = matches!(spec.shape, Shape::Csv { .. });
        let judged = self.with_row(frame, cells, |row| {
            if is_csv {
                self.columns.check(cells.len())?
            }
            said(spec, row, line)
        });
        match judged.and_then(|said| said) {
            Ok(Said::Ignored(why)) => self.ignored(line, why),
            Ok(Said::Entry(entry, signed)) => {
                self.totals.add(entry.currency, signed);
                self.counts.entries += 1;
                (self.each)(Read::Entry(entry));
            }
            Err(fault) if !frame.is_ended => {
                let problem =
                    format!("the file is cut off: its last line has no end, and {}", told(&fault));
                return Err(Unfit::at(line, problem));
            }
            Err(Fault { column, problem }) => {
                self.totals.bad += 1;
                self.counts.bad += 1;
                (self.each)(Read::Bad { line, column, problem });
            }
        }
        Ok(())
    }

    fn tail_row(
        &mut self,
        rule: &TailRule,
        frame: &Frame<'_>,
        cells: &[Cell],
    ) -> Result<(), Unfit> {
        let mut tail = std::mem::take(&mut self.tail);
        let taken = self.with_row(frame, cells, |row| tail.take(rule, row, frame.line));
        self.tail = tail;
        taken.map_err(|fault| {
            Unfit::at(frame.line, format!("the tail can't be read: {}", told(&fault)))
        })??;
        self.ignored(frame.line, "the tail");
        Ok(())
    }

    /// Does something with a record as a row. Errors: it is none.
    fn with_row<T>(
        &self,
        frame: &Frame<'_>,
        cells: &[Cell],
        then: impl FnOnce(&Row<'_>) -> T,
    ) -> Result<T, Fault> {
        match &self.spec.shape {
            Shape::Csv { dialect, .. } => {
                let record = sound(frame, Some((dialect, cells)), &self.columns)?;
                Ok(then(&Row::Cells { record, cells, columns: &self.columns, dialect }))
            }
            Shape::Jsonl => {
                let record = sound(frame, None, &self.columns)?;
                let document = object(record.text.unwrap_or_default())?;
                Ok(then(&Row::Object { document: &document, places: &self.spec.places }))
            }
        }
    }

    /// What must hold of the whole.
    fn whole(&self) -> Result<(), Unfit> {
        if let Some(rule) = &self.spec.tail {
            self.tail.check(rule, &self.spec.money, &self.totals)?;
        }
        if self.counts.entries == 0 && self.counts.bad == 0 && !self.spec.may_be_empty {
            let problem = "it has no entries; if that is how a day without payments looks, write empty = true";
            return Err(Unfit::whole(problem));
        }
        Ok(())
    }

    fn ignored(&mut self, line: u64, why: &str) {
        self.counts.ignored += 1;
        (self.each)(Read::Ignored { line, why: why.to_owned() });
    }
}

fn is_empty_at_first(cells: &[Cell]) -> bool {
    cells.first().is_some_and(|cell| cell.is_empty())
}

/// Cuts a record again that was held back.
fn split(csv: Option<&Dialect>, frame: &Frame<'_>, cells: &mut Vec<Cell>) {
    if let Some(dialect) = csv {
        dialect.split(frame.bytes, cells);
    }
}

/// A fault in one text.
fn told(fault: &Fault) -> String {
    match &fault.column {
        Some(column) => format!("{column}: {}", fault.problem),
        None => fault.problem.clone(),
    }
}
