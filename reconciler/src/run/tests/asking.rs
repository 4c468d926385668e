//! The query loop over real engines and a partner on a socket. The tests set the clock; the pauses
//! between queries are real.

use payfold_testing::waits::eventually;

use super::failing::Fault;
use super::partner::Partner;
use super::world::{Running, World, settings};
use crate::partners::UnconfirmedNotices;
use crate::run::testkit::at;
use crate::schedule::Schedule;
use crate::settings::Settings;

/// Settings for queries. `page_entries` is small, so that every scan has several pages.
fn query_settings() -> Settings {
    Settings { query_poll: std::time::Duration::from_millis(5), page_entries: 3, ..settings() }
}

fn start(world: &World, partner: &Partner) -> Running {
    world.start_with_queries(query_settings(), partner.partners(UnconfirmedNotices::Never))
}

async fn fold_and_scan(world: &World, running: &Running) {
    world.fold().await;
    running.wait_for_scan().await;
    running.wait_for_scan().await;
}

#[tokio::test]
async fn a_stuck_order_is_queried_by_the_schedule_until_it_has_ended() {
    let (world, partner) = (World::new(), Partner::start().await);
    world
        .append(
            "o1 create 23:00; o1 session r1 22:00; o2 create 23:00; o3 create 23:00; \
             o3 session r3 22:00; o3 success r3",
        )
        .await;
    world.fold().await;
    partner.set_answer("r1", "PENDING");
    let running = start(&world, &partner);
    fold_and_scan(&world, &running).await;
    assert_eq!(partner.queries(), Vec::<String>::new(), "nothing is due yet");
    world.clock.set(at("10:01").plus_ms(1));
    // o2 has no session, so the query names the order; o3 is paid.
    let mut asked = partner.wait_for_queries(2).await;
    asked.sort();
    assert_eq!(asked, ["o2", "r1"]);
    fold_and_scan(&world, &running).await;
    world.clock.set(at("10:04"));
    fold_and_scan(&world, &running).await;
    assert_eq!(partner.queries().len(), 2);
    partner.set_answer("r1", "SUCCESS");
    world.clock.set(at("10:05").plus_ms(1));
    assert_eq!(world.wait_for_answers(1).await, ["QueryAnswered o1 r1 SUCCESS"]);
    partner.wait_for_queries(4).await;
    fold_and_scan(&world, &running).await;
    world.clock.set(at("10:30").plus_ms(1));
    assert_eq!(
        partner.wait_for_queries(5).await[4],
        "o2",
        "o1 has ended, the other is still unknown"
    );
    fold_and_scan(&world, &running).await;
    running.stop().await.unwrap();
    assert_eq!(world.answers().await.len(), 1);
    assert_eq!(world.queries("pending"), 1.0);
    assert_eq!(world.queries("unknown"), 3.0);
    assert_eq!(world.queries("ended"), 1.0);
    assert_eq!(world.metric("queries_waiting"), 0.0);
}

#[tokio::test]
async fn a_restart_queries_nothing_early_and_misses_no_order() {
    let (world, partner) = (World::new(), Partner::start().await);
    let lines: Vec<_> =
        (10..40).map(|n| format!("o{n} create 23:00; o{n} session r{n} 22:00")).collect();
    world.append(&lines.join("; ")).await;
    world.fold().await;
    let running = start(&world, &partner);
    world.clock.set(at("10:01").plus_ms(1));
    partner.wait_for_queries(30).await;
    running.stop().await.unwrap();
    // The role is down first while no query is due, then while queries are due.
    world.clock.set(at("10:04"));
    let running = start(&world, &partner);
    fold_and_scan(&world, &running).await;
    running.stop().await.unwrap();
    assert_eq!(partner.queries().len(), 30);
    world.clock.set(at("10:05").plus_ms(10_000));
    let running = start(&world, &partner);
    assert_eq!(
        partner.wait_for_queries(60).await.len(),
        60,
        "a restart that takes seconds misses nothing"
    );
    fold_and_scan(&world, &running).await;
    running.stop().await.unwrap();
    // It is down for longer: each order is found at its next time.
    world.clock.set(at("10:31"));
    let running = start(&world, &partner);
    fold_and_scan(&world, &running).await;
    assert_eq!(partner.queries().len(), 60);
    world.clock.set(at("12:00").plus_ms(1));
    partner.wait_for_queries(90).await;
    fold_and_scan(&world, &running).await;
    running.stop().await.unwrap();
    assert_eq!(partner.queries().len(), 90);
}

