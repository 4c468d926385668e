//! Measurements of the scan of deadlines and of a window of queries.

use std::sync::Arc;
use std::time::Instant;

use payfold_engines::log::EventLog;
use payfold_engines::orders::{Commit, OrderStore, ViewEntry};
use payfold_schemas::order::{Order, OrderState};

use super::failing::Fault;
use super::partner::Partner;
use super::world::World;
use crate::partners::UnconfirmedNotices;
use crate::run::testkit::{at, create, ipn, known, known_ipn, order, session};
use crate::settings::Settings;

/// Prints how long the first scan over many old entries takes:
/// `cargo test --release -p payfold-reconciler first_pass -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn first_pass_over_a_hundred_thousand_entries() {
    for (orders, state) in [(100_000_u32, OrderState::Paid), (100_000, OrderState::Pending)] {
        let world = World::new();
        let many: Vec<_> =
            (0..orders).map(|n| order(&format!("ord-{n:08}"), state, Some(at("10:20")))).collect();
        let entry = |order: &Order| (order.key.clone(), ViewEntry::Deadline(at("10:20")));
        for orders in many.chunks(10_000) {
            let views = orders.iter().map(entry).collect();
            let commit = Commit {
                orders: orders.iter().cloned().map(Arc::new).collect(),
                views,
                folded: Vec::new(),
                log_id: world.log.id(),
            };
            world.store.commit(commit).await.unwrap();
        }
        drop(many);
        world.clock.set(at("12:00"));
        let (before, started) = (rss_mb(), Instant::now());
        let running = world.start_with(Fault::None, Settings::default());
        let pages = orders.div_ceil(512);
        running.engines.wait_for_calls("load", pages).await;
        if state == OrderState::Pending {
            while world.metric("deadlines_appended_total") < f64::from(orders) {
                running.engines.wait_for_more_calls("extent", 1).await;
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "{orders} entries, {state}: {seconds:.2} s, {:.0} appended; memory {before} → {} MB",
            world.metric("deadlines_appended_total"),
            rss_mb()
        );
        running.stop().await.unwrap();
    }
}

/// Prints how long one window over many paid orders takes, which is the cost of the orders at each
/// delay of the schedule: `cargo test --release -p payfold-reconciler one_window -- --ignored
/// --nocapture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn one_window_over_a_hundred_thousand_orders() {
    let (world, partner) = (World::new(), Partner::start().await);
    let orders = 100_000_u32;
    let paid = |n: u32| {
        let mut row = order(&format!("ord-{n:08}"), OrderState::Paid, Some(at("22:00")));
        let provider_ref = format!("ref-{n:08}");
        row.facts.creates.push(known(create("23:00")));
        row.facts.sessions.push(known(session(&provider_ref, "22:00")));
        row.facts.ipns.push(known(known_ipn(&ipn(&provider_ref))));
        row
    };
    let many: Vec<_> = (0..orders).map(paid).collect();
    let entry = |order: &Order| (order.key.clone(), ViewEntry::Created(at("10:00")));
    for orders in many.chunks(10_000) {
        let views = orders.iter().map(entry).collect();
        let (folded, log_id) = (Vec::new(), world.log.id());
        let commit = Commit {
            orders: orders.iter().cloned().map(Arc::new).collect(),
            views,
            folded,
            log_id,
        };
        world.store.commit(commit).await.unwrap();
    }
    drop(many);
    let partners = partner.partners(UnconfirmedNotices::Never);
    let running = world.start_with_queries(Settings::default(), partners);
    running.wait_for_scan().await;
    let (before, started) = (rss_mb(), Instant::now());
    world.clock.set(at("10:01").plus_ms(1_001));
    let pages = running.engines.calls("load") + orders.div_ceil(512);
    running.engines.wait_for_calls("load", pages).await;
    let seconds = started.elapsed().as_secs_f64();
    println!("{orders} paid orders: {seconds:.2} s; memory {before} → {} MB", rss_mb());
    running.stop().await.unwrap();
    assert_eq!(partner.queries().len(), 0);
}

fn rss_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    rss.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1_024
}
