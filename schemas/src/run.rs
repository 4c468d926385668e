//! Owns two events that other teams read on the `findings` topic: `payfold.run.ended.v1`, the
//! result of comparing one day of one partner's records, and `payfold.period.closed.v1`. A run's id
//! is a digest of partner, day, records and the number of earlier comparisons of these records.
//! Changes within v1 are additive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::{Author, PartnerCode};
use crate::ipn::Status;
use crate::money::Currency;
use crate::time::Time;

/// The CloudEvents type.
pub const RUN_ENDED_TYPE: &str = "payfold.run.ended.v1";
/// The CloudEvents type of a closed day.
pub const PERIOD_CLOSED_TYPE: &str = "payfold.period.closed.v1";

/// Whether a run could compare everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunResult {
    /// Every line and every order of the day was compared.
    Complete,
    /// Something could not be read: the findings hold, and there may be more.
    Incomplete,
}

/// Number and sum of payments of one kind on one day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sum {
    /// The number of payments.
    pub count: u64,
    /// The sum, minor units.
    pub amount: i64,
}

/// A control total: Payfold's sum and the partner's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlTotal {
    /// The day in the partner's zone, `2026-01-31`.
    pub day: String,
    /// The currency's ISO 4217 code.
    pub currency: Currency,
    /// SUCCESS or REFUNDED.
    pub status: Status,
    /// Payfold's sum.
    pub ours: Sum,
    /// The sum of what the partner lists.
    pub partners: Sum,
}

impl ControlTotal {
    /// Payfold's sum minus the partner's, minor units.
    pub fn difference(&self) -> i64 {
        self.ours.amount.saturating_sub(self.partners.amount)
    }
}

/// A line of the records that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BadLine {
    /// Its number, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub problem: String,
}

/// The records that were compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordsFile {
    /// The file's name.
    pub name: String,
    /// SHA-256 of its bytes.
    pub sha256: Digest,
    /// The number of lines.
    pub lines: u64,
    /// The number of lines about a payment, a refund or a payment's end.
    pub entries: u64,
    /// The number of lines that the profile leaves out.
    pub ignored: u64,
    /// The number of lines that could not be read.
    pub bad: u64,
    /// The first lines that could not be read.
    pub bad_lines: Vec<BadLine>,
}

/// The numbers of compared payments, by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Compared {
    /// Payfold's orders that were compared.
    pub orders: u64,
    /// Lines that agree with an order.
    pub matched: u64,
    /// Payments that are too recent to be missing.
    pub pending: u64,
    /// Payments of a neighbouring day that this day's records list.
    pub cut_off: u64,
}

/// The number of findings after a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FindingCounts {
    /// Findings that are new or came back.
    pub opened: u64,
    /// Undecided findings of this day, without those of severity `info`.
    pub open: u64,
    /// Findings of this day that a person has decided.
    pub decided: u64,
    /// Findings that lost their cause.
    pub cleared: u64,
    /// Undecided findings of other days that this run opened, without those of severity `info`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub open_of_other_days: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Who asked for a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunAsked {
    /// The person.
    pub by: Author,
    /// When the person asked. The run may have been begun before, by a process that died.
    pub at: Time,
}

/// The data of `payfold.run.ended.v1`. Amounts are minor units; times RFC 3339.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunEnded {
    /// 16 hex digits.
    pub run: String,
    /// The partner that the records are from.
    pub partner: PartnerCode,
    /// The day in the partner's zone, `2026-01-31`.
    pub day: String,
    /// The day's first instant.
    pub from: Time,
    /// The first instant after the day.
    pub until: Time,
    /// The partner's zone, by its IANA name.
    pub zone: String,
    /// When the run began; orders are compared in their state at that time.
    pub started_at: Time,
    /// Whether everything could be compared.
    pub result: RunResult,
    /// Why it is incomplete.
    pub problems: Vec<String>,
    /// The compared records.
    pub records: RecordsFile,
    /// The numbers of compared payments.
    pub compared: Compared,
    /// The numbers of findings.
    pub findings: FindingCounts,
    /// The control totals.
    pub totals: Vec<ControlTotal>,
    /// Only runs of earlier versions have it: payments of the following day that these records
    /// list. `listedApart` replaces it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listed_early: Vec<String>,
    /// Payments and refunds of other days that these records list, sorted. Each is named by the id
    /// that the finding "it is missing" has or would have. Left out if they are more than 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed_apart: Option<Vec<String>>,
    /// Payments and refunds of this day that these records don't list, likewise. Left out of an
    /// incomplete run, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlisted: Option<Vec<String>>,
    /// Who asked for the run, if a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<RunAsked>,
    /// The seal of the closed day, if this run changes that day's totals or findings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adjusts: Option<Digest>,
}

impl RunEnded {
    /// The event's id.
    pub fn event_id(&self) -> String {
        format!("run/{}", self.run)
    }

    /// Whether these records would replace the day's: a day has one file, and this one has another
    /// name and content than that of a complete run.
    pub fn is_replaced_by(&self, records: &RecordsFile) -> bool {
        let known = &self.records;
        self.result == RunResult::Complete
            && known.name != records.name
            && known.sha256 != records.sha256
    }
}

/// The data of `payfold.period.closed.v1`: a day is closed. A later change of it is an adjustment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeriodClosed {
    /// The partner that the records are from.
    pub partner: PartnerCode,
    /// The closed day.
    pub day: String,
    /// The run that computed the sealed totals.
    pub run: String,
    /// Who closed it.
    pub author: Author,
    /// When the day was closed.
    pub at: Time,
    /// The day's control totals.
    pub totals: Vec<ControlTotal>,
    /// The day's findings, id and version each, sorted.
    pub findings: Vec<String>,
    /// A digest of partner, day, run, totals and findings.
    pub seal: Digest,
}

impl PeriodClosed {
    /// The event's id.
    pub fn event_id(&self) -> String {
        format!("closed/{}/{}", self.partner, self.day)
    }
}
