//! The transitions of a finding: open, unchanged, changed, decided, cleared, open again.

use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Verdict;
use payfold_schemas::finding::{Code, Side};
use payfold_schemas::ids::PartnerCode;

use super::super::detected_finding::FindingIdentity;
use super::*;

fn difference(code: Code, value: &str) -> DetectedFinding {
    let about = FindingIdentity {
        partner: PartnerCode::parse("acme").unwrap(),
        merchant_code: None,
        order_id: None,
        provider_ref: None,
        code: code.to_string(),
        what: "amount SUCCESS".into(),
        day: None,
    };
    let side = |value: &str| Side { value: value.into(), source: "somewhere".into() };
    DetectedFinding {
        id: about.id(),
        code,
        severity: code.severity(),
        flag: None,
        reference: None,
        field: "amount".into(),
        ours: side(value),
        partners: side("90"),
        at_risk: 10,
        currency: None,
        lines: Vec::new(),
        evidence: Digest::of_bytes(value.as_bytes()),
        identity: about,
    }
}

fn moment(run: &'static str) -> ChangeMoment<'static> {
    ChangeMoment { day: "2026-01-31", run: Some(run), at: Time::from_unix_ms(1_000) }
}

fn decision_by(author: &str, accept: Verdict) -> FindingDecision {
    FindingDecision {
        accept,
        author: Author::parse(author).unwrap(),
        reason: format!("seen by {author}"),
        at: Time::from_unix_ms(2_000),
        evidence: Digest::of_bytes(b"whatever the caller says"),
        seconded_by: None,
        second_reason: None,
    }
}

fn open(code: Code) -> FindingChanged {
    open_finding(None, difference(code, "100"), moment("run 1")).unwrap()
}

#[test]
fn a_finding_opens_stays_changes_clears_and_reopens() {
    let first = open(Code::AmountDiffers);
    assert_eq!((first.version, first.status), (1, FindingStatus::Open));
    assert_eq!(
        open_finding(Some(&first), difference(Code::AmountDiffers, "100"), moment("run 2")),
        None
    );
    let second =
        open_finding(Some(&first), difference(Code::AmountDiffers, "99"), moment("run 2")).unwrap();
    assert_eq!((second.version, second.status), (2, FindingStatus::Open));
    assert_eq!(second.first_seen, first.first_seen);
    let cleared = clear_finding(&second, moment("run 3")).unwrap();
    assert_eq!((cleared.version, cleared.status), (3, FindingStatus::Cleared));
    assert_eq!(cleared.money_at_risk, 0);
    assert_eq!(clear_finding(&cleared, moment("run 4")), None);
    let later = ChangeMoment { at: Time::from_unix_ms(9_000), ..moment("run 5") };
    let again = open_finding(Some(&cleared), difference(Code::AmountDiffers, "99"), later).unwrap();
    assert_eq!((again.version, again.status), (4, FindingStatus::Open));
    assert_eq!((again.first_seen, again.money_at_risk), (first.first_seen, 10));
}

#[test]
fn a_decision_holds_while_its_evidence_is_unchanged() {
    let first = open(Code::DuplicatedThere);
    let done = apply_decision(&first, decision_by("mai", Verdict::Ours)).unwrap();
    assert_eq!((done.version, done.status), (2, FindingStatus::Decided));
    assert_eq!(done.decision.as_ref().unwrap().evidence, first.evidence);
    let same = difference(Code::DuplicatedThere, "100");
    assert_eq!(open_finding(Some(&done), same, moment("run 2")), None);
    let other = difference(Code::DuplicatedThere, "99");
    let again = open_finding(Some(&done), other, moment("run 2")).unwrap();
    assert_eq!((again.version, again.status, &again.decision), (3, FindingStatus::Open, &None));
    let kept = &again.earlier_decisions[0];
    assert_eq!((kept.accept, kept.author.as_str()), (Verdict::Ours, "mai"));
    assert_eq!((kept.ended, kept.ended_by.as_str()), (DecisionEnd::Reopened, "payfold"));
    let refused = apply_decision(&done, decision_by("linh", Verdict::Ours)).unwrap_err();
    assert!(matches!(refused, DecideError::Decided { .. }));
    let refused = refused.to_string();
    assert!(refused.contains("by mai at 1970-01-01T00:00:02Z: ours"), "{refused}");
    let cleared = clear_finding(&done, moment("run 3")).unwrap();
    assert_eq!(
        apply_decision(&cleared, decision_by("linh", Verdict::Ours)),
        Err(DecideError::Cleared)
    );
}

#[test]
fn a_critical_finding_takes_two_people_with_one_decision() {
    let first = open(Code::AmountDiffers);
    let waiting = apply_decision(&first, decision_by("mai", Verdict::Partner)).unwrap();
    assert_eq!((waiting.version, waiting.status), (2, FindingStatus::Open));
    let by = Author::parse("mai").unwrap();
    let same = apply_decision(&waiting, decision_by("mai", Verdict::Partner));
    assert_eq!(same, Err(DecideError::SamePerson { by: by.clone() }));
    let done = apply_decision(&waiting, decision_by("linh", Verdict::Partner)).unwrap();
    assert_eq!((done.version, done.status), (3, FindingStatus::Decided));
    let decision = done.decision.unwrap();
    assert_eq!((decision.author, decision.seconded_by), (by, Author::parse("linh").ok()));
    let reasons = (&*decision.reason, decision.second_reason.as_deref());
    assert_eq!(reasons, ("seen by mai", Some("seen by linh")));
    // A run that detects it unchanged keeps the first decision; other evidence drops it.
    assert_eq!(
        open_finding(Some(&waiting), difference(Code::AmountDiffers, "100"), moment("r")),
        None
    );
    let other =
        open_finding(Some(&waiting), difference(Code::AmountDiffers, "99"), moment("r")).unwrap();
    assert_eq!(other.decision, None);
    assert_eq!(
        apply_decision(&other, decision_by("mai", Verdict::Partner)).unwrap().status,
        FindingStatus::Open
    );
}

#[test]
fn an_unchanged_finding_cites_the_last_run() {
    let first = open(Code::AmountDiffers);
    let same = || difference(Code::AmountDiffers, "100");
    assert!(is_unchanged(&first, &same()));
    assert_eq!(update_citation(&first, same()), None, "nothing is published again");
    let source = |decision_by: &str| Side { source: decision_by.into(), ..same().partners };
    let moved =
        update_citation(&first, DetectedFinding { partners: source("b.csv line 3"), ..same() })
            .unwrap();
    assert_eq!((moved.version, moved.partners.source.as_str()), (2, "b.csv line 3"));
    assert_eq!((moved.status, &moved.run), (first.status, &first.run));
    let milder = DetectedFinding { severity: Severity::Warn, ..same() };
    assert_eq!(update_citation(&first, milder).unwrap().severity, Severity::Warn, "a new release");
    let decided =
        apply_decision(&open(Code::TimeDiffers), decision_by("ann", Verdict::Ours)).unwrap();
    let moved =
        update_citation(&decided, DetectedFinding { partners: source("b.csv line 3"), ..same() })
            .unwrap();
    assert_eq!((moved.status, &moved.decision), (FindingStatus::Decided, &decided.decision));
}

#[test]
fn a_decision_on_a_flag_decides_its_finding() {
    let first = open(Code::OpenFlag);
    let waits = apply_flag_decision(
        &first,
        decision_by("ann", Verdict::Ours),
        DecisionEffect::AwaitsSecond,
    )
    .unwrap();
    assert_eq!((waits.status, waits.version), (FindingStatus::Open, 2));
    let whole = apply_flag_decision(
        &waits,
        decision_by("ann", Verdict::Ours),
        DecisionEffect::DecidedAlone,
    )
    .unwrap();
    assert_eq!((whole.status, whole.version), (FindingStatus::Decided, 3));
    assert_eq!(
        apply_flag_decision(
            &whole,
            decision_by("bob", Verdict::Ours),
            DecisionEffect::DecidedAlone
        ),
        None
    );
    let cleared = clear_finding(&first, moment("run 2")).unwrap();
    assert_eq!(
        apply_flag_decision(
            &cleared,
            decision_by("ann", Verdict::Ours),
            DecisionEffect::DecidedAlone
        ),
        None
    );
}

#[test]
fn a_different_decision_replaces_the_first_and_needs_a_second_person() {
    let waiting =
        apply_decision(&open(Code::AmountDiffers), decision_by("mai", Verdict::Partner)).unwrap();
    let other = apply_decision(&waiting, decision_by("linh", Verdict::Ours)).unwrap();
    assert_eq!((other.version, other.status), (3, FindingStatus::Open));
    assert_eq!(other.decision.as_ref().unwrap().author.as_str(), "linh");
    let [earlier] = other.earlier_decisions.as_slice() else {
        panic!("{:?}", other.earlier_decisions)
    };
    assert_eq!((earlier.author.as_str(), earlier.accept), ("mai", Verdict::Partner));
    let by = Author::parse("linh").unwrap();
    assert_eq!((earlier.ended, &earlier.ended_by), (DecisionEnd::Replaced, &by));
    // The first person changes to it, or a third person agrees.
    let done = apply_decision(&other, decision_by("mai", Verdict::Ours)).unwrap();
    assert_eq!((done.version, done.status), (4, FindingStatus::Decided));
    assert_eq!(done.earlier_decisions, other.earlier_decisions);
    let decision = done.decision.as_ref().unwrap();
    assert_eq!((&decision.author, decision.seconded_by.as_ref().unwrap().as_str()), (&by, "mai"));
    assert!(matches!(
        apply_decision(&done, decision_by("an", Verdict::Partner)),
        Err(DecideError::Decided { .. })
    ));
    // A person who changes their own decision begins anew too.
    let turned = apply_decision(&waiting, decision_by("mai", Verdict::Ours)).unwrap();
    assert_eq!((turned.status, turned.earlier_decisions.len()), (FindingStatus::Open, 1));
}

fn withdrawal(author: &str) -> Withdrawal {
    let (author, reason) = (Author::parse(author).unwrap(), "a slip".to_owned());
    Withdrawal { author, reason, at: Time::from_unix_ms(3_000) }
}

#[test]
fn a_first_decision_is_withdrawn_by_its_author_only_and_stays_in_the_history() {
    let first = open(Code::AmountDiffers);
    assert_eq!(withdraw_decision(&first, withdrawal("mai")), Err(DecideError::NothingWaits));
    let waiting = apply_decision(&first, decision_by("mai", Verdict::Partner)).unwrap();
    let by = Author::parse("mai").unwrap();
    let refused = withdraw_decision(&waiting, withdrawal("linh"));
    assert_eq!(refused, Err(DecideError::NotTheAuthor { by }));
    let back = withdraw_decision(&waiting, withdrawal("mai")).unwrap();
    assert_eq!((back.version, back.status, &back.decision), (3, FindingStatus::Open, &None));
    let [earlier] = back.earlier_decisions.as_slice() else {
        panic!("{:?}", back.earlier_decisions)
    };
    assert_eq!(
        (earlier.ended, earlier.ended_reason.as_deref()),
        (DecisionEnd::Withdrawn, Some("a slip"))
    );
    // The next decision on it is a first one.
    let again = apply_decision(&back, decision_by("linh", Verdict::Partner)).unwrap();
    assert_eq!((again.status, again.earlier_decisions.len()), (FindingStatus::Open, 1));
    let done = apply_decision(&again, decision_by("mai", Verdict::Partner)).unwrap();
    assert!(matches!(
        withdraw_decision(&done, withdrawal("linh")),
        Err(DecideError::Decided { .. })
    ));
}
