//! Owns the laws of order-state.md over generated worlds: the fold against itself and against the oracle.

use std::collections::BTreeMap;

use payfold_projector::fold::{apply, summarize};
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::{Fact, QueryAnswer};
use payfold_schemas::ipn::{Ipn, Status};
use payfold_schemas::order::{Flag, KnownFacts, OrderState, Severity, Summary};
use payfold_schemas::record::Position;
use proptest::prelude::*;

use crate::support::oracle::{Expected, Oracle, Overflow};
use crate::support::worlds::{FACTS_MAX, Outcome, decided, hold, shuffled, with_decisions, world};

/// Folds facts into what is known, all at one position so that equal sets are equal values; how many of
/// them changed it.
fn learn(known: &mut KnownFacts, facts: &[Fact]) -> u64 {
    let changes = facts.iter().filter(|fact| apply(known, fact, Position::default()).is_change());
    u64::try_from(changes.count()).expect("worlds are small")
}

fn fold(facts: &[Fact]) -> (KnownFacts, u64) {
    let mut known = KnownFacts::default();
    let version = learn(&mut known, facts);
    (known, version)
}

fn summary(facts: &[Fact]) -> Summary {
    summarize(&fold(facts).0)
}

fn evidence(summary: &Summary) -> BTreeMap<(Flag, Severity), Digest> {
    summary.flags.iter().map(|raised| ((raised.flag, raised.severity), raised.evidence)).collect()
}

/// Worlds in which the fold and the oracle read the law differently, each to be settled and taken out here:
/// a query's answer without C (UNKNOWN_ORDER); variants of both severities; an answer's partial refund beside
/// named ones of its ref; named refunds where two C differ (they are compared with the largest).
fn is_unsettled(facts: &[Fact], oracle: &Oracle) -> bool {
    let raised = oracle.raised();
    let raises = |flag, severity| raised.contains_key(&(flag, severity));
    let named = |ipn: &&Ipn| ipn.status == Status::Refunded && ipn.money.event_ref.is_some();
    let named: Vec<_> = facts.iter().filter_map(as_ipn).filter(named).collect();
    let mut answers = facts.iter().filter_map(as_answer);
    let beside_named = answers.clone().any(|answer| {
        answer.status == Status::Refunded
            && named.iter().any(|ipn| ipn.provider_ref == answer.provider_ref)
    });
    (raises(Flag::UnknownOrder, Severity::High) && answers.next().is_some())
        || (raises(Flag::ContentVariant, Severity::Info)
            && raises(Flag::ContentVariant, Severity::Critical))
        || (raises(Flag::CreateConflict, Severity::Critical) && !named.is_empty())
        || beside_named
}

fn as_ipn(fact: &Fact) -> Option<&Ipn> {
    if let Fact::Ipn(ipn) = fact { Some(ipn) } else { None }
}

fn as_answer(fact: &Fact) -> Option<&QueryAnswer> {
    if let Fact::QueryAnswered(answer) = fact { Some(answer) } else { None }
}

/// The fold shows what the oracle expects; with an overflow, only what is promised then.
fn agrees(facts: &[Fact]) -> Outcome {
    let (known, version) = fold(facts);
    let summary = summarize(&known);
    let oracle = Oracle::of(facts);
    if is_unsettled(facts, &oracle) {
        return Ok(());
    }
    match oracle.overflow() {
        Overflow::Never => {
            let named = evidence(&summary);
            let expected = oracle.expect(|flag, severity| named.get(&(flag, severity)).copied());
            prop_assert_eq!(
                &Expected::shown(&summary, version),
                &expected,
                "fold (left) and oracle (right)"
            );
            prop_assert_eq!(summary.flags.len(), expected.flags.len(), "a flag is raised twice");
        }
        Overflow::Maybe => prop_assert!(!known.overflowed || !summary.fulfil),
        Overflow::Surely => {
            prop_assert!(known.overflowed && !summary.fulfil);
            prop_assert!(
                evidence(&summary).contains_key(&(Flag::FactOverflow, Severity::Critical))
            );
        }
    }
    Ok(())
}

#[test]
fn the_fold_agrees_with_the_oracle() {
    hold(world(FACTS_MAX), |facts| agrees(&facts));
}

