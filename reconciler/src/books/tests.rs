//! The whole comparison over real SQLite engines: generated worlds against what their stories say has to be found.

mod bed;
mod citing;
mod closing;
mod cut;
mod flags;
mod late_flags;
mod later;
mod notices;
mod odd;
mod repeats;
mod soup;
mod story;

use std::collections::BTreeMap;
use std::time::Duration;

use payfold_schemas::finding::{Code, FindingChanged, FindingStatus};
use payfold_schemas::ipn::Status;
use payfold_schemas::run::{RunEnded, RunResult};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use self::bed::{Bed, Running, records};
use self::story::{Calendar, Expect, HOUR, Kind, Line, Plot, Scene};
use super::judge::By;

/// Zones east and west of Greenwich, with and without days of 23 and 25 hours.
const ZONES: [&str; 5] =
    ["UTC", "Asia/Ho_Chi_Minh", "Europe/Berlin", "America/Sao_Paulo", "Pacific/Apia"];
/// First days: plain, over a year's end, around both changes of the clock in Europe.
const DATES: [&str; 4] = ["2026-02-10", "2025-12-30", "2026-03-28", "2026-10-24"];
const DAYS: u64 = 3;

/// A generated world.
#[derive(Clone, Debug)]
struct World {
    zone: &'static str,
    date: &'static str,
    by: By,
    stories: Vec<(Kind, u32)>,
    /// In which order the lines of a file stand.
    shuffle: u32,
}

