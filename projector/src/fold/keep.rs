//! Owns the adding of a fact to the kept set, within the caps.
//!
//! Invariants: lists stay sorted by content and free of repeats; a cap is never exceeded; a fact that is
//! left out or gives way marks the set as overflowed for good.
//!
//! Who gives way: the fact with the largest content digest. A statement (IPN, P) whose amount and currency
//! are a C's gives way only to others of that sort, so that no number of odd notices can push out the true
//! one; a ref gives way by the digest of the ref, a session's ref never, and one with a statement of a C's
//! own content only to others of that sort. The caps hold for those too: a row must stay small whatever
//! a partner sends.

use std::cmp::Ordering;

use payfold_schemas::digest::Digest;
use payfold_schemas::fact::{Decision, Fact, QueryAnswer};
use payfold_schemas::ids::ProviderRef;
use payfold_schemas::ipn::Ipn;
use payfold_schemas::order::{Known, KnownFacts, KnownIpn};
use payfold_schemas::record::Position;

use super::Effect;
use super::content::Content;
use super::refs::{is_session_ref, refs_of};
use super::terms::Terms;

/// How many different C, O, CF and X an order keeps, each.
pub(super) const OWN_MAX: usize = 8;
/// How many contents of one (ref, status) an order keeps, of IPNs and of query answers each.
pub(super) const CONTENTS_MAX: usize = 8;
/// How many refs an order keeps statements of.
pub(super) const REFS_MAX: usize = 32;
/// How many K an order keeps.
pub(super) const SHARED_MAX: usize = 32;
/// How many D an order keeps.
pub(super) const DECISIONS_MAX: usize = 64;

/// What became of one fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    Added,
    Merged,
    Before,
    Displacing,
    LeftOut,
}

/// Adds a fact to the set it belongs to.
pub(super) fn keep(facts: &mut KnownFacts, fact: &Fact, position: Position) -> Effect {
    let kept = match fact {
        Fact::CreateRequested(create) => {
            insert(&mut facts.creates, create, position, OWN_MAX, |c| Content::Create(c).digest())
        }
        Fact::SessionOpened(session) => {
            insert(&mut facts.sessions, session, position, OWN_MAX, |o| {
                Content::Session(o).digest()
            })
        }
        Fact::CreateFailed(failed) => {
            let digest = |cf: &_| Content::CreateFailed(cf).digest();
            insert(&mut facts.create_failures, failed, position, OWN_MAX, digest)
        }
        Fact::Ipn(ipn) => insert_ipn(facts, ipn, position),
        Fact::DeadlinePassed { deadline } => {
            let digest = |x: &_| Content::DeadlinePassed(*x).digest();
            insert(&mut facts.deadlines_passed, deadline, position, OWN_MAX, digest)
        }
        Fact::QueryAnswered(answer) => insert_answer(facts, answer, position),
        Fact::RefShared(shared) => {
            insert(&mut facts.shared_refs, shared, position, SHARED_MAX, |k| {
                Content::Shared(k).digest()
            })
        }
        Fact::Decided(decision) => insert_decision(&mut facts.decisions, decision, position),
    };
    effect(facts, kept)
}

fn effect(facts: &mut KnownFacts, kept: Kept) -> Effect {
    match kept {
        Kept::Added => Effect::Added,
        Kept::Merged => Effect::Merged,
        Kept::Before => Effect::Unchanged,
        Kept::Displacing => {
            facts.overflowed = true;
            Effect::Overflowed
        }
        Kept::LeftOut if facts.overflowed => Effect::Unchanged,
        Kept::LeftOut => {
            facts.overflowed = true;
            Effect::Overflowed
        }
    }
}

/// Inserts into a list that is capped as a whole.
fn insert<T: Ord + Clone>(
    list: &mut Vec<Known<T>>,
    content: &T,
    position: Position,
    cap: usize,
    digest: impl Fn(&T) -> Digest,
) -> Kept {
    let Err(at) = list.binary_search_by(|known| known.content.cmp(content)) else {
        return Kept::Before;
    };
    list.insert(at, Known { content: content.clone(), position });
    let kept = trim(list, (0, list.len()), at, cap, |content| (false, digest(content)));
    assert!(list.len() <= cap, "a list never exceeds its cap");
    kept
}

/// Decisions are identified by their id alone. Two of one id can only be a fault of who wrote them; the
/// smaller content stands, whichever came first.
fn insert_decision(
    list: &mut Vec<Known<Decision>>,
    decision: &Decision,
    position: Position,
) -> Kept {
    // Content begins with the id, so the list is sorted by id.
    match list.binary_search_by(|known| known.content.id.cmp(&decision.id)) {
        Ok(at) if *decision < list[at].content => {
            list[at].content = decision.clone();
            Kept::Merged
        }
        Ok(_) => Kept::Before,
        Err(_) => {
            insert(list, decision, position, DECISIONS_MAX, |d| Content::of_decision(d).digest())
        }
    }
}

