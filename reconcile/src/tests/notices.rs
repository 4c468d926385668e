//! People's decisions on quarantined notices, and their events in the log.

use payfold_engines::log::{EventLog, Topic};
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::{Author, KeyId, PartnerCode};
use payfold_schemas::notice_source::{NoticeSource, ProfileStamp, RecordedRequest};
use payfold_schemas::order::Severity;
use payfold_schemas::position::Position;
use payfold_schemas::record::{Parts, QuarantineRecord, Record};
use payfold_schemas::release::{NOTICE_DECIDED_TYPE, NoticeDecided, NoticeVerdict, Quarantined};
use payfold_schemas::released::Because;
use payfold_schemas::time::Time;

use super::testbed::{TestBed, key_of, records};
use crate::ledger::Ledger;
use crate::notices::{NoticeDecisionRequest, NoticeFact};
use crate::service::{ReconcileService, ServiceError};
use crate::tests::rows::ipn;
use crate::withdraw::{DecisionOn, WithdrawalRequest};

const RAW: &[u8] = b"the bytes as they came";

fn source() -> NoticeSource {
    let partner = PartnerCode::parse("p").unwrap();
    let digest = Digest::of_bytes(b"profile");
    NoticeSource {
        profile: ProfileStamp { partner, version: 1, digest },
        key_id: KeyId::parse("k1").unwrap(),
        request: RecordedRequest::default(),
        released: None,
    }
}

/// A request to release or dismiss the notice at this offset.
fn decision(
    offset: u64,
    (author, verdict): (&str, &str),
    severity: Severity,
) -> NoticeDecisionRequest {
    let record = QuarantineRecord {
        account: "p/M".into(),
        code: "timestamp_out_of_window".into(),
        detail: "the timestamp is 3600 s old".into(),
        request_id: "01939b1c-7a00-7000-8000-00000000000a".parse().unwrap(),
        received_at: Time::from_unix_ms(5_000),
        source: source(),
    };
    let fact = NoticeFact {
        because: Because::ClockFixed,
        order: key_of("o1"),
        ipn: ipn("r1"),
        source: source(),
    };
    NoticeDecisionRequest {
        notice: Quarantined {
            position: Position { partition: 0, offset },
            evidence: Digest::of_bytes(format!("record {offset}").as_bytes()),
            record,
            raw: RAW.to_vec(),
            raw_key_id: None,
        },
        order: Some(key_of("o1")),
        fact: (verdict == "release").then_some(fact),
        severity,
        author: Author::parse(author).unwrap(),
        reason: format!("{author} asked them"),
    }
}

/// Decides, and returns who decided, or that it waits, or why it was refused.
async fn outcome(service: &ReconcileService, decision: NoticeDecisionRequest) -> String {
    match service.decide_notice(decision).await {
        Ok(outcome) if !outcome.decided => format!("waits for a second beside {}", outcome.author),
        Ok(outcome) => format!("by {}", outcome.people()),
        Err(ServiceError::Refused(problem)) => problem,
        Err(other) => panic!("{other}"),
    }
}

async fn released(bed: &TestBed) -> Vec<Record> {
    let messages = bed.messages(Topic::Intake).await;
    messages.iter().map(|message| Record::decode(&message.value).unwrap()).collect()
}

async fn decisions(bed: &TestBed) -> Vec<NoticeDecided> {
    let messages = bed.messages(Topic::Findings).await;
    let of_notices = messages
        .iter()
        .filter(|message| message.event.as_ref().is_some_and(|e| e.kind == NOTICE_DECIDED_TYPE));
    of_notices.map(|message| serde_json::from_slice(&message.value).unwrap()).collect()
}

