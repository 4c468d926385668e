//! Owns the insertion of a fact into the kept set, within the caps.
//!
//! Invariants: lists stay sorted by content and free of repeats; a cap is never exceeded; a fact
//! that is left out or displaced marks the set for good.
//!
//! At a cap the fact with the largest content digest is left out. Notices that their profile calls
//! unconfirmed go first, and leave a mark of their own: anybody can send them, so they displace
//! nothing else, however many they are. A *matching* statement (an IPN or P with the amount and
//! currency of a C) is displaced only by other matching statements, so that no number of odd
//! notices can displace the true one. Refs are left out by the digest of the ref, those that only
//! unconfirmed notices name first. Of the others, a session's ref is never left out, and a ref with
//! a matching statement is displaced only by other such refs. The caps hold for these, too: a row
//! must stay small whatever a partner sends.

use std::cmp::Ordering;

use payfold_schemas::digest::Digest;
use payfold_schemas::fact::{Decision, Fact, QueryAnswer};
use payfold_schemas::ids::ProviderRef;
use payfold_schemas::ipn::Ipn;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::order::{Known, KnownFacts, KnownIpn};
use payfold_schemas::position::Position;

use super::content::FactContent;
use super::effect::Effect;
use super::refs::is_session_ref;
use super::statement::{RefView, Statement, refs_of};
use super::terms::Terms;

/// The most different C, O, CF and X an order keeps, each.
pub(super) const OWN_MAX: usize = 8;
/// The most contents of one (ref, status) an order keeps, of IPNs and of query answers each.
pub(super) const CONTENTS_MAX: usize = 8;
/// The most refs of which an order keeps statements.
pub(super) const REFS_MAX: usize = 32;
/// The most K an order keeps.
pub(super) const SHARED_MAX: usize = 32;
/// The most D an order keeps.
pub(super) const DECISIONS_MAX: usize = 64;

/// How a fact was inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Insertion {
    Added,
    /// The fact was present, and the merge has changed it.
    Merged,
    /// The fact was present.
    Present,
    /// The fact was added, and another one was removed for it.
    Displacing(Lost),
    LeftOut(Lost),
}

/// What the set lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    /// Only notices that their profile calls unconfirmed.
    Unconfirmed,
    Other,
}

/// What is left out first has the greatest rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_unconfirmed: bool,
    kind: Kind,
    digest: Digest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A session's ref.
    Session,
    /// In a C's own amount and currency.
    Matching,
    Odd,
}

impl Kind {
    fn of(terms: Terms<'_>, amount: Amount, currency: Currency) -> Self {
        if terms.agree(amount, currency) { Self::Matching } else { Self::Odd }
    }
}

impl Rank {
    fn lost(self) -> Lost {
        if self.is_unconfirmed { Lost::Unconfirmed } else { Lost::Other }
    }
}

/// Inserts a fact into the kept set of its order.
pub(super) fn insert_fact(facts: &mut KnownFacts, fact: &Fact, position: Position) -> Effect {
    let insertion = match fact {
        Fact::CreateRequested(create) => {
            insert(&mut facts.creates, create, position, OWN_MAX, |c| {
                FactContent::Create(c).digest()
            })
        }
        Fact::SessionOpened(session) => {
            insert(&mut facts.sessions, session, position, OWN_MAX, |o| {
                FactContent::Session(o).digest()
            })
        }
        Fact::CreateFailed(failed) => {
            let digest = |cf: &_| FactContent::CreateFailed(cf).digest();
            insert(&mut facts.create_failures, failed, position, OWN_MAX, digest)
        }
        Fact::Ipn(ipn) => insert_ipn(facts, ipn, position),
        Fact::DeadlinePassed { deadline } => {
            let digest = |x: &_| FactContent::DeadlinePassed(*x).digest();
            insert(&mut facts.deadlines_passed, deadline, position, OWN_MAX, digest)
        }
        Fact::QueryAnswered(answer) => insert_answer(facts, answer, position),
        Fact::RefShared(shared) => {
            insert(&mut facts.shared_refs, shared, position, SHARED_MAX, |k| {
                FactContent::Shared(k).digest()
            })
        }
        Fact::Decided(decision) => insert_decision(&mut facts.decisions, decision, position),
    };
    record_overflow(facts, insertion)
}

