//! The role over real SQLite engines, and over wrappers that fail on purpose. The tests commit the
//! rows themselves: there is no projector.

mod asking;
mod failing;
mod measure;
mod partner;
mod storage_faults;
mod surveying;
mod world;

use std::collections::BTreeMap;

use payfold_engines::log::{Start, Topic};
use payfold_kit::Retry;
use payfold_schemas::order::OrderState;

use self::failing::Fault;
use self::world::{NEVER, World, message, settings};
use super::testkit::{at, fact, key, record};
use super::*;

#[tokio::test]
async fn an_abandoned_session_expires_once_after_its_deadline() {
    let world = World::new();
    world
        .append(
            "a create 10:30; a session r1 10:17; b create 10:30; b session r2 10:17; \
             b success r2; c create 10:20",
        )
        .await;
    world.fold().await;
    let running = world.start();
    running.wait_for_scan().await;
    assert_eq!(world.facts().await, Vec::<String>::new());
    world.clock.set(at("10:18"));
    assert_eq!(world.wait_for_facts(1).await, ["DeadlinePassed a 10:17"]);
    // The fact is not appended again, neither before nor after it is folded.
    running.wait_for_scan().await;
    assert_eq!(world.metric("pending_past_deadline"), 1.0);
    world.fold().await;
    running.wait_for_scan().await;
    assert_eq!(world.metric("pending_past_deadline"), 0.0);
    assert_eq!(world.row("a").await.summary.state, OrderState::Expired);
    // b was paid. c has no session, so the deadline of its create request counts. a expired
    // already.
    world.clock.set(at("10:31"));
    assert_eq!(world.wait_for_facts(2).await, ["DeadlinePassed a 10:17", "DeadlinePassed c 10:20"]);
    running.wait_for_scan().await;
    world.fold().await;
    running.wait_for_scan().await;
    assert_eq!(world.facts().await.len(), 2);
    assert_eq!(world.metric("deadlines_appended_total"), 2.0);
    assert_eq!(running.stop().await, Ok(()));

    let records = world.records().await;
    let expired = &records[6];
    assert_eq!(
        (&expired.order, expired.received_at, &expired.source),
        (&key("a"), at("10:18"), &None)
    );
    assert_ne!(expired.request_id, records[0].request_id);
    assert_ne!(expired.request_id, records[7].request_id);
}

#[tokio::test]
async fn a_later_session_gets_its_own_deadline() {
    let world = World::new();
    world.append("a create 10:30; a session r1 10:17").await;
    world.fold().await;
    let running = world.start();
    world.clock.set(at("10:18"));
    world.wait_for_facts(1).await;
    world.append("a session r2 10:40").await;
    world.fold().await;
    running.wait_for_scan().await;
    assert_eq!(world.row("a").await.summary.state, OrderState::Pending);
    world.clock.set(at("10:41"));
    assert_eq!(world.wait_for_facts(2).await, ["DeadlinePassed a 10:17", "DeadlinePassed a 10:40"]);
    running.stop().await.unwrap();
}

