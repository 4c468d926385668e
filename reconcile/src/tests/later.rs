//! Changes after a run: orders, the projector's backlog, people's decisions, and closing a day.

use payfold_engines::log::Topic;
use payfold_schemas::decision::{FLAG_DECIDED_TYPE, FlagDecided};
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::{Fact, Verdict};
use payfold_schemas::ids::{Author, PartnerCode};
use payfold_schemas::order::{Flag, OrderState, RaisedFlag, Severity};
use payfold_schemas::record::decode_fact;
use payfold_schemas::time::Time;
use payfold_testing::waits::eventually;

use super::story::MINUTE;
use super::testbed::TestOrder;
use super::*;
use crate::close::CloseDayRequest;
use crate::decide::{FindingDecisionRequest, FlagDecisionRequest, NewDecision};
use crate::service::ServiceError;
use crate::withdraw::{DecisionOn, WithdrawalRequest};

pub(super) const POLL: Duration = Duration::from_millis(5);

pub(super) async fn compared(stage: &TestStage, running: &RunningService) -> RunEnded {
    let lines = stage.lines(0, LineVariant::Original);
    running.service.run(stage.bed.request("2026-02-10", &lines)).await.unwrap()
}

impl TestStage {
    /// Waits until the uncleared findings have these codes and values.
    pub(super) async fn wait_for_uncleared(
        &self,
        expected: &[(Code, &str)],
    ) -> Vec<FindingChanged> {
        eventually(&format!("the uncleared findings are {expected:?}"), async || {
            let uncleared = self.bed.uncleared().await;
            let mut words: Vec<_> =
                uncleared.iter().map(|found| (found.code, found.ours.value.as_str())).collect();
            words.sort_unstable();
            if words == expected { Ok(uncleared) } else { Err(format!("{words:?}")) }
        })
        .await
    }

    /// The first story's order with one more notice, in this state.
    async fn notice(&self, (state, status): (OrderState, Status), minor: i64) -> TestOrder {
        let scene =
            StoryContext { calendar: self.calendar, by: MatchKey::Order, n: 0, dice: self.dice };
        let mut test_order = self.plots[0].orders[0].clone();
        let at = self.plots[0].lines[0].1.at;
        test_order.facts.push(scene.notice(status, minor, at));
        test_order.state = state;
        test_order
    }
}

#[tokio::test]
async fn a_corrected_order_clears_its_findings() {
    for by in [MatchKey::Order, MatchKey::Ref] {
        let stage = TestStage::of(by, &[Kind::SaysPaidOfPending, Kind::RefundNotListed]).await;
        let running = stage.bed.start_over(stage.bed.log.clone(), POLL);
        compared(&stage, &running).await;
        let minor = stage.plots[0].expect[0].at_risk;
        let missing = format!("REFUNDED {minor} {}", stage.plots[1].expect[0].currency.unwrap());
        let kept = (Code::MissingThere, missing.as_str());
        stage.wait_for_uncleared(&[kept, (Code::StatusDiffers, "PENDING")]).await;
        // A FAILED notice makes it another difference.
        let failed = stage.notice((OrderState::Failed, Status::Failed), minor).await;
        stage.bed.put(&[failed]).await;
        let found = stage.wait_for_uncleared(&[kept, (Code::StatusDiffers, "FAILED")]).await;
        let changed = found.iter().find(|found| found.code == Code::StatusDiffers).unwrap();
        assert_eq!((changed.version, &changed.run), (2, &None));
        // The missing notice arrives.
        let paid = stage.notice((OrderState::Paid, Status::Success), minor).await;
        stage.bed.put(&[paid]).await;
        stage.wait_for_uncleared(&[kept]).await;
        // The next run detects nothing.
        let ended = compared(&stage, &running).await;
        assert_eq!((ended.findings.open, ended.findings.opened, ended.findings.cleared), (1, 0, 0));
        running.stop().await.unwrap();
    }
}

