//! Owns what a run changes: which findings open, stay, clear and come back. Pure.
//!
//! What a run of a day may clear: findings of that day that it did not find again, if it could look at everything; and
//! whatever waited for a line that these records have. Other days' findings stay as they are.

use std::collections::{BTreeMap, HashSet};

use payfold_schemas::finding::{Code, FindingChanged, FindingStatus};
use payfold_schemas::ids::{PartnerCode, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::order::Severity;
use payfold_schemas::run::{FindingCounts, RunResult};

use super::found::{About, Found, what};
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

fn group(known: &FindingChanged, by: By) -> Option<Vec<u8>> {
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
    (partner, by): (&PartnerCode, By),
    result: RunResult,
    moment: Moment<'_>,
) -> (Vec<FindingChanged>, FindingCounts) {
    let mut changes: BTreeMap<String, FindingChanged> = BTreeMap::new();
    let mut seen: HashSet<String> = HashSet::new();
    let left_over = std::mem::take(&mut tally.left_over).into_iter();
    let left_over = left_over.filter_map(|found| Some((waited_for(ledger, &found)?, found)));
    let of_day = std::mem::take(&mut tally.found).into_iter().map(|found| (moment.day, found));
    for (day, found) in left_over.chain(of_day) {
        let found = as_known(ledger, found);
        seen.insert(found.id.clone());
        let known = ledger.find(&found.id);
        if let Some(change) = settle::found(known, found, Moment { day, ..moment }) {
            changes.insert(change.finding_id.clone(), change);
        }
    }
    for known in standing(ledger, partner) {
        // No records tell whether a nonce was used twice.
        if seen.contains(&known.finding_id) || known.code == Code::NonceReused {
            continue;
        }
        let examined = group(known, by).and_then(|key| tally.examined.get(&key));
        let of_day = known.day == moment.day;
        let complete = result == RunResult::Complete;
        let is_gone = match examined {
            Some(listed) if is_listed(known, listed) => of_day || is_waiting(known),
            Some(_) => (of_day && complete) || is_replaced(known, &seen),
            None => of_day && complete,
        };
        if is_gone && let Some(change) = settle::gone(known, moment) {
            changes.insert(change.finding_id.clone(), change);
        }
    }
    let counts = counts(ledger, &changes, (partner, moment.day));
    (changes.into_values().collect(), counts)
}

/// A payment of yesterday's end that neither day's records list is missing only if yesterday's run left it to today's:
/// the day it was left on.
fn waited_for<'a>(ledger: &'a Ledger, found: &Found) -> Option<&'a str> {
    let standing =
        |id: &str| ledger.find(id).filter(|known| known.status != FindingStatus::Cleared);
    let known = standing(&with_code(found, Code::CutOff)).or_else(|| standing(&found.id));
    known.map(|known| known.day.as_str())
}

/// A payment at the day's end that is known to be missing from the next day's records too is not waited for again.
pub(crate) fn as_known(ledger: &Ledger, found: Found) -> Found {
    if found.code != Code::CutOff {
        return found;
    }
    let missing = with_code(&found, Code::MissingThere);
    match ledger.find(&missing) {
        Some(known) if known.status != FindingStatus::Cleared => Found {
            id: missing,
            code: Code::MissingThere,
            evidence: known.evidence,
            at_risk: known.money_at_risk,
            ..found
        },
        Some(_) | None => found,
    }
}

fn with_code(found: &Found, code: Code) -> String {
    About { code: code.to_string(), ..found.about.clone() }.id()
}

/// Whether the records list the payment it is about.
fn is_listed(known: &FindingChanged, listed: &[(ProviderRef, Status)]) -> bool {
    listed.iter().any(|(named, _)| Some(named) == known.payment_ref.as_ref())
}

/// Whether it waits for the records of whatever day to list the payment.
fn is_waiting(known: &FindingChanged) -> bool {
    matches!(known.code, Code::MissingThere | Code::CutOff)
}

/// It waited for the next day's records, which don't list it either: another finding says so now.
fn is_replaced(known: &FindingChanged, seen: &HashSet<String>) -> bool {
    let missing = |status: &Status| {
        let about = About {
            partner: known.partner.clone(),
            merchant_code: known.merchant_code.clone(),
            order_id: known.order_id.clone(),
            provider_ref: known.payment_ref.clone(),
            code: Code::MissingThere.to_string(),
            what: what(known.field.as_deref().unwrap_or_default(), *status),
        };
        seen.contains(&about.id())
    };
    known.code == Code::CutOff && [Status::Success, Status::Refunded].iter().any(missing)
}

/// Of the partner's day, as they stand after these changes.
fn counts(
    ledger: &Ledger,
    changes: &BTreeMap<String, FindingChanged>,
    (partner, day): (&PartnerCode, &str),
) -> FindingCounts {
    let mut counts = FindingCounts::default();
    for change in changes.values() {
        match change.status {
            FindingStatus::Open => counts.opened += 1,
            FindingStatus::Cleared => counts.cleared += 1,
            FindingStatus::Decided => {}
        }
    }
    let known = standing(ledger, partner).filter(|known| !changes.contains_key(&known.finding_id));
    for finding in known.chain(changes.values()).filter(|finding| finding.day == day) {
        match finding.status {
            FindingStatus::Open if finding.severity > Severity::Info => counts.open += 1,
            FindingStatus::Decided => counts.decided += 1,
            FindingStatus::Open | FindingStatus::Cleared => {}
        }
    }
    counts
}
