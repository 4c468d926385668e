//! The run loop over real SQLite engines, and wrappers that fail on purpose.

mod failing;
pub(crate) mod world;

use payfold_engines::log::{Delivered, Message, Topic};
use payfold_engines::orders::{OrderStore, Scan, ViewEntry};
use payfold_schemas::ids::{MerchantCode, PartnerCode, ProviderRef, Reference};
use payfold_schemas::order::{Order, OrderState};
use payfold_schemas::position::Position;
use payfold_schemas::record::RecordError;

use self::failing::{Failing, Fault};
use self::world::{World, key, run_through, settings};
use super::*;
use crate::fold::testkit::at;

/// Facts of three orders: out of order, with a repeat and a changed policy.
const DAY: &str = "a C 100; b S r2 70 @10:02; a O r1; b C 70; a S r1 100 @10:05; a S r1 100 @10:05
    c C 5; b O r2; a R r1 40; c CF partner_refused; b S r2 70 @10:02 session; a R r1 100";
const ORDERS: [&str; 3] = ["a", "b", "c"];

/// The day folded in one run. Every other way of folding it must have the same result.
async fn whole_day() -> World {
    let world = World::new();
    world.append(DAY).await;
    world.run(world.projector()).await;
    world
}

#[tokio::test]
async fn facts_become_events_rows_views_and_progress() {
    let world = whole_day().await;
    let events: Vec<_> = world.events().await.iter().map(world::event_line).collect();
    assert_eq!(
        events.join("\n"),
        "p/M/a/1/1 none→REQUESTED C@0-1 at 10:10
p/M/b/1/1 none→UNMATCHED S@0-2 at 10:02
p/M/a/1/2 REQUESTED→PENDING O@0-3 at 10:10
p/M/b/1/2 UNMATCHED→PAID fulfil C@0-4 at 10:10
p/M/a/1/3 PENDING→PAID fulfil S@0-5 at 10:05
p/M/c/1/1 none→REQUESTED C@0-7 at 10:10
p/M/b/1/3 PAID→PAID fulfil O@0-8 at 10:10
p/M/a/1/4 PAID→PAID fulfil R@0-9 at 10:10
p/M/c/1/2 REQUESTED→FAILED CF@0-10 at 10:10
p/M/b/1/4 PAID→PAID fulfil S@0-11 at 10:02
p/M/a/1/5 PAID→REFUNDED R@0-12 at 10:10"
    );
    let rows = world.rows(&ORDERS).await;
    let states: Vec<_> = rows.iter().map(|row| row.as_ref().unwrap().summary.state).collect();
    assert_eq!(states, [OrderState::Refunded, OrderState::Paid, OrderState::Failed]);
    assert_eq!(rows[0].as_ref().unwrap().position.offset, 12);
    let (partner, merchant) = (PartnerCode::parse("p").unwrap(), MerchantCode::parse("M").unwrap());
    let by_ref = ProviderRef::parse("r1").unwrap();
    let scan = Scan::ProviderRef(partner.clone(), merchant.clone(), by_ref.clone());
    let entry = (key("a"), ViewEntry::ProviderRef(by_ref));
    assert_eq!(world.store.scan(scan, None, 9).await.unwrap().entries, [entry]);
    let reference = Reference::parse("basket 1").unwrap();
    let scan = Scan::Reference(partner, merchant, reference);
    assert_eq!(world.store.scan(scan, None, 9).await.unwrap().entries.len(), 3);
    let scan = Scan::Created { from: at("10:10"), until: at("10:11") };
    assert_eq!(world.store.scan(scan, None, 9).await.unwrap().entries.len(), 3);
    let scan = Scan::Deadline { from: at("10:17"), until: at("10:31") };
    assert_eq!(world.store.scan(scan, None, 9).await.unwrap().entries.len(), 5);
    let progress = world.store.progress().await.unwrap().unwrap();
    assert_eq!(progress.folded[0].position.offset, 12);
    assert_eq!(progress.log_id, world.log.id());
}

