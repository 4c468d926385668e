//! Owns comparing the order store and the events in `orders` with a new fold of `intake`.
//!
//! Invariants: memory is bounded for any number of orders, because the log is read in several
//! passes, each for other orders; beside a running system it compares only what was folded when the
//! verification started.

use indicatif::ProgressBar;
use payfold_engines::EngineError;
use payfold_engines::log::walk::{self, Walk};
use payfold_engines::log::{Delivered, Topic};
use payfold_engines::orders::OrderStore;
use payfold_projector::batch::Orders;
use payfold_projector::fold;
use payfold_projector::refold::Refold;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use payfold_schemas::position::Position;
use payfold_schemas::record::{IntakeRecord, MARKER_KEY};

use crate::events::{Committed, EVENTS_PER_PASS, StoredEvents};
use crate::every_order::EveryOrder;
use crate::subject::Subject;
use crate::through::{Pass, Through, folded, in_pass};
use crate::verification::Verification;

const PAGE: usize = 5_000;
/// How many orders one pass folds, which bounds memory.
const ORDERS_PER_PASS: u64 = 200_000;

/// Folds the log again and compares orders and events of epoch `from` and later ones with it.
/// Errors: the engines'.
pub async fn verify(
    subject: &Subject,
    from: u32,
    progress: &ProgressBar,
) -> Result<Verification, EngineError> {
    let live = folded(&*subject.store).await?;
    let records = live.records();
    let committed = Committed::read(subject, live).await?;
    let mut verification = Verification::default();
    let orders = count_orders(&*subject.store).await?;
    let extents = subject.log.extent(Topic::Orders).await?;
    let events = extents.iter().map(|one| one.last.saturating_sub(one.first)).sum::<u64>();
    let passes = orders.div_ceil(ORDERS_PER_PASS).max(events.div_ceil(EVENTS_PER_PASS)).max(1);
    progress.set_length(records.saturating_add(events).saturating_mul(passes));
    for number in 0..passes {
        let pass = Pass { number, of: passes };
        let mut events =
            StoredEvents::read(subject, (pass, from), progress, &mut verification).await?;
        let intake = IntakePass { subject, pass, committed: &committed, progress };
        let world = intake.fold(&mut events, &mut verification).await?;
        events.report_unexpected(subject, &mut verification).await?;
        find_unknown_rows(subject, pass, (&world, &committed.live), &mut verification).await?;
        compare(subject, world, &committed.live, &mut verification).await?;
    }
    check_quarantine(subject, &mut verification).await?;
    Ok(verification)
}

async fn count_orders(store: &dyn OrderStore) -> Result<u64, EngineError> {
    let (mut orders, mut reading) = (0_usize, EveryOrder::of(store));
    while let Some(keys) = reading.next(PAGE).await? {
        orders += keys.len();
    }
    Ok(u64::try_from(orders).unwrap_or(u64::MAX))
}

/// One pass over `intake`, for the orders of the pass.
struct IntakePass<'a> {
    subject: &'a Subject,
    pass: Pass,
    committed: &'a Committed,
    progress: &'a ProgressBar,
}

