//! What the records of two days come to together. A refund that both list is a double, one that
//! neither lists is missing, whenever it was made and in whichever order the days are compared.

use std::collections::BTreeSet;

use payfold_engines::clock::Clock;
use payfold_schemas::order::OrderState;

use super::later::POLL;
use super::story::MINUTE;
use super::testbed::TestOrder;
use super::*;

/// Whether an order was created within the lookback, or long before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    New,
    Old,
}

/// When a refund is made: its day, and the time in it; if negative, before its end.
type MadeAt = (u64, i64);

/// Orders with refunds near the midnight between two days or far from it, and those days' files.
struct TwoDays {
    bed: TestBed,
    calendar: Calendar,
    by: MatchKey,
    orders: Vec<TestOrder>,
    files: [Vec<String>; 2],
}

impl TwoDays {
    /// So many orders, each with a payment that is listed on its day.
    fn new(by: MatchKey, orders: usize) -> Self {
        Self::aged(by, &vec![Age::New; orders])
    }

    /// Orders of these ages. An old one was paid before the days that its run reads.
    fn aged(by: MatchKey, ages: &[Age]) -> Self {
        let name = if by == MatchKey::Order { "order" } else { "ref" };
        let bed = TestBed::new(&records("UTC", name));
        let calendar = Calendar { zone: chrono_tz::Tz::UTC, first: "2026-02-10".parse().unwrap() };
        bed.clock.set(calendar.at(DAYS, 12 * HOUR));
        let mut days = Self { bed, calendar, by, orders: Vec::new(), files: Default::default() };
        for (n, age) in ages.iter().enumerate() {
            let before = if *age == Age::Old { -30 * 24 * HOUR } else { 0 };
            let (scene, at) = (days.scene(n), calendar.at(0, 9 * HOUR).plus_ms(before));
            let created = scene.created(at.plus_ms(-HOUR), 1);
            let paid = scene.notice(Status::Success, scene.amount(), at);
            let (id, facts) = (format!("o{n}"), vec![created, paid]);
            days.orders.push(TestOrder { id, state: OrderState::Paid, facts });
            if *age == Age::New {
                days.files[0].push(scene.line(Status::Success, at).csv());
            }
        }
        days
    }

    fn scene(&self, n: usize) -> StoryContext {
        StoryContext { calendar: self.calendar, by: self.by, n, dice: 0 }
    }

    /// Adds a refund of one unit to an order, and lists it so often in each day's file.
    fn refund(&mut self, n: usize, at: MadeAt, event: &'static str, listed: [usize; 2]) {
        let (scene, time) = (self.scene(n), self.calendar.at(at.0, at.1));
        let money = (1, Some(time), event);
        let notice = scene.notice_of(&scene.reference(), Status::Refunded, money, time);
        self.orders[n].facts.push(notice);
        for (day, times) in listed.into_iter().enumerate() {
            (0..times).for_each(|_| self.list(n, day, at, event));
        }
    }

    /// Adds a line of a refund of one unit to a day's file.
    fn list(&mut self, n: usize, day: usize, (of, ms): MadeAt, event: &'static str) {
        let line = self.scene(n).line(Status::Refunded, self.calendar.at(of, ms));
        self.files[day].push(RecordLine { amount: 1, event, ..line }.csv());
    }

    async fn compare(&self, running: &RunningService, days: &[usize]) {
        for day in days {
            let date = self.calendar.date(*day as u64).to_string();
            let request = self.bed.request(&date, &self.files[*day]);
            let ended = running.service.run(request).await.unwrap();
            assert_eq!(ended.result, RunResult::Complete, "{:?}", ended.problems);
        }
    }

    /// Compares the days in this order, then so many times in their own and once more, which
    /// changes nothing.
    async fn settle(&self, first: &[usize], times: usize) -> Vec<FindingChanged> {
        self.bed.put(&self.orders).await;
        let running = self.bed.start();
        self.compare(&running, first).await;
        for _ in 0..times {
            self.compare(&running, &[0, 1]).await;
        }
        let settled = self.bed.changes().await;
        self.compare(&running, &[0, 1]).await;
        assert_eq!(
            self.bed.changes().await[settled.len()..],
            [],
            "a repeated run changed something"
        );
        running.stop().await.unwrap();
        self.bed.uncleared().await
    }
}

