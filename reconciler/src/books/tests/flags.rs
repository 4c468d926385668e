//! Open flags of a day's orders are findings of that day.

use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Verdict;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::order::{Flag, OrderState, RaisedFlag, Severity};

use super::later::{POLL, author, compared, refused, word};
use super::*;
use crate::books::desk::{Closing, OnFlag};

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

fn closing() -> Closing {
    Closing {
        partner: PartnerCode::parse("p").unwrap(),
        day: DAY.parse().unwrap(),
        author: author("ann"),
    }
}

#[tokio::test]
async fn a_day_with_an_open_flag_is_not_green() {
    for by in [By::Order, By::Ref] {
        let stage = Stage::of(by, &[Kind::Agrees, Kind::Agrees, Kind::CreatedLongAgo]).await;
        stage.bed.flag("o0", paid_twice()).await;
        stage.bed.flag("o1", vec![raised(Flag::SuccessAndFailed, Severity::Warn)]).await;
        // Only its line leads to it.
        stage.bed.flag("o2", vec![raised(Flag::PartialRefund, Severity::High)]).await;
        let running = stage.bed.start();
        let ended = compared(&stage, &running).await;
        assert_eq!((ended.findings.open, ended.findings.opened), (2, 2));
        let standing = stage.bed.standing().await;
        let mut told: Vec<_> =
            standing.iter().map(|found| (found.flag, found.severity, found.code)).collect();
        told.sort_unstable();
        let expected = [
            (Some(Flag::DoublePayment), Severity::Critical, Code::OpenFlag),
            (Some(Flag::PartialRefund), Severity::High, Code::OpenFlag),
        ];
        assert_eq!(told, expected);
        // They are shown when the run is answered, or right after it.
        let begun = tokio::time::Instant::now();
        let counted = || running.gauge("payfold_reconciler_flags_open");
        while counted().is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(20), "[time] flags are counted");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let labels = |flag: &str, severity: &str| vec![flag.to_owned(), severity.to_owned()];
        let expected =
            [(labels("DOUBLE_PAYMENT", "critical"), 1.0), (labels("PARTIAL_REFUND", "high"), 1.0)];
        assert_eq!(counted(), BTreeMap::from(expected));
        let problem = refused(running.desk.close(closing()).await);
        assert!(problem.contains("2 findings of 2026-02-10 are open"), "{problem}");
        // The next day's run finds them no second time, and the same run nothing new.
        let next = running.desk.run(stage.bed.request("2026-02-11", &[])).await.unwrap();
        assert_eq!((next.findings.open, next.findings.opened), (0, 0));
        let again = compared(&stage, &running).await;
        assert_eq!((again.findings.open, again.findings.opened), (2, 0));
        assert_eq!(stage.bed.standing().await, standing);
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn deciding_the_flag_or_its_finding_decides_both() {
    for by_finding in [true, false] {
        let stage = Stage::of(By::Order, &[Kind::Agrees]).await;
        stage.bed.flag("o0", paid_twice()).await;
        let running = stage.bed.start();
        compared(&stage, &running).await;
        let id = stage.bed.standing().await[0].finding_id.clone();
        let desk = &running.desk;
        let decide = async |name: &str| match by_finding {
            true => desk.decide_finding(word(&id, name, Verdict::Ours)).await,
            false => {
                let (order, flag) = (super::bed::key_of("o0"), Flag::DoublePayment);
                let (accept, author) = (Verdict::Ours, author(name));
                desk.decide_flag(OnFlag { order, flag, accept, author, reason: "seen".into() })
                    .await
            }
        };
        assert!(!decide("ann").await.unwrap().decided, "it takes two");
        let waits = stage.bed.standing().await.remove(0);
        assert_eq!((waits.status, waits.decision.is_some()), (FindingStatus::Open, true));
        refused(decide("ann").await);
        assert!(decide("bob").await.unwrap().decided);
        let found = stage.bed.findings().await[&id].clone();
        let said = found.decision.clone().unwrap();
        assert_eq!(found.status, FindingStatus::Decided);
        assert_eq!((said.author, said.seconded_by), (author("ann"), Some(author("bob"))));
        // Once the decision is folded a run leaves it as it is, and the day can be closed.
        stage.bed.flag("o0", decided()).await;
        let ended = compared(&stage, &running).await;
        assert_eq!(
            (ended.findings.open, ended.findings.decided, ended.findings.cleared),
            (0, 1, 0)
        );
        assert_eq!(stage.bed.findings().await[&id], found);
        desk.close(closing()).await.unwrap();
        // New evidence opens the flag again, and its finding.
        let evidence = Digest::of_bytes(b"other evidence");
        let flags = paid_twice().into_iter().map(|flag| RaisedFlag { evidence, ..flag });
        stage.bed.flag("o0", flags.collect()).await;
        assert_eq!(compared(&stage, &running).await.findings.open, 1);
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_flag_that_clears_or_is_decided_elsewhere_takes_its_finding_along() {
    let stage = Stage::of(By::Order, &[Kind::Agrees, Kind::Agrees]).await;
    stage.bed.flag("o0", paid_twice()).await;
    stage.bed.flag("o1", paid_twice()).await;
    let running = stage.bed.start_over(stage.bed.log.clone(), POLL);
    compared(&stage, &running).await;
    let flag = (Code::OpenFlag, "DOUBLE_PAYMENT");
    stage.stands(&[flag, flag]).await;
    stage.bed.flag("o0", Vec::new()).await;
    stage.stands(&[flag]).await;
    assert_eq!(compared(&stage, &running).await.findings.open, 1);
    running.stop().await.unwrap();
}

/// A flag that was raised after the run is no reason to believe that the day is done.
#[tokio::test]
async fn a_flag_since_the_last_run_keeps_the_day_open() {
    let stage = Stage::of(By::Order, &[Kind::Agrees]).await;
    let running = stage.bed.start();
    assert_eq!(compared(&stage, &running).await.findings.open, 0);
    stage.bed.flag("o0", paid_twice()).await;
    let problem = refused(running.desk.close(closing()).await);
    assert!(problem.contains("1 flags of orders of 2026-02-10 were raised after"), "{problem}");
    stage.bed.flag("o0", Vec::new()).await;
    running.desk.close(closing()).await.unwrap();
    running.stop().await.unwrap();
}

/// Of one order the difference and the flag come to the larger of both.
#[tokio::test]
async fn money_of_one_order_is_at_risk_once() {
    for by in [By::Order, By::Ref] {
        let stage = Stage::of(by, &[Kind::AmountChanged]).await;
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
            let standing = stage.bed.standing().await;
            let mut told: Vec<_> =
                standing.iter().map(|found| (found.code, found.money_at_risk)).collect();
            told.sort_unstable();
            told
        };
        assert_eq!(at_risk().await, [(Code::AmountDiffers, 7), (Code::OpenFlag, 43)]);
        // A mended file leaves all of it to the flag.
        let mended = stage.bed.request(DAY, &stage.lines(0, Given::Mended));
        running.desk.run(mended).await.unwrap();
        assert_eq!(at_risk().await, [(Code::OpenFlag, 50)]);
        running.stop().await.unwrap();
    }
}

/// The order is of the day on which money last moved on it: its flag goes there with it.
#[tokio::test]
async fn a_flag_goes_over_to_the_day_on_which_money_moves_again() {
    let stage = Stage::of(By::Order, &[Kind::Agrees]).await;
    stage.bed.flag("o0", paid_twice()).await;
    let running = stage.bed.start();
    compared(&stage, &running).await;
    running.stop().await.unwrap();
    let scene = Scene { calendar: stage.calendar, by: By::Order, n: 0, dice: stage.dice };
    let mut told = stage.plots[0].told[0].clone();
    told.facts.push(scene.notice(Status::Refunded, 10, stage.calendar.at(1, 9 * HOUR)));
    told.state = OrderState::Paid;
    stage.bed.put(&[told]).await;
    stage.bed.flag("o0", paid_twice()).await;
    let running = stage.bed.start_over(stage.bed.log.clone(), POLL);
    let begun = tokio::time::Instant::now();
    while stage.bed.standing().await.iter().any(|found| found.day == DAY) {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "[time] {:?}",
            stage.bed.standing().await
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let days = async || -> Vec<String> {
        stage.bed.standing().await.into_iter().map(|found| found.day).collect()
    };
    assert_eq!(days().await, ["2026-02-11"]);
    assert_eq!(compared(&stage, &running).await.findings.open, 0);
    let next = stage.bed.request("2026-02-11", &[]);
    let ended = running.desk.run(next).await.unwrap();
    assert!(ended.findings.open >= 1, "its refund is not listed there, and its flag is open");
    let flags = stage.bed.standing().await;
    assert_eq!(flags.iter().filter(|found| found.code == Code::OpenFlag).count(), 1);
    running.stop().await.unwrap();
}

#[test]
fn two_at_once_name_a_flag_alike_whatever_the_order_of_days() {
    hold(15, async |world: &World| {
        let found = async |backwards: bool| {
            let stage = Stage::set(world).await;
            let orders = stage.plots.iter().flat_map(|plot| &plot.told);
            for order in orders.step_by(2) {
                stage.bed.flag(&order.id, paid_twice()).await;
            }
            let (one, other) = (stage.bed.start(), stage.bed.start_late(8_000));
            for turn in 0..DAYS {
                let day = if backwards { DAYS - 1 - turn } else { turn };
                let lines = stage.lines(day, Given::AsToldByStories);
                let request = || stage.bed.request(&stage.calendar.date(day).to_string(), &lines);
                let (a, b) = tokio::join!(one.desk.run(request()), other.desk.run(request()));
                assert_eq!(a.unwrap().totals, b.unwrap().totals);
            }
            one.stop().await.unwrap();
            other.stop().await.unwrap();
            // Fails if one event has two contents.
            let findings = stage.bed.findings().await.into_values();
            let flags = findings.filter(|found| found.code == Code::OpenFlag);
            flags.map(|found| (found.finding_id, found.day)).collect::<Vec<_>>()
        };
        assert_eq!(found(false).await, found(true).await);
    });
}
