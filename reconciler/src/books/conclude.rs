//! Owns what a run changes: which findings open, stay, clear and come back. Pure.
//!
//! What a run of a day may clear: findings of that day that it did not find again, if it could look at everything; and
//! whatever waited for a line that these records have. Other days' findings stay as they are. What a run may open of an
//! earlier day: findings of flags that were raised after that day's run.

use std::collections::{HashMap, HashSet};

use chrono::NaiveDate;
use payfold_schemas::finding::{Code, FindingChanged, FindingStatus};
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::money::Currency;
use payfold_schemas::run::{FindingCounts, RunResult};

use super::BooksError;
use super::flag_days::{DatedFlags, FlagDay, FlagPiles, is_closed};
use super::flags::OrderFlags;
use super::found::{About, Found};
use super::judge::{By, FLAGGED_MAX, IdHash, group_key};
use super::ledger::Ledger;
use super::pile::Pile;
use super::settle::{self, Moment};
use super::shelf::{Of, ShelfError, Standing, Which};
use super::spool::KeyHash;

/// The groups of a partner with a finding that is not cleared.
pub(crate) fn watched(
    ledger: &Ledger,
    partner: &PartnerCode,
    by: By,
) -> Result<HashSet<KeyHash>, ShelfError> {
    let groups = standing(ledger, partner).filter_map(|known| match known {
        Ok(known) => group(&known, by).map(|key| Ok(KeyHash::of(&key))),
        Err(error) => Some(Err(error)),
    });
    groups.collect()
}

fn standing<'a>(
    ledger: &'a Ledger,
    partner: &'a PartnerCode,
) -> impl Iterator<Item = Result<FindingChanged, ShelfError>> + 'a {
    let standing = Some(Standing::All);
    ledger.findings(Which { partner: Some(partner), standing, ..Which::default() })
}

/// The group a finding is of.
pub(crate) fn group(known: &FindingChanged, by: By) -> Option<Vec<u8>> {
    let merchant_code = known.merchant_code.as_ref()?;
    let name = match by {
        By::Order => known.order_id.as_ref()?.as_str(),
        By::Ref => known.payment_ref.as_ref()?.as_str(),
    };
    Some(group_key(merchant_code, name))
}

/// What a run found.
pub(crate) struct Piles {
    /// What differs.
    pub(crate) found: Pile<Found>,
    /// What is missing on the day before, if that day's run left it to this one's.
    pub(crate) left_over: Pile<Found>,
    /// The flags of the day's orders, and those of earlier days.
    pub(crate) flagged: FlagPiles,
    /// The findings of flags of the day that the orders still have: they don't clear for not being found again.
    pub(crate) still_raised: HashSet<IdHash>,
}

/// How what a run found changes what is known.
pub(crate) struct Concluding<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) partner: &'a PartnerCode,
    pub(crate) result: RunResult,
    pub(crate) moment: Moment<'a>,
    /// What this run found, of whatever day.
    seen: HashSet<IdHash>,
    /// What waited for these records, and became something else.
    replaced: HashSet<IdHash>,
    /// Minor units that the day's differences put at risk, by order and currency.
    at_risk: HashMap<(KeyHash, Currency), i64>,
}

