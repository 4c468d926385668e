//! Owns the recheck of flag findings: if the order has changed since the last recheck, each finding
//! is compared with the order's present flags. Pure. Invariant: an open flag keeps an open finding.
//! The finding's day is the present day of the order's flags. If that day is closed, the finding's
//! day is the first day with an uncleared finding of the flag.

use payfold_schemas::finding::{Code, FindingChanged, FindingDecision, FindingStatus};
use payfold_schemas::order::Order;
use payfold_schemas::order_money::OrderMoney;
use payfold_schemas::time::Time;

use super::detected_finding::DetectedFinding;
use super::findings_store::FindingsStoreError;
use super::flag_days::FlagDay;
use super::flags::{OrderFlag, OrderFlags};
use super::ledger::Ledger;
use super::transition::{self, ChangeMoment, DecisionEffect};

/// An order and its uncleared findings.
pub(crate) struct FlagRecheck<'a> {
    pub(crate) order: &'a Order,
    /// The day of the order's flags.
    pub(crate) day: &'a str,
    /// Whether that day is closed.
    pub(crate) is_closed: bool,
    /// All its uncleared findings.
    pub(crate) uncleared: &'a [FindingChanged],
    /// The changes that the same recheck makes of its differences.
    pub(crate) changes: &'a [FindingChanged],
}

impl FlagRecheck<'_> {
    /// The changes of its flag findings.
    pub(crate) fn changes(
        &self,
        ledger: &Ledger,
        now: Time,
    ) -> Result<Vec<FindingChanged>, FindingsStoreError> {
        let mut known =
            self.uncleared.iter().filter(|known| known.code == Code::OpenFlag).peekable();
        if known.peek().is_none() {
            return Ok(Vec::new());
        }
        let flag_day =
            FlagDay { of_order: self.day, is_closed: self.is_closed, uncleared: self.uncleared };
        let flags = OrderFlags::of(&OrderMoney::from(self.order.clone()));
        let flags = flags.map(|flags| {
            let mut days = flags.flags.iter().filter_map(|flag| flag_day.day_of_finding(flag.flag));
            let at_risk_by_differences =
                self.at_risk_by_differences(&flags, days.next().unwrap_or(self.day));
            flags.join_with_differences(at_risk_by_differences)
        });
        let found = |flags: &OrderFlags| {
            let finding = |flag: &OrderFlag| {
                (
                    flags.finding(*flag, flag_day.day_of_finding(flag.flag).unwrap_or(self.day)),
                    *flag,
                )
            };
            flags.flags.iter().map(finding).collect::<Vec<_>>()
        };
        let found: Vec<(DetectedFinding, OrderFlag)> =
            flags.as_ref().map(found).unwrap_or_default();
        let mut changes = Vec::new();
        for known in known {
            let raised = found.iter().find(|(found, _)| found.flag == known.flag);
            changes.extend(self.change_finding(ledger, (known, raised), now)?);
        }
        Ok(changes)
    }

    fn change_finding(
        &self,
        ledger: &Ledger,
        (known, raised): (&FindingChanged, Option<&(DetectedFinding, OrderFlag)>),
        now: Time,
    ) -> Result<Vec<FindingChanged>, FindingsStoreError> {
        let day = raised.and_then(|(found, _)| found.identity.day.as_deref()).unwrap_or(self.day);
        let moment = ChangeMoment { day, run: None, at: now };
        let clear = || transition::clear_finding(known, moment);
        Ok(match raised {
            None => clear().into_iter().collect(),
            Some((found, flag)) if !flag.is_open => {
                self.apply_order_decision(ledger, known, found, now).into_iter().collect()
            }
            Some((found, _)) if found.id == known.finding_id => {
                match transition::is_unchanged(known, found) {
                    true => transition::update_citation(known, found.clone()).into_iter().collect(),
                    false => transition::open_finding(Some(known), found.clone(), moment)
                        .into_iter()
                        .collect(),
                }
            }
            // Money has moved on another day since, so the finding moves to that day.
            Some((found, _)) => {
                let there = ledger.find(&found.id)?;
                clear()
                    .into_iter()
                    .chain(transition::open_finding(there.as_ref(), found.clone(), moment))
                    .collect()
            }
        })
    }

    /// Applies the order's decision on the flag: `decide_flag` may have been interrupted before it
    /// changed the finding.
    fn apply_order_decision(
        &self,
        ledger: &Ledger,
        known: &FindingChanged,
        found: &DetectedFinding,
        now: Time,
    ) -> Option<FindingChanged> {
        let decisions = self.order.facts.decisions.iter().map(|known| &known.content);
        let mut of_flag = decisions
            .filter(|said| Some(said.flag) == known.flag && said.evidence == found.evidence);
        let said = of_flag.next()?;
        let event = ledger.decided_flag((&self.order.key, said.flag), said.evidence);
        let event = event.filter(|event| event.decision_id.as_deref() == Some(&*said.id));
        let decision = FindingDecision {
            accept: said.accept,
            author: said.author.clone(),
            reason: said.reason.clone(),
            at: event.map_or(now, |event| event.at),
            evidence: said.evidence,
            seconded_by: said.seconded_by.clone(),
            second_reason: event.and_then(|event| event.second_reason.clone()),
        };
        transition::apply_flag_decision(known, decision, DecisionEffect::DecidedAlone)
    }

    /// Minor units that the order's differences of the day put at risk once the changes are made.
    fn at_risk_by_differences(&self, flags: &OrderFlags, day: &str) -> i64 {
        let changed = |known: &&FindingChanged| {
            self.changes.iter().all(|change| change.finding_id != known.finding_id)
        };
        let all = self.uncleared.iter().filter(changed).chain(self.changes);
        let counts = |known: &&FindingChanged| {
            let stands = known.status != FindingStatus::Cleared && known.code != Code::OpenFlag;
            stands && known.day == day && known.currency == flags.currency
        };
        all.filter(counts).map(|known| known.money_at_risk).fold(0, i64::saturating_add)
    }
}