#[tokio::test]
async fn an_event_is_these_bytes() {
    let world = whole_day().await;
    let event = &world.events().await[4];
    assert_eq!(event.key, "p/M/a");
    assert_eq!(
        String::from_utf8(event.value.clone()).unwrap(),
        r#"{"partner":"p","merchantCode":"M","orderId":"a","reference":"basket 1","attempt":1,"#
            .to_owned()
            + r#""epoch":1,"version":3,"previousState":"PENDING","state":"PAID","fulfil":true,"#
            + r#""attention":[],"amount":100,"currency":"VND","exponent":0,"paidAmount":100,"#
            + r#""refundedAmount":0,"sessionRef":"r1","paymentRef":"r1","#
            + r#""paidAt":"2026-01-31T10:05:00Z","#
            + r#""deadline":"2026-01-31T10:17:00Z","cause":{"kind":"ipn","status":"SUCCESS","#
            + r#""position":{"partition":0,"offset":5},"#
            + r#""requestId":"01939b1c-7a00-7000-8000-000000000001"},"profile":null}"#
    );
}

#[tokio::test]
async fn batch_and_cache_sizes_do_not_change_the_result() {
    let whole = whole_day().await;
    for (batch_records_max, cache_bytes) in [(1, 0), (1, 1 << 20), (3, 0), (5, 1_000), (40, 0)] {
        let world = World::new();
        // Many appends, so that orders are evicted from the cache and loaded again.
        for line in DAY.split([';', '\n']) {
            world.append(line).await;
        }
        let settings = ProjectorSettings { batch_records_max, cache_bytes, ..settings() };
        world.run(world.projector_with(world.log.clone(), world.store.clone(), settings)).await;
        let (events, expected) = (texts(&world.events().await), texts(&whole.events().await));
        assert_eq!(events, expected, "{batch_records_max} {cache_bytes}");
        assert_eq!(world.rows(&ORDERS).await, whole.rows(&ORDERS).await);
    }
}

#[tokio::test]
async fn a_crash_between_publish_and_commit_repeats_the_same_events() {
    let whole = whole_day().await;
    let world = World::new();
    world.append(DAY).await;
    let settings = ProjectorSettings { batch_records_max: 5, ..settings() };
    // The second commit never happens.
    let store = Failing::new(&world, Fault::Crash { commit: 2 });
    let crashed = world.projector_with(world.log.clone(), store, settings.clone());
    let halted = run_through(crashed, 12).await.unwrap_err();
    assert!(matches!(halted, RunError::Engine { what: "commit orders", .. }));
    let progress = world.store.progress().await.unwrap().unwrap();
    assert_eq!(progress.folded[0].position.offset, 5);

    world.run(world.projector_with(world.log.clone(), world.store.clone(), settings)).await;
    assert_eq!(world.rows(&ORDERS).await, whole.rows(&ORDERS).await);
    // The events of the second batch are published before the crash, and a second time after it.
    let (all, expected) = (texts(&world.events().await), texts(&whole.events().await));
    let before = all.len() - expected[5..].len();
    assert!(before > 5, "the second batch was published");
    assert_eq!(all[..before], expected[..before]);
    assert_eq!(all[before..], expected[5..]);
}

/// Attributes and bytes of events, readable in a failure.
fn texts(events: &[Delivered]) -> Vec<String> {
    let text = |event: &Delivered| {
        format!("{:?} {}", event.event, String::from_utf8(event.value.clone()).unwrap())
    };
    events.iter().map(text).collect()
}

