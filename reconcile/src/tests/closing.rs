//! When a day can be closed: once it is over in the partner's zone, and a run has judged all its
//! payments.

use payfold_engines::clock::Clock;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::order::OrderState;
use payfold_schemas::time::Time;

use super::later::{author, compared, refused};
use super::story::MINUTE;
use super::testbed::TestOrder;
use super::*;
use crate::close::CloseDayRequest;

fn closing() -> CloseDayRequest {
    CloseDayRequest {
        partner: PartnerCode::parse("p").unwrap(),
        day: "2026-02-10".parse().unwrap(),
        author: author("ann"),
    }
}

/// The day ends at 17:00 UTC; its payments are judged after a margin of 30 minutes and a grace
/// period of an hour.
#[tokio::test]
async fn a_day_can_be_closed_once_it_is_over_and_compared_after_that() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::Agrees]).await;
    let close_at = async |time| {
        stage.bed.clock.set(time);
        let running = stage.bed.start();
        let closed = running.service.close(closing()).await;
        running.stop().await.unwrap();
        closed
    };
    let run_at = async |time| {
        stage.bed.clock.set(time);
        let running = stage.bed.start();
        compared(&stage, &running).await;
        running.stop().await.unwrap();
    };
    let end = stage.calendar.at(1, 0);
    run_at(end.plus_ms(-2 * HOUR)).await;
    for early in [end.plus_ms(-2 * HOUR), end, end.plus_ms(90 * MINUTE - 1)] {
        let problem = refused(close_at(early).await);
        for part in ["2026-02-10 of p", "2026-02-10T17:00:00Z", "from 2026-02-10T18:30:00Z"] {
            assert!(problem.contains(part), "{part}: {problem}");
        }
    }
    let problem = refused(close_at(end.plus_ms(90 * MINUTE)).await);
    assert!(problem.contains("run it again, then close it"), "{problem}");
    run_at(end.plus_ms(90 * MINUTE)).await;
    assert_eq!(close_at(end.plus_ms(91 * MINUTE)).await.unwrap().day, "2026-02-10");
}

/// A notice that comes after the run is in neither its findings nor its totals.
#[tokio::test]
async fn what_became_known_since_the_last_run_prevents_closing() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::Agrees]).await;
    let running = stage.bed.start();
    let later = || {
        let now = stage.bed.clock.now().plus_ms(MINUTE);
        stage.bed.clock.set(now);
        now
    };
    compared(&stage, &running).await;
    let scene = StoryContext { calendar: stage.calendar, by: MatchKey::Order, n: 1, dice: 7 };
    let notice = |status, at, received_at| {
        scene.notice_of(&scene.reference(), status, (scene.amount(), Some(at), ""), received_at)
    };
    let paid_at = stage.calendar.at(0, 9 * HOUR);
    let mut facts = vec![scene.created(stage.calendar.at(0, 8 * HOUR), 1)];
    let put = async |facts: &[(Time, Fact)]| {
        let (id, facts) = ("o1".to_owned(), facts.to_vec());
        stage.bed.put(&[TestOrder { id, state: OrderState::Paid, facts }]).await;
    };
    facts.push(notice(Status::Success, paid_at, later()));
    put(&facts).await;
    let problem = refused(running.service.close(closing()).await);
    let new = "1 payments or refunds of 2026-02-10 became known after its last run";
    assert!(problem.contains(new), "{problem}");
    later();
    assert_eq!(compared(&stage, &running).await.findings.open, 1, "it is missing");
    let lines =
        [stage.lines(0, LineVariant::Original), vec![scene.line(Status::Success, paid_at).csv()]];
    running.service.run(stage.bed.request("2026-02-10", &lines.concat())).await.unwrap();
    // What is of another day is compared there.
    facts.push(notice(Status::Refunded, stage.calendar.at(1, 9 * HOUR), later()));
    put(&facts).await;
    running.service.close(closing()).await.unwrap();
    running.stop().await.unwrap();
}

/// Nothing of an order can have been paid long before it was created.
#[tokio::test]
async fn times_before_the_order_are_of_the_day_it_was_created() {
    let bed = TestBed::new(&records("UTC", "order"));
    let calendar = Calendar { zone: chrono_tz::Tz::UTC, first: "2026-02-10".parse().unwrap() };
    bed.clock.set(calendar.at(DAYS, 12 * HOUR));
    let scene = StoryContext { calendar, by: MatchKey::Order, n: 0, dice: 7 };
    let received_at = calendar.at(0, 9 * HOUR);
    let notice = |status, minor| {
        let money = (minor, Some(Time::from_unix_ms(0)), "");
        scene.notice_of(&scene.reference(), status, money, received_at)
    };
    let paid = notice(Status::Success, scene.amount());
    let created = scene.created(calendar.at(0, 8 * HOUR), 1);
    let facts = vec![created, paid, notice(Status::Refunded, 1)];
    bed.put(&[TestOrder { id: "o0".into(), state: OrderState::Paid, facts }]).await;
    bed.run("2026-02-10", &[]).await.unwrap();
    let found: Vec<_> =
        bed.uncleared().await.into_iter().map(|found| (found.code, found.money_at_risk)).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    for at_risk in [1, scene.amount()] {
        assert!(found.contains(&(Code::MissingThere, at_risk)), "{found:?}");
    }
}

/// A notice from before the run counts only since its create request is known.
#[tokio::test]
async fn what_began_to_count_since_the_last_run_prevents_closing() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::Agrees]).await;
    let running = stage.bed.start();
    let scene = StoryContext { calendar: stage.calendar, by: MatchKey::Order, n: 1, dice: 7 };
    let paid_at = stage.calendar.at(0, 9 * HOUR);
    let notice = scene.notice(Status::Success, scene.amount(), paid_at);
    let put = async |facts: Vec<(Time, Fact)>| {
        let id = "o1".to_owned();
        stage.bed.put(&[TestOrder { id, state: OrderState::Paid, facts }]).await;
    };
    put(vec![notice.clone()]).await;
    assert_eq!(compared(&stage, &running).await.findings.open, 0);
    stage.bed.clock.set(stage.bed.clock.now().plus_ms(MINUTE));
    put(vec![notice, scene.created(stage.bed.clock.now(), 1)]).await;
    let problem = refused(running.service.close(closing()).await);
    assert!(problem.contains("1 payments or refunds of 2026-02-10 became known"), "{problem}");
    running.stop().await.unwrap();
}
