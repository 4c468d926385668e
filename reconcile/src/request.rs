//! Owns the requests for a run: which partner's records of which day, and where they come from.

use std::path::PathBuf;

use chrono::NaiveDate;
use payfold_schemas::digest::Digest;
use payfold_schemas::finding::BookLine;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::run::RunAsked;

/// The name of a survey's records in findings and runs.
pub const QUERIES: &str = "query";

/// A request to compare a partner's records of one day.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The partner.
    pub partner: PartnerCode,
    /// The day in the partner's zone; `None` is yesterday.
    pub day: Option<NaiveDate>,
    /// Where the records come from.
    pub source: RecordsSource,
    /// The name of the file, as the caller gave it.
    pub name: String,
    /// Which records with another name, that the day was compared with, these may replace.
    pub replace: Replaceable,
    /// Who asks for it, if a person does.
    pub asked: Option<RunAsked>,
}

/// Which records of a day others may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaceable {
    /// None that have another name.
    No,
    /// Whatever the day was compared with.
    Any,
    /// Only those with this SHA-256: the person who asks has seen their name.
    Only(Digest),
}

impl From<bool> for Replaceable {
    fn from(any: bool) -> Self {
        if any { Self::Any } else { Self::No }
    }
}

/// A file of records, and its name in findings: a path may be one of this machine.
#[derive(Clone, Debug)]
pub struct NamedFile {
    /// Where it is.
    pub path: PathBuf,
    /// The name that its sender gave it.
    pub name: String,
}

/// Where records come from.
#[derive(Clone, Debug)]
pub enum RecordsSource {
    /// A file that the partner gave out.
    File(PathBuf),
    /// The partner's answers to queries.
    Answers(SurveyResult),
}

impl RunRequest {
    /// The name of a file in findings: the last part of its path.
    pub fn name_of(path: &std::path::Path) -> String {
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
    }
}

/// A request to query a partner for the payments of one day.
#[derive(Clone, Debug)]
pub struct SurveyRequest {
    /// The partner.
    pub partner: PartnerCode,
    /// The day in the partner's zone; `None` is yesterday.
    pub day: Option<NaiveDate>,
    /// Which file that the day was compared with the answers may replace.
    pub replace: Replaceable,
    /// Who asks for it, if a person does.
    pub asked: Option<RunAsked>,
}

/// The result of a survey.
#[derive(Clone, Debug)]
pub struct SurveyResult {
    /// The answers, as the lines of a file would be.
    pub(crate) lines: Vec<BookLine>,
    /// The number of payments to query.
    pub(crate) questions: u64,
    /// How many answers give no end of the payment, plus payments that can't be queried for want of
    /// a ref.
    pub(crate) silent: u64,
    /// Why some payments were not answered; empty if all were.
    pub(crate) problems: Vec<String>,
    /// The file of answers, which is kept until a run of the day is complete.
    pub(crate) path: PathBuf,
}