#[tokio::test]
async fn two_instances_append_the_same_answer() {
    let (world, partner) = (World::new(), Partner::start().await);
    world.append("o1 create 23:00; o1 session r1 22:00").await;
    world.fold().await;
    partner.set_answer("r1", "SUCCESS");
    let both = [start(&world, &partner), start(&world, &partner)];
    world.clock.set(at("10:01").plus_ms(1));
    assert!(
        world.wait_for_answers(1).await.iter().all(|fact| fact == "QueryAnswered o1 r1 SUCCESS")
    );
    for running in both {
        fold_and_scan(&world, &running).await;
        running.stop().await.unwrap();
    }
    assert_eq!(world.row("o1").await.facts.query_answers.len(), 1);
    assert!(world.answers().await.len() <= 2 && partner.queries().len() <= 2);
}

#[tokio::test]
async fn an_order_is_not_queried_before_the_fold_has_passed_its_time() {
    let (world, partner) = (World::new(), Partner::start().await);
    world.append("o1 create 23:00; o1 session r1 22:00").await;
    world.fold().await;
    let running = start(&world, &partner);
    running.wait_for_scan().await;
    // The payment of o1 waits behind a backlog.
    world.clock.set(at("10:00").plus_ms(1));
    world.append("o9 create 23:00; o1 success r1").await;
    world.clock.set(at("10:02"));
    running.wait_for_scan().await;
    running.wait_for_scan().await;
    assert_eq!(partner.queries(), Vec::<String>::new());
    fold_and_scan(&world, &running).await;
    partner.wait_for_queries(1).await;
    running.stop().await.unwrap();
    assert_eq!(partner.queries(), ["o9"], "o1 is paid");
}

/// When the role starts, the fold is behind by more than the whole schedule of an order, or has not
/// begun. The order is asked about late, and once.
#[tokio::test]
async fn a_start_while_the_fold_is_behind_misses_no_order() {
    for is_new in [false, true] {
        let (world, partner) = (World::new(), Partner::start().await);
        let minutes = |count: u64| std::time::Duration::from_secs(60 * count);
        let query_after = Schedule::new(&[minutes(1), minutes(5)]).unwrap();
        if !is_new {
            world.append("o0 create 23:00; o0 success r0").await;
            world.fold().await;
        }
        world.append("o1 create 23:00; o1 session r1 22:00").await;
        world.clock.set(at("12:00"));
        let settings = Settings { query_after, ..query_settings() };
        let running =
            world.start_with_queries(settings, partner.partners(UnconfirmedNotices::Never));
        running.wait_for_scan().await;
        running.wait_for_scan().await;
        assert_eq!(partner.queries(), Vec::<String>::new(), "what is not folded is not judged");
        world.fold().await;
        assert_eq!(partner.wait_for_queries(1).await, ["r1"], "new store: {is_new}");
        fold_and_scan(&world, &running).await;
        running.stop().await.unwrap();
        assert_eq!(partner.queries().len(), 1, "its times are over");
    }
}

/// The fold was behind for longer than the whole schedule of an order. The order is asked about
/// late, and once.
#[tokio::test]
async fn an_order_that_is_folded_after_its_whole_schedule_is_queried_once() {
    let (world, partner) = (World::new(), Partner::start().await);
    let minutes = |count: u64| std::time::Duration::from_secs(60 * count);
    let query_after = Schedule::new(&[minutes(1), minutes(5)]).unwrap();
    let running = world.start_with_queries(
        Settings { query_after, ..query_settings() },
        partner.partners(UnconfirmedNotices::Never),
    );
    running.wait_for_scan().await;
    world.append("o1 create 23:00; o1 session r1 22:00").await;
    world.clock.set(at("10:30"));
    running.wait_for_scan().await;
    assert_eq!(partner.queries(), Vec::<String>::new(), "what is not folded is not judged");
    world.fold().await;
    assert_eq!(partner.wait_for_queries(1).await, ["r1"]);
    fold_and_scan(&world, &running).await;
    running.stop().await.unwrap();
    assert_eq!(partner.queries(), ["r1"], "two times were over, and one question is enough");
}

