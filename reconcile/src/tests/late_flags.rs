//! Flags raised after their order's day was compared: each is a finding once the next day is
//! compared too.

use payfold_schemas::digest::Digest;
use payfold_schemas::fact::{Fact, Verdict};
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::ipn::Ipn;
use payfold_schemas::order::{Flag, Known, OrderState, RaisedFlag, Severity};
use payfold_schemas::position::Position;
use payfold_schemas::run::PeriodClosed;
use payfold_schemas::time::Time;
use payfold_testing::waits::eventually;

use super::later::{POLL, author, decision_request, refused};
use super::testbed::TestOrder;
use super::*;
use crate::close::CloseDayRequest;
use crate::request::{Replaceable, RunRequest};
use crate::service::ServiceError;
use crate::tests::rows::known_ipn;

/// Payment times for which no day is ever compared.
const PAID_LONG_AGO: &str = "1970-01-01T00:00:00Z";
const PAID_LONG_AHEAD: &str = "2099-12-31T00:00:00Z";

fn paid_twice() -> Vec<RaisedFlag> {
    let (flag, severity) = (Flag::DoublePayment, Severity::Critical);
    let evidence = Digest::of_bytes(b"evidence");
    vec![RaisedFlag { flag, severity, evidence, decided_by: None }]
}

impl TestStage {
    async fn run_day(&self, running: &RunningService, day: u64) -> RunEnded {
        let lines = self.lines(day, LineVariant::Original);
        let request = self.bed.request(&self.calendar.date(day).to_string(), &lines);
        running.service.run(request).await.unwrap()
    }

    async fn close_day(
        &self,
        running: &RunningService,
        day: u64,
    ) -> Result<PeriodClosed, ServiceError> {
        let closing = CloseDayRequest {
            partner: PartnerCode::parse("p").unwrap(),
            day: self.calendar.date(day),
            author: author("ann"),
        };
        running.service.close(closing).await
    }

    /// A second payment of an order arrives now: its record, and the order's changed row.
    async fn add_second_payment(&self, order: &str, paid_at: Option<Time>) {
        use payfold_engines::clock::Clock;
        let now = self.bed.clock.now();
        let scene =
            StoryContext { calendar: self.calendar, by: MatchKey::Order, n: 0, dice: self.dice };
        // It has a ref of its own: a shared ref makes a fact that these tests don't fold.
        let reference = format!("again-{order}");
        let (_, fact) = scene.notice_of(&reference, Status::Success, (77, paid_at, ""), now);
        let Fact::Ipn(ipn) = &fact else { panic!("{fact:?}") };
        let known = known_ipn(&Ipn::clone(ipn));
        let facts = vec![(now, fact)];
        let published = TestOrder { id: order.to_owned(), state: OrderState::Paid, facts };
        self.bed.append(&[published]).await;
        let change = |row: &mut payfold_schemas::order::Order| {
            row.summary.flags = paid_twice();
            row.facts.ipns.push(Known { content: known, position: Position::default() });
        };
        self.bed.change(order, change).await;
    }

    /// The days of the uncleared flag findings, and their status.
    async fn flag_days(&self) -> Vec<(String, FindingStatus)> {
        let uncleared = self.bed.uncleared().await.into_iter();
        let flags = uncleared.filter(|found| found.code == Code::OpenFlag);
        flags.map(|found| (found.day, found.status)).collect()
    }
}

fn open(day: &str) -> Vec<(String, FindingStatus)> {
    vec![(day.to_owned(), FindingStatus::Open)]
}

#[tokio::test]
async fn a_flag_of_a_compared_day_is_detected_by_the_next_days_run() {
    for by in [MatchKey::Order, MatchKey::Ref] {
        let stage = TestStage::of(by, &[Kind::Agrees]).await;
        let running = stage.bed.start();
        stage.run_day(&running, 0).await;
        stage.add_second_payment("o0", Some(stage.calendar.at(0, 9 * HOUR))).await;
        let ended = stage.run_day(&running, 1).await;
        assert_eq!(
            (ended.findings.open, ended.findings.opened),
            (0, 1),
            "the finding is of the day before"
        );
        assert_eq!(stage.flag_days().await, open("2026-02-10"));
        let published = stage.bed.changes().await.len();
        for day in [2, 1] {
            assert_eq!(stage.run_day(&running, day).await.findings.opened, 0);
        }
        assert_eq!(stage.bed.changes().await.len(), published, "the finding is published once");
        let problem = refused(stage.close_day(&running, 0).await);
        assert!(problem.contains("1 findings of 2026-02-10 are open"), "{problem}");
        running.stop().await.unwrap();
    }
}

