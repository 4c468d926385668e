//! Unusual records: files that are empty, broken, huge, replaced or compared too early; profiles
//! and accounts that are missing or change.

use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::{Author, PartnerCode};
use payfold_schemas::ipn::IpnPolicy;
use payfold_schemas::order::{Known, KnownIpn, OrderState};
use payfold_schemas::position::Position;

use super::rows::{ipn, known_ipn};
use super::*;
use crate::close::CloseDayRequest;
use crate::request::{RecordsSource, Replaceable, RunRequest};
use crate::service::ServiceError;

const DAY: &str = "2026-02-10";

async fn run(stage: &TestStage, day: &str, lines: &[String]) -> RunEnded {
    stage.bed.run(day, lines).await.unwrap()
}

impl TestStage {
    async fn codes(&self) -> Vec<Code> {
        let mut codes: Vec<Code> = self.bed.uncleared().await.iter().map(|f| f.code).collect();
        codes.sort_unstable();
        codes
    }

    async fn run_bytes(&self, bytes: &[u8]) -> RunEnded {
        let request = self.bed.request(DAY, &[]);
        let RecordsSource::File(path) = &request.source else { panic!("a file") };
        std::fs::write(path, bytes).unwrap();
        let running = self.bed.start();
        let ended = running.service.run(request).await.unwrap();
        running.stop().await.unwrap();
        ended
    }

    async fn refused(&self, day: &str) -> String {
        match self.bed.run(day, &[]).await {
            Err(ServiceError::Refused(problem)) => problem,
            other => panic!("{other:?}"),
        }
    }
}

/// A notice of SUCCESS that no query has confirmed: anybody can send it.
fn unconfirmed(reference: &str) -> Known<KnownIpn> {
    let policy = IpnPolicy { unconfirmed: true, ..IpnPolicy::default() };
    let content = KnownIpn { policy, ..known_ipn(&ipn(reference)) };
    Known { content, position: Position::default() }
}

#[tokio::test]
async fn an_unconfirmed_notice_takes_no_line_from_the_order_that_was_paid() {
    let stage = TestStage::of(MatchKey::Ref, &[Kind::Agrees]).await;
    let mut forged = stage.plots[0].orders[0].clone();
    (forged.id, forged.state) = ("0".to_owned(), OrderState::Unmatched);
    forged.facts.retain(|(_, fact)| matches!(fact, Fact::Ipn(_)));
    for (_, fact) in &mut forged.facts {
        let Fact::Ipn(ipn) = fact else { panic!("a notice") };
        ipn.policy.unconfirmed = true;
    }
    assert!(!forged.facts.is_empty());
    stage.bed.put(&[forged]).await;
    let lines = stage.lines(0, LineVariant::Original);
    let unnamed: Vec<_> =
        lines.iter().map(|line| format!(",{}", line.split_once(',').unwrap().1)).collect();
    let ended = run(&stage, DAY, &unnamed).await;
    assert_eq!((ended.result, stage.codes().await), (RunResult::Complete, Vec::new()));
}

#[tokio::test]
async fn an_empty_day_misses_all_payments_and_an_empty_file_misses_none() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::Agrees, Kind::RefundNotListed]).await;
    let ended = stage.run_bytes(b"").await;
    assert_eq!((ended.result, ended.findings.opened), (RunResult::Incomplete, 0));
    assert!(ended.problems[0].contains("the file is empty"), "{:?}", ended.problems);
    let ended = run(&stage, DAY, &[]).await;
    assert_eq!((ended.result, ended.findings.open), (RunResult::Complete, 3));
    assert_eq!(stage.codes().await, [Code::MissingThere; 3]);
    let totals: i64 = ended.totals.iter().map(|total| total.partners.amount).sum();
    assert_eq!(totals, 0);
}

