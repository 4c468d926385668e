//! The role over real SQLite engines, and wrappers that fail on purpose. Rows are committed by hand.

mod asking;
mod failing;
mod measure;
mod partner;
mod surveying;
mod world;

use std::collections::BTreeMap;

use payfold_engines::log::Start;
use payfold_schemas::order::OrderState;

use self::failing::Fault;
use self::world::{World, message, settings};
use super::testkit::{at, fact, key, record};
use super::*;

#[tokio::test]
async fn an_abandoned_session_gets_one_x_after_its_deadline() {
    let world = World::new();
    world.append("a C 10:30; a O r1 10:17; b C 10:30; b O r2 10:17; b S r2; c C 10:20").await;
    world.fold().await;
    let running = world.start();
    running.walked().await;
    assert_eq!(world.facts().await, Vec::<String>::new());
    world.clock.set(at("10:18"));
    assert_eq!(world.found(1).await, ["X a 10:17"]);
    // Not folded yet, it is not appended again; folded, neither.
    running.walked().await;
    assert_eq!(world.metric("pending_past_deadline"), 1.0);
    world.fold().await;
    running.walked().await;
    assert_eq!(world.metric("pending_past_deadline"), 0.0);
    assert_eq!(world.row("a").await.summary.state, OrderState::Expired);
    // b was paid, c has no session: its create request's deadline holds. a's is no second one.
    world.clock.set(at("10:31"));
    assert_eq!(world.found(2).await, ["X a 10:17", "X c 10:20"]);
    running.walked().await;
    world.fold().await;
    running.walked().await;
    assert_eq!(world.facts().await.len(), 2);
    assert_eq!(world.metric("deadlines_appended_total"), 2.0);
    assert_eq!(running.stop().await, Ok(()));

    let records = world.records().await;
    let x = &records[6];
    assert_eq!((&x.order, x.received_at, &x.source), (&key("a"), at("10:18"), &None));
    assert_ne!(x.request_id, records[0].request_id);
    assert_ne!(x.request_id, records[7].request_id);
}

#[tokio::test]
async fn a_later_session_gets_its_own_deadline() {
    let world = World::new();
    world.append("a C 10:30; a O r1 10:17").await;
    world.fold().await;
    let running = world.start();
    world.clock.set(at("10:18"));
    world.found(1).await;
    world.append("a O r2 10:40").await;
    world.fold().await;
    running.walked().await;
    assert_eq!(world.row("a").await.summary.state, OrderState::Pending);
    world.clock.set(at("10:41"));
    assert_eq!(world.found(2).await, ["X a 10:17", "X a 10:40"]);
    running.stop().await.unwrap();
}