fn worlds() -> impl Strategy<Value = World> {
    let by = prop::sample::select(vec![By::Order, By::Ref]);
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

/// Tries a law on so many worlds; `PROPTEST_CASES` for more.
fn hold(cases: u32, law: impl AsyncFn(&World)) {
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

/// A world with everything in it that its stories say.
struct Stage {
    bed: Bed,
    calendar: Calendar,
    plots: Vec<Plot>,
    shuffle: u32,
    /// What the first story drew.
    dice: u32,
}

/// The lines that are given.
#[derive(Clone, Copy, PartialEq)]
enum Given {
    AsToldByStories,
    Shuffled,
    Mended,
}

impl Stage {
    async fn set(world: &World) -> Self {
        let by = if world.by == By::Order { "order" } else { "ref" };
        let bed = Bed::new(&records(world.zone, by));
        let first = world.date.parse().unwrap();
        let calendar = Calendar { zone: world.zone.parse().unwrap(), first };
        bed.clock.set(calendar.at(DAYS, 12 * HOUR));
        let stories = world.stories.iter().enumerate();
        let plots: Vec<Plot> = stories
            .map(|(n, (kind, dice))| Scene { calendar, by: world.by, n, dice: *dice }.tell(*kind))
            .collect();
        let told: Vec<_> = plots.iter().flat_map(|plot| plot.told.clone()).collect();
        bed.put(&told).await;
        let dice = world.stories.first().map_or(0, |(_, dice)| *dice);
        Self { bed, calendar, plots, shuffle: world.shuffle, dice }
    }

    /// A world of these stories, all on its first day.
    async fn of(by: By, stories: &[Kind]) -> Self {
        // Dice that put every story there.
        let dice = (1..).find(|dice: &u32| dice.rotate_left(15).is_multiple_of(3)).unwrap();
        let stories = stories.iter().map(|kind| (*kind, dice)).collect();
        let (zone, date) = ("Asia/Ho_Chi_Minh", "2026-02-10");
        Self::set(&World { zone, date, by, stories, shuffle: 1 }).await
    }

    fn lines(&self, day: u64, given: Given) -> Vec<String> {
        let of = |plot: &Plot| -> Vec<(u64, Line)> {
            match (given, &plot.truth) {
                (Given::Mended, Some(truth)) => truth.clone(),
                _ => plot.lines.clone(),
            }
        };
        let all = self.plots.iter().flat_map(of);
        let mut lines: Vec<String> =
            all.filter(|(of, _)| *of == day).map(|(_, line)| line.csv()).collect();
        if given == Given::Shuffled {
            let mut seed = self.shuffle;
            for place in (1..lines.len()).rev() {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                lines.swap(place, (seed >> 8) as usize % (place + 1));
            }
        }
        lines
    }

    async fn run_all(&self, running: &Running, given: Given) -> Vec<RunEnded> {
        let mut ended = Vec::new();
        for day in 0..DAYS {
            let lines = self.lines(day, given);
            let request = self.bed.request(&self.calendar.date(day).to_string(), &lines);
            ended.push(running.desk.run(request).await.unwrap());
        }
        ended
    }

    /// What has to stand once all days were compared.
    fn expected(&self) -> Vec<Expect> {
        let mut expected: Vec<Expect> =
            self.plots.iter().flat_map(|plot| plot.expect.clone()).collect();
        for day in 0..DAYS {
            let told = self.plots.iter().flat_map(|plot| &plot.noticed);
            let (mut count, mut silent) = (0, true);
            for (_, is_noticed) in told.filter(|(of, _)| *of == day) {
                count += 1;
                silent &= !is_noticed;
            }
            if silent && count >= 3 {
                expected.push(Expect {
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
        let sum = |of: fn(&Plot) -> &BTreeMap<u64, u64>| -> u64 {
            self.plots.iter().filter_map(|plot| of(plot).get(&day)).sum()
        };
        let compared = ended.compared;
        let counts = (compared.matched, compared.pending, compared.cut_off);
        let expected = (sum(|plot| &plot.matched), 0, sum(|plot| &plot.cut_off));
        assert_eq!(counts, expected, "matched, pending, cut off of day {day}");
        let told: BTreeMap<_, _> = ended
            .totals
            .iter()
            .map(|total| {
                let key = (total.day.clone(), total.currency.to_string(), total.status);
                let sum = |sum: &payfold_schemas::run::Sum| (sum.count, sum.amount);
                (key, [sum(&total.ours), sum(&total.partners)])
            })
            .collect();
        assert_eq!(told, self.totals(day), "totals of day {day}");
    }
}

/// A finding in the words of an expectation.
fn seen(found: &FindingChanged) -> Expect {
    let field = found.field.clone().unwrap_or_default();
    let words = ["amount", "currency", "providerRef", "paidAt", "reference", "status", ""];
    Expect {
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

/// The changes from here on say of each finding what its version before says, at another place of the records.
fn assert_only_cited(changes: &[FindingChanged], from: usize) {
    let but_for_places = |change: &FindingChanged| {
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
        assert_eq!(but_for_places(change), but_for_places(before), "more than a place changed");
    }
}

fn all_seen(findings: &[FindingChanged]) -> Vec<Expect> {
    let mut all: Vec<Expect> = findings.iter().map(seen).collect();
    all.sort();
    all
}

#[test]
fn what_is_found_is_what_went_wrong() {
    hold(60, async |world: &World| {
        let stage = Stage::set(world).await;
        let running = stage.bed.start();
        let ended = stage.run_all(&running, Given::AsToldByStories).await;
        assert_eq!(all_seen(&stage.bed.standing().await), stage.expected());
        for (day, ended) in (0..).zip(&ended) {
            stage.check_run(day, ended);
        }
        let told = stage.bed.changes().await;
        // The same once more tells nothing new; the same lines in another order only where they stand now.
        stage.run_all(&running, Given::AsToldByStories).await;
        let again = stage.bed.changes().await;
        assert_eq!(again[told.len()..], [], "a repeated run tells something");
        stage.run_all(&running, Given::Shuffled).await;
        let shuffled = stage.bed.changes().await;
        assert_only_cited(&shuffled, told.len());
        stage.run_all(&running, Given::Shuffled).await;
        let again = stage.bed.changes().await;
        assert_eq!(again[shuffled.len()..], [], "a repeated run tells something");
        running.stop().await.unwrap();
    });
}

#[test]
fn what_is_mended_clears_and_comes_back() {
    hold(30, async |world: &World| {
        let stage = Stage::set(world).await;
        let running = stage.bed.start();
        stage.run_all(&running, Given::AsToldByStories).await;
        let before = stage.bed.findings().await;
        stage.run_all(&running, Given::Mended).await;
        let left: Vec<Code> = stage.bed.standing().await.iter().map(|found| found.code).collect();
        let stays = |code: &Code| {
            let of_shared = matches!(code, Code::RefOnTwoOrders | Code::MissingThere);
            matches!(code, Code::ReferencePaidTwice | Code::PartnerSilent)
                || (of_shared && world.stories.iter().any(|(kind, _)| *kind == Kind::SharedRef))
        };
        assert!(left.iter().all(stays), "not cleared: {left:?}");
        stage.run_all(&running, Given::AsToldByStories).await;
        assert_eq!(all_seen(&stage.bed.standing().await), stage.expected());
        for (id, now) in stage.bed.findings().await {
            let Some(then) = before.get(&id) else { continue };
            let stood = then.status != FindingStatus::Cleared;
            let counted = now.version == then.version + 2 || now.version == then.version;
            assert!(!stood || counted, "{} from {} to {}", now.code, then.version, now.version);
        }
        running.stop().await.unwrap();
    });
}

/// Days that were compared in any order come to the same once they were compared in theirs.
#[test]
fn the_order_of_days_is_irrelevant_in_the_end() {
    hold(25, async |world: &World| {
        let stage = Stage::set(world).await;
        let running = stage.bed.start();
        let first = u64::from(world.shuffle) % DAYS;
        let step = 1 + u64::from(world.shuffle >> 8) % (DAYS - 1);
        for turn in 0..DAYS {
            let day = (first + turn * step) % DAYS;
            let lines = stage.lines(day, Given::Shuffled);
            let request = stage.bed.request(&stage.calendar.date(day).to_string(), &lines);
            running.desk.run(request).await.unwrap();
        }
        stage.run_all(&running, Given::AsToldByStories).await;
        // Of two orders no day is theirs: it is the first that was compared.
        let dayless = |mut all: Vec<Expect>| {
            let of_two = all.iter_mut().filter(|found| found.code == Code::ReferencePaidTwice);
            of_two.for_each(|found| found.day.clear());
            all.sort();
            all
        };
        let standing = all_seen(&stage.bed.standing().await);
        assert_eq!(dayless(standing), dayless(stage.expected()));
        running.stop().await.unwrap();
    });
}

/// Right in the middle of a day, with a grace of an hour.
#[test]
fn what_is_young_is_not_missed_yet() {
    const KINDS: [Kind; 7] = [
        Kind::Agrees,
        Kind::LineDropped,
        Kind::OrderDropped,
        Kind::SaysPaidOfFailed,
        Kind::SaysPaidOfPending,
        Kind::NeverAskedFor,
        Kind::OtherAmountTold,
    ];
    hold(40, async |world: &World| {
        let stories: Vec<_> = world
            .stories
            .iter()
            .map(|(_, dice)| (KINDS[(*dice >> 7) as usize % KINDS.len()], *dice))
            .collect();
        let stage = Stage::set(&World { stories, ..world.clone() }).await;
        let running = stage.bed.start();
        let mut expected = Vec::new();
        for day in 0..DAYS {
            let date = stage.calendar.date(day).to_string();
            let now = stage.calendar.at(day, 13 * HOUR + 10 * story::MINUTE);
            stage.bed.clock.set(now);
            let mut pending = 0;
            for plot in &stage.plots {
                let Some(found) = plot.expect.first().filter(|found| found.day == date) else {
                    continue;
                };
                // What is young is what is there alone: the line, or else our payment.
                let at = plot.lines.first().map_or_else(|| plot.told[0].facts[2].0, |(_, l)| l.at);
                let at = if plot.lines.is_empty() { at.plus_ms(-1_500) } else { at };
                match at.plus_ms(HOUR) > now {
                    true => pending += 1,
                    false => expected.push(found.clone()),
                }
            }
            let request = stage.bed.request(&date, &stage.lines(day, Given::AsToldByStories));
            let ended = running.desk.run(request).await.unwrap();
            assert_eq!(ended.compared.pending, pending, "pending on day {day}");
        }
        let mut found = all_seen(&stage.bed.standing().await);
        found.retain(|found| found.code != Code::PartnerSilent);
        expected.sort();
        assert_eq!(found, expected);
        running.stop().await.unwrap();
    });
}
