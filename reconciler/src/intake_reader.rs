//! Owns the reading of intake. It looks up the provider refs of each record in the by-ref view and
//! appends `RefShared` facts to orders that share one. It also checks sessions and create requests
//! with a deadline that passed before they are read, because the scan of deadlines may be past it.
//! A record that can't be read ends the role.
//!
//! Invariants: a batch is looked up only when the order store has folded it, so of two orders with
//! one ref the order that is folded later finds the other. A batch is acknowledged only when every
//! fact it led to is durable. A crash repeats what was not acknowledged: it appends the same facts
//! or none.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use payfold_engines::log::{Delivered, Start, Subscription, Topic};
use payfold_engines::orders::Scan;
use payfold_kit::{Halt, RunError, is_folded};
use payfold_reconcile::nonces::{self, UsedNonce};
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::{MerchantCode, OrderKey, PartnerCode, ProviderRef};
use payfold_schemas::position::Position;
use payfold_schemas::record::FactRecord;
use payfold_schemas::time::Time;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::context::ReconcilerContext;
use crate::decode::decode_fact;
use crate::expiry::Expiry;
use crate::shared_refs::{MUTUAL_MAX, missing_facts, ref_of};

/// How many pairs of order and ref are remembered as looked up, some 4 MB. Beyond that all are
/// forgotten, and pairs are only looked up again.
const LOOKED_UP_MAX: usize = 1 << 16;
/// The first and the longest pause between two reads of how far the fold has come.
const FOLD_PAUSE_MIN: Duration = Duration::from_millis(10);
const FOLD_PAUSE_MAX: Duration = Duration::from_millis(500);

/// A provider ref at an account.
type AccountRef = (PartnerCode, MerchantCode, ProviderRef);

/// Reads intake until the role is signalled to stop. Errors: a record that can't be decoded, after
/// everything before it is handled.
pub(crate) async fn read_intake(
    context: &ReconcilerContext,
    expiry: &Mutex<Expiry>,
) -> Result<(), Halt> {
    let mut intake = subscribe(context).await?;
    let mut reader = IntakeReader::default();
    let ran = loop {
        let batch = tokio::select! {
            biased;
            () = context.storage.stopped() => break Ok(()),
            () = tokio::time::sleep_until(reader.ack_at), if !reader.done.is_empty() => {
                reader.ack_done(context, &mut *intake).await?;
                continue;
            }
            batch = next_batch(context, &mut *intake) => batch?,
        };
        match reader.handle_batch(context, expiry, &batch).await {
            Ok(()) => {}
            Err(halt) => break Err(halt),
        }
    };
    if !reader.done.is_empty() {
        // If this fails, the next run only looks the same records up again.
        let _ = intake.ack(reader.done).await;
    }
    ran
}

async fn subscribe(context: &ReconcilerContext) -> Result<Box<dyn Subscription>, Halt> {
    let group = &context.settings.group;
    let ask = || context.storage.log.subscribe(Topic::Intake, group, Start::Group);
    context.storage.ask("subscribe to intake", ask).await
}

async fn next_batch(
    context: &ReconcilerContext,
    intake: &mut dyn Subscription,
) -> Result<Vec<Delivered>, Halt> {
    let mut outage = context.storage.outage("read intake");
    loop {
        match intake.next_batch(context.settings.batch_records_max).await {
            Ok(batch) => {
                outage.over();
                return Ok(batch);
            }
            Err(error) => outage.wait(error).await?,
        }
    }
}

struct IntakeReader {
    /// Digests of the pairs of order and ref that were looked up. Two orders come to share a ref
    /// only by a pair that is new.
    looked_up: HashSet<Digest>,
    /// The last handled position of each partition, if it is not acknowledged yet.
    done: Vec<Position>,
    ack_at: Instant,
}

impl Default for IntakeReader {
    fn default() -> Self {
        Self { looked_up: HashSet::new(), done: Vec::new(), ack_at: Instant::now() }
    }
}