const TIMES: [MadeAt; 4] = [(0, -2 * MINUTE), (0, 7 * HOUR), (1, 2 * MINUTE), (1, 7 * HOUR)];
const ORDERS: [&[usize]; 3] = [&[0, 1], &[1, 0], &[1, 0, 1, 0]];

fn check<S: Strategy>(cases: u32, strategy: &S, law: impl AsyncFn(S::Value)) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tried = TestRunner::new(config).run(strategy, |world| {
        runtime.block_on(law(world));
        Ok(())
    });
    if let Err(broken) = tried {
        panic!("{broken}");
    }
}

/// What must be found of a refund that names itself.
fn expected_of(
    calendar: Calendar,
    n: usize,
    (age, at, listed): (Age, MadeAt, [usize; 2]),
) -> BTreeSet<(String, Code, String)> {
    let own = usize::try_from(at.0).unwrap();
    let (of_own, of_other) = (listed[own], listed[1 - own]);
    let is_near = at.1.abs() < HOUR;
    let mut found = BTreeSet::new();
    let mut add = |day: usize, code| {
        found.insert((calendar.date(day as u64).to_string(), code, format!("o{n}")));
    };
    let is_new = age == Age::New;
    if of_own + of_other == 0 && is_new {
        add(own, Code::MissingThere);
    }
    if of_own > 1 {
        add(own, Code::DuplicatedThere);
    }
    if of_other > 1 || (of_own > 0 && of_other > 0 && is_new) {
        add(1 - own, Code::DuplicatedThere);
    }
    if (of_own == 0 || !is_new) && of_other > 0 && !is_near {
        add(1 - own, Code::OtherDay);
    }
    found
}

#[test]
fn what_two_days_list_or_neither_is_found_once() {
    let ages = prop::sample::select(vec![Age::New, Age::New, Age::Old]);
    let refund = (ages, prop::sample::select(&TIMES[..]), [0..3_usize, 0..3]);
    let by = prop::sample::select(vec![MatchKey::Order, MatchKey::Ref]);
    let worlds = (by, prop::collection::vec(refund, 0..5), prop::sample::select(&ORDERS[..]));
    check(60, &worlds, async |(by, refunds, order)| {
        let ages: Vec<Age> = refunds.iter().map(|(age, ..)| *age).collect();
        let mut days = TwoDays::aged(by, &ages);
        let mut expected = BTreeSet::new();
        for (n, refund) in refunds.iter().enumerate() {
            let (_, at, listed) = *refund;
            days.refund(n, at, "e1", listed);
            expected.extend(expected_of(days.calendar, n, *refund));
        }
        let found = days.settle(order, 1).await;
        let order_of = |found: &FindingChanged| found.order_id.as_ref().unwrap().to_string();
        let found: BTreeSet<_> =
            found.iter().map(|found| (found.day.clone(), found.code, order_of(found))).collect();
        assert_eq!(found, expected, "{by:?} {refunds:?} {order:?}");
    });
}

/// Whether each line of the first day has a time at which it may be about any refund of the second.
fn may_be_about_any(refunds: &[MadeAt], first: &[MadeAt]) -> bool {
    let later = || refunds.iter().filter(|(day, _)| *day == 1);
    first.iter().all(|(_, ms)| later().all(|(_, at)| (at - ms).abs() <= 5 * MINUTE))
}

