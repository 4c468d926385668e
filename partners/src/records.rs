//! Owns the reading of a partner's own books: its file of payments, as `[records]` of the profile says it is written.
//!
//! The way of one file: `source` counts and hashes its bytes and unpacks them, `frame` cuts them into records and
//! `cells` a record into cells, `run` says which of them are head, header, tail or a row, `row` finds a value in one,
//! `entry` makes of a row what it says, `tail` holds what the last rows say against the others. `spec` is what a
//! profile says of all that, `plan` its texts and conditions, `when` its times, `money` its amounts.
//!
//! Invariants: every line ends up as an entry, as ignored with its reason, or as bad with its place, in the order of
//! the file; memory does not grow with the file; no digit passes through a float; what the whole file is wrong in is
//! never told line by line, but by `Unfit`, and then nothing that was read before may be trusted.

pub(crate) mod cells;
mod entry;
mod frame;
pub(crate) mod money;
pub(crate) mod plan;
mod row;
mod run;
mod source;
pub(crate) mod spec;
pub(crate) mod tail;
#[cfg(test)]
mod tests;
pub(crate) mod when;

use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{EventRef, MerchantCode, OrderId, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;

pub use self::spec::RecordsSpec;

/// Bytes of a record, without its end: a longer one is bad.
pub const RECORD_BYTES_MAX: usize = 65_536;

/// A line of a partner's books that says something of money or of an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The physical line it begins on, from 1.
    pub line: u64,
    /// Our account there, where the file says it.
    pub merchant_code: Option<MerchantCode>,
    /// Our order; always there under `MatchBy::Order`.
    pub order_id: Option<OrderId>,
    /// The partner's transaction; always there under `MatchBy::Ref`.
    pub provider_ref: Option<ProviderRef>,
    /// What became of the payment.
    pub status: Status,
    /// Minor units, also of a refund that the file writes with a minus.
    pub amount: Amount,
    /// ISO 4217.
    pub currency: Currency,
    /// When the partner booked it: what puts it into a day. Noon where the file has only dates.
    pub at: Time,
    /// When it was paid, where the file has another time for that.
    pub paid_at: Option<Time>,
    /// The partner's own name of this booking, where the file has one: tells two refunds of one payment apart.
    pub event_ref: Option<EventRef>,
}

/// What becomes of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// It says something.
    Entry(Entry),
    /// It is not about a payment, or of a kind that the profile leaves alone.
    Ignored {
        /// The physical line it begins on, from 1.
        line: u64,
        /// The header, a blank, a comment, a rule of the profile.
        why: String,
    },
    /// It can't be read as the profile says.
    Bad {
        /// The physical line it begins on, from 1.
        line: u64,
        /// The name or number of the column, or the place in the object, where it is one.
        column: Option<String>,
        /// What is wrong.
        problem: String,
    },
}

/// A file that was read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// Physical lines; a quoted cell may hold several.
    pub lines: u64,
    /// How many records are entries.
    pub entries: u64,
    /// How many are ignored, header and tail among them.
    pub ignored: u64,
    /// How many can't be read.
    pub bad: u64,
    /// The SHA-256 of the bytes as they are stored, before they are unpacked.
    pub sha256: Digest,
    /// How many bytes are stored.
    pub bytes: u64,
}

/// Why a file as a whole can't be trusted: cut off, wrongly encoded, another header, another count at its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", place(.line))]
pub struct Unfit {
    /// The physical line where it shows, from 1.
    pub line: Option<u64>,
    /// What is wrong, and how to mend it.
    pub problem: String,
}

fn place(line: &Option<u64>) -> String {
    line.map(|line| format!("line {line}: ")).unwrap_or_default()
}

impl Unfit {
    pub(crate) fn whole(problem: impl Into<String>) -> Self {
        Self { line: None, problem: problem.into() }
    }

    pub(crate) fn at(line: u64, problem: impl Into<String>) -> Self {
        Self { line: Some(line), problem: problem.into() }
    }
}

/// By what an entry finds its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchBy {
    /// By our order id; every entry has one.
    Order,
    /// By the partner's ref; every entry has one.
    Ref,
}

/// What is wrong with a row, and where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) column: Option<String>,
    pub(crate) problem: String,
}

impl Fault {
    pub(crate) fn of(column: &str, problem: impl Into<String>) -> Self {
        Self { column: Some(column.to_owned()), problem: problem.into() }
    }
}

/// A value in a message: quoted, escaped and short.
pub(crate) fn shown(value: &str) -> String {
    const CHARS: usize = 40;
    let short: String = value.chars().take(CHARS).collect();
    let more = if short.len() < value.len() { "…" } else { "" };
    format!("{short:?}{more}")
}
