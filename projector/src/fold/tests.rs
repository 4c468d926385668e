//! The rules of the fold, as tables with one case a line.

use payfold_schemas::digest::Digest;
use payfold_schemas::order::{Flag, KnownFacts, Severity, Summary};
use payfold_schemas::position::Position;

use super::testkit::{at, fact, facts, known};
use super::{Effect, apply, flags, summarize};

mod rulings;

fn summary(text: &str) -> Summary {
    summarize(&known(&facts(text)).0)
}

/// `STATE fulfil? FLAG FLAG …`, info flags in small letters, decided flags in brackets.
fn shown(text: &str) -> String {
    let summary = summary(text);
    let mut shown = summary.state.to_string();
    if summary.fulfil {
        shown.push_str(" fulfil");
    }
    for raised in &summary.flags {
        let name = match raised.severity {
            Severity::Info => raised.flag.as_str().to_lowercase(),
            _ => raised.flag.to_string(),
        };
        shown.push_str(&if raised.is_open() { format!(" {name}") } else { format!(" [{name}]") });
    }
    shown
}

/// Checks `facts => outcome` lines, each in the order written, reversed, and doubled.
fn check(table: &str) {
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (text, expected) = line.split_once("=>").expect(line);
        assert_eq!(shown(text), expected.trim(), "{line}");
        let set = facts(text);
        let (folded, version) = known(&set);
        let reversed: Vec<_> = set.iter().rev().cloned().collect();
        assert_eq!(summarize(&known(&reversed).0), summarize(&folded), "reversed: {line}");
        let doubled: Vec<_> = set.iter().chain(&set).cloned().collect();
        assert_eq!(known(&doubled), (folded, version), "doubled: {line}");
    }
}

#[test]
fn states_come_from_what_counts() {
    check(
        "C 100                                   => REQUESTED
         C 100; O r                              => PENDING
         O r                                     => UNMATCHED
         CF refused                              => UNMATCHED
         C 100; CF refused                       => FAILED
         C 100; CF refused; O r                  => PENDING
         C 100; CF refused; O r; S r 100         => PAID fulfil
         C 100; CF refused; R r 100              => REFUNDED REFUND_WITHOUT_SUCCESS
         C 100; X 10:30                          => EXPIRED
         C 100; O r <10:17; X 10:16              => PENDING
         C 100; O r <10:17; X 10:17              => EXPIRED
         C 100; O r <10:17; X 10:18              => EXPIRED
         C 100; O r <10:17; O q <10:20; X 10:17  => PENDING SECOND_SESSION
         C 100; O r; E r 100                     => EXPIRED
         C 100; O r; E r 100; F q 100            => FAILED
         C 100; O r; F r 99                      => PENDING AMOUNT_MISMATCH
         C 100; O r; S r 99                      => PENDING AMOUNT_MISMATCH
         C 100; S r 99 EUR                       => REQUESTED AMOUNT_MISMATCH CURRENCY_MISMATCH
         C 100; S r 100                          => PAID fulfil
         C 100; S r 100; R r 100                 => REFUNDED
         C 100; S r 100; R r 100; S q 100        => PAID fulfil
         C 100; S r 100; R q 100                 => PAID REFUND_WITHOUT_SUCCESS
         C 100; S r 100; X 10:30                 => PAID fulfil
         C 100; S r 100 unconfirmed; X 10:30     => EXPIRED UNCONFIRMED
         C 100; O r; S r 100 unconfirmed         => UNCONFIRMED UNCONFIRMED
         C 100; CF refused; S r 100 unconfirmed  => FAILED UNCONFIRMED
         C 100; P S r 100                        => PAID fulfil settled_by_query
         C 100; P F r 100                        => FAILED settled_by_query
         C 100; P E r 100                        => EXPIRED settled_by_query
         C 100; P R r 100                        => REFUNDED REFUND_WITHOUT_SUCCESS settled_by_query
         S r 100                                 => UNMATCHED UNKNOWN_ORDER
         P S r 100                               => UNMATCHED UNKNOWN_ORDER
         S r 100; O r; R r 50; X 10:30           => UNMATCHED UNKNOWN_ORDER",
    );
}