/// Near midnight a line may be about any refund of its money, so only their numbers count. What
/// one run lists decides what the next is about, so the days settle when each is compared twice.
#[test]
fn unnamed_lines_near_midnight_are_counted_over_both_days() {
    let near = [(0, -20 * MINUTE), (0, -MINUTE), (0, -MINUTE / 2), (1, MINUTE), (1, 20 * MINUTE)];
    let some = |least| prop::collection::vec(prop::sample::select(near.to_vec()), least..4);
    let worlds = (some(1), some(0), some(0), prop::sample::select(&ORDERS[..]));
    check(60, &worlds, async |(refunds, first, second, order)| {
        let mut days = TwoDays::new(MatchKey::Order, 1);
        refunds.iter().for_each(|at| days.refund(0, *at, "", [0, 0]));
        first.iter().for_each(|at| days.list(0, 0, *at, ""));
        second.iter().for_each(|at| days.list(0, 1, *at, ""));
        let found = days.settle(order, 2).await;
        if !may_be_about_any(&refunds, &first) {
            return;
        }
        let sum = |code: Code| -> i64 {
            found.iter().filter(|found| found.code == code).map(|found| found.money_at_risk).sum()
        };
        let count = |of: usize| i64::try_from(of).unwrap();
        let (known, listed) = (count(refunds.len()), count(first.len() + second.len()));
        let expected = ((listed - known).max(0), (known - listed).max(0));
        let world = format!("{refunds:?} {first:?} {second:?} {order:?}");
        let surplus = sum(Code::DuplicatedThere) + sum(Code::MissingHere);
        // What is there twice in one file and once in the other is one finding, of one day.
        assert_eq!((surplus > 0, sum(Code::MissingThere)), (expected.0 > 0, expected.1), "{world}");
        assert!(surplus <= expected.0, "{world}");
    });
}

/// Another day's corrected file no longer lists what the day's own file lacks.
#[tokio::test]
async fn what_a_corrected_file_drops_is_missing_on_its_own_day() {
    for at in TIMES {
        let own = usize::try_from(at.0).unwrap();
        let mut listed = [0, 0];
        listed[1 - own] = 1;
        let mut days = TwoDays::new(MatchKey::Order, 1);
        days.refund(0, at, "e1", listed);
        days.bed.put(&days.orders).await;
        let running = days.bed.start();
        days.compare(&running, &[0, 1, 0, 1]).await;
        let codes = |found: Vec<FindingChanged>| -> Vec<Code> {
            found.iter().map(|found| found.code).filter(|code| *code != Code::OtherDay).collect()
        };
        assert_eq!(codes(days.bed.uncleared().await), [], "{at:?}");
        days.files[1 - own].retain(|line| !line.ends_with(",e1"));
        days.compare(&running, &[1 - own]).await;
        assert_eq!(codes(days.bed.uncleared().await), [Code::MissingThere], "{at:?}");
        running.stop().await.unwrap();
    }
}

/// The day after was compared first: what it does not list is missing at once, not cut off.
#[tokio::test]
async fn what_neither_day_lists_is_missing_as_soon_as_both_are_compared() {
    let mut days = TwoDays::new(MatchKey::Order, 1);
    days.refund(0, (0, -2 * MINUTE), "e1", [0, 0]);
    days.bed.put(&days.orders).await;
    let running = days.bed.start();
    days.compare(&running, &[1, 0]).await;
    let found = days.bed.uncleared().await;
    assert_eq!(found.iter().map(|found| found.code).collect::<Vec<_>>(), [Code::MissingThere]);
    running.stop().await.unwrap();
}

/// The run of a refund's own day has not missed it because it did not know it.
#[tokio::test]
async fn a_run_before_the_notice_is_no_second_listing() {
    for (at, listed, expected) in [
        ((0, -2 * MINUTE), [0, 1], vec![]),
        ((0, 7 * HOUR), [0, 1], vec![Code::OtherDay]),
        ((0, 7 * HOUR), [1, 1], vec![Code::DuplicatedThere]),
    ] {
        let mut days = TwoDays::new(MatchKey::Order, 1);
        days.bed.put(&days.orders).await;
        let running = days.bed.start();
        days.compare(&running, &[0]).await;
        days.bed.clock.set(days.bed.clock.now().plus_ms(MINUTE));
        days.refund(0, at, "e1", listed);
        days.orders[0].facts.last_mut().unwrap().0 = days.bed.clock.now();
        days.bed.put(&days.orders).await;
        days.bed.clock.set(days.bed.clock.now().plus_ms(MINUTE));
        let again: &[usize] = if listed[0] > 0 { &[0, 1] } else { &[1] };
        days.compare(&running, again).await;
        let found = days.bed.uncleared().await;
        assert_eq!(found.iter().map(|found| found.code).collect::<Vec<_>>(), expected, "{at:?}");
        running.stop().await.unwrap();
    }
}

