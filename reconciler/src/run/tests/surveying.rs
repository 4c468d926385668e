//! Payments of a day asked for one by one, over real engines and a partner on a socket.

use std::path::Path;
use std::time::Duration;

use payfold_engines::log::Topic;
use payfold_schemas::finding::{Code, FINDING_CHANGED_TYPE, FindingChanged, FindingStatus};
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::record::Position;
use payfold_schemas::run::{RUN_ENDED_TYPE, RunEnded, RunResult};
use payfold_schemas::time::Time;

use super::failing::Fault;
use super::partner::Partner;
use super::world::{Running, World, settings};
use crate::books::desk::{Books, Desk, DeskError};
use crate::books::folder::Due;
use crate::books::survey::Survey;
use crate::partners::Confirms;
use crate::run::testkit::at;

const DAY: &str = "2026-01-31";

/// A reconciler that asks and compares, in this folder.
fn start(world: &World, partner: &Partner, folder: &Path) -> (Running, Desk) {
    let partners = partner.partners(Confirms::Never);
    let (mut books, desk) = Books::new(partners.directory.clone(), folder.to_owned());
    books.poll = Duration::from_millis(5);
    (world.start_comparing((Fault::None, settings()), Some(partners), Some(books)), desk)
}

fn survey() -> Survey {
    let partner = PartnerCode::parse("p").unwrap();
    Survey { partner, day: Some(DAY.parse().unwrap()), replace: false }
}

async fn surveyed(world: &World, desk: &Desk) -> Result<RunEnded, DeskError> {
    world.folding_until(desk.survey(survey())).await
}

/// The findings that stand, in short words.
async fn standing(world: &World) -> Vec<String> {
    use payfold_engines::log::EventLog;
    let messages =
        world.log.read_after(Topic::Findings, Position::default(), 10_000).await.unwrap();
    let mut last = std::collections::BTreeMap::new();
    for message in messages {
        if message.event.as_ref().is_some_and(|event| event.kind == FINDING_CHANGED_TYPE) {
            let changed: FindingChanged = serde_json::from_slice(&message.value).unwrap();
            last.insert(changed.finding_id.clone(), changed);
        }
    }
    let standing = last.into_values().filter(|found| found.status != FindingStatus::Cleared);
    let mut words: Vec<String> = standing
        .map(|found| {
            let order = found.order_id.map_or_else(String::new, |order| order.to_string());
            let (ours, theirs) = (found.ours.value, found.partners);
            format!("{} {order} {ours} {} {}", found.code, theirs.value, theirs.source)
        })
        .collect();
    words.sort();
    words
}

