//! Owns the laws of the oracle alone: that the text it was written from is coherent, and the worlds reach it all.

use std::collections::BTreeSet;

use payfold_schemas::fact::Fact;
use payfold_schemas::order::{Flag, OrderState};
use proptest::prelude::*;

use crate::support::oracle::{Expected, Oracle};
use crate::support::worlds::{FACTS_MAX, decided, hold, shuffled, with_decisions, world, worlds};

fn oracle(facts: &[Fact]) -> Expected {
    Oracle::of(facts).expect(|_, _| None)
}

/// What may differ between two orders of arrival: how many records changed the set (policy merges).
fn without_version(expected: Expected) -> Expected {
    Expected { version: 0, ..expected }
}

#[test]
fn the_oracle_does_not_mind_order() {
    hold(shuffled(), |(facts, others)| {
        prop_assert_eq!(without_version(oracle(&facts)), without_version(oracle(&others)));
        Ok(())
    });
}

#[test]
fn in_the_oracle_paid_falls_only_to_refunded() {
    hold(world(FACTS_MAX), |facts| {
        let before = oracle(&facts[..facts.len().saturating_sub(1)]).state;
        let after = oracle(&facts).state;
        let fell = before == OrderState::Paid && after != OrderState::Paid;
        prop_assert!(!fell || after == OrderState::Refunded, "{before} {after}");
        Ok(())
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
        Ok(())
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
    assert!(fulfilled > worlds() / 40, "only {fulfilled} worlds are fulfilled");
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
                prop_assert!(flag == Flag::DecisionsConflict, "{flag} came with a decision");
                continue;
            };
            let verdicts = all.iter().filter_map(|fact| match fact {
                Fact::Decided(d) if (d.flag, d.evidence) == (flag, evidence) => Some(d.accept),
                _ => None,
            });
            let verdicts: BTreeSet<_> = verdicts.collect();
            prop_assert_eq!(open, verdicts.len() != 1, "{} with {:?}", flag, verdicts);
        }
        Ok(())
    });
}