/// Marks the set if it lost a fact; returns the effect.
fn record_overflow(facts: &mut KnownFacts, insertion: Insertion) -> Effect {
    let (lost, is_changed) = match insertion {
        Insertion::Added => return Effect::Added,
        Insertion::Merged => return Effect::Merged,
        Insertion::Present => return Effect::Unchanged,
        Insertion::Displacing(lost) => (lost, true),
        Insertion::LeftOut(lost) => (lost, false),
    };
    let mark = match lost {
        Lost::Unconfirmed => &mut facts.unconfirmed_left_out,
        Lost::Other => &mut facts.overflowed,
    };
    let is_first = !std::mem::replace(mark, true);
    if is_changed || is_first { Effect::Overflowed } else { Effect::Unchanged }
}

/// Inserts into a list that is capped as a whole.
fn insert<T: Ord + Clone>(
    list: &mut Vec<Known<T>>,
    content: &T,
    position: Position,
    cap: usize,
    digest: impl Fn(&T) -> Digest,
) -> Insertion {
    let Err(at) = list.binary_search_by(|known| known.content.cmp(content)) else {
        return Insertion::Present;
    };
    list.insert(at, Known { content: content.clone(), position });
    assert!(is_sorted_at(list, at, T::cmp), "a list stays sorted, without repeats");
    let rank =
        |content: &T| Rank { is_unconfirmed: false, kind: Kind::Odd, digest: digest(content) };
    let insertion = trim(list, (0, list.len()), at, cap, rank);
    assert!(list.len() <= cap, "a list never exceeds its cap");
    insertion
}

/// Inserts a decision, which is identified by its id alone. Two decisions of one id are a fault of
/// their writer; the smaller content is kept, in whatever order they come.
fn insert_decision(
    list: &mut Vec<Known<Decision>>,
    decision: &Decision,
    position: Position,
) -> Insertion {
    // FactContent begins with the id, so the list is sorted by id.
    match list.binary_search_by(|known| known.content.id.cmp(&decision.id)) {
        Ok(at) if *decision < list[at].content => {
            list[at].content = decision.clone();
            Insertion::Merged
        }
        Ok(_) => Insertion::Present,
        Err(_) => insert(list, decision, position, DECISIONS_MAX, |d| {
            FactContent::of_decision(d).digest()
        }),
    }
}

fn insert_ipn(facts: &mut KnownFacts, ipn: &Ipn, position: Position) -> Insertion {
    let by_identity = |known: &Known<KnownIpn>| identity_order(&known.content, ipn);
    match facts.ipns.binary_search_by(by_identity) {
        Ok(at) => {
            let policy = &mut facts.ipns[at].content.policy;
            let merged = policy.merge(ipn.policy);
            let insertion = if merged == *policy { Insertion::Present } else { Insertion::Merged };
            *policy = merged;
            insertion
        }
        Err(at) => {
            let content = KnownIpn {
                provider_ref: ipn.provider_ref.clone(),
                status: ipn.status,
                money: ipn.money.clone(),
                policy: ipn.policy,
            };
            facts.ipns.insert(at, Known { content, position });
            assert!(
                is_sorted_at(&facts.ipns, at, by_content),
                "notices stay sorted, without repeats"
            );
            let terms = Terms::new(&facts.creates);
            let group = group_around(&facts.ipns, at, |a, b| {
                a.status == b.status && a.provider_ref == b.provider_ref
            });
            let insertion = trim(&mut facts.ipns, group, at, CONTENTS_MAX, |known| Rank {
                is_unconfirmed: known.policy.unconfirmed,
                kind: Kind::of(terms, known.money.amount, known.money.currency),
                digest: FactContent::of_kept_ipn(known).digest(),
            });
            trim_refs(facts, &ipn.provider_ref, insertion)
        }
    }
}

fn identity_order(known: &KnownIpn, ipn: &Ipn) -> Ordering {
    (&known.provider_ref, known.status, &known.money).cmp(&(
        &ipn.provider_ref,
        ipn.status,
        &ipn.money,
    ))
}

