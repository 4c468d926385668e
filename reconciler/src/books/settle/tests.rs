//! How a finding opens, stays, changes, is decided, clears and comes back.

use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Verdict;
use payfold_schemas::finding::{Code, Side};
use payfold_schemas::ids::PartnerCode;

use super::super::found::About;
use super::*;

fn difference(code: Code, value: &str) -> Found {
    let about = About {
        partner: PartnerCode::parse("acme").unwrap(),
        merchant_code: None,
        order_id: None,
        provider_ref: None,
        code: code.to_string(),
        what: "amount SUCCESS".into(),
        day: None,
    };
    let side = |value: &str| Side { value: value.into(), source: "somewhere".into() };
    Found {
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
        about,
    }
}

fn moment(run: &'static str) -> Moment<'static> {
    Moment { day: "2026-01-31", run: Some(run), at: Time::from_unix_ms(1_000) }
}

fn word(author: &str, accept: Verdict) -> FindingDecision {
    FindingDecision {
        accept,
        author: Author::parse(author).unwrap(),
        reason: "seen".into(),
        at: Time::from_unix_ms(2_000),
        evidence: Digest::of_bytes(b"whatever the caller says"),
        seconded_by: None,
    }
}

fn open(code: Code) -> FindingChanged {
    found(None, difference(code, "100"), moment("run 1")).unwrap()
}

#[test]
fn a_finding_opens_stays_changes_clears_and_comes_back() {
    let first = open(Code::AmountDiffers);
    assert_eq!((first.version, first.status), (1, FindingStatus::Open));
    assert_eq!(found(Some(&first), difference(Code::AmountDiffers, "100"), moment("run 2")), None);
    let second =
        found(Some(&first), difference(Code::AmountDiffers, "99"), moment("run 2")).unwrap();
    assert_eq!((second.version, second.status), (2, FindingStatus::Open));
    assert_eq!(second.first_seen, first.first_seen);
    let cleared = gone(&second, moment("run 3")).unwrap();
    assert_eq!((cleared.version, cleared.status), (3, FindingStatus::Cleared));
    assert_eq!(cleared.money_at_risk, 0);
    assert_eq!(gone(&cleared, moment("run 4")), None);
    let later = Moment { at: Time::from_unix_ms(9_000), ..moment("run 5") };
    let again = found(Some(&cleared), difference(Code::AmountDiffers, "99"), later).unwrap();
    assert_eq!((again.version, again.status), (4, FindingStatus::Open));
    assert_eq!((again.first_seen, again.money_at_risk), (first.first_seen, 10));
}

#[test]
fn a_decision_holds_while_its_evidence_does() {
    let first = open(Code::DuplicatedThere);
    let done = decided(&first, word("mai", Verdict::Ours)).unwrap();
    assert_eq!((done.version, done.status), (2, FindingStatus::Decided));
    assert_eq!(done.decision.as_ref().unwrap().evidence, first.evidence);
    let same = difference(Code::DuplicatedThere, "100");
    assert_eq!(found(Some(&done), same, moment("run 2")), None);
    let other = difference(Code::DuplicatedThere, "99");
    let again = found(Some(&done), other, moment("run 2")).unwrap();
    assert_eq!((again.version, again.status, &again.decision), (3, FindingStatus::Open, &None));
    let refused = decided(&done, word("linh", Verdict::Ours)).unwrap_err();
    assert!(matches!(refused, DecideError::Decided { .. }));
    let refused = refused.to_string();
    assert!(refused.contains("by mai at 1970-01-01T00:00:02Z: ours"), "{refused}");
    let cleared = gone(&done, moment("run 3")).unwrap();
    assert_eq!(decided(&cleared, word("linh", Verdict::Ours)), Err(DecideError::Cleared));
}

#[test]
fn what_is_critical_takes_two_people_of_one_mind() {
    let first = open(Code::AmountDiffers);
    let waiting = decided(&first, word("mai", Verdict::Partner)).unwrap();
    assert_eq!((waiting.version, waiting.status), (2, FindingStatus::Open));
    let by = Author::parse("mai").unwrap();
    let same = decided(&waiting, word("mai", Verdict::Partner));
    assert_eq!(same, Err(DecideError::SamePerson { by: by.clone() }));
    let done = decided(&waiting, word("linh", Verdict::Partner)).unwrap();
    assert_eq!((done.version, done.status), (3, FindingStatus::Decided));
    let decision = done.decision.unwrap();
    assert_eq!((decision.author, decision.seconded_by), (by, Author::parse("linh").ok()));
    // A run that finds it as it was lets the first word stand; another evidence takes it back.
    assert_eq!(found(Some(&waiting), difference(Code::AmountDiffers, "100"), moment("r")), None);
    let other = found(Some(&waiting), difference(Code::AmountDiffers, "99"), moment("r")).unwrap();
    assert_eq!(other.decision, None);
    assert_eq!(decided(&other, word("mai", Verdict::Partner)).unwrap().status, FindingStatus::Open);
}

#[test]
fn a_finding_that_stays_cites_what_was_seen_last() {
    let first = open(Code::AmountDiffers);
    let same = || difference(Code::AmountDiffers, "100");
    assert!(is_same(&first, &same()));
    assert_eq!(cited(&first, same()), None, "nothing is told again");
    let source = |word: &str| Side { source: word.into(), ..same().partners };
    let moved = cited(&first, Found { partners: source("b.csv line 3"), ..same() }).unwrap();
    assert_eq!((moved.version, moved.partners.source.as_str()), (2, "b.csv line 3"));
    assert_eq!((moved.status, &moved.run), (first.status, &first.run));
    let decided = decided(&open(Code::TimeDiffers), word("ann", Verdict::Ours)).unwrap();
    let moved = cited(&decided, Found { partners: source("b.csv line 3"), ..same() }).unwrap();
    assert_eq!((moved.status, &moved.decision), (FindingStatus::Decided, &decided.decision));
}

#[test]
fn a_word_on_a_flag_is_the_word_on_its_finding() {
    let first = open(Code::OpenFlag);
    let waits = flag_decided(&first, word("ann", Verdict::Ours), Standing::Waits).unwrap();
    assert_eq!((waits.status, waits.version), (FindingStatus::Open, 2));
    let whole = flag_decided(&waits, word("ann", Verdict::Ours), Standing::Alone).unwrap();
    assert_eq!((whole.status, whole.version), (FindingStatus::Decided, 3));
    assert_eq!(flag_decided(&whole, word("bob", Verdict::Ours), Standing::Alone), None);
    let cleared = gone(&first, moment("run 2")).unwrap();
    assert_eq!(flag_decided(&cleared, word("ann", Verdict::Ours), Standing::Alone), None);
}

#[test]
fn a_different_decision_takes_the_place_of_the_first_and_needs_a_second_of_its_own() {
    let waiting = decided(&open(Code::AmountDiffers), word("mai", Verdict::Partner)).unwrap();
    let other = decided(&waiting, word("linh", Verdict::Ours)).unwrap();
    assert_eq!((other.version, other.status), (3, FindingStatus::Open));
    assert_eq!(other.decision.as_ref().unwrap().author.as_str(), "linh");
    let [earlier] = other.earlier_decisions.as_slice() else {
        panic!("{:?}", other.earlier_decisions)
    };
    assert_eq!((earlier.author.as_str(), earlier.accept), ("mai", Verdict::Partner));
    let by = Author::parse("linh").unwrap();
    assert_eq!((earlier.ended, &earlier.ended_by), (DecisionEnd::Replaced, &by));
    // The person who was first comes round to it, or a third person does.
    let done = decided(&other, word("mai", Verdict::Ours)).unwrap();
    assert_eq!((done.version, done.status), (4, FindingStatus::Decided));
    assert_eq!(done.earlier_decisions, other.earlier_decisions);
    let decision = done.decision.as_ref().unwrap();
    assert_eq!((&decision.author, decision.seconded_by.as_ref().unwrap().as_str()), (&by, "mai"));
    assert!(matches!(
        decided(&done, word("an", Verdict::Partner)),
        Err(DecideError::Decided { .. })
    ));
    // Whoever changes their own mind begins anew, too.
    let turned = decided(&waiting, word("mai", Verdict::Ours)).unwrap();
    assert_eq!((turned.status, turned.earlier_decisions.len()), (FindingStatus::Open, 1));
}

fn withdrawal(author: &str) -> Withdrawal {
    let (author, reason) = (Author::parse(author).unwrap(), "a slip".to_owned());
    Withdrawal { author, reason, at: Time::from_unix_ms(3_000) }
}

#[test]
fn a_first_decision_is_withdrawn_by_its_author_alone_and_stays_in_the_history() {
    let first = open(Code::AmountDiffers);
    assert_eq!(withdrawn(&first, withdrawal("mai")), Err(DecideError::NothingWaits));
    let waiting = decided(&first, word("mai", Verdict::Partner)).unwrap();
    let by = Author::parse("mai").unwrap();
    let refused = withdrawn(&waiting, withdrawal("linh"));
    assert_eq!(refused, Err(DecideError::NotTheAuthor { by }));
    let back = withdrawn(&waiting, withdrawal("mai")).unwrap();
    assert_eq!((back.version, back.status, &back.decision), (3, FindingStatus::Open, &None));
    let [earlier] = back.earlier_decisions.as_slice() else {
        panic!("{:?}", back.earlier_decisions)
    };
    assert_eq!(
        (earlier.ended, earlier.ended_reason.as_deref()),
        (DecisionEnd::Withdrawn, Some("a slip"))
    );
    // The next decision on it is a first one.
    let again = decided(&back, word("linh", Verdict::Partner)).unwrap();
    assert_eq!((again.status, again.earlier_decisions.len()), (FindingStatus::Open, 1));
    let done = decided(&again, word("mai", Verdict::Partner)).unwrap();
    assert!(matches!(withdrawn(&done, withdrawal("linh")), Err(DecideError::Decided { .. })));
}
