//! Owns the recheck of uncleared findings: if the order has changed since the last recheck, the
//! order is compared again with the lines that the finding carries. So a finding is cleared without
//! a run once a notice or a query's answer has removed its cause.

use std::collections::{BTreeSet, HashMap};

use payfold_schemas::finding::{BookLine, Code, FindingChanged};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use payfold_schemas::time::Time;

use super::compare::compare;
use super::comparer::{MatchKey, groups_of};
use super::conclusion::{group_key_of, waiting_id};
use super::detected_finding::{DetectedFinding, DoubledFinding, FindingContext, LINES_MAX};
use super::error::ReconcileError;
use super::findings_store::{FindingFilter, FindingsStoreError, StatusFilter};
use super::flag_check::FlagRecheck;
use super::flag_days::{day_of_flags, is_closed};
use super::ledger::Ledger;
use super::orders::date_refunds;
use super::other_days::{ListedItem, OtherRecords};
use super::ours::OurOrder;
use super::paid_twice;
use super::publish::publish_findings;
use super::setup::ReconcileSetup;
use super::terms::PartnerTerms;
use super::transition::{self, ChangeMoment};
use crate::shared::SharedContext;

/// Rechecks every order with an uncleared finding that has changed since its last recheck.
pub(crate) async fn recheck_changed_orders(
    shared: &SharedContext,
    setup: &ReconcileSetup,
    ledger: &mut Ledger,
) -> Result<(), ReconcileError> {
    let mut after = String::new();
    loop {
        let page =
            ledger.findings_store().orders_to_recheck(&after, shared.settings.page_entries)?;
        let Some(last) = page.last() else { break };
        after.clone_from(&last.order);
        let checked: HashMap<OrderKey, Option<u64>> = page
            .iter()
            .filter_map(|to_recheck| {
                Some((OrderKey::parse(&to_recheck.order).ok()?, to_recheck.checked_version))
            })
            .collect();
        let mut keys: Vec<OrderKey> = checked.keys().cloned().collect();
        keys.sort_unstable();
        for order in shared.storage.load(&keys).await?.into_iter().flatten() {
            if checked.get(&order.key) == Some(&Some(order.version)) {
                continue;
            }
            let uncleared = ledger.findings_store().of_order(&order.key)?;
            let changes = recheck_order(shared, setup, ledger, (&order, &uncleared)).await?;
            publish_findings(shared, ledger, changes, shared.storage.clock.now()).await?;
            // After the publication: a crash between the two rechecks the order once more.
            ledger.findings_store().mark_checked(&order.key, order.version)?;
        }
    }
    recheck_paid_twice(shared, ledger).await
}

/// Rechecks references with two paid attempts: a refund of one clears the finding.
async fn recheck_paid_twice(
    shared: &SharedContext,
    ledger: &mut Ledger,
) -> Result<(), ReconcileError> {
    let (code, status) = (Some(Code::ReferencePaidTwice), Some(StatusFilter::Uncleared));
    let findings = ledger.findings(FindingFilter { code, status, ..FindingFilter::default() });
    let findings = findings.collect::<Result<Vec<_>, _>>()?;
    let at = shared.storage.clock.now();
    for known in findings {
        let moment = ChangeMoment { day: &known.day, run: None, at };
        let change = match paid_twice::redetect_paid_twice(shared, &known).await? {
            None => transition::clear_finding(&known, moment),
            Some(found) => transition::open_finding(Some(&known), found, moment),
        };
        publish_findings(shared, ledger, change.into_iter().collect(), at).await?;
    }
    Ok(())
}

/// Compares an order again with the lines of each day that has findings of it, and rechecks its
/// flag findings.
async fn recheck_order(
    shared: &SharedContext,
    setup: &ReconcileSetup,
    ledger: &Ledger,
    (order, uncleared): (&Order, &[FindingChanged]),
) -> Result<Vec<FindingChanged>, ReconcileError> {
    let Some(terms) = setup.terms(&order.key.partner) else { return Ok(Vec::new()) };
    let mut ours = OurOrder::of(order.clone().into());
    date_refunds(shared, &mut ours).await?;
    let now = shared.storage.clock.now();
    let mut changes = differences(ledger, (order, &ours), (&terms, uncleared), now)?;
    let day = day_of_flags(&ours, terms.zone, now).to_string();
    let is_closed = is_closed(ledger, &order.key.partner, &day);
    let recheck = FlagRecheck { order, day: &day, is_closed, uncleared, changes: &changes };
    let of_flags = recheck.changes(ledger, now)?;
    changes.extend(of_flags);
    Ok(changes)
}

