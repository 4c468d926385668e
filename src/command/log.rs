//! `payfold log stats|verify|park|accept-lost-claims|backup|restore`: how far the topics reach, whether the log is whole and what partners signed,
//! whether the orders follow from it, and copies of both.

mod backup;
mod chain;
mod events;
pub(crate) mod left_out;
mod lost_claims;
mod manifest;
mod park;
mod restore;
mod signatures;
mod state;
mod stats;

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use indicatif::ProgressBar;
use payfold_engines::generations::MARKER_KEY;
use payfold_engines::log::{Delivered, Topic};
use payfold_engines::orders::{Progress, Scan};
use payfold_projector::batch::Orders;
use payfold_projector::fold;
use payfold_projector::refold::Refold;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use payfold_schemas::record::{IntakeRecord, Parts, Position, Record, RecordError};
use payfold_schemas::time::Time;
use serde_json::json;

use self::events::{Committed, StoredEvents};
use self::left_out::LeftOut;
use super::block_on;
use crate::args::{Form, Global, LogCommand, OutputArgs, VerifyArgs};
use crate::error::DifferencesFound;
use crate::output::{self, Listing};
use crate::settings;
use crate::walk::{self, Walk};
use crate::wiring::Engines;

const DIFFERENCES: [&str; 4] = ["order", "field", "stored", "folded"];
const PAGE: usize = 5_000;
/// Orders folded at once: bounds memory whatever the number of orders.
const ORDERS_PER_PASS: u64 = 200_000;

/// Runs one of its commands.
pub fn run(global: &Global, command: &LogCommand) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    let settings = &loaded.settings;
    block_on(async {
        let engines = async || Engines::open_to_read(settings).await;
        match command {
            LogCommand::Stats { output } => stats::print(&engines().await?, output).await,
            LogCommand::Verify(VerifyArgs { state: true, output, .. }) => {
                state::print(&engines().await?, output).await
            }
            LogCommand::Verify(VerifyArgs { chain: true, heads, output, .. }) => {
                chain::verify(&engines().await?, heads, output).await
            }
            LogCommand::Verify(args @ VerifyArgs { signatures: true, .. }) => {
                signatures::verify(&engines().await?, &loaded, args).await
            }
            LogCommand::Verify(VerifyArgs { from_generation, output, .. }) => {
                let from = from_generation.unwrap_or(events::FIRST_GENERATION);
                verify(&engines().await?, from, output).await
            }
            LogCommand::Park(args) => park::run(settings, args).await,
            LogCommand::AcceptLostClaims(args) => lost_claims::run(settings, args).await,
            LogCommand::Backup { to, no_verify } => {
                let copy = backup::run(settings, to).await?;
                let output = OutputArgs { output: Form::Table };
                let from = events::FIRST_GENERATION;
                if *no_verify { Ok(()) } else { verify(&copy, from, &output).await }
            }
            LogCommand::Restore { from, claims, above } => {
                restore::run(settings, from, (claims.as_deref(), *above)).await
            }
        }
    })
}

/// How far each partition is folded.
struct Through(HashMap<u32, u64>);

impl Through {
    fn of(progress: Option<Progress>) -> Self {
        let positions = progress.into_iter().flat_map(|progress| progress.folded);
        Self(positions.map(|one| (one.position.partition, one.position.offset)).collect())
    }

    fn offset(&self, partition: u32) -> u64 {
        self.0.get(&partition).copied().unwrap_or(0)
    }

    fn has(&self, position: Position) -> bool {
        position.offset <= self.offset(position.partition)
    }
}

async fn folded(engines: &Engines) -> anyhow::Result<Through> {
    Ok(Through::of(engines.store()?.progress().await?))
}

/// What verifying found.
#[derive(Default)]
struct Verdict {
    records: u64,
    orders: u64,
    events: u64,
    /// Damaged records that a person has parked.
    parked: u64,
    /// Events that retention has removed from `orders`.
    removed: u64,
    /// Events of generations that are not judged.
    of_earlier_rules: u64,
    left_out: LeftOut,
    differences: Vec<[String; 4]>,
}

impl Verdict {
    fn differs(
        &mut self,
        order: &impl ToString,
        field: &str,
        stored: &impl ToString,
        folded: &impl ToString,
    ) {
        self.differences.push([
            order.to_string(),
            field.to_owned(),
            stored.to_string(),
            folded.to_string(),
        ]);
    }
}

impl Verdict {
    /// A record that can't be read: a difference, unless a person has parked it.
    async fn unreadable(
        &mut self,
        engines: &Engines,
        message: &Delivered,
        error: &RecordError,
    ) -> anyhow::Result<()> {
        if self.left_out.has(&*engines.log, message).await? {
            self.parked += 1;
        } else {
            self.differs(&message.key, "record", &message.position, error);
        }
        Ok(())
    }
}

