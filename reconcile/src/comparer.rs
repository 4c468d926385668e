//! Owns the comparison of one group, an order with its lines, and the tally of all groups. Pure,
//! except that the tally writes spill files.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use payfold_partners::records::MatchBy;
use payfold_schemas::finding::{BookLine, Code};
use payfold_schemas::ids::{MerchantCode, OrderId, PartnerCode, ProviderRef};
use payfold_schemas::run::Compared;

use super::compare::{ComparisonOutcome, compare};
use super::day_rules::DayRules;
use super::detected_finding::{DetectedFinding, DoubledFinding, FindingContext};
use super::external_sort::KeyHash;
use super::flag_days::FlagSpills;
use super::join::{GROUP_MAX, RecordGroup};
use super::other_days::{IdHash, ListedItem, OtherDays, OtherRecords};
use super::ours::OurOrder;
use super::spill_file::SpillFile;
use super::totals::ControlTotals;

/// Differences that a run turns into findings, at most. More than these mean that the records are
/// another day's, or that the profile parses them wrong.
pub(crate) const FINDINGS_MAX: u64 = 100_000;

/// Orders of one day with flags that become findings, at most; more make the run incomplete.
pub(crate) const FLAGGED_MAX: u64 = 100_000;

/// Ids of one list that a run's event carries, at most: some 350 KB.
const IDS_MAX: usize = 10_000;

/// The key by which orders and lines are matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchKey {
    /// The order id, which the records carry.
    Order,
    /// The partner's ref of the transaction.
    Ref,
}

/// The key of a group: the account, then the order id or ref.
pub(crate) fn group_key(merchant_code: &MerchantCode, name: &str) -> Vec<u8> {
    [merchant_code.as_str().as_bytes(), b"\0", name.as_bytes()].concat()
}

impl From<MatchBy> for MatchKey {
    fn from(by: MatchBy) -> Self {
        match by {
            MatchBy::Order => Self::Order,
            MatchBy::Ref => Self::Ref,
        }
    }
}

/// The key of a line's group; `None` if the line names no order or ref.
pub(crate) fn key_of_line(by: MatchKey, line: &BookLine) -> Option<Vec<u8>> {
    let name = match by {
        MatchKey::Order => line.order_id.as_ref().map(OrderId::as_str),
        MatchKey::Ref => line.provider_ref.as_ref().map(ProviderRef::as_str),
    };
    name.map(|name| group_key(&line.merchant_code, name))
}

/// The groups of an order, each with its part of the order.
pub(crate) fn groups_of(by: MatchKey, order: OurOrder) -> Vec<(Vec<u8>, OurOrder)> {
    match by {
        MatchKey::Order => vec![(group_key(&order.merchant_code, order.order_id.as_str()), order)],
        MatchKey::Ref => {
            let of_ref = |known: &super::ours::OurRef| {
                let key = group_key(&order.merchant_code, known.provider_ref.as_str());
                (key, OurOrder { refs: vec![known.clone()], ..order.clone() })
            };
            order.refs.iter().map(of_ref).collect()
        }
    }
}

/// Compares groups. It holds what is the same for all groups of a run.
#[derive(Clone, Debug)]
pub(crate) struct GroupComparer {
    pub(crate) partner: PartnerCode,
    pub(crate) file: String,
    /// The day as text, `2026-01-31`.
    pub(crate) day: String,
    pub(crate) rules: DayRules,
    pub(crate) by: MatchKey,
    pub(crate) uncleared: Arc<Uncleared>,
    /// What the partner's other days list.
    pub(crate) other_days: Arc<OtherDays>,
}

/// What a run has to know of the uncleared findings of its partner.
#[derive(Debug, Default)]
pub(crate) struct Uncleared {
    /// Their groups. A run remembers which of their payments the records list, because a listed
    /// payment may clear the finding.
    pub(crate) groups: HashSet<KeyHash>,
    /// Those that something is missing or waits.
    pub(crate) waiting: HashSet<IdHash>,
}

/// Ids in their order; none once they are too many.
#[derive(Debug, Default)]
pub(crate) struct BoundedIds {
    ids: BTreeSet<String>,
    are_too_many: bool,
}

