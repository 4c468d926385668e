//! Owns the laws of order-state.md over generated worlds: the fold against itself and against the
//! oracle.

use std::collections::{BTreeMap, BTreeSet};

use payfold_projector::fold::{apply, summarize};
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::ProviderRef;
use payfold_schemas::order::{Flag, KnownFacts, OrderState, Severity, Summary};
use payfold_schemas::position::Position;
use proptest::prelude::*;

use crate::support::oracle::{Expected, Oracle};
use crate::support::worlds::{Drawn, Outcome, drawn, hold};

/// What a law makes of a world.
type Law = fn(&World) -> Outcome;

/// Every law, by name. All are tried on the same worlds: making one costs as much as trying it.
const LAWS: [(&str, Law); 10] = [
    ("the fold agrees with the oracle", agree),
    ("with decisions the fold agrees with the oracle", agrees_with_decisions),
    ("what is over the caps is flagged and never fulfilled", overflows_are_flagged),
    ("unconfirmed notices take nothing away", unconfirmed_take_nothing),
    ("arrival order does not matter", order_does_not_matter),
    ("duplicates do not matter", duplicates_do_not_matter),
    ("batch cuts do not matter", batch_cuts_do_not_matter),
    ("PAID falls only to REFUNDED", paid_falls_only_to_refunded),
    ("a refunded ref stays refunded", refunded_stays_refunded),
    ("evidence changes with the facts that raise a flag", evidence_changes),
];

#[test]
fn every_law_holds_in_every_world() {
    hold(drawn(), |drawn| {
        let world = World::of(drawn);
        for (name, law) in LAWS {
            law(&world).map_err(|broken| TestCaseError::fail(format!("{name}: {broken}")))?;
        }
        Ok(())
    });
}

/// A generated world and what fold and oracle make of it.
struct World {
    drawn: Drawn,
    known: KnownFacts,
    version: u64,
    summary: Summary,
    oracle: Oracle,
}

impl World {
    fn of(drawn: Drawn) -> Self {
        let (known, version) = fold(&drawn.facts);
        let (summary, oracle) = (summarize(&known), Oracle::of(&drawn.facts));
        Self { drawn, known, version, summary, oracle }
    }
}

/// Folds facts into what is known, all at one position so that equal sets are equal values; how
/// many of them changed it.
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

/// The fold shows what the oracle expects; over the caps nothing but the overflow is promised.
fn agree(World { version, summary, oracle, .. }: &World) -> Outcome {
    if oracle.overflows().is_some() {
        return Ok(());
    }
    let named = evidence(summary);
    let expected = oracle.expect(|flag, severity| named.get(&(flag, severity)).copied());
    prop_assert_eq!(
        &Expected::shown(summary, *version),
        &expected,
        "fold (left) and oracle (right); tests/support/oracle says the rules a second time"
    );
    prop_assert_eq!(summary.flags.len(), expected.flags.len(), "a flag is raised twice");
    Ok(())
}

fn agrees_with_decisions(world: &World) -> Outcome {
    let raised = |facts: &[Fact]| {
        summary(facts).flags.into_iter().map(|raised| (raised.flag, raised.evidence)).collect()
    };
    let facts = world.drawn.with_decisions(raised);
    agree(&World::of(Drawn { facts, ..world.drawn.clone() }))
}

fn overflows_are_flagged(World { known, summary, oracle, .. }: &World) -> Outcome {
    overflow_is_as_expected(known, summary, oracle)
}

/// Whether an order over the caps has the marks and the flags that the oracle expects, and is not
/// fulfilled if more than unconfirmed notices are missing. Which of these are left out, too, may
/// depend on order then.
pub fn overflow_is_as_expected(known: &KnownFacts, summary: &Summary, oracle: &Oracle) -> Outcome {
    let is_flagged = |severity| evidence(summary).contains_key(&(Flag::FactOverflow, severity));
    let marks = (known.overflowed, known.unconfirmed_left_out);
    prop_assert_eq!(marks, (is_flagged(Severity::Critical), is_flagged(Severity::High)));
    match oracle.overflows() {
        Some(Severity::Critical) => prop_assert!(known.overflowed && !summary.fulfil),
        Some(_) => prop_assert_eq!(marks, (false, true)),
        None => prop_assert_eq!(marks, (false, false)),
    }
    Ok(())
}

/// Who can't sign changes no more of an order than that somebody has said something.
fn unconfirmed_take_nothing(World { drawn, summary: whole, oracle, .. }: &World) -> Outcome {
    if oracle.overflows().is_some() {
        return Ok(());
    }
    let confirmed: Vec<_> =
        drawn.facts.iter().filter(|fact| !oracle.is_left_unconfirmed(fact)).cloned().collect();
    let without = summary(&confirmed);
    let money = |summary: &Summary| {
        let Summary { paid_amount, refunded_amount, overpaid, paid_at, .. } = *summary;
        (paid_amount, refunded_amount, overpaid, paid_at, summary.payment_ref.clone())
    };
    prop_assert_eq!((whole.fulfil, money(whole)), (without.fulfil, money(&without)));
    let noticed = [Flag::Unconfirmed, Flag::QueryDisagrees, Flag::UnknownOrder];
    let others = |summary: &Summary| {
        let flags = evidence(summary).into_iter();
        flags.filter(|((flag, _), _)| !noticed.contains(flag)).collect::<BTreeMap<_, _>>()
    };
    prop_assert_eq!(others(whole), others(&without));
    Ok(())
}

