//! The survey of a day: the partner is queried about each payment. Over real engines and a partner
//! on a socket.

use std::path::Path;
use std::time::Duration;

use payfold_engines::log::Topic;
use payfold_reconcile::request::{Replaceable, SurveyRequest};
use payfold_reconcile::service::{ReconcileService, ServiceError};
use payfold_reconcile::setup::{DueSchedule, ReconcileSetup};
use payfold_schemas::finding::{Code, FINDING_CHANGED_TYPE, FindingChanged, FindingStatus};
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::position::Position;
use payfold_schemas::run::{RUN_ENDED_TYPE, RunEnded, RunResult};
use payfold_schemas::time::Time;
use payfold_testing::waits::eventually;

use super::failing::Fault;
use super::partner::Partner;
use super::world::{Running, World, settings};
use crate::partners::UnconfirmedNotices;
use crate::run::testkit::at;

const DAY: &str = "2026-01-31";

/// Starts a reconciler that queries and compares, in this folder.
fn start(world: &World, partner: &Partner, folder: &Path) -> (Running, ReconcileService) {
    let partners = partner.partners(UnconfirmedNotices::Never);
    let mut books = ReconcileSetup::new(partners.directory.clone(), folder.to_owned());
    books.poll = Duration::from_millis(5);
    let (desk, queue) = ReconcileService::open(&books);
    (
        world.start_with_reconciliation(
            (Fault::None, settings()),
            Some(partners),
            Some((books, queue)),
        ),
        desk,
    )
}

fn survey() -> SurveyRequest {
    let partner = PartnerCode::parse("p").unwrap();
    SurveyRequest {
        partner,
        day: Some(DAY.parse().unwrap()),
        replace: Replaceable::No,
        asked: None,
    }
}

async fn run_survey(world: &World, desk: &ReconcileService) -> Result<RunEnded, ServiceError> {
    world.folding_until(desk.survey(survey())).await
}

/// The findings that are not cleared, as short texts.
async fn open_findings(world: &World) -> Vec<String> {
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
    let open = last.into_values().filter(|found| found.status != FindingStatus::Cleared);
    let mut texts: Vec<String> = open
        .map(|found| {
            let order = found.order_id.map_or_else(String::new, |order| order.to_string());
            let (ours, theirs) = (found.ours.value, found.partners);
            format!("{} {order} {ours} {} {}", found.code, theirs.value, theirs.source)
        })
        .collect();
    texts.sort();
    texts
}

/// Waits until these are the findings that are not cleared.
async fn wait_for_findings(world: &World, expected: &[String]) {
    eventually(&format!("the findings are {expected:?}"), async || {
        let found = open_findings(world).await;
        if found == expected { Ok(()) } else { Err(found) }
    })
    .await;
}

/// A day with five orders: o1 to o3 are paid, o4 is pending, o5 never had a session.
async fn set_up_day() -> (World, Partner, tempfile::TempDir) {
    let (world, partner) = (World::new(), Partner::start().await);
    let paid = |n| format!("o{n} create 23:00; o{n} session r{n} 22:00; o{n} success r{n}");
    let all = [
        paid(1),
        paid(2),
        paid(3),
        "o4 create 23:00; o4 session r4 22:00; o5 create 23:00".to_owned(),
    ];
    world.append(&all.join("; ")).await;
    world.fold().await;
    world.clock.set(at("12:10"));
    (world, partner, tempfile::tempdir().unwrap())
}

