//! Owns the second look at findings that stand: when the order has changed since, it is compared again with the lines the
//! finding carries. So a finding clears by itself once a notice or a query's answer has mended its cause.

use std::collections::{BTreeSet, HashMap};

use payfold_schemas::finding::{BookLine, Code, FindingChanged};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use payfold_schemas::time::Time;

use super::compare::compare;
use super::conclude::{as_known, group};
use super::day::tell;
use super::desk::Books;
use super::flag_check::Look;
use super::flag_days::{day_of_flags, is_closed};
use super::found::{Found, LINES_MAX, Subject};
use super::judge::{By, groups_of};
use super::ledger::Ledger;
use super::orders::date_refunds;
use super::ours::OurOrder;
use super::settle::{self, Moment};
use super::shelf::{ShelfError, Standing, Which};
use super::siblings;
use super::terms::Terms;
use super::{BooksError, terms};
use crate::run::Shared;

/// Looks at every order with a finding that stands, if it has changed since the last look.
pub(crate) async fn look(
    shared: &Shared,
    books: &Books,
    ledger: &mut Ledger,
) -> Result<(), BooksError> {
    let mut after = String::new();
    loop {
        let page = ledger.shelf().watched(&after, shared.settings.page_entries)?;
        let Some(last) = page.last() else { break };
        after.clone_from(&last.order);
        let looked: HashMap<OrderKey, Option<u64>> = page
            .iter()
            .filter_map(|watched| Some((OrderKey::parse(&watched.order).ok()?, watched.looked)))
            .collect();
        let mut keys: Vec<OrderKey> = looked.keys().cloned().collect();
        keys.sort_unstable();
        for order in shared.load(&keys).await?.into_iter().flatten() {
            if looked.get(&order.key) == Some(&Some(order.version)) {
                continue;
            }
            let standing = ledger.shelf().of_order(&order.key)?;
            let changes = again(shared, books, ledger, (&order, &standing)).await?;
            tell(shared, ledger, changes, shared.clock.now()).await?;
            ledger.shelf().looked(&order.key, order.version)?;
        }
    }
    attempts(shared, ledger).await
}

/// Looks at references of which two attempts were paid: giving one back mends that.
async fn attempts(shared: &Shared, ledger: &mut Ledger) -> Result<(), BooksError> {
    let (code, standing) = (Some(Code::ReferencePaidTwice), Some(Standing::All));
    let standing = ledger.findings(Which { code, standing, ..Which::default() });
    let standing = standing.collect::<Result<Vec<_>, _>>()?;
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

/// Compares an order again with the lines of each day that has findings of it, and looks at its flags.
async fn again(
    shared: &Shared,
    books: &Books,
    ledger: &Ledger,
    (order, standing): (&Order, &[FindingChanged]),
) -> Result<Vec<FindingChanged>, BooksError> {
    let Some(terms) = terms(books, &order.key.partner) else { return Ok(Vec::new()) };
    let mut ours = OurOrder::of(order.clone().into());
    date_refunds(shared, &mut ours).await?;
    let now = shared.clock.now();
    let mut changes = differences(ledger, (order, &ours), (&terms, standing), now)?;
    let day = day_of_flags(&ours, terms.zone, now).to_string();
    let is_closed = is_closed(ledger, &order.key.partner, &day);
    let look = Look { order, day: &day, is_closed, standing, changes: &changes };
    let of_flags = look.changes(ledger, now)?;
    changes.extend(of_flags);
    Ok(changes)
}

/// What of its differences is another one now.
fn differences(
    ledger: &Ledger,
    (order, ours): (&Order, &OurOrder),
    (terms, standing): (&Terms, &[FindingChanged]),
    now: Time,
) -> Result<Vec<FindingChanged>, BooksError> {
    // What does not carry all its lines can't be compared with them, and a flag has none.
    let is_compared =
        |known: &&FindingChanged| known.lines.len() < LINES_MAX && known.code != Code::OpenFlag;
    let findings: Vec<&FindingChanged> = standing.iter().filter(is_compared).collect();
    let mut days: Vec<&str> = findings.iter().map(|known| known.day.as_str()).collect();
    days.sort_unstable();
    days.dedup();
    let mut changes = Vec::new();
    let by = terms.by;
    for day in days {
        let of_day = || findings.iter().copied().filter(|known| known.day == day);
        // Each with the lines it was compared with: where the records know no orders, ref by ref.
        let groups: BTreeSet<Vec<u8>> = of_day().filter_map(|known| group(known, by)).collect();
        for key in groups {
            let of_group: Vec<_> =
                of_day().filter(|known| group(known, by).as_ref() == Some(&key)).collect();
            // An order that the records name, and that does not know the ref, is not the one it is of.
            let is_of = |known: &&FindingChanged| names(order, by, known);
            let Some(part) = part_of(by, ours, &key).or_else(|| {
                let is_known = of_group.first().is_some_and(is_of);
                is_known.then(|| OurOrder { refs: Vec::new(), ..ours.clone() })
            }) else {
                continue;
            };
            let sides = (terms, &part, &order.key);
            changes.extend(of_one_day(ledger, sides, (day, &of_group), now)?);
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

fn of_one_day(
    ledger: &Ledger,
    (terms, ours, key): (&Terms, &OurOrder, &OrderKey),
    (day, findings): (&str, &[&FindingChanged]),
    now: Time,
) -> Result<Vec<FindingChanged>, ShelfError> {
    let Ok(date) = day.parse() else { return Ok(Vec::new()) };
    let rules = terms.rules(date, now);
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
        day,
        file: source.rsplit_once(" line ").map_or(source, |(file, _)| file),
        lines: &lines,
    };
    let of_day = (&key.partner, day);
    let mut found = Vec::new();
    for difference in compare(Some(ours), &lines, &rules).differences {
        found.extend(as_known(ledger, of_day, Found::of(&subject, difference))?);
    }
    let moment = Moment { day, run: None, at: now };
    let gone = findings
        .iter()
        .filter(|known| found.iter().all(|found: &Found| found.id != known.finding_id))
        .filter_map(|known| settle::gone(known, moment));
    let mut changes: Vec<FindingChanged> = gone.collect();
    for found in found {
        changes.extend(settle::found(ledger.find(&found.id)?.as_ref(), found, moment));
    }
    Ok(changes)
}
