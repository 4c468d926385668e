//! Owns what a run changes: which findings open, stay, clear and come back. Pure.
//!
//! What a run of a day may clear: findings of that day that it did not find again, if it could look at everything; and
//! whatever waited for a line that these records have. Other days' findings stay as they are.

use std::collections::{BTreeMap, HashSet};

use chrono::NaiveDate;
use payfold_schemas::finding::{Code, FindingChanged, FindingStatus};
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::order::Severity;
use payfold_schemas::run::{FindingCounts, RunResult};

use super::found::{About, Found};
use super::judge::{By, Tally, group_key};
use super::ledger::Ledger;
use super::settle::{self, Moment};

/// The groups of a partner with a finding that is not cleared.
pub(crate) fn watched(ledger: &Ledger, partner: &PartnerCode, by: By) -> HashSet<Vec<u8>> {
    standing(ledger, partner).filter_map(|known| group(known, by)).collect()
}

fn standing<'a>(
    ledger: &'a Ledger,
    partner: &'a PartnerCode,
) -> impl Iterator<Item = &'a FindingChanged> {
    ledger
        .findings()
        .filter(move |known| known.partner == *partner && known.status != FindingStatus::Cleared)
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

/// What a run changes, by finding, and how many that leaves.
pub(crate) fn conclude(
    ledger: &Ledger,
    tally: &mut Tally,
    partner: &PartnerCode,
    result: RunResult,
    moment: Moment<'_>,
) -> (Vec<FindingChanged>, FindingCounts) {
    let mut changes: BTreeMap<String, FindingChanged> = BTreeMap::new();
    let (mut seen, mut replaced) = (HashSet::new(), HashSet::new());
    let complete = result == RunResult::Complete;
    let left_over = std::mem::take(&mut tally.left_over).into_iter().filter_map(|found| {
        let day = waited_for(ledger, &found, moment)?;
        replaced.insert(with_code(&found, Code::CutOff));
        Some((day, found))
    });
    let left_over: Vec<_> = left_over.collect();
    let of_day = std::mem::take(&mut tally.found).into_iter().map(|found| (moment.day, found));
    let all = left_over.into_iter().chain(of_day);
    // What could not be read may be what is missed.
    let all = all.filter(|(_, found)| complete || !is_waiting(found.code));
    for (day, found) in all {
        let Some(found) = as_known(ledger, (partner, moment.day), found) else { continue };
        seen.insert(found.id.clone());
        let known = ledger.find(&found.id);
        if let Some(change) = settle::found(known, found, Moment { day, ..moment }) {
            changes.insert(change.finding_id.clone(), change);
        }
    }
    // No records tell whether a nonce was used twice.
    let unseen = |known: &&FindingChanged| {
        !seen.contains(&known.finding_id) && known.code != Code::NonceReused
    };
    for known in standing(ledger, partner).filter(unseen) {
        let id = &known.finding_id;
        let came = is_waiting(known.code) && tally.came.contains(id);
        let is_gone = came || (complete && (known.day == moment.day || replaced.contains(id)));
        if is_gone && let Some(change) = settle::gone(known, moment) {
            changes.insert(change.finding_id.clone(), change);
        }
    }
    let counts = counts(ledger, &changes, (partner, moment));
    (changes.into_values().collect(), counts)
}

/// A payment of yesterday's end that neither day's records list is missing only if yesterday's run left it to today's:
/// the day it was left on. It may have been listed in earlier records of today.
fn waited_for<'a>(ledger: &'a Ledger, found: &Found, moment: Moment<'_>) -> Option<&'a str> {
    let waits = |known: &&FindingChanged| {
        known.status != FindingStatus::Cleared
            || known.run.as_deref() == moment.run
            || ledger.day_of_run(known) == Some(moment.day)
    };
    let known = |id: &str| ledger.find(id).filter(waits);
    let known = known(&with_code(found, Code::CutOff)).or_else(|| known(&found.id));
    known.map(|known| known.day.as_str())
}

/// What is left of a finding beside what is known. Not missed is what the day before has listed early. A payment at the
/// day's end that is known to be missing from the next day's records too is not waited for again, nor one that they
/// turned out to list.
pub(crate) fn as_known(
    ledger: &Ledger,
    (partner, day): (&PartnerCode, &str),
    found: Found,
) -> Option<Found> {
    match found.code {
        Code::MissingThere => {
            let is_listed = is_listed_early(ledger, (partner, day), &found.id)
                || is_listed_elsewhere(ledger, day, &found);
            (!is_listed).then_some(found)
        }
        Code::CutOff => {
            let missing = with_code(&found, Code::MissingThere);
            let known = ledger.find(&missing);
            if let Some(known) = known.filter(|known| known.status != FindingStatus::Cleared) {
                return Some(Found {
                    id: missing,
                    code: Code::MissingThere,
                    evidence: known.evidence,
                    at_risk: known.money_at_risk,
                    ..found
                });
            }
            let came = [known, ledger.find(&found.id)].into_iter().flatten().any(|known| {
                known.status == FindingStatus::Cleared
                    && ledger.day_of_run(known).is_some_and(|cleared_on| cleared_on != day)
            });
            (!came).then_some(found)
        }
        _ => Some(found),
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
fn is_listed_elsewhere(ledger: &Ledger, day: &str, found: &Found) -> bool {
    let says = [
        (Code::OtherDay, "paidAt"),
        (Code::AmountDiffers, "amount"),
        (Code::CurrencyDiffers, "currency"),
    ];
    says.into_iter().any(|(code, field)| {
        let what = found.about.what.replacen("status", field, 1);
        let id = About { code: code.to_string(), what, ..found.about.clone() }.id();
        ledger
            .find(&id)
            .is_some_and(|known| known.status != FindingStatus::Cleared && known.day != day)
    })
}

fn with_code(found: &Found, code: Code) -> String {
    About { code: code.to_string(), ..found.about.clone() }.id()
}

/// Whether it says that records don't list something, so that whatever day's records may yet do.
fn is_waiting(code: Code) -> bool {
    matches!(code, Code::MissingThere | Code::CutOff)
}

/// Of the partner's day, as they stand after these changes.
fn counts(
    ledger: &Ledger,
    changes: &BTreeMap<String, FindingChanged>,
    (partner, moment): (&PartnerCode, Moment<'_>),
) -> FindingCounts {
    let mut counts = FindingCounts::default();
    // Also what this run told before it was interrupted.
    let known = ledger.findings().filter(|known| known.partner == *partner);
    let known = known.filter(|known| !changes.contains_key(&known.finding_id));
    for finding in known.chain(changes.values()) {
        let by_this = finding.run.as_deref() == moment.run && moment.run.is_some();
        let of_day = finding.day == moment.day;
        match finding.status {
            FindingStatus::Open => {
                counts.opened += u64::from(by_this);
                counts.open += u64::from(of_day && finding.severity > Severity::Info);
            }
            FindingStatus::Cleared => counts.cleared += u64::from(by_this),
            FindingStatus::Decided => counts.decided += u64::from(of_day),
        }
    }
    counts
}
