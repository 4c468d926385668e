//! Owns the preview of a partner's file: how its lines are read, before anything is compared.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use chrono::NaiveDate;
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
use super::record_lines::{FileLine, ReadFile, read_file};
use super::request::NamedFile;
use super::totals::add;

/// Entries that are shown as they are read.
const FIRST_ENTRIES: usize = 10;
/// Days of which the entries are counted.
const DAYS_MAX: usize = 4_000;
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
    /// Why a run would be incomplete for this file's sake; empty if it would not.
    pub problems: Vec<String>,
    /// The number of entries of each day.
    pub days: Vec<DayEntries>,
    /// The number of entries of further days, because there are too many days.
    pub not_dated: u64,
    /// Number and sum of the entries of each day, status and currency.
    pub sums: Vec<RecordsSum>,
    /// The number of entries that are in none of the sums, because there are too many sums.
    pub not_summed: u64,
    /// Why lines are left out, with the number of lines.
    pub left_out: Vec<LeftOutLines>,
    /// The first entries.
    pub first: Vec<BookLine>,
}

/// The number of entries of a day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DayEntries {
    /// The day in the partner's zone, `2026-01-31`.
    pub day: String,
    /// The number of entries.
    pub entries: u64,
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
        self.days.iter().max_by_key(|of| (of.entries, &of.day)).map(|of| &*of.day)
    }

    /// The number of entries of a day.
    pub fn entries_of(&self, day: &str) -> u64 {
        self.days.iter().find(|of| of.day == day).map_or(0, |of| of.entries)
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
        day: day.to_string(),
        status,
        currency,
        sum,
    });
    let days =
        lines.days.into_iter().map(|(day, entries)| DayEntries { day: day.to_string(), entries });
    let left_out = lines.left_out.into_iter().map(|(why, lines)| LeftOutLines { why, lines });
    Ok(RecordsPreview {
        partner: accounts.partner.clone(),
        zone: spec.zone().name().to_owned(),
        file,
        trusted,
        problems,
        days: days.collect(),
        not_dated: lines.not_dated,
        sums: sums.collect(),
        not_summed: lines.not_summed,
        left_out: left_out.collect(),
        first: lines.first,
    })
}

/// What is shown of the lines so far. Memory does not grow with the file.
#[derive(Default)]
struct PreviewLines {
    days: BTreeMap<NaiveDate, u64>,
    not_dated: u64,
    sums: BTreeMap<(NaiveDate, Status, Currency), Sum>,
    not_summed: u64,
    left_out: BTreeMap<String, u64>,
    first: Vec<BookLine>,
}

impl PreviewLines {
    fn take(&mut self, line: FileLine, zone: Tz) {
        match line {
            FileLine::Entry(_, line) => self.entry(line, zone),
            FileLine::LeftOut(why) => {
                if let Some(lines) = entry_of(&mut self.left_out, why, REASONS_MAX) {
                    *lines += 1;
                }
            }
            FileLine::Bad => {}
        }
    }

    fn entry(&mut self, line: BookLine, zone: Tz) {
        let day = day_of(line.at, zone);
        match entry_of(&mut self.days, day, DAYS_MAX) {
            Some(entries) => *entries += 1,
            None => self.not_dated += 1,
        }
        match entry_of(&mut self.sums, (day, line.status, line.currency), SUMS_MAX) {
            Some(sum) => add(sum, line.amount),
            None => self.not_summed += 1,
        }
        if self.first.len() < FIRST_ENTRIES {
            self.first.push(line);
        }
    }
}

/// The value of a key; `None` if it is a new one and there are enough.
fn entry_of<K: Ord, V: Default>(map: &mut BTreeMap<K, V>, key: K, most: usize) -> Option<&mut V> {
    let has_room = map.len() < most || map.contains_key(&key);
    has_room.then(|| map.entry(key).or_default())
}