fn insert_answer(facts: &mut KnownFacts, answer: &QueryAnswer, position: Position) -> Insertion {
    let Err(at) = facts.query_answers.binary_search_by(|known| known.content.cmp(answer)) else {
        return Insertion::Present;
    };
    facts.query_answers.insert(at, Known { content: answer.clone(), position });
    assert!(
        is_sorted_at(&facts.query_answers, at, Ord::cmp),
        "answers stay sorted, without repeats"
    );
    let terms = Terms::new(&facts.creates);
    let group = group_around(&facts.query_answers, at, |a, b| {
        a.status == b.status && a.provider_ref == b.provider_ref
    });
    let insertion = trim(&mut facts.query_answers, group, at, CONTENTS_MAX, |known| Rank {
        is_unconfirmed: false,
        kind: Kind::of(terms, known.amount, known.currency),
        digest: FactContent::Answer(known).digest(),
    });
    trim_refs(facts, &answer.provider_ref, insertion)
}

fn by_content(a: &KnownIpn, b: &KnownIpn) -> Ordering {
    (&a.provider_ref, a.status, &a.money).cmp(&(&b.provider_ref, b.status, &b.money))
}

/// Whether the fact at `at` is between a smaller and a larger one.
fn is_sorted_at<T>(list: &[Known<T>], at: usize, order: impl Fn(&T, &T) -> Ordering) -> bool {
    let from = at.saturating_sub(1);
    let until = list.len().min(at.saturating_add(2));
    let is_less = |pair: &[Known<T>]| order(&pair[0].content, &pair[1].content) == Ordering::Less;
    list[from..until].windows(2).all(is_less)
}

/// The range of the group of the fact at `at`.
fn group_around<T>(list: &[Known<T>], at: usize, same: impl Fn(&T, &T) -> bool) -> (usize, usize) {
    let new = &list[at].content;
    let before = list[..at].iter().rev().take_while(|known| same(&known.content, new)).count();
    let after = list[at..].iter().take_while(|known| same(&known.content, new)).count();
    (at.saturating_sub(before), at.saturating_add(after))
}

/// Removes the member of the greatest rank from `list[range.0..range.1]` if the range exceeds its
/// cap by the fact at `new`. Ranks are computed only then.
fn trim<T>(
    list: &mut Vec<Known<T>>,
    range: (usize, usize),
    new: usize,
    cap: usize,
    rank: impl Fn(&T) -> Rank,
) -> Insertion {
    let group = &list[range.0..range.1];
    if group.len() <= cap {
        return Insertion::Added;
    }
    let ranked = group.iter().map(|known| rank(&known.content)).zip(range.0..);
    let (rank, last) = ranked.max().expect("a group over its cap is not empty");
    assert!(range.1.abs_diff(range.0) == cap.saturating_add(1), "one fact is one too many at most");
    list.remove(last);
    if last == new { Insertion::LeftOut(rank.lost()) } else { Insertion::Displacing(rank.lost()) }
}

/// Removes the ref of the greatest rank with all its statements, if there is one ref too many.
fn trim_refs(facts: &mut KnownFacts, new: &ProviderRef, insertion: Insertion) -> Insertion {
    // Most orders have fewer statements than the cap of refs.
    if facts.ipns.len().saturating_add(facts.query_answers.len()) <= REFS_MAX
        || refs_of(facts).count() <= REFS_MAX
    {
        return insertion;
    }
    assert!(insertion == Insertion::Added, "a fact of a new ref displaces no fact of its own ref");
    let terms = Terms::new(&facts.creates);
    let ranked = refs_of(facts).map(|view| (rank_ref(facts, &view, terms), view.provider_ref));
    let (rank, last) = ranked.max().expect("more refs than the cap are not none");
    let (lost, last) = (rank.lost(), last.clone());
    facts.ipns.retain(|known| known.content.provider_ref != last);
    facts.query_answers.retain(|known| known.content.provider_ref != last);
    assert!(refs_of(facts).count() <= REFS_MAX, "one fact brings at most one ref too many");
    if last == *new { Insertion::LeftOut(lost) } else { Insertion::Displacing(lost) }
}

/// The rank of a ref.
fn rank_ref(facts: &KnownFacts, view: &RefView<'_>, terms: Terms<'_>) -> Rank {
    let is_unconfirmed =
        |one: Statement<'_>| one.notice().is_some_and(|ipn| ipn.policy.unconfirmed);
    let kinds = view.statements().map(|one| Kind::of(terms, one.amount, one.currency));
    Rank {
        is_unconfirmed: view.statements().all(is_unconfirmed),
        kind: if is_session_ref(facts, view.provider_ref) {
            Kind::Session
        } else {
            kinds.min().expect("a ref is named by a statement")
        },
        digest: Digest::of_content("ref", view.provider_ref),
    }
}
