//! `payfold log stats|verify|park|accept-lost-claims|backup|restore`: how far the topics reach, whether the log is whole and what partners signed,
//! whether the orders follow from it, and copies of both.

mod backup;
mod chain;
mod left_out;
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
use payfold_engines::log::{Delivered, Topic};
use payfold_engines::orders::Scan;
use payfold_projector::fold::{self, Effect};
use payfold_schemas::event::OrderChanged;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::{KnownFacts, Order};
use payfold_schemas::record::{Parts, Position, Record, RecordError};
use payfold_schemas::time::Time;
use serde_json::json;

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
            LogCommand::Verify(VerifyArgs { signatures: true, profile, output, .. }) => {
                signatures::verify(&engines().await?, (&loaded, profile), output).await
            }
            LogCommand::Verify(VerifyArgs { output, .. }) => {
                verify(&engines().await?, output).await
            }
            LogCommand::Park(args) => park::run(settings, args).await,
            LogCommand::AcceptLostClaims { yes } => lost_claims::run(settings, *yes).await,
            LogCommand::Backup { to, no_verify } => {
                let copy = backup::run(settings, to).await?;
                let output = OutputArgs { output: Form::Table };
                if *no_verify { Ok(()) } else { verify(&copy, &output).await }
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
    fn offset(&self, partition: u32) -> u64 {
        self.0.get(&partition).copied().unwrap_or(0)
    }

    fn has(&self, position: Position) -> bool {
        position.offset <= self.offset(position.partition)
    }
}

async fn folded(engines: &Engines) -> anyhow::Result<Through> {
    let progress = engines.store()?.progress().await?;
    let positions = progress.into_iter().flat_map(|progress| progress.folded);
    Ok(Through(positions.map(|one| (one.position.partition, one.position.offset)).collect()))
}

/// An order as this command folds it: facts, version, and the last version published.
#[derive(Default)]
struct Folded {
    facts: KnownFacts,
    version: u64,
    published: u64,
    /// The number that was told last.
    generation: u32,
}

/// What verifying found.
#[derive(Default)]
struct Verdict {
    records: u64,
    orders: u64,
    events: u64,
    /// Damaged records that a person has parked.
    parked: u64,
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

async fn verify(engines: &Engines, output: &OutputArgs) -> anyhow::Result<()> {
    let through = folded(engines).await?;
    let mut verdict = Verdict::default();
    let orders = count_orders(engines).await?;
    let passes = orders.div_ceil(ORDERS_PER_PASS).max(1);
    let records = through.0.values().sum::<u64>();
    let progress = output::progress_bar(output.output, records.saturating_mul(passes), "records");
    for pass in 0..passes {
        let mut world =
            read_pass(engines, (pass, passes), (&through, &progress), &mut verdict).await?;
        read_events(engines, (pass, passes), (&mut world, &through), &mut verdict).await?;
        find_strangers(engines, (pass, passes), (&world, &through), &mut verdict).await?;
        compare(engines, world, &through, &mut verdict).await?;
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
    let Verdict { records, orders, events, parked, differences, .. } = verdict;
    let parked = if *parked == 0 { String::new() } else { format!("; {parked} parked") };
    output::error_line(&format!(
        "verified {records} records, {orders} orders, {events} events: {} differences{parked}",
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

/// Reads every record of this pass's orders, and folds them up to what the store has folded.
async fn read_pass(
    engines: &Engines,
    pass: (u64, u64),
    (through, progress): (&Through, &ProgressBar),
    verdict: &mut Verdict,
) -> anyhow::Result<HashMap<OrderKey, Folded>> {
    let mut world: HashMap<OrderKey, Folded> = HashMap::new();
    let ends = walk::ends(&*engines.log, Topic::Intake).await?;
    for end in ends.iter().filter(|end| end.offset < through.offset(end.partition)) {
        let folded = Position { offset: through.offset(end.partition), ..*end };
        verdict.differs(&"-", "log", &format!("folded to {folded}"), &format!("ends at {end}"));
    }
    let mut walk = Walk::to_the_end(&*engines.log, Topic::Intake).await?;
    while let Some(page) = walk.next(PAGE).await? {
        for message in page.iter().filter(|message| in_pass(&message.key, pass)) {
            match Record::decode(&message.value) {
                // What is not folded yet is only read: it may be the very record the projector stands at.
                Ok(record) if through.has(message.position) => {
                    fold_into(&mut world, message.position, record)
                }
                Ok(_) => {}
                Err(error) => verdict.unreadable(engines, message, &error).await?,
            }
            verdict.records += 1;
        }
        progress.inc(u64::try_from(page.len())?);
    }
    Ok(world)
}

fn fold_into(world: &mut HashMap<OrderKey, Folded>, position: Position, record: Record) {
    if let Parts::Fact(record) = record.parts {
        let folded = world.entry(record.order.clone()).or_default();
        let effect = fold::apply(&mut folded.facts, &record.fact, position);
        folded.version += u64::from(effect != Effect::Unchanged);
    }
}

/// Checks that each order's events count its versions from 1 without a gap, repeats aside.
async fn read_events(
    engines: &Engines,
    pass: (u64, u64),
    (world, through): (&mut HashMap<OrderKey, Folded>, &Through),
    verdict: &mut Verdict,
) -> anyhow::Result<()> {
    let mut walk = Walk::from_the_start(&*engines.log, Topic::Orders).await?;
    while let Some(page) = walk.next(PAGE).await? {
        for message in page.iter().filter(|message| in_pass(&message.key, pass)) {
            verdict.events += 1;
            let change: OrderChanged = serde_json::from_slice(&message.value)?;
            let Some(folded) = world.get_mut(&OrderKey::parse(&message.key)?) else {
                // What is not folded yet may be told already.
                if through.has(change.cause.position) {
                    let place = message.position;
                    verdict.differs(&message.key, "event", &place, &"the log has no fact of it");
                }
                continue;
            };
            // A rebuild may count other changes; what it tells first says where it goes on.
            let next = change.generation == folded.generation.max(1);
            folded.generation = change.generation.max(folded.generation);
            if next && change.version > folded.published + 1 {
                verdict.differs(
                    &message.key,
                    "event version",
                    &change.version,
                    &(folded.published + 1),
                );
            }
            folded.published = folded.published.max(change.version);
        }
    }
    Ok(())
}

/// Finds the rows of orders that the log has no fact of.
async fn find_strangers(
    engines: &Engines,
    pass: (u64, u64),
    (world, through): (&HashMap<OrderKey, Folded>, &Through),
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
    world: HashMap<OrderKey, Folded>,
    through: &Through,
    verdict: &mut Verdict,
) -> anyhow::Result<()> {
    let world: Vec<(OrderKey, Folded)> = world.into_iter().collect();
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

fn compare_one(key: &OrderKey, folded: &Folded, row: &Order, verdict: &mut Verdict) {
    let summary = fold::summarize(&folded.facts);
    if row.version != folded.version {
        verdict.differs(key, "version", &row.version, &folded.version);
    }
    if folded.published < row.version {
        verdict.differs(key, "published version", &folded.published, &row.version);
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