/// A line that can't be parsed may be the missing one, so the payment is neither found missing nor
/// cleared.
#[tokio::test]
async fn an_incomplete_run_concludes_nothing_from_missing_lines() {
    let stage =
        TestStage::of(MatchKey::Order, &[Kind::Agrees, Kind::AmountChanged, Kind::LineDropped])
            .await;
    let lines = stage.lines(0, LineVariant::Original);
    let garbled = |line: &String| line.replace(",SUCCESS,", ",SUCCESS?,");
    let all_bad: Vec<String> = lines.iter().map(garbled).collect();
    let ended = run(&stage, DAY, &all_bad).await;
    assert_eq!((ended.result, ended.records.bad), (RunResult::Incomplete, 2));
    assert_eq!(ended.records.bad_lines[1].line, 3);
    assert_eq!(stage.codes().await, []);
    // The lines that can be parsed are compared.
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
    // A line that a finding waited for clears it, even in an incomplete run.
    let mended = [stage.lines(0, LineVariant::Corrected), vec!["nonsense".to_owned()]].concat();
    let ended = run(&stage, DAY, &mended).await;
    assert_eq!(
        (ended.result, stage.codes().await),
        (RunResult::Incomplete, vec![Code::AmountDiffers])
    );
    // The lines of a file that is cut off are not compared.
    let cut = stage.run_bytes(b"order,ref,kind,amount,currency,at,event\no0,r0,SUCC").await;
    assert_eq!((cut.result, cut.compared.orders), (RunResult::Incomplete, 0));
}

#[tokio::test]
async fn too_many_lines_of_one_order_make_the_run_incomplete() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::Agrees]).await;
    let line = stage.lines(0, LineVariant::Original).remove(0);
    let ended = run(&stage, DAY, &vec![line; 5_000]).await;
    assert_eq!(ended.result, RunResult::Incomplete);
    assert!(ended.problems[0].contains("904 of them are not compared"), "{:?}", ended.problems);
    let uncleared = stage.bed.uncleared().await;
    let actual: Vec<_> = uncleared.iter().map(|f| (f.code, f.partners.value.as_str())).collect();
    assert_eq!(actual, [(Code::DuplicatedThere, "4096 times")]);
    assert!(uncleared[0].lines.len() <= 16);
}

#[tokio::test]
async fn a_refused_run_reports_the_reason() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::Agrees]).await;
    assert!(stage.refused("2026-02-14").await.contains("has not begun"));
    stage.bed.set_partner("", &["M"]);
    assert!(stage.refused(DAY).await.contains("[records]"));
    stage.bed.set_partner(&records("UTC", "order"), &[]);
    assert!(stage.refused(DAY).await.contains("there is no account at p"));
    assert_eq!(stage.bed.changes().await, []);
    // With a second account each line has to name its account.
    stage.bed.set_partner(&records("UTC", "order"), &["M", "N"]);
    let ended = run(&stage, DAY, &stage.lines(0, LineVariant::Original)).await;
    assert_eq!((ended.result, ended.records.bad), (RunResult::Incomplete, 1));
    assert!(ended.records.bad_lines[0].problem.contains("the line names no account"));
    assert_eq!(stage.codes().await, []);
}

#[tokio::test]
async fn a_changed_profile_detects_the_same_findings() {
    let kinds = [Kind::Agrees, Kind::AmountChanged, Kind::LineDropped, Kind::TimeChanged];
    let stage = TestStage::of(MatchKey::Order, &kinds).await;
    let lines = stage.lines(0, LineVariant::Original);
    run(&stage, DAY, &lines).await;
    let before = stage.bed.findings().await;
    stage.bed.set_partner(&records("Asia/Ho_Chi_Minh", "ref"), &["M"]);
    let ended = run(&stage, DAY, &lines).await;
    assert_eq!((ended.findings.opened, ended.findings.cleared), (0, 0));
    assert_eq!(stage.bed.findings().await, before);
}

/// A payment at the day's end that the next day's records list is missing again once those are
/// replaced by records without it.
#[tokio::test]
async fn replaced_records_no_longer_list_a_payment() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::LeftToNextDay]).await;
    let (day, next) = match stage.lines(1, LineVariant::Original).is_empty() {
        true => (1, 2),
        false => (0, 1),
    };
    let date = |day| stage.calendar.date(day).to_string();
    let lines = stage.lines(next, LineVariant::Original);
    run(&stage, &date(day), &[]).await;
    assert_eq!(stage.codes().await, [Code::CutOff]);
    run(&stage, &date(next), &lines).await;
    assert_eq!(stage.codes().await, []);
    run(&stage, &date(day), &[]).await;
    assert_eq!(stage.codes().await, [], "the next day lists it");
    run(&stage, &date(next), &[]).await;
    assert_eq!(stage.codes().await, [Code::MissingThere]);
    run(&stage, &date(day), &[]).await;
    assert_eq!(stage.codes().await, [Code::MissingThere]);
    run(&stage, &date(next), &lines).await;
    assert_eq!(stage.codes().await, []);
    // The day's own records may list it in the end.
    run(&stage, &date(next), &[]).await;
    run(&stage, &date(day), &lines).await;
    assert_eq!(stage.codes().await, []);
}

