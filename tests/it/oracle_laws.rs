//! Owns the laws of the oracle alone: the text it was written from is coherent, and the worlds
//! reach every state and flag.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use payfold_schemas::fact::Fact;
use payfold_schemas::order::{Flag, OrderState};
use proptest::prelude::*;

use crate::support::oracle::{Expected, Oracle};
use crate::support::worlds::{Drawn, Outcome, drawn, hold, worlds};

fn oracle(facts: &[Fact]) -> Expected {
    Oracle::of(facts).expect(|_, _| None)
}

/// The difference that two orders of arrival may have: how many records changed the set (policy
/// merges).
fn without_version(expected: Expected) -> Expected {
    Expected { version: 0, ..expected }
}

/// What the worlds have shown so far.
#[derive(Default)]
struct Seen {
    states: BTreeSet<OrderState>,
    flags: BTreeSet<Flag>,
    fulfilled: u32,
}

#[test]
fn every_law_holds_in_every_world_and_the_worlds_reach_it_all() {
    let seen = RefCell::new(Seen::default());
    hold(drawn(), |drawn| {
        let shown = oracle(&drawn.facts);
        order_does_not_matter(&drawn, &shown)?;
        paid_falls_only_to_refunded(&drawn, &shown)?;
        only_a_decision_on_its_evidence_closes_a_flag(&drawn)?;
        let mut seen = seen.borrow_mut();
        seen.states.insert(shown.state);
        seen.flags.extend(shown.flags.iter().map(|(flag, _, _)| *flag));
        seen.fulfilled += u32::from(shown.fulfil);
        Ok(())
    });
    // A generator that never reaches a state or a flag would let every law about it hold.
    let seen = seen.into_inner();
    assert_eq!(seen.states.len(), OrderState::ALL.len(), "reached {:?}", seen.states);
    // Decisions are made by the law about them; overflow has worlds of its own.
    let apart = |flag: &Flag| matches!(flag, Flag::DecisionsConflict | Flag::FactOverflow);
    let mut missing = Flag::ALL.into_iter().filter(|flag| !apart(flag));
    assert_eq!(missing.find(|flag| !seen.flags.contains(flag)), None, "no world raises it");
    assert!(seen.fulfilled > worlds() / 40, "only {} worlds are fulfilled", seen.fulfilled);
}

fn order_does_not_matter(drawn: &Drawn, shown: &Expected) -> Outcome {
    let other = without_version(oracle(&drawn.shuffled()));
    prop_assert_eq!(without_version(shown.clone()), other);
    Ok(())
}

fn paid_falls_only_to_refunded(drawn: &Drawn, shown: &Expected) -> Outcome {
    let before = oracle(&drawn.facts[..drawn.facts.len().saturating_sub(1)]).state;
    let fell = before == OrderState::Paid && shown.state != OrderState::Paid;
    prop_assert!(!fell || shown.state == OrderState::Refunded, "PAID fell to {}", shown.state);
    Ok(())
}

fn only_a_decision_on_its_evidence_closes_a_flag(drawn: &Drawn) -> Outcome {
    let raised = |facts: &[Fact]| -> Vec<_> {
        let raised = Oracle::of(facts).raised();
        raised.into_iter().map(|((flag, _), evidence)| (flag, evidence)).collect()
    };
    let all = drawn.with_decisions(raised);
    let (decisions, facts): (Vec<_>, Vec<_>) =
        all.iter().cloned().partition(|fact| matches!(fact, Fact::Decided(_)));
    let mut standing = BTreeMap::new();
    for fact in &decisions {
        let Fact::Decided(decision) = fact else { continue };
        let known = standing.entry(&decision.id).or_insert(decision);
        *known = decision.min(*known);
    }
    let undecided = Oracle::of(&facts).raised();
    let oracle = Oracle::of(&all);
    let named = oracle.raised();
    for (flag, severity, open) in oracle.expect(|f, s| named.get(&(f, s)).copied()).flags {
        let Some(evidence) = undecided.get(&(flag, severity)).copied() else {
            prop_assert!(flag == Flag::DecisionsConflict, "{flag} came with a decision");
            continue;
        };
        let on_it = standing.values().filter(|d| (d.flag, d.evidence) == (flag, evidence));
        let verdicts: BTreeSet<_> = on_it.map(|decision| decision.accept).collect();
        prop_assert_eq!(open, verdicts.len() != 1, "{} with {:?}", flag, verdicts);
    }
    Ok(())
}
