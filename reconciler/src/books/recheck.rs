//! Owns the second look at findings that stand: when the order has changed since, it is compared again with the lines the
//! finding carries. So a finding clears by itself once a notice or a query's answer has mended its cause.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use payfold_partners::profile::Profile;
use payfold_schemas::finding::{BookLine, Code, FindingChanged, FindingStatus};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use payfold_schemas::time::Time;

use super::BooksError;
use super::compare::compare;
use super::conclude::{as_known, group};
use super::day::{by, rules, tell};
use super::desk::Books;
use super::found::{Found, LINES_MAX, Subject};
use super::judge::{By, groups_of};
use super::ledger::Ledger;
use super::orders::date_refunds;
use super::ours::OurOrder;
use super::settle::{self, Moment};
use super::siblings;
use crate::run::Shared;

/// The versions of the orders that were looked at.
#[derive(Debug, Default)]
pub(crate) struct Recheck {
    versions: HashMap<OrderKey, u64>,
}

impl Recheck {
    /// Looks at every order with a finding that stands, if it has changed since the last look.
    pub(crate) async fn look(
        &mut self,
        shared: &Shared,
        books: &Books,
        ledger: &mut Ledger,
    ) -> Result<(), BooksError> {
        let standing = standing(ledger);
        let keys: Vec<OrderKey> = standing.keys().cloned().collect();
        self.versions.retain(|key, _| standing.contains_key(key));
        for page in keys.chunks(shared.settings.page_entries) {
            for order in shared.load(page).await?.into_iter().flatten() {
                let seen = self.versions.insert(order.key.clone(), order.version);
                if seen == Some(order.version) {
                    continue;
                }
                let Some(findings) = standing.get(&order.key) else { continue };
                let changes = again(shared, books, ledger, (&order, findings)).await?;
                tell(shared, ledger, changes, shared.clock.now()).await?;
            }
        }
        attempts(shared, ledger).await
    }
}

/// Looks at references of which two attempts were paid: giving one back mends that.
async fn attempts(shared: &Shared, ledger: &mut Ledger) -> Result<(), BooksError> {
    let stands = |known: &&FindingChanged| {
        known.code == Code::ReferencePaidTwice && known.status != FindingStatus::Cleared
    };
    let standing: Vec<_> = ledger.findings().filter(stands).cloned().collect();
    let at = shared.clock.now();
    for known in standing {
        let moment = Moment { day: &known.day, run: None, at };
        let change = match siblings::again(shared, &known).await? {
            None => settle::gone(&known, moment),
            Some(found) => settle::found(Some(&known), found, moment),
        };
        tell(shared, ledger, change.into_iter().collect(), at).await?;
    }
    Ok(())
}

/// The findings that stand and carry all they stand on, by order.
fn standing(ledger: &Ledger) -> BTreeMap<OrderKey, Vec<FindingChanged>> {
    let mut standing: BTreeMap<OrderKey, Vec<FindingChanged>> = BTreeMap::new();
    for known in ledger.findings() {
        let whole = known.status != FindingStatus::Cleared && known.lines.len() < LINES_MAX;
        let named = known.merchant_code.clone().zip(known.order_id.clone());
        let Some((merchant_code, order_id)) = named.filter(|_| whole) else { continue };
        let key = OrderKey { partner: known.partner.clone(), merchant_code, order_id };
        standing.entry(key).or_default().push(known.clone());
    }
    standing
}

/// Compares an order again with the lines of each day that has findings of it.
async fn again(
    shared: &Shared,
    books: &Books,
    ledger: &Ledger,
    (order, findings): (&Order, &[FindingChanged]),
) -> Result<Vec<FindingChanged>, BooksError> {
    let Some(profile) = profile(books, &order.key) else { return Ok(Vec::new()) };
    let mut ours = OurOrder::of(order);
    date_refunds(shared, &mut ours).await?;
    let mut days: Vec<&str> = findings.iter().map(|known| known.day.as_str()).collect();
    days.sort_unstable();
    days.dedup();
    let now = shared.clock.now();
    let mut changes = Vec::new();
    let by = profile.records().map_or(By::Order, by);
    for day in days {
        let of_day = || findings.iter().filter(|known| known.day == day);
        // Each with the lines it was compared with: where the records know no orders, ref by ref.
        let groups: BTreeSet<Vec<u8>> = of_day().filter_map(|known| group(known, by)).collect();
        for key in groups {
            let of_group: Vec<_> =
                of_day().filter(|known| group(known, by).as_ref() == Some(&key)).collect();
            // An order that the records name, and that does not know the ref, is not the one it is of.
            let is_of = |known: &&FindingChanged| names(order, by, known);
            let Some(ours) = part_of(by, &ours, &key).or_else(|| {
                let is_known = of_group.first().is_some_and(is_of);
                is_known.then(|| OurOrder { refs: Vec::new(), ..ours.clone() })
            }) else {
                continue;
            };
            let sides = (&*profile, &ours, &order.key);
            changes.extend(of_one_day(ledger, sides, (day, &of_group), now));
        }
    }
    Ok(changes)
}

/// Whether a finding is of this order: where records are matched by their refs, if its session has the ref.
fn names(order: &Order, by: By, known: &FindingChanged) -> bool {
    let mut sessions = order.facts.sessions.iter().map(|session| &session.content.provider_ref);
    by == By::Order || sessions.any(|named| Some(named) == known.payment_ref.as_ref())
}

/// What an order has of a group; none of a ref it does not know.
fn part_of(by: By, ours: &OurOrder, key: &[u8]) -> Option<OurOrder> {
    let parts = groups_of(by, ours.clone()).into_iter();
    let mut parts = parts.filter(|(of, _)| of.as_slice() == key).map(|(_, part)| part);
    parts.next()
}

fn profile(books: &Books, key: &OrderKey) -> Option<std::sync::Arc<Profile>> {
    let directory = books.directory.load();
    directory.profile_of(&key.partner).filter(|profile| profile.records().is_some()).cloned()
}

fn of_one_day(
    ledger: &Ledger,
    (profile, ours, key): (&Profile, &OurOrder, &OrderKey),
    (day, findings): (&str, &[&FindingChanged]),
    now: Time,
) -> Vec<FindingChanged> {
    let (Some(spec), Ok(date)) = (profile.records(), day.parse()) else { return Vec::new() };
    let rules = rules(spec, date, now);
    let mut lines: Vec<BookLine> =
        findings.iter().flat_map(|known| known.lines.iter().cloned()).collect();
    lines.sort_unstable();
    lines.dedup();
    let source = findings.first().map_or("", |known| known.partners.source.as_str());
    let subject = Subject {
        partner: &key.partner,
        merchant_code: &key.merchant_code,
        order_id: Some(&key.order_id),
        reference: ours.reference.as_ref(),
        file: source.rsplit_once(" line ").map_or(source, |(file, _)| file),
        lines: &lines,
    };
    let of_day = (&key.partner, day);
    let found: Vec<Found> = compare(Some(ours), &lines, &rules)
        .differences
        .into_iter()
        .filter_map(|difference| as_known(ledger, of_day, Found::of(&subject, difference)))
        .collect();
    let moment = Moment { day, run: None, at: now };
    let gone = findings
        .iter()
        .filter(|known| found.iter().all(|found| found.id != known.finding_id))
        .filter_map(|known| settle::gone(known, moment));
    let mut changes: Vec<FindingChanged> = gone.collect();
    changes.extend(
        found
            .into_iter()
            .filter_map(|found| settle::found(ledger.find(&found.id.clone()), found, moment)),
    );
    changes
}
