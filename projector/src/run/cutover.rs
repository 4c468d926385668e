//! Owns the cutover from one build to another at the markers of a switch, partition by partition.
//!
//! In each partition the outgoing build folds up to the marker, commits it, and waits. The incoming
//! build polls the outgoing build's progress until that has reached the marker. It then compares
//! both builds and publishes each order with other published fields, once. It commits past the
//! marker and goes on, and then the outgoing build goes on, too.
//!
//! Invariants:
//! - At a marker both builds have folded the same records. So the comparison depends on the log's
//!   prefix only, and a repeat after a crash publishes the same bytes.
//! - A build publishes nothing after a marker that names another build.
//! - No build waits for a build that is dropped.
//! - No partition waits for the cutover of another partition, so two projectors never wait for each
//!   other. The outgoing build commits every marker it has reached before it waits. The incoming
//!   build takes over each partition as soon as the outgoing build has reached its marker. The
//!   outgoing build may wait while it owns some partitions only, and be assigned the others later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use payfold_engines::log::epoch::current;
use payfold_engines::log::{Message, Topic};
use payfold_engines::orders::{Commit, Folded, OrderStore};

use super::error::Halt;
use super::read::ReachedMarker;
use super::shared::Shared;
use crate::event::{RebuiltOrder, published_fields};
use crate::journal::Journal;
use crate::rebuild::build_join::BuildJoin;

/// The pause between two reads of the other build's progress.
const POLL_EVERY: Duration = Duration::from_millis(100);

/// Events appended at once.
const EVENTS_AT_ONCE: usize = 1_000;

/// Passes the markers that these partitions have reached. The projector's other partitions are past
/// them or halted.
pub(super) async fn pass_markers(
    shared: &Shared,
    markers: BTreeMap<u32, ReachedMarker>,
) -> Result<(), Halt> {
    let (incoming, outgoing): (Vec<_>, Vec<_>) =
        markers.into_values().partition(|marker| shared.publishes(marker.switch.publication));
    commit(shared, &outgoing).await?;
    let folded: Vec<_> = outgoing.iter().map(ReachedMarker::folded).collect();
    wait_for_incoming(shared, &folded).await?;
    let mut by_build: BTreeMap<u32, Vec<ReachedMarker>> = BTreeMap::new();
    for marker in incoming {
        by_build.entry(marker.before.build).or_default().push(marker);
    }
    let journal = Journal::new(Arc::clone(&shared.store));
    for (build, mut waiting) in by_build {
        if let Some(before) = open_other_build(shared, &journal, build).await? {
            while !waiting.is_empty() {
                let ready = take_ready(shared, &*before, &mut waiting).await?;
                publish_differences(shared, &*before, &ready).await?;
                commit(shared, &ready).await?;
            }
        }
        commit(shared, &waiting).await?;
        tracing::info!(build = shared.settings.build, "this build is published from here on");
    }
    Ok(())
}

/// Waits in each partition with a last marker that names another build, until that build has passed
/// the marker.
pub(super) async fn wait_for_incoming(shared: &Shared, folded: &[Folded]) -> Result<(), Halt> {
    let journal = Journal::new(Arc::clone(&shared.store));
    for one in folded {
        let publication = one.publication;
        if shared.publishes(publication) {
            continue;
        }
        while let Some(incoming) = open_other_build(shared, &journal, publication.build).await? {
            let passed = load_folded(shared, &*incoming).await?.iter().any(|other| {
                other.position.partition == one.position.partition
                    && other.publication.epoch >= publication.epoch
            });
            if passed {
                break;
            }
            shared.pause_before_poll().await?;
        }
    }
    Ok(())
}

impl ReachedMarker {
    /// The marker as the last record that was folded.
    fn folded(&self) -> Folded {
        let publication = self.switch.publication;
        let head = Some(self.head);
        Folded { publication, head, ..Folded::new(self.position, self.digest) }
    }
}

impl Shared {
    async fn pause_before_poll(&self) -> Result<(), Halt> {
        tokio::select! {
            () = tokio::time::sleep(POLL_EVERY) => Ok(()),
            () = self.stopped() => Err(Halt::Stopped),
        }
    }
}

/// Opens another build of the store; `None` for a dropped build and for this projector's own.
async fn open_other_build(
    shared: &Shared,
    journal: &Journal,
    build: u32,
) -> Result<Option<Arc<dyn OrderStore>>, Halt> {
    if build == shared.settings.build {
        return Ok(None);
    }
    let mut outage = shared.outage("read which builds there are");
    loop {
        let opened = match journal.read().await {
            Ok(known) if known.get(build).is_none() => return Ok(None),
            Ok(_) => shared.store.build(build).await,
            Err(error) => Err(error),
        };
        match opened {
            Ok(store) => {
                outage.over();
                return Ok(Some(store));
            }
            Err(error) => outage.wait(error).await?,
        }
    }
}

