//! What changes after a run: orders, the projector's backlog, people's words, a day's closing.

use payfold_engines::log::Topic;
use payfold_schemas::decision::{FLAG_DECIDED_TYPE, FlagDecided};
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::{Fact, Verdict};
use payfold_schemas::ids::{Author, PartnerCode};
use payfold_schemas::order::{Flag, OrderState, RaisedFlag, Severity};
use payfold_schemas::record::decode_fact;

use super::bed::Told;
use super::*;
use crate::books::desk::{Closing, DeskError, OnFinding, OnFlag};
use crate::books::withdraw::{DecisionOn, Withdraw};

pub(super) const POLL: Duration = Duration::from_millis(5);

pub(super) async fn compared(stage: &Stage, running: &Running) -> RunEnded {
    let lines = stage.lines(0, Given::AsToldByStories);
    running.desk.run(stage.bed.request("2026-02-10", &lines)).await.unwrap()
}

impl Stage {
    /// Waits until what stands is this.
    pub(super) async fn stands(&self, expected: &[(Code, &str)]) -> Vec<FindingChanged> {
        let begun = tokio::time::Instant::now();
        loop {
            let standing = self.bed.standing().await;
            let mut words: Vec<_> =
                standing.iter().map(|found| (found.code, found.ours.value.as_str())).collect();
            words.sort_unstable();
            if words == expected {
                return standing;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "[time] {words:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// The first story's order with this notice more, as it stands then.
    async fn notice(&self, (state, status): (OrderState, Status), minor: i64) -> Told {
        let scene = Scene { calendar: self.calendar, by: By::Order, n: 0, dice: self.dice };
        let mut told = self.plots[0].told[0].clone();
        let at = self.plots[0].lines[0].1.at;
        told.facts.push(scene.notice(status, minor, at));
        told.state = state;
        told
    }
}

#[tokio::test]
async fn an_order_that_mends_itself_clears_its_findings() {
    for by in [By::Order, By::Ref] {
        let stage = Stage::of(by, &[Kind::SaysPaidOfPending, Kind::RefundNotListed]).await;
        let running = stage.bed.start_over(stage.bed.log.clone(), POLL);
        compared(&stage, &running).await;
        let minor = stage.plots[0].expect[0].at_risk;
        let missing = format!("REFUNDED {minor} {}", stage.plots[1].expect[0].currency.unwrap());
        let kept = (Code::MissingThere, missing.as_str());
        stage.stands(&[kept, (Code::StatusDiffers, "PENDING")]).await;
        // The partner's word that it failed makes the difference another one.
        let failed = stage.notice((OrderState::Failed, Status::Failed), minor).await;
        stage.bed.put(&[failed]).await;
        let found = stage.stands(&[kept, (Code::StatusDiffers, "FAILED")]).await;
        let changed = found.iter().find(|found| found.code == Code::StatusDiffers).unwrap();
        assert_eq!((changed.version, &changed.run), (2, &None));
        // The notice that was missed comes.
        let paid = stage.notice((OrderState::Paid, Status::Success), minor).await;
        stage.bed.put(&[paid]).await;
        stage.stands(&[kept]).await;
        // And the next run agrees.
        let ended = compared(&stage, &running).await;
        assert_eq!((ended.findings.open, ended.findings.opened, ended.findings.cleared), (1, 0, 0));
        running.stop().await.unwrap();
    }
}

/// Of two paid attempts one is given back: nothing is left to do.
#[tokio::test]
async fn an_attempt_that_is_given_back_clears_its_finding() {
    let stage = Stage::of(By::Order, &[Kind::PaidTwice]).await;
    let running = stage.bed.start_over(stage.bed.log.clone(), POLL);
    compared(&stage, &running).await;
    stage.stands(&[(Code::ReferencePaidTwice, "paid as o0, o0-2")]).await;
    let mut told = stage.plots[0].told[1].clone();
    told.state = OrderState::Refunded;
    stage.bed.put(&[told]).await;
    stage.stands(&[]).await;
    running.stop().await.unwrap();
}

/// By ref, what the records list of one transaction is no word on the order's other ones.
#[tokio::test]
async fn a_second_look_misses_nothing_it_was_not_given() {
    let stage = Stage::of(By::Ref, &[Kind::AmountChanged, Kind::SaysPaidOfPending]).await;
    let scene = Scene { calendar: stage.calendar, by: By::Ref, n: 0, dice: stage.dice };
    let minor = stage.plots[0].moves[0].3;
    let mut told = stage.plots[0].told[0].clone();
    let at = stage.calendar.at(0, 9 * HOUR);
    told.facts.push(scene.notice_of("second", Status::Success, (minor, Some(at), ""), at));
    stage.bed.put(std::slice::from_ref(&told)).await;
    let running = stage.bed.start_over(stage.bed.log.clone(), POLL);
    let mut lines = stage.lines(0, Given::AsToldByStories);
    let second = Line { reference: "second".into(), ..scene.line(Status::Success, at) };
    lines.push(second.csv());
    running.desk.run(stage.bed.request("2026-02-10", &lines)).await.unwrap();
    let ours = minor.to_string();
    let amount = (Code::AmountDiffers, ours.as_str());
    stage.stands(&[(Code::StatusDiffers, "PENDING"), amount]).await;
    told.facts.push(scene.notice(Status::Failed, minor, at));
    // Orders are looked at in the order of their keys: when the second has cleared, the first was looked at.
    let mut second = stage.plots[1].told[0].clone();
    second.state = OrderState::Paid;
    let scene = Scene { n: 1, ..scene };
    second.facts.push(scene.notice(Status::Success, minor, stage.plots[1].lines[0].1.at));
    stage.bed.put(&[told, second]).await;
    stage.stands(&[amount]).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn nothing_is_judged_ahead_of_the_fold() {
    let stage = Stage::of(By::Order, &[Kind::SaysPaidOfPending]).await;
    let paid = (OrderState::Paid, Status::Success);
    let late = stage.notice(paid, stage.plots[0].expect[0].at_risk).await;
    let appended = stage.bed.append(std::slice::from_ref(&late)).await;
    let running = stage.bed.start();
    let desk = running.desk.clone();
    let request = stage.bed.request("2026-02-10", &stage.lines(0, Given::AsToldByStories));
    let run = tokio::spawn(async move { desk.run(request).await });
    let begun = tokio::time::Instant::now();
    while !running.desk.progress().stage.starts_with("waiting for the projector") {
        assert!(begun.elapsed() < Duration::from_secs(20), "[time] it waits for the projector");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(running.desk.progress().done > 24 * 3_600, "it says how far behind");
    assert!(!run.is_finished());
    stage.bed.fold(&[late], &appended).await;
    let ended = run.await.unwrap().unwrap();
    assert_eq!((ended.compared.matched, ended.findings.open), (1, 0));
    running.stop().await.unwrap();
}

pub(super) fn author(name: &str) -> Author {
    Author::parse(name).unwrap()
}

pub(super) fn word(finding: &str, name: &str, accept: Verdict) -> OnFinding {
    OnFinding { finding: finding.into(), accept, author: author(name), reason: "seen".into() }
}

pub(super) fn refused<T: std::fmt::Debug>(result: Result<T, DeskError>) -> String {
    match result {
        Err(DeskError::Refused(problem)) => problem,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_decided_stays_so_until_its_cause_changes() {
    let stage = Stage::of(By::Order, &[Kind::AmountChanged, Kind::TimeChanged]).await;
    let running = stage.bed.start();
    let desk = &running.desk;
    let ended = compared(&stage, &running).await;
    assert_eq!((ended.findings.open, ended.findings.decided), (2, 0));
    let close = |name: &str| Closing {
        partner: PartnerCode::parse("p").unwrap(),
        day: "2026-02-10".parse().unwrap(),
        author: author(name),
    };
    assert!(refused(desk.close(close("ann")).await).contains("2 findings of 2026-02-10 are open"));
    let standing = stage.bed.standing().await;
    let id = |code| standing.iter().find(|found| found.code == code).unwrap().finding_id.clone();
    let (amount, time) = (id(Code::AmountDiffers), id(Code::TimeDiffers));
    let said = desk.decide_finding(word(&time[..8], "ann", Verdict::WriteOff)).await.unwrap();
    assert!(said.decided && said.what == time);
    let problem = refused(desk.decide_finding(word(&time, "bob", Verdict::Ours)).await);
    assert!(problem.contains("was decided by ann"), "{problem}");
    // Critical: the second person has to be another one, and of the same mind.
    let said = desk.decide_finding(word(&amount, "ann", Verdict::Partner)).await.unwrap();
    assert!(!said.decided);
    refused(desk.decide_finding(word(&amount, "ann", Verdict::Partner)).await);
    let other = desk.decide_finding(word(&amount, "bob", Verdict::Ours)).await.unwrap();
    assert_eq!((other.decided, other.replaces.unwrap().said.as_str()), (false, "partner"));
    let again = desk.decide_finding(word(&amount, "ann", Verdict::Partner)).await.unwrap();
    assert_eq!((again.decided, again.replaces.unwrap().author.as_str()), (false, "bob"));
    assert!(refused(desk.close(close("ann")).await).contains("1 findings"));
    let said = desk.decide_finding(word(&amount, "bob", Verdict::Partner)).await.unwrap();
    assert_eq!((said.decided, said.seconded_by.as_deref()), (true, Some("bob")));
    // A second run finds them decided.
    let ended = compared(&stage, &running).await;
    assert_eq!((ended.findings.open, ended.findings.decided, ended.findings.opened), (0, 2, 0));
    let closed = desk.close(close("ann")).await.unwrap();
    assert_eq!(closed.findings.len(), 2);
    assert!(refused(desk.close(close("bob")).await).contains("was closed by ann"));
    assert_eq!(compared(&stage, &running).await.adjusts, None);
    // Another amount there: it is open again, and the closed day is adjusted.
    let lines: Vec<String> = stage.plots[0]
        .lines
        .iter()
        .map(|(_, line)| Line { amount: line.amount - 1, ..line.clone() }.csv())
        .chain(stage.plots[1].lines.iter().map(|(_, line)| line.csv()))
        .collect();
    let ended = desk.run(stage.bed.request("2026-02-10", &lines)).await.unwrap();
    assert_eq!((ended.findings.open, ended.findings.decided), (1, 1));
    assert_eq!(ended.adjusts, Some(closed.seal));
    let found = stage.bed.findings().await;
    assert_eq!((found[&amount].status, &found[&amount].decision), (FindingStatus::Open, &None));
    // What clears keeps nobody's word for the next time.
    let ended =
        desk.run(stage.bed.request("2026-02-10", &stage.lines(0, Given::Mended))).await.unwrap();
    assert_eq!((ended.findings.open, ended.findings.decided, ended.findings.cleared), (0, 0, 2));
    let problem = refused(desk.decide_finding(word(&amount, "ann", Verdict::Ours)).await);
    assert!(problem.contains("has cleared"), "{problem}");
    refused(desk.decide_finding(word("0123456789", "ann", Verdict::Ours)).await);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_change_of_findings_alone_adjusts_a_closed_day() {
    let stage = Stage::of(By::Order, &[Kind::Agrees]).await;
    let running = stage.bed.start();
    compared(&stage, &running).await;
    let (partner, day) = (PartnerCode::parse("p").unwrap(), "2026-02-10".parse().unwrap());
    let closing = Closing { partner, day, author: author("ann") };
    let closed = running.desk.close(closing).await.unwrap();
    let (_, line) = &stage.plots[0].lines[0];
    let other = Line { reference: "other".into(), ..line.clone() };
    let ended = running.desk.run(stage.bed.request("2026-02-10", &[other.csv()])).await.unwrap();
    assert_eq!(ended.totals, closed.totals);
    assert_eq!(ended.adjusts, Some(closed.seal));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_critical_flag_is_decided_by_two() {
    let stage = Stage::of(By::Order, &[Kind::OtherAmountTold]).await;
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
    let word = |flag, name: &str, accept| OnFlag {
        order: super::bed::key_of("o0"),
        flag,
        accept,
        author: author(name),
        reason: "asked them".into(),
    };
    let desk = &running.desk;
    let critical = |name, accept| desk.decide_flag(word(Flag::AmountMismatch, name, accept));
    assert!(!critical("ann", Verdict::Partner).await.unwrap().decided);
    refused(critical("ann", Verdict::Partner).await);
    // Another decision takes the place of the first, and is taken back; then the first one is made again.
    let other = critical("bob", Verdict::Ours).await.unwrap();
    let replaced = other.replaces.expect("it is another decision");
    assert_eq!(
        (other.decided, replaced.author.as_str(), replaced.said.as_str()),
        (false, "ann", "partner")
    );
    let on = || DecisionOn::Flag(super::bed::key_of("o0"), Flag::AmountMismatch);
    let withdraw = |name| Withdraw { on: on(), author: author(name), reason: "a slip".into() };
    let problem = refused(desk.withdraw(withdraw("ann")).await);
    assert!(problem.contains("only bob can withdraw it"), "{problem}");
    assert_eq!(desk.withdraw(withdraw("bob")).await.unwrap().said, "ours");
    refused(desk.withdraw(withdraw("bob")).await);
    assert!(!critical("ann", Verdict::Partner).await.unwrap().decided);
    let facts = async || {
        let facts = stage.bed.messages(Topic::Intake).await;
        let facts = facts.iter().map(|message| decode_fact(&message.value).unwrap().fact);
        facts.filter(|fact| matches!(fact, Fact::Decided(_))).collect::<Vec<_>>()
    };
    assert_eq!(facts().await, Vec::new());
    let said = critical("bob", Verdict::Partner).await.unwrap();
    assert_eq!((said.decided, said.author.as_str()), (true, "ann"));
    // It is final before it is folded, too.
    let problem = refused(critical("bob", Verdict::Ours).await);
    assert!(problem.contains("was decided by ann and bob at "), "{problem}");
    refused(desk.withdraw(withdraw("ann")).await);
    assert!(
        desk.decide_flag(word(Flag::SuccessAndFailed, "bob", Verdict::Ours)).await.unwrap().decided
    );
    refused(desk.decide_flag(word(Flag::DoublePayment, "bob", Verdict::Ours)).await);
    let facts = facts().await;
    let [Fact::Decided(first), Fact::Decided(second)] = facts.as_slice() else {
        panic!("{facts:?}")
    };
    assert_eq!((first.author.as_str(), first.seconded_by.as_ref()), ("ann", Some(&author("bob"))));
    assert_eq!((second.author.as_str(), &second.seconded_by), ("bob", &None));
    let words = stage.bed.messages(Topic::Findings).await;
    let words: Vec<FlagDecided> = words
        .iter()
        .filter(|message| message.event.as_ref().is_some_and(|e| e.kind == FLAG_DECIDED_TYPE))
        .map(|message| serde_json::from_slice(&message.value).unwrap())
        .collect();
    // First, other, withdrawn, first again, whole; and the one that takes one person.
    assert_eq!(words.len(), 6);
    running.stop().await.unwrap();
}
