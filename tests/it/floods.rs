//! Owns the laws of orders with more facts than are kept: bounded, never fulfilled, never a panic.

use payfold_projector::fold::{apply, summarize};
use payfold_schemas::fact::{CreateFailed, Fact, QueryAnswer, SharedRef, Verdict};
use payfold_schemas::ids::OrderId;
use payfold_schemas::ipn::Status;
use payfold_schemas::order::{Flag, KnownFacts, Severity};
use payfold_schemas::position::Position;
use proptest::prelude::*;

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

/// A world, then so many contents of one (ref, status) and so many refs, in any order.
fn flooded() -> impl Strategy<Value = Vec<Fact>> {
    (world(8), 0..14_i64, 0..40_usize)
        .prop_map(|(mut facts, contents, refs)| {
            facts.extend((0..contents).map(|n| success(0, 1_000 + n)));
            facts.extend((0..refs).map(|n| success(10 + n, 100)));
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
    let over = std::cell::Cell::new(0_u32);
    hold(flooded(), |facts| {
        let known = fold(&facts);
        let summary = summarize(&known);
        let flagged = (summary.flags.iter()).any(|raised| {
            (raised.flag, raised.severity) == (Flag::FactOverflow, Severity::Critical)
        });
        let overflows = Oracle::of(&facts).overflows();
        over.set(over.get() + u32::from(overflows));
        prop_assert_eq!((known.overflowed, flagged), (overflows, overflows));
        prop_assert!(!flagged || !summary.fulfil);
        Ok(())
    });
    // A law about overflows proves nothing where no order overflows.
    let (over, few) = (over.get(), worlds() / 20);
    assert!((few..worlds() - few).contains(&over), "{over} of {} overflow", worlds());
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
