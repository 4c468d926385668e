//! Owns what the last runs of a partner's other days say of a payment or refund: which days'
//! records list it. Pure. An item of ours is listed once: by the records of its own day, or by
//! those of another one.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};

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

/// What the last runs of a partner's days say of each other's payments and refunds.
#[derive(Clone, Debug, Default)]
pub(crate) struct OtherDays {
    /// The days that list an item of another day.
    apart: HashMap<IdHash, BTreeSet<NaiveDate>>,
    /// The same by day.
    listed: HashMap<NaiveDate, HashSet<IdHash>>,
    /// What the records of each day with a complete run do not list; `None` if the run does not say
    /// it.
    unlisted: HashMap<NaiveDate, Option<HashSet<IdHash>>>,
    /// The days that have said all that they list of other days.
    said: HashSet<NaiveDate>,
}

impl OtherDays {
    /// Takes in the last run of a day. An incomplete run adds what it lists; what the complete one
    /// before it said stays.
    pub(crate) fn set_run(&mut self, run: &RunEnded) {
        let Ok(day) = run.day.parse::<NaiveDate>() else { return };
        if run.result == RunResult::Complete {
            for id in self.listed.remove(&day).unwrap_or_default() {
                if let Entry::Occupied(mut days) = self.apart.entry(id) {
                    days.get_mut().remove(&day);
                    if days.get().is_empty() {
                        days.remove();
                    }
                }
            }
            self.said.remove(&day);
            self.said.extend(run.listed_apart.as_ref().map(|_| day));
            let ids = |ids: &Vec<String>| ids.iter().map(|id| IdHash::of(id)).collect();
            self.unlisted.insert(day, run.unlisted.as_ref().map(ids));
        }
        for id in listed_apart(run) {
            self.apart.entry(id).or_default().insert(day);
            self.listed.entry(day).or_default().insert(id);
        }
    }
}

fn listed_apart(run: &RunEnded) -> impl Iterator<Item = IdHash> {
    run.listed_apart.iter().flatten().chain(&run.listed_early).map(|id| IdHash::of(id))
}

/// What is known of other days' records in the comparison of one order with the records of a day.
#[derive(Clone, Copy)]
pub(crate) struct OtherRecords<'a> {
    pub(crate) day: NaiveDate,
    pub(crate) days: &'a OtherDays,
    /// The uncleared findings that something is missing or waits.
    pub(crate) waiting: &'a HashSet<IdHash>,
    /// The ids of an item of the order.
    pub(crate) ids: &'a dyn Fn(&ListedItem) -> ItemIds,
    /// Whether the order has uncleared findings.
    pub(crate) is_watched: bool,
}

impl OtherRecords<'_> {
    /// The earliest other day that lists an item although it is not of that day.
    pub(crate) fn lister(&self, ids: ItemIds) -> Option<NaiveDate> {
        let mut days = self.days.apart.get(&ids.missing)?.iter();
        days.find(|day| **day != self.day).copied()
    }

    /// Whether the records of its own day list an item; unknown if that is the day of the
    /// comparison.
    pub(crate) fn own_listing(&self, own_day: NaiveDate, ids: ItemIds) -> OwnListing {
        let is_waiting = || [ids.missing, ids.cut_off].iter().any(|id| self.waiting.contains(id));
        match self.days.unlisted.get(&own_day).filter(|_| own_day != self.day) {
            None => OwnListing::Unknown,
            Some(Some(unlisted)) if unlisted.contains(&ids.missing) => OwnListing::Unlisted,
            Some(Some(_)) => OwnListing::Listed,
            Some(None) if is_waiting() => OwnListing::Unlisted,
            Some(None) => OwnListing::Unknown,
        }
    }

    /// Whether another day's run has said all that its records list of other days.
    pub(crate) fn has_said(&self, day: NaiveDate) -> bool {
        self.days.said.contains(&day)
    }

    /// Whether an item is known to be missing.
    pub(crate) fn is_missed(&self, ids: ItemIds) -> bool {
        self.waiting.contains(&ids.missing)
    }

    /// Whether the run before on this day has listed an item of another day.
    pub(crate) fn was_listed_before(&self, ids: ItemIds) -> bool {
        self.days.apart.get(&ids.missing).is_some_and(|days| days.contains(&self.day))
    }
}