/// A closed day gets no new finding while an open day can take it.
#[tokio::test]
async fn a_flag_of_a_closed_day_is_a_finding_of_the_detecting_day() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::Agrees, Kind::Agrees]).await;
    let running = stage.bed.start_over(stage.bed.log.clone(), POLL);
    stage.run_day(&running, 0).await;
    stage.run_day(&running, 1).await;
    stage.close_day(&running, 0).await.unwrap();
    stage.add_second_payment("o0", Some(stage.calendar.at(0, 9 * HOUR))).await;
    // A closed day gets no new finding, also if it is compared once more.
    assert_eq!(stage.run_day(&running, 0).await.findings.opened, 0);
    assert_eq!(stage.flag_days().await, Vec::new());
    let problem = refused(stage.close_day(&running, 1).await);
    assert!(problem.contains("1 flags of orders of 2026-02-11 were raised after"), "{problem}");
    assert_eq!(stage.run_day(&running, 1).await.findings.open, 1);
    assert_eq!(stage.flag_days().await, open("2026-02-11"));
    // Neither the next day nor the closed one detects it again.
    for day in [2, 0] {
        assert_eq!(stage.run_day(&running, day).await.findings.opened, 0, "{day}");
    }
    // Nor does the recheck, which comes to `o1` after `o0`.
    stage.add_second_payment("o1", Some(stage.calendar.at(2, 9 * HOUR))).await;
    stage.run_day(&running, 2).await;
    assert_eq!(stage.flag_days().await.len(), 2);
    stage.bed.flag("o0", paid_twice()).await;
    stage.bed.flag("o1", Vec::new()).await;
    eventually("the flag of `o1` is cleared", async || {
        let days = stage.flag_days().await;
        if days == open("2026-02-11") { Ok(()) } else { Err(days) }
    })
    .await;
    let problem = refused(stage.close_day(&running, 1).await);
    assert!(problem.contains("1 findings of 2026-02-11 are open"), "{problem}");
    let uncleared = stage.bed.uncleared().await;
    let id =
        uncleared.iter().find(|found| found.code == Code::OpenFlag).unwrap().finding_id.clone();
    for name in ["ann", "bob"] {
        running.service.decide_finding(decision_request(&id, name, Verdict::Ours)).await.unwrap();
    }
    let decided = |flag| RaisedFlag { decided_by: Some("a decision".into()), ..flag };
    stage.bed.flag("o0", paid_twice().into_iter().map(decided).collect()).await;
    let ended = stage.run_day(&running, 1).await;
    assert_eq!((ended.findings.open, ended.findings.decided, ended.findings.cleared), (0, 1, 0));
    stage.close_day(&running, 1).await.unwrap();
    running.stop().await.unwrap();
}

/// A payment time for which no day is compared is ignored: the flags have the day on which the
/// order was first seen.
#[tokio::test]
async fn an_impossible_payment_time_gives_the_flag_the_day_the_order_was_first_seen() {
    for paid_at in [PAID_LONG_AGO, PAID_LONG_AHEAD] {
        let stage = TestStage::of(MatchKey::Order, &[Kind::Unpaid]).await;
        let running = stage.bed.start();
        stage.add_second_payment("o0", Some(Time::parse(paid_at).unwrap())).await;
        stage.run_day(&running, 0).await;
        stage.run_day(&running, 1).await;
        assert_eq!(stage.flag_days().await, open("2026-02-10"), "{paid_at}");
        running.stop().await.unwrap();
    }
    // Beside a correctly dated payment it changes nothing.
    let stage = TestStage::of(MatchKey::Order, &[Kind::Agrees]).await;
    let running = stage.bed.start();
    stage.add_second_payment("o0", Some(Time::parse(PAID_LONG_AHEAD).unwrap())).await;
    stage.run_day(&running, 0).await;
    assert_eq!(stage.flag_days().await, open("2026-02-10"));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn an_order_first_seen_after_its_payment_day_has_the_day_it_was_seen() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::Agrees]).await;
    let running = stage.bed.start();
    let scene =
        StoryContext { calendar: stage.calendar, by: MatchKey::Order, n: 7, dice: stage.dice };
    let paid_at = Some(stage.calendar.at(0, 9 * HOUR));
    let seen_at = stage.calendar.at(1, HOUR);
    let fact = scene.notice_of("r7", Status::Success, (500, paid_at, ""), seen_at);
    let (id, state) = ("o7".to_owned(), OrderState::Unmatched);
    stage.bed.put(&[TestOrder { id, state, facts: vec![fact] }]).await;
    let unknown = RaisedFlag { flag: Flag::UnknownOrder, ..paid_twice().remove(0) };
    stage.bed.flag("o7", vec![unknown]).await;
    stage.run_day(&running, 0).await;
    stage.run_day(&running, 1).await;
    assert_eq!(stage.flag_days().await, open("2026-02-11"));
    running.stop().await.unwrap();
}

