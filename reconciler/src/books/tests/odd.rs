//! What goes wrong in production beside payments: files that are empty, broken, huge, replaced or given too early, and
//! profiles and accounts that are not there or change.

use payfold_schemas::ids::{Author, PartnerCode};

use super::*;
use crate::books::day::{Request, Source};
use crate::books::desk::{Closing, DeskError};

const DAY: &str = "2026-02-10";

async fn run(stage: &Stage, day: &str, lines: &[String]) -> RunEnded {
    stage.bed.run(day, lines).await.unwrap()
}

impl Stage {
    async fn codes(&self) -> Vec<Code> {
        let mut codes: Vec<Code> = self.bed.standing().await.iter().map(|f| f.code).collect();
        codes.sort_unstable();
        codes
    }

    async fn run_bytes(&self, bytes: &[u8]) -> RunEnded {
        let request = self.bed.request(DAY, &[]);
        let Source::File(path) = &request.source else { panic!("a file") };
        std::fs::write(path, bytes).unwrap();
        let running = self.bed.start();
        let ended = running.desk.run(request).await.unwrap();
        running.stop().await.unwrap();
        ended
    }

    async fn refused(&self, day: &str) -> String {
        match self.bed.run(day, &[]).await {
            Err(DeskError::Refused(problem)) => problem,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_day_without_lines_misses_all_payments_and_a_file_without_bytes_none() {
    let stage = Stage::of(By::Order, &[Kind::Agrees, Kind::RefundNotListed]).await;
    let ended = stage.run_bytes(b"").await;
    assert_eq!((ended.result, ended.findings.opened), (RunResult::Incomplete, 0));
    assert!(ended.problems[0].contains("the file is empty"), "{:?}", ended.problems);
    let ended = run(&stage, DAY, &[]).await;
    assert_eq!((ended.result, ended.findings.open), (RunResult::Complete, 3));
    assert_eq!(stage.codes().await, [Code::MissingThere; 3]);
    let totals: i64 = ended.totals.iter().map(|total| total.partners.amount).sum();
    assert_eq!(totals, 0);
}

/// What can't be read may be what would be missed: it is neither found missing nor taken as mended.
#[tokio::test]
async fn an_incomplete_run_concludes_nothing_from_what_it_has_not_read() {
    let stage = Stage::of(By::Order, &[Kind::Agrees, Kind::AmountChanged, Kind::LineDropped]).await;
    let lines = stage.lines(0, Given::AsToldByStories);
    let garbled = |line: &String| line.replace(",SUCCESS,", ",SUCCESS?,");
    let all_bad: Vec<String> = lines.iter().map(garbled).collect();
    let ended = run(&stage, DAY, &all_bad).await;
    assert_eq!((ended.result, ended.records.bad), (RunResult::Incomplete, 2));
    assert_eq!(ended.records.bad_lines[1].line, 3);
    assert_eq!(stage.codes().await, []);
    // What is read is compared.
    let one_bad = vec![garbled(&lines[0]), lines[1].clone()];
    let ended = run(&stage, DAY, &one_bad).await;
    assert_eq!(
        (ended.result, stage.codes().await),
        (RunResult::Incomplete, vec![Code::AmountDiffers])
    );
    run(&stage, DAY, &lines).await;
    assert_eq!(stage.codes().await, [Code::MissingThere, Code::AmountDiffers]);
    let ended = run(&stage, DAY, &all_bad).await;
    assert_eq!((ended.findings.open, ended.findings.cleared), (2, 0));
    // A line that was waited for is there, whatever else is not.
    let mended = [stage.lines(0, Given::Mended), vec!["nonsense".to_owned()]].concat();
    let ended = run(&stage, DAY, &mended).await;
    assert_eq!(
        (ended.result, stage.codes().await),
        (RunResult::Incomplete, vec![Code::AmountDiffers])
    );
    // A file that is cut off is not looked at.
    let cut = stage.run_bytes(b"order,ref,kind,amount,currency,at,event\no0,r0,SUCC").await;
    assert_eq!((cut.result, cut.compared.orders), (RunResult::Incomplete, 0));
}

#[tokio::test]
async fn more_lines_than_a_payment_has_make_it_incomplete() {
    let stage = Stage::of(By::Order, &[Kind::Agrees]).await;
    let line = stage.lines(0, Given::AsToldByStories).remove(0);
    let ended = run(&stage, DAY, &vec![line; 5_000]).await;
    assert_eq!(ended.result, RunResult::Incomplete);
    assert!(ended.problems[0].contains("904 of them are not compared"), "{:?}", ended.problems);
    let standing = stage.bed.standing().await;
    let told: Vec<_> = standing.iter().map(|f| (f.code, f.partners.value.as_str())).collect();
    assert_eq!(told, [(Code::DuplicatedThere, "4096 times")]);
    assert!(standing[0].lines.len() <= 16);
}

#[tokio::test]
async fn what_can_not_be_compared_says_why() {
    let stage = Stage::of(By::Order, &[Kind::Agrees]).await;
    assert!(stage.refused("2026-02-14").await.contains("has not begun"));
    stage.bed.now_is("", &["M"]);
    assert!(stage.refused(DAY).await.contains("[records]"));
    stage.bed.now_is(&records("UTC", "order"), &[]);
    assert!(stage.refused(DAY).await.contains("there is no account at p"));
    assert_eq!(stage.bed.changes().await, []);
    // With a second account a line has to say of which it is.
    stage.bed.now_is(&records("UTC", "order"), &["M", "N"]);
    let ended = run(&stage, DAY, &stage.lines(0, Given::AsToldByStories)).await;
    assert_eq!((ended.result, ended.records.bad), (RunResult::Incomplete, 1));
    assert!(ended.records.bad_lines[0].problem.contains("it names no account"));
    assert_eq!(stage.codes().await, []);
}

#[tokio::test]
async fn a_profile_that_changes_between_runs_finds_the_same() {
    let kinds = [Kind::Agrees, Kind::AmountChanged, Kind::LineDropped, Kind::TimeChanged];
    let stage = Stage::of(By::Order, &kinds).await;
    let lines = stage.lines(0, Given::AsToldByStories);
    run(&stage, DAY, &lines).await;
    let before = stage.bed.findings().await;
    stage.bed.now_is(&records("Asia/Ho_Chi_Minh", "ref"), &["M"]);
    let ended = run(&stage, DAY, &lines).await;
    assert_eq!((ended.findings.opened, ended.findings.cleared), (0, 0));
    assert_eq!(stage.bed.findings().await, before);
}

/// A payment of the day's end that the next day's records have is lost when those are replaced by others without it.
#[tokio::test]
async fn records_that_are_replaced_lose_what_they_had() {
    let stage = Stage::of(By::Order, &[Kind::LeftToNextDay]).await;
    let (day, next) = match stage.lines(1, Given::AsToldByStories).is_empty() {
        true => (1, 2),
        false => (0, 1),
    };
    let date = |day| stage.calendar.date(day).to_string();
    let lines = stage.lines(next, Given::AsToldByStories);
    run(&stage, &date(day), &[]).await;
    assert_eq!(stage.codes().await, [Code::CutOff]);
    run(&stage, &date(next), &lines).await;
    assert_eq!(stage.codes().await, []);
    run(&stage, &date(day), &[]).await;
    assert_eq!(stage.codes().await, [], "it is known where it is listed");
    run(&stage, &date(next), &[]).await;
    assert_eq!(stage.codes().await, [Code::MissingThere]);
    run(&stage, &date(day), &[]).await;
    assert_eq!(stage.codes().await, [Code::MissingThere]);
    run(&stage, &date(next), &lines).await;
    assert_eq!(stage.codes().await, []);
    // And the day's own records may have it in the end.
    run(&stage, &date(next), &[]).await;
    run(&stage, &date(day), &lines).await;
    assert_eq!(stage.codes().await, []);
}

/// Days that are compared in the wrong order.
#[tokio::test]
async fn the_day_after_may_come_first() {
    let stage = Stage::of(By::Order, &[Kind::ListedEarly]).await;
    let (day, next) = match stage.lines(0, Given::AsToldByStories).is_empty() {
        true => (1, 2),
        false => (0, 1),
    };
    let date = |day| stage.calendar.date(day).to_string();
    run(&stage, &date(next), &[]).await;
    assert_eq!(stage.codes().await, [Code::MissingThere]);
    run(&stage, &date(day), &stage.lines(day, Given::AsToldByStories)).await;
    assert_eq!(stage.codes().await, []);
    run(&stage, &date(next), &[]).await;
    assert_eq!(stage.codes().await, []);
    // Without it there, it is missing again.
    run(&stage, &date(day), &[]).await;
    run(&stage, &date(next), &[]).await;
    assert_eq!(stage.codes().await, [Code::MissingThere]);
}

/// A transaction that two days' records list: both agree with ours, and the day it is not of says so.
#[tokio::test]
async fn one_payment_on_two_days_is_told_of() {
    let stage = Stage::of(By::Order, &[Kind::Agrees]).await;
    let lines = stage.lines(0, Given::AsToldByStories);
    run(&stage, DAY, &lines).await;
    run(&stage, "2026-02-12", &lines).await;
    assert_eq!(stage.codes().await, [Code::OtherDay]);
}

/// Each day's records speak for themselves: what two of them say of one payment is two findings, and each stays as it is
/// until its own day's records are mended.
#[tokio::test]
async fn two_days_that_say_two_things_of_one_payment_do_not_take_turns() {
    let stage = Stage::of(By::Order, &[Kind::AmountChanged]).await;
    let next = "2026-02-11";
    let (_, line) = &stage.plots[0].lines[0];
    let lines = stage.lines(0, Given::AsToldByStories);
    let later = vec![Line { amount: 2 * line.amount, ..line.clone() }.csv()];
    run(&stage, DAY, &lines).await;
    run(&stage, next, &later).await;
    let standing = stage.bed.standing().await;
    let mut told: Vec<_> =
        standing.iter().map(|f| (f.code, f.day.as_str(), f.partners.value.clone())).collect();
    told.sort_unstable();
    let differs = |day, amount: i64| (Code::AmountDiffers, day, amount.to_string());
    assert_eq!(told, [differs(DAY, line.amount), differs(next, 2 * line.amount)]);
    let before = stage.bed.changes().await;
    for (day, lines) in [(DAY, &lines), (next, &later), (DAY, &lines), (next, &later)] {
        run(&stage, day, lines).await;
    }
    assert_eq!(stage.bed.changes().await[before.len()..], [], "a repeated run tells something");
    run(&stage, DAY, &stage.lines(0, Given::Mended)).await;
    run(&stage, next, &later).await;
    let standing = stage.bed.standing().await;
    assert_eq!(standing.len(), 1);
    assert_eq!((standing[0].day.as_str(), standing[0].version), (next, 1));
}

/// A second file of a day would make missing what only the first one has.
#[tokio::test]
async fn a_day_has_one_file_unless_it_is_said_otherwise() {
    let stage = Stage::of(By::Order, &[Kind::Agrees, Kind::AmountChanged]).await;
    let running = stage.bed.start();
    let lines = stage.lines(0, Given::AsToldByStories);
    let part = |name: &str, lines: &[String]| Request {
        name: name.to_owned(),
        ..stage.bed.request(DAY, lines)
    };
    let garbled = lines[0].replace(",SUCCESS,", ",SUCCESS?,");
    running.desk.run(part("broken.csv", &[garbled])).await.unwrap();
    running.desk.run(part("a.csv", &lines)).await.expect("an incomplete run has no place");
    let before = stage.bed.changes().await;
    let refused = running.desk.run(part("b.csv", &lines[1..])).await;
    let Err(DeskError::Refused(problem)) = refused else { panic!("{refused:?}") };
    assert!(
        problem.contains("compared with a.csv before; b.csv would take its place"),
        "{problem}"
    );
    assert_eq!(stage.bed.changes().await, before);
    running.desk.run(part("copy.csv", &lines)).await.expect("it is the same");
    let replacing = Request { replace: true, ..part("b.csv", &lines[1..]) };
    running.desk.run(replacing).await.unwrap();
    assert_eq!(stage.codes().await, [Code::MissingThere, Code::AmountDiffers]);
    running.stop().await.unwrap();
}

/// Whether what nobody lists yet is missing is known when the day after was compared: only then can the day be closed.
#[tokio::test]
async fn a_day_stays_open_while_a_payment_of_its_end_waits() {
    let stage = Stage::of(By::Order, &[Kind::LeftToNextDay]).await;
    let (day, next) = match stage.lines(1, Given::AsToldByStories).is_empty() {
        true => (1, 2),
        false => (0, 1),
    };
    let date = |day| stage.calendar.date(day).to_string();
    run(&stage, &date(day), &[]).await;
    let running = stage.bed.start();
    let closing = || Closing {
        partner: PartnerCode::parse("p").unwrap(),
        day: stage.calendar.date(day),
        author: Author::parse("ann").unwrap(),
    };
    let refused = running.desk.close(closing()).await;
    let Err(DeskError::Refused(problem)) = refused else { panic!("{refused:?}") };
    assert!(problem.contains("1 payments of the end of"), "{problem}");
    running.stop().await.unwrap();
    run(&stage, &date(next), &stage.lines(next, Given::AsToldByStories)).await;
    let running = stage.bed.start();
    running.desk.close(closing()).await.unwrap();
    running.stop().await.unwrap();
}

/// What the lookback does not reach is compared where a line names it, and never missed.
#[tokio::test]
async fn an_order_of_long_ago_is_not_missed() {
    let stage = Stage::of(By::Order, &[Kind::CreatedLongAgo]).await;
    run(&stage, DAY, &[]).await;
    assert_eq!(stage.codes().await, []);
}

/// Payments that nobody gave notice of, whether they were asked about or not.
#[tokio::test]
async fn a_partner_without_notices_is_told_of() {
    for kinds in [[Kind::QueriedOnly; 3], [Kind::SaysPaidOfPending; 3]] {
        let stage = Stage::of(By::Order, &kinds).await;
        let lines = stage.lines(0, Given::AsToldByStories);
        run(&stage, DAY, &lines[1..]).await;
        assert!(!stage.codes().await.contains(&Code::PartnerSilent), "two tell nothing");
        // One that is listed twice is one.
        let twice = [lines.clone(), vec![lines[0].clone()]].concat();
        run(&stage, DAY, &twice).await;
        let standing = stage.bed.standing().await;
        let silent = standing.iter().find(|found| found.code == Code::PartnerSilent).unwrap();
        assert_eq!(silent.partners.value, "3 payments");
    }
}
