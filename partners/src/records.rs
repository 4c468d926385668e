//! Owns the reading of a partner's own records: its file of payments, in the format that
//! `[records]` of the profile describes.
//!
//! The stages for one file: `source` counts, hashes and unpacks its bytes. `frame` splits them into
//! records, and `cells` splits a record into cells. `run` decides which records are the head, the
//! header, rows and the tail. `row` finds a value in a row, `entry` makes an entry of it, and
//! `tail` compares the tail's count and sum with the rows. `spec` is the compiled section, `plan`
//! its texts and conditions, `time_format` its times, and `money` its amounts.
//!
//! Invariants: every record is reported once, in the order of the file: as an entry, as ignored
//! with a reason, or as bad with its place. Memory does not grow with the file. No digit passes
//! through a float. A fault of the whole file is an `UnfitFile`; then nothing that was read before
//! it may be used.

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
pub(crate) mod time_format;
pub(crate) mod types;
pub(crate) mod value_location;

pub use self::spec::RecordsSpec;
pub use self::types::{FileSummary, MatchBy, PartnerEntry, RECORD_BYTES_MAX, ReadLine, UnfitFile};

#[cfg(test)]
mod tests;
