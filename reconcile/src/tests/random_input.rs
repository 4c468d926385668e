//! Random orders and lines from pools so small that refs, parts, repeats and midnights collide all
//! the time. No particular findings are expected; the tests check that the findings don't depend on
//! what they must not depend on.

use payfold_schemas::order::OrderState;
use payfold_testing::waits::eventually;

use super::later::POLL;
use super::story::MINUTE;
use super::testbed::TestOrder;
use super::*;

const DAY: u64 = 1;

/// Draws small random numbers from one large one.
struct RandomPicks(u32);

impl RandomPicks {
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        let sides = u32::try_from(of.len()).unwrap();
        let rolled = self.0 % sides;
        self.0 /= sides;
        of[rolled as usize]
    }
}

struct RandomInput {
    bed: TestBed,
    date: String,
    orders: Vec<TestOrder>,
    lines: Vec<String>,
    /// An order with a finding that clears at the next recheck.
    last: TestOrder,
}

const AMOUNTS: [i64; 3] = [1_000, 600, 400];
const EVENTS: [&str; 3] = ["", "", "e1"];

impl RandomInput {
    async fn generate(world: &World) -> Self {
        let by = if world.by == MatchKey::Order { "order" } else { "ref" };
        let bed = TestBed::new(&records(world.zone, by));
        let first = world.date.parse().unwrap();
        let calendar = Calendar { zone: world.zone.parse().unwrap(), first };
        bed.clock.set(calendar.at(DAYS, 12 * HOUR));
        let scene = |n| StoryContext { calendar, by: world.by, n, dice: 0 };
        let times = [12 * HOUR, 12 * HOUR, 13 * HOUR, MINUTE, -MINUTE];
        let order = |n: usize| TestOrder {
            id: format!("o{n}"),
            state: OrderState::Pending,
            facts: vec![scene(n).created(calendar.at(0, HOUR), 1)],
        };
        let (mut orders, mut lines): (Vec<_>, Vec<_>) = ((0..3).map(order).collect(), Vec::new());
        for (_, dice) in &world.stories {
            let mut dice = RandomPicks(*dice);
            let n = dice.pick(&[0, 1, 2]);
            let reference = format!("r{n}{}", dice.pick(&["", "x"]));
            let status =
                dice.pick(&[Status::Success, Status::Success, Status::Refunded, Status::Failed]);
            let (amount, event) = (dice.pick(&AMOUNTS), dice.pick(&EVENTS));
            let at = calendar.at(dice.pick(&[DAY, DAY, DAY, 0, 2]), dice.pick(&times));
            let event = if status == Status::Refunded { event } else { "" };
            if dice.pick(&[true, false]) {
                let paid_at = (status == Status::Success).then_some(at);
                let notice = scene(n).notice_of(&reference, status, (amount, paid_at, event), at);
                if !orders[n].facts.contains(&notice) {
                    orders[n].facts.push(notice);
                }
                if status == Status::Success && amount == AMOUNTS[0] {
                    orders[n].state = OrderState::Paid;
                }
            } else {
                let order = format!("o{}", dice.pick(&[n, n, n, 3]));
                let line =
                    RecordLine { order, reference, amount, event, ..scene(n).line(status, at) };
                lines.push(line.csv());
            }
        }
        let (day, at) = (calendar.date(DAY).to_string(), calendar.at(DAY, 12 * HOUR));
        lines.push(scene(9).line(Status::Success, at).csv());
        let mut last = order(9);
        last.facts.push(scene(9).opened(at));
        bed.put(&orders).await;
        bed.put(std::slice::from_ref(&last)).await;
        last.facts.push(scene(9).notice(Status::Success, AMOUNTS[0], at));
        last.state = OrderState::Paid;
        Self { bed, date: day, orders, lines, last }
    }

    async fn run(&self, lines: &[String]) -> RunEnded {
        self.bed.run(&self.date, lines).await.unwrap()
    }
}

#[test]
fn no_change_is_published_twice_for_any_input() {
    check_worlds(80, assert_no_change_is_published_twice);
}

/// Worlds that broke this once: refunds in another order, one payment that two lines give two
/// orders, and two amounts of one refund.
#[tokio::test]
async fn no_change_is_published_twice_for_worlds_that_broke_this_once() {
    for (by, stories) in [
        (MatchKey::Ref, &[1_912_777_290, 413_224_344, 3_319_440_480][..]),
        (MatchKey::Ref, &[3_082_383_416, 4_001_886_332, 2_015_581_016]),
        (MatchKey::Order, &[4_219_025_175, 2_617_870_935]),
    ] {
        let stories = stories.iter().map(|dice| (Kind::Agrees, *dice)).collect();
        let world = World { zone: "UTC", date: "2026-02-10", by, stories, shuffle: 0 };
        assert_no_change_is_published_twice(&world).await;
    }
}

async fn assert_no_change_is_published_twice(world: &World) {
    let input = RandomInput::generate(world).await;
    let ended = input.run(&input.lines).await;
    assert_eq!(ended.result, RunResult::Complete);
    let published = input.bed.changes().await;
    input.run(&input.lines).await;
    assert_eq!(
        input.bed.changes().await[published.len()..],
        [],
        "a repeated run published changes"
    );
    let mut turned = input.lines.clone();
    turned.reverse();
    input.run(&turned).await;
    turned.sort();
    input.run(&turned).await;
    let turned = input.bed.changes().await;
    assert_only_citations_changed(&turned, published.len());
    let published = turned;
    // A recheck of unchanged orders publishes nothing either.
    let running = input.bed.start_over(input.bed.log.clone(), POLL);
    let all: Vec<TestOrder> = input.orders.iter().chain([&input.last]).cloned().collect();
    input.bed.put(&all).await;
    eventually("the finding of the last order is cleared", async || {
        let changes = input.bed.changes().await;
        let of_last =
            |change: &&FindingChanged| change.order_id.as_ref().is_some_and(|o| o.as_str() == "o9");
        let others = changes[published.len()..].iter().filter(|change| !of_last(change));
        assert_eq!(
            others.collect::<Vec<_>>(),
            Vec::<&FindingChanged>::new(),
            "a recheck published a change"
        );
        if changes.len() > published.len() { Ok(()) } else { Err("no change") }
    })
    .await;
    running.stop().await.unwrap();
}

/// A SUCCESS line for money without a create request is in a finding, whether the order began with
/// its payment, a refund, or a failure.
#[test]
fn every_line_without_a_create_request_is_in_a_finding() {
    check_worlds(150, async |world: &World| {
        let input = RandomInput::generate(world).await;
        input.run(&input.lines).await;
        let uncleared = input.bed.uncleared().await;
        for line in &input.lines {
            let cells: Vec<&str> = line.split(',').collect();
            let [order, reference, kind, amount, ..] = cells[..] else { panic!("{line}") };
            if kind != "SUCCESS" || amount == AMOUNTS[0].to_string() {
                continue;
            }
            let is_of = |found: &&FindingChanged| {
                let is_of_order = found.order_id.as_ref().is_some_and(|id| id.as_str() == order);
                let of = found.payment_ref.as_ref().map(ToString::to_string);
                of.as_deref() == Some(reference) && (world.by == MatchKey::Ref || is_of_order)
            };
            assert!(uncleared.iter().any(|found| is_of(&found)), "no finding of {line}");
        }
    });
}
