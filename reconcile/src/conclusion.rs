//! Owns the conclusion of a run: which findings open, stay, are cleared and open again. Pure.
//!
//! A complete run of a day clears the day's findings that it did not detect again. Any run also
//! clears findings that waited for a line which these records have. Findings of other days stay as
//! they are. A run opens findings of an earlier day only for flags that were raised after that
//! day's run.

use std::collections::{HashMap, HashSet};

use payfold_schemas::finding::{Code, FindingChanged, FindingStatus};
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::money::Currency;
use payfold_schemas::run::{FindingCounts, RunResult};

use super::comparer::{FLAGGED_MAX, MatchKey, Uncleared, group_key};
use super::detected_finding::{DetectedFinding, FindingIdentity};
use super::error::ReconcileError;
use super::external_sort::KeyHash;
use super::findings_store::{CountScope, FindingFilter, FindingsStoreError, StatusFilter};
use super::flag_days::{DatedFlags, FlagDay, FlagSpills, is_closed};
use super::flags::OrderFlags;
use super::ledger::Ledger;
use super::other_days::IdHash;
use super::spill_file::SpillFile;
use super::transition::{self, ChangeMoment};

/// The uncleared findings of a partner.
pub(crate) fn uncleared(
    ledger: &Ledger,
    partner: &PartnerCode,
    by: MatchKey,
) -> Result<Uncleared, FindingsStoreError> {
    let mut all = Uncleared::default();
    for known in uncleared_findings(ledger, partner) {
        let known = known?;
        all.groups.extend(group_key_of(&known, by).map(|key| KeyHash::of(&key)));
        all.waiting.extend(waiting_id(&known));
    }
    Ok(all)
}

/// The id of a finding that something is missing or waits.
pub(crate) fn waiting_id(known: &FindingChanged) -> Option<IdHash> {
    waits_for_line(known.code).then(|| IdHash::of(&known.finding_id))
}

fn uncleared_findings<'a>(
    ledger: &'a Ledger,
    partner: &'a PartnerCode,
) -> impl Iterator<Item = Result<FindingChanged, FindingsStoreError>> + 'a {
    let status = Some(StatusFilter::Uncleared);
    ledger.findings(FindingFilter { partner: Some(partner), status, ..FindingFilter::default() })
}

/// The key of the group that a finding is about; `None` if it names no order or ref.
pub(crate) fn group_key_of(known: &FindingChanged, by: MatchKey) -> Option<Vec<u8>> {
    let merchant_code = known.merchant_code.as_ref()?;
    let name = match by {
        MatchKey::Order => known.order_id.as_ref()?.as_str(),
        MatchKey::Ref => known.payment_ref.as_ref()?.as_str(),
    };
    Some(group_key(merchant_code, name))
}

/// What a run has detected.
pub(crate) struct RunFindings {
    /// Differences of the day.
    pub(crate) found: SpillFile<DetectedFinding>,
    /// What is missing on another day, with that day.
    pub(crate) left_over: SpillFile<(String, DetectedFinding)>,
    /// What the records of two days list, with the day of the finding.
    pub(crate) doubled: SpillFile<(String, DetectedFinding)>,
    /// Flags of the day's orders, and open flags of earlier days.
    pub(crate) flagged: FlagSpills,
    /// Uncleared flag findings of the day for which the order still has the flag. A run that does
    /// not detect them again does not clear them.
    pub(crate) still_raised: HashSet<IdHash>,
}

/// Turns what a run has detected into changes of findings.
pub(crate) struct Conclusion<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) partner: &'a PartnerCode,
    pub(crate) result: RunResult,
    pub(crate) moment: ChangeMoment<'a>,
    /// Ids of the findings this run has detected, of any day.
    detected: HashSet<IdHash>,
    /// Ids of `CUT_OFF` findings that these records turn into `MISSING_THERE`.
    replaced: HashSet<IdHash>,
    /// Minor units at risk by the day's differences, by order and currency.
    at_risk: HashMap<(KeyHash, Currency), i64>,
}