/// Until what stands is this.
async fn stands(world: &World, expected: &[String]) {
    let begun = tokio::time::Instant::now();
    while standing(world).await != expected {
        assert!(begun.elapsed() < Duration::from_secs(20), "[time] {:?}", standing(world).await);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// o1 to o3 are paid, o4 waits, o5 never had a session.
async fn day() -> (World, Partner, tempfile::TempDir) {
    let (world, partner) = (World::new(), Partner::start().await);
    let paid = |n| format!("o{n} C 23:00; o{n} O r{n} 22:00; o{n} S r{n}");
    let all = [paid(1), paid(2), paid(3), "o4 C 23:00; o4 O r4 22:00; o5 C 23:00".to_owned()];
    world.append(&all.join("; ")).await;
    world.fold().await;
    world.clock.set(at("12:10"));
    (world, partner, tempfile::tempdir().unwrap())
}

#[tokio::test]
async fn what_a_partner_answers_is_compared_as_lines_are() {
    let (world, partner, folder) = day().await;
    partner.says("r1", "SUCCESS");
    partner.says("r2", "FAILED");
    // Of r3 it knows nothing. r4 was paid, and its notice lost: asking settles it before anything is compared.
    partner.says("r4", "SUCCESS");
    let (running, desk) = start(&world, &partner, folder.path());
    let ended = surveyed(&world, &desk).await.unwrap();
    assert_eq!((ended.result, &ended.problems), (RunResult::Complete, &Vec::new()));
    let mut asked = partner.asked();
    asked.sort();
    assert_eq!(asked, ["o5", "r1", "r2", "r3", "r4"]);
    let records = &ended.records;
    assert_eq!((records.name.as_str(), records.lines, records.entries), ("query", 5, 3));
    assert_eq!((records.ignored, ended.compared.matched), (2, 2));
    assert_eq!(world.answers().await, ["P o4 r4 SUCCESS"]);
    let missing = format!("{} o3 SUCCESS 100 VND nothing query", Code::MissingThere);
    let differs = format!("{} o2 PAID FAILED query", Code::StatusDiffers);
    stands(&world, &[missing.clone(), differs.clone()]).await;
    // The same answers are the same records: nothing is told twice. Another one clears what it was about.
    surveyed(&world, &desk).await.unwrap();
    stands(&world, &[missing, differs.clone()]).await;
    partner.says("r3", "SUCCESS");
    let ended = surveyed(&world, &desk).await.unwrap();
    assert_eq!((ended.findings.open, ended.findings.cleared), (1, 1));
    stands(&world, &[differs]).await;
    running.stop().await.unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "answers are taken away");
}

#[tokio::test]
async fn who_did_not_answer_makes_it_incomplete_and_is_asked_again_alone() {
    let (world, partner, folder) = day().await;
    for paid in ["r1", "r3", "r4"] {
        partner.says(paid, "SUCCESS");
    }
    partner.says("r2", "NONSENSE");
    let (running, desk) = start(&world, &partner, folder.path());
    let ended = surveyed(&world, &desk).await.unwrap();
    assert_eq!(ended.result, RunResult::Incomplete);
    assert!(ended.problems[0].starts_with("1 of 5 payments were not answered (the answer breaks"));
    assert_eq!(standing(&world).await, Vec::<String>::new(), "what is not known is not missing");
    assert_eq!(partner.asked().len(), 5);
    // Killed, and started again: the answers that came are there.
    running.stop().await.unwrap();
    partner.says("r2", "SUCCESS");
    let (running, desk) = start(&world, &partner, folder.path());
    let ended = surveyed(&world, &desk).await.unwrap();
    assert_eq!((ended.result, ended.compared.matched), (RunResult::Complete, 4));
    assert_eq!(partner.asked()[5..], ["r2"]);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn orders_that_share_a_ref_are_asked_for_as_orders() {
    let (world, partner) = (World::new(), Partner::start().await);
    world.append("o1 C 23:00; o1 S r1; o2 C 23:00; o2 S r1; o3 C 23:00; o3 S r3").await;
    let running = world.start();
    world.folding_until(world.found(2)).await;
    running.stop().await.unwrap();
    world.fold().await;
    world.clock.set(at("12:10"));
    for (what, status) in [("o1", "SUCCESS"), ("o2", "FAILED"), ("r3", "SUCCESS")] {
        partner.says(what, status);
    }
    let folder = tempfile::tempdir().unwrap();
    let (running, desk) = start(&world, &partner, folder.path());
    let ended = surveyed(&world, &desk).await.unwrap();
    assert_eq!((ended.result, &ended.problems), (RunResult::Complete, &Vec::new()));
    let mut asked = partner.asked();
    asked.sort();
    assert_eq!(asked, ["o1", "o2", "r3"]);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_partner_that_fails_is_left_alone_after_a_few_questions() {
    let (world, partner) = (World::new(), Partner::start().await);
    let paid = |n: u32| format!("o{n} C 23:00; o{n} S r{n}");
    world.append(&(10..70).map(paid).collect::<Vec<_>>().join("; ")).await;
    world.fold().await;
    world.clock.set(at("12:10"));
    (10..70).for_each(|n| partner.says(&format!("r{n}"), "NONSENSE"));
    let folder = tempfile::tempdir().unwrap();
    let (running, desk) = start(&world, &partner, folder.path());
    let ended = surveyed(&world, &desk).await.unwrap();
    assert_eq!(ended.result, RunResult::Incomplete);
    assert!(ended.problems[0].starts_with("60 of 60 payments"), "{:?}", ended.problems);
    assert!(partner.asked().len() < 60, "{}", partner.asked().len());
    running.stop().await.unwrap();
}

/// How the runs so far have ended.
async fn ends(world: &World) -> Vec<RunResult> {
    use payfold_engines::log::EventLog;
    let messages =
        world.log.read_after(Topic::Findings, Position::default(), 10_000).await.unwrap();
    let ended = messages
        .iter()
        .filter(|message| message.event.as_ref().is_some_and(|event| event.kind == RUN_ENDED_TYPE));
    ended
        .map(|message| serde_json::from_slice::<RunEnded>(&message.value).unwrap().result)
        .collect()
}

/// Until so many runs have ended; and a while longer, in which none more does.
async fn ended(world: &World, expected: &[RunResult]) {
    let begun = tokio::time::Instant::now();
    while ends(world).await != expected {
        assert!(begun.elapsed() < Duration::from_secs(20), "[time] {:?}", ends(world).await);
        world.fold().await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    world.folding_until(tokio::time::sleep(Duration::from_millis(100))).await;
    assert_eq!(ends(world).await, expected);
}

#[tokio::test]
async fn a_day_is_asked_for_once_it_is_due_and_hourly_until_it_is_complete() {
    let (world, partner, folder) = day().await;
    for paid in ["r1", "r3", "r4"] {
        partner.says(paid, "SUCCESS");
    }
    partner.says("r2", "NONSENSE");
    let partners = partner.partners(Confirms::Never);
    let (mut books, _desk) = Books::new(partners.directory.clone(), folder.path().to_owned());
    books.poll = Duration::from_millis(5);
    books.surveyed = vec![(survey().partner, Due::parse("30 0 * * *").unwrap())];
    let running = world.start_comparing((Fault::None, settings()), Some(partners), Some(books));
    let clock = |clock: &str| Time::parse(&format!("2026-02-01T{clock}:00Z")).unwrap();
    world.clock.set(clock("00:29"));
    ended(&world, &[]).await;
    world.clock.set(clock("00:30"));
    ended(&world, &[RunResult::Incomplete]).await;
    partner.says("r2", "SUCCESS");
    world.clock.set(clock("01:29"));
    ended(&world, &[RunResult::Incomplete]).await;
    world.clock.set(clock("01:30"));
    ended(&world, &[RunResult::Incomplete, RunResult::Complete]).await;
    world.clock.set(clock("05:00"));
    ended(&world, &[RunResult::Incomplete, RunResult::Complete]).await;
    let of_books = partner.asked().iter().filter(|asked| *asked == "r1" || *asked == "r2").count();
    assert_eq!(of_books, 3, "{:?}", partner.asked());
    running.stop().await.unwrap();
}

#[tokio::test]
async fn who_can_not_be_asked_is_told_why() {
    let (world, partner, folder) = day().await;
    let (running, desk) = start(&world, &partner, folder.path());
    let refused = async |survey: Survey| match desk.survey(survey).await {
        Err(DeskError::Refused(problem)) => problem,
        other => panic!("{other:?}"),
    };
    let tomorrow = Some("2026-02-01".parse().unwrap());
    assert!(refused(Survey { day: tomorrow, ..survey() }).await.contains("has not begun"));
    let nobody = PartnerCode::parse("q").unwrap();
    let problem = refused(Survey { partner: nobody, ..survey() }).await;
    assert!(problem.contains("there is no account at q"), "{problem}");
    running.stop().await.unwrap();
    // Where no partner is asked at all.
    let partners = partner.partners(Confirms::Never);
    let (books, desk) = Books::new(partners.directory.clone(), folder.path().to_owned());
    let running = world.start_comparing((Fault::None, settings()), None, Some(books));
    let refused = desk.survey(survey()).await;
    assert!(matches!(&refused, Err(DeskError::Refused(p)) if p.contains("can't be asked")));
    running.stop().await.unwrap();
}