/// What has to be checked for a batch.
#[derive(Default)]
struct BatchChecks {
    /// The orders that name a ref, by ref, for pairs of order and ref that are new.
    refs: BTreeMap<AccountRef, BTreeSet<OrderKey>>,
    /// The digests of those pairs.
    pairs: Vec<Digest>,
    /// Orders with a session or create request with a deadline that has passed already.
    late: BTreeSet<OrderKey>,
    /// Nonces that may be used only once.
    nonces: Vec<UsedNonce>,
}

impl BatchChecks {
    fn is_empty(&self) -> bool {
        self.refs.is_empty() && self.late.is_empty() && self.nonces.is_empty()
    }
}

/// A batch as it was decoded.
struct DecodedBatch {
    /// The facts, up to the first record that can't be decoded.
    records: Vec<FactRecord>,
    /// How many messages precede the record that can't be decoded, and its error.
    undecodable: Option<(usize, RunError)>,
}

impl IntakeReader {
    async fn handle_batch(
        &mut self,
        context: &ReconcilerContext,
        expiry: &Mutex<Expiry>,
        batch: &[Delivered],
    ) -> Result<(), Halt> {
        start_lag(context, batch);
        let DecodedBatch { records, undecodable } = decode_batch(context, batch).await?;
        let read = undecodable.as_ref().map_or(batch, |(count, _)| &batch[..*count]);
        let checks = self.collect_checks(&records, context.storage.clock.now());
        if !checks.is_empty() {
            let folded = wait_until_folded(context, &last_positions(read)).await?;
            check_late_orders(context, expiry, checks.late, &folded).await?;
            for (account_ref, orders) in checks.refs {
                append_shared_refs(context, account_ref, orders).await?;
            }
            for used in checks.nonces {
                nonces::check_nonce(&context.storage, used).await?;
            }
            // Only now: a pair of a batch that was not finished has to be looked up again.
            self.looked_up.extend(checks.pairs);
        }
        self.mark_done(context, last_positions(read));
        undecodable.map_or(Ok(()), |(_, error)| Err(Halt::Failed(error)))
    }

    fn collect_checks(&mut self, records: &[FactRecord], now: Time) -> BatchChecks {
        if self.looked_up.len() > LOOKED_UP_MAX {
            self.looked_up.clear();
        }
        let mut checks = BatchChecks::default();
        for record in records {
            let order = &record.order;
            if deadline_of(&record.fact).is_some_and(|deadline| deadline < now) {
                checks.late.insert(order.clone());
            }
            checks.nonces.extend(UsedNonce::of(record));
            let Some(provider_ref) = ref_of(record) else { continue };
            let pair = Digest::of_bytes(format!("{order}/{provider_ref}").as_bytes());
            if self.looked_up.contains(&pair) {
                continue;
            }
            checks.pairs.push(pair);
            let account_ref =
                (order.partner.clone(), order.merchant_code.clone(), provider_ref.clone());
            checks.refs.entry(account_ref).or_default().insert(order.clone());
        }
        checks
    }

    /// Everything up to these positions is handled: they can be acknowledged.
    fn mark_done(&mut self, context: &ReconcilerContext, through: Vec<Position>) {
        if self.done.is_empty() {
            self.ack_at = Instant::now() + context.settings.ack_every;
        }
        let mut checked = context.checked();
        for position in through {
            self.done.retain(|done| done.partition != position.partition);
            self.done.push(position);
            checked.insert(position.partition, position.offset);
        }
    }

    async fn ack_done(
        &mut self,
        context: &ReconcilerContext,
        intake: &mut dyn Subscription,
    ) -> Result<(), Halt> {
        let mut outage = context.storage.outage("acknowledge intake");
        while let Err(error) = intake.ack(self.done.clone()).await {
            outage.wait(error).await?;
        }
        outage.over();
        self.done.clear();
        Ok(())
    }
}

