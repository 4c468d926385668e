//! Owns the preview of a partner's file: how its lines are read, before anything is compared.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use chrono_tz::Tz;
use payfold_schemas::finding::BookLine;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;
use payfold_schemas::run::{RecordsFile, Sum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::day_rules::day_of;
use super::error::ReconcileError;
use super::partner_accounts::PartnerAccounts;
use super::record_lines::{GoodLine, ReadFile, read_file};
use super::request::NamedFile;
use super::totals::add;

/// Entries that are shown as they are read.
const FIRST_ENTRIES: usize = 10;
/// Sums of days, statuses and currencies that are shown; more entries are only counted.
const SUMS_MAX: usize = 200;
/// Reasons to leave lines out that are shown.
const REASONS_MAX: usize = 20;

/// How a partner's file is read, before it is compared with anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordsPreview {
    /// The partner.
    pub partner: PartnerCode,
    /// The zone of its days.
    pub zone: String,
    /// The file, with the first lines that can't be read.
    pub file: RecordsFile,
    /// Whether the file has the format that the profile describes. If not, nothing of it is
    /// compared, and there are no entries here.
    pub trusted: bool,
    /// Why a run with this file would be incomplete; empty if it would not.
    pub problems: Vec<String>,
    /// Number and sum of the entries of each day, status and currency.
    pub sums: Vec<RecordsSum>,
    /// The number of entries that are in none of the sums, because there are too many sums.
    pub not_summed: u64,
    /// Why lines are left out, with the number of lines.
    pub left_out: Vec<LeftOutLines>,
    /// The first entries.
    pub first: Vec<BookLine>,
}

/// Number and sum of the entries of one day, status and currency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordsSum {
    /// The day in the partner's zone, `2026-01-31`.
    pub day: String,
    /// The status of the entries.
    pub status: Status,
    /// The currency's ISO 4217 code.
    pub currency: Currency,
    /// Number and sum.
    pub sum: Sum,
}

/// Lines that are left out for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeftOutLines {
    /// The reason: the header, a blank line, a comment, or a rule of the profile.
    pub why: String,
    /// The number of lines.
    pub lines: u64,
}

impl RecordsPreview {
    /// The day with the most entries; of several such days the last one. `None` without entries.
    pub fn main_day(&self) -> Option<&str> {
        let mut entries = BTreeMap::<&str, u64>::new();
        for sum in &self.sums {
            *entries.entry(&sum.day).or_default() += sum.sum.count;
        }
        entries.into_iter().max_by_key(|(_, count)| *count).map(|(day, _)| day)
    }

    /// The number of entries of a day.
    pub fn entries_of(&self, day: &str) -> u64 {
        self.sums.iter().filter(|sum| sum.day == day).map(|sum| sum.sum.count).sum()
    }
}

/// Reads a file, and counts in `lines_read` how far it is. Blocks the thread. Errors: why it can't
/// be read.
pub(crate) fn preview(
    accounts: &PartnerAccounts,
    file: &NamedFile,
    lines_read: &AtomicU64,
) -> Result<RecordsPreview, ReconcileError> {
    let spec = accounts.records_spec()?;
    let mut lines = PreviewLines::default();
    let read = read_file(spec, file, &accounts.merchant_codes, &mut |line| {
        lines_read.fetch_add(1, Ordering::Relaxed);
        lines.take(line, spec.zone());
    });
    let read = read.map_err(|error| ReconcileError::Refused(error.to_string()))?;
    let ReadFile { file, problems, trusted } = read;
    if !trusted {
        // What was read before the fault may not be used.
        lines = PreviewLines::default();
    }
    let sums = lines.sums.into_iter().map(|((day, status, currency), sum)| RecordsSum {
        day,
        status,
        currency,
        sum,
    });
    let left_out = lines.left_out.into_iter().map(|(why, lines)| LeftOutLines { why, lines });
    Ok(RecordsPreview {
        partner: accounts.partner.clone(),
        zone: spec.zone().name().to_owned(),
        file,
        trusted,
        problems,
        sums: sums.collect(),
        not_summed: lines.not_summed,
        left_out: left_out.collect(),
        first: lines.first,
    })
}

/// What is shown of the lines so far. Memory does not grow with the file.
#[derive(Default)]
struct PreviewLines {
    sums: BTreeMap<(String, Status, Currency), Sum>,
    not_summed: u64,
    left_out: BTreeMap<String, u64>,
    first: Vec<BookLine>,
}

impl PreviewLines {
    fn take(&mut self, line: GoodLine, zone: Tz) {
        match line {
            GoodLine::Entry(_, line) => self.entry(line, zone),
            GoodLine::LeftOut(why) => {
                if let Some(lines) = self.left_out.get_mut(&why) {
                    *lines += 1;
                } else if self.left_out.len() < REASONS_MAX {
                    self.left_out.insert(why, 1);
                }
            }
        }
    }

    fn entry(&mut self, line: BookLine, zone: Tz) {
        let key = (day_of(line.at, zone).to_string(), line.status, line.currency);
        let is_shown = self.sums.len() < SUMS_MAX || self.sums.contains_key(&key);
        match is_shown {
            true => add(self.sums.entry(key).or_default(), line.amount),
            false => self.not_summed += 1,
        }
        if self.first.len() < FIRST_ENTRIES {
            self.first.push(line);
        }
    }
}