#[tokio::test]
async fn answers_are_compared_like_lines_of_a_file() {
    let (world, partner, folder) = set_up_day().await;
    partner.set_answer("r1", "SUCCESS");
    partner.set_answer("r2", "FAILED");
    // The partner does not know r3. r4 was paid and its notice was lost: the query settles it
    // before anything is compared.
    partner.set_answer("r4", "SUCCESS");
    let (running, desk) = start(&world, &partner, folder.path());
    let ended = run_survey(&world, &desk).await.unwrap();
    assert_eq!((ended.result, &ended.problems), (RunResult::Complete, &Vec::new()));
    let mut asked = partner.queries();
    asked.sort();
    assert_eq!(asked, ["o5", "r1", "r2", "r3", "r4"]);
    let records = &ended.records;
    assert_eq!((records.name.as_str(), records.lines, records.entries), ("query", 5, 3));
    assert_eq!((records.ignored, ended.compared.matched), (2, 2));
    assert_eq!(world.answers().await, ["QueryAnswered o4 r4 SUCCESS"]);
    let missing = format!("{} o3 SUCCESS 100 VND nothing query", Code::MissingThere);
    let differs = format!("{} o2 PAID FAILED query", Code::StatusDiffers);
    wait_for_findings(&world, &[missing.clone(), differs.clone()]).await;
    // The same answers lead to the same findings, which are not published twice. A different answer
    // clears its finding.
    run_survey(&world, &desk).await.unwrap();
    wait_for_findings(&world, &[missing, differs.clone()]).await;
    partner.set_answer("r3", "SUCCESS");
    let ended = run_survey(&world, &desk).await.unwrap();
    assert_eq!((ended.findings.open, ended.findings.cleared), (1, 1));
    wait_for_findings(&world, &[differs]).await;
    running.stop().await.unwrap();
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "the files of answers are deleted"
    );
}