/// What is missing at the end of a day is found by the run of the day after. That run's lines say
/// nothing of what the day's own records list.
#[tokio::test]
async fn a_recheck_compares_no_day_with_the_lines_of_another() {
    for listed_after in [false, true] {
        let stage = TestStage::of(MatchKey::Order, &[Kind::Agrees, Kind::SaysPaidOfPending]).await;
        let scene =
            StoryContext { calendar: stage.calendar, by: MatchKey::Order, n: 0, dice: stage.dice };
        let refund = |at: Time| {
            let money = (30, Some(at), "");
            scene.notice_of(&scene.reference(), Status::Refunded, money, at)
        };
        let (last, after) = (stage.calendar.at(0, -2 * MINUTE), stage.calendar.at(1, 7 * HOUR));
        let mut refunded = stage.plots[0].orders[0].clone();
        refunded.facts.push(refund(last));
        let mut lines = Vec::new();
        if listed_after {
            refunded.facts.push(refund(after));
            lines.push(RecordLine { amount: 30, ..scene.line(Status::Refunded, after) }.csv());
        }
        stage.bed.put(std::slice::from_ref(&refunded)).await;
        let running = stage.bed.start_over(stage.bed.log.clone(), POLL);
        compared(&stage, &running).await;
        let ended = running.service.run(stage.bed.request("2026-02-11", &lines)).await.unwrap();
        assert_eq!((ended.findings.open, ended.findings.open_of_other_days), (0, 1));
        let missing = format!("REFUNDED 30 {}", scene.currency());
        let kept = (Code::MissingThere, missing.as_str());
        stage.wait_for_uncleared(&[kept, (Code::StatusDiffers, "PENDING")]).await;
        // The orders change. The second is rechecked after the first.
        stage.bed.change("o0", |_| ()).await;
        let minor = stage.plots[1].expect[0].at_risk;
        let mut paid = stage.plots[1].orders[0].clone();
        let of_second = StoryContext { n: 1, ..scene };
        paid.facts.push(of_second.notice(Status::Success, minor, stage.plots[1].lines[0].1.at));
        paid.state = OrderState::Paid;
        stage.bed.put(&[paid]).await;
        stage.wait_for_uncleared(&[kept]).await;
        running.stop().await.unwrap();
    }
}

/// One of two paid attempts is refunded: nothing is left to do.
#[tokio::test]
async fn a_refunded_attempt_clears_its_finding() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::PaidTwice]).await;
    let running = stage.bed.start_over(stage.bed.log.clone(), POLL);
    compared(&stage, &running).await;
    stage.wait_for_uncleared(&[(Code::ReferencePaidTwice, "paid as o0, o0-2")]).await;
    let mut test_order = stage.plots[0].orders[1].clone();
    test_order.state = OrderState::Refunded;
    stage.bed.put(&[test_order]).await;
    stage.wait_for_uncleared(&[]).await;
    running.stop().await.unwrap();
}

/// Matched by ref, a line of one transaction says nothing about the order's other transactions.
#[tokio::test]
async fn a_recheck_reports_no_transaction_without_a_line_as_missing() {
    let stage = TestStage::of(MatchKey::Ref, &[Kind::AmountChanged, Kind::SaysPaidOfPending]).await;
    let scene =
        StoryContext { calendar: stage.calendar, by: MatchKey::Ref, n: 0, dice: stage.dice };
    let minor = stage.plots[0].moves[0].3;
    let mut test_order = stage.plots[0].orders[0].clone();
    let at = stage.calendar.at(0, 9 * HOUR);
    test_order.facts.push(scene.notice_of("second", Status::Success, (minor, Some(at), ""), at));
    stage.bed.put(std::slice::from_ref(&test_order)).await;
    let running = stage.bed.start_over(stage.bed.log.clone(), POLL);
    let mut lines = stage.lines(0, LineVariant::Original);
    let second = RecordLine { reference: "second".into(), ..scene.line(Status::Success, at) };
    lines.push(second.csv());
    running.service.run(stage.bed.request("2026-02-10", &lines)).await.unwrap();
    let ours = minor.to_string();
    let amount = (Code::AmountDiffers, ours.as_str());
    stage.wait_for_uncleared(&[(Code::StatusDiffers, "PENDING"), amount]).await;
    test_order.facts.push(scene.notice(Status::Failed, minor, at));
    // Orders are rechecked by key: once the second one is cleared, the first one was rechecked.
    let mut second = stage.plots[1].orders[0].clone();
    second.state = OrderState::Paid;
    let scene = StoryContext { n: 1, ..scene };
    second.facts.push(scene.notice(Status::Success, minor, stage.plots[1].lines[0].1.at));
    stage.bed.put(&[test_order, second]).await;
    stage.wait_for_uncleared(&[amount]).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_run_waits_for_the_projector() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::SaysPaidOfPending]).await;
    let paid = (OrderState::Paid, Status::Success);
    let late = stage.notice(paid, stage.plots[0].expect[0].at_risk).await;
    let appended = stage.bed.append(std::slice::from_ref(&late)).await;
    let running = stage.bed.start();
    let service = running.service.clone();
    let request = stage.bed.request("2026-02-10", &stage.lines(0, LineVariant::Original));
    let run = tokio::spawn(async move { service.run(request).await });
    eventually("it waits for the projector", async || {
        let stage = running.service.progress().stage;
        if stage.starts_with("waiting for the projector") { Ok(()) } else { Err(stage) }
    })
    .await;
    assert!(
        running.service.progress().done > 24 * 3_600,
        "the progress says how far behind the projector is"
    );
    assert!(!run.is_finished());
    stage.bed.fold(&[late], &appended).await;
    let ended = run.await.unwrap().unwrap();
    assert_eq!((ended.compared.matched, ended.findings.open), (1, 0));
    running.stop().await.unwrap();
}