/// The changes of the order's differences.
fn differences(
    ledger: &Ledger,
    (order, ours): (&Order, &OurOrder),
    (terms, uncleared): (&PartnerTerms, &[FindingChanged]),
    now: Time,
) -> Result<Vec<FindingChanged>, ReconcileError> {
    // A finding that carries only some of its lines can't be compared with them, and a flag finding
    // has none.
    let is_compared = |known: &&FindingChanged| {
        known.lines.len() < LINES_MAX
            && known.code != Code::OpenFlag
            && cites_its_own_day(ledger, known)
    };
    let findings: Vec<&FindingChanged> = uncleared.iter().filter(is_compared).collect();
    let mut days: Vec<&str> = findings.iter().map(|known| known.day.as_str()).collect();
    days.sort_unstable();
    days.dedup();
    let mut changes = Vec::new();
    let by = terms.by;
    for day in days {
        let of_day = || findings.iter().copied().filter(|known| known.day == day);
        // Each group is compared with its own lines: ref by ref if the records name no orders.
        let groups: BTreeSet<Vec<u8>> =
            of_day().filter_map(|known| group_key_of(known, by)).collect();
        for key in groups {
            let of_group: Vec<_> =
                of_day().filter(|known| group_key_of(known, by).as_ref() == Some(&key)).collect();
            // If the order does not know the group's ref, the finding may be of another order; if
            // it is of this one, it is compared without refs.
            let belongs_to_order = |known: &&FindingChanged| is_finding_of(order, by, known);
            let Some(part) = part_of(by, ours, &key).or_else(|| {
                let is_known = of_group.first().is_some_and(belongs_to_order);
                is_known.then(|| OurOrder { refs: Vec::new(), ..ours.clone() })
            }) else {
                continue;
            };
            let group =
                RecheckGroup { terms, ours: &part, key: &order.key, day, findings: &of_group };
            changes.extend(compare_group(ledger, &group, now)?);
        }
    }
    Ok(changes)
}

/// Whether a finding cites the records of its own day. What is missing at a day's end is found by
/// the run of the day after, and cites that day's lines. Once a person has decided on a missing
/// payment, nothing says which run has found it.
fn cites_its_own_day(ledger: &Ledger, known: &FindingChanged) -> bool {
    match ledger.day_of_run(known) {
        Some(day) => day == known.day,
        None => known.code != Code::MissingThere,
    }
}

/// Whether a finding is of this order. Always true if records are matched by order; else true if a
/// session of the order has the finding's ref.
fn is_finding_of(order: &Order, by: MatchKey, known: &FindingChanged) -> bool {
    let mut sessions = order.facts.sessions.iter().map(|session| &session.content.provider_ref);
    by == MatchKey::Order || sessions.any(|named| Some(named) == known.payment_ref.as_ref())
}

/// The part of an order that belongs to a group; `None` for a ref the order does not know.
fn part_of(by: MatchKey, ours: &OurOrder, key: &[u8]) -> Option<OurOrder> {
    let parts = groups_of(by, ours.clone()).into_iter();
    let mut parts = parts.filter(|(of, _)| of.as_slice() == key).map(|(_, part)| part);
    parts.next()
}

/// The uncleared findings of one order, or of one ref of it, on one day.
struct RecheckGroup<'a> {
    terms: &'a PartnerTerms,
    ours: &'a OurOrder,
    key: &'a OrderKey,
    day: &'a str,
    findings: &'a [&'a FindingChanged],
}

/// Compares a group again and returns the changes of its findings.
fn compare_group(
    ledger: &Ledger,
    group: &RecheckGroup<'_>,
    now: Time,
) -> Result<Vec<FindingChanged>, FindingsStoreError> {
    let RecheckGroup { terms, ours, key, day, findings } = *group;
    let Ok(date) = day.parse() else { return Ok(Vec::new()) };
    let rules = terms.rules(date, now);
    let mut lines: Vec<BookLine> =
        findings.iter().flat_map(|known| known.lines.iter().cloned()).collect();
    lines.sort_unstable();
    lines.dedup();
    let source = findings.first().map_or("", |known| known.partners.source.as_str());
    let subject = FindingContext {
        partner: &key.partner,
        merchant_code: &key.merchant_code,
        order_id: Some(&key.order_id),
        reference: ours.reference.as_ref(),
        day,
        file: source.rsplit_once(" line ").map_or(source, |(file, _)| file),
        lines: &lines,
    };
    let days = ledger.other_days(&key.partner);
    let waiting = findings.iter().filter_map(|known| waiting_id(known)).collect();
    let ids = |item: &ListedItem| subject.ids_of(item);
    let (days, waiting) = (&days, &waiting);
    let others = OtherRecords { day: date, days, waiting, ids: &ids, is_watched: true };
    let outcome = compare(Some(ours), &lines, &rules, Some(others));
    let mut found: Vec<DetectedFinding> =
        outcome.differences.into_iter().map(|found| DetectedFinding::of(&subject, found)).collect();
    // What is known stays, a double or what the line is otherwise; a run finds the others.
    let doubled = outcome.doubled.into_iter().map(|doubled| DoubledFinding::of(&subject, doubled));
    let is_known = |found: &DetectedFinding| findings.iter().any(|f| f.finding_id == found.id);
    found.extend(doubled.filter_map(|doubled| doubled.known(day, is_known)));
    let moment = ChangeMoment { day, run: None, at: now };
    let gone = findings
        .iter()
        .filter(|known| found.iter().all(|found: &DetectedFinding| found.id != known.finding_id))
        .filter_map(|known| transition::clear_finding(known, moment));
    let mut changes: Vec<FindingChanged> = gone.collect();
    for found in found {
        changes.extend(transition::open_finding(ledger.find(&found.id)?.as_ref(), found, moment));
    }
    Ok(changes)
}
