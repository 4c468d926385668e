//! Owns `payfold.run.ended.v1`: what comparing one day of one partner's records came to, as other teams read it on the
//! `findings` topic. A run is named by a digest of partner, day, records and how often these were compared before.
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

/// Whether a run could look at everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunResult {
    /// Every line and every order of the day was compared.
    Complete,
    /// Something could not be read: what was found holds, what was not found may be there.
    Incomplete,
}

/// How often and how much, of one kind of money on one day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sum {
    /// How many.
    pub count: u64,
    /// Minor units in all.
    pub amount: i64,
}

/// A control total: ours beside theirs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlTotal {
    /// The day in the partner's zone, `2026-01-31`.
    pub day: String,
    /// ISO 4217.
    pub currency: Currency,
    /// SUCCESS or REFUNDED.
    pub status: Status,
    /// What is known here.
    pub ours: Sum,
    /// What the partner lists.
    pub partners: Sum,
}

impl ControlTotal {
    /// Ours less theirs, minor units.
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
    /// What it was called.
    pub name: String,
    /// SHA-256 of its bytes.
    pub sha256: Digest,
    /// How many lines it has.
    pub lines: u64,
    /// How many of them speak of money or an end.
    pub entries: u64,
    /// How many the profile says to leave out.
    pub ignored: u64,
    /// How many could not be read.
    pub bad: u64,
    /// The first of those.
    pub bad_lines: Vec<BadLine>,
}

/// How the compared payments fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Compared {
    /// Orders that were looked at here.
    pub orders: u64,
    /// Lines that agree with an order.
    pub matched: u64,
    /// Payments too young to be missed.
    pub pending: u64,
    /// Payments that the neighbouring day's records list.
    pub cut_off: u64,
}

/// How many findings a run left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FindingCounts {
    /// That were not there before, or came back.
    pub opened: u64,
    /// Of this day, that nobody has decided, without those that are only worth knowing.
    pub open: u64,
    /// Of this day, that a person has decided.
    pub decided: u64,
    /// Whose cause has gone.
    pub cleared: u64,
}

/// The data of `payfold.run.ended.v1`. Amounts are minor units; times RFC 3339.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunEnded {
    /// 16 hex digits.
    pub run: String,
    /// Whose records.
    pub partner: PartnerCode,
    /// The day in the partner's zone, `2026-01-31`.
    pub day: String,
    /// Its first instant.
    pub from: Time,
    /// The instant after its last.
    pub until: Time,
    /// The partner's zone, by its IANA name.
    pub zone: String,
    /// When it began; orders are judged as of then.
    pub started_at: Time,
    /// Whether everything could be looked at.
    pub result: RunResult,
    /// Why it is incomplete.
    pub problems: Vec<String>,
    /// The records.
    pub records: RecordsFile,
    /// How the payments fared.
    pub compared: Compared,
    /// What it found.
    pub findings: FindingCounts,
    /// Ours against theirs.
    pub totals: Vec<ControlTotal>,
    /// The findings that the next day's run would make of what these records list before their day: it makes none.
    /// Ids, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listed_early: Vec<String>,
    /// Whose closed totals or findings these change, if the day was closed: the digest of its seal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adjusts: Option<Digest>,
}

impl RunEnded {
    /// The event's id.
    pub fn event_id(&self) -> String {
        format!("run/{}", self.run)
    }
}

/// The data of `payfold.period.closed.v1`: a day that is done with. What changes it later is an adjustment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeriodClosed {
    /// Whose records.
    pub partner: PartnerCode,
    /// The day.
    pub day: String,
    /// The run whose totals are sealed.
    pub run: String,
    /// Who closed it.
    pub author: Author,
    /// When.
    pub at: Time,
    /// The totals.
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