impl<'a> Concluding<'a> {
    pub(crate) fn of(
        ledger: &'a Ledger,
        partner: &'a PartnerCode,
        (result, moment): (RunResult, Moment<'a>),
    ) -> Self {
        let (seen, replaced, at_risk) = Default::default();
        Self { ledger, partner, result, moment, seen, replaced, at_risk }
    }

    /// What the run changes, each finding once.
    pub(crate) fn changes(
        mut self,
        Piles { found, left_over, flagged, still_raised }: Piles,
        came: &HashSet<IdHash>,
        mut changes: Pile<FindingChanged>,
    ) -> Result<Pile<FindingChanged>, BooksError> {
        for found in found.values() {
            let found = found.map_err(BooksError::scratch)?;
            self.found(self.moment.day, found, &mut changes)?;
        }
        for found in left_over.values() {
            let found = found.map_err(BooksError::scratch)?;
            let Some(day) = waited_for(self.ledger, &found, self.moment)? else { continue };
            self.replaced.insert(IdHash::of(&with_code(&found, Code::CutOff)));
            self.found(&day, found, &mut changes)?;
        }
        let of_day = flagged.of_day.values().zip(0..FLAGGED_MAX).map(|(dated, _)| dated);
        for dated in of_day.chain(flagged.of_earlier_days.values()) {
            self.flags(dated.map_err(BooksError::scratch)?, &mut changes)?;
        }
        self.seen.extend(still_raised);
        self.gone(came, &mut changes)?;
        Ok(changes)
    }

    /// The flags of an order of the day, or of a day before it. A decided flag leaves its finding as it is: taking the
    /// decision has changed the finding already.
    fn flags(
        &mut self,
        DatedFlags { flags, day }: DatedFlags,
        changes: &mut Pile<FindingChanged>,
    ) -> Result<(), BooksError> {
        // What is new of a closed day is an adjustment of this one; of the next open day where this one is closed too.
        let is_run_closed = is_closed(self.ledger, self.partner, self.moment.day);
        let is_closed = is_closed(self.ledger, self.partner, &day);
        let standing = match is_closed || day != self.moment.day {
            true => self.ledger.of_order(&flags.key)?,
            false => Vec::new(),
        };
        let flag_day = FlagDay { of_order: &day, is_closed, standing: &standing };
        let new_day = if is_closed { self.moment.day } else { &day };
        let differing = self.differing(&flags, new_day, &standing);
        let flags = flags.joined(differing);
        for flag in &flags.flags {
            let day = flag_day.of(flag.flag).unwrap_or(new_day);
            let found = flags.finding(*flag, day);
            if !self.seen.insert(IdHash::of(&found.id)) || !flag.is_open {
                continue;
            }
            let known = self.ledger.find(&found.id)?;
            if is_closed && is_run_closed && known.is_none() {
                continue;
            }
            self.change(known.as_ref(), found, day, changes)?;
        }
        Ok(())
    }

    /// Minor units that the differences of an order put at risk on a day: as this run found them, or as they stand.
    fn differing(&self, flags: &OrderFlags, day: &str, standing: &[FindingChanged]) -> i64 {
        let Some(currency) = flags.currency else { return 0 };
        if day == self.moment.day {
            let group = group_key(&flags.key.merchant_code, flags.key.order_id.as_str());
            return self.at_risk.get(&(KeyHash::of(&group), currency)).copied().unwrap_or(0);
        }
        let of_day = standing.iter().filter(|known| {
            known.day == day && known.code != Code::OpenFlag && known.currency == Some(currency)
        });
        of_day.map(|known| known.money_at_risk).fold(0, i64::saturating_add)
    }

    fn found(
        &mut self,
        day: &str,
        found: Found,
        changes: &mut Pile<FindingChanged>,
    ) -> Result<(), BooksError> {
        // What could not be read may be what is missed.
        if self.result == RunResult::Incomplete && is_waiting(found.code) {
            return Ok(());
        }
        let of_day = (self.partner, self.moment.day);
        let Some(found) = as_known(self.ledger, of_day, found)? else { return Ok(()) };
        if !self.seen.insert(IdHash::of(&found.id)) {
            return Ok(());
        }
        let known = self.ledger.find(&found.id)?;
        if known.as_ref().map_or(day, |known| known.day.as_str()) == self.moment.day {
            self.puts_at_risk(&found);
        }
        self.change(known.as_ref(), found, day, changes)
    }

    fn puts_at_risk(&mut self, found: &Found) {
        let named = found.about.merchant_code.as_ref().zip(found.about.order_id.as_ref());
        let Some(((account, order), currency)) = named.zip(found.currency) else { return };
        let group = KeyHash::of(&group_key(account, order.as_str()));
        let sum = self.at_risk.entry((group, currency)).or_default();
        *sum = sum.saturating_add(found.at_risk);
    }

    /// What a finding becomes: another one, or the same with the file and line of this run.
    fn change(
        &self,
        known: Option<&FindingChanged>,
        found: Found,
        day: &str,
        changes: &mut Pile<FindingChanged>,
    ) -> Result<(), BooksError> {
        let change = match known.filter(|known| settle::is_same(known, &found)) {
            Some(known) if self.cites(known) => settle::cited(known, found),
            Some(_) => None,
            None => settle::found(known, found, Moment { day, ..self.moment }),
        };
        change.iter().try_for_each(|change| changes.push(change)).map_err(BooksError::scratch)
    }

    /// Whether a finding that stays as it is cites what this run saw of it: not if it cites the records of another day,
    /// which would take turns with this one, nor if its day is sealed. A flag cites no records.
    fn cites(&self, known: &FindingChanged) -> bool {
        let of_run = self.ledger.day_of_run(known).filter(|_| known.code != Code::OpenFlag);
        let of_day = of_run.unwrap_or(&known.day);
        let is_sealed = is_closed(self.ledger, self.partner, &known.day);
        of_day == self.moment.day && !is_sealed
    }

    /// What it did not find again.
    fn gone(
        &self,
        came: &HashSet<IdHash>,
        changes: &mut Pile<FindingChanged>,
    ) -> Result<(), BooksError> {
        let complete = self.result == RunResult::Complete;
        for known in standing(self.ledger, self.partner) {
            let known = known?;
            let id = IdHash::of(&known.finding_id);
            // No records tell whether a nonce was used twice.
            if self.seen.contains(&id) || known.code == Code::NonceReused {
                continue;
            }
            let came = is_waiting(known.code) && came.contains(&id);
            let of_this = known.day == self.moment.day || self.replaced.contains(&id);
            if (came || (complete && of_this))
                && let Some(change) = settle::gone(&known, self.moment)
            {
                changes.push(&change).map_err(BooksError::scratch)?;
            }
        }
        Ok(())
    }
}

/// A payment of yesterday's end that neither day's records list is missing only if yesterday's run left it to today's:
/// the day it was left on. It may have been listed in earlier records of today.
fn waited_for(
    ledger: &Ledger,
    found: &Found,
    moment: Moment<'_>,
) -> Result<Option<String>, ShelfError> {
    let waits = |known: &FindingChanged| {
        known.status != FindingStatus::Cleared
            || known.run.as_deref() == moment.run
            || ledger.day_of_run(known) == Some(moment.day)
    };
    for id in [with_code(found, Code::CutOff), found.id.clone()] {
        if let Some(known) = ledger.find(&id)?.filter(waits) {
            return Ok(Some(known.day));
        }
    }
    Ok(None)
}

/// What is left of a finding beside what is known. Not missed is what the day before has listed early. A payment at the
/// day's end that is known to be missing from the next day's records too is not waited for again, nor one that they
/// turned out to list.
pub(crate) fn as_known(
    ledger: &Ledger,
    (partner, day): (&PartnerCode, &str),
    found: Found,
) -> Result<Option<Found>, ShelfError> {
    match found.code {
        Code::MissingThere => {
            let is_listed = is_listed_early(ledger, (partner, day), &found.id)
                || is_listed_elsewhere(ledger, day, &found)?;
            Ok((!is_listed).then_some(found))
        }
        Code::CutOff => {
            let missing = with_code(&found, Code::MissingThere);
            let known = ledger.find(&missing)?;
            if let Some(known) = known.as_ref().filter(|k| k.status != FindingStatus::Cleared) {
                return Ok(Some(Found {
                    id: missing,
                    code: Code::MissingThere,
                    evidence: known.evidence,
                    at_risk: known.money_at_risk,
                    ..found
                }));
            }
            let came = [known, ledger.find(&found.id)?].into_iter().flatten().any(|known| {
                known.status == FindingStatus::Cleared
                    && ledger.day_of_run(&known).is_some_and(|cleared_on| cleared_on != day)
            });
            Ok((!came).then_some(found))
        }
        _ => Ok(Some(found)),
    }
}

/// Whether the records of the day before have it already.
fn is_listed_early(ledger: &Ledger, (partner, day): (&PartnerCode, &str), missing: &str) -> bool {
    let Ok(day) = day.parse::<NaiveDate>() else { return false };
    let before = day.pred_opt().map(|day| (partner.clone(), day.to_string()));
    let run = before.and_then(|before| ledger.run_of(&before));
    run.is_some_and(|run| run.listed_early.binary_search_by(|id| id.as_str().cmp(missing)).is_ok())
}

/// Whether the records of another day have it, as a finding of theirs says.
fn is_listed_elsewhere(ledger: &Ledger, day: &str, found: &Found) -> Result<bool, ShelfError> {
    const SAY: [(Code, &str); 3] = [
        (Code::OtherDay, "paidAt"),
        (Code::AmountDiffers, "amount"),
        (Code::CurrencyDiffers, "currency"),
    ];
    let Some(order) = found.about.order() else { return Ok(false) };
    let says = |known: &FindingChanged| {
        let field = SAY.iter().find(|(code, _)| *code == known.code).map(|(_, field)| field);
        field.is_some_and(|field| {
            let what = found.about.what.replacen("status", field, 1);
            let (code, of_day) = (known.code.to_string(), Some(known.day.clone()));
            About { code, what, day: of_day, ..found.about.clone() }.id() == known.finding_id
        })
    };
    let of_order = ledger.shelf().of_order(&order)?;
    Ok(of_order.iter().any(|known| known.day != day && says(known)))
}

fn with_code(found: &Found, code: Code) -> String {
    About { code: code.to_string(), ..found.about.clone() }.id()
}

/// Whether it says that records don't list something, so that whatever day's records may yet do.
fn is_waiting(code: Code) -> bool {
    matches!(code, Code::MissingThere | Code::CutOff)
}

/// Of the partner's day, and of the run, as they stand now: also what it told before it was interrupted.
pub(crate) fn counts(
    ledger: &Ledger,
    partner: &PartnerCode,
    (day, run): (&str, &str),
) -> Result<FindingCounts, ShelfError> {
    let of_run = ledger.shelf().count(partner, Of::Run(run))?;
    let of_day = ledger.shelf().count(partner, Of::Day(day))?;
    Ok(FindingCounts {
        opened: of_run.open,
        cleared: of_run.cleared,
        open: of_day.loud,
        decided: of_day.decided,
    })
}
