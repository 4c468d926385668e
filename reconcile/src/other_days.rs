//! Owns what the last runs of a partner's other days say of a payment or refund: which days'
//! records list it. Pure. An item of ours is listed once: by the records of its own day, or by
//! those of another one.

use std::collections::{HashMap, HashSet};

use chrono::NaiveDate;
use payfold_schemas::ids::ProviderRef;
use payfold_schemas::ipn::Status;
use payfold_schemas::run::{RunEnded, RunResult};

/// A finding's id as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct IdHash(u128);

impl IdHash {
    /// Parses an id of 32 hex digits.
    pub(crate) fn of(id: &str) -> Self {
        Self(u128::from_str_radix(id, 16).expect("an id is 32 hex digits"))
    }
}

/// A payment, refund or end that the records list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedItem {
    pub(crate) provider_ref: ProviderRef,
    pub(crate) status: Status,
    /// Which refund of the transaction.
    pub(crate) part: Option<String>,
}

/// The ids of the findings that an item is missing, and that it waits for the next day's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ItemIds {
    pub(crate) missing: IdHash,
    pub(crate) cut_off: IdHash,
}

/// Whether the records of an item's own day list it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnListing {
    /// Its day has no complete run, or that run does not say it.
    Unknown,
    Listed,
    Unlisted,
}

/// What is known of other days' records in the comparison of one order.
#[derive(Clone, Copy)]
pub(crate) struct OtherRecords<'a> {
    pub(crate) days: &'a OtherDays,
    /// The ids of an item of the order.
    pub(crate) ids: &'a dyn Fn(&ListedItem) -> ItemIds,
    /// Whether the order has uncleared findings.
    pub(crate) is_watched: bool,
}

/// The last runs of a partner's days but one, and the run before on that one.
#[derive(Clone, Debug, Default)]
pub(crate) struct OtherDays {
    /// The earliest day that lists an item of another day.
    apart: HashMap<IdHash, NaiveDate>,
    /// What the records of each day with a complete run do not list; `None` if the run does not say
    /// it.
    unlisted: HashMap<NaiveDate, Option<HashSet<IdHash>>>,
    /// The days that have said all that they list of other days.
    said: HashSet<NaiveDate>,
    /// What the run before on this day has listed of other days.
    listed_before: HashSet<IdHash>,
    /// The uncleared findings that something is missing or waits.
    waiting: HashSet<IdHash>,
}

impl OtherDays {
    /// These runs, one of each day and earlier days first, seen from this day, and the ids of the
    /// uncleared findings that something is missing or waits.
    pub(crate) fn of<'a>(
        day: NaiveDate,
        runs: impl Iterator<Item = &'a RunEnded>,
        waiting: HashSet<IdHash>,
    ) -> Self {
        let mut days = Self { waiting, ..Self::default() };
        for run in runs {
            let Ok(of_run) = run.day.parse::<NaiveDate>() else { continue };
            let apart = run.listed_apart.iter().flatten().chain(&run.listed_early);
            let apart = apart.map(|id| IdHash::of(id));
            if of_run == day {
                days.listed_before.extend(apart);
                continue;
            }
            apart.for_each(|id| {
                days.apart.entry(id).or_insert(of_run);
            });
            if run.result == RunResult::Complete {
                if run.listed_apart.is_some() {
                    days.said.insert(of_run);
                }
                let ids = |ids: &Vec<String>| ids.iter().map(|id| IdHash::of(id)).collect();
                days.unlisted.insert(of_run, run.unlisted.as_ref().map(ids));
            }
        }
        days
    }

    /// The earliest other day that lists an item although it is not of that day.
    pub(crate) fn lister(&self, ids: ItemIds) -> Option<NaiveDate> {
        self.apart.get(&ids.missing).copied()
    }

    /// Whether the records of its own day, which is another one, list an item.
    pub(crate) fn own_listing(&self, own_day: NaiveDate, ids: ItemIds) -> OwnListing {
        match self.unlisted.get(&own_day) {
            None => OwnListing::Unknown,
            Some(Some(unlisted)) if unlisted.contains(&ids.missing) => OwnListing::Unlisted,
            Some(Some(_)) => OwnListing::Listed,
            Some(None) if [ids.missing, ids.cut_off].iter().any(|id| self.waiting.contains(id)) => {
                OwnListing::Unlisted
            }
            Some(None) => OwnListing::Unknown,
        }
    }

    /// Whether another day's run has said all that its records list of other days.
    pub(crate) fn has_said(&self, day: NaiveDate) -> bool {
        self.said.contains(&day)
    }

    /// Whether an item is known to be missing.
    pub(crate) fn is_missed(&self, ids: ItemIds) -> bool {
        self.waiting.contains(&ids.missing)
    }

    /// Whether the run before on this day has listed an item of another day.
    pub(crate) fn was_listed_before(&self, ids: ItemIds) -> bool {
        self.listed_before.contains(&ids.missing)
    }
}