fn order_does_not_matter(World { drawn, known, summary, .. }: &World) -> Outcome {
    let (other, _) = fold(&drawn.shuffled());
    // With an overflow what is kept may depend on order.
    if known.overflowed {
        prop_assert!(other.overflowed, "one order overflows, the other does not");
        prop_assert!(!summarize(&other).fulfil);
    } else if known.unconfirmed_left_out {
        prop_assert!(other.unconfirmed_left_out && !other.overflowed);
    } else {
        prop_assert_eq!(known, &other);
        prop_assert_eq!(summary, &summarize(&other));
    }
    Ok(())
}

fn duplicates_do_not_matter(World { drawn, known, .. }: &World) -> Outcome {
    let mut again = known.clone();
    let changes = learn(&mut again, &drawn.repeats());
    // A fact that was left out may be kept when it comes again and C is known by then.
    if known.overflowed {
        prop_assert!(again.overflowed && !summarize(&again).fulfil);
    } else if known.unconfirmed_left_out {
        prop_assert!(again.unconfirmed_left_out && !again.overflowed);
    } else {
        prop_assert_eq!((&again, changes), (known, 0));
    }
    Ok(())
}

fn batch_cuts_do_not_matter(World { drawn, known, version, .. }: &World) -> Outcome {
    let (first, second) = drawn.halves();
    let (row, first_version) = fold(first);
    // Between two batches the order is a row: it is written, read and then goes on.
    let bytes = minicbor::to_vec(&row).expect("a row is encoded in memory");
    let mut read: KnownFacts = minicbor::decode(&bytes).expect("what was written is read");
    prop_assert_eq!(&read, &row);
    let last_version = first_version + learn(&mut read, second);
    prop_assert_eq!((&read, last_version), (known, *version));
    Ok(())
}

/// The states an order goes through as facts are added, as long as none is left out.
fn states(facts: impl Iterator<Item = Fact>) -> Vec<OrderState> {
    let mut known = KnownFacts::default();
    let mut states = Vec::new();
    for fact in facts {
        let changed = learn(&mut known, &[fact]) > 0;
        if known.overflowed || known.unconfirmed_left_out {
            break;
        }
        if changed {
            states.push(summarize(&known).state);
        }
    }
    states
}

fn paid_falls_only_to_refunded(World { drawn, .. }: &World) -> Outcome {
    for step in states(drawn.facts.iter().cloned()).windows(2) {
        let fell = step[0] == OrderState::Paid && step[1] != OrderState::Paid;
        prop_assert!(!fell || step[1] == OrderState::Refunded, "PAID fell to {}", step[1]);
    }
    Ok(())
}

/// Judges each ref by itself, with one C: with two C's, the second may ask for more than went back.
fn refunded_stays_refunded(World { drawn, .. }: &World) -> Outcome {
    let is_create = |fact: &&Fact| matches!(fact, Fact::CreateRequested(_));
    let create = drawn.facts.iter().find(is_create);
    let refs: BTreeSet<_> = drawn.facts.iter().filter_map(named_ref).collect();
    for name in refs {
        let others = drawn
            .facts
            .iter()
            .filter(|fact| !is_create(fact) && named_ref(fact).is_none_or(|other| other == name));
        let states = states(create.into_iter().chain(others).cloned());
        let back = states
            .windows(2)
            .find(|step| step[0] == OrderState::Refunded && step[1] != OrderState::Refunded);
        prop_assert!(back.is_none(), "{name} went {back:?}");
    }
    Ok(())
}

/// The ref that a fact of the partner names.
fn named_ref(fact: &Fact) -> Option<&ProviderRef> {
    match fact {
        Fact::Ipn(ipn) => Some(&ipn.provider_ref),
        Fact::QueryAnswered(answer) => Some(&answer.provider_ref),
        Fact::CreateRequested(_)
        | Fact::SessionOpened(_)
        | Fact::CreateFailed(_)
        | Fact::DeadlinePassed { .. }
        | Fact::RefShared(_)
        | Fact::Decided(_) => None,
    }
}

/// The fold chooses the digests of evidence freely, but they change with the facts that raise the
/// flag. Otherwise a decision would close evidence that no person has seen.
fn evidence_changes(World { drawn, summary: whole, oracle, .. }: &World) -> Outcome {
    if oracle.overflows().is_some() {
        return Ok(());
    }
    let Some((last, prefix)) = drawn.facts.split_last() else { return Ok(()) };
    let (before, after) = (evidence(&summary(prefix)), evidence(whole));
    let (raised_before, raised_after) = (Oracle::of(prefix).raised(), oracle.raised());
    for (raised, digest) in &before {
        let Some(later) = after.get(raised) else { continue };
        let same = raised_before.get(raised) == raised_after.get(raised);
        prop_assert_eq!(digest == later, same, "{:?} after {:?}", raised, last);
    }
    Ok(())
}
