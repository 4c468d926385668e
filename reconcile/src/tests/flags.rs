//! Open flags of a day's orders are findings of that day.

use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Verdict;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::order::{Flag, OrderState, RaisedFlag, Severity};
use payfold_testing::waits::eventually;

use super::later::{POLL, author, compared, decision_request, new_decision, refused};
use super::*;
use crate::close::CloseDayRequest;
use crate::decide::{FindingDecisionRequest, FlagDecisionRequest, NewDecision};
use crate::withdraw::{DecisionOn, WithdrawalRequest};

const DAY: &str = "2026-02-10";

fn raised(flag: Flag, severity: Severity) -> RaisedFlag {
    RaisedFlag { flag, severity, evidence: Digest::of_bytes(b"evidence"), decided_by: None }
}

fn paid_twice() -> Vec<RaisedFlag> {
    vec![raised(Flag::DoublePayment, Severity::Critical)]
}

fn decided() -> Vec<RaisedFlag> {
    let decided_by = Some("some decision".to_owned());
    paid_twice()
        .into_iter()
        .map(|flag| RaisedFlag { decided_by: decided_by.clone(), ..flag })
        .collect()
}

fn closing() -> CloseDayRequest {
    CloseDayRequest {
        partner: PartnerCode::parse("p").unwrap(),
        day: DAY.parse().unwrap(),
        author: author("ann"),
    }
}

#[tokio::test]
async fn a_day_with_an_open_flag_has_an_open_finding() {
    for by in [MatchKey::Order, MatchKey::Ref] {
        let stage = TestStage::of(by, &[Kind::Agrees, Kind::Agrees, Kind::CreatedLongAgo]).await;
        stage.bed.flag("o0", paid_twice()).await;
        stage.bed.flag("o1", vec![raised(Flag::SuccessAndFailed, Severity::Warn)]).await;
        // The order is before the lookback, so only its line leads to it.
        stage.bed.flag("o2", vec![raised(Flag::PartialRefund, Severity::High)]).await;
        let running = stage.bed.start();
        let ended = compared(&stage, &running).await;
        assert_eq!((ended.findings.open, ended.findings.opened), (2, 2));
        let uncleared = stage.bed.uncleared().await;
        let mut actual: Vec<_> =
            uncleared.iter().map(|found| (found.flag, found.severity, found.code)).collect();
        actual.sort_unstable();
        let expected = [
            (Some(Flag::DoublePayment), Severity::Critical, Code::OpenFlag),
            (Some(Flag::PartialRefund), Severity::High, Code::OpenFlag),
        ];
        assert_eq!(actual, expected);
        // The gauges are set by the time the run is answered, or right after.
        let counted = || running.gauge("payfold_reconciler_flags_open");
        eventually("flags are counted", async || counted().pop_first().ok_or("none")).await;
        let labels = |flag: &str, severity: &str| vec![flag.to_owned(), severity.to_owned()];
        let expected =
            [(labels("DOUBLE_PAYMENT", "critical"), 1.0), (labels("PARTIAL_REFUND", "high"), 1.0)];
        assert_eq!(counted(), BTreeMap::from(expected));
        let problem = refused(running.service.close(closing()).await);
        assert!(problem.contains("2 findings of 2026-02-10 are open"), "{problem}");
        // The next day's run does not detect them again, and the same run publishes nothing.
        let next = running.service.run(stage.bed.request("2026-02-11", &[])).await.unwrap();
        assert_eq!((next.findings.open, next.findings.opened), (0, 0));
        let again = compared(&stage, &running).await;
        assert_eq!((again.findings.open, again.findings.opened), (2, 0));
        assert_eq!(stage.bed.uncleared().await, uncleared);
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn deciding_the_flag_or_its_finding_decides_both() {
    for by_finding in [true, false] {
        let stage = TestStage::of(MatchKey::Order, &[Kind::Agrees]).await;
        stage.bed.flag("o0", paid_twice()).await;
        let running = stage.bed.start();
        compared(&stage, &running).await;
        let id = stage.bed.uncleared().await[0].finding_id.clone();
        let service = &running.service;
        let decide = async |name: &str| match by_finding {
            true => service.decide_finding(decision_request(&id, name, Verdict::Ours)).await,
            false => {
                let (order, flag) = (super::testbed::key_of("o0"), Flag::DoublePayment);
                let decision = new_decision(name, Verdict::Ours);
                service.decide_flag(FlagDecisionRequest { order, flag, decision }).await
            }
        };
        assert!(!decide("ann").await.unwrap().decided, "a critical flag takes two people");
        let waits = stage.bed.uncleared().await.remove(0);
        assert_eq!((waits.status, waits.decision.is_some()), (FindingStatus::Open, true));
        refused(decide("ann").await);
        assert!(decide("bob").await.unwrap().decided);
        let found = stage.bed.findings().await[&id].clone();
        let said = found.decision.clone().unwrap();
        assert_eq!(found.status, FindingStatus::Decided);
        assert_eq!((said.author, said.seconded_by), (author("ann"), Some(author("bob"))));
        // Once the decision is folded, a run leaves the finding decided, and the day can be closed.
        stage.bed.flag("o0", decided()).await;
        let ended = compared(&stage, &running).await;
        assert_eq!(
            (ended.findings.open, ended.findings.decided, ended.findings.cleared),
            (0, 1, 0)
        );
        assert_eq!(stage.bed.findings().await[&id], found);
        service.close(closing()).await.unwrap();
        // New evidence opens the flag and its finding again.
        let evidence = Digest::of_bytes(b"other evidence");
        let flags = paid_twice().into_iter().map(|flag| RaisedFlag { evidence, ..flag });
        stage.bed.flag("o0", flags.collect()).await;
        assert_eq!(compared(&stage, &running).await.findings.open, 1);
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_flag_that_clears_or_is_decided_in_its_order_changes_its_finding() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::Agrees, Kind::Agrees]).await;
    stage.bed.flag("o0", paid_twice()).await;
    stage.bed.flag("o1", paid_twice()).await;
    let running = stage.bed.start_over(stage.bed.log.clone(), POLL);
    compared(&stage, &running).await;
    let flag = (Code::OpenFlag, "DOUBLE_PAYMENT");
    stage.wait_for_uncleared(&[flag, flag]).await;
    stage.bed.flag("o0", Vec::new()).await;
    stage.wait_for_uncleared(&[flag]).await;
    assert_eq!(compared(&stage, &running).await.findings.open, 1);
    running.stop().await.unwrap();
}

/// A flag raised after the last run keeps the day from being closed.
#[tokio::test]
async fn a_flag_since_the_last_run_prevents_closing() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::Agrees]).await;
    let running = stage.bed.start();
    assert_eq!(compared(&stage, &running).await.findings.open, 0);
    stage.bed.flag("o0", paid_twice()).await;
    let problem = refused(running.service.close(closing()).await);
    assert!(problem.contains("1 flags of orders of 2026-02-10 were raised after"), "{problem}");
    stage.bed.flag("o0", Vec::new()).await;
    running.service.close(closing()).await.unwrap();
    running.stop().await.unwrap();
}