/// The last folded record of each partition in a build's store.
async fn load_folded(shared: &Shared, store: &dyn OrderStore) -> Result<Vec<Folded>, Halt> {
    let outage = shared.outage("read how far another build is folded");
    let progress = outage.ask(|| store.progress()).await?;
    Ok(progress.map(|progress| progress.folded).unwrap_or_default())
}

/// Waits until another build has reached at least one of these markers; takes those out and
/// returns them.
async fn take_ready(
    shared: &Shared,
    other: &dyn OrderStore,
    waiting: &mut Vec<ReachedMarker>,
) -> Result<Vec<ReachedMarker>, Halt> {
    loop {
        let folded = load_folded(shared, other).await?;
        let has_reached = |marker: &ReachedMarker| {
            folded.iter().any(|one| {
                one.position.partition == marker.position.partition
                    && one.position.offset >= marker.position.offset
            })
        };
        let ready: Vec<ReachedMarker>;
        (ready, *waiting) = std::mem::take(waiting).into_iter().partition(has_reached);
        if !ready.is_empty() {
            return Ok(ready);
        }
        shared.pause_before_poll().await?;
    }
}

async fn commit(shared: &Shared, markers: &[ReachedMarker]) -> Result<(), Halt> {
    if markers.is_empty() {
        return Ok(());
    }
    let folded: Vec<Folded> = markers.iter().map(ReachedMarker::folded).collect();
    let commit = Commit { folded: folded.clone(), log_id: shared.log.id(), ..Commit::default() };
    shared.outage("commit a switch").ask(|| shared.store.commit(commit.clone())).await?;
    shared.status.advance(folded.iter().map(|one| one.position));
    Ok(())
}

/// Publishes each order of these partitions that has other published fields in this build than in
/// `before`.
async fn publish_differences(
    shared: &Shared,
    before: &dyn OrderStore,
    markers: &[ReachedMarker],
) -> Result<(), Halt> {
    let mut outage = shared.outage("compare two builds");
    loop {
        match try_publish_differences(shared, before, markers).await {
            Ok(()) => {
                outage.over();
                return Ok(());
            }
            // The retry starts over. Events that were published before have the same ids.
            Err(error) => outage.wait(error).await?,
        }
    }
}

async fn try_publish_differences(
    shared: &Shared,
    before: &dyn OrderStore,
    markers: &[ReachedMarker],
) -> Result<(), payfold_engines::EngineError> {
    let partitions = current(&shared.log.extent(Topic::Intake).await?);
    let first = partitions.iter().min().copied().unwrap_or_default();
    // The first partition's marker also covers the orders of partitions of earlier epochs of the
    // log, which get no marker of their own.
    let marked_partition =
        |partition: u32| if partitions.contains(&partition) { partition } else { first };
    let mut join = BuildJoin::new(before, &*shared.store, None);
    let (mut events, mut published, mut missing) = (Vec::new(), 0_u64, 0_u64);
    while let Some(pair) = join.next_unequal().await? {
        let (old, new) = (pair.live_order()?, pair.new_order()?);
        let Some(either) = new.as_ref().or(old.as_ref()) else { continue };
        let partition = marked_partition(either.position.partition);
        let Some(marker) = markers.iter().find(|one| one.position.partition == partition) else {
            continue;
        };
        let Some(order) = &new else {
            missing = missing.saturating_add(1);
            continue;
        };
        if old.as_ref().is_some_and(|old| published_fields(old) == published_fields(order)) {
            continue;
        }
        let previous_state = old.map(|old| old.summary.state);
        let (switch, position) = (&marker.switch, marker.position);
        events.push(RebuiltOrder { order, previous_state, switch, position }.to_message());
        published = published.saturating_add(1);
        if events.len() >= EVENTS_AT_ONCE {
            append_events(shared, &mut events).await?;
        }
    }
    append_events(shared, &mut events).await?;
    if missing > 0 {
        tracing::warn!(
            orders = missing,
            "orders that the previous build published are not in this build"
        );
    }
    tracing::info!(orders = published, "published the orders that differ in this build");
    Ok(())
}

async fn append_events(
    shared: &Shared,
    events: &mut Vec<Message>,
) -> Result<(), payfold_engines::EngineError> {
    if !events.is_empty() {
        shared.log.append_all(Topic::Orders, std::mem::take(events)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