#[tokio::test]
async fn redelivered_records_change_nothing_and_publish_nothing() {
    let world = whole_day().await;
    let (rows, events) = (world.rows(&ORDERS).await, world.events().await);
    // The store has lost its progress, so the whole log is redelivered.
    let store = Failing::new(&world, Fault::ForgetProgress);
    let settings = ProjectorSettings { batch_records_max: 5, ..settings() };
    world.run(world.projector_with(world.log.clone(), store.clone(), settings)).await;
    assert_eq!(world.rows(&ORDERS).await, rows);
    assert_eq!(world.events().await, events);
    // Rows and entries were still written a second time, and no row went back to an older record
    // meanwhile.
    let commits = store.commits();
    let rewritten: Vec<_> = commits.iter().flat_map(|commit| &commit.orders).collect();
    assert!(rewritten.len() > ORDERS.len());
    assert!(rewritten.into_iter().all(|order| rows.contains(&Some(Order::clone(order)))));
    assert!(commits[0].views.contains(&(key("a"), ViewEntry::Created(at("10:10")))));
}

#[tokio::test]
async fn while_storage_is_unavailable_operations_are_retried() {
    let whole = whole_day().await;
    let world = World::new();
    world.append(DAY).await;
    let store = Failing::new(&world, Fault::Unavailable { times: 3 });
    let log = Failing::new(&world, Fault::Unavailable { times: 3 });
    world.run(world.projector_with(log, store, settings())).await;
    assert_eq!(world.rows(&ORDERS).await, whole.rows(&ORDERS).await);
    assert_eq!(world.events().await, whole.events().await);
    assert_eq!(world.metric("payfold_projector_publish_failures_total"), 3.0);
}

#[tokio::test]
async fn a_stop_signal_during_an_outage_ends_the_run_without_an_error() {
    let world = World::new();
    world.append(DAY).await;
    let store = Failing::new(&world, Fault::Unavailable { times: u32::MAX });
    let projector = world.projector_with(world.log.clone(), store.clone(), settings());
    let (stop, stopped) = watch::channel(false);
    let running = tokio::spawn(projector.run(stopped));
    store.failed(5).await;
    stop.send_replace(true);
    assert_eq!(running.await.unwrap(), Ok(()));
    assert!(world.store.progress().await.unwrap().is_none());
}

#[tokio::test]
async fn a_record_that_cannot_be_read_halts_after_what_came_before_it() {
    let world = World::new();
    world.append("a C 100; a O r1").await;
    let bad =
        Message { key: "p/M/a".into(), event: None, value: b"\x07nonsense".to_vec(), mac: None };
    world.log.append_all(Topic::Intake, vec![bad]).await.unwrap();
    world.append("a S r1 100").await;
    let halted = run_through(world.projector(), 4).await.unwrap_err();
    let position = Position { partition: 0, offset: 3 };
    assert_eq!(
        halted,
        RunError::Undecodable {
            position,
            error: RecordError::UnknownVersion(7),
            halted: "its partition is halted there"
        }
    );
    assert!(halted.to_string().starts_with("record 0-3 of intake can't be read"));
    assert_eq!(world.metric("payfold_projector_partitions_halted"), 1.0);
    // Nothing is measured any longer, so no age that would stand still is exported.
    assert_eq!(world.metric("payfold_projector_lag_records"), 2.0);
    let exported = world.registry.gather();
    assert!(exported.iter().all(|family| family.name() != "payfold_projector_lag_seconds"));
    let row = world.rows(&["a"]).await.remove(0).unwrap();
    assert_eq!((row.summary.state, row.position.offset), (OrderState::Pending, 2));
    // A restarted projector halts at the same record.
    assert_eq!(run_through(world.projector(), 4).await.unwrap_err(), halted);
}

#[tokio::test]
async fn a_store_of_another_log_is_refused() {
    let (one, other) = (whole_day().await, World::new());
    other.append(DAY).await;
    let crossed = one.projector_with(other.log.clone(), one.store.clone(), settings());
    let refused = run_through(crossed, 12).await.unwrap_err();
    assert!(refused.to_string().starts_with("the order store was folded from another log"));
    // A log with the right id may still have been restored from an older backup.
    for (fault, why) in [
        (Fault::Progress { offset: 13, same_digest: true }, "the log ends before record 0-13"),
        (Fault::Progress { offset: 12, same_digest: false }, "record 0-12 of the log is another"),
    ] {
        let store = Failing::new(&one, fault);
        let crossed = one.projector_with(one.log.clone(), store, settings());
        let refused = run_through(crossed, 12).await.unwrap_err();
        assert!(refused.to_string().starts_with(why), "{refused}");
    }
}