/// The scan of deadlines finds it alone: the reader of intake gets nothing.
#[tokio::test]
async fn the_scan_does_not_pass_an_entry_that_is_folded_late() {
    let world = World::new();
    world.append("a create 10:50").await;
    world.fold().await;
    world.append("b create 10:20; c create 10:21").await;
    let running = world.start_with(Fault::SilentReader, settings());
    // Nothing is folded for an hour. a has to wait, too: its payment may be among the unfolded.
    world.clock.set(at("11:00"));
    running.wait_for_scan().await;
    assert_eq!(world.facts().await, Vec::<String>::new());
    world.append("d create 11:30").await;
    world.fold_only(1).await;
    running.wait_for_scan().await;
    assert_eq!(world.facts().await, Vec::<String>::new());
    world.fold_only(1).await;
    assert_eq!(
        world.wait_for_facts(3).await,
        ["DeadlinePassed a 10:50", "DeadlinePassed b 10:20", "DeadlinePassed c 10:21"]
    );
    world.fold().await;
    running.wait_for_scan().await;
    assert_eq!(world.facts().await.len(), 3);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_payment_behind_a_backlog_is_not_called_abandoned() {
    let world = World::new();
    world.append("a create 10:30; a session r1 10:17").await;
    world.fold().await;
    world.clock.set(at("10:10"));
    world.append("z create 12:00; a success r1").await;
    world.clock.set(at("10:20"));
    let running = world.start();
    running.wait_for_scan().await;
    running.wait_for_scan().await;
    assert_eq!(world.facts().await, Vec::<String>::new());
    world.fold().await;
    running.wait_for_scan().await;
    assert_eq!(world.facts().await, Vec::<String>::new());
    running.stop().await.unwrap();
}

/// A create request that is appended again long after it was first tried lies before the range that
/// is scanned.
#[tokio::test]
async fn a_deadline_that_has_long_passed_when_it_is_appended_is_found() {
    let world = World::new();
    world.append("z create 23:00").await;
    world.fold().await;
    world.clock.set(at("12:00"));
    let settings = Settings { batch_records_max: 1, ..settings() };
    let running = world.start_with(Fault::None, settings);
    running.wait_for_scan().await;
    let again = |order| message(&record(order, fact("create 10:30")));
    let both = vec![again("a"), again("b")];
    world.log.append_all(Topic::Intake, both).await.unwrap();
    running.wait_for_scan().await;
    // b is not folded and was received at 10:00. That must not hold back a, which is folded.
    world.fold_only(1).await;
    assert_eq!(world.wait_for_facts(1).await, ["DeadlinePassed a 10:30"]);
    world.fold().await;
    assert_eq!(world.wait_for_facts(2).await, ["DeadlinePassed a 10:30", "DeadlinePassed b 10:30"]);
    world.fold().await;
    running.wait_for_scan().await;
    assert_eq!(world.facts().await.len(), 2);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_clock_that_was_ahead_leaves_no_gap() {
    let world = World::new();
    world.append("z create 23:00").await;
    world.fold().await;
    world.clock.set(at("12:00"));
    let running = world.start_with(Fault::SilentReader, settings());
    running.wait_for_scan().await;
    world.clock.set(at("10:10"));
    running.wait_for_scan().await;
    world.append("a create 10:30").await;
    world.fold().await;
    world.clock.set(at("10:31"));
    assert_eq!(world.wait_for_facts(1).await, ["DeadlinePassed a 10:30"]);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn every_page_is_scanned_before_and_after_a_start() {
    let world = World::new();
    let lines = |from: u32, to: u32, deadline: &str| {
        let lines: Vec<_> = (from..to).map(|n| format!("o{n} create {deadline}")).collect();
        lines.join("; ")
    };
    world.append(&lines(0, 50, "10:20")).await;
    world.append(&lines(50, 101, "11:20")).await;
    world.fold().await;
    world.clock.set(at("11:00"));
    // The scan of deadlines has to find them alone.
    let running = world.start_with(Fault::SilentReader, Settings { page_entries: 7, ..settings() });
    world.wait_for_facts(50).await;
    world.fold().await;
    world.clock.set(at("11:21"));
    let mut found = world.wait_for_facts(101).await;
    running.wait_for_scan().await;
    running.stop().await.unwrap();
    assert_eq!(world.facts().await.len(), 101);
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 101);
}

#[tokio::test]
async fn a_restart_repeats_at_most_what_is_not_folded() {
    let world = World::new();
    world
        .append("a create 10:20; a success r1; b create 10:20; b success r1; c create 10:20")
        .await;
    world.fold().await;
    let running = world.start();
    // The refs first: the reader of intake waits for the fold, so it would wait for an unfolded
    // DeadlinePassed.
    world.wait_for_facts(2).await;
    world.fold().await;
    running.wait_for_scan().await;
    world.clock.set(at("10:21"));
    world.wait_for_facts(3).await;
    running.stop().await.unwrap();
    // Only the first run knew that DeadlinePassed was appended. The refs were acknowledged.
    let running = world.start();
    world.wait_for_facts(4).await;
    running.wait_for_scan().await;
    assert_eq!(running.engines.calls("scan refs"), 0);
    running.stop().await.unwrap();
    let mut facts = world.facts().await;
    facts.sort();
    assert_eq!(
        facts,
        [
            "DeadlinePassed c 10:20",
            "DeadlinePassed c 10:20",
            "RefShared a r1 b",
            "RefShared b r1 a"
        ]
    );
    world.fold().await;
    let running = world.start();
    running.wait_for_scan().await;
    running.stop().await.unwrap();
    assert_eq!(world.facts().await.len(), 4);
}

#[tokio::test]
async fn two_orders_of_one_ref_get_a_fact_about_each_other() {
    let world = World::new();
    world
        .append(
            "a create 23:00; a session r1 23:00; b create 23:00; b success r1; \
             c create 23:00; c success other",
        )
        .await;
    let running = world.start();
    // Nothing is folded: nothing can be found yet.
    running.wait_for_scan().await;
    assert_eq!((running.engines.calls("scan refs"), world.facts().await.len()), (0, 0));
    world.fold().await;
    assert_eq!(world.wait_for_facts(2).await, ["RefShared a r1 b", "RefShared b r1 a"]);
    world.append("c answer r1; a success r1; a success r1").await;
    world.fold().await;
    let mut found = world.wait_for_facts(6).await;
    found.sort();
    let expected = [
        "RefShared a r1 b",
        "RefShared a r1 c",
        "RefShared b r1 a",
        "RefShared b r1 c",
        "RefShared c r1 a",
        "RefShared c r1 b",
    ];
    assert_eq!(found, expected);
    world.fold().await;
    running.wait_for_scan().await;
    world.wait_for_metric("lag_records", 0.0).await;
    assert_eq!(world.metric("refs_shared_total"), 6.0);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn placeholders_name_no_transaction() {
    let world = World::new();
    world.append("a create 23:00; a placeholder 0; b create 23:00; b placeholder 0").await;
    // d has ref 0 from before it was a placeholder and again as one; e has it as a real ref.
    world
        .append(
            "d create 23:00; d success 0; d placeholder 0; e create 23:00; e success 0; \
             f create 23:00; f success 1",
        )
        .await;
    world.fold().await;
    let running = world.start();
    world.append("g create 23:00; g success 1").await;
    world.fold().await;
    assert_eq!(world.wait_for_facts(2).await, ["RefShared f 1 g", "RefShared g 1 f"]);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_record_is_acknowledged_only_when_its_facts_are_durable() {
    let world = World::new();
    world.append("a create 23:00; a success r1; b create 23:00; b success r1").await;
    world.fold().await;
    let settings = Settings { retry: Retry { ms_min: 10_000, ms_max: 10_000 }, ..settings() };
    let running = world.start_with(Fault::LostAnswer, settings);
    running.engines.wait_for_calls("append_all", 1).await;
    running.wait_for_scan().await;
    running.stop().await.unwrap();
    // Everything is read again and leads to the same facts.
    let mut reader =
        world.log.subscribe(Topic::Intake, "reconciler-refs", Start::Group).await.unwrap();
    assert_eq!(reader.next_batch(1).await.unwrap()[0].position.offset, 1);
    world.fold().await;
    let running = world.start();
    running.engines.wait_for_calls("scan refs", 1).await;
    running.wait_for_scan().await;
    running.stop().await.unwrap();
    assert_eq!(world.facts().await, ["RefShared a r1 b", "RefShared b r1 a"]);
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
        let paid = if n % 3 == 0 { format!("; o{n} success r{shared}") } else { String::new() };
        world.append(&format!("o{n} create 10:30; o{n} session r{shared} 10:17{paid}")).await;
        if n % 20 == 0 {
            world.fold_only(30).await;
        }
    }
    world.clock.set(at("10:18"));
    // Fold until nothing more is appended and both instances have scanned everything folded.
    let begun = tokio::time::Instant::now();
    while world.fold_only(100).await > 0 || {
        one.wait_for_scan().await;
        two.wait_for_scan().await;
        world.metric("lag_records") > 0.0 || world.fold_only(100).await > 0
    } {
        assert!(begun.elapsed() < NEVER, "[time] something is left to fold or to check");
    }
    one.stop().await.unwrap();
    two.stop().await.unwrap();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for fact in world.facts().await {
        *counts.entry(fact).or_default() += 1;
    }
    assert!(counts.values().all(|count| *count <= 2), "{counts:?}");
    for n in 0..orders {
        let expired = counts.remove(&format!("DeadlinePassed o{n} 10:17"));
        assert_eq!(expired.is_none(), n % 3 == 0, "o{n}");
        if n % 4 == 3 {
            let before = n - 1;
            assert!(
                counts.remove(&format!("RefShared o{n} r{before} o{before}")).is_some(),
                "o{n}"
            );
            assert!(
                counts.remove(&format!("RefShared o{before} r{before} o{n}")).is_some(),
                "o{n}"
            );
        }
    }
    assert!(counts.is_empty(), "wrong facts: {counts:?}");
}
