//! Whole runs over real SQLite engines: generated worlds are compared, and the findings are checked
//! against the expectations of their stories.

mod actions;
mod citing;
mod closing;
mod failing_log;
mod flags;
mod grace_period;
mod late_flags;
mod later;
mod notices;
mod previews;
mod random_input;
mod repeats;
mod rows;
mod story;
mod testbed;
mod two_days;
mod unusual_records;

use std::collections::BTreeMap;
use std::time::Duration;

use payfold_schemas::finding::{Code, FindingChanged, FindingStatus};
use payfold_schemas::ipn::Status;
use payfold_schemas::run::{RunEnded, RunResult};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use self::story::{Calendar, ExpectedFinding, HOUR, Kind, RecordLine, StoryContext, StoryData};
use self::testbed::{RunningService, TestBed, records};
use super::comparer::MatchKey;

/// Zones east and west of Greenwich, with and without days of 23 and 25 hours.
const ZONES: [&str; 5] =
    ["UTC", "Asia/Ho_Chi_Minh", "Europe/Berlin", "America/Sao_Paulo", "Pacific/Apia"];
/// First days: plain, over a year's end, around both changes of the clock in Europe.
const DATES: [&str; 4] = ["2026-02-10", "2025-12-30", "2026-03-28", "2026-10-24"];
const DAYS: u64 = 3;

/// A generated world: stories, and where and when they happen.
#[derive(Clone, Debug)]
struct World {
    zone: &'static str,
    date: &'static str,
    by: MatchKey,
    stories: Vec<(Kind, u32)>,
    /// The seed that shuffles the lines of a file.
    shuffle: u32,
}

fn worlds() -> impl Strategy<Value = World> {
    let by = prop::sample::select(vec![MatchKey::Order, MatchKey::Ref]);
    let (zone, date) = (prop::sample::select(&ZONES[..]), prop::sample::select(&DATES[..]));
    let story = (prop::sample::select(&Kind::ALL[..]), any::<u32>());
    let stories = prop::collection::vec(story, 0..14);
    (zone, date, by, stories, any::<u32>()).prop_map(|(zone, date, by, stories, shuffle)| World {
        zone,
        date,
        by,
        stories,
        shuffle,
    })
}

/// Checks a property on this many generated worlds; `PROPTEST_CASES` sets more.
fn check_worlds(cases: u32, law: impl AsyncFn(&World)) {
    let default = Config::default();
    let cases = if default.cases == 256 { cases } else { default.cases };
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 300, ..default };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tried = TestRunner::new(config).run(&worlds(), |world| {
        runtime.block_on(law(&world));
        Ok(())
    });
    if let Err(broken) = tried {
        panic!("{broken}");
    }
}

/// A world with stored orders and a set clock.
struct TestStage {
    bed: TestBed,
    calendar: Calendar,
    plots: Vec<StoryData>,
    shuffle: u32,
    /// The random number of the first story.
    dice: u32,
}

/// Which lines the files of a world have.
#[derive(Clone, Copy, PartialEq)]
enum LineVariant {
    Original,
    Shuffled,
    Corrected,
}

impl TestStage {
    async fn set(world: &World) -> Self {
        let by = if world.by == MatchKey::Order { "order" } else { "ref" };
        let bed = TestBed::new(&records(world.zone, by));
        let first = world.date.parse().unwrap();
        let calendar = Calendar { zone: world.zone.parse().unwrap(), first };
        bed.clock.set(calendar.at(DAYS, 12 * HOUR));
        let stories = world.stories.iter().enumerate();
        let plots: Vec<StoryData> = stories
            .map(|(n, (kind, dice))| {
                StoryContext { calendar, by: world.by, n, dice: *dice }.build(*kind)
            })
            .collect();
        let published: Vec<_> = plots.iter().flat_map(|plot| plot.orders.clone()).collect();
        bed.put(&published).await;
        let dice = world.stories.first().map_or(0, |(_, dice)| *dice);
        Self { bed, calendar, plots, shuffle: world.shuffle, dice }
    }

    /// A world of these stories, all on its first day.
    async fn of(by: MatchKey, stories: &[Kind]) -> Self {
        // A random number that puts every story on the first day.
        let dice = (1..).find(|dice: &u32| dice.rotate_left(15).is_multiple_of(3)).unwrap();
        let stories = stories.iter().map(|kind| (*kind, dice)).collect();
        let (zone, date) = ("Asia/Ho_Chi_Minh", "2026-02-10");
        Self::set(&World { zone, date, by, stories, shuffle: 1 }).await
    }

