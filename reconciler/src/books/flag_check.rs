//! Owns the second look at findings of flags: when the order has changed since, each is held against the order's flags as
//! they are now. Pure. Invariant: of a flag that is open some finding stays open, on the day that the order is of now, or
//! where that day is closed on the first day that it stands on.

use payfold_schemas::finding::{Code, FindingChanged, FindingDecision, FindingStatus};
use payfold_schemas::order::{Order, OrderMoney};
use payfold_schemas::time::Time;

use super::flag_days::FlagDay;
use super::flags::{OrderFlag, OrderFlags};
use super::found::Found;
use super::ledger::Ledger;
use super::settle::{self, Moment, Standing};
use super::shelf::ShelfError;

/// An order, and what stands of it.
pub(crate) struct Look<'a> {
    pub(crate) order: &'a Order,
    /// The partner's day that the order's flags are of.
    pub(crate) day: &'a str,
    /// Whether that day is closed.
    pub(crate) is_closed: bool,
    /// Every finding of it that stands.
    pub(crate) standing: &'a [FindingChanged],
    /// What the same look changes of its differences.
    pub(crate) changes: &'a [FindingChanged],
}

impl Look<'_> {
    /// What changes of its findings of flags.
    pub(crate) fn changes(
        &self,
        ledger: &Ledger,
        now: Time,
    ) -> Result<Vec<FindingChanged>, ShelfError> {
        let mut known =
            self.standing.iter().filter(|known| known.code == Code::OpenFlag).peekable();
        if known.peek().is_none() {
            return Ok(Vec::new());
        }
        let flag_day =
            FlagDay { of_order: self.day, is_closed: self.is_closed, standing: self.standing };
        let flags = OrderFlags::of(&OrderMoney::from(self.order.clone()));
        let flags = flags.map(|flags| {
            let mut days = flags.flags.iter().filter_map(|flag| flag_day.of(flag.flag));
            let differing = self.differing(&flags, days.next().unwrap_or(self.day));
            flags.joined(differing)
        });
        let found = |flags: &OrderFlags| {
            let finding = |flag: &OrderFlag| {
                (flags.finding(*flag, flag_day.of(flag.flag).unwrap_or(self.day)), *flag)
            };
            flags.flags.iter().map(finding).collect::<Vec<_>>()
        };
        let found: Vec<(Found, OrderFlag)> = flags.as_ref().map(found).unwrap_or_default();
        let mut changes = Vec::new();
        for known in known {
            let raised = found.iter().find(|(found, _)| found.flag == known.flag);
            changes.extend(self.change(ledger, (known, raised), now)?);
        }
        Ok(changes)
    }

    fn change(
        &self,
        ledger: &Ledger,
        (known, raised): (&FindingChanged, Option<&(Found, OrderFlag)>),
        now: Time,
    ) -> Result<Vec<FindingChanged>, ShelfError> {
        let day = raised.and_then(|(found, _)| found.about.day.as_deref()).unwrap_or(self.day);
        let moment = Moment { day, run: None, at: now };
        let gone = || settle::gone(known, moment);
        Ok(match raised {
            None => gone().into_iter().collect(),
            Some((found, flag)) if !flag.is_open => {
                self.decided(known, found, now).into_iter().collect()
            }
            Some((found, _)) if found.id == known.finding_id => match settle::is_same(known, found)
            {
                true => settle::cited(known, found.clone()).into_iter().collect(),
                false => settle::found(Some(known), found.clone(), moment).into_iter().collect(),
            },
            // Money has moved on another day since.
            Some((found, _)) => {
                let there = ledger.find(&found.id)?;
                gone()
                    .into_iter()
                    .chain(settle::found(there.as_ref(), found.clone(), moment))
                    .collect()
            }
        })
    }

    /// The decision as the order has it: taking it may have been interrupted before the finding was changed.
    fn decided(&self, known: &FindingChanged, found: &Found, now: Time) -> Option<FindingChanged> {
        let decisions = self.order.facts.decisions.iter().map(|known| &known.content);
        let mut of_flag = decisions
            .filter(|said| Some(said.flag) == known.flag && said.evidence == found.evidence);
        let said = of_flag.next()?;
        let decision = FindingDecision {
            accept: said.accept,
            author: said.author.clone(),
            reason: said.reason.clone(),
            at: now,
            evidence: said.evidence,
            seconded_by: said.seconded_by.clone(),
        };
        settle::flag_decided(known, decision, Standing::Alone)
    }

    /// Minor units that the order's differences of the day put at risk once the changes are made.
    fn differing(&self, flags: &OrderFlags, day: &str) -> i64 {
        let changed = |known: &&FindingChanged| {
            self.changes.iter().all(|change| change.finding_id != known.finding_id)
        };
        let all = self.standing.iter().filter(changed).chain(self.changes);
        let counts = |known: &&FindingChanged| {
            let stands = known.status != FindingStatus::Cleared && known.code != Code::OpenFlag;
            stands && known.day == day && known.currency == flags.currency
        };
        all.filter(counts).map(|known| known.money_at_risk).fold(0, i64::saturating_add)
    }
}