#[tokio::test]
async fn the_run_ends_when_the_sender_of_the_stop_signal_is_gone() {
    let world = World::new();
    let (stop, stopped) = watch::channel(false);
    drop(stop);
    assert_eq!(world.projector().run(stopped).await, Ok(()));
}

#[tokio::test]
async fn the_lag_is_measured() {
    let world = World::new();
    world.append("a C 100; a O r1").await;
    // Nothing is committed: both records wait.
    let store = Failing::new(&world, Fault::Unavailable { times: u32::MAX });
    let projector = world.projector_with(world.log.clone(), store, settings());
    let status = projector.status();
    let (stop, stopped) = watch::channel(false);
    let running = tokio::spawn(projector.run(stopped));
    let lag = status.lag().wait_for(Option::is_some).await.unwrap().unwrap();
    assert_eq!(lag.records, 2);
    assert!(lag.age_ms > 0);
    assert_eq!(world.metric("payfold_projector_lag_records"), 2.0);
    assert_eq!(world.metric("payfold_projector_partitions"), 1.0);
    assert_eq!(world.metric("payfold_projector_intake_partitions"), 1.0);
    stop.send_replace(true);
    running.await.unwrap().unwrap();
    assert_eq!(*status.lag().borrow(), None);
}

/// Prints how fast a log is folded:
/// `cargo test --release -p payfold-projector how_fast -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn how_fast_a_log_is_folded() {
    // Ascending sizes, because the memory of the larger one hides that of the smaller.
    for batch_records_max in [2_048, 4_096] {
        fold_quickly(
            200_000,
            ProjectorSettings { batch_records_max, ..ProjectorSettings::default() },
        )
        .await;
    }
}

async fn fold_quickly(orders: u64, settings: ProjectorSettings) {
    let world = World::new();
    let batch = settings.batch_records_max;
    let mut lines = Vec::new();
    for n in 0..orders {
        lines.extend([format!("o{n} C 100"), format!("o{n} O r{n}")]);
        // Paid some 20,000 orders later, so that many were evicted from the cache.
        if n >= 20_000 {
            let paid = n - 20_000;
            lines.push(format!("o{paid} S r{paid} 100 @10:05"));
        }
        if lines.len() > 10_000 {
            world.append(&std::mem::take(&mut lines).join("\n")).await;
        }
    }
    world.append(&lines.join("\n")).await;
    let last = world.log.extent(Topic::Intake).await.unwrap()[0].last;
    let (before, start) = (usage(), std::time::Instant::now());
    world.run(world.projector_with(world.log.clone(), world.store.clone(), settings)).await;
    let (seconds, after) = (start.elapsed().as_secs_f64(), usage());
    let cpu_seconds = after.cpu_seconds - before.cpu_seconds;
    println!(
        "{last} facts by {batch}: {:.0}/s, {seconds:.2} s, of both cores {cpu_seconds:.2} s: \
         {:.1} µs each; memory {} → {} MB",
        last as f64 / seconds,
        cpu_seconds * 1e6 / last as f64,
        before.rss_mb,
        after.rss_mb
    );
}

struct Usage {
    cpu_seconds: f64,
    rss_mb: u64,
}

/// The CPU time and memory this process has used.
fn usage() -> Usage {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap();
    // Fields 14 and 15 of stat are ticks of 10 ms; the name before them may hold blanks.
    let stat = read("stat");
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = [11, 12].iter().map(|n| fields[*n].parse::<u64>().unwrap()).sum();
    let status = read("status");
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let rss_kb: u64 = rss.trim().trim_end_matches(" kB").parse().unwrap();
    Usage { cpu_seconds: ticks as f64 / 100.0, rss_mb: rss_kb / 1024 }
}
