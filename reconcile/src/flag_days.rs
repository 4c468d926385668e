//! Owns the day on which an order's flags are findings, and the spill files of a run's flags. Pure.
//!
//! Invariants: the day depends on the order alone, so every run finds the same day. Records are
//! compared for that day: it is never before the order was first seen, and never in the far future.
//! A new finding of a closed day is an adjustment: it gets the day of the run that detects it, and
//! keeps that day.

use std::path::Path;

use chrono::NaiveDate;
use chrono_tz::Tz;
use payfold_schemas::finding::{Code, FindingChanged};
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::order::Flag;
use payfold_schemas::time::Time;
use serde::{Deserialize, Serialize};

use super::day_rules::{DayRules, day_bounds, day_of};
use super::error::ReconcileError;
use super::flags::OrderFlags;
use super::ledger::Ledger;
use super::ours::OurOrder;
use super::spill_file::SpillFile;

/// The furthest a payment time may be ahead of the present, ms. Clocks differ by less, so a later
/// time is a mistake of the partner.
pub(crate) const AHEAD_MS_MAX: i64 = 24 * 3_600_000;
/// An order first seen later than this after the end of the day it was paid on belongs to the day
/// it was first seen, ms.
const SEEN_LATE_MS: i64 = 3_600_000;

/// The flags of an order and the day on which they are findings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DatedFlags {
    pub(crate) flags: OrderFlags,
    /// The partner's day, `2026-01-31`.
    pub(crate) day: String,
}

impl DatedFlags {
    /// Dates the flags with the day of their order. The order's refunds are dated before.
    pub(crate) fn of(flags: OrderFlags, ours: &OurOrder, rules: &DayRules) -> Self {
        Self { flags, day: day_of_flags(ours, rules.zone, rules.now).to_string() }
    }

    /// Whether one of the flags is open.
    pub(crate) fn has_open(&self) -> bool {
        self.flags.flags.iter().any(|flag| flag.is_open)
    }
}

/// The day of an order's flags as of `now`: the day on which money last moved on the order. A
/// payment time too far in the future is ignored. An order first seen well after that day gets the
/// day it was first seen.
pub(crate) fn day_of_flags(ours: &OurOrder, zone: Tz, now: Time) -> NaiveDate {
    let moved = day_of(ours.last_moved(now.plus_ms(AHEAD_MS_MAX)), zone);
    let (_, until) = day_bounds(moved, zone);
    let is_late = until.plus_ms(SEEN_LATE_MS) <= ours.first_seen;
    if is_late { day_of(ours.first_seen, zone) } else { moved }
}

/// Decides the day of a flag's finding, for one run or one recheck.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlagDay<'a> {
    /// The day of the order's flags.
    pub(crate) of_order: &'a str,
    /// Whether that day is closed.
    pub(crate) is_closed: bool,
    /// The order's uncleared findings. The list may be empty while the order's day is open.
    pub(crate) uncleared: &'a [FindingChanged],
}

impl<'a> FlagDay<'a> {
    /// The day of this flag's finding; `None` if the order's day is closed and the flag has no
    /// uncleared finding.
    pub(crate) fn day_of_finding(self, flag: Flag) -> Option<&'a str> {
        if !self.is_closed {
            return Some(self.of_order);
        }
        let of_flag = self
            .uncleared
            .iter()
            .filter(|known| known.code == Code::OpenFlag && known.flag == Some(flag));
        of_flag.map(|known| known.day.as_str()).min()
    }
}

/// Whether a partner's day is closed.
pub(crate) fn is_closed(ledger: &Ledger, partner: &PartnerCode, day: &str) -> bool {
    ledger.closed(&(partner.clone(), day.to_owned())).is_some()
}

/// The flags that a run has collected.
#[derive(Debug)]
pub(crate) struct FlagSpills {
    /// Flags of orders of the day.
    pub(crate) of_day: SpillFile<DatedFlags>,
    /// Flags of orders of earlier days with an open flag. The flags may have been raised after the
    /// runs of those days.
    pub(crate) of_earlier_days: SpillFile<DatedFlags>,
}

impl FlagSpills {
    /// Spills without flags. The spill files are made in this folder.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self { of_day: SpillFile::in_folder(folder), of_earlier_days: SpillFile::in_folder(folder) }
    }

    /// Adds an order's flags, unless the order is of a later day. Errors: the disk's, as a refusal.
    pub(crate) fn push(
        &mut self,
        dated: &DatedFlags,
        rules: &DayRules,
    ) -> Result<(), ReconcileError> {
        let day = rules.day.to_string();
        let pushed = if dated.day == day {
            self.of_day.push(dated)
        } else if dated.day < day && dated.has_open() {
            self.of_earlier_days.push(dated)
        } else {
            Ok(())
        };
        pushed.map_err(ReconcileError::scratch_disk)
    }

    /// Appends the flags of another collection.
    pub(crate) fn append(&mut self, other: Self) {
        self.of_day.append(other.of_day);
        self.of_earlier_days.append(other.of_earlier_days);
    }
}