    fn lines(&self, day: u64, given: LineVariant) -> Vec<String> {
        let of = |plot: &StoryData| -> Vec<(u64, RecordLine)> {
            match (given, &plot.truth) {
                (LineVariant::Corrected, Some(truth)) => truth.clone(),
                _ => plot.lines.clone(),
            }
        };
        let all = self.plots.iter().flat_map(of);
        let mut lines: Vec<String> =
            all.filter(|(of, _)| *of == day).map(|(_, line)| line.csv()).collect();
        if given == LineVariant::Shuffled {
            let mut seed = self.shuffle;
            for index in (1..lines.len()).rev() {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                lines.swap(index, (seed >> 8) as usize % (index + 1));
            }
        }
        lines
    }

    async fn run_all(&self, running: &RunningService, given: LineVariant) -> Vec<RunEnded> {
        let mut ended = Vec::new();
        for day in 0..DAYS {
            let lines = self.lines(day, given);
            let request = self.bed.request(&self.calendar.date(day).to_string(), &lines);
            ended.push(running.service.run(request).await.unwrap());
        }
        ended
    }

    /// The uncleared findings once all days are compared.
    fn expected(&self) -> Vec<ExpectedFinding> {
        let mut expected: Vec<ExpectedFinding> =
            self.plots.iter().flat_map(|plot| plot.expect.clone()).collect();
        for day in 0..DAYS {
            let published = self.plots.iter().flat_map(|plot| &plot.noticed);
            let (mut count, mut silent) = (0, true);
            for (_, is_noticed) in published.filter(|(of, _)| *of == day) {
                count += 1;
                silent &= !is_noticed;
            }
            if silent && count >= 3 {
                expected.push(ExpectedFinding {
                    day: self.calendar.date(day).to_string(),
                    code: Code::PartnerSilent,
                    order: None,
                    reference: None,
                    field: "",
                    ours: "no notice".into(),
                    partners: format!("{count} payments"),
                    at_risk: 0,
                    currency: None,
                });
            }
        }
        expected.sort();
        expected
    }

    /// The control totals of a run, by day, currency and status.
    fn totals(&self, day: u64) -> BTreeMap<(String, String, Status), [(u64, i64); 2]> {
        let mut totals: BTreeMap<_, [(u64, i64); 2]> = BTreeMap::new();
        let mut add = |key, side: usize, minor| {
            let sum = &mut totals.entry(key).or_default()[side];
            *sum = (sum.0 + 1, sum.1 + minor);
        };
        let date = self.calendar.date(day).to_string();
        for plot in &self.plots {
            for (of, status, currency, minor) in &plot.moves {
                if *of == day {
                    add((date.clone(), (*currency).to_owned(), *status), 0, *minor);
                }
            }
            for (_, line) in plot.lines.iter().filter(|(of, _)| *of == day) {
                if line.kind == Status::Success || line.kind == Status::Refunded {
                    let is_of = |n: &u64| {
                        self.calendar.at(*n, 0) <= line.at && line.at < self.calendar.at(n + 1, 0)
                    };
                    let booked = (0..DAYS).find(is_of).unwrap();
                    let booked = self.calendar.date(booked).to_string();
                    add((booked, line.currency.to_owned(), line.kind), 1, line.amount);
                }
            }
        }
        totals
    }

    fn check_run(&self, day: u64, ended: &RunEnded) {
        assert_eq!((ended.result, &ended.problems), (RunResult::Complete, &Vec::new()));
        let sum = |of: fn(&StoryData) -> &BTreeMap<u64, u64>| -> u64 {
            self.plots.iter().filter_map(|plot| of(plot).get(&day)).sum()
        };
        let compared = ended.compared;
        let counts = (compared.matched, compared.pending, compared.cut_off);
        let expected = (sum(|plot| &plot.matched), 0, sum(|plot| &plot.cut_off));
        assert_eq!(counts, expected, "matched, pending, cut off of day {day}");
        let published: BTreeMap<_, _> = ended
            .totals
            .iter()
            .map(|total| {
                let key = (total.day.clone(), total.currency.to_string(), total.status);
                let sum = |sum: &payfold_schemas::run::Sum| (sum.count, sum.amount);
                (key, [sum(&total.ours), sum(&total.partners)])
            })
            .collect();
        assert_eq!(published, self.totals(day), "totals of day {day}");
    }
}

/// A finding as an expectation, for comparison.
fn as_expectation(found: &FindingChanged) -> ExpectedFinding {
    let field = found.field.clone().unwrap_or_default();
    let words = ["amount", "currency", "providerRef", "paidAt", "reference", "status", ""];
    ExpectedFinding {
        day: found.day.clone(),
        code: found.code,
        order: found.order_id.as_ref().map(ToString::to_string),
        reference: found.payment_ref.as_ref().map(ToString::to_string),
        field: words.into_iter().find(|word| *word == field).unwrap(),
        ours: found.ours.value.clone(),
        partners: found.partners.value.clone(),
        at_risk: found.money_at_risk,
        currency: found.currency.map(payfold_schemas::money::Currency::code),
    }
}