/// Days compared in the wrong order.
#[tokio::test]
async fn the_day_after_may_come_first() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::ListedEarly]).await;
    let (day, next) = match stage.lines(0, LineVariant::Original).is_empty() {
        true => (1, 2),
        false => (0, 1),
    };
    let date = |day| stage.calendar.date(day).to_string();
    run(&stage, &date(next), &[]).await;
    assert_eq!(stage.codes().await, [Code::MissingThere]);
    run(&stage, &date(day), &stage.lines(day, LineVariant::Original)).await;
    assert_eq!(stage.codes().await, []);
    run(&stage, &date(next), &[]).await;
    assert_eq!(stage.codes().await, []);
    // Once the next day no longer lists it, it is missing again.
    run(&stage, &date(day), &[]).await;
    run(&stage, &date(next), &[]).await;
    assert_eq!(stage.codes().await, [Code::MissingThere]);
}

/// A transaction in two days' records: both agree with ours, and on the wrong day it is a double.
#[tokio::test]
async fn a_payment_listed_on_two_days_is_a_finding() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::Agrees]).await;
    let lines = stage.lines(0, LineVariant::Original);
    run(&stage, DAY, &lines).await;
    run(&stage, "2026-02-12", &lines).await;
    let found = stage.bed.uncleared().await;
    let said: Vec<_> =
        found.iter().map(|f| (f.code, f.day.as_str(), f.partners.value.as_str())).collect();
    let doubled = "2 times, also in the records of 2026-02-10";
    assert_eq!(said, [(Code::DuplicatedThere, "2026-02-12", doubled)]);
}

/// Two days' records with two amounts of one payment make two findings, and one of a double.
/// Each stays until its own day's records are corrected.
#[tokio::test]
async fn findings_of_one_payment_on_two_days_do_not_replace_each_other() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::AmountChanged]).await;
    let next = "2026-02-11";
    let (_, line) = &stage.plots[0].lines[0];
    let lines = stage.lines(0, LineVariant::Original);
    let later = vec![RecordLine { amount: 2 * line.amount, ..line.clone() }.csv()];
    run(&stage, DAY, &lines).await;
    run(&stage, next, &later).await;
    let uncleared = stage.bed.uncleared().await;
    let mut actual: Vec<_> =
        uncleared.iter().map(|f| (f.code, f.day.as_str(), f.partners.value.clone())).collect();
    actual.sort_unstable();
    let differs = |day, amount: i64| (Code::AmountDiffers, day, amount.to_string());
    let doubled = (Code::DuplicatedThere, next, format!("2 times, also in the records of {DAY}"));
    assert_eq!(actual, [differs(DAY, line.amount), differs(next, 2 * line.amount), doubled]);
    let before = stage.bed.changes().await;
    for (day, lines) in [(DAY, &lines), (next, &later), (DAY, &lines), (next, &later)] {
        run(&stage, day, lines).await;
    }
    assert_eq!(stage.bed.changes().await[before.len()..], [], "a repeated run published changes");
    run(&stage, DAY, &stage.lines(0, LineVariant::Corrected)).await;
    run(&stage, next, &later).await;
    let uncleared = stage.bed.uncleared().await;
    assert_eq!(uncleared.len(), 2);
    for found in uncleared {
        assert_eq!((found.day.as_str(), found.version), (next, 1), "{}", found.code);
    }
}

