//! Owns the reading of a partner's records into sorted lines. Invariant: each line ends up as an entry, left out for the
//! profile's reason, or bad with its number; a file that can't be trusted as a whole says why.

use std::fs::File;
use std::io;
use std::path::Path;

use payfold_partners::records::{Entry, FileFacts, Read, RecordsSpec};
use payfold_schemas::digest::Digest;
use payfold_schemas::finding::BookLine;
use payfold_schemas::ids::MerchantCode;
use payfold_schemas::run::{BadLine, RecordsFile};
use sha2::{Digest as _, Sha256};

use super::judge::{By, key_of_line};
use super::spool::{LANES, Sorted, Spool};
use super::survey::{QUERIES, Surveyed};

/// So many bad lines are told one by one.
const BAD_TOLD: usize = 100;

/// What a file came to.
pub(crate) struct Lines {
    pub(crate) sorted: [Sorted<BookLine>; LANES],
    pub(crate) file: RecordsFile,
    /// Why nothing may be concluded from what is not in it.
    pub(crate) problems: Vec<String>,
    /// Whether the file is what the profile says; if not, nothing that is in it is looked at either.
    pub(crate) trusted: bool,
}

/// Why a file can't be read at all.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinesError {
    #[error("can't read {name}: {error}")]
    Unreadable { name: String, error: io::Error },
    #[error("can't sort what {name} says: {error}; the disk of the data folder may be full")]
    Spool { name: String, error: io::Error },
}

/// Reads a file through. Blocks.
pub(crate) fn read(
    spec: &RecordsSpec,
    (path, name): (&Path, &str),
    accounts: &[MerchantCode],
    (by, folder): (By, &Path),
) -> Result<Lines, LinesError> {
    let source = File::open(path)
        .map_err(|error| LinesError::Unreadable { name: name.to_owned(), error })?;
    let spool_failed = |error| LinesError::Spool { name: name.to_owned(), error };
    let mut reading = Reading {
        spool: Spool::in_folder(folder).map_err(spool_failed)?,
        by,
        accounts,
        bad: Vec::new(),
        bad_more: 0,
        failed: None,
    };
    let read = spec.read(source, &mut |read| reading.take(read));
    if let Some(error) = reading.failed {
        return Err(spool_failed(error));
    }
    let (mut problems, mut trusted) = (Vec::new(), true);
    let facts = match read {
        Ok(facts) => facts,
        Err(unfit) => {
            trusted = false;
            problems.push(format!("{name} {unfit}"));
            untrusted(path)
                .map_err(|error| LinesError::Unreadable { name: name.to_owned(), error })?
        }
    };
    let bad = u64::try_from(reading.bad.len()).unwrap_or(u64::MAX) + reading.bad_more;
    if bad > 0 {
        problems.push(format!("{name}: {bad} lines can't be read"));
    }
    let sorted = reading.spool.sorted().map_err(spool_failed)?;
    let file = RecordsFile {
        name: name.to_owned(),
        sha256: facts.sha256,
        lines: facts.lines,
        entries: facts.entries.saturating_sub(bad.saturating_sub(facts.bad)),
        ignored: facts.ignored,
        bad,
        bad_lines: reading.bad,
    };
    Ok(Lines { sorted, file, problems, trusted })
}

/// Answers to queries, as a file of them would be.
pub(crate) fn of_answers(surveyed: Surveyed, folder: &Path) -> io::Result<Lines> {
    let Surveyed { lines, questions, silent, problems, .. } = surveyed;
    let mut spool = Spool::in_folder(folder)?;
    let mut hasher = Sha256::new();
    for line in &lines {
        hasher.update(serde_json::to_vec(line)?);
        let key = key_of_line(By::Order, line).expect("an answer is about an order");
        spool.push(&key, line)?;
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
    Ok(Lines { sorted: spool.sorted()?, file, problems, trusted: true })
}

/// What can be said of a file that is no records file.
fn untrusted(path: &Path) -> io::Result<FileFacts> {
    let (sha256, bytes) = Digest::of_reader(&mut File::open(path)?)?;
    Ok(FileFacts { lines: 0, entries: 0, ignored: 0, bad: 0, sha256, bytes })
}

struct Reading<'a> {
    spool: Spool<BookLine>,
    by: By,
    accounts: &'a [MerchantCode],
    bad: Vec<BadLine>,
    bad_more: u64,
    failed: Option<io::Error>,
}

impl Reading<'_> {
    fn take(&mut self, read: Read) {
        match read {
            Read::Entry(entry) => self.entry(entry),
            Read::Ignored { .. } => {}
            Read::Bad { line, column, problem } => {
                let place = column.map_or_else(String::new, |column| format!("{column}: "));
                self.bad(line, format!("{place}{problem}"));
            }
        }
    }

    fn entry(&mut self, entry: Entry) {
        let number = entry.line;
        let line = match book_line(entry, self.accounts) {
            Ok(line) => line,
            Err(problem) => return self.bad(number, problem),
        };
        let Some(key) = key_of_line(self.by, &line) else {
            let missing = match self.by {
                By::Order => "names no order",
                By::Ref => "names no transaction",
            };
            return self.bad(number, missing.to_owned());
        };
        if self.failed.is_none() {
            self.failed = self.spool.push(&key, &line).err();
        }
    }

    fn bad(&mut self, line: u64, problem: String) {
        if self.bad.len() < BAD_TOLD {
            self.bad.push(BadLine { line, problem });
        } else {
            self.bad_more += 1;
        }
    }
}

fn book_line(entry: Entry, accounts: &[MerchantCode]) -> Result<BookLine, String> {
    let merchant_code = match (entry.merchant_code, accounts) {
        (Some(code), known) if known.contains(&code) => code,
        (Some(code), _) => {
            return Err(format!(
                "{code} is none of our accounts at this partner; add it with `payfold account set`, or leave its \
                 lines out in the profile"
            ));
        }
        (None, [only]) => only.clone(),
        (None, _) => {
            return Err(format!(
                "it names no account and this partner has {}; map `merchant` in the profile's [records]",
                accounts.len()
            ));
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