/// Also by the walk alone: the reader of intake is deaf.
#[tokio::test]
async fn an_entry_that_is_folded_late_is_not_walked_past() {
    let world = World::new();
    world.append("a C 10:50").await;
    world.fold().await;
    world.append("b C 10:20; c C 10:21").await;
    let running = world.start_with(Fault::Deaf, settings());
    // For long nothing is folded; a itself waits too, for its payment might be there unfolded.
    world.clock.set(at("11:00"));
    running.walked().await;
    assert_eq!(world.facts().await, Vec::<String>::new());
    world.append("d C 11:30").await;
    world.fold_only(1).await;
    running.walked().await;
    assert_eq!(world.facts().await, Vec::<String>::new());
    world.fold_only(1).await;
    assert_eq!(world.found(3).await, ["X a 10:50", "X b 10:20", "X c 10:21"]);
    world.fold().await;
    running.walked().await;
    assert_eq!(world.facts().await.len(), 3);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_payment_behind_a_backlog_is_not_called_abandoned() {
    let world = World::new();
    world.append("a C 10:30; a O r1 10:17").await;
    world.fold().await;
    world.clock.set(at("10:10"));
    world.append("z C 12:00; a S r1").await;
    world.clock.set(at("10:20"));
    let running = world.start();
    running.walked().await;
    running.walked().await;
    assert_eq!(world.facts().await, Vec::<String>::new());
    world.fold().await;
    running.walked().await;
    assert_eq!(world.facts().await, Vec::<String>::new());
    running.stop().await.unwrap();
}

/// A create request that is appended again long after it was first tried lies before all that is walked.
#[tokio::test]
async fn a_deadline_long_past_when_it_comes_is_found() {
    let world = World::new();
    world.append("z C 23:00").await;
    world.fold().await;
    world.clock.set(at("12:00"));
    let settings = Settings { batch_records_max: 1, ..settings() };
    let running = world.start_with(Fault::None, settings);
    running.walked().await;
    let again = |order| message(&record(order, fact("C 10:30")));
    let both = vec![again("a"), again("b")];
    world.log.append_all(Topic::Intake, both).await.unwrap();
    running.walked().await;
    // While b waits to be folded the oldest such record is of 10:00, which says nothing of a.
    world.fold_only(1).await;
    assert_eq!(world.found(1).await, ["X a 10:30"]);
    world.fold().await;
    assert_eq!(world.found(2).await, ["X a 10:30", "X b 10:30"]);
    world.fold().await;
    running.walked().await;
    assert_eq!(world.facts().await.len(), 2);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_clock_that_was_ahead_leaves_no_gap() {
    let world = World::new();
    world.append("z C 23:00").await;
    world.fold().await;
    world.clock.set(at("12:00"));
    let running = world.start_with(Fault::Deaf, settings());
    running.walked().await;
    world.clock.set(at("10:10"));
    running.walked().await;
    world.append("a C 10:30").await;
    world.fold().await;
    world.clock.set(at("10:31"));
    assert_eq!(world.found(1).await, ["X a 10:30"]);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn every_page_is_walked_before_and_after_a_start() {
    let world = World::new();
    let lines = |from: u32, to: u32, deadline: &str| {
        let lines: Vec<_> = (from..to).map(|n| format!("o{n} C {deadline}")).collect();
        lines.join("; ")
    };
    world.append(&lines(0, 50, "10:20")).await;
    world.append(&lines(50, 101, "11:20")).await;
    world.fold().await;
    world.clock.set(at("11:00"));
    // The walk alone must do it.
    let running = world.start_with(Fault::Deaf, Settings { page_entries: 7, ..settings() });
    world.found(50).await;
    world.fold().await;
    world.clock.set(at("11:21"));
    let mut found = world.found(101).await;
    running.walked().await;
    running.stop().await.unwrap();
    assert_eq!(world.facts().await.len(), 101);
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 101);
}

#[tokio::test]
async fn a_restart_repeats_at_most_what_is_not_folded() {
    let world = World::new();
    world.append("a C 10:20; a S r1; b C 10:20; b S r1; c C 10:20").await;
    world.fold().await;
    world.clock.set(at("10:21"));
    let running = world.start();
    world.found(3).await;
    running.walked().await;
    running.stop().await.unwrap();
    // The X is on its way, which only its own run knew; the refs were acknowledged.
    let running = world.start();
    world.found(4).await;
    running.walked().await;
    assert_eq!(running.engines.calls("scan refs"), 0);
    running.stop().await.unwrap();
    let mut facts = world.facts().await;
    facts.sort();
    assert_eq!(facts, ["K a r1 b", "K b r1 a", "X c 10:20", "X c 10:20"]);
    world.fold().await;
    let running = world.start();
    running.walked().await;
    running.stop().await.unwrap();
    assert_eq!(world.facts().await.len(), 4);
}

#[tokio::test]
async fn two_orders_of_one_ref_are_told_of_each_other() {
    let world = World::new();
    world.append("a C 23:00; a O r1 23:00; b C 23:00; b S r1; c C 23:00; c S other").await;
    let running = world.start();
    // Nothing is folded: nothing can be found yet.
    running.walked().await;
    assert_eq!((running.engines.calls("scan refs"), world.facts().await.len()), (0, 0));
    world.fold().await;
    assert_eq!(world.found(2).await, ["K a r1 b", "K b r1 a"]);
    world.append("c P r1; a S r1; a S r1").await;
    world.fold().await;
    let mut found = world.found(6).await;
    found.sort();
    let expected = ["K a r1 b", "K a r1 c", "K b r1 a", "K b r1 c", "K c r1 a", "K c r1 b"];
    assert_eq!(found, expected);
    world.fold().await;
    running.walked().await;
    while world.metric("lag_records") > 0.0 {
        running.walked().await;
    }
    assert_eq!(world.metric("refs_shared_total"), 6.0);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn placeholders_name_no_transaction() {
    let world = World::new();
    world.append("a C 23:00; a placeholder 0; b C 23:00; b placeholder 0").await;
    // d said it while it was no placeholder, and again when it was; e says it still.
    world.append("d C 23:00; d S 0; d placeholder 0; e C 23:00; e S 0; f C 23:00; f S 1").await;
    world.fold().await;
    let running = world.start();
    world.append("g C 23:00; g S 1").await;
    world.fold().await;
    assert_eq!(world.found(2).await, ["K f 1 g", "K g 1 f"]);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn nothing_is_acknowledged_before_what_it_led_to_is_durable() {
    let world = World::new();
    world.append("a C 23:00; a S r1; b C 23:00; b S r1").await;
    world.fold().await;
    let settings = Settings { retry_ms_min: 10_000, retry_ms_max: 10_000, ..settings() };
    let running = world.start_with(Fault::Unheard, settings);
    running.engines.called_in_all("append_all", 1).await;
    running.walked().await;
    running.stop().await.unwrap();
    // Everything comes again, and the facts are the same.
    let mut reader =
        world.log.subscribe(Topic::Intake, "reconciler-refs", Start::Group).await.unwrap();
    assert_eq!(reader.next_batch(1).await.unwrap()[0].position.offset, 1);
    world.fold().await;
    let running = world.start();
    running.engines.called_in_all("scan refs", 1).await;
    running.walked().await;
    running.stop().await.unwrap();
    assert_eq!(world.facts().await, ["K a r1 b", "K b r1 a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_instances_double_facts_at_most() {
    let world = Arc::new(World::new());
    let one = world.start();
    let two = world.start();
    let orders = 200;
    for n in 0..orders {
        // Every third is paid; every fourth shares a ref with the one before it.
        let shared = if n % 4 == 3 { n - 1 } else { n };
        let paid = if n % 3 == 0 { format!("; o{n} S r{shared}") } else { String::new() };
        world.append(&format!("o{n} C 10:30; o{n} O r{shared} 10:17{paid}")).await;
        if n % 20 == 0 {
            world.fold_only(30).await;
        }
    }
    world.clock.set(at("10:18"));
    // As long as anything comes, until both have walked over all that was folded.
    while world.fold_only(100).await > 0 || {
        one.walked().await;
        two.walked().await;
        world.metric("lag_records") > 0.0 || world.fold_only(100).await > 0
    } {}
    one.stop().await.unwrap();
    two.stop().await.unwrap();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for fact in world.facts().await {
        *counts.entry(fact).or_default() += 1;
    }
    assert!(counts.values().all(|count| *count <= 2), "{counts:?}");
    for n in 0..orders {
        let x = counts.remove(&format!("X o{n} 10:17"));
        assert_eq!(x.is_none(), n % 3 == 0, "o{n}");
        if n % 4 == 3 {
            let before = n - 1;
            assert!(counts.remove(&format!("K o{n} r{before} o{before}")).is_some(), "o{n}");
            assert!(counts.remove(&format!("K o{before} r{before} o{n}")).is_some(), "o{n}");
        }
    }
    assert!(counts.is_empty(), "wrong facts: {counts:?}");
}

#[tokio::test]
async fn while_storage_is_unavailable_it_is_asked_again() {
    let world = World::new();
    world.append("a C 10:20; b C 10:40; b S r1; c C 10:40; c S r1").await;
    world.fold().await;
    world.clock.set(at("10:21"));
    let running = world.start_with(Fault::Unavailable { times: 3 }, settings());
    let mut found = world.found(3).await;
    found.sort();
    assert_eq!(found, ["K b r1 c", "K c r1 b", "X a 10:20"]);
    assert_eq!(running.stop().await, Ok(()));
}

#[tokio::test]
async fn told_to_stop_during_an_outage_it_ends_well() {
    let world = World::new();
    world.append("a C 10:20").await;
    world.fold().await;
    let running = world.start_with(Fault::Unavailable { times: u32::MAX }, settings());
    running.engines.called_in_all("progress", 3).await;
    assert_eq!(running.stop().await, Ok(()));
    assert_eq!(world.metric("halted"), 0.0);
}

#[tokio::test]
async fn what_is_corrupt_ends_the_role() {
    for method in ["progress", "scan deadlines", "scan refs", "load", "extent", "append_all"] {
        let world = World::new();
        world.append("a C 10:20; a O r1 10:17; b S r1").await;
        world.fold().await;
        world.clock.set(at("10:21"));
        let running = world.start_with(Fault::Corrupt(method), settings());
        let engines = Arc::clone(&running.engines);
        let ended = world.folding_until(running.ended()).await;
        // Either way may have asked, none again.
        assert!(engines.calls(method) <= 2, "{method}");
        assert!(matches!(ended, RunError::Engine { .. }), "{method}: {ended}");
        assert!(ended.to_string().contains("storage corrupt: nonsense"), "{ended}");
        assert_eq!(world.metric("halted"), 1.0);
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_read_halts_after_what_came_before_it() {
    let world = World::new();
    world.append("a C 23:00; a S r1; b C 23:00; b S r1").await;
    world.fold().await;
    let bad = Message { key: "p/M/a".into(), event: None, value: b"\x07nonsense".to_vec() };
    world.log.append(Topic::Intake, bad).await.unwrap();
    for _ in 0..2 {
        let ended = world.start().ended().await;
        let position = Position { partition: 0, offset: 5 };
        assert_eq!(
            ended,
            RunError::Undecodable { position, error: RecordError::UnknownVersion(7) }
        );
        assert_eq!(world.facts().await, ["K a r1 b", "K b r1 a"]);
    }
}

#[tokio::test]
async fn a_store_of_another_log_is_refused() {
    let world = World::new();
    world.append("a C 10:20").await;
    world.fold().await;
    world.clock.set(at("10:21"));
    assert_eq!(world.start_with(Fault::OtherLog, settings()).ended().await, RunError::Unpaired);
    assert_eq!(world.facts().await, Vec::<String>::new());
}

#[tokio::test]
async fn it_ends_when_nobody_is_left_to_stop_it() {
    let world = World::new();
    let (log, store) = (world.log.clone(), world.store.clone());
    let (clock, metrics) = (world.clock.clone(), Arc::clone(&world.metrics));
    let reconciler = Reconciler::new(log, store, clock, metrics, settings());
    let (stop, stopped) = watch::channel(false);
    drop(stop);
    assert_eq!(reconciler.run(stopped).await, Ok(()));
}