#[test]
fn each_flag_is_raised_and_cleared_by_the_facts_alone() {
    check(
        "C 100; S r 101                          => REQUESTED AMOUNT_MISMATCH
         C 100; P S r 101                        => REQUESTED AMOUNT_MISMATCH
         C 100; R r 101                          => REQUESTED AMOUNT_MISMATCH REFUND_WITHOUT_SUCCESS
         C 100; S r 100 EUR                      => REQUESTED CURRENCY_MISMATCH
         C 100; S r 100; R r 50 EUR              => PAID AMOUNT_MISMATCH CURRENCY_MISMATCH
         C 100; S r 100; R r 50                  => PAID fulfil PARTIAL_REFUND
         C 100; C 200; S r 200                   => PAID CREATE_CONFLICT
         C 100; C 200 EUR; S r 200               => REQUESTED AMOUNT_MISMATCH CREATE_CONFLICT
         C 100; C 100 #2; S r 100                => PAID CREATE_CONFLICT
         C 100; S r 100 @10:01; S r 100 @10:02   => PAID fulfil content_variant
         C 100; S r 100; S r 101                 => PAID AMOUNT_MISMATCH CONTENT_VARIANT
         C 100; C 101; S r 100; S r 101          => PAID CONTENT_VARIANT CREATE_CONFLICT
         C 100; F r 100; F r 100 EUR             => FAILED CURRENCY_MISMATCH CONTENT_VARIANT
         C 100; S r 100 !a; S r 100 !b           => PAID fulfil content_variant
         C 100; P S r 100; P S r 101; S r 100    => PAID AMOUNT_MISMATCH
         C 100; S r 100; S q 100                 => PAID DOUBLE_PAYMENT
         C 100; S r 100; S q 100; R q 100        => PAID fulfil
         C 100; S r 100; S q 100; R q 50         => PAID DOUBLE_PAYMENT PARTIAL_REFUND
         C 100; S r 100; P S q 100               => PAID DOUBLE_PAYMENT settled_by_query
         C 100; S r 100; K r other               => PAID PROVIDER_REF_REUSED
         C 100; O r; O q; S r 100                => PAID SECOND_SESSION
         C 100; O r <10:17; O r <10:18           => PENDING SECOND_SESSION
         C 100; S r 100; F r 100                 => PAID fulfil SUCCESS_AND_FAILED
         C 100; S r 100; F q 100                 => PAID fulfil
         C 100; S r 100; E r 100                 => PAID fulfil SUCCESS_AND_EXPIRED
         C 100; P E r 100; P S r 100             => PAID fulfil SUCCESS_AND_EXPIRED settled_by_query
         C 100; O r <10:17; S r 100 @10:17       => PAID fulfil
         C 100; O r <10:17; S r 100 @10:18       => PAID fulfil PAID_AFTER_DEADLINE
         C 100; O r <10:17; S r 101 @10:18       => PENDING AMOUNT_MISMATCH
         C 100; O q <10:17; S r 100 @10:18       => PAID fulfil PAID_AFTER_DEADLINE
         C 100; O r <10:17; O q <10:20; S r 100 @10:18 => PAID SECOND_SESSION PAID_AFTER_DEADLINE
         C 100; O r <10:17; O q <10:20; S q 100 @10:18 => PAID SECOND_SESSION
         C 100; O r <10:17; O q <10:20; S p 100 @10:18 => PAID SECOND_SESSION
         C 100; S r 100 @23:00                   => PAID fulfil
         C 100; R r 100                          => REFUNDED REFUND_WITHOUT_SUCCESS
         C 100; R r 100; S r 101                 => REFUNDED AMOUNT_MISMATCH
         C 100; S r 100; R r 100; F r 100        => REFUNDED SUCCESS_AND_FAILED REFUND_AND_NEGATIVE
         C 100; S r 100; R r 100; F q 100        => REFUNDED
         C 100; S r 100; F r 100; P F r 100      => PAID fulfil SUCCESS_AND_FAILED QUERY_DISAGREES
         C 100; F r 100; P S r 100               => PAID fulfil SUCCESS_AND_FAILED QUERY_DISAGREES settled_by_query
         C 100; F r 100; P E r 100               => FAILED settled_by_query
         C 100; S r 100; P R q 100               => PAID REFUND_WITHOUT_SUCCESS settled_by_query
         C 100; S r 100 unconfirmed              => UNCONFIRMED UNCONFIRMED
         C 100; S r 100 unconfirmed; P S r 100   => PAID fulfil
         C 100; S r 100 unconfirmed; P S r 99    => UNCONFIRMED AMOUNT_MISMATCH UNCONFIRMED
         C 100; S r 99 unconfirmed               => UNCONFIRMED UNCONFIRMED
         C 100; S r 100; S r 99 unconfirmed      => PAID fulfil UNCONFIRMED
         C 100; S r 100; S r 9 EUR unconfirmed   => PAID fulfil UNCONFIRMED
         C 100; S r 100; R q 100 unconfirmed     => PAID fulfil UNCONFIRMED
         C 100; S r 100; F r 100 unconfirmed     => PAID fulfil UNCONFIRMED
         C 100; S r 99 unconfirmed; P S r 100    => PAID fulfil UNCONFIRMED settled_by_query
         C 100; S r 100 unconfirmed; P S q 100   => PAID fulfil UNCONFIRMED settled_by_query
         C 100; S r 100 unconfirmed; S r 100     => PAID fulfil
         C 100; S r 100; R r 50 unconfirmed      => PAID fulfil UNCONFIRMED
         C 100; S r 100; R r 50 unconfirmed; P R r 50 => PAID fulfil PARTIAL_REFUND
         C 100; O r; S q 100 session             => PAID fulfil PROVIDER_REF_UNEXPECTED
         C 100; O r; O q; S q 100 session        => PAID SECOND_SESSION
         C 100; S q 100 session                  => PAID fulfil
         C 100; O r; S q 100; S q 100 session    => PAID fulfil PROVIDER_REF_UNEXPECTED",
    );
}