/// Checks that each change from this one on differs from the finding's previous version only in the
/// file and lines it cites.
fn assert_only_citations_changed(changes: &[FindingChanged], from: usize) {
    let without_citation = |change: &FindingChanged| {
        let mut change = change.clone();
        change.partners.source.clear();
        change.lines.clear();
        FindingChanged { version: 0, ..change }
    };
    for change in &changes[from..] {
        let is_before = |known: &&FindingChanged| {
            (&known.finding_id, known.version + 1) == (&change.finding_id, change.version)
        };
        let before = changes.iter().find(is_before).expect("a version before");
        assert_eq!(without_citation(change), without_citation(before), "more than a place changed");
    }
}

fn all_as_expectations(findings: &[FindingChanged]) -> Vec<ExpectedFinding> {
    let mut all: Vec<ExpectedFinding> = findings.iter().map(as_expectation).collect();
    all.sort();
    all
}

#[test]
fn findings_are_those_the_stories_expect() {
    check_worlds(60, async |world: &World| {
        let stage = TestStage::set(world).await;
        let running = stage.bed.start();
        let ended = stage.run_all(&running, LineVariant::Original).await;
        assert_eq!(all_as_expectations(&stage.bed.uncleared().await), stage.expected());
        for (day, ended) in (0..).zip(&ended) {
            stage.check_run(day, ended);
        }
        let published = stage.bed.changes().await;
        // A repeated run publishes nothing. The same lines in another order change citations only.
        stage.run_all(&running, LineVariant::Original).await;
        let again = stage.bed.changes().await;
        assert_eq!(again[published.len()..], [], "a repeated run published changes");
        stage.run_all(&running, LineVariant::Shuffled).await;
        let shuffled = stage.bed.changes().await;
        assert_only_citations_changed(&shuffled, published.len());
        stage.run_all(&running, LineVariant::Shuffled).await;
        let again = stage.bed.changes().await;
        assert_eq!(again[shuffled.len()..], [], "a repeated run published changes");
        running.stop().await.unwrap();
    });
}

#[test]
fn findings_clear_with_corrected_records_and_reopen() {
    check_worlds(30, async |world: &World| {
        let stage = TestStage::set(world).await;
        let running = stage.bed.start();
        stage.run_all(&running, LineVariant::Original).await;
        let before = stage.bed.findings().await;
        stage.run_all(&running, LineVariant::Corrected).await;
        let left: Vec<Code> = stage.bed.uncleared().await.iter().map(|found| found.code).collect();
        let stays = |code: &Code| {
            let of_shared = matches!(code, Code::RefOnTwoOrders | Code::MissingThere);
            matches!(code, Code::ReferencePaidTwice | Code::PartnerSilent)
                || (of_shared && world.stories.iter().any(|(kind, _)| *kind == Kind::SharedRef))
        };
        assert!(left.iter().all(stays), "not cleared: {left:?}");
        stage.run_all(&running, LineVariant::Original).await;
        assert_eq!(all_as_expectations(&stage.bed.uncleared().await), stage.expected());
        for (id, now) in stage.bed.findings().await {
            let Some(then) = before.get(&id) else { continue };
            let stood = then.status != FindingStatus::Cleared;
            let counted = now.version == then.version + 2 || now.version == then.version;
            assert!(!stood || counted, "{} from {} to {}", now.code, then.version, now.version);
        }
        running.stop().await.unwrap();
    });
}

/// Comparing days first in any order and then in their own order gives the same findings as
/// comparing them in order once.
#[test]
fn the_order_of_runs_makes_no_difference_in_the_end() {
    check_worlds(25, async |world: &World| {
        let stage = TestStage::set(world).await;
        let running = stage.bed.start();
        let first = u64::from(world.shuffle) % DAYS;
        let step = 1 + u64::from(world.shuffle >> 8) % (DAYS - 1);
        for turn in 0..DAYS {
            let day = (first + turn * step) % DAYS;
            let lines = stage.lines(day, LineVariant::Shuffled);
            let request = stage.bed.request(&stage.calendar.date(day).to_string(), &lines);
            running.service.run(request).await.unwrap();
        }
        stage.run_all(&running, LineVariant::Original).await;
        // A finding of two orders has the day of the first run that detected it.
        let without_day_of_pairs = |mut all: Vec<ExpectedFinding>| {
            let of_two = all.iter_mut().filter(|found| found.code == Code::ReferencePaidTwice);
            of_two.for_each(|found| found.day.clear());
            all.sort();
            all
        };
        let uncleared = all_as_expectations(&stage.bed.uncleared().await);
        assert_eq!(without_day_of_pairs(uncleared), without_day_of_pairs(stage.expected()));
        running.stop().await.unwrap();
    });
}