#[tokio::test]
async fn a_notice_of_money_is_released_by_two_people_and_once() {
    let bed = TestBed::new(&records("UTC", "order"));
    let running = bed.start();
    let service = &running.service;
    let release = |author| decision(7, (author, "release"), Severity::Critical);
    assert_eq!(outcome(service, release("ann")).await, "waits for a second beside ann");
    assert_eq!(outcome(service, release("ann")).await, "waits for a second beside ann");
    assert_eq!(released(&bed).await, []);
    assert_eq!(outcome(service, release("bob")).await, "by ann and bob");
    for author in ["ann", "bob", "cat"] {
        assert_eq!(outcome(service, release(author)).await, "by ann and bob");
    }
    let late = outcome(service, decision(7, ("cat", "dismiss"), Severity::High)).await;
    assert!(late.contains("was released by ann"), "{late}");

    let facts = released(&bed).await;
    let [Record { parts: Parts::Fact(fact), raw, .. }] = facts.as_slice() else {
        panic!("{facts:?}")
    };
    assert_eq!((raw.as_slice(), &fact.order), (RAW, &key_of("o1")));
    assert_eq!(fact.fact, Fact::Ipn(ipn("r1")));
    assert_eq!(fact.delivered_at(), Time::from_unix_ms(5_000));
    let how = fact.source.as_ref().unwrap().released.as_ref().unwrap();
    assert_eq!((how.because, how.author.as_str()), (Because::ClockFixed, "ann"));
    assert_eq!(how.seconded_by, Some(Author::parse("bob").unwrap()));
    assert_eq!(how.evidence, Digest::of_bytes(b"record 7"));
    let decisions = decisions(&bed).await;
    let reasons = decisions.iter().map(|said| (&*said.reason, said.second_reason.as_deref()));
    let by_both = ("ann asked them", Some("bob asked them"));
    assert_eq!(reasons.collect::<Vec<_>>(), [("ann asked them", None), by_both]);
    assert_eq!(
        decisions.iter().map(|decision| decision.decided).collect::<Vec<_>>(),
        [false, true]
    );
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_different_decision_replaces_the_first_and_both_stay_in_the_history() {
    let bed = TestBed::new(&records("UTC", "order"));
    let running = bed.start();
    let service = &running.service;
    let money = |author, verdict| decision(7, (author, verdict), Severity::Critical);
    assert_eq!(outcome(service, money("ann", "release")).await, "waits for a second beside ann");
    assert_eq!(outcome(service, money("bob", "dismiss")).await, "waits for a second beside bob");
    assert_eq!(outcome(service, money("ann", "release")).await, "waits for a second beside ann");
    assert_eq!(outcome(service, money("bob", "release")).await, "by ann and bob");
    assert_eq!(released(&bed).await.len(), 1);
    let decisions = decisions(&bed).await;
    let decisions: Vec<_> =
        decisions.iter().map(|one| (one.author.as_str(), one.verdict)).collect();
    let (release, dismiss) = (NoticeVerdict::Release, NoticeVerdict::Dismiss);
    assert_eq!(decisions, [("ann", release), ("bob", dismiss), ("ann", release), ("ann", release)]);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_first_decision_is_withdrawn_by_its_author_and_can_be_repeated() {
    let bed = TestBed::new(&records("UTC", "order"));
    let running = bed.start();
    let service = &running.service;
    let release = |author| decision(7, (author, "release"), Severity::Critical);
    let withdraw = async |author: &str| {
        let evidence = Digest::of_bytes(b"record 7");
        let on = DecisionOn::Notice(Position { partition: 0, offset: 7 }, evidence);
        let (author, reason) = (Author::parse(author).unwrap(), "a slip".to_owned());
        match service.withdraw(WithdrawalRequest { on, author, reason }).await {
            Ok(withdrawn) => format!("{} withdrew: {}", withdrawn.author, withdrawn.said),
            Err(ServiceError::Refused(problem)) => problem,
            Err(other) => panic!("{other}"),
        }
    };
    assert!(withdraw("ann").await.contains("nothing to withdraw"));
    outcome(service, release("ann")).await;
    assert!(withdraw("bob").await.contains("only ann can withdraw it"));
    assert_eq!(withdraw("ann").await, "ann withdrew: release");
    assert_eq!(outcome(service, release("bob")).await, "waits for a second beside bob");
    assert_eq!(withdraw("bob").await, "bob withdrew: release");
    // The same decision of the same person is another event than the withdrawn one.
    assert_eq!(outcome(service, release("ann")).await, "waits for a second beside ann");
    assert_eq!(withdraw("ann").await, "ann withdrew: release");
    outcome(service, release("ann")).await;
    assert_eq!(released(&bed).await, []);
    assert_eq!(outcome(service, release("bob")).await, "by ann and bob");
    assert!(withdraw("ann").await.contains("was released by ann and bob at"));
    assert_eq!(released(&bed).await.len(), 1);
    let decisions = decisions(&bed).await;
    assert_eq!(decisions.iter().filter(|decision| decision.withdrawn).count(), 3);
    let ids: std::collections::BTreeSet<_> =
        decisions.iter().map(NoticeDecided::event_id).collect();
    assert_eq!((decisions.len(), ids.len()), (8, 8));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_notice_without_money_takes_one_person_and_a_dismissal_is_final() {
    let bed = TestBed::new(&records("UTC", "order"));
    let running = bed.start();
    let service = &running.service;
    for _ in 0..2 {
        let dismissed = outcome(service, decision(3, ("ann", "dismiss"), Severity::High)).await;
        assert_eq!(dismissed, "by ann");
    }
    assert_eq!(
        outcome(service, decision(4, ("ann", "dismiss"), Severity::Critical)).await,
        "waits for a second beside ann"
    );
    assert_eq!(
        outcome(service, decision(4, ("bob", "dismiss"), Severity::Critical)).await,
        "by ann and bob"
    );
    assert_eq!(released(&bed).await, []);
    let late = outcome(service, decision(3, ("bob", "release"), Severity::High)).await;
    assert!(late.contains("0-3 was dismissed by ann at "), "{late}");
    assert!(late.contains("ask the partner to send it again"), "{late}");
    assert_eq!(released(&bed).await.len(), 0);
    running.stop().await.unwrap();

    // Another process knows what the topic says.
    let mut ledger = Ledger::in_memory().unwrap();
    ledger.catch_up(&*bed.log).await.unwrap();
    let verdict = |offset: u64| {
        let evidence = Digest::of_bytes(format!("record {offset}").as_bytes());
        let decided = ledger.decided_notice(Position { partition: 0, offset }, evidence);
        decided.map(|outcome| outcome.verdict)
    };
    assert_eq!(verdict(3), Some(NoticeVerdict::Dismiss));
    assert_eq!(verdict(4), Some(NoticeVerdict::Dismiss));
    assert_eq!(verdict(5), None);
    // A decision on other bytes is no decision on these.
    let position = Position { partition: 0, offset: 3 };
    assert_eq!(ledger.decided_notice(position, Digest::of_bytes(b"others")), None);
}

#[tokio::test]
async fn a_crash_between_the_fact_and_its_event_leaves_one_fact() {
    let bed = TestBed::new(&records("UTC", "order"));
    let release = |author| decision(7, (author, "release"), Severity::Critical);
    let running = bed.start();
    outcome(&running.service, release("ann")).await;
    running.stop().await.unwrap();
    // As if the second decision had reached `intake` only.
    let first = decisions(&bed).await.remove(0);
    let seconded = NoticeDecided { seconded_by: Some(Author::parse("bob").unwrap()), ..first };
    let source = NoticeSource { released: seconded.released(), ..source() };
    let fact = crate::tests::rows::record("o1", Fact::Ipn(ipn("r1")));
    let fact = payfold_schemas::record::FactRecord { source: Some(source), ..fact };
    let message = payfold_engines::log::Message {
        key: key_of("o1").to_message_key(),
        event: None,
        value: Record::of_fact(fact, RAW.to_vec()).encode(),
        mac: None,
    };
    bed.log.append_all(Topic::Intake, vec![message]).await.unwrap();
    let running = bed.start();
    assert_eq!(outcome(&running.service, release("bob")).await, "by ann and bob");
    running.stop().await.unwrap();
    let facts = released(&bed).await;
    let content = |record: &Record| match &record.parts {
        Parts::Fact(fact) => (fact.order.clone(), fact.fact.clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!(facts.len(), 2);
    assert_eq!(content(&facts[0]), content(&facts[1]), "both records hold one fact");
}
