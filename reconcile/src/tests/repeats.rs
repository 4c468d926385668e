//! Interrupted and repeated runs, and two processes that do one run: the findings are those of one
//! undisturbed run, and no event has two contents.

use payfold_engines::clock::Clock;
use payfold_engines::log::Topic;
use payfold_schemas::run::{RUN_ENDED_TYPE, RunEnded};

use super::failing_log::FailingLog;
use super::*;

/// Every run that ended: the first event of each id. Checks that no id has two contents.
async fn ended(bed: &TestBed) -> BTreeMap<String, RunEnded> {
    let mut runs: BTreeMap<String, RunEnded> = BTreeMap::new();
    for message in bed.messages(Topic::Findings).await {
        if message.event.as_ref().is_none_or(|event| event.kind != RUN_ENDED_TYPE) {
            continue;
        }
        let ended: RunEnded = serde_json::from_slice(&message.value).unwrap();
        let first = runs.entry(ended.run.clone()).or_insert_with(|| ended.clone());
        assert_eq!(*first, ended, "one run, two ends");
    }
    runs
}

/// The findings and runs of an undisturbed run of each day.
async fn undisturbed(
    world: &World,
) -> (BTreeMap<String, FindingChanged>, BTreeMap<String, RunEnded>) {
    let stage = TestStage::set(world).await;
    let running = stage.bed.start();
    stage.run_all(&running, LineVariant::Original).await;
    running.stop().await.unwrap();
    (stage.bed.findings().await, ended(&stage.bed).await)
}

#[test]
fn an_interrupted_run_continues_where_it_was() {
    check_worlds(25, async |world: &World| {
        let expected = undisturbed(world).await;
        let stage = TestStage::set(world).await;
        let mut seed = world.shuffle;
        for day in 0..DAYS {
            let date = stage.calendar.date(day).to_string();
            let lines = stage.lines(day, LineVariant::Original);
            for _ in 0..2 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let cut = FailingLog::failing_after(stage.bed.log.clone(), i64::from(seed >> 29));
                let running = stage.bed.start_over(cut, Duration::from_secs(3_600));
                let _ = running.service.run(stage.bed.request(&date, &lines)).await;
                let _ = running.stop().await;
                // The repeated run is later, but keeps the id and start of the first one.
                stage
                    .bed
                    .clock
                    .set(stage.calendar.at(DAYS, 12 * HOUR).plus_ms(i64::from(seed >> 20)));
                if stage.ran(day).await {
                    break;
                }
            }
            if !stage.ran(day).await {
                stage.bed.run(&date, &lines).await.unwrap();
            }
            stage.bed.clock.set(stage.calendar.at(DAYS, 12 * HOUR));
        }
        let found = (stage.bed.findings().await, ended(&stage.bed).await);
        assert_eq!(found.0, expected.0);
        assert_eq!(found.1, expected.1);
    });
}

impl TestStage {
    /// Whether the day's run has ended.
    async fn ran(&self, day: u64) -> bool {
        let date = self.calendar.date(day).to_string();
        ended(&self.bed).await.values().any(|run| run.day == date)
    }
}

#[test]
fn two_processes_find_what_one_finds() {
    check_worlds(25, async |world: &World| {
        let (findings, runs) = undisturbed(world).await;
        let stage = TestStage::set(world).await;
        // The first process to claim the run sets its start.
        let began = stage.bed.clock.now();
        let (one, other) = (stage.bed.start_late(1_000), stage.bed.start_late(8_000));
        for day in 0..DAYS {
            let date = stage.calendar.date(day).to_string();
            let lines = stage.lines(day, LineVariant::Original);
            let request = || stage.bed.request(&date, &lines);
            let (one, other) =
                tokio::join!(one.service.run(request()), other.service.run(request()));
            assert_eq!(one.unwrap().totals, other.unwrap().totals);
        }
        one.stop().await.unwrap();
        other.stop().await.unwrap();
        let mut found = stage.bed.findings().await;
        found.values_mut().for_each(|found| found.first_seen = began);
        assert_eq!(found, findings);
        let ended = ended(&stage.bed).await;
        for (run, expected) in runs {
            let ended = RunEnded { started_at: began, ..ended[&run].clone() };
            assert_eq!(ended, expected);
        }
    });
}