#[test]
fn the_shown_fields_are_chosen_by_rule() {
    let two = summary("C 200 #2 <10:40; C 100 #1 <10:30");
    assert_eq!((two.amount, two.attempt, two.deadline), (Some(100), Some(1), Some(at("10:40"))));
    let session = summary("C 100 <10:40; O q <10:17; O p <10:20; S q 100 @10:02; S q 100 @10:01");
    assert_eq!(session.session_ref.unwrap().as_str(), "q");
    assert_eq!(session.payment_ref.unwrap().as_str(), "q");
    assert_eq!((session.paid_at, session.deadline), (Some(at("10:01")), Some(at("10:20"))));
    let foreign = summary("C 100; O q; O p; S z 100; S a 101 @10:00; S y 100; R y 100");
    assert_eq!(foreign.session_ref.unwrap().as_str(), "p");
    assert_eq!(foreign.payment_ref.unwrap().as_str(), "z");
    assert_eq!(foreign.paid_at, None);
    assert_eq!(summary("C 100; R z 100; R y 100").payment_ref.unwrap().as_str(), "y");
    assert_eq!(summary("S r 100").reference, None);
}

fn decide(id: &str, flag: Flag, evidence: Digest, verdict: &str) -> String {
    format!("; D {id} {flag} {evidence} {verdict}")
}

fn evidence(text: &str, flag: Flag) -> Digest {
    let summary = summary(text);
    summary.flags.iter().find(|raised| raised.flag == flag).expect("the flag holds").evidence
}

