//! Owns the turn from one generation to another at the markers of a switch.
//!
//! Who was told until there folds up to the marker and holds. Who is told from there on waits for that, compares both, and
//! tells of each order it sees in another way, once; then it commits past the marker and goes on, and so does the other.
//! Invariants: at a marker both stand at the very same records, so the comparison depends on the log's prefix only and a
//! repeat after a crash tells the same bytes; nothing after a marker is told by whom it does not name; nobody waits for a
//! generation that is thrown away. No partition waits for another one's turn, so that no two projectors wait for each other:
//! whoever is told no more commits all its markers before it holds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use payfold_engines::generations::Journal;
use payfold_engines::log::epoch::current;
use payfold_engines::log::{Message, Topic};
use payfold_engines::orders::{Commit, Folded, OrderStore};

use super::outage::Outage;
use super::read::Stand;
use super::{Halt, Shared};
use crate::event::{Rebuilt, told};
use crate::rebuild::join::Join;

/// Between two looks how far the other generation has come.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Events published at once.
const EVENTS_AT_ONCE: usize = 1_000;

/// Passes the markers that all partitions stand before.
pub(super) async fn turn(shared: &Shared, stands: BTreeMap<u32, Stand>) -> Result<(), Halt> {
    let (gained, lost): (Vec<_>, Vec<_>) =
        stands.into_values().partition(|stand| shared.tells(stand.switch.publication));
    commit(shared, &lost).await?;
    hold(shared, &lost.iter().map(Stand::folded).collect::<Vec<_>>()).await?;
    let mut by_tables: BTreeMap<u32, Vec<Stand>> = BTreeMap::new();
    for stand in gained {
        by_tables.entry(stand.before.tables).or_default().push(stand);
    }
    for (tables, stands) in by_tables {
        if let Some(before) = peer(shared, tables).await? {
            wait_for(shared, &*before, &stands).await?;
            tell(shared, &*before, &stands).await?;
        }
        commit(shared, &stands).await?;
        tracing::info!(tables = shared.settings.tables, "this generation is told from here on");
    }
    Ok(())
}

/// Waits where another generation is told until that has taken over.
pub(super) async fn hold(shared: &Shared, folded: &[Folded]) -> Result<(), Halt> {
    for one in folded {
        let publication = one.publication;
        if shared.tells(publication) {
            continue;
        }
        while let Some(next) = peer(shared, publication.tables).await? {
            let passed = progress(shared, &*next).await?.iter().any(|other| {
                other.position.partition == one.position.partition
                    && other.publication.number >= publication.number
            });
            if passed {
                break;
            }
            shared.look_again().await?;
        }
    }
    Ok(())
}

impl Stand {
    /// The marker as the last record that was folded.
    fn folded(&self) -> Folded {
        let publication = self.switch.publication;
        let head = Some(self.head);
        Folded { publication, head, ..Folded::new(self.position, self.digest) }
    }
}

impl Shared {
    async fn look_again(&self) -> Result<(), Halt> {
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => Ok(()),
            () = self.stopped() => Err(Halt::Stopped),
        }
    }
}

/// Another generation of the store; none for one that is thrown away, and for this one.
async fn peer(shared: &Shared, tables: u32) -> Result<Option<Arc<dyn OrderStore>>, Halt> {
    if tables == shared.settings.tables {
        return Ok(None);
    }
    let journal = Journal::new(Arc::clone(&shared.store));
    let mut outage = Outage::none(shared, "read which generations there are");
    loop {
        let known = match journal.read().await {
            Ok(known) if known.get(tables).is_none() => return Ok(None),
            Ok(_) => shared.store.generation(tables).await,
            Err(error) => Err(error),
        };
        match known {
            Ok(store) => {
                outage.over();
                return Ok(Some(store));
            }
            Err(error) => outage.wait(error).await?,
        }
    }
}