fn insert_ipn(facts: &mut KnownFacts, ipn: &Ipn, position: Position) -> Kept {
    let by_identity = |known: &Known<KnownIpn>| identity_order(&known.content, ipn);
    match facts.ipns.binary_search_by(by_identity) {
        Ok(at) => {
            let policy = &mut facts.ipns[at].content.policy;
            let merged = policy.merge(ipn.policy);
            let kept = if merged == *policy { Kept::Before } else { Kept::Merged };
            *policy = merged;
            kept
        }
        Err(at) => {
            let content = KnownIpn {
                provider_ref: ipn.provider_ref.clone(),
                status: ipn.status,
                money: ipn.money.clone(),
                policy: ipn.policy,
            };
            facts.ipns.insert(at, Known { content, position });
            let terms = Terms::new(&facts.creates);
            let group = group_around(&facts.ipns, at, |a, b| {
                a.status == b.status && a.provider_ref == b.provider_ref
            });
            let kept = trim(&mut facts.ipns, group, at, CONTENTS_MAX, |known| {
                let own = terms.agree(known.money.amount, known.money.currency);
                (!own, Content::of_known(known).digest())
            });
            trim_refs(facts, &ipn.provider_ref, kept)
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

fn insert_answer(facts: &mut KnownFacts, answer: &QueryAnswer, position: Position) -> Kept {
    let Err(at) = facts.query_answers.binary_search_by(|known| known.content.cmp(answer)) else {
        return Kept::Before;
    };
    facts.query_answers.insert(at, Known { content: answer.clone(), position });
    let terms = Terms::new(&facts.creates);
    let group = group_around(&facts.query_answers, at, |a, b| {
        a.status == b.status && a.provider_ref == b.provider_ref
    });
    let kept = trim(&mut facts.query_answers, group, at, CONTENTS_MAX, |known| {
        (!terms.agree(known.amount, known.currency), Content::Answer(known).digest())
    });
    trim_refs(facts, &answer.provider_ref, kept)
}

/// The range of neighbours of `at` that are of its group.
fn group_around<T>(list: &[Known<T>], at: usize, same: impl Fn(&T, &T) -> bool) -> (usize, usize) {
    let new = &list[at].content;
    let before = list[..at].iter().rev().take_while(|known| same(&known.content, new)).count();
    let after = list[at..].iter().take_while(|known| same(&known.content, new)).count();
    (at.saturating_sub(before), at.saturating_add(after))
}

/// Removes the member of greatest rank from `list[range.0..range.1]` if that is over its cap by the one at
/// `new`. The rank is computed only then.
fn trim<T>(
    list: &mut Vec<Known<T>>,
    range: (usize, usize),
    new: usize,
    cap: usize,
    rank: impl Fn(&T) -> (bool, Digest),
) -> Kept {
    let group = &list[range.0..range.1];
    if group.len() <= cap {
        return Kept::Added;
    }
    let ranked = group.iter().zip(range.0..).max_by_key(|(known, _)| rank(&known.content));
    let (_, last) = ranked.expect("a group over its cap is not empty");
    list.remove(last);
    if last == new { Kept::LeftOut } else { Kept::Displacing }
}

/// Removes the ref of greatest rank, with all that is said of it, if there is one ref too many.
fn trim_refs(facts: &mut KnownFacts, new: &ProviderRef, kept: Kept) -> Kept {
    // Most orders have fewer statements than refs are allowed.
    if facts.ipns.len().saturating_add(facts.query_answers.len()) <= REFS_MAX
        || refs_of(facts).count() <= REFS_MAX
    {
        return kept;
    }
    let terms = Terms::new(&facts.creates);
    let last = refs_of(facts)
        .max_by_key(|view| {
            let own = view.statements().any(|said| terms.agree(said.amount, said.currency));
            let session = is_session_ref(facts, view.provider_ref);
            (!session, !own, Digest::of_content("ref", view.provider_ref))
        })
        .map(|view| view.provider_ref.clone())
        .expect("more refs than the cap are not none");
    facts.ipns.retain(|known| known.content.provider_ref != last);
    facts.query_answers.retain(|known| known.content.provider_ref != last);
    assert!(refs_of(facts).count() <= REFS_MAX, "one fact brings at most one ref too many");
    if last == *new { Kept::LeftOut } else { Kept::Displacing }
}