#[test]
fn a_decision_closes_a_flag_while_its_evidence_stands() {
    let text = "C 100; S r 100; S r 101";
    let variant = decide("d1", Flag::ContentVariant, evidence(text, Flag::ContentVariant), "ours");
    let amount = decide("d2", Flag::AmountMismatch, evidence(text, Flag::AmountMismatch), "ours");
    let one = format!("{text}{variant}");
    let both = format!("{one}{amount}");
    check(&format!("{one} => PAID AMOUNT_MISMATCH [CONTENT_VARIANT]"));
    check(&format!("{both} => PAID fulfil [AMOUNT_MISMATCH] [CONTENT_VARIANT]"));
    // Facts that are no evidence change nothing; a fact that is evidence reopens the flag.
    check(&format!(
        "{both}; X 10:30; K r o => PAID [AMOUNT_MISMATCH] [CONTENT_VARIANT] PROVIDER_REF_REUSED"
    ));
    check(&format!("{both}; S r 102 => PAID AMOUNT_MISMATCH CONTENT_VARIANT"));
    check(&format!("{both}; F q 99 => PAID AMOUNT_MISMATCH [CONTENT_VARIANT]"));
    // A decision on another flag with the same evidence closes nothing.
    let stray = decide("d3", Flag::AmountMismatch, evidence(text, Flag::ContentVariant), "ours");
    check(&format!("{text}{stray} => PAID AMOUNT_MISMATCH CONTENT_VARIANT"));
}

#[test]
fn decisions_that_disagree_close_nothing() {
    let text = "C 100; S r 100; S q 100";
    let on = evidence(text, Flag::DoublePayment);
    let first = decide("d1", Flag::DoublePayment, on, "ours");
    let again = decide("d0", Flag::DoublePayment, on, "ours");
    let other = decide("d2", Flag::DoublePayment, on, "write-off");
    check(&format!("{text}{first} => PAID fulfil [DOUBLE_PAYMENT]"));
    check(&format!("{text}{first}{again} => PAID fulfil [DOUBLE_PAYMENT]"));
    let agreed = summary(&format!("{text}{first}{again}"));
    assert_eq!(agreed.flags[0].decided_by.as_deref(), Some("d0"));
    let torn = format!("{text}{first}{other}");
    check(&format!("{torn} => PAID DOUBLE_PAYMENT DECISIONS_CONFLICT"));
    // The conflict itself can be decided; that closes the conflict, not the flag.
    let conflict = evidence(&torn, Flag::DecisionsConflict);
    let settled = decide("d3", Flag::DecisionsConflict, conflict, "ours");
    check(&format!("{torn}{settled} => PAID DOUBLE_PAYMENT [DECISIONS_CONFLICT]"));
    let unsettled = decide("d4", Flag::DecisionsConflict, conflict, "partner");
    check(&format!("{torn}{settled}{unsettled} => PAID DOUBLE_PAYMENT DECISIONS_CONFLICT"));
}

#[test]
fn apply_returns_the_effect_of_each_fact() {
    let mut known = KnownFacts::default();
    let mut effects = |text: &str| apply(&mut known, &fact(text), Position::default());
    assert_eq!(effects("C 100"), Effect::Added);
    assert_eq!(effects("C 100"), Effect::Unchanged);
    assert_eq!(effects("S r 100 unconfirmed"), Effect::Added);
    assert_eq!(effects("S r 100 unconfirmed"), Effect::Unchanged);
    assert_eq!(effects("S r 100"), Effect::Merged);
    assert_eq!(effects("S r 100 unconfirmed"), Effect::Unchanged);
    assert_eq!(effects("S r 100 session"), Effect::Merged);
    assert_eq!(known.ipns.len(), 1);
}

/// Folds facts made from numbers and checks the effects.
fn flood(before: &str, numbers: std::ops::Range<u32>, make: impl Fn(u32) -> String) -> KnownFacts {
    let mut set = facts(before);
    set.extend(numbers.map(|n| fact(&make(n))));
    let (forward, _) = known(&set);
    set.reverse();
    let (backward, _) = known(&set);
    if !before.starts_with('C') {
        let contents = |known: &KnownFacts| format!("{:?}", summarize(known));
        assert_eq!(
            contents(&forward),
            contents(&backward),
            "what is kept depends on the set alone"
        );
    }
    forward
}