async fn verify(engines: &Engines, from: u32, output: &OutputArgs) -> anyhow::Result<()> {
    let live = folded(engines).await?;
    let records = live.0.values().sum::<u64>();
    let committed = Committed::read(engines, live).await?;
    let mut verdict = Verdict::default();
    let orders = count_orders(engines).await?;
    let extents = engines.log.extent(Topic::Orders).await?;
    let events = extents.iter().map(|one| one.last.saturating_sub(one.first)).sum::<u64>();
    let passes = orders.div_ceil(ORDERS_PER_PASS).max(events.div_ceil(events::EVENTS_PER_PASS));
    let passes = passes.max(1);
    let steps = records.saturating_add(events).saturating_mul(passes);
    let progress = output::progress_bar(output.output, steps, "records and events");
    for pass in 0..passes {
        let pass = (pass, passes);
        let mut events = StoredEvents::read(engines, (pass, from), &progress, &mut verdict).await?;
        let reading = Reading { engines, pass, committed: &committed, progress: &progress };
        let world = reading.fold(&mut events, &mut verdict).await?;
        events.name_the_rest(engines, &mut verdict).await?;
        find_strangers(engines, pass, (&world, &committed.live), &mut verdict).await?;
        compare(engines, world, &committed.live, &mut verdict).await?;
    }
    progress.finish_and_clear();
    check_quarantine(engines, &mut verdict).await?;
    print(&verdict, output)
}

fn print(verdict: &Verdict, output: &OutputArgs) -> anyhow::Result<()> {
    let mut listing = Listing::new(output.output, &DIFFERENCES);
    for difference in &verdict.differences {
        let [order, field, stored, folded] = difference;
        let object = json!({ "order": order, "field": field, "stored": stored, "folded": folded });
        listing.row(difference.to_vec(), &object)?;
    }
    if !verdict.differences.is_empty() || output.output != Form::Table {
        listing.print()?;
    }
    let Verdict { records, orders, events, differences, .. } = verdict;
    let mut beside = String::new();
    for (count, what) in [
        (verdict.parked, "parked"),
        (verdict.removed, "events not judged: retention has removed them from `orders`"),
        (verdict.of_earlier_rules, "events not judged: of generations before --from-generation"),
    ] {
        if count > 0 {
            beside += &format!("; {count} {what}");
        }
    }
    output::error_line(&format!(
        "verified {records} records, {orders} orders, {events} events: {} differences{beside}",
        differences.len()
    ));
    if differences.is_empty() { Ok(()) } else { Err(DifferencesFound.into()) }
}

async fn count_orders(engines: &Engines) -> anyhow::Result<u64> {
    let (from, until) = (Time::from_unix_nanos(i64::MIN), Time::from_unix_nanos(i64::MAX));
    let (mut orders, mut after) = (0, None);
    loop {
        let page = engines.store()?.scan(Scan::Created { from, until }, after, PAGE).await?;
        orders += u64::try_from(page.entries.len())?;
        match page.next {
            Some(cursor) => after = Some(cursor),
            None => return Ok(orders),
        }
    }
}

fn in_pass(key: &str, (pass, passes): (u64, u64)) -> bool {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(key) % passes == pass
}

/// One reading of `intake`, for the orders of one pass.
struct Reading<'a> {
    engines: &'a Engines,
    pass: (u64, u64),
    committed: &'a Committed,
    progress: &'a ProgressBar,
}