#[tokio::test]
async fn a_partner_without_an_address_is_not_queried() {
    let (world, partner) = (World::new(), Partner::start().await);
    world.append("o1 create 23:00; o1 session r1 22:00").await;
    world.fold().await;
    let mut unreachable = partner.partners(UnconfirmedNotices::Never);
    unreachable.api_urls.clear();
    let running = world.start_with_queries(query_settings(), unreachable);
    world.clock.set(at("10:01").plus_ms(1));
    fold_and_scan(&world, &running).await;
    running.stop().await.unwrap();
    assert_eq!((partner.queries().len(), world.metric("queries_waiting")), (0, 0.0));
}

#[tokio::test]
async fn a_busy_partner_is_requeried_after_its_retry_after() {
    let (world, partner) = (World::new(), Partner::start().await);
    world.append("o1 create 23:00; o1 session r1 22:00").await;
    world.fold().await;
    partner.set_answer("r1", "429");
    let running = start(&world, &partner);
    // Before the first query: a pause of this machine only makes the time between the two look
    // longer.
    let begun = tokio::time::Instant::now();
    world.clock.set(at("10:01").plus_ms(1));
    partner.wait_for_queries(1).await;
    partner.set_answer("r1", "FAILED");
    assert_eq!(world.wait_for_answers(1).await, ["QueryAnswered o1 r1 FAILED"]);
    assert!(begun.elapsed() > std::time::Duration::from_millis(1_900), "{:?}", begun.elapsed());
    running.stop().await.unwrap();
    assert_eq!((world.queries("busy"), partner.queries().len()), (1.0, 2));
}

/// An order that was settled while its query was queued is not asked about.
#[tokio::test]
async fn the_row_is_reread_before_the_query() {
    let (world, partner) = (World::new(), Partner::start().await);
    world
        .append("o1 create 23:00; o1 session r1 22:00; o2 create 23:00; o2 session r2 22:00")
        .await;
    world.fold().await;
    for what in ["r1", "r2"] {
        partner.set_answer(what, "429");
    }
    // One query at a time, so that r1 is queried first.
    let profile = payfold_partners::profile::SANDBOX_PROFILE.replace("at_once = 16", "at_once = 1");
    let partners = partner.partners_of(&profile, UnconfirmedNotices::Never);
    let running = world.start_with_queries(query_settings(), partners);
    world.clock.set(at("10:01").plus_ms(1));
    partner.wait_for_queries(1).await;
    world.append("o1 success r1").await;
    world.fold().await;
    let before = partner.queries().iter().filter(|what| *what == "r1").count();
    partner.set_answer("r1", "SUCCESS");
    partner.set_answer("r2", "SUCCESS");
    assert_eq!(world.wait_for_answers(1).await, ["QueryAnswered o2 r2 SUCCESS"]);
    fold_and_scan(&world, &running).await;
    running.stop().await.unwrap();
    let asked = partner.queries().iter().filter(|what| *what == "r1").count();
    assert_eq!((asked, world.answers().await.len()), (before, 1));
}