/// The difference and the flag of one order together put at risk the larger of both.
#[tokio::test]
async fn money_of_one_order_is_at_risk_once() {
    for by in [MatchKey::Order, MatchKey::Ref] {
        let stage = TestStage::of(by, &[Kind::AmountChanged]).await;
        stage
            .bed
            .change("o0", |row| {
                row.summary.flags = paid_twice();
                row.summary.overpaid = 50;
            })
            .await;
        let running = stage.bed.start_over(stage.bed.log.clone(), POLL);
        compared(&stage, &running).await;
        let at_risk = async || -> Vec<(Code, i64)> {
            let uncleared = stage.bed.uncleared().await;
            let mut actual: Vec<_> =
                uncleared.iter().map(|found| (found.code, found.money_at_risk)).collect();
            actual.sort_unstable();
            actual
        };
        assert_eq!(at_risk().await, [(Code::AmountDiffers, 7), (Code::OpenFlag, 43)]);
        // A corrected file leaves all of it to the flag.
        let mended = stage.bed.request(DAY, &stage.lines(0, LineVariant::Corrected));
        running.service.run(mended).await.unwrap();
        assert_eq!(at_risk().await, [(Code::OpenFlag, 50)]);
        running.stop().await.unwrap();
    }
}

/// The day of a flag is the one on which money last moved on its order, so the flag moves with it.
#[tokio::test]
async fn a_flag_moves_to_the_day_of_the_latest_money_movement() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::Agrees]).await;
    stage.bed.flag("o0", paid_twice()).await;
    let running = stage.bed.start();
    compared(&stage, &running).await;
    running.stop().await.unwrap();
    let scene =
        StoryContext { calendar: stage.calendar, by: MatchKey::Order, n: 0, dice: stage.dice };
    let mut order = stage.plots[0].orders[0].clone();
    order.facts.push(scene.notice(Status::Refunded, 10, stage.calendar.at(1, 9 * HOUR)));
    order.state = OrderState::Paid;
    stage.bed.put(&[order]).await;
    stage.bed.flag("o0", paid_twice()).await;
    let running = stage.bed.start_over(stage.bed.log.clone(), POLL);
    let days = async || -> Vec<String> {
        stage.bed.uncleared().await.into_iter().map(|found| found.day).collect()
    };
    eventually("the flag has left its first day", async || {
        let days = days().await;
        if days.iter().any(|day| day == DAY) { Err(days) } else { Ok(()) }
    })
    .await;
    assert_eq!(days().await, ["2026-02-11"]);
    assert_eq!(compared(&stage, &running).await.findings.open, 0);
    let next = stage.bed.request("2026-02-11", &[]);
    let ended = running.service.run(next).await.unwrap();
    assert!(ended.findings.open >= 1, "its refund is not listed there, and its flag is open");
    let flags = stage.bed.uncleared().await;
    assert_eq!(flags.iter().filter(|found| found.code == Code::OpenFlag).count(), 1);
    running.stop().await.unwrap();
}

