//! Requests about builds: pause, throttle, drop and switch. A request that is refused changes
//! nothing, and the state of each build follows from the decided ones.

use std::sync::Arc;

use payfold_engines::clock::SystemClock;
use payfold_engines::log::EventLog;
use payfold_engines::orders::{Commit, Folded, OrderStore};
use payfold_kit::RunError;
use payfold_schemas::digest::Digest;
use payfold_schemas::position::Position;
use payfold_schemas::publication::Publication;

use super::super::projector_parts::ProjectorParts;
use super::super::service::{BuildRequest, RebuildService, SwitchTarget, check_switch};
use super::super::status::BuildState;
use super::super::supervisor::Supervisor;
use super::{MORNING, RunningRebuild, refusal, request};
use crate::journal::{Builds, DecideError, Journal, JournalEntry};
use crate::run::Speed;
use crate::run::tests::world::{World, settings};

#[tokio::test]
async fn a_build_is_paused_throttled_and_resumed() {
    let world = World::new();
    world.append(MORNING).await;
    let rebuild = RunningRebuild::start(world);
    rebuild.wait_for(1, BuildState::Live).await;
    assert!(
        refusal(rebuild.service.set_speed(&request(), Speed::default()).await)
            .contains("there is no new build")
    );
    let slow = BuildRequest { facts_per_s: Some(1), ..BuildRequest::default() };
    rebuild.service.start_build(&request(), slow).await.unwrap();
    let paused = Speed { paused: true, facts_per_s: None };
    assert_eq!(rebuild.service.set_speed(&request(), paused).await, Ok(2));
    let statuses = rebuild.service.build_statuses().await.unwrap();
    assert_eq!((statuses[1].state, statuses[1].throttle), (BuildState::Paused, Some(1)));
    assert!(statuses[1].behind() > 0, "a fact a second takes longer");
    let refused = refusal(rebuild.service.switch(&request(), SwitchTarget::default()).await);
    assert!(refused.contains("is paused"), "{refused}");
    let fast = Speed { paused: false, facts_per_s: Some(1_000_000) };
    assert_eq!(rebuild.service.set_speed(&request(), fast).await, Ok(2));
    rebuild.wait_for(2, BuildState::Ready).await;
    assert_eq!(rebuild.walk(2).await, rebuild.walk(1).await);
    rebuild.stop().await;
}

#[tokio::test]
async fn a_throttle_ends_with_the_switch() {
    let world = World::new();
    world.append(MORNING).await;
    let rebuild = RunningRebuild::start(world);
    rebuild.wait_for(1, BuildState::Live).await;
    let slow = BuildRequest { facts_per_s: Some(5), ..BuildRequest::default() };
    rebuild.service.start_build(&request(), slow).await.unwrap();
    rebuild.wait_for(2, BuildState::Ready).await;
    rebuild.service.switch(&request(), SwitchTarget::default()).await.unwrap();
    rebuild.wait_for(2, BuildState::Live).await;
    for n in 0..100 {
        rebuild.world.append(&format!("x{n} C 9; x{n} O r{n}")).await;
    }
    // At 5 facts a second these 200 would take 40 s.
    rebuild.wait_for(2, BuildState::Live).await;
    assert_eq!(rebuild.service.build_statuses().await.unwrap()[1].throttle, None);
    rebuild.stop().await;
}

/// The state of a journal once these entries are decided.
async fn decided(store: Arc<dyn OrderStore>, entries: &[JournalEntry]) -> Builds {
    let journal = Journal::new(store);
    for entry in entries {
        journal.decide(&request(), |_| Ok(entry.clone())).await.unwrap();
    }
    journal.read().await.unwrap()
}