#[test]
fn with_decisions_the_fold_agrees_with_the_oracle() {
    let raised = |facts: &[Fact]| {
        summary(facts).flags.into_iter().map(|raised| (raised.flag, raised.evidence)).collect()
    };
    hold(decided(), |(facts, picks)| agrees(&with_decisions(&facts, &picks, raised)));
}

#[test]
fn arrival_order_does_not_matter() {
    hold(shuffled(), |(facts, others)| {
        let (known, other) = (fold(&facts).0, fold(&others).0);
        // With an overflow what is kept may depend on order; fulfil is false then, whatever was kept.
        if known.overflowed || other.overflowed {
            prop_assert!(
                known.overflowed && other.overflowed,
                "one order overflows, the other does not"
            );
            prop_assert!(!summarize(&known).fulfil && !summarize(&other).fulfil);
        } else {
            prop_assert_eq!(&known, &other);
            prop_assert_eq!(summarize(&known), summarize(&other));
        }
        Ok(())
    });
}

#[test]
fn duplicates_do_not_matter() {
    let repeats = prop::collection::vec(any::<prop::sample::Index>(), 0..20);
    hold((world(FACTS_MAX), repeats), |(facts, repeats)| {
        let (known, _) = fold(&facts);
        let mut again = known.clone();
        let repeated: Vec<_> = (repeats.iter().filter(|_| !facts.is_empty()))
            .map(|index| index.get(&facts).clone())
            .collect();
        let changes = learn(&mut again, &repeated);
        // What was left out may be kept when it is told again and C is known by then.
        if known.overflowed {
            prop_assert!(again.overflowed && !summarize(&again).fulfil);
        } else {
            prop_assert_eq!((&again, changes), (&known, 0));
        }
        Ok(())
    });
}

#[test]
fn batch_cuts_do_not_matter() {
    hold((world(FACTS_MAX), any::<prop::sample::Index>()), |(facts, cut)| {
        let (first, second) = facts.split_at(cut.index(facts.len() + 1));
        let (mut known, version) = fold(first);
        let row = known.clone();
        // Between two batches the order is a row: it is written, read and then goes on.
        let stored = payfold_schemas::digest::Digest::of_content("row", &known);
        known = serde_json::from_str(&serde_json::to_string(&known).expect("a row is JSON"))
            .expect("what was written is read");
        prop_assert_eq!((stored, &row), (Digest::of_content("row", &known), &known));
        let version = version + learn(&mut known, second);
        prop_assert_eq!((known, version), fold(&facts));
        Ok(())
    });
}

#[test]
fn paid_falls_only_to_refunded() {
    hold(world(FACTS_MAX), |facts| {
        let before = summary(&facts[..facts.len().saturating_sub(1)]);
        let after = summary(&facts);
        let fell = before.state == OrderState::Paid && after.state != OrderState::Paid;
        prop_assert!(!fell || after.state == OrderState::Refunded, "PAID fell to {}", after.state);
        Ok(())
    });
}

/// Which digests evidence has is the fold's affair; that they change with the facts that raise the flag is
/// not: else a decision would close what nobody looked at.
#[test]
fn evidence_changes_with_the_facts_that_raise_a_flag() {
    hold(world(FACTS_MAX), |facts| {
        let prefix = &facts[..facts.len().saturating_sub(1)];
        let (oracle, oracle_before) = (Oracle::of(&facts), Oracle::of(prefix));
        if oracle.overflow() != Overflow::Never || is_unsettled(&facts, &oracle) {
            return Ok(());
        }
        let (before, after) = (evidence(&summary(prefix)), evidence(&summary(&facts)));
        let (raised_before, raised_after) = (oracle_before.raised(), oracle.raised());
        let last = facts.last();
        for (raised, digest) in &before {
            let Some(later) = after.get(raised) else { continue };
            let changed = raised_before.get(raised) != raised_after.get(raised);
            prop_assert!(!changed || digest != later, "{:?} stays after {:?}", raised, last);
            let passed = matches!(last, Some(Fact::DeadlinePassed { .. }));
            prop_assert!(!passed || digest == later, "{:?} changes by X", raised);
        }
        Ok(())
    });
}
