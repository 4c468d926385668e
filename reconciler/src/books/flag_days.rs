//! Owns of which day an order's flags are findings, and the piles in which a run keeps flags until it is concluded. Pure.
//!
//! Invariants: the day is a function of the order alone, so every run names it alike; it is a day that books are compared
//! for: never before the order was first seen, never in the far future. What is new of a closed day is an adjustment, a
//! finding of the day whose run finds it, and stays there.

use std::io;
use std::path::Path;

use chrono::NaiveDate;
use chrono_tz::Tz;
use payfold_schemas::finding::{Code, FindingChanged};
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::order::Flag;
use payfold_schemas::time::Time;
use serde::{Deserialize, Serialize};

use super::BooksError;
use super::flags::OrderFlags;
use super::ledger::Ledger;
use super::ours::OurOrder;
use super::pile::Pile;
use super::rules::{Rules, day_bounds, day_of};

/// A payment time so far ahead of the present is a mistake, ms. Clocks differ by less.
pub(crate) const AHEAD_MS_MAX: i64 = 24 * 3_600_000;
/// An order that is first seen later than this after the end of the day it was paid on is not of that day, ms.
const SEEN_LATE_MS: i64 = 3_600_000;

/// The flags of an order, and the day they are of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DatedFlags {
    pub(crate) flags: OrderFlags,
    /// The partner's day, `2026-01-31`.
    pub(crate) day: String,
}

impl DatedFlags {
    /// The flags with the day of their order, the refunds of which are dated.
    pub(crate) fn of(flags: OrderFlags, ours: &OurOrder, rules: &Rules) -> Self {
        Self { flags, day: day_of_flags(ours, rules.zone, rules.now).to_string() }
    }

    /// Whether nobody has decided one of them.
    pub(crate) fn has_open(&self) -> bool {
        self.flags.flags.iter().any(|flag| flag.is_open)
    }
}

/// The day that an order's flags are of as of `now`: that on which money last moved on it. A payment time that no books
/// hold counts as none: one in the future. An order that was first seen after that day is of the day it was first seen on.
pub(crate) fn day_of_flags(ours: &OurOrder, zone: Tz, now: Time) -> NaiveDate {
    let moved = day_of(ours.last_moved(now.plus_ms(AHEAD_MS_MAX)), zone);
    let (_, until) = day_bounds(moved, zone);
    let is_late = until.plus_ms(SEEN_LATE_MS) <= ours.first_seen;
    if is_late { day_of(ours.first_seen, zone) } else { moved }
}

/// Where a finding of a flag stands or goes, as one run or one look sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlagDay<'a> {
    /// The day of the order.
    pub(crate) of_order: &'a str,
    /// Whether that day is closed.
    pub(crate) is_closed: bool,
    /// What stands of the order; not needed while its day is open.
    pub(crate) standing: &'a [FindingChanged],
}

impl<'a> FlagDay<'a> {
    /// The day of the finding of this flag; `None` where the day is closed and nothing stands of the flag.
    pub(crate) fn of(self, flag: Flag) -> Option<&'a str> {
        if !self.is_closed {
            return Some(self.of_order);
        }
        let of_flag = self
            .standing
            .iter()
            .filter(|known| known.code == Code::OpenFlag && known.flag == Some(flag));
        of_flag.map(|known| known.day.as_str()).min()
    }
}

/// Whether a partner's day is closed.
pub(crate) fn is_closed(ledger: &Ledger, partner: &PartnerCode, day: &str) -> bool {
    ledger.closed(&(partner.clone(), day.to_owned())).is_some()
}

/// What a run found of orders with flags.
#[derive(Debug)]
pub(crate) struct FlagPiles {
    /// Of orders of the day.
    pub(crate) of_day: Pile<DatedFlags>,
    /// Of orders of days before it, where a flag is open: their runs may have come before the flags.
    pub(crate) of_earlier_days: Pile<DatedFlags>,
}

impl FlagPiles {
    /// Nothing yet; what comes will lie in this folder.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self { of_day: Pile::in_folder(folder), of_earlier_days: Pile::in_folder(folder) }
    }

    /// Takes an order's flags, unless the order is of a later day. Errors: the folder's disk.
    pub(crate) fn push(&mut self, dated: &DatedFlags, rules: &Rules) -> io::Result<()> {
        let day = rules.day.to_string();
        if dated.day == day {
            self.of_day.push(dated)
        } else if dated.day < day && dated.has_open() {
            self.of_earlier_days.push(dated)
        } else {
            Ok(())
        }
    }

    /// The same, of what is looked at one by one. Errors: the folder's disk.
    pub(crate) fn take_one(&mut self, dated: &DatedFlags, rules: &Rules) -> Result<(), BooksError> {
        self.push(dated, rules).map_err(BooksError::scratch)
    }

    /// Takes what other piles have.
    pub(crate) fn take(&mut self, other: Self) {
        self.of_day.take(other.of_day);
        self.of_earlier_days.take(other.of_earlier_days);
    }
}
