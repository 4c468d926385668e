//! Owns the laws of orders with more facts than are kept: bounded, never fulfilled, never a panic.

use std::collections::BTreeMap;

use payfold_projector::fold::{apply, summarize};
use payfold_schemas::fact::{CreateFailed, Fact, QueryAnswer, SharedRef, Verdict};
use payfold_schemas::ids::OrderId;
use payfold_schemas::ipn::Status;
use payfold_schemas::order::{Flag, KnownFacts};
use payfold_schemas::position::Position;
use proptest::prelude::*;

use crate::laws::overflow_is_as_expected;
use crate::support::oracle::Oracle;
use crate::support::worlds::{
    create_of, currency, decision, hold, ipn_of, minor, minute, provider_ref, session_of, world,
    worlds,
};

/// Far over any cap.
const FLOOD: usize = 2_000;
/// 32 refs and O's, 4 statuses, 8 contents and C's own: what an order may keep of one kind at the
/// most.
const KEPT_MAX: usize = 40 * 4 * 10;

/// Makes fact number n of a flood.
type Make = Box<dyn Fn(usize) -> Fact>;

fn success(name: usize, units: i64) -> Fact {
    ipn_of(name, Status::Success, units)
}

/// The same from somebody who can't sign.
fn unconfirmed(name: usize, units: i64) -> Fact {
    let Fact::Ipn(mut ipn) = success(name, units) else { unreachable!("it is a notice") };
    ipn.policy.unconfirmed = true;
    Fact::Ipn(ipn)
}

/// A world, then so many contents of one (ref, status) and so many refs, in any order; signed or
/// not.
fn flooded() -> impl Strategy<Value = Vec<Fact>> {
    let flood = || (0..10_i64, 0..25_usize);
    (world(8), flood(), flood())
        .prop_map(|(mut facts, (contents, refs), (more, others))| {
            facts.extend((0..contents).map(|n| success(0, 1_000 + n)));
            facts.extend((0..refs).map(|n| success(10 + n, 100)));
            facts.extend((0..more).map(|n| unconfirmed(0, 1_005 + n)));
            facts.extend((0..others).map(|n| unconfirmed(20 + n, 100)));
            facts
        })
        .prop_shuffle()
}

fn fold<'a>(facts: impl IntoIterator<Item = &'a Fact>) -> KnownFacts {
    let mut known = KnownFacts::default();
    for fact in facts {
        apply(&mut known, fact, Position::default());
    }
    known
}

#[test]
fn an_overflow_is_flagged_and_never_fulfilled() {
    let seen = std::cell::RefCell::new(BTreeMap::new());
    hold(flooded(), |facts| {
        let known = fold(&facts);
        let oracle = Oracle::of(&facts);
        *seen.borrow_mut().entry(oracle.overflows()).or_insert(0_u32) += 1;
        overflow_is_as_expected(&known, &summarize(&known), &oracle)
    });
    // A law about overflows proves nothing where no order overflows.
    let (seen, few) = (seen.into_inner(), worlds() / 20);
    assert!(seen.len() == 3 && seen.values().all(|count| *count >= few), "{seen:?}");
}

#[test]
fn a_flood_of_those_who_cannot_sign_takes_nothing_away() {
    let contents = |n: usize| unconfirmed(0, 1_000 + i64::try_from(n).expect("small"));
    let refs = |n: usize| unconfirmed(10 + n, 100);
    let own = [create_of(1), session_of(0), success(0, 100)];
    for (kind, flood) in [
        ("contents", (0..FLOOD).map(contents).collect::<Vec<_>>()),
        ("refs", (0..FLOOD).map(refs).collect()),
    ] {
        for facts in [[&own[..], &flood].concat(), [&flood[..], &own].concat()] {
            let known = fold(&facts);
            let summary = summarize(&known);
            assert!(summary.fulfil, "a flood of {kind}: {:?}", summary.flags);
            assert!(known.ipns.len() <= KEPT_MAX && known.unconfirmed_left_out, "of {kind}");
        }
    }
}

#[test]
fn what_is_kept_of_a_flood_is_bounded() {
    let name = |n: usize| format!("n{n}");
    let floods: [(&str, Make); 9] = [
        ("contents", Box::new(|n| success(0, 1_000 + i64::try_from(n).expect("small")))),
        ("refs", Box::new(|n| success(n, 100))),
        ("C", Box::new(|n| create_of(u32::try_from(n).expect("small")))),
        ("O", Box::new(session_of)),
        ("CF", Box::new(move |n| Fact::CreateFailed(CreateFailed { code: name(n) }))),
        (
            "X",
            Box::new(|n| Fact::DeadlinePassed {
                deadline: minute(i64::try_from(n).expect("small")),
            }),
        ),
        (
            "P",
            Box::new(|n| {
                Fact::QueryAnswered(QueryAnswer {
                    provider_ref: provider_ref(n),
                    status: Status::Success,
                    amount: minor(100),
                    currency: currency("VND"),
                })
            }),
        ),
        (
            "K",
            Box::new(move |n| {
                Fact::RefShared(SharedRef {
                    provider_ref: provider_ref(0),
                    other_order: OrderId::parse(&name(n)).expect("valid"),
                })
            }),
        ),
        (
            "D",
            Box::new(move |n| {
                let seen = payfold_schemas::digest::Digest::of_bytes(&n.to_le_bytes());
                decision(name(n), Flag::AmountMismatch, seen, Verdict::Ours)
            }),
        ),
    ];
    for (kind, make) in floods {
        let facts: Vec<_> = (0..FLOOD).map(make).collect();
        let known = fold([create_of(1)].iter().chain(&facts));
        let kept = [
            known.creates.len(),
            known.sessions.len(),
            known.create_failures.len(),
            known.ipns.len(),
            known.deadlines_passed.len(),
            known.query_answers.len(),
            known.shared_refs.len(),
            known.decisions.len(),
        ];
        assert!(kept.iter().all(|count| *count <= KEPT_MAX), "a flood of {kind} keeps {kept:?}");
        assert!(!summarize(&known).fulfil, "a flood of {kind} is fulfilled");
    }
}