#[tokio::test]
async fn a_missing_answer_makes_the_survey_incomplete_and_is_requeried_alone() {
    let (world, partner, folder) = set_up_day().await;
    for paid in ["r1", "r3", "r4"] {
        partner.set_answer(paid, "SUCCESS");
    }
    partner.set_answer("r2", "NONSENSE");
    let (running, desk) = start(&world, &partner, folder.path());
    let ended = run_survey(&world, &desk).await.unwrap();
    assert_eq!(ended.result, RunResult::Incomplete);
    assert!(ended.problems[0].starts_with("1 of 5 queries were not answered (the answer breaks"));
    assert_eq!(
        open_findings(&world).await,
        Vec::<String>::new(),
        "a payment without an answer is not missing"
    );
    assert_eq!(partner.queries().len(), 5);
    // The reconciler is restarted: it still has the answers it got.
    running.stop().await.unwrap();
    partner.set_answer("r2", "SUCCESS");
    let (running, desk) = start(&world, &partner, folder.path());
    let ended = run_survey(&world, &desk).await.unwrap();
    assert_eq!((ended.result, ended.compared.matched), (RunResult::Complete, 4));
    assert_eq!(partner.queries()[5..], ["r2"]);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn orders_with_one_ref_are_queried_by_order() {
    let (world, partner) = (World::new(), Partner::start().await);
    world
        .append(
            "o1 create 23:00; o1 success r1; o2 create 23:00; o2 success r1; \
             o3 create 23:00; o3 success r3",
        )
        .await;
    let running = world.start();
    world.folding_until(world.wait_for_facts(2)).await;
    running.stop().await.unwrap();
    world.fold().await;
    world.clock.set(at("12:10"));
    for (what, status) in [("o1", "SUCCESS"), ("o2", "FAILED"), ("r3", "SUCCESS")] {
        partner.set_answer(what, status);
    }
    let folder = tempfile::tempdir().unwrap();
    let (running, desk) = start(&world, &partner, folder.path());
    let ended = run_survey(&world, &desk).await.unwrap();
    assert_eq!((ended.result, &ended.problems), (RunResult::Complete, &Vec::new()));
    let mut asked = partner.queries();
    asked.sort();
    assert_eq!(asked, ["o1", "o2", "r3"]);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_failing_partner_is_not_queried_further_after_a_few_queries() {
    let (world, partner) = (World::new(), Partner::start().await);
    let paid = |n: u32| format!("o{n} create 23:00; o{n} success r{n}");
    world.append(&(10..70).map(paid).collect::<Vec<_>>().join("; ")).await;
    world.fold().await;
    world.clock.set(at("12:10"));
    (10..70).for_each(|n| partner.set_answer(&format!("r{n}"), "NONSENSE"));
    let folder = tempfile::tempdir().unwrap();
    let (running, desk) = start(&world, &partner, folder.path());
    let ended = run_survey(&world, &desk).await.unwrap();
    assert_eq!(ended.result, RunResult::Incomplete);
    assert!(ended.problems[0].starts_with("60 of 60 queries"), "{:?}", ended.problems);
    assert!(partner.queries().len() < 60, "{}", partner.queries().len());
    running.stop().await.unwrap();
}

/// The results of the runs so far.
async fn results(world: &World) -> Vec<RunResult> {
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

/// Waits until the runs have these results, and checks that no further run ends soon after.
async fn wait_for_results(world: &World, expected: &[RunResult]) {
    eventually(&format!("the results are {expected:?}"), async || {
        world.fold().await;
        let results = results(world).await;
        if results == expected { Ok(()) } else { Err(results) }
    })
    .await;
    world.folding_until(tokio::time::sleep(Duration::from_millis(100))).await;
    assert_eq!(results(world).await, expected);
}

#[tokio::test]
async fn a_day_is_surveyed_when_it_is_due_and_hourly_until_it_is_complete() {
    let (world, partner, folder) = set_up_day().await;
    for paid in ["r1", "r3", "r4"] {
        partner.set_answer(paid, "SUCCESS");
    }
    partner.set_answer("r2", "NONSENSE");
    let partners = partner.partners(UnconfirmedNotices::Never);
    let mut books = ReconcileSetup::new(partners.directory.clone(), folder.path().to_owned());
    books.poll = Duration::from_millis(5);
    books.surveyed = vec![(survey().partner, DueSchedule::parse("30 0 * * *").unwrap())];
    let (_desk, queue) = ReconcileService::open(&books);
    let books = Some((books, queue));
    let running = world.start_with_reconciliation((Fault::None, settings()), Some(partners), books);
    let clock = |clock: &str| Time::parse(&format!("2026-02-01T{clock}:00Z")).unwrap();
    world.clock.set(clock("00:29"));
    wait_for_results(&world, &[]).await;
    world.clock.set(clock("00:30"));
    wait_for_results(&world, &[RunResult::Incomplete]).await;
    partner.set_answer("r2", "SUCCESS");
    world.clock.set(clock("01:29"));
    wait_for_results(&world, &[RunResult::Incomplete]).await;
    world.clock.set(clock("01:30"));
    wait_for_results(&world, &[RunResult::Incomplete, RunResult::Complete]).await;
    world.clock.set(clock("05:00"));
    wait_for_results(&world, &[RunResult::Incomplete, RunResult::Complete]).await;
    let count = partner.queries().iter().filter(|asked| *asked == "r1" || *asked == "r2").count();
    assert_eq!(count, 3, "{:?}", partner.queries());
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_survey_that_is_not_possible_is_refused_with_a_reason() {
    let (world, partner, folder) = set_up_day().await;
    let (running, desk) = start(&world, &partner, folder.path());
    let refused = async |survey: SurveyRequest| match desk.survey(survey).await {
        Err(ServiceError::Refused(problem)) => problem,
        other => panic!("{other:?}"),
    };
    let tomorrow = Some("2026-02-01".parse().unwrap());
    assert!(refused(SurveyRequest { day: tomorrow, ..survey() }).await.contains("has not begun"));
    let unknown = PartnerCode::parse("q").unwrap();
    let problem = refused(SurveyRequest { partner: unknown, ..survey() }).await;
    assert!(problem.contains("there is no account at q"), "{problem}");
    running.stop().await.unwrap();
    // The reconciler queries no partner at all.
    let partners = partner.partners(UnconfirmedNotices::Never);
    let books = ReconcileSetup::new(partners.directory.clone(), folder.path().to_owned());
    let (desk, queue) = ReconcileService::open(&books);
    let running =
        world.start_with_reconciliation((Fault::None, settings()), None, Some((books, queue)));
    let refused = desk.survey(survey()).await;
    assert!(matches!(&refused, Err(ServiceError::Refused(p)) if p.contains("can't be asked")));
    running.stop().await.unwrap();
}