/// The schedule of an unconfirmed notice counts from its own receipt, which may be long after its
/// order was created. The watch survives a restart.
#[tokio::test]
async fn an_unconfirmed_notice_is_queried_after_its_receipt_until_it_is_confirmed() {
    let (world, partner) = (World::new(), Partner::start().await);
    world.append("o1 create 23:00; o1 session r1 22:00").await;
    world.fold().await;
    world.clock.set(at("20:00"));
    let start = || {
        world.start_with_queries(query_settings(), partner.partners(UnconfirmedNotices::Possible))
    };
    let running = start();
    world.append("o1 unconfirmed r1; o2 unconfirmed r2").await;
    world.wait_for_metric("unconfirmed_waiting", 2.0).await;
    world.clock.set(at("20:01"));
    // The notices are not folded yet, so their orders are not judged yet.
    running.wait_for_scan().await;
    assert_eq!(partner.queries(), Vec::<String>::new());
    world.fold().await;
    world.clock.set(at("20:01").plus_ms(1_000));
    partner.set_answer("r2", "PENDING");
    let mut asked = partner.wait_for_queries(2).await;
    asked.sort();
    assert_eq!(asked, ["r1", "r2"]);
    running.stop().await.unwrap();
    // The next wait must not end with the value that this run has left there.
    world.metrics.set_unconfirmed_waiting(0);
    // The next run reads both again, and queries nothing at once.
    partner.set_answer("r1", "SUCCESS");
    partner.set_answer("r2", "SUCCESS");
    world.clock.set(at("20:03"));
    let running = start();
    fold_and_scan(&world, &running).await;
    world.wait_for_metric("unconfirmed_waiting", 2.0).await;
    assert_eq!(partner.queries().len(), 2);
    world.clock.set(at("20:05"));
    let found = world.wait_for_answers(2).await;
    assert_eq!(found, ["QueryAnswered o1 r1 SUCCESS", "QueryAnswered o2 r2 SUCCESS"]);
    fold_and_scan(&world, &running).await;
    world.clock.set(at("20:30"));
    world.wait_for_metric("unconfirmed_waiting", 0.0).await;
    fold_and_scan(&world, &running).await;
    running.stop().await.unwrap();
    assert_eq!(partner.queries().len(), 4);
}

/// Every method of the storage fails twice.
#[tokio::test]
async fn queries_wait_for_unavailable_storage() {
    let (world, partner) = (World::new(), Partner::start().await);
    world.append("o1 create 23:00; o1 session r1 22:00; o2 unconfirmed r2").await;
    world.fold().await;
    for what in ["r1", "r2"] {
        partner.set_answer(what, "SUCCESS");
    }
    let fault = Fault::Unavailable { times: 2 };
    let running = world.start_with_fault_and_queries(
        fault,
        query_settings(),
        Some(partner.partners(UnconfirmedNotices::Possible)),
    );
    world.clock.set(at("10:01").plus_ms(1));
    // o2 may have been read after its first time; then it is asked about at its second.
    assert!(world.wait_for_answers(1).await.contains(&"QueryAnswered o1 r1 SUCCESS".to_owned()));
    fold_and_scan(&world, &running).await;
    world.clock.set(at("10:05").plus_ms(1));
    assert_eq!(
        world.wait_for_answers(2).await,
        ["QueryAnswered o1 r1 SUCCESS", "QueryAnswered o2 r2 SUCCESS"]
    );
    running.stop().await.unwrap();
}

/// The partner is queried by transaction only. The order waits for the notice that names one;
/// nothing is wrong, and nothing is logged.
#[tokio::test]
async fn an_order_without_a_known_transaction_is_not_queried() {
    let (world, partner) = (World::new(), Partner::start().await);
    world.append("o1 create 23:00; o2 create 23:00; o2 session r2 22:00").await;
    world.fold().await;
    let profile = payfold_partners::profile::ShippedProfile::of("razorpay").unwrap().profile;
    let profile = profile
        .replace("stage = \"draft\"", "stage = \"sandbox\"")
        .replace("key = \"own\"", "key = \"shared\"");
    let partners = partner.partners_of(&profile, UnconfirmedNotices::Never);
    let running = world.start_with_queries(query_settings(), partners);
    world.clock.set(at("10:01").plus_ms(1));
    // The partner knows no such payment. The last part of the path names the transaction.
    assert_eq!(partner.wait_for_queries(1).await, ["r2"]);
    eventually("both are counted", async || {
        let counted = world.queries("no_ref") + world.queries("unknown");
        if counted < 2.0 { Err(counted) } else { Ok(()) }
    })
    .await;
    running.stop().await.unwrap();
    assert_eq!((world.queries("no_ref"), world.queries("unknown")), (1.0, 1.0));
    assert_eq!(partner.queries(), ["r2"]);
}
