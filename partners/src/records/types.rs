//! Owns the results of reading a partner's file: entries, faults of a row or of the file, and the
//! file's counts and digest.

use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{EventRef, MerchantCode, OrderId, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use serde::Serialize;

/// The longest record, in bytes without its line end. A longer one is reported as bad.
pub const RECORD_BYTES_MAX: usize = 65_536;

/// A row of a partner's file that reports a payment, a refund or a terminal status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartnerEntry {
    /// The physical line it begins on, from 1.
    pub line: u64,
    /// Our account at the partner, if the file has it.
    pub merchant_code: Option<MerchantCode>,
    /// Our order; always present under `MatchBy::Order`.
    pub order_id: Option<OrderId>,
    /// The partner's transaction; always present under `MatchBy::Ref`.
    pub provider_ref: Option<ProviderRef>,
    /// The payment's status.
    pub status: Status,
    /// The amount in minor units; positive, even if the file writes refunds with a minus.
    pub amount: Amount,
    /// The currency, ISO 4217.
    pub currency: Currency,
    /// When the partner booked it, which decides its day. Noon if the file has only dates.
    pub at: Time,
    /// When it was paid, if the file has a separate time for that.
    pub paid_at: Option<Time>,
    /// The partner's id of this booking, if the file has one. It distinguishes two refunds of one
    /// payment.
    pub event_ref: Option<EventRef>,
}

/// The result of one record of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "lowercase")]
pub enum ReadLine {
    /// An entry.
    Entry(PartnerEntry),
    /// A record that is not an entry, such as the header, or that the profile ignores.
    Ignored {
        /// The physical line it begins on, from 1.
        line: u64,
        /// The reason: the header, a blank line, a comment, or a rule of the profile.
        why: String,
    },
    /// A record that can't be read by the rules of the profile.
    Bad {
        /// The physical line it begins on, from 1.
        line: u64,
        /// The column's name or number, or the path in the object, if one value is at fault.
        column: Option<String>,
        /// What is wrong.
        problem: String,
    },
}

/// The counts and the digest of a file that was read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSummary {
    /// The number of physical lines; a quoted cell may span several.
    pub lines: u64,
    /// The number of entries.
    pub entries: u64,
    /// The number of ignored records, header and tail included.
    pub ignored: u64,
    /// The number of bad records.
    pub bad: u64,
    /// The SHA-256 of the bytes as stored, before unpacking.
    pub sha256: Digest,
    /// The number of stored bytes.
    pub bytes: u64,
}

/// Why no row of a file can be used: it is cut off, has another encoding or header, or its tail
/// contradicts its rows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", line_prefix(.line))]
pub struct UnfitFile {
    /// The physical line at fault, from 1, if one is.
    pub line: Option<u64>,
    /// What is wrong, and what to do.
    pub problem: String,
}

pub(crate) fn line_prefix(line: &Option<u64>) -> String {
    line.map(|line| format!("line {line}: ")).unwrap_or_default()
}

impl UnfitFile {
    pub(crate) fn whole(problem: impl Into<String>) -> Self {
        Self { line: None, problem: problem.into() }
    }

    pub(crate) fn at(line: u64, problem: impl Into<String>) -> Self {
        Self { line: Some(line), problem: problem.into() }
    }
}

/// Which id of an entry finds its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchBy {
    /// Our order id; every entry has one.
    Order,
    /// The partner's transaction; every entry has one.
    Ref,
}

/// The fault of a row, and the column at fault if one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowFault {
    pub(crate) column: Option<String>,
    pub(crate) problem: String,
}

impl RowFault {
    pub(crate) fn of(column: &str, problem: impl Into<String>) -> Self {
        Self { column: Some(column.to_owned()), problem: problem.into() }
    }
}

/// A value for a message: quoted, escaped, and shortened.
pub(crate) fn shown(value: &str) -> String {
    const CHARS: usize = 40;
    let short: String = value.chars().take(CHARS).collect();
    let more = if short.len() < value.len() { "…" } else { "" };
    format!("{short:?}{more}")
}
