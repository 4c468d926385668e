//! Worlds that nobody has thought out: a few orders and lines from pools so small that refs, parts, repeats and borders
//! collide all the time. Nothing is expected of what is found, but that it does not depend on what it must not.

use payfold_schemas::order::OrderState;

use super::bed::Told;
use super::later::POLL;
use super::story::MINUTE;
use super::*;

const DAY: u64 = 1;

/// Draws small numbers from one large one.
struct Dice(u32);

impl Dice {
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        let sides = u32::try_from(of.len()).unwrap();
        let rolled = self.0 % sides;
        self.0 /= sides;
        of[rolled as usize]
    }
}

struct Soup {
    bed: Bed,
    date: String,
    told: Vec<Told>,
    lines: Vec<String>,
    /// An order whose finding clears once it is looked at.
    last: Told,
}

const AMOUNTS: [i64; 3] = [1_000, 600, 400];
const EVENTS: [&str; 3] = ["", "", "e1"];

impl Soup {
    async fn cook(world: &World) -> Self {
        let by = if world.by == By::Order { "order" } else { "ref" };
        let bed = Bed::new(&records(world.zone, by));
        let first = world.date.parse().unwrap();
        let calendar = Calendar { zone: world.zone.parse().unwrap(), first };
        bed.clock.set(calendar.at(DAYS, 12 * HOUR));
        let scene = |n| Scene { calendar, by: world.by, n, dice: 0 };
        let times = [12 * HOUR, 12 * HOUR, 13 * HOUR, MINUTE, -MINUTE];
        let order = |n: usize| Told {
            id: format!("o{n}"),
            state: OrderState::Pending,
            facts: vec![scene(n).created(calendar.at(0, HOUR), 1)],
        };
        let (mut told, mut lines): (Vec<_>, Vec<_>) = ((0..3).map(order).collect(), Vec::new());
        for (_, dice) in &world.stories {
            let mut dice = Dice(*dice);
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
                if !told[n].facts.contains(&notice) {
                    told[n].facts.push(notice);
                }
                if status == Status::Success && amount == AMOUNTS[0] {
                    told[n].state = OrderState::Paid;
                }
            } else {
                let order = format!("o{}", dice.pick(&[n, n, n, 3]));
                let line = Line { order, reference, amount, event, ..scene(n).line(status, at) };
                lines.push(line.csv());
            }
        }
        let (day, at) = (calendar.date(DAY).to_string(), calendar.at(DAY, 12 * HOUR));
        lines.push(scene(9).line(Status::Success, at).csv());
        let mut last = order(9);
        last.facts.push(scene(9).opened(at));
        bed.put(&told).await;
        bed.put(std::slice::from_ref(&last)).await;
        last.facts.push(scene(9).notice(Status::Success, AMOUNTS[0], at));
        last.state = OrderState::Paid;
        Self { bed, date: day, told, lines, last }
    }

    async fn run(&self, lines: &[String]) -> RunEnded {
        self.bed.run(&self.date, lines).await.unwrap()
    }
}

#[test]
fn nothing_is_told_twice_whatever_there_is() {
    hold(80, async |world: &World| {
        let soup = Soup::cook(world).await;
        let ended = soup.run(&soup.lines).await;
        assert_eq!(ended.result, RunResult::Complete);
        let told = soup.bed.changes().await;
        soup.run(&soup.lines).await;
        assert_eq!(soup.bed.changes().await[told.len()..], [], "a repeated run tells something");
        let mut turned = soup.lines.clone();
        turned.reverse();
        soup.run(&turned).await;
        turned.sort();
        soup.run(&turned).await;
        let turned = soup.bed.changes().await;
        assert_only_cited(&turned, told.len());
        let told = turned;
        // Nor does a second look at the orders, as long as they say the same.
        let running = soup.bed.start_over(soup.bed.log.clone(), POLL);
        let all: Vec<Told> = soup.told.iter().chain([&soup.last]).cloned().collect();
        soup.bed.put(&all).await;
        let begun = tokio::time::Instant::now();
        loop {
            let changes = soup.bed.changes().await;
            let of_last = |change: &&FindingChanged| {
                change.order_id.as_ref().is_some_and(|o| o.as_str() == "o9")
            };
            let others = changes[told.len()..].iter().filter(|change| !of_last(change));
            assert_eq!(
                others.collect::<Vec<_>>(),
                Vec::<&FindingChanged>::new(),
                "a second look tells something"
            );
            if changes.len() > told.len() {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "[time] nothing cleared");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        running.stop().await.unwrap();
    });
}

/// A line that says SUCCESS of money that nobody asked for is in a finding, whatever the order began with: its payment, a
/// refund, or a failure.
#[test]
fn no_line_of_money_that_nobody_asked_for_is_passed_over() {
    hold(150, async |world: &World| {
        let soup = Soup::cook(world).await;
        soup.run(&soup.lines).await;
        let standing = soup.bed.standing().await;
        for line in &soup.lines {
            let cells: Vec<&str> = line.split(',').collect();
            let [order, reference, kind, amount, ..] = cells[..] else { panic!("{line}") };
            if kind != "SUCCESS" || amount == AMOUNTS[0].to_string() {
                continue;
            }
            let is_of = |found: &&FindingChanged| {
                let is_of_order = found.order_id.as_ref().is_some_and(|id| id.as_str() == order);
                let of = found.payment_ref.as_ref().map(ToString::to_string);
                of.as_deref() == Some(reference) && (world.by == By::Ref || is_of_order)
            };
            assert!(standing.iter().any(|found| is_of(&found)), "no finding of {line}");
        }
    });
}
