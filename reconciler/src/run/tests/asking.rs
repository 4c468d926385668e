//! The query loop over real engines and a partner on a socket. The clock is ours; pauses between questions are real.

use super::failing::Fault;
use super::partner::Partner;
use super::world::{Running, World, settings};
use crate::partners::Confirms;
use crate::run::Settings;
use crate::run::testkit::at;
use crate::schedule::Schedule;

/// Also asks; `page_entries` is small, so that every walk has pages.
fn asking() -> Settings {
    Settings { query_poll: std::time::Duration::from_millis(5), page_entries: 3, ..settings() }
}

fn start(world: &World, partner: &Partner) -> Running {
    world.start_asking(asking(), partner.partners(Confirms::Never))
}

async fn settled(world: &World, running: &Running) {
    world.fold().await;
    running.walked().await;
    running.walked().await;
}

#[tokio::test]
async fn a_stuck_order_is_asked_about_at_its_times_until_it_has_ended() {
    let (world, partner) = (World::new(), Partner::start().await);
    world.append("o1 C 23:00; o1 O r1 22:00; o2 C 23:00; o3 C 23:00; o3 O r3 22:00; o3 S r3").await;
    world.fold().await;
    partner.says("r1", "PENDING");
    let running = start(&world, &partner);
    settled(&world, &running).await;
    assert_eq!(partner.asked(), Vec::<String>::new(), "nothing is due yet");
    world.clock.set(at("10:01").plus_ms(1));
    // o2 has no session, so it is asked for as an order; o3 is paid.
    let mut asked = partner.asked_times(2).await;
    asked.sort();
    assert_eq!(asked, ["o2", "r1"]);
    settled(&world, &running).await;
    world.clock.set(at("10:04"));
    settled(&world, &running).await;
    assert_eq!(partner.asked().len(), 2);
    partner.says("r1", "SUCCESS");
    world.clock.set(at("10:05").plus_ms(1));
    assert_eq!(world.answered(1).await, ["P o1 r1 SUCCESS"]);
    partner.asked_times(4).await;
    settled(&world, &running).await;
    world.clock.set(at("10:30").plus_ms(1));
    assert_eq!(partner.asked_times(5).await[4], "o2", "o1 has ended, the other is still unknown");
    settled(&world, &running).await;
    running.stop().await.unwrap();
    assert_eq!(world.answers().await.len(), 1);
    assert_eq!(world.queries("pending"), 1.0);
    assert_eq!(world.queries("unknown"), 3.0);
    assert_eq!(world.queries("ended"), 1.0);
    assert_eq!(world.metric("queries_waiting"), 0.0);
}

#[tokio::test]
async fn a_restart_asks_nothing_before_its_time_and_forgets_nobody() {
    let (world, partner) = (World::new(), Partner::start().await);
    let lines: Vec<_> = (10..40).map(|n| format!("o{n} C 23:00; o{n} O r{n} 22:00")).collect();
    world.append(&lines.join("; ")).await;
    world.fold().await;
    let running = start(&world, &partner);
    world.clock.set(at("10:01").plus_ms(1));
    partner.asked_times(30).await;
    running.stop().await.unwrap();
    // Down while nothing was due, then while something was.
    world.clock.set(at("10:04"));
    let running = start(&world, &partner);
    settled(&world, &running).await;
    running.stop().await.unwrap();
    assert_eq!(partner.asked().len(), 30);
    world.clock.set(at("10:05").plus_ms(10_000));
    let running = start(&world, &partner);
    assert_eq!(
        partner.asked_times(60).await.len(),
        60,
        "a restart that takes seconds misses nothing"
    );
    settled(&world, &running).await;
    running.stop().await.unwrap();
    // Down for longer: the next time of each finds it.
    world.clock.set(at("10:31"));
    let running = start(&world, &partner);
    settled(&world, &running).await;
    assert_eq!(partner.asked().len(), 60);
    world.clock.set(at("12:00").plus_ms(1));
    partner.asked_times(90).await;
    settled(&world, &running).await;
    running.stop().await.unwrap();
    assert_eq!(partner.asked().len(), 90);
}

#[tokio::test]
async fn two_instances_and_a_partners_repeats_do_no_harm() {
    let (world, partner) = (World::new(), Partner::start().await);
    world.append("o1 C 23:00; o1 O r1 22:00").await;
    world.fold().await;
    partner.says("r1", "SUCCESS");
    let both = [start(&world, &partner), start(&world, &partner)];
    world.clock.set(at("10:01").plus_ms(1));
    assert!(world.answered(1).await.iter().all(|fact| fact == "P o1 r1 SUCCESS"));
    for running in both {
        settled(&world, &running).await;
        running.stop().await.unwrap();
    }
    assert_eq!(world.row("o1").await.facts.query_answers.len(), 1);
    assert!(world.answers().await.len() <= 2 && partner.asked().len() <= 2);
}