impl<'a> Conclusion<'a> {
    pub(crate) fn new(
        ledger: &'a Ledger,
        partner: &'a PartnerCode,
        (result, moment): (RunResult, ChangeMoment<'a>),
    ) -> Self {
        let (detected, replaced, at_risk) = Default::default();
        Self { ledger, partner, result, moment, detected, replaced, at_risk }
    }

    /// The changes of findings, each finding at most once. Errors: temporary files; the findings
    /// store.
    pub(crate) fn changes(
        mut self,
        RunFindings { found, left_over, doubled, flagged, still_raised }: RunFindings,
        now_listed: &HashSet<IdHash>,
        mut changes: SpillFile<FindingChanged>,
    ) -> Result<SpillFile<FindingChanged>, ReconcileError> {
        for found in found.values() {
            let found = found.map_err(ReconcileError::scratch_disk)?;
            self.add_difference(self.moment.day, found, &mut changes)?;
        }
        for doubled in doubled.values() {
            let (day, found) = doubled.map_err(ReconcileError::scratch_disk)?;
            // Another day's run has said it already, perhaps with more.
            let is_known = day != self.moment.day
                && self.ledger.find(&found.id)?.is_some_and(|f| f.status != FindingStatus::Cleared);
            if !is_known {
                self.add_difference(&day, found, &mut changes)?;
            }
        }
        for found in left_over.values() {
            let (day, found) = found.map_err(ReconcileError::scratch_disk)?;
            self.replaced.insert(IdHash::of(&id_with_code(&found, Code::CutOff)));
            self.add_difference(&day, found, &mut changes)?;
        }
        let of_day = flagged.of_day.values().zip(0..FLAGGED_MAX).map(|(dated, _)| dated);
        for dated in of_day.chain(flagged.of_earlier_days.values()) {
            self.add_flags(dated.map_err(ReconcileError::scratch_disk)?, &mut changes)?;
        }
        self.detected.extend(still_raised);
        self.clear_vanished(now_listed, &mut changes)?;
        Ok(changes)
    }

    /// Adds the flags of an order of the day, or of an earlier day. A decided flag leaves its
    /// finding as it is: the decision has changed the finding already.
    fn add_flags(
        &mut self,
        DatedFlags { flags, day }: DatedFlags,
        changes: &mut SpillFile<FindingChanged>,
    ) -> Result<(), ReconcileError> {
        // A new finding of a closed day is an adjustment: it gets the day of this run. If this day
        // is closed too, the next run of an open day opens it.
        let is_run_closed = is_closed(self.ledger, self.partner, self.moment.day);
        let is_closed = is_closed(self.ledger, self.partner, &day);
        let uncleared = match is_closed || day != self.moment.day {
            true => self.ledger.of_order(&flags.key)?,
            false => Vec::new(),
        };
        let flag_day = FlagDay { of_order: &day, is_closed, uncleared: &uncleared };
        let new_day = if is_closed { self.moment.day } else { &day };
        let at_risk_by_differences = self.at_risk_by_differences(&flags, new_day, &uncleared);
        let flags = flags.join_with_differences(at_risk_by_differences);
        for flag in &flags.flags {
            let day = flag_day.day_of_finding(flag.flag).unwrap_or(new_day);
            let found = flags.finding(*flag, day);
            if !self.detected.insert(IdHash::of(&found.id)) || !flag.is_open {
                continue;
            }
            let known = self.ledger.find(&found.id)?;
            if is_closed && is_run_closed && known.is_none() {
                continue;
            }
            self.push_change(known.as_ref(), found, day, changes)?;
        }
        Ok(())
    }

    /// Minor units that an order's differences put at risk on a day: as this run detected them on
    /// its own day, else as its uncleared findings say.
    fn at_risk_by_differences(
        &self,
        flags: &OrderFlags,
        day: &str,
        uncleared: &[FindingChanged],
    ) -> i64 {
        let Some(currency) = flags.currency else { return 0 };
        if day == self.moment.day {
            let group = group_key(&flags.key.merchant_code, flags.key.order_id.as_str());
            return self.at_risk.get(&(KeyHash::of(&group), currency)).copied().unwrap_or(0);
        }
        let of_day = uncleared.iter().filter(|known| {
            known.day == day && known.code != Code::OpenFlag && known.currency == Some(currency)
        });
        of_day.map(|known| known.money_at_risk).fold(0, i64::saturating_add)
    }

    fn add_difference(
        &mut self,
        day: &str,
        found: DetectedFinding,
        changes: &mut SpillFile<FindingChanged>,
    ) -> Result<(), ReconcileError> {
        // A line that could not be parsed may be the one that seems missing.
        if self.result == RunResult::Incomplete && waits_for_line(found.code) {
            return Ok(());
        }
        if !self.detected.insert(IdHash::of(&found.id)) {
            return Ok(());
        }
        let known = self.ledger.find(&found.id)?;
        if known.as_ref().map_or(day, |known| known.day.as_str()) == self.moment.day {
            self.add_at_risk(&found);
        }
        self.push_change(known.as_ref(), found, day, changes)
    }

    fn add_at_risk(&mut self, found: &DetectedFinding) {
        let named = found.identity.merchant_code.as_ref().zip(found.identity.order_id.as_ref());
        let Some(((account, order), currency)) = named.zip(found.currency) else { return };
        let group = KeyHash::of(&group_key(account, order.as_str()));
        let sum = self.at_risk.entry((group, currency)).or_default();
        *sum = sum.saturating_add(found.at_risk);
    }

    /// Adds the change that a detected finding makes: a transition, or an update of the file and
    /// lines it cites.
    fn push_change(
        &self,
        known: Option<&FindingChanged>,
        found: DetectedFinding,
        day: &str,
        changes: &mut SpillFile<FindingChanged>,
    ) -> Result<(), ReconcileError> {
        let change = match known.filter(|known| transition::is_unchanged(known, &found)) {
            Some(known) if self.may_update_citation(known) => {
                transition::update_citation(known, found)
            }
            Some(_) => None,
            None => transition::open_finding(known, found, ChangeMoment { day, ..self.moment }),
        };
        change
            .iter()
            .try_for_each(|change| changes.push(change))
            .map_err(ReconcileError::scratch_disk)
    }

    /// Whether an unchanged finding takes the file and lines of this run. It does not if it cites
    /// another day's records, because the two days' runs would change it in turns, nor if its day
    /// is closed. A flag finding cites no records.
    fn may_update_citation(&self, known: &FindingChanged) -> bool {
        let of_run = self.ledger.day_of_run(known).filter(|_| known.code != Code::OpenFlag);
        let of_day = of_run.unwrap_or(&known.day);
        let is_sealed = is_closed(self.ledger, self.partner, &known.day);
        of_day == self.moment.day && !is_sealed
    }

    /// Clears uncleared findings that the run did not detect again.
    fn clear_vanished(
        &self,
        now_listed: &HashSet<IdHash>,
        changes: &mut SpillFile<FindingChanged>,
    ) -> Result<(), ReconcileError> {
        let complete = self.result == RunResult::Complete;
        for known in uncleared_findings(self.ledger, self.partner) {
            let known = known?;
            let id = IdHash::of(&known.finding_id);
            // Records don't show whether a nonce was used twice, so no run clears that finding.
            if self.detected.contains(&id) || known.code == Code::NonceReused {
                continue;
            }
            let now_listed = waits_for_line(known.code) && now_listed.contains(&id);
            let is_of_this_day = known.day == self.moment.day || self.replaced.contains(&id);
            if (now_listed || (complete && is_of_this_day))
                && let Some(change) = transition::clear_finding(&known, self.moment)
            {
                changes.push(&change).map_err(ReconcileError::scratch_disk)?;
            }
        }
        Ok(())
    }
}

fn id_with_code(found: &DetectedFinding, code: Code) -> String {
    FindingIdentity { code: code.to_string(), ..found.identity.clone() }.id()
}

/// Whether a finding says that records don't list something, so that records of any day may still
/// list it.
fn waits_for_line(code: Code) -> bool {
    matches!(code, Code::MissingThere | Code::CutOff)
}

/// Counts the findings that the run changed and those of the day, as they are now. An interrupted
/// and repeated run counts the changes it published before.
pub(crate) fn count_findings(
    ledger: &Ledger,
    partner: &PartnerCode,
    (day, run): (&str, &str),
) -> Result<FindingCounts, FindingsStoreError> {
    let of_run = ledger.findings_store().count(partner, CountScope::Run(run))?;
    let of_day = ledger.findings_store().count(partner, CountScope::Day(day))?;
    let others = ledger.findings_store().count(partner, CountScope::OtherDays { run, day })?;
    Ok(FindingCounts {
        opened: of_run.open,
        cleared: of_run.cleared,
        open: of_day.open_above_info,
        decided: of_day.decided,
        open_of_other_days: others.open_above_info,
    })
}