#[test]
fn lists_are_capped_and_marked() {
    let amounts = |status: &'static str| move |n: u32| format!("{status} r {}", 1000 + n);
    let ipns = flood("F q 5", 0..8, amounts("S"));
    assert_eq!((ipns.ipns.len(), ipns.overflowed), (9, false));
    let ipns = flood("F q 5", 0..100, amounts("S"));
    assert_eq!((ipns.ipns.len(), ipns.overflowed), (9, true));
    let answers = flood("F q 5", 0..100, amounts("P S"));
    assert_eq!((answers.query_answers.len(), answers.overflowed), (8, true));
    let refs = |n: u32| format!("{} r{n} 5", if n.is_multiple_of(2) { "S" } else { "P F" });
    let few = flood("X 10:00", 0..32, refs);
    assert_eq!((few.ipns.len() + few.query_answers.len(), few.overflowed), (32, false));
    let many = flood("X 10:00", 0..100, refs);
    assert_eq!((many.ipns.len() + many.query_answers.len(), many.overflowed), (32, true));
    let creates = flood("X 10:00", 1..20, |n| format!("C {n}"));
    assert_eq!((creates.creates.len(), creates.overflowed), (8, true));
    let sessions = flood("X 10:00", 0..20, |n| format!("O r{n}"));
    assert_eq!((sessions.sessions.len(), sessions.overflowed), (8, true));
    let failures = flood("X 10:00", 0..20, |n| format!("CF code{n}"));
    assert_eq!((failures.create_failures.len(), failures.overflowed), (8, true));
    let deadlines = flood("CF code", 10..30, |n| format!("X 10:{n}"));
    assert_eq!((deadlines.deadlines_passed.len(), deadlines.overflowed), (8, true));
    let shared = flood("X 10:00", 0..40, |n| format!("K r o{n}"));
    assert_eq!((shared.shared_refs.len(), shared.overflowed), (32, true));
    let decided = |n| format!("D d{n} UNKNOWN_ORDER {} ours", Digest::of_bytes(b""));
    let decisions = flood("X 10:00", 0..80, decided);
    assert_eq!((decisions.decisions.len(), decisions.overflowed), (64, true));
}

#[test]
fn unconfirmed_notices_are_left_out_first_and_marked_apart() {
    let flood = |make: fn(u32) -> String| (0..40).map(make).collect::<Vec<_>>().join("; ");
    let contents = flood(|n| format!("S r {} unconfirmed", 1000 + n));
    let refs = flood(|n| format!("S r{n} 5 unconfirmed"));
    let own = "C 7; O r; S r 7";
    for flood in [&contents, &refs] {
        for text in [format!("{own}; {flood}"), format!("{flood}; {own}")] {
            assert_eq!(shown(&text), "PAID fulfil UNCONFIRMED FACT_OVERFLOW");
        }
    }
    // A decision on what is left of them closes nothing that the loss of another fact raises.
    let mut text = format!("{own}; {refs}");
    text.push_str(&decide("d1", Flag::FactOverflow, evidence(&text, Flag::FactOverflow), "ours"));
    assert_eq!(shown(&text), "PAID fulfil UNCONFIRMED [FACT_OVERFLOW]");
    (0..9).for_each(|n| text.push_str(&format!("; CF c{n}")));
    assert_eq!(shown(&text), "PAID UNCONFIRMED [FACT_OVERFLOW] FACT_OVERFLOW");
}