#[tokio::test]
async fn nobody_is_asked_about_what_is_not_folded() {
    let (world, partner) = (World::new(), Partner::start().await);
    world.append("o1 C 23:00; o1 O r1 22:00").await;
    world.fold().await;
    let running = start(&world, &partner);
    running.walked().await;
    // Its payment waits behind a backlog.
    world.clock.set(at("10:00").plus_ms(1));
    world.append("o9 C 23:00; o1 S r1").await;
    world.clock.set(at("10:02"));
    running.walked().await;
    running.walked().await;
    assert_eq!(partner.asked(), Vec::<String>::new());
    settled(&world, &running).await;
    partner.asked_times(1).await;
    running.stop().await.unwrap();
    assert_eq!(partner.asked(), ["o9"], "o1 is paid");
}

/// The fold is behind by more than all the times of an order when the role starts, or has not begun: the order is asked
/// about late, and once.
#[tokio::test]
async fn a_start_while_the_fold_is_behind_forgets_nobody() {
    for is_new in [false, true] {
        let (world, partner) = (World::new(), Partner::start().await);
        let minutes = |count: u64| std::time::Duration::from_secs(60 * count);
        let query_after = Schedule::new(&[minutes(1), minutes(5)]).unwrap();
        if !is_new {
            world.append("o0 C 23:00; o0 S r0").await;
            world.fold().await;
        }
        world.append("o1 C 23:00; o1 O r1 22:00").await;
        world.clock.set(at("12:00"));
        let settings = Settings { query_after, ..asking() };
        let running = world.start_asking(settings, partner.partners(Confirms::Never));
        running.walked().await;
        running.walked().await;
        assert_eq!(partner.asked(), Vec::<String>::new(), "what is not folded is not judged");
        world.fold().await;
        assert_eq!(partner.asked_times(1).await, ["r1"], "new store: {is_new}");
        settled(&world, &running).await;
        running.stop().await.unwrap();
        assert_eq!(partner.asked().len(), 1, "its times are over");
    }
}

/// The fold was behind for longer than all the times of an order: the order is asked about late, and once.
#[tokio::test]
async fn an_order_that_is_folded_after_all_its_times_is_asked_about_once() {
    let (world, partner) = (World::new(), Partner::start().await);
    let minutes = |count: u64| std::time::Duration::from_secs(60 * count);
    let query_after = Schedule::new(&[minutes(1), minutes(5)]).unwrap();
    let running =
        world.start_asking(Settings { query_after, ..asking() }, partner.partners(Confirms::Never));
    running.walked().await;
    world.append("o1 C 23:00; o1 O r1 22:00").await;
    world.clock.set(at("10:30"));
    running.walked().await;
    assert_eq!(partner.asked(), Vec::<String>::new(), "what is not folded is not judged");
    world.fold().await;
    assert_eq!(partner.asked_times(1).await, ["r1"]);
    settled(&world, &running).await;
    running.stop().await.unwrap();
    assert_eq!(partner.asked(), ["r1"], "two times were over, and one question is enough");
}

#[tokio::test]
async fn an_order_of_a_partner_that_cannot_be_asked_is_left_alone() {
    let (world, partner) = (World::new(), Partner::start().await);
    world.append("o1 C 23:00; o1 O r1 22:00").await;
    world.fold().await;
    let mut unreachable = partner.partners(Confirms::Never);
    unreachable.api_urls.clear();
    let running = world.start_asking(asking(), unreachable);
    world.clock.set(at("10:01").plus_ms(1));
    settled(&world, &running).await;
    running.stop().await.unwrap();
    assert_eq!((partner.asked().len(), world.metric("queries_waiting")), (0, 0.0));
}

#[tokio::test]
async fn a_busy_partner_is_asked_again_after_its_time_and_not_before() {
    let (world, partner) = (World::new(), Partner::start().await);
    world.append("o1 C 23:00; o1 O r1 22:00").await;
    world.fold().await;
    partner.says("r1", "429");
    let running = start(&world, &partner);
    // Before the first question: a pause of this machine only makes the time between the two look longer.
    let begun = tokio::time::Instant::now();
    world.clock.set(at("10:01").plus_ms(1));
    partner.asked_times(1).await;
    partner.says("r1", "FAILED");
    assert_eq!(world.answered(1).await, ["P o1 r1 FAILED"]);
    assert!(begun.elapsed() > std::time::Duration::from_millis(1_900), "{:?}", begun.elapsed());
    running.stop().await.unwrap();
    assert_eq!((world.queries("busy"), partner.asked().len()), (1.0, 2));
}