/// The order is before the lookback: only its line led to it before, and now a new record does.
#[tokio::test]
async fn a_flag_of_an_old_order_since_the_last_run_prevents_closing() {
    for by in [MatchKey::Order, MatchKey::Ref] {
        let stage = TestStage::of(by, &[Kind::CreatedLongAgo]).await;
        let running = stage.bed.start();
        stage.run_day(&running, 0).await;
        stage.add_second_payment("o0", Some(stage.calendar.at(0, 9 * HOUR))).await;
        let problem = refused(stage.close_day(&running, 0).await);
        assert!(problem.contains("1 flags of orders of 2026-02-10 were raised after"), "{problem}");
        // No line leads to the order any more; its flag is detected all the same, and does not
        // clear for that.
        let without =
            RunRequest { replace: Replaceable::Any, ..stage.bed.request("2026-02-10", &[]) };
        running.service.run(without).await.unwrap();
        assert_eq!(stage.flag_days().await, open("2026-02-10"));
        // It does not clear either once its record is older than the last run.
        stage.bed.clock.set(stage.calendar.at(DAYS, 14 * HOUR));
        for _ in 0..2 {
            let again =
                RunRequest { replace: Replaceable::Any, ..stage.bed.request("2026-02-10", &[]) };
            running.service.run(again).await.unwrap();
        }
        assert_eq!(stage.flag_days().await, open("2026-02-10"));
        stage.bed.flag("o0", Vec::new()).await;
        let gone = RunRequest { replace: Replaceable::Any, ..stage.bed.request("2026-02-10", &[]) };
        running.service.run(gone).await.unwrap();
        assert_eq!(stage.flag_days().await, []);
        running.stop().await.unwrap();
    }
}

/// Random flags at random times, with random days closed meanwhile.
#[test]
fn every_open_high_flag_has_a_finding_once_the_next_day_is_compared() {
    const SOUND: [Kind; 4] = [Kind::Agrees, Kind::Unpaid, Kind::Fails, Kind::CreatedLongAgo];
    check_worlds(20, async |world: &World| {
        let mut dice = world.shuffle;
        let mut roll = move |sides: u32| {
            dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (dice >> 8) % sides
        };
        let is_sound = roll(3) > 0;
        let kind = |(kind, dice): &(Kind, u32)| {
            (if is_sound { SOUND[(*dice >> 7) as usize % SOUND.len()] } else { *kind }, *dice)
        };
        let stories = world.stories.iter().map(kind).collect();
        let stage = TestStage::set(&World { stories, ..world.clone() }).await;
        let running = stage.bed.start();
        let published: Vec<_> = stage.plots.iter().flat_map(|plot| plot.orders.clone()).collect();
        // An order is flagged once its whole story has happened: a row can't have flags of later
        // facts.
        let happened = |order: &TestOrder| order.facts.iter().map(|(at, _)| *at).max().unwrap();
        let mut quiet: Vec<(Time, String)> =
            published.iter().map(|order| (happened(order), order.id.clone())).collect();
        let mut flagged = Vec::new();
        for day in 0..=DAYS {
            let now = stage.calendar.at(day + 1, 3 * HOUR);
            stage.bed.clock.set(now);
            for is_compared in [false, true] {
                for _ in 0..roll(3) {
                    let known = |(happened, _): &(Time, String)| *happened <= now;
                    let Some(place) = quiet.iter().position(known) else { break };
                    let (_, order) = quiet.remove(place);
                    let paid_at = match roll(5) {
                        0 => Some(Time::parse(PAID_LONG_AGO).unwrap()),
                        1 => Some(Time::parse(PAID_LONG_AHEAD).unwrap()),
                        2 => None,
                        _ => Some(stage.calendar.at(u64::from(roll(4)).min(day), 9 * HOUR)),
                    };
                    stage.add_second_payment(&order, paid_at).await;
                    flagged.push(order);
                }
                if !is_compared {
                    stage.run_day(&running, day).await;
                }
            }
            if roll(2) == 0 {
                // Closing is refused if findings are open.
                let _ = stage.close_day(&running, day).await;
            }
        }
        stage.bed.clock.set(stage.calendar.at(DAYS + 2, 3 * HOUR));
        stage.run_day(&running, DAYS + 1).await;
        let uncleared = stage.bed.uncleared().await.into_iter();
        let of_flags = uncleared.filter(|found| found.code == Code::OpenFlag);
        let mut found: Vec<String> = of_flags
            .map(|found| {
                assert_eq!(found.status, FindingStatus::Open);
                found.order_id.unwrap().to_string()
            })
            .collect();
        found.sort_unstable();
        flagged.sort_unstable();
        assert_eq!(found, flagged, "each flag has one uncleared finding");
        running.stop().await.unwrap();
    });
}