/// Payments that only the first file of a day lists would be missing in a second one.
#[tokio::test]
async fn a_second_file_of_a_day_needs_replace() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::Agrees, Kind::AmountChanged]).await;
    let running = stage.bed.start();
    let lines = stage.lines(0, LineVariant::Original);
    let part = |name: &str, lines: &[String]| RunRequest {
        name: name.to_owned(),
        ..stage.bed.request(DAY, lines)
    };
    let garbled = lines[0].replace(",SUCCESS,", ",SUCCESS?,");
    running.service.run(part("broken.csv", &[garbled])).await.unwrap();
    running.service.run(part("a.csv", &lines)).await.expect("an incomplete run has no place");
    let before = stage.bed.changes().await;
    let refused = running.service.run(part("b.csv", &lines[1..])).await;
    let Err(ServiceError::Refused(problem)) = refused else { panic!("{refused:?}") };
    assert!(problem.contains("compared with a.csv before. b.csv would replace it"), "{problem}");
    assert_eq!(stage.bed.changes().await, before);
    let same = running.service.run(part("copy.csv", &lines)).await.expect("it is the same");
    let seen =
        |sha256| RunRequest { replace: Replaceable::Only(sha256), ..part("b.csv", &lines[1..]) };
    let other = running.service.run(seen(Digest::of_bytes(b"another"))).await;
    assert!(matches!(other, Err(ServiceError::Refused(_))), "it is not what was seen: {other:?}");
    running.service.run(seen(same.records.sha256)).await.expect("it is what was seen");
    running.service.run(part("b.csv", &lines[1..])).await.expect("it has replaced the first");
    let replacing = RunRequest { replace: Replaceable::Any, ..part("c.csv", &lines[1..]) };
    running.service.run(replacing).await.unwrap();
    assert_eq!(stage.codes().await, [Code::MissingThere, Code::AmountDiffers]);
    running.stop().await.unwrap();
}

/// Whether an unlisted payment at the day's end is missing is known once the next day is compared.
/// Only then can the day be closed.
#[tokio::test]
async fn a_day_with_an_open_cut_off_can_not_be_closed() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::LeftToNextDay]).await;
    let (day, next) = match stage.lines(1, LineVariant::Original).is_empty() {
        true => (1, 2),
        false => (0, 1),
    };
    let date = |day| stage.calendar.date(day).to_string();
    run(&stage, &date(day), &[]).await;
    let running = stage.bed.start();
    let closing = || CloseDayRequest {
        partner: PartnerCode::parse("p").unwrap(),
        day: stage.calendar.date(day),
        author: Author::parse("ann").unwrap(),
    };
    let refused = running.service.close(closing()).await;
    let Err(ServiceError::Refused(problem)) = refused else { panic!("{refused:?}") };
    assert!(problem.contains("1 payments at the end of"), "{problem}");
    running.stop().await.unwrap();
    run(&stage, &date(next), &stage.lines(next, LineVariant::Original)).await;
    let running = stage.bed.start();
    running.service.close(closing()).await.unwrap();
    running.stop().await.unwrap();
}

/// An order created before the lookback is compared if a line names it, and never missing.
#[tokio::test]
async fn an_order_before_the_lookback_is_never_missing() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::CreatedLongAgo]).await;
    run(&stage, DAY, &[]).await;
    assert_eq!(stage.codes().await, []);
}

/// Payments without a notice, whether a query answered for them or not.
#[tokio::test]
async fn a_partner_without_notices_is_a_finding() {
    for (kinds, is_forged) in [
        ([Kind::QueriedOnly; 3], false),
        ([Kind::QueriedOnly; 3], true),
        ([Kind::SaysPaidOfPending; 3], false),
    ] {
        let stage = TestStage::of(MatchKey::Order, &kinds).await;
        // A notice that no query has confirmed is no notice of the partner's.
        for order in stage.plots.iter().flat_map(|plot| &plot.orders).filter(|_| is_forged) {
            let forged = unconfirmed(&order.id);
            stage.bed.change(&order.id, |row| row.facts.ipns.push(forged)).await;
        }
        let lines = stage.lines(0, LineVariant::Original);
        run(&stage, DAY, &lines[1..]).await;
        assert!(!stage.codes().await.contains(&Code::PartnerSilent), "two payments are too few");
        // A payment that is listed twice counts once.
        let twice = [lines.clone(), vec![lines[0].clone()]].concat();
        run(&stage, DAY, &twice).await;
        let uncleared = stage.bed.uncleared().await;
        let silent = uncleared.iter().find(|found| found.code == Code::PartnerSilent).unwrap();
        assert_eq!(silent.partners.value, "3 payments");
    }
}
