//! Owns the reading of a partner's records into lines, which a run gets sorted. Invariant: each
//! line of a file becomes an entry, is left out for a reason in the profile, or is bad and reported
//! with its number. A file that can't be trusted as a whole is reported with the reason.

use std::fs::File;
use std::io;
use std::path::Path;

use payfold_partners::records::{FileSummary, PartnerEntry, ReadLine, RecordsSpec};
use payfold_schemas::digest::Digest;
use payfold_schemas::finding::BookLine;
use payfold_schemas::ids::MerchantCode;
use payfold_schemas::run::{BadLine, RecordsFile};
use sha2::{Digest as _, Sha256};

use super::comparer::{MatchKey, key_of_line};
use super::external_sort::{ExternalSort, LANES, SortedLane};
use super::request::{NamedFile, QUERIES, SurveyResult};

/// Bad lines that are reported one by one; more are only counted.
const BAD_LINES_MAX: usize = 100;

/// A line of a file.
pub(crate) enum FileLine {
    /// An entry, and the key of its group.
    Entry(Vec<u8>, BookLine),
    /// A line that is no entry, and why.
    LeftOut(String),
    /// A line that can't be read: the file has its number and why.
    Bad,
}

/// What a file is after it was read to its end.
pub(crate) struct ReadFile {
    pub(crate) file: RecordsFile,
    /// Why the file may lack entries. Then a missing line proves nothing. Empty if the file is
    /// complete.
    pub(crate) problems: Vec<String>,
    /// Whether the file has the format that the profile describes. If not, no line is compared.
    pub(crate) trusted: bool,
}

/// The sorted lines of a file, and what the file is.
pub(crate) struct RecordLines {
    pub(crate) sorted: [SortedLane<BookLine>; LANES],
    pub(crate) read: ReadFile,
}

/// Why a file can't be read at all.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordLinesError {
    #[error(
        "can't read the records file {name}: {error}; check that it exists and that payfold may \
         read it"
    )]
    Unreadable { name: String, error: io::Error },
    #[error(
        "can't sort the lines of {name}: {error}; free disk space in the data folder and run it \
         again"
    )]
    Sort { name: String, error: io::Error },
}

/// Reads and sorts a file. Blocks the thread. Errors: the file can't be read; the disk of the sort.
pub(crate) fn sort_file(
    spec: &RecordsSpec,
    file: &NamedFile,
    accounts: &[MerchantCode],
    folder: &Path,
) -> Result<RecordLines, RecordLinesError> {
    let sort_failed = |error| RecordLinesError::Sort { name: file.name.clone(), error };
    let mut sorter = ExternalSort::in_folder(folder).map_err(sort_failed)?;
    let mut pushed = Ok(());
    let read = read_file(spec, file, accounts, &mut |line| {
        if let (FileLine::Entry(key, line), Ok(())) = (line, &pushed) {
            pushed = sorter.push(&key, &line);
        }
    });
    pushed.map_err(sort_failed)?;
    Ok(RecordLines { read: read?, sorted: sorter.sorted().map_err(sort_failed)? })
}

/// Reads a file; `take` gets its lines, in their order. Blocks the thread. Errors:
/// the file can't be read.
pub(crate) fn read_file(
    spec: &RecordsSpec,
    file: &NamedFile,
    accounts: &[MerchantCode],
    take: &mut dyn FnMut(FileLine),
) -> Result<ReadFile, RecordLinesError> {
    let NamedFile { path, name } = file;
    let unreadable = |error| RecordLinesError::Unreadable { name: name.clone(), error };
    let source = File::open(path).map_err(unreadable)?;
    let by = spec.match_by().into();
    let mut collector = LineCollector { take, by, accounts, bad: Vec::new(), bad_more: 0 };
    let read = spec.read(source, &mut |read| collector.take(read));
    let (mut problems, mut trusted) = (Vec::new(), true);
    let facts = match read {
        Ok(facts) => facts,
        Err(unfit) => {
            trusted = false;
            problems.push(format!("{name} {unfit}"));
            facts_of_unfit_file(path).map_err(unreadable)?
        }
    };
    let bad = u64::try_from(collector.bad.len()).unwrap_or(u64::MAX) + collector.bad_more;
    if bad > 0 {
        let lines = if bad == 1 { "line" } else { "lines" };
        problems.push(format!("{bad} {lines} of {name} can't be parsed"));
    }
    let file = RecordsFile {
        name: name.clone(),
        sha256: facts.sha256,
        lines: facts.lines,
        entries: facts.entries.saturating_sub(bad.saturating_sub(facts.bad)),
        ignored: facts.ignored,
        bad,
        bad_lines: collector.bad,
    };
    Ok(ReadFile { file, problems, trusted })
}