pub(super) fn author(name: &str) -> Author {
    Author::parse(name).unwrap()
}

pub(super) fn decision_request(
    finding: &str,
    name: &str,
    accept: Verdict,
) -> FindingDecisionRequest {
    FindingDecisionRequest { finding: finding.into(), decision: new_decision(name, accept) }
}

/// A decision by somebody who does not name the evidence.
pub(super) fn new_decision(name: &str, accept: Verdict) -> NewDecision {
    NewDecision { accept, author: author(name), reason: "seen".into(), evidence: None }
}

pub(super) fn refused<T: std::fmt::Debug>(result: Result<T, ServiceError>) -> String {
    match result {
        Err(ServiceError::Refused(problem)) => problem,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_decision_holds_until_its_evidence_changes() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::AmountChanged, Kind::TimeChanged]).await;
    let running = stage.bed.start();
    let service = &running.service;
    let ended = compared(&stage, &running).await;
    assert_eq!((ended.findings.open, ended.findings.decided), (2, 0));
    let close = |name: &str| CloseDayRequest {
        partner: PartnerCode::parse("p").unwrap(),
        day: "2026-02-10".parse().unwrap(),
        author: author(name),
    };
    assert!(
        refused(service.close(close("ann")).await).contains("2 findings of 2026-02-10 are open")
    );
    let uncleared = stage.bed.uncleared().await;
    let id = |code| uncleared.iter().find(|found| found.code == code).unwrap().finding_id.clone();
    let (amount, time) = (id(Code::AmountDiffers), id(Code::TimeDiffers));
    let said = service
        .decide_finding(decision_request(&time[..8], "ann", Verdict::WriteOff))
        .await
        .unwrap();
    assert!(said.decided && said.what == time);
    let problem =
        refused(service.decide_finding(decision_request(&time, "bob", Verdict::Ours)).await);
    assert!(problem.contains("was decided by ann"), "{problem}");
    // A critical finding takes a second person, who decides the same.
    let said =
        service.decide_finding(decision_request(&amount, "ann", Verdict::Partner)).await.unwrap();
    assert!(!said.decided);
    refused(service.decide_finding(decision_request(&amount, "ann", Verdict::Partner)).await);
    let other =
        service.decide_finding(decision_request(&amount, "bob", Verdict::Ours)).await.unwrap();
    assert_eq!((other.decided, other.replaces.unwrap().said.as_str()), (false, "partner"));
    let again =
        service.decide_finding(decision_request(&amount, "ann", Verdict::Partner)).await.unwrap();
    assert_eq!((again.decided, again.replaces.unwrap().author.as_str()), (false, "bob"));
    assert!(refused(service.close(close("ann")).await).contains("1 findings"));
    let said =
        service.decide_finding(decision_request(&amount, "bob", Verdict::Partner)).await.unwrap();
    assert_eq!((said.decided, said.seconded_by.as_deref()), (true, Some("bob")));
    // A second run leaves them decided.
    let ended = compared(&stage, &running).await;
    assert_eq!((ended.findings.open, ended.findings.decided, ended.findings.opened), (0, 2, 0));
    let closed = service.close(close("ann")).await.unwrap();
    assert_eq!(closed.findings.len(), 2);
    assert!(refused(service.close(close("bob")).await).contains("was closed by ann"));
    assert_eq!(compared(&stage, &running).await.adjusts, None);
    // Another amount in the records: the finding opens again, and the closed day is adjusted.
    let lines: Vec<String> = stage.plots[0]
        .lines
        .iter()
        .map(|(_, line)| RecordLine { amount: line.amount - 1, ..line.clone() }.csv())
        .chain(stage.plots[1].lines.iter().map(|(_, line)| line.csv()))
        .collect();
    let ended = service.run(stage.bed.request("2026-02-10", &lines)).await.unwrap();
    assert_eq!((ended.findings.open, ended.findings.decided), (1, 1));
    assert_eq!(ended.adjusts, Some(closed.seal));
    let found = stage.bed.findings().await;
    assert_eq!((found[&amount].status, &found[&amount].decision), (FindingStatus::Open, &None));
    // A cleared finding keeps no decision for the next time it opens.
    let ended = service
        .run(stage.bed.request("2026-02-10", &stage.lines(0, LineVariant::Corrected)))
        .await
        .unwrap();
    assert_eq!((ended.findings.open, ended.findings.decided, ended.findings.cleared), (0, 0, 2));
    let problem =
        refused(service.decide_finding(decision_request(&amount, "ann", Verdict::Ours)).await);
    assert!(problem.contains("is cleared"), "{problem}");
    refused(service.decide_finding(decision_request("0123456789", "ann", Verdict::Ours)).await);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn changed_findings_alone_adjust_a_closed_day() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::Agrees]).await;
    let running = stage.bed.start();
    compared(&stage, &running).await;
    let (partner, day) = (PartnerCode::parse("p").unwrap(), "2026-02-10".parse().unwrap());
    let closing = CloseDayRequest { partner, day, author: author("ann") };
    let closed = running.service.close(closing).await.unwrap();
    let (_, line) = &stage.plots[0].lines[0];
    let other = RecordLine { reference: "other".into(), ..line.clone() };
    let ended = running.service.run(stage.bed.request("2026-02-10", &[other.csv()])).await.unwrap();
    assert_eq!(ended.totals, closed.totals);
    assert_eq!(ended.adjusts, Some(closed.seal));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_critical_flag_takes_two_people() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::OtherAmountNotified]).await;
    let raise = |flag, severity| RaisedFlag {
        flag,
        severity,
        evidence: Digest::of_bytes(b"evidence"),
        decided_by: None,
    };
    let flags = vec![
        raise(Flag::AmountMismatch, Severity::Critical),
        raise(Flag::SuccessAndFailed, Severity::Warn),
    ];
    stage.bed.flag("o0", flags).await;
    let running = stage.bed.start();
    let decision_request = |flag, name: &str, accept| FlagDecisionRequest {
        order: super::testbed::key_of("o0"),
        flag,
        decision: new_decision(name, accept),
    };
    let service = &running.service;
    let critical =
        |name, accept| service.decide_flag(decision_request(Flag::AmountMismatch, name, accept));
    assert!(!critical("ann", Verdict::Partner).await.unwrap().decided);
    refused(critical("ann", Verdict::Partner).await);
    // Another decision replaces the first one and is withdrawn; then the first one is made again.
    let other = critical("bob", Verdict::Ours).await.unwrap();
    let replaced = other.replaces.expect("it is another decision");
    assert_eq!(
        (other.decided, replaced.author.as_str(), replaced.said.as_str()),
        (false, "ann", "partner")
    );
    let on = || DecisionOn::Flag(super::testbed::key_of("o0"), Flag::AmountMismatch);
    let withdraw =
        |name| WithdrawalRequest { on: on(), author: author(name), reason: "a slip".into() };
    let problem = refused(service.withdraw(withdraw("ann")).await);
    assert!(problem.contains("only bob can withdraw it"), "{problem}");
    assert_eq!(service.withdraw(withdraw("bob")).await.unwrap().said, "ours");
    refused(service.withdraw(withdraw("bob")).await);
    assert!(!critical("ann", Verdict::Partner).await.unwrap().decided);
    let facts = async || {
        let facts = stage.bed.messages(Topic::Intake).await;
        let facts = facts.iter().map(|message| decode_fact(&message.value).unwrap().fact);
        facts.filter(|fact| matches!(fact, Fact::Decided(_))).collect::<Vec<_>>()
    };
    assert_eq!(facts().await, Vec::new());
    let said = critical("bob", Verdict::Partner).await.unwrap();
    assert_eq!((said.decided, said.author.as_str()), (true, "ann"));
    // The decision is final even before it is folded.
    let problem = refused(critical("bob", Verdict::Ours).await);
    assert!(problem.contains("was decided by ann and bob at "), "{problem}");
    refused(service.withdraw(withdraw("ann")).await);
    let warning = decision_request(Flag::SuccessAndFailed, "bob", Verdict::Ours);
    assert!(service.decide_flag(warning).await.unwrap().decided);
    refused(service.decide_flag(decision_request(Flag::DoublePayment, "bob", Verdict::Ours)).await);
    let facts = facts().await;
    let [Fact::Decided(first), Fact::Decided(second)] = facts.as_slice() else {
        panic!("{facts:?}")
    };
    assert_eq!((first.author.as_str(), first.seconded_by.as_ref()), ("ann", Some(&author("bob"))));
    assert_eq!((second.author.as_str(), &second.seconded_by), ("bob", &None));
    let events = stage.bed.messages(Topic::Findings).await;
    let events: Vec<FlagDecided> = events
        .iter()
        .filter(|message| message.event.as_ref().is_some_and(|e| e.kind == FLAG_DECIDED_TYPE))
        .map(|message| serde_json::from_slice(&message.value).unwrap())
        .collect();
    // The events are: first, other, withdrawn, first again, final; and the decision that takes one
    // person.
    assert_eq!(events.len(), 6);
    running.stop().await.unwrap();
}
