//! Storage that is unavailable, corrupt or another log's, and how the role ends. Invariants: an
//! outage never ends the role; corrupt storage or the store of another log does.

use std::sync::Arc;

use payfold_engines::log::{EventLog, Message, Topic};
use payfold_kit::RunError;
use payfold_schemas::position::Position;
use payfold_schemas::record::RecordError;
use tokio::sync::watch;

use super::failing::Fault;
use super::world::{World, settings};
use crate::run::Reconciler;
use crate::run::testkit::at;

#[tokio::test]
async fn calls_are_repeated_while_storage_is_unavailable() {
    let world = World::new();
    world
        .append("a create 10:20; b create 10:40; b success r1; c create 10:40; c success r1")
        .await;
    world.fold().await;
    world.clock.set(at("10:21"));
    let running = world.start_with(Fault::Unavailable { times: 3 }, settings());
    let mut found = world.wait_for_facts(3).await;
    found.sort();
    assert_eq!(found, ["DeadlinePassed a 10:20", "RefShared b r1 c", "RefShared c r1 b"]);
    assert_eq!(running.stop().await, Ok(()));
}

#[tokio::test]
async fn a_stop_during_an_outage_ends_the_role_without_an_error() {
    let world = World::new();
    world.append("a create 10:20").await;
    world.fold().await;
    let running = world.start_with(Fault::Unavailable { times: u32::MAX }, settings());
    running.engines.wait_for_calls("progress", 3).await;
    assert_eq!(running.stop().await, Ok(()));
    assert_eq!(world.metric("halted"), 0.0);
}

#[tokio::test]
async fn corrupt_storage_ends_the_role() {
    for method in ["progress", "scan deadlines", "scan refs", "load", "extent", "append_all"] {
        let world = World::new();
        world.append("a create 10:20; a session r1 10:17; b success r1").await;
        world.fold().await;
        world.clock.set(at("10:21"));
        let running = world.start_with(Fault::Corrupt(method), settings());
        let engines = Arc::clone(&running.engines);
        let ended = world.folding_until(running.ended()).await;
        // Two tasks may have called the method; neither repeats it.
        assert!(engines.calls(method) <= 2, "{method}");
        assert!(matches!(ended, RunError::Engine { .. }), "{method}: {ended}");
        assert!(ended.to_string().contains("storage corrupt: nonsense"), "{ended}");
        assert_eq!(world.metric("halted"), 1.0);
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_read_halts_after_what_came_before_it() {
    let world = World::new();
    world.append("a create 23:00; a success r1; b create 23:00; b success r1").await;
    world.fold().await;
    let bad =
        Message { key: "p/M/a".into(), event: None, value: b"\x07nonsense".to_vec(), mac: None };
    world.log.append(Topic::Intake, bad).await.unwrap();
    for _ in 0..2 {
        let ended = world.start().ended().await;
        let position = Position { partition: 0, offset: 5 };
        assert_eq!(
            ended,
            RunError::Undecodable {
                position,
                error: RecordError::UnknownVersion(7),
                halted: "the reconciler is halted at this record",
            }
        );
        assert_eq!(world.facts().await, ["RefShared a r1 b", "RefShared b r1 a"]);
    }
}

#[tokio::test]
async fn a_store_of_another_log_is_refused() {
    let world = World::new();
    world.append("a create 10:20").await;
    world.fold().await;
    world.clock.set(at("10:21"));
    let ended = world.start_with(Fault::OtherLog, settings()).ended().await;
    assert!(matches!(ended, RunError::Unpaired(_)), "{ended}");
    assert_eq!(world.facts().await, Vec::<String>::new());
}

#[tokio::test]
async fn the_role_ends_when_the_sender_of_its_stop_signal_is_dropped() {
    let world = World::new();
    let (log, store) = (world.log.clone(), world.store.clone());
    let (clock, metrics) = (world.clock.clone(), Arc::clone(&world.metrics));
    let reconciler = Reconciler::new(log, store, clock, metrics, settings());
    let (stop, stopped) = watch::channel(false);
    drop(stop);
    assert_eq!(reconciler.run(stopped).await, Ok(()));
}