/// Sorts the answers of a survey like the lines of a file. Errors: the disk.
pub(crate) fn lines_of_answers(surveyed: SurveyResult, folder: &Path) -> io::Result<RecordLines> {
    let SurveyResult { lines, questions, silent, problems, .. } = surveyed;
    let mut sorter = ExternalSort::in_folder(folder)?;
    let mut hasher = Sha256::new();
    for line in &lines {
        hasher.update(serde_json::to_vec(line)?);
        let key = key_of_line(MatchKey::Order, line).expect("an answer names its order");
        sorter.push(&key, line)?;
    }
    let file = RecordsFile {
        name: QUERIES.to_owned(),
        sha256: Digest::from_bytes(hasher.finalize().into()),
        lines: questions,
        entries: u64::try_from(lines.len()).unwrap_or(u64::MAX),
        ignored: silent,
        bad: 0,
        bad_lines: Vec::new(),
    };
    let read = ReadFile { file, problems, trusted: true };
    Ok(RecordLines { sorted: sorter.sorted()?, read })
}

/// Size and digest of a file that does not fit the profile.
fn facts_of_unfit_file(path: &Path) -> io::Result<FileSummary> {
    let (sha256, bytes) = Digest::of_reader(&mut File::open(path)?)?;
    Ok(FileSummary { lines: 0, entries: 0, ignored: 0, bad: 0, sha256, bytes })
}

/// Takes what a file is parsed into.
struct LineCollector<'a> {
    take: &'a mut dyn FnMut(FileLine),
    by: MatchKey,
    accounts: &'a [MerchantCode],
    bad: Vec<BadLine>,
    bad_more: u64,
}

impl LineCollector<'_> {
    fn take(&mut self, read: ReadLine) {
        match read {
            ReadLine::Entry(entry) => self.entry(entry),
            ReadLine::Ignored { why, .. } => (self.take)(FileLine::LeftOut(why)),
            ReadLine::Bad { line, column, problem } => {
                let place = column.map_or_else(String::new, |column| format!("{column}: "));
                self.bad(line, format!("{place}{problem}"));
            }
        }
    }

    fn entry(&mut self, entry: PartnerEntry) {
        let number = entry.line;
        let line = match book_line(entry, self.accounts) {
            Ok(line) => line,
            Err(ForeignLine(problem)) => return self.bad(number, problem),
        };
        let Some(key) = key_of_line(self.by, &line) else {
            let missing = match self.by {
                MatchKey::Order => "names no order",
                MatchKey::Ref => "names no transaction",
            };
            return self.bad(number, missing.to_owned());
        };
        (self.take)(FileLine::Entry(key, line));
    }

    fn bad(&mut self, line: u64, problem: String) {
        (self.take)(FileLine::Bad);
        if self.bad.len() < BAD_LINES_MAX {
            self.bad.push(BadLine { line, problem });
        } else {
            self.bad_more += 1;
        }
    }
}

/// Why a line belongs to no known account, and what to do.
struct ForeignLine(String);

fn book_line(entry: PartnerEntry, accounts: &[MerchantCode]) -> Result<BookLine, ForeignLine> {
    let merchant_code = match (entry.merchant_code, accounts) {
        (Some(code), known) if known.contains(&code) => code,
        (Some(code), _) => {
            return Err(ForeignLine(format!(
                "{code} is no known account at this partner: add it with `payfold account set`, \
                 or leave its lines out in the profile"
            )));
        }
        (None, [only]) => only.clone(),
        (None, _) => {
            return Err(ForeignLine(format!(
                "the line names no account and this partner has {}: map `merchant` in the \
                 profile's [records]",
                accounts.len()
            )));
        }
    };
    Ok(BookLine {
        line: entry.line,
        merchant_code,
        order_id: entry.order_id,
        provider_ref: entry.provider_ref,
        status: entry.status,
        amount: entry.amount,
        currency: entry.currency,
        at: entry.at,
        paid_at: entry.paid_at,
        event_ref: entry.event_ref,
    })
}