#[test]
fn two_processes_give_a_flag_one_id_in_any_order_of_days() {
    check_worlds(15, async |world: &World| {
        let found = async |backwards: bool| {
            let stage = TestStage::set(world).await;
            let orders = stage.plots.iter().flat_map(|plot| &plot.orders);
            for order in orders.step_by(2) {
                stage.bed.flag(&order.id, paid_twice()).await;
            }
            let (one, other) = (stage.bed.start(), stage.bed.start_late(8_000));
            for turn in 0..DAYS {
                let day = if backwards { DAYS - 1 - turn } else { turn };
                let lines = stage.lines(day, LineVariant::Original);
                let request = || stage.bed.request(&stage.calendar.date(day).to_string(), &lines);
                let (a, b) = tokio::join!(one.service.run(request()), other.service.run(request()));
                assert_eq!(a.unwrap().totals, b.unwrap().totals);
            }
            one.stop().await.unwrap();
            other.stop().await.unwrap();
            // This fails if one event has two contents.
            let findings = stage.bed.findings().await.into_values();
            let flags = findings.filter(|found| found.code == Code::OpenFlag);
            flags.map(|found| (found.finding_id, found.day)).collect::<Vec<_>>()
        };
        assert_eq!(found(false).await, found(true).await);
    });
}

#[tokio::test]
async fn only_the_evidence_that_its_author_saw_is_decided() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::AmountChanged]).await;
    let raised = RaisedFlag {
        flag: Flag::AmountMismatch,
        severity: Severity::Critical,
        evidence: Digest::of_bytes(b"evidence"),
        decided_by: None,
    };
    stage.bed.flag("o0", vec![raised.clone()]).await;
    let running = stage.bed.start();
    let service = &running.service;
    compared(&stage, &running).await;
    let found = stage.bed.uncleared().await;
    let found = found.iter().find(|found| found.code == Code::AmountDiffers).unwrap();
    let seen = |evidence| {
        let evidence = Some(evidence);
        NewDecision { evidence, ..new_decision("ann", Verdict::Partner) }
    };
    let of_finding = |evidence| FindingDecisionRequest {
        finding: found.finding_id.clone(),
        decision: seen(evidence),
    };
    let of_flag = |evidence| FlagDecisionRequest {
        order: super::testbed::key_of("o0"),
        flag: raised.flag,
        decision: seen(evidence),
    };
    let other = Digest::of_bytes(b"other evidence");
    for problem in [
        refused(service.decide_finding(of_finding(other)).await),
        refused(service.decide_flag(of_flag(other)).await),
    ] {
        assert!(problem.contains("its evidence has changed since you saw it"), "{problem}");
    }
    assert!(!service.decide_finding(of_finding(found.evidence)).await.unwrap().decided);
    assert!(!service.decide_flag(of_flag(raised.evidence)).await.unwrap().decided);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_flag_that_holds_twice_is_decided_where_its_author_looked() {
    let stage = TestStage::of(MatchKey::Order, &[Kind::Agrees]).await;
    let raise = |severity, evidence: &[u8]| RaisedFlag {
        flag: Flag::ContentVariant,
        severity,
        evidence: Digest::of_bytes(evidence),
        decided_by: None,
    };
    let info = raise(Severity::Info, b"equal money");
    let critical = raise(Severity::Critical, b"other money");
    stage.bed.flag("o0", vec![info.clone(), critical.clone()]).await;
    let running = stage.bed.start();
    let service = &running.service;
    let decide = |name: &str, evidence| {
        let decision = NewDecision { evidence, ..new_decision(name, Verdict::Ours) };
        let (order, flag) = (super::testbed::key_of("o0"), Flag::ContentVariant);
        service.decide_flag(FlagDecisionRequest { order, flag, decision })
    };
    let on = DecisionOn::Flag(super::testbed::key_of("o0"), Flag::ContentVariant);
    // The most severe one is meant where no evidence is named.
    assert!(!decide("ann", None).await.unwrap().decided);
    let withdrawal = WithdrawalRequest { on, author: author("ann"), reason: "a slip".to_owned() };
    assert_eq!(service.withdraw(withdrawal).await.unwrap().said, "ours");
    assert!(!decide("ann", Some(critical.evidence)).await.unwrap().decided);
    assert!(decide("ann", Some(info.evidence)).await.unwrap().decided, "one person is enough");
    let said = decide("bob", Some(critical.evidence)).await.unwrap();
    assert_eq!((said.decided, said.seconded_by.as_deref()), (true, Some("bob")));
    running.stop().await.unwrap();
}