impl IntakePass<'_> {
    /// Folds the pass's records, compares the events that they yield, and returns the orders in the
    /// state up to which the store is folded.
    async fn fold(
        &self,
        events: &mut StoredEvents,
        verification: &mut Verification,
    ) -> Result<Orders, EngineError> {
        let (subject, through) = (self.subject, &self.committed.live);
        let ends = walk::ends(&*subject.log, Topic::Intake).await?;
        for end in ends.iter().filter(|end| end.offset < through.offset(end.partition)) {
            let folded = Position { offset: through.offset(end.partition), ..*end };
            verification.differs(
                &"-",
                "log",
                &format!("folded to {folded}"),
                &format!("ends at {end}"),
            );
        }
        let mut refold = Refold::new(self.committed.drills.iter().copied());
        // Later records are folded into a separate state, because their events may be published
        // already.
        let (mut world, mut ahead) = (Orders::new(), Orders::new());
        let mut walk = Walk::to_the_end(&*subject.log, Topic::Intake).await?;
        while let Some(page) = walk.next(PAGE).await? {
            let (folded, later) = self.decode(&page, events, verification).await?;
            let mut expected = refold.fold(&mut world, folded);
            if !later.is_empty() {
                let published = world.iter().filter(|(key, _)| !ahead.contains_key(key));
                let published =
                    published.filter(|(key, _)| events.has_unexpected(&key.to_string()));
                let published: Vec<_> =
                    published.map(|(k, order)| (k.clone(), order.clone())).collect();
                ahead.extend(published);
                expected.extend(refold.fold(&mut ahead, later));
            }
            for event in &expected {
                if in_pass(&event.message.key, self.pass) {
                    events.expect(subject, (event, self.committed), verification).await?;
                }
            }
            self.progress.inc(u64::try_from(page.len()).unwrap_or(u64::MAX));
        }
        Ok(world)
    }

    /// Decodes the page's records that the store has folded, and later ones of orders with stored
    /// events that no record has yielded yet.
    async fn decode(
        &self,
        page: &[Delivered],
        events: &StoredEvents,
        verification: &mut Verification,
    ) -> Result<(Vec<PlacedRecord>, Vec<PlacedRecord>), EngineError> {
        let (mut folded, mut later) = (Vec::new(), Vec::new());
        for message in page {
            let (is_of_pass, is_marker) =
                (in_pass(&message.key, self.pass), message.key == MARKER_KEY);
            verification.records += u64::from(is_of_pass);
            if !is_of_pass && !is_marker {
                continue;
            }
            match message.intake_record() {
                Ok(record) => {
                    if self.committed.live.has(message.position) {
                        folded.push((message.position, record));
                    } else if is_marker || events.has_unexpected(&message.key) {
                        later.push((message.position, record));
                    }
                }
                Err(error) if is_of_pass => {
                    verification.add_unreadable(&*self.subject.log, message, &error).await?;
                }
                Err(_) => {}
            }
        }
        Ok((folded, later))
    }
}

/// A record and its position.
type PlacedRecord = (Position, IntakeRecord);

/// Finds rows of orders for which the log has no fact.
async fn find_unknown_rows(
    subject: &Subject,
    pass: Pass,
    (world, through): (&Orders, &Through),
    verification: &mut Verification,
) -> Result<(), EngineError> {
    let mut reading = EveryOrder::of(&*subject.store);
    while let Some(keys) = reading.next(PAGE).await? {
        let unknown = keys
            .into_iter()
            .filter(|key| in_pass(&key.to_string(), pass) && !world.contains_key(key));
        for order in subject.store.load(unknown.collect()).await?.into_iter().flatten() {
            if through.has(order.position) {
                verification.differs(&order.key, "row", &"there", &"the log has no fact of it");
            }
        }
    }
    Ok(())
}

async fn compare(
    subject: &Subject,
    world: Orders,
    through: &Through,
    verification: &mut Verification,
) -> Result<(), EngineError> {
    let world: Vec<_> = world.into_iter().collect();
    for chunk in world.chunks(PAGE) {
        let keys = chunk.iter().map(|(key, _)| key.clone()).collect();
        let rows = subject.store.load(keys).await?;
        for ((key, folded), row) in chunk.iter().zip(rows) {
            verification.orders += 1;
            match row {
                // Beside a running system a row may have been folded further since this started.
                Some(row) if !through.has(row.position) => {}
                Some(row) => compare_one(key, folded, &row, verification),
                None => verification.differs(key, "row", &"missing", &"there"),
            }
        }
    }
    Ok(())
}

fn compare_one(key: &OrderKey, folded: &Order, row: &Order, verification: &mut Verification) {
    let summary = fold::summarize(&folded.facts);
    if row.version != folded.version {
        verification.differs(key, "version", &row.version, &folded.version);
    }
    if row.summary.state != summary.state {
        verification.differs(key, "state", &row.summary.state, &summary.state);
    } else if row.summary != summary {
        verification.differs(key, "summary", &"another", &"differs in flags, amounts or refs");
    }
    if row.facts != folded.facts {
        verification.differs(key, "facts", &"another set", &"differs from the log");
    }
}

async fn check_quarantine(
    subject: &Subject,
    verification: &mut Verification,
) -> Result<(), EngineError> {
    let mut walk = Walk::to_the_end(&*subject.log, Topic::Quarantine).await?;
    while let Some(page) = walk.next(PAGE).await? {
        for message in &page {
            verification.records += 1;
            if let Err(error) = message.record() {
                verification.differs(&message.key, "quarantine record", &message.position, &error);
            }
        }
    }
    Ok(())
}