#[test]
fn a_flood_never_pushes_out_the_true_payment_or_the_session() {
    for n in 0..20 {
        let own = flood(&format!("C {}; S r {}", 1000 + n, 1000 + n), 0..40, |n| {
            format!("S r {}", 1000 + n)
        });
        let summary = summarize(&own);
        assert_eq!(summary.state.as_str(), "PAID");
        assert!(!summary.fulfil && summary.attention().any(|flag| flag == Flag::FactOverflow));
    }
    // The same of query answers, which have a cap of their own.
    for n in 0..20 {
        let own = format!("C {}; P S r {}", 1000 + n, 1000 + n);
        let own = flood(&own, 0..40, |n| format!("P S r {}", 1000 + n));
        let summary = summarize(&own);
        assert_eq!((summary.state.as_str(), summary.fulfil), ("PAID", false), "{n}");
    }
    let refs = flood("C 7; O mine; E mine 5; S paid 7", 0..100, |n| format!("F r{n} 5"));
    let kept = |name: &str| refs.ipns.iter().any(|k| k.content.provider_ref.as_str() == name);
    assert!(kept("mine") && kept("paid") && refs.ipns.len() == 32);
}

#[test]
fn an_overflow_is_an_effect_once_and_a_displacement_each_time() {
    let mut known = KnownFacts::default();
    let effects: Vec<_> = (0..100)
        .map(|n| apply(&mut known, &fact(&format!("CF code{n}")), Position::default()))
        .collect();
    assert!(effects[..8].iter().all(|effect| *effect == Effect::Added));
    assert_eq!(effects[8], Effect::Overflowed);
    assert!(effects[8..].contains(&Effect::Unchanged));
    // A fact that was left out or displaced is left out a second time.
    for n in 0..100 {
        let effect = apply(&mut known, &fact(&format!("CF code{n}")), Position::default());
        assert_eq!(effect, Effect::Unchanged);
    }
}

#[test]
fn an_overflow_can_be_decided() {
    let mut text: String = "C 1000; S r 1000".into();
    for n in 0..9 {
        text.push_str(&format!("; CF c{n}"));
    }
    assert_eq!(shown(&text), "PAID FACT_OVERFLOW");
    text.push_str(&decide("d1", Flag::FactOverflow, evidence(&text, Flag::FactOverflow), "ours"));
    assert_eq!(shown(&text), "PAID fulfil [FACT_OVERFLOW]");
    let unsigned = format!("{text}; F q 1000 unconfirmed");
    assert_eq!(shown(&unsigned), "PAID fulfil UNCONFIRMED [FACT_OVERFLOW]");
    text.push_str("; F q 1000");
    assert_eq!(shown(&text), "PAID FACT_OVERFLOW");
}

/// Prints what one fact costs: `cargo test --release … what_a_fact_costs -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn what_a_fact_costs() {
    let set = facts("C 100; O r; S r 100 @10:05; S r 100 @10:05; X 10:17");
    let rounds = 200_000_u32;
    let start = std::time::Instant::now();
    for _ in 0..rounds {
        let mut known = KnownFacts::default();
        for fact in &set {
            apply(&mut known, fact, Position::default());
            std::hint::black_box(summarize(&known));
        }
    }
    println!("{:?} for apply and summarize of one fact", start.elapsed() / rounds / 5);
}

/// A flag with several severities has a row for each; the later rows omit its name.
#[test]
fn the_docs_hold_the_table_of_flags() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/order-state.md");
    let text = std::fs::read_to_string(path).expect("the document is there");
    let rows =
        text.split_once("| Flag | Holds when | Severity |\n|---|---|---|\n").expect("the table").1;
    let mut name = "";
    let mut documented = Vec::new();
    for row in rows.lines().take_while(|row| row.starts_with('|')) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        name = if cells[0].is_empty() { name } else { cells[0] };
        documented.push(format!("{name} {}", cells[cells.len() - 1]));
    }
    let severities = |flag: Flag| {
        let all = flags::severities(flag).iter();
        all.map(move |severity| format!("{} {}", flag.as_str(), severity.as_str()))
    };
    let mut declared: Vec<_> = Flag::ALL.into_iter().flat_map(severities).collect();
    documented.sort();
    declared.sort();
    assert_eq!(documented, declared, "docs/order-state.md (left) and `severities` (right)");
}