#[tokio::test]
async fn no_switch_is_decided_to_a_build_that_was_paused_dropped_or_overtaken_meanwhile() {
    let made = JournalEntry::BuildStarted { build: 2, drill: false, facts_per_s: None };
    let pause = |paused| JournalEntry::SpeedSet { build: 2, paused, facts_per_s: None };
    let switched = JournalEntry::SwitchDecided { publication: Publication { build: 2, epoch: 2 } };
    for (entries, refused) in [
        (vec![made.clone()], None),
        (vec![made.clone(), pause(true)], Some("paused")),
        (vec![made.clone(), pause(true), pause(false)], None),
        (vec![made.clone(), JournalEntry::DropDecided { build: 2 }], Some("meanwhile")),
        (vec![made.clone(), switched.clone()], Some("meanwhile")),
    ] {
        let known = decided(World::new().store, &entries).await;
        match (check_switch(&known, Publication::FIRST, 2), refused) {
            (Ok(()), None) => {}
            (Err(DecideError::Refused(text)), Some(word)) => assert!(text.contains(word), "{text}"),
            (checked, _) => panic!("{checked:?} after {entries:?}"),
        }
    }
}

/// Build 2 is published, and a rollback to build 1 was decided and marked.
fn switch_and_rollback() -> Vec<JournalEntry> {
    let switch =
        |build, epoch| JournalEntry::SwitchDecided { publication: Publication { build, epoch } };
    vec![
        JournalEntry::BuildStarted { build: 2, drill: false, facts_per_s: None },
        switch(2, 2),
        JournalEntry::MarkersWritten { epoch: 2 },
        switch(1, 3),
        JournalEntry::MarkersWritten { epoch: 3 },
    ]
}

#[tokio::test]
async fn the_error_of_a_build_that_another_process_dropped_ends_no_role() {
    let world = World::new();
    let (log, store) = (world.log.clone(), world.store.clone());
    let (metrics, clock) = (Arc::clone(&world.metrics), Arc::new(SystemClock));
    let mut supervisor =
        Supervisor::new(ProjectorParts { log, store, metrics, settings: settings(), clock });
    let mut known = decided(world.store.clone(), &switch_and_rollback()).await;
    let failed = || Ok((2, Err(RunError::Unpaired("the tables are gone".to_owned()))));
    assert!(
        supervisor.handle_end(&mut known.clone(), failed()).await.is_err(),
        "build 2 exists and was published"
    );
    let unsealed = || Ok((2, Err(RunError::Unsealed("it lacks records".to_owned()))));
    let alone = supervisor.handle_end(&mut known.clone(), unsealed()).await;
    assert_eq!(alone, Ok(()), "build 2 is on standby");
    decided(world.store.clone(), &[JournalEntry::DropDecided { build: 2 }]).await;
    assert_eq!(supervisor.handle_end(&mut known, failed()).await, Ok(()));
}

#[tokio::test]
async fn the_outgoing_build_is_live_until_readers_have_left_it() {
    let world = World::new();
    world.append("a C 1").await;
    let store: Arc<dyn OrderStore> = world.store.clone();
    let rebuild = RunningRebuild::start(world);
    rebuild.wait_for(1, BuildState::Live).await;
    let world = rebuild.stop().await;
    decided(store.clone(), &switch_and_rollback()).await;
    let service = RebuildService::new(world.log.clone(), store.clone(), Arc::default());
    let states = async || -> Vec<BuildState> {
        service.build_statuses().await.unwrap().iter().map(|one| one.state).collect()
    };
    let pass = async |build: u32| {
        let publication = Publication { build: 1, epoch: 3 };
        let position = Position { partition: 0, offset: 9 };
        let folded = vec![Folded { publication, ..Folded::new(position, Digest::of_bytes(b"m")) }];
        let build = store.build(build).await.unwrap();
        build.commit(Commit { folded, log_id: world.log.id(), ..Commit::default() }).await.unwrap();
    };
    pass(2).await;
    assert_eq!(
        states().await,
        [BuildState::Switching, BuildState::Live],
        "the outgoing build passed first"
    );
    pass(1).await;
    assert_eq!(states().await, [BuildState::Live, BuildState::Standby]);
}
