//! Owns the judging of one group, an order with its lines: compares them and adds what comes of it to the tally. Pure.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use payfold_schemas::finding::{BookLine, Code};
use payfold_schemas::ids::{MerchantCode, OrderId, PartnerCode, ProviderRef};
use payfold_schemas::run::Compared;

use super::compare::{Outcome, compare};
use super::flag_days::FlagPiles;
use super::found::{Found, Subject};
use super::join::{GROUP_MAX, Group};
use super::ours::OurOrder;
use super::pile::Pile;
use super::rules::Rules;
use super::spool::KeyHash;
use super::totals::Totals;

/// More differences than these are no differences: the records are another day's, or the profile reads them wrong.
pub(crate) const FINDINGS_MAX: u64 = 100_000;

/// Orders of one day whose flags are findings; the rest makes the run incomplete.
pub(crate) const FLAGGED_MAX: u64 = 100_000;

/// More payments of the day after are no matter of clocks that differ.
const EARLY_MAX: usize = 10_000;

/// By what orders and lines are brought together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Our order id, which the records carry.
    Order,
    /// The partner's ref.
    Ref,
}

/// The name of a group: account, then order or ref.
pub(crate) fn group_key(merchant_code: &MerchantCode, name: &str) -> Vec<u8> {
    [merchant_code.as_str().as_bytes(), b"\0", name.as_bytes()].concat()
}

/// The group a line is of; none if it names neither.
pub(crate) fn key_of_line(by: By, line: &BookLine) -> Option<Vec<u8>> {
    let name = match by {
        By::Order => line.order_id.as_ref().map(OrderId::as_str),
        By::Ref => line.provider_ref.as_ref().map(ProviderRef::as_str),
    };
    name.map(|name| group_key(&line.merchant_code, name))
}

/// The groups an order is of, with what each has of it.
pub(crate) fn groups_of(by: By, order: OurOrder) -> Vec<(Vec<u8>, OurOrder)> {
    match by {
        By::Order => vec![(group_key(&order.merchant_code, order.order_id.as_str()), order)],
        By::Ref => {
            let of_ref = |known: &super::ours::OurRef| {
                let key = group_key(&order.merchant_code, known.provider_ref.as_str());
                (key, OurOrder { refs: vec![known.clone()], ..order.clone() })
            };
            order.refs.iter().map(of_ref).collect()
        }
    }
}

/// What all groups are judged by.
#[derive(Clone, Debug)]
pub(crate) struct Judge {
    pub(crate) partner: PartnerCode,
    pub(crate) file: String,
    /// The day in words.
    pub(crate) day: String,
    pub(crate) rules: Rules,
    pub(crate) by: By,
    /// Groups with a finding that is not cleared: what is listed of them is remembered.
    pub(crate) watched: Arc<HashSet<KeyHash>>,
}

/// A finding's id in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct IdHash(u128);

impl IdHash {
    /// All of an id's 32 hex digits.
    pub(crate) fn of(id: &str) -> Self {
        Self(u128::from_str_radix(id, 16).expect("an id is 32 hex digits"))
    }
}

/// What the groups came to. What differs lies in files.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) compared: Compared,
    pub(crate) totals: Totals,
    pub(crate) found: Pile<Found>,
    pub(crate) left_over: Pile<Found>,
    /// The flags of orders of the day, and those of earlier days.
    pub(crate) flagged: FlagPiles,
    /// The findings that waited for what these records list, of watched groups.
    pub(crate) came: HashSet<IdHash>,
    /// The findings that tomorrow's records would make of what these list early: the first of them.
    pub(crate) early: BTreeSet<String>,
    /// Payments that these records list and this system knows.
    pub(crate) payments: u64,
    /// Those of them that no notice told.
    pub(crate) unnoticed: u64,
    /// Differences over the bound.
    pub(crate) left_out: u64,
    /// Lines of groups that have more than any payment has.
    pub(crate) crowded: u64,
}

impl Judge {
    /// Compares a group. Errors: the disk.
    pub(crate) fn judge(
        &self,
        tally: &mut Tally,
        hash: KeyHash,
        ours: Option<&OurOrder>,
        lines: &[BookLine],
    ) -> io::Result<()> {
        self.judge_as(tally, hash, (ours, lines), |found| found)
    }

