//! Owns the laws of order-state.md as property tests over generated worlds.

use std::collections::BTreeSet;

use payfold_schemas::digest::Digest;
use payfold_schemas::fact::{Fact, Verdict};
use payfold_schemas::order::{Flag, OrderState};
use proptest::prelude::*;

use crate::support::oracle::{Expected, Oracle};
use crate::support::worlds::{decision, hold, world};

/// Few enough facts that no cap is reached in most worlds, enough that everything collides.
const FACTS_MAX: usize = 40;

fn oracle(facts: &[Fact]) -> Expected {
    Oracle::of(facts).expect(|_, _| None)
}

/// A world and the same facts in another order.
fn shuffled() -> impl Strategy<Value = (Vec<Fact>, Vec<Fact>)> {
    world(FACTS_MAX).prop_flat_map(|facts| (Just(facts.clone()), Just(facts).prop_shuffle()))
}

/// What may differ between two orders of arrival: how many records changed the set (policy merges).
fn without_version(expected: Expected) -> Expected {
    Expected { version: 0, ..expected }
}

#[test]
fn the_oracle_does_not_mind_order() {
    hold(shuffled(), |(facts, others)| {
        assert_eq!(without_version(oracle(&facts)), without_version(oracle(&others)));
    });
}

#[test]
fn in_the_oracle_paid_falls_only_to_refunded() {
    hold(world(FACTS_MAX), |facts| {
        let before = oracle(&facts[..facts.len().saturating_sub(1)]).state;
        let after = oracle(&facts).state;
        let fell = before == OrderState::Paid && after != OrderState::Paid;
        assert!(!fell || after == OrderState::Refunded, "{before} {after}");
    });
}

/// A generator that never reaches a state or a flag would let every law about it hold.
#[test]
fn the_worlds_reach_every_state_and_flag() {
    let seen = std::cell::RefCell::new((BTreeSet::new(), BTreeSet::new(), 0_u32));
    hold(world(FACTS_MAX), |facts| {
        let shown = oracle(&facts);
        let mut seen = seen.borrow_mut();
        seen.0.insert(shown.state);
        seen.1.extend(shown.flags.iter().map(|(flag, _, _)| *flag));
        seen.2 += u32::from(shown.fulfil);
    });
    let (states, flags, fulfilled) = seen.into_inner();
    assert_eq!(states.len(), OrderState::ALL.len(), "reached {states:?}");
    // Decisions are made by the laws about them; overflow has worlds of its own.
    let apart = [Flag::DecisionsConflict, Flag::FactOverflow];
    let missing: Vec<_> = Flag::ALL
        .into_iter()
        .filter(|flag| !apart.contains(flag) && !flags.contains(flag))
        .collect();
    assert!(missing.is_empty(), "no world raises {missing:?}");
    assert!(fulfilled > 500, "only {fulfilled} worlds are fulfilled");
}

/// A world, and who decides what: which raised flag, with which verdict, inserted where.
fn decided() -> impl Strategy<Value = (Vec<Fact>, Vec<(usize, usize, usize)>)> {
    (world(12), prop::collection::vec((0..8_usize, 0..2_usize, 0..12_usize), 1..4))
}

/// The world with those decisions in it, each on a flag some prefix of the world raises.
fn with_decisions(
    facts: &[Fact],
    picks: &[(usize, usize, usize)],
    raised: impl Fn(&[Fact]) -> Vec<(Flag, Digest)>,
) -> Vec<Fact> {
    let mut all = facts.to_vec();
    for (which, verdict, place) in picks {
        // A decision on half the facts may be stale by the end: it must not close anything then.
        let known = if which % 2 == 0 { facts } else { &facts[..facts.len() / 2] };
        let raised = raised(known);
        if let Some((flag, evidence)) = raised.get(which % raised.len().max(1)) {
            let accept = [Verdict::Ours, Verdict::Partner][*verdict];
            all.insert(place % (all.len() + 1), decision(*flag, *evidence, accept));
        }
    }
    all
}

#[test]
fn in_the_oracle_only_a_decision_on_its_evidence_closes_a_flag() {
    let raised = |facts: &[Fact]| -> Vec<_> {
        let raised = Oracle::of(facts).raised();
        raised.into_iter().map(|((flag, _), evidence)| (flag, evidence)).collect()
    };
    hold(decided(), |(facts, picks)| {
        let all = with_decisions(&facts, &picks, raised);
        let undecided = Oracle::of(&facts);
        let oracle = Oracle::of(&all);
        let named = oracle.raised();
        for (flag, severity, open) in oracle.expect(|f, s| named.get(&(f, s)).copied()).flags {
            let Some(evidence) = undecided.raised().get(&(flag, severity)).copied() else {
                assert!(flag == Flag::DecisionsConflict, "{flag} came with a decision");
                continue;
            };
            let verdicts = all.iter().filter_map(|fact| match fact {
                Fact::Decided(d) if (d.flag, d.evidence) == (flag, evidence) => Some(d.accept),
                _ => None,
            });
            let verdicts: BTreeSet<_> = verdicts.collect();
            assert_eq!(open, verdicts.len() != 1, "{flag} with {verdicts:?}");
        }
    });
}