/// Begins to count the lag of a partition at the first record that is read of it.
fn start_lag(context: &ReconcilerContext, batch: &[Delivered]) {
    let mut checked = context.checked();
    for Delivered { position, .. } in batch {
        checked.entry(position.partition).or_insert(position.offset.saturating_sub(1));
    }
}

async fn decode_batch(
    context: &ReconcilerContext,
    batch: &[Delivered],
) -> Result<DecodedBatch, Halt> {
    let mut records = Vec::with_capacity(batch.len());
    for (before, message) in batch.iter().enumerate() {
        match decode_fact(context, message).await {
            Ok(record) => records.extend(record),
            Err(Halt::Failed(error @ RunError::Undecodable { .. })) => {
                return Ok(DecodedBatch { records, undecodable: Some((before, error)) });
            }
            Err(halt) => return Err(halt),
        }
    }
    Ok(DecodedBatch { records, undecodable: None })
}

/// The last position of each partition.
fn last_positions(batch: &[Delivered]) -> Vec<Position> {
    let last: BTreeMap<u32, Position> =
        batch.iter().map(|delivered| (delivered.position.partition, delivered.position)).collect();
    last.into_values().collect()
}

/// The deadline a fact sets.
fn deadline_of(fact: &Fact) -> Option<Time> {
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

/// Waits until the order store has folded these positions; returns how far it has folded.
async fn wait_until_folded(
    context: &ReconcilerContext,
    through: &[Position],
) -> Result<Vec<Position>, Halt> {
    let mut pause = FOLD_PAUSE_MIN;
    loop {
        let folded = context.storage.folded().await?;
        if through.iter().all(|position| is_folded(&folded, *position)) {
            return Ok(folded);
        }
        context.storage.pause(pause).await?;
        pause = pause.saturating_mul(2).min(FOLD_PAUSE_MAX);
    }
}

/// Checks the orders with a deadline that had passed before their record was read: the scan of
/// deadlines may be past it. A deadline that can't be judged yet lies after the low watermark,
/// where the scan still finds it.
async fn check_late_orders(
    context: &ReconcilerContext,
    expiry: &Mutex<Expiry>,
    late: BTreeSet<OrderKey>,
    folded: &[Position],
) -> Result<(), Halt> {
    if late.is_empty() {
        return Ok(());
    }
    let watermark = context.watermark().await?;
    let late: Vec<_> = late.into_iter().collect();
    for keys in late.chunks(context.settings.page_entries) {
        let mut expiry = expiry.lock().await;
        expiry.forget_folded(context, folded);
        let entries = keys.iter().map(|key| (key.clone(), None)).collect();
        expiry.check_entries(context, entries, &watermark).await?;
    }
    Ok(())
}

/// Appends the `RefShared` facts that the orders of a ref lack. `orders` are those that named it in
/// this batch.
async fn append_shared_refs(
    context: &ReconcilerContext,
    account_ref: AccountRef,
    mut orders: BTreeSet<OrderKey>,
) -> Result<(), Halt> {
    let (partner, merchant_code, provider_ref) = account_ref;
    let scan = Scan::ProviderRef(partner, merchant_code, provider_ref.clone());
    let ask = || context.storage.store.scan(scan.clone(), None, MUTUAL_MAX);
    let page = context.storage.ask("look up a ref", ask).await?;
    // The first orders of the view, then those of the batch: if many orders share the ref, the
    // batch's may lie beyond the page.
    let mut keys: Vec<_> = page.entries.into_iter().map(|(key, _)| key).collect();
    keys.iter().for_each(|key| {
        orders.remove(key);
    });
    keys.extend(orders);
    if keys.len() < 2 {
        return Ok(());
    }
    let rows: Vec<_> = context.storage.load(&keys).await?.into_iter().flatten().collect();
    let facts = missing_facts(&rows, &provider_ref);
    for chunk in facts.chunks(context.settings.page_entries) {
        context.storage.append(chunk.to_vec()).await?;
        context.metrics.count_refs_shared(chunk.len());
    }
    Ok(())
}