impl BoundedIds {
    fn add(&mut self, id: String) {
        if !self.are_too_many {
            self.ids.insert(id);
            self.are_too_many = self.ids.len() > IDS_MAX;
        }
    }

    fn merge(&mut self, other: Self) {
        self.are_too_many |= other.are_too_many;
        other.ids.into_iter().for_each(|id| self.add(id));
    }

    /// All ids; `None` if they are too many.
    pub(crate) fn all(self) -> Option<Vec<String>> {
        (!self.are_too_many).then(|| self.ids.into_iter().collect())
    }
}

/// The sum of all compared groups. Detected findings are in spill files.
#[derive(Debug)]
pub(crate) struct RunTally {
    pub(crate) compared: Compared,
    pub(crate) totals: ControlTotals,
    pub(crate) found: SpillFile<DetectedFinding>,
    /// What is missing on another day, with that day.
    pub(crate) left_over: SpillFile<(String, DetectedFinding)>,
    /// What another day's records list, too.
    pub(crate) doubled: SpillFile<DoubledFinding>,
    /// Flags of orders of the day, and open flags of earlier days.
    pub(crate) flagged: FlagSpills,
    /// Findings of watched groups that waited for a line that these records have.
    pub(crate) now_listed: HashSet<IdHash>,
    /// What these records list of other days.
    pub(crate) apart: BoundedIds,
    /// What these records don't list of this day.
    pub(crate) unlisted: BoundedIds,
    /// Number of payments of known orders that these records list.
    pub(crate) payments: u64,
    /// Number of these payments that have no notice.
    pub(crate) unnoticed: u64,
    /// Differences over the bound, which are no findings.
    pub(crate) left_out: u64,
    /// Lines left out because their group has too many.
    pub(crate) crowded: u64,
}

impl GroupComparer {
    /// Compares a group and adds the result to the tally. Errors: the disk.
    pub(crate) fn compare_group(
        &self,
        tally: &mut RunTally,
        hash: KeyHash,
        ours: Option<&OurOrder>,
        lines: &[BookLine],
    ) -> io::Result<()> {
        self.compare_group_with(tally, hash, (ours, lines), |found| found)
    }

    /// Compares a group; `adjust` may change each detected finding.
    fn compare_group_with(
        &self,
        tally: &mut RunTally,
        hash: KeyHash,
        (ours, lines): (Option<&OurOrder>, &[BookLine]),
        adjust: impl Fn(DetectedFinding) -> DetectedFinding,
    ) -> io::Result<()> {
        let Some(context) = self.finding_context(ours, lines) else { return Ok(()) };
        let is_watched = self.uncleared.groups.contains(&hash);
        let ids = |item: &ListedItem| context.ids_of(item);
        let (days, waiting) = (&self.other_days, &self.uncleared.waiting);
        let day = self.rules.day;
        let others = OtherRecords { day, days, waiting, ids: &ids, is_watched };
        let outcome = compare(ours, lines, &self.rules, Some(others));
        tally.count(ours, &outcome);
        if let Some(ours) = ours {
            tally.totals.add_order(ours, &outcome, &self.rules);
        }
        for line in lines {
            tally.totals.add_line(line, &self.rules);
        }
        let ComparisonOutcome { differences, left_over, listed, apart, unlisted, doubled, .. } =
            outcome;
        if is_watched {
            let waiting_ids = |item| {
                let ids = context.ids_of(item);
                [ids.missing, ids.cut_off]
            };
            tally.now_listed.extend(listed.iter().flat_map(waiting_ids));
        }
        let missing = |item| context.id_of_missing(Code::MissingThere, item);
        apart.iter().for_each(|item| tally.apart.add(missing(item)));
        unlisted.iter().for_each(|item| tally.unlisted.add(missing(item)));
        for doubled in doubled {
            if tally.found_count() < FINDINGS_MAX {
                tally.doubled.push(&DoubledFinding::of(&context, doubled))?;
            } else {
                tally.left_out += 1;
            }
        }
        for difference in differences {
            if tally.found_count() < FINDINGS_MAX {
                tally.found.push(&adjust(DetectedFinding::of(&context, difference)))?;
            } else {
                tally.left_out += 1;
            }
        }
        for (day, missing) in left_over {
            let found = DetectedFinding::of(&context, missing);
            tally.left_over.push(&(day.to_string(), found))?;
        }
        Ok(())
    }