/// What was settled while its question waited is not asked any more.
#[tokio::test]
async fn an_order_is_looked_at_again_before_it_is_asked_about() {
    let (world, partner) = (World::new(), Partner::start().await);
    world.append("o1 C 23:00; o1 O r1 22:00; o2 C 23:00; o2 O r2 22:00").await;
    world.fold().await;
    for what in ["r1", "r2"] {
        partner.says(what, "429");
    }
    // One question under way, so that r1 is asked about first.
    let profile = payfold_partners::profile::SANDBOX_PROFILE.replace("at_once = 16", "at_once = 1");
    let running = world.start_asking(asking(), partner.partners_of(&profile, Confirms::Never));
    world.clock.set(at("10:01").plus_ms(1));
    partner.asked_times(1).await;
    world.append("o1 S r1").await;
    world.fold().await;
    let before = partner.asked().iter().filter(|what| *what == "r1").count();
    partner.says("r1", "SUCCESS");
    partner.says("r2", "SUCCESS");
    assert_eq!(world.answered(1).await, ["P o2 r2 SUCCESS"]);
    settled(&world, &running).await;
    running.stop().await.unwrap();
    let asked = partner.asked().iter().filter(|what| *what == "r1").count();
    assert_eq!((asked, world.answers().await.len()), (before, 1));
}

/// A notice that waits counts from its own receipt, long after its order was made, and survives a restart.
#[tokio::test]
async fn an_unconfirmed_notice_is_asked_about_after_its_receipt_until_it_is_confirmed() {
    let (world, partner) = (World::new(), Partner::start().await);
    world.append("o1 C 23:00; o1 O r1 22:00").await;
    world.fold().await;
    world.clock.set(at("20:00"));
    let start = || world.start_asking(asking(), partner.partners(Confirms::Some));
    let running = start();
    world.append("o1 unconfirmed r1; o2 unconfirmed r2").await;
    world.metric_is("unconfirmed_waiting", 2.0).await;
    world.clock.set(at("20:01"));
    // Not folded yet, so its order is not judged yet.
    running.walked().await;
    assert_eq!(partner.asked(), Vec::<String>::new());
    world.fold().await;
    world.clock.set(at("20:01").plus_ms(1_000));
    partner.says("r2", "PENDING");
    let mut asked = partner.asked_times(2).await;
    asked.sort();
    assert_eq!(asked, ["r1", "r2"]);
    running.stop().await.unwrap();
    // Or the next wait would be over by what this run has left there.
    world.metrics.unconfirmed_wait(0);
    // The next run reads both again, and asks nothing at once.
    partner.says("r1", "SUCCESS");
    partner.says("r2", "SUCCESS");
    world.clock.set(at("20:03"));
    let running = start();
    settled(&world, &running).await;
    world.metric_is("unconfirmed_waiting", 2.0).await;
    assert_eq!(partner.asked().len(), 2);
    world.clock.set(at("20:05"));
    let found = world.answered(2).await;
    assert_eq!(found, ["P o1 r1 SUCCESS", "P o2 r2 SUCCESS"]);
    settled(&world, &running).await;
    world.clock.set(at("20:30"));
    world.metric_is("unconfirmed_waiting", 0.0).await;
    settled(&world, &running).await;
    running.stop().await.unwrap();
    assert_eq!(partner.asked().len(), 4);
}

/// Storage that fails at every method twice is waited for.
#[tokio::test]
async fn storage_that_is_away_is_waited_for() {
    let (world, partner) = (World::new(), Partner::start().await);
    world.append("o1 C 23:00; o1 O r1 22:00; o2 unconfirmed r2").await;
    world.fold().await;
    for what in ["r1", "r2"] {
        partner.says(what, "SUCCESS");
    }
    let fault = Fault::Unavailable { times: 2 };
    let running = world.start_failing(fault, asking(), Some(partner.partners(Confirms::Some)));
    world.clock.set(at("10:01").plus_ms(1));
    // o2 may have been read after its first time; then it is asked about at its second.
    assert!(world.answered(1).await.contains(&"P o1 r1 SUCCESS".to_owned()));
    settled(&world, &running).await;
    world.clock.set(at("10:05").plus_ms(1));
    assert_eq!(world.answered(2).await, ["P o1 r1 SUCCESS", "P o2 r2 SUCCESS"]);
    running.stop().await.unwrap();
}

/// It waits for the notice that names the transaction: nothing is wrong, and nothing is logged.
#[tokio::test]
async fn a_partner_asked_for_transactions_is_not_asked_before_one_is_known() {
    let (world, partner) = (World::new(), Partner::start().await);
    world.append("o1 C 23:00; o2 C 23:00; o2 O r2 22:00").await;
    world.fold().await;
    let profile = payfold_partners::profile::Shipped::of("razorpay").unwrap().profile;
    let profile = profile
        .replace("stage = \"draft\"", "stage = \"sandbox\"")
        .replace("key = \"own\"", "key = \"shared\"");
    let partners = partner.partners_of(&profile, Confirms::Never);
    let running = world.start_asking(asking(), partners);
    world.clock.set(at("10:01").plus_ms(1));
    // It knows no such payment; what it is asked for is the last step of the path.
    assert_eq!(partner.asked_times(1).await, ["r2"]);
    let begun = tokio::time::Instant::now();
    while world.queries("no_ref") + world.queries("unknown") < 2.0 {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "[time] both are counted");
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    running.stop().await.unwrap();
    assert_eq!((world.queries("no_ref"), world.queries("unknown")), (1.0, 1.0));
    assert_eq!(partner.asked(), ["r2"]);
}