impl Reading<'_> {
    /// Reads every record, compares the events the records yield, and returns the orders as far as the store has folded.
    async fn fold(
        &self,
        events: &mut StoredEvents,
        verdict: &mut Verdict,
    ) -> anyhow::Result<Orders> {
        let (engines, through) = (self.engines, &self.committed.live);
        let ends = walk::ends(&*engines.log, Topic::Intake).await?;
        for end in ends.iter().filter(|end| end.offset < through.offset(end.partition)) {
            let folded = Position { offset: through.offset(end.partition), ..*end };
            verdict.differs(&"-", "log", &format!("folded to {folded}"), &format!("ends at {end}"));
        }
        let mut refold = Refold::new(self.committed.drills.iter().copied());
        // What is not folded yet is folded apart, for the sake of events that are published already.
        let (mut world, mut ahead) = (Orders::new(), Orders::new());
        let mut walk = Walk::to_the_end(&*engines.log, Topic::Intake).await?;
        while let Some(page) = walk.next(PAGE).await? {
            let (folded, later) = self.decode(&page, events, verdict).await?;
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
                    events.expect(engines, (event, self.committed), verdict).await?;
                }
            }
            self.progress.inc(u64::try_from(page.len())?);
        }
        Ok(world)
    }

    /// The page's records that the store has folded, and later ones of orders that have events nobody expects yet.
    async fn decode(
        &self,
        page: &[Delivered],
        events: &StoredEvents,
        verdict: &mut Verdict,
    ) -> anyhow::Result<(Vec<Placed>, Vec<Placed>)> {
        let (mut folded, mut later) = (Vec::new(), Vec::new());
        for message in page {
            let (is_of_pass, is_marker) =
                (in_pass(&message.key, self.pass), message.key == MARKER_KEY);
            verdict.records += u64::from(is_of_pass);
            if !is_of_pass && !is_marker {
                continue;
            }
            match Record::decode(&message.value) {
                Ok(record) => {
                    let Some(record) = of_intake(record.parts) else { continue };
                    if self.committed.live.has(message.position) {
                        folded.push((message.position, record));
                    } else if is_marker || events.has_unexpected(&message.key) {
                        later.push((message.position, record));
                    }
                }
                Err(error) if is_of_pass => {
                    verdict.unreadable(self.engines, message, &error).await?;
                }
                Err(_) => {}
            }
        }
        Ok((folded, later))
    }
}

/// A record and where it stands.
type Placed = (Position, IntakeRecord);

fn of_intake(parts: Parts) -> Option<IntakeRecord> {
    match parts {
        Parts::Fact(fact) => Some(IntakeRecord::Fact(fact)),
        Parts::Switch(switch) => Some(IntakeRecord::Switch(switch)),
        Parts::Parked(parked) => Some(IntakeRecord::Parked(parked)),
        Parts::Quarantine(_) => None,
    }
}

/// Finds the rows of orders that the log has no fact of.
async fn find_strangers(
    engines: &Engines,
    pass: (u64, u64),
    (world, through): (&Orders, &Through),
    verdict: &mut Verdict,
) -> anyhow::Result<()> {
    let store = engines.store()?;
    let (from, until) = (Time::from_unix_nanos(i64::MIN), Time::from_unix_nanos(i64::MAX));
    let mut after = None;
    loop {
        let page = store.scan(Scan::Created { from, until }, after, PAGE).await?;
        let keys = page.entries.into_iter().map(|(key, _)| key);
        let unknown =
            keys.filter(|key| in_pass(&key.to_string(), pass) && !world.contains_key(key));
        for order in store.load(unknown.collect()).await?.into_iter().flatten() {
            if through.has(order.position) {
                verdict.differs(&order.key, "row", &"there", &"the log has no fact of it");
            }
        }
        match page.next {
            Some(cursor) => after = Some(cursor),
            None => return Ok(()),
        }
    }
}

async fn compare(
    engines: &Engines,
    world: Orders,
    through: &Through,
    verdict: &mut Verdict,
) -> anyhow::Result<()> {
    let world: Vec<_> = world.into_iter().collect();
    for chunk in world.chunks(PAGE) {
        let keys = chunk.iter().map(|(key, _)| key.clone()).collect();
        let rows = engines.store()?.load(keys).await?;
        for ((key, folded), row) in chunk.iter().zip(rows) {
            verdict.orders += 1;
            match row {
                // Beside a running system a row may have moved on since this began.
                Some(row) if !through.has(row.position) => {}
                Some(row) => compare_one(key, folded, &row, verdict),
                None => verdict.differs(key, "row", &"missing", &"there"),
            }
        }
    }
    Ok(())
}

fn compare_one(key: &OrderKey, folded: &Order, row: &Order, verdict: &mut Verdict) {
    let summary = fold::summarize(&folded.facts);
    if row.version != folded.version {
        verdict.differs(key, "version", &row.version, &folded.version);
    }
    if row.summary.state != summary.state {
        verdict.differs(key, "state", &row.summary.state, &summary.state);
    } else if row.summary != summary {
        verdict.differs(key, "summary", &"another", &"differs in flags, amounts or refs");
    }
    if row.facts != folded.facts {
        verdict.differs(key, "facts", &"another set", &"differs from the log");
    }
}

async fn check_quarantine(engines: &Engines, verdict: &mut Verdict) -> anyhow::Result<()> {
    let mut walk = Walk::from_the_start(&*engines.log, Topic::Quarantine).await?;
    while let Some(page) = walk.next(PAGE).await? {
        for message in &page {
            verdict.records += 1;
            if let Err(error) = Record::decode(&message.value) {
                verdict.differs(&message.key, "quarantine record", &message.position, &error);
            }
        }
    }
    Ok(())
}
