//! Owns the question which orders share a ref: which refs a record names, and which K the orders of one ref lack.
//! Pure. Invariants: a placeholder names no transaction; K goes to every order of a shared ref; an order never
//! gets more K than the fold keeps.

use payfold_schemas::fact::{Fact, SharedRef};
use payfold_schemas::ids::{OrderKey, ProviderRef};
use payfold_schemas::order::Order;
use payfold_schemas::record::FactRecord;

/// How many K an order keeps (the fold's cap): one more would be FACT_OVERFLOW, and say nothing new.
pub(crate) const SHARED_MAX: usize = 32;

/// How many orders of one ref are told of each other. Of a greater crowd each further order is told of the first
/// only: a partner that sends one ref for all must not cost the log a square of them.
pub(crate) const MUTUAL_MAX: usize = SHARED_MAX + 1;

/// The ref a record says a transaction of its order has.
pub(crate) fn named(record: &FactRecord) -> Option<&ProviderRef> {
    match &record.fact {
        Fact::SessionOpened(session) => Some(&session.provider_ref),
        Fact::Ipn(ipn) if ipn.policy.placeholder_ref => None,
        Fact::Ipn(ipn) => Some(&ipn.provider_ref),
        Fact::QueryAnswered(answer) => Some(&answer.provider_ref),
        Fact::CreateRequested(_)
        | Fact::CreateFailed(_)
        | Fact::DeadlinePassed { .. }
        | Fact::RefShared(_)
        | Fact::Decided(_) => None,
    }
}

/// Whether an order that is listed under a ref truly has it. The view keeps an entry also when a later profile
/// says that the ref is a placeholder; the row knows. A row that overflowed may have left the fact out.
fn has(order: &Order, provider_ref: &ProviderRef) -> bool {
    let facts = &order.facts;
    facts.overflowed
        || facts.sessions.iter().any(|known| known.content.provider_ref == *provider_ref)
        || facts.query_answers.iter().any(|known| known.content.provider_ref == *provider_ref)
        || facts.ipns.iter().any(|known| {
            known.content.provider_ref == *provider_ref && !known.content.policy.placeholder_ref
        })
}

/// The K that the orders listed under a ref lack. `orders` are of one account, each once.
pub(crate) fn missing(orders: &[Order], provider_ref: &ProviderRef) -> Vec<(OrderKey, Fact)> {
    let sharing: Vec<_> = orders.iter().filter(|order| has(order, provider_ref)).collect();
    let mut facts = Vec::new();
    for (place, order) in sharing.iter().enumerate() {
        let told_of = if place < MUTUAL_MAX { SHARED_MAX } else { 1 };
        let known = &order.facts.shared_refs;
        let lacking = (sharing.iter().take(MUTUAL_MAX))
            .filter(|other| other.key != order.key)
            .take(told_of)
            .map(|other| SharedRef {
                provider_ref: provider_ref.clone(),
                other_order: other.key.order_id.clone(),
            })
            .filter(|shared| !known.iter().any(|known| known.content == *shared))
            .take(SHARED_MAX.saturating_sub(known.len()));
        facts.extend(lacking.map(|shared| (order.key.clone(), Fact::RefShared(shared))));
    }
    facts
}

#[cfg(test)]
mod tests {
    use payfold_schemas::order::OrderState;

    use super::*;
    use crate::run::testkit::{self, answer, ipn, known, placeholder, record, session};

    fn reference(text: &str) -> ProviderRef {
        ProviderRef::parse(text).unwrap()
    }

    fn order(id: &str, refs: &[&str]) -> Order {
        let mut order = testkit::order(id, OrderState::Pending, None);
        for text in refs {
            match text.split_at(1) {
                ("o", text) => order.facts.sessions.push(known(session(text, "10:17"))),
                ("p", text) => order.facts.query_answers.push(known(answer(text))),
                ("x", text) => order.facts.ipns.push(known(testkit::known_ipn(&placeholder(text)))),
                (_, text) => order.facts.ipns.push(known(testkit::known_ipn(&ipn(text)))),
            }
        }
        order
    }

    fn told(orders: &[Order]) -> Vec<String> {
        let text = |(order, fact): (OrderKey, Fact)| match fact {
            Fact::RefShared(shared) => format!("{}:{}", order.order_id, shared.other_order),
            other => panic!("{other:?}"),
        };
        missing(orders, &reference("r")).into_iter().map(text).collect()
    }

    #[test]
    fn records_name_refs_unless_they_are_placeholders() {
        let name = |fact| named(&record("a", fact)).map(|r| r.as_str().to_owned());
        assert_eq!(name(Fact::SessionOpened(session("r", "10:17"))).as_deref(), Some("r"));
        assert_eq!(name(Fact::Ipn(ipn("r"))).as_deref(), Some("r"));
        assert_eq!(name(Fact::QueryAnswered(answer("r"))).as_deref(), Some("r"));
        assert_eq!(name(Fact::Ipn(placeholder("r"))), None);
        assert_eq!(name(Fact::DeadlinePassed { deadline: testkit::at("10:17") }), None);
    }

    #[test]
    fn every_order_of_a_shared_ref_is_told_of_every_other() {
        for (orders, expected) in [
            (vec![order("a", &["sr"])], ""),
            (vec![order("a", &["sr"]), order("b", &["sr"])], "a:b b:a"),
            (vec![order("a", &["or"]), order("b", &["pr"])], "a:b b:a"),
            (vec![order("a", &["sr"]), order("b", &["xr"])], ""),
            (vec![order("a", &["sr"]), order("b", &["xr", "or"])], "a:b b:a"),
            (vec![order("a", &["sr"]), order("b", &["ss"])], ""),
            (
                vec![order("a", &["sr"]), order("b", &["or"]), order("c", &["pr"])],
                "a:b a:c b:a b:c c:a c:b",
            ),
        ] {
            assert_eq!(told(&orders).join(" "), expected);
        }
    }

    #[test]
    fn what_a_row_knows_or_has_no_room_for_is_not_told_again() {
        let shared = |text: &str, other: &str| {
            let other_order = testkit::key(other).order_id;
            known(SharedRef { provider_ref: reference(text), other_order })
        };
        let (mut one, other) = (order("a", &["sr"]), order("b", &["sr"]));
        one.facts.shared_refs.push(shared("r", "b"));
        assert_eq!(told(&[one.clone(), other.clone()]), ["b:a"]);
        // Of another ref it is another fact.
        one.facts.shared_refs = vec![shared("s", "b")];
        assert_eq!(told(&[one.clone(), other.clone()]), ["a:b", "b:a"]);
        one.facts.shared_refs = (0..32).map(|n| shared("s", &format!("o{n}"))).collect();
        assert_eq!(told(&[one, other.clone()]), ["b:a"]);
        // A row that left facts out is believed to be in the view for a reason.
        let mut full = order("c", &[]);
        full.facts.overflowed = true;
        assert_eq!(told(&[other, full]), ["b:c", "c:b"]);
    }

    #[test]
    fn a_crowd_costs_no_square() {
        let crowd: Vec<_> = (100..150).map(|n| order(&format!("o{n}"), &["sr"])).collect();
        let told = told(&crowd);
        assert_eq!(told.len(), 33 * 32 + 17);
        for order in &crowd {
            let id = format!("{}:", order.key.order_id);
            let count = told.iter().filter(|told| told.starts_with(&id)).count();
            assert!((1..=32).contains(&count), "{id} {count}");
        }
        assert!(told[33 * 32..].iter().all(|told| told.ends_with(":o100")));
    }
}