/// An incomplete run says nothing of what its records lack, so it forgets nothing either.
#[tokio::test]
async fn an_incomplete_run_between_two_forgets_nothing() {
    let mut days = TwoDays::new(MatchKey::Order, 1);
    days.refund(0, (0, 7 * HOUR), "e1", [0, 1]);
    days.bed.put(&days.orders).await;
    let running = days.bed.start();
    days.compare(&running, &[0, 1]).await;
    let day = days.calendar.date(1).to_string();
    let bad = running.service.run(days.bed.request(&day, &["no line".to_owned()])).await.unwrap();
    assert_eq!(bad.result, RunResult::Incomplete);
    days.compare(&running, &[0]).await;
    let codes = |found: Vec<FindingChanged>| -> Vec<Code> {
        found.iter().map(|found| found.code).collect()
    };
    assert_eq!(codes(days.bed.uncleared().await), [Code::OtherDay], "the day after lists it");
    days.files[1].clear();
    days.compare(&running, &[1]).await;
    assert_eq!(codes(days.bed.uncleared().await), [Code::MissingThere]);
    running.stop().await.unwrap();
}

/// The end of a payment on another day's file is no second listing of it.
#[tokio::test]
async fn a_failed_line_on_another_day_is_no_double() {
    let mut days = TwoDays::new(MatchKey::Order, 1);
    let line = days.scene(0).line(Status::Failed, days.calendar.at(1, 9 * HOUR));
    days.files[1].push(line.csv());
    let found = days.settle(&[0, 1], 1).await;
    assert_eq!(found.iter().map(|found| found.code).collect::<Vec<_>>(), [Code::StatusDiffers]);
}

/// What a recheck can't know stays as the run found it.
#[tokio::test]
async fn a_recheck_leaves_what_only_a_run_can_settle() {
    let mut days = TwoDays::new(MatchKey::Order, 1);
    days.bed.put(&days.orders).await;
    let running = days.bed.start_over(days.bed.log.clone(), POLL);
    days.compare(&running, &[0]).await;
    days.bed.clock.set(days.bed.clock.now().plus_ms(MINUTE));
    days.refund(0, (0, 7 * HOUR), "e1", [0, 1]);
    days.orders[0].facts.last_mut().unwrap().0 = days.bed.clock.now();
    days.bed.put(&days.orders).await;
    days.compare(&running, &[1]).await;
    tokio::time::sleep(20 * POLL).await;
    let found = days.bed.uncleared().await;
    assert_eq!(found.iter().map(|found| found.code).collect::<Vec<_>>(), [Code::OtherDay]);
    running.stop().await.unwrap();
}

/// What was refunded at 00:20 can't be on a line of 23:40 of the day before, whatever the money.
#[tokio::test]
async fn a_line_is_about_no_refund_made_long_after_it() {
    let (before, after) = ([-20 * MINUTE, -MINUTE], [20 * MINUTE, MINUTE]);
    let mut days = TwoDays::new(MatchKey::Order, 1);
    (0..3).for_each(|_| days.refund(0, (1, 20 * MINUTE), "", [0, 0]));
    before.iter().for_each(|ms| days.list(0, 0, (0, *ms), ""));
    after.iter().for_each(|ms| days.list(0, 1, (1, *ms), ""));
    let found = days.settle(&[0, 1], 1).await;
    let found: Vec<_> =
        found.iter().map(|found| (found.day.as_str(), found.code, found.money_at_risk)).collect();
    let (first, second) = (days.calendar.date(0).to_string(), days.calendar.date(1).to_string());
    let expected = [(&*first, Code::MissingHere, 2), (&*second, Code::MissingThere, 1)];
    assert_eq!(found, expected);
}
