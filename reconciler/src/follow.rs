//! Owns the reading of intake: the refs its records name are looked up in the by-ref view, and who shares one gets
//! K; sessions and create requests that are past their deadline when they come are looked at for X.
//!
//! Invariants: a batch is looked up only when the order store has folded it, so of two orders with one ref the
//! one that is folded later finds the other; a batch is acknowledged only when what it led to is durable. A crash
//! repeats what was not acknowledged: the same facts, or none.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use payfold_engines::log::{Delivered, Start, Subscription, Topic};
use payfold_engines::orders::Scan;
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::{MerchantCode, OrderKey, PartnerCode, ProviderRef};
use payfold_schemas::record::{FactRecord, Position};
use payfold_schemas::time::Time;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::books::nonces::{self, Used};
use crate::expiry::Expiry;
use crate::outage::Outage;
use crate::reading;
use crate::refs::{MUTUAL_MAX, missing, named};
use crate::run::{Halt, RunError, Shared, is_folded};
use crate::watermark::Watermark;

/// How many pairs of order and ref are remembered as looked up, some 4 MB; then all are forgotten.
const LOOKED_UP_MAX: usize = 1 << 16;
/// The pauses between two questions how far the fold has come.
const FOLD_PAUSE_MIN: Duration = Duration::from_millis(10);
const FOLD_PAUSE_MAX: Duration = Duration::from_millis(500);

/// A ref at an account.
type Named = (PartnerCode, MerchantCode, ProviderRef);

/// Reads until told to stop. Errors: a record that can't be read, once what came before it is done.
pub(crate) async fn run(shared: &Shared, expiry: &Mutex<Expiry>) -> Result<(), Halt> {
    let mut intake = subscribe(shared).await?;
    let mut follower = Follower::default();
    let ran = loop {
        let batch = tokio::select! {
            biased;
            () = shared.stopped() => break Ok(()),
            () = tokio::time::sleep_until(follower.ack_at), if !follower.done.is_empty() => {
                follower.ack(shared, &mut *intake).await?;
                continue;
            }
            batch = next_batch(shared, &mut *intake) => batch?,
        };
        match follower.take(shared, expiry, &batch).await {
            Ok(()) => {}
            Err(halt) => break Err(halt),
        }
    };
    if !follower.done.is_empty() {
        // What is not remembered now is only looked up again by the next run.
        let _ = intake.ack(follower.done).await;
    }
    ran
}

async fn subscribe(shared: &Shared) -> Result<Box<dyn Subscription>, Halt> {
    let group = &shared.settings.group;
    let ask = || shared.log.subscribe(Topic::Intake, group, Start::Group);
    shared.ask("subscribe to intake", ask).await
}

async fn next_batch(
    shared: &Shared,
    intake: &mut dyn Subscription,
) -> Result<Vec<Delivered>, Halt> {
    let mut outage = Outage::none(shared, "read intake");
    loop {
        match intake.next_batch(shared.settings.batch_records_max).await {
            Ok(batch) => {
                outage.over();
                return Ok(batch);
            }
            Err(error) => outage.wait(error).await?,
        }
    }
}

struct Follower {
    /// Digests of pairs of order and ref that were looked up. Two orders share a ref only by a pair that is new.
    looked_up: HashSet<Digest>,
    /// Done with up to here, and not acknowledged.
    done: Vec<Position>,
    ack_at: Instant,
}

impl Default for Follower {
    fn default() -> Self {
        Self { looked_up: HashSet::new(), done: Vec::new(), ack_at: Instant::now() }
    }
}

/// What a batch asks to be looked at.
#[derive(Default)]
struct Questions {
    /// The orders that name a ref, by ref, as far as the pair is new.
    refs: BTreeMap<Named, BTreeSet<OrderKey>>,
    /// Their digests.
    pairs: Vec<Digest>,
    /// Orders with a session or create request whose deadline has passed already.
    late: BTreeSet<OrderKey>,
    /// Nonces that have to be used once.
    nonces: Vec<Used>,
}

impl Questions {
    fn is_empty(&self) -> bool {
        self.refs.is_empty() && self.late.is_empty() && self.nonces.is_empty()
    }
}

impl Follower {
    async fn take(
        &mut self,
        shared: &Shared,
        expiry: &Mutex<Expiry>,
        batch: &[Delivered],
    ) -> Result<(), Halt> {
        begin(shared, batch);
        let (records, bad) = decode(shared, batch).await?;
        let read = bad.as_ref().map_or(batch, |(count, _)| &batch[..*count]);
        let questions = self.questions(&records, shared.clock.now());
        if !questions.is_empty() {
            let folded = folded_through(shared, &ends(read)).await?;
            look_at_late(shared, expiry, (questions.late, &folded)).await?;
            for (named, orders) in questions.refs {
                share(shared, named, orders).await?;
            }
            for used in questions.nonces {
                nonces::look(shared, used).await?;
            }
            self.looked_up.extend(questions.pairs);
        }
        self.finish(shared, ends(read));
        bad.map_or(Ok(()), |(_, error)| Err(Halt::Failed(error)))
    }