    /// Compares a group after the look-up of its order. `other_orders` are orders that have the
    /// refs of the lines.
    pub(crate) fn compare_looked_up(
        &self,
        tally: &mut RunTally,
        group: RecordGroup,
        (ours, other_orders): (Option<&OurOrder>, &BTreeMap<ProviderRef, OrderId>),
    ) -> io::Result<()> {
        self.compare_group_with(tally, group.hash, (ours, &group.lines), |mut found| {
            let provider_ref = found.identity.provider_ref.as_ref();
            let other = provider_ref.and_then(|provider_ref| other_orders.get(provider_ref));
            if let Some(other) = other.filter(|_| found.code == Code::MissingHere) {
                found.set_other_order(other);
            }
            found
        })
    }

    fn finding_context<'a>(
        &'a self,
        ours: Option<&'a OurOrder>,
        lines: &'a [BookLine],
    ) -> Option<FindingContext<'a>> {
        // The lowest id, not the first: the lines of a file come in any order.
        let order_id = lines.iter().filter_map(|line| line.order_id.as_ref()).min();
        let of_line = lines.first().map(|line| (&line.merchant_code, order_id));
        let named = ours.map(|order| (&order.merchant_code, Some(&order.order_id)));
        let (merchant_code, order_id) = named.or(of_line)?;
        Some(FindingContext {
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

impl RunTally {
    /// Number of differences, doubles included.
    fn found_count(&self) -> u64 {
        self.found.len().saturating_add(self.doubled.len())
    }

    /// An empty tally; its spill files are made in this folder.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self {
            compared: Compared::default(),
            totals: ControlTotals::default(),
            found: SpillFile::in_folder(folder),
            left_over: SpillFile::in_folder(folder),
            doubled: SpillFile::in_folder(folder),
            flagged: FlagSpills::in_folder(folder),
            now_listed: HashSet::new(),
            apart: BoundedIds::default(),
            unlisted: BoundedIds::default(),
            payments: 0,
            unnoticed: 0,
            left_out: 0,
            crowded: 0,
        }
    }

    fn count(&mut self, ours: Option<&OurOrder>, outcome: &ComparisonOutcome) {
        let compared = &mut self.compared;
        compared.orders += u64::from(ours.is_some());
        compared.matched += outcome.matched;
        compared.pending += outcome.pending;
        compared.cut_off += outcome.cut_off;
        self.payments += outcome.payments;
        self.unnoticed += outcome.unnoticed;
    }

    /// Adds the tally of another lane.
    pub(crate) fn merge(&mut self, other: Self) {
        let (mine, theirs) = (&mut self.compared, other.compared);
        mine.orders += theirs.orders;
        mine.matched += theirs.matched;
        mine.pending += theirs.pending;
        mine.cut_off += theirs.cut_off;
        self.totals.merge(other.totals);
        self.found.append(other.found);
        self.left_over.append(other.left_over);
        self.doubled.append(other.doubled);
        self.flagged.append(other.flagged);
        self.now_listed.extend(other.now_listed);
        self.apart.merge(other.apart);
        self.unlisted.merge(other.unlisted);
        self.payments += other.payments;
        self.unnoticed += other.unnoticed;
        self.left_out += other.left_out;
        self.crowded += other.crowded;
    }

    /// Why the run is incomplete, so what it did not detect may exist; empty if it is complete.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.left_out > 0 {
            problems.push(format!(
                "more than {FINDINGS_MAX} differences: these are another day's or another \
                 partner's records, or the profile's [records] parses them wrong; {} more are not \
                 published",
                self.left_out
            ));
        }
        let flagged = self.flagged.of_day.len();
        if flagged > FLAGGED_MAX {
            problems.push(format!(
                "{flagged} orders of the day have flags of high or critical severity, and only \
                 {FLAGGED_MAX} of them are findings: look for what they have in common (`payfold \
                 order list`)"
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