async fn progress(shared: &Shared, store: &dyn OrderStore) -> Result<Vec<Folded>, Halt> {
    let mut outage = Outage::none(shared, "read how far another generation is folded");
    loop {
        match store.progress().await {
            Ok(progress) => {
                outage.over();
                return Ok(progress.map(|progress| progress.folded).unwrap_or_default());
            }
            Err(error) => outage.wait(error).await?,
        }
    }
}

/// Waits until another generation stands at these markers.
async fn wait_for(shared: &Shared, other: &dyn OrderStore, stands: &[Stand]) -> Result<(), Halt> {
    loop {
        let folded = progress(shared, other).await?;
        let stands_there = |stand: &Stand| {
            folded.iter().any(|one| {
                one.position.partition == stand.position.partition
                    && one.position.offset >= stand.position.offset
            })
        };
        if stands.iter().all(stands_there) {
            return Ok(());
        }
        shared.look_again().await?;
    }
}

async fn commit(shared: &Shared, stands: &[Stand]) -> Result<(), Halt> {
    if stands.is_empty() {
        return Ok(());
    }
    let folded: Vec<Folded> = stands.iter().map(Stand::folded).collect();
    let mut outage = Outage::none(shared, "commit a switch");
    loop {
        let commit =
            Commit { folded: folded.clone(), log_id: shared.log.id(), ..Commit::default() };
        match shared.store.commit(commit).await {
            Ok(()) => break,
            Err(error) => outage.wait(error).await?,
        }
    }
    outage.over();
    shared.status.advance(folded.iter().map(|one| one.position));
    Ok(())
}

/// Tells of each order of these partitions that this generation sees in another way than `before`.
async fn tell(shared: &Shared, before: &dyn OrderStore, stands: &[Stand]) -> Result<(), Halt> {
    let mut outage = Outage::none(shared, "compare two generations");
    loop {
        match tell_once(shared, before, stands).await {
            Ok(()) => {
                outage.over();
                return Ok(());
            }
            // From the beginning: what was told is told again with the same names.
            Err(error) => outage.wait(error).await?,
        }
    }
}

async fn tell_once(
    shared: &Shared,
    before: &dyn OrderStore,
    stands: &[Stand],
) -> Result<(), payfold_engines::EngineError> {
    let partitions = current(&shared.log.extent(Topic::Intake).await?);
    let first = partitions.iter().min().copied().unwrap_or_default();
    // What stands in partitions nobody appends to any more is the first one's to tell.
    let of = |partition: u32| if partitions.contains(&partition) { partition } else { first };
    let mut join = Join::new(before, &*shared.store, None);
    let (mut events, mut told_of, mut missing) = (Vec::new(), 0_u64, 0_u64);
    while let Some(pair) = join.next_unequal().await? {
        let (old, new) = (pair.live_order()?, pair.new_order()?);
        let Some(order) = &new else {
            missing = missing.saturating_add(1);
            continue;
        };
        let partition = of(order.position.partition);
        let Some(stand) = stands.iter().find(|one| one.position.partition == partition) else {
            continue;
        };
        if old.as_ref().is_some_and(|old| told(old) == told(order)) {
            continue;
        }
        let previous_state = old.map(|old| old.summary.state);
        let (switch, position) = (&stand.switch, stand.position);
        events.push(Rebuilt { order, previous_state, switch, position }.to_message());
        told_of = told_of.saturating_add(1);
        if events.len() >= EVENTS_AT_ONCE {
            publish(shared, &mut events).await?;
        }
    }
    publish(shared, &mut events).await?;
    if missing > 0 {
        tracing::warn!(orders = missing, "orders that were told before are not in this generation");
    }
    tracing::info!(orders = told_of, "told of orders that this generation sees in another way");
    Ok(())
}

async fn publish(
    shared: &Shared,
    events: &mut Vec<Message>,
) -> Result<(), payfold_engines::EngineError> {
    if !events.is_empty() {
        shared.log.append_all(Topic::Orders, std::mem::take(events)).await?;
    }
    Ok(())
}