    fn questions(&mut self, records: &[FactRecord], now: Time) -> Questions {
        if self.looked_up.len() > LOOKED_UP_MAX {
            self.looked_up.clear();
        }
        let mut questions = Questions::default();
        for record in records {
            let order = &record.order;
            if deadline(&record.fact).is_some_and(|deadline| deadline < now) {
                questions.late.insert(order.clone());
            }
            questions.nonces.extend(Used::of(record));
            let Some(provider_ref) = named(record) else { continue };
            let pair = Digest::of_bytes(format!("{order}/{provider_ref}").as_bytes());
            if self.looked_up.contains(&pair) {
                continue;
            }
            questions.pairs.push(pair);
            let named = (order.partner.clone(), order.merchant_code.clone(), provider_ref.clone());
            questions.refs.entry(named).or_default().insert(order.clone());
        }
        questions
    }

    /// Everything up to these positions is done.
    fn finish(&mut self, shared: &Shared, through: Vec<Position>) {
        if self.done.is_empty() {
            self.ack_at = Instant::now() + shared.settings.ack_every;
        }
        let mut checked = shared.checked.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for position in through {
            self.done.retain(|done| done.partition != position.partition);
            self.done.push(position);
            checked.insert(position.partition, position.offset);
        }
    }

    async fn ack(&mut self, shared: &Shared, intake: &mut dyn Subscription) -> Result<(), Halt> {
        let mut outage = Outage::none(shared, "acknowledge intake");
        while let Err(error) = intake.ack(self.done.clone()).await {
            outage.wait(error).await?;
        }
        outage.over();
        self.done.clear();
        Ok(())
    }
}

/// Where the lag of a partition begins, the first time something of it is read.
fn begin(shared: &Shared, batch: &[Delivered]) {
    let mut checked = shared.checked.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for Delivered { position, .. } in batch {
        checked.entry(position.partition).or_insert(position.offset.saturating_sub(1));
    }
}

/// The facts of a batch up to the first record that can't be decoded, which is told with how many stand before it.
async fn decode(
    shared: &Shared,
    batch: &[Delivered],
) -> Result<(Vec<FactRecord>, Option<(usize, RunError)>), Halt> {
    let mut records = Vec::with_capacity(batch.len());
    for (before, message) in batch.iter().enumerate() {
        match reading::fact(shared, message).await {
            Ok(record) => records.extend(record),
            Err(Halt::Failed(error @ RunError::Undecodable { .. })) => {
                return Ok((records, Some((before, error))));
            }
            Err(halt) => return Err(halt),
        }
    }
    Ok((records, None))
}

/// The last position of each partition.
fn ends(batch: &[Delivered]) -> Vec<Position> {
    let ends: BTreeMap<u32, Position> =
        batch.iter().map(|delivered| (delivered.position.partition, delivered.position)).collect();
    ends.into_values().collect()
}

/// The deadline a fact sets.
fn deadline(fact: &Fact) -> Option<Time> {
    match fact {
        Fact::CreateRequested(create) => Some(create.deadline),
        Fact::SessionOpened(session) => Some(session.deadline),
        Fact::CreateFailed(_)
        | Fact::Ipn(_)
        | Fact::DeadlinePassed { .. }
        | Fact::QueryAnswered(_)
        | Fact::RefShared(_)
        | Fact::Decided(_) => None,
    }
}

/// Waits until the order store has folded all of it; returns how far that is.
async fn folded_through(shared: &Shared, through: &[Position]) -> Result<Vec<Position>, Halt> {
    let mut pause = FOLD_PAUSE_MIN;
    loop {
        let folded = shared.folded().await?;
        if through.iter().all(|position| is_folded(&folded, *position)) {
            return Ok(folded);
        }
        shared.pause(pause).await?;
        pause = pause.saturating_mul(2).min(FOLD_PAUSE_MAX);
    }
}

/// Looks for X at orders whose deadline had passed before their record came: the walk along the deadlines may
/// be past it. One that can't be judged yet lies after the low watermark, where the walk still comes by.
async fn look_at_late(
    shared: &Shared,
    expiry: &Mutex<Expiry>,
    (late, folded): (BTreeSet<OrderKey>, &[Position]),
) -> Result<(), Halt> {
    if late.is_empty() {
        return Ok(());
    }
    let watermark = Watermark::measure(shared).await?;
    let late: Vec<_> = late.into_iter().collect();
    for keys in late.chunks(shared.settings.page_entries) {
        let mut expiry = expiry.lock().await;
        expiry.forget(shared, folded);
        let entries = keys.iter().map(|key| (key.clone(), None)).collect();
        expiry.look(shared, entries, &watermark).await?;
    }
    Ok(())
}

/// Gives the orders of a ref the K they lack. `orders` named it just now.
async fn share(
    shared: &Shared,
    (partner, merchant_code, provider_ref): Named,
    mut orders: BTreeSet<OrderKey>,
) -> Result<(), Halt> {
    let scan = Scan::ProviderRef(partner, merchant_code, provider_ref.clone());
    // The first of the view, and in a crowd those of the batch behind them.
    let ask = || shared.store.scan(scan.clone(), None, MUTUAL_MAX);
    let page = shared.ask("look up a ref", ask).await?;
    let mut keys: Vec<_> = page.entries.into_iter().map(|(key, _)| key).collect();
    keys.iter().for_each(|key| {
        orders.remove(key);
    });
    keys.extend(orders);
    if keys.len() < 2 {
        return Ok(());
    }
    let rows: Vec<_> = shared.load(&keys).await?.into_iter().flatten().collect();
    let facts = missing(&rows, &provider_ref);
    for chunk in facts.chunks(shared.settings.page_entries) {
        shared.append(chunk.to_vec()).await?;
        shared.metrics.refs_shared(chunk.len());
    }
    Ok(())
}
