//! Two builds at the markers of a switch, over real stores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::EventLog;
use payfold_schemas::chain::Head;
use payfold_schemas::digest::Digest;
use payfold_schemas::position::Position;
use payfold_schemas::publication::{Publication, Switch};
use tokio::sync::watch;

use super::*;
use crate::run::settings::ProjectorSettings;
use crate::run::tests::world::{World, settings};

/// What the switch publishes from its markers on.
const NEXT: Publication = Publication { build: 2, epoch: 2 };

/// The shared parts of the incoming build's projector, which has folded nothing yet.
async fn incoming(world: &World, stop: watch::Receiver<bool>) -> Shared {
    Shared {
        log: world.log.clone(),
        store: world.store.build(NEXT.build).await.unwrap(),
        exported: Arc::clone(&world.metrics),
        unexported: Arc::new(world.metrics.unregistered()),
        is_published: AtomicBool::new(false),
        settings: ProjectorSettings { build: NEXT.build, ..settings() },
        status: Arc::default(),
        stop,
        committed: AtomicU64::new(0),
        unparked: Mutex::default(),
    }
}

/// The marker of a partition, reached but not passed.
fn reached_marker(world: &World, partition: u32) -> ReachedMarker {
    let (position, head) =
        (Position { partition, offset: 6 }, Head::genesis(world.log.id(), partition));
    let (request_id, at) = (SystemClock.request_id(), SystemClock.now());
    let switch = Switch { publication: NEXT, request_id, at };
    let (digest, before) = (Digest::of_bytes(b"m"), Publication::FIRST);
    ReachedMarker { position, digest, head, before, switch }
}

/// Commits to a store that it is folded to this marker.
async fn commit_marker(world: &World, store: &dyn OrderStore, marker: &ReachedMarker) {
    let folded = vec![marker.folded()];
    let commit = Commit { folded, log_id: world.log.id(), ..Commit::default() };
    store.commit(commit).await.unwrap();
}

/// Waits until a store has passed the marker of a partition.
async fn wait_until_passed(store: &dyn OrderStore, partition: u32) {
    let is_past =
        |one: &Folded| one.position.partition == partition && one.publication.epoch >= NEXT.epoch;
    while !store.progress().await.unwrap().is_some_and(|all| all.folded.iter().any(is_past)) {
        tokio::time::sleep(POLL_EVERY).await;
    }
}

/// The outgoing build owns one partition when it reaches the marker. It waits until that partition
/// is taken over, and is assigned the other one only then. This was seen after a kill, when the
/// group assigned partitions one by one.
#[tokio::test]
async fn a_partition_is_taken_over_while_the_outgoing_build_lacks_the_others() {
    let world = World::new();
    let (_stop, stopped) = watch::channel(false);
    let shared = incoming(&world, stopped).await;
    let markers = [0, 1].map(|partition| reached_marker(&world, partition));
    commit_marker(&world, &*world.store, &markers[0]).await;
    let outgoing = async {
        wait_until_passed(&*shared.store, 0).await;
        commit_marker(&world, &*world.store, &markers[1]).await;
        wait_until_passed(&*shared.store, 1).await;
    };
    let both = markers.iter().cloned().map(|one| (one.position.partition, one)).collect();
    let both = async { tokio::join!(pass_markers(&shared, both), outgoing) };
    let (passed, ()) = tokio::time::timeout(Duration::from_secs(60), both)
        .await
        .expect("[time] neither build waits for the other for ever");
    passed.unwrap();
}