    /// Compares a group; what is found is told as `told` says.
    fn judge_as(
        &self,
        tally: &mut Tally,
        hash: KeyHash,
        (ours, lines): (Option<&OurOrder>, &[BookLine]),
        told: impl Fn(Found) -> Found,
    ) -> io::Result<()> {
        let outcome = compare(ours, lines, &self.rules);
        tally.count(ours, &outcome);
        if let Some(ours) = ours {
            tally.totals.add_order(ours, &outcome, &self.rules);
        }
        for line in lines {
            tally.totals.add_line(line, &self.rules, self.rules.zone);
        }
        let Outcome { differences, left_over, listed, early, .. } = outcome;
        let Some(subject) = self.subject(ours, lines) else { return Ok(()) };
        if self.watched.contains(&hash) {
            let waited = |spoken| {
                let id = |code| IdHash::of(&subject.id_of_missing(code, spoken));
                [Code::MissingThere, Code::CutOff].map(id)
            };
            tally.came.extend(listed.iter().flat_map(waited));
        }
        for said in &early {
            tally.is_early(subject.id_of_missing(Code::MissingThere, said));
        }
        for difference in differences {
            if tally.found.len() < FINDINGS_MAX {
                tally.found.push(&told(Found::of(&subject, difference)))?;
            } else {
                tally.left_out += 1;
            }
        }
        left_over.into_iter().try_for_each(|d| tally.left_over.push(&Found::of(&subject, d)))
    }

    /// Compares a group whose order had to be looked for; `elsewhere` are other orders that have its refs.
    pub(crate) fn judge_found(
        &self,
        tally: &mut Tally,
        group: Group,
        (ours, elsewhere): (Option<&OurOrder>, &BTreeMap<ProviderRef, OrderId>),
    ) -> io::Result<()> {
        self.judge_as(tally, group.hash, (ours, &group.lines), |mut found| {
            let provider_ref = found.about.provider_ref.as_ref();
            let other = provider_ref.and_then(|provider_ref| elsewhere.get(provider_ref));
            if let Some(other) = other.filter(|_| found.code == Code::MissingHere) {
                found.is_of_another_order(other);
            }
            found
        })
    }

    fn subject<'a>(
        &'a self,
        ours: Option<&'a OurOrder>,
        lines: &'a [BookLine],
    ) -> Option<Subject<'a>> {
        // Not the first of them: it may be another one in a file of another order.
        let order_id = lines.iter().filter_map(|line| line.order_id.as_ref()).min();
        let of_line = lines.first().map(|line| (&line.merchant_code, order_id));
        let named = ours.map(|order| (&order.merchant_code, Some(&order.order_id)));
        let (merchant_code, order_id) = named.or(of_line)?;
        Some(Subject {
            partner: &self.partner,
            merchant_code,
            order_id,
            reference: ours.and_then(|order| order.reference.as_ref()),
            day: &self.day,
            file: &self.file,
            lines,
        })
    }
}

impl Tally {
    /// Nothing yet; what is found will lie in this folder.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self {
            compared: Compared::default(),
            totals: Totals::default(),
            found: Pile::in_folder(folder),
            left_over: Pile::in_folder(folder),
            flagged: FlagPiles::in_folder(folder),
            came: HashSet::new(),
            early: BTreeSet::new(),
            payments: 0,
            unnoticed: 0,
            left_out: 0,
            crowded: 0,
        }
    }

    /// The first ids of all, in whatever order they come.
    fn is_early(&mut self, id: String) {
        self.early.insert(id);
        if self.early.len() > EARLY_MAX {
            self.early.pop_last();
        }
    }

    fn count(&mut self, ours: Option<&OurOrder>, outcome: &Outcome) {
        let compared = &mut self.compared;
        compared.orders += u64::from(ours.is_some());
        compared.matched += outcome.matched;
        compared.pending += outcome.pending;
        compared.cut_off += outcome.cut_off;
        self.payments += outcome.payments;
        self.unnoticed += outcome.unnoticed;
    }

    /// Both together.
    pub(crate) fn merge(&mut self, other: Self) {
        let (mine, theirs) = (&mut self.compared, other.compared);
        mine.orders += theirs.orders;
        mine.matched += theirs.matched;
        mine.pending += theirs.pending;
        mine.cut_off += theirs.cut_off;
        self.totals.merge(other.totals);
        self.found.take(other.found);
        self.left_over.take(other.left_over);
        self.flagged.take(other.flagged);
        self.came.extend(other.came);
        other.early.into_iter().for_each(|id| self.is_early(id));
        self.payments += other.payments;
        self.unnoticed += other.unnoticed;
        self.left_out += other.left_out;
        self.crowded += other.crowded;
    }

    /// Why something that was not found may be there.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.left_out > 0 {
            problems.push(format!(
                "more than {FINDINGS_MAX} differences: these are another day's or another partner's records, or the \
                 profile's [records] reads them wrong; {} are not told",
                self.left_out
            ));
        }
        let flagged = self.flagged.of_day.len();
        if flagged > FLAGGED_MAX {
            problems.push(format!(
                "{flagged} orders of the day have flags of high or critical severity, and only {FLAGGED_MAX} of them are \
                 findings: look for what they have in common (`payfold order list`)"
            ));
        }
        if self.crowded > 0 {
            problems.push(format!(
                "one order or ref is on more than {GROUP_MAX} lines; {} of them are not compared",
                self.crowded
            ));
        }
        problems
    }
}
