//! Owns the decision which orders share a provider ref: which ref a record names, and which
//! `RefShared` facts the orders of one ref lack. Pure. Invariants: a placeholder names no
//! transaction, and neither does a notice that a query has to confirm: the answer does. Every order
//! of a shared ref gets a `RefShared`, unless it has as many as the fold keeps: an order never gets
//! more.

use payfold_schemas::fact::{Fact, SharedRef};
use payfold_schemas::ids::{OrderKey, ProviderRef};
use payfold_schemas::order::Order;
use payfold_schemas::record::FactRecord;

/// How many `RefShared` facts the fold keeps for an order: `SHARED_MAX` of the projector's
/// `fold/insertion.rs`. One more would raise FACT_OVERFLOW, and the order has PROVIDER_REF_REUSED
/// already.
pub(crate) const SHARED_MAX: usize = 32;

/// How many orders of one ref get a `RefShared` about each other. Every further order gets one
/// about the first order only: if a partner sends one ref for all payments, the number of facts
/// must not grow with the square of the orders.
pub(crate) const MUTUAL_MAX: usize = SHARED_MAX + 1;

/// The provider ref that a record names for its order, if it names one.
pub(crate) fn ref_of(record: &FactRecord) -> Option<&ProviderRef> {
    match &record.fact {
        Fact::SessionOpened(session) => Some(&session.provider_ref),
        Fact::Ipn(ipn) => ipn.policy.names_transaction().then_some(&ipn.provider_ref),
        Fact::QueryAnswered(answer) => Some(&answer.provider_ref),
        Fact::CreateRequested(_)
        | Fact::CreateFailed(_)
        | Fact::DeadlinePassed { .. }
        | Fact::RefShared(_)
        | Fact::Decided(_) => None,
    }
}

/// Whether an order that is listed under a ref has the ref. The store's view of orders
/// by ref keeps an entry even if a later
/// profile says that the ref is a placeholder, so the row decides. A row that overflowed may lack
/// the fact, so the view is believed.
fn has_ref(order: &Order, provider_ref: &ProviderRef) -> bool {
    let facts = &order.facts;
    facts.overflowed
        || facts.sessions.iter().any(|known| known.content.provider_ref == *provider_ref)
        || facts.query_answers.iter().any(|known| known.content.provider_ref == *provider_ref)
        || facts.ipns.iter().any(|known| {
            known.content.provider_ref == *provider_ref && known.content.policy.names_transaction()
        })
}

/// The `RefShared` facts that the orders listed under a ref lack. `orders` belong to one account,
/// and each is there once; those of the store's view come first, in its order, so that every call
/// takes the same orders as the first ones.
pub(crate) fn missing_facts(orders: &[Order], provider_ref: &ProviderRef) -> Vec<(OrderKey, Fact)> {
    let sharing: Vec<_> = orders.iter().filter(|order| has_ref(order, provider_ref)).collect();
    let mut facts = Vec::new();
    for (index, order) in sharing.iter().enumerate() {
        let others_max = if index < MUTUAL_MAX { SHARED_MAX } else { 1 };
        let known = &order.facts.shared_refs;
        let lacking = (sharing.iter().take(MUTUAL_MAX))
            .filter(|other| other.key != order.key)
            .take(others_max)
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
    use crate::run::testkit::{
        self, answer, ipn, known, placeholder, record, session, unconfirmed,
    };

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
                ("u", text) => order.facts.ipns.push(known(testkit::known_ipn(&unconfirmed(text)))),
                (_, text) => order.facts.ipns.push(known(testkit::known_ipn(&ipn(text)))),
            }
        }
        order
    }

    fn missing_texts(orders: &[Order]) -> Vec<String> {
        let text = |(order, fact): (OrderKey, Fact)| match fact {
            Fact::RefShared(shared) => format!("{}:{}", order.order_id, shared.other_order),
            other => panic!("{other:?}"),
        };
        missing_facts(orders, &reference("r")).into_iter().map(text).collect()
    }

    #[test]
    fn records_name_refs_unless_they_are_placeholders() {
        let name = |fact| ref_of(&record("a", fact)).map(|r| r.as_str().to_owned());
        assert_eq!(name(Fact::SessionOpened(session("r", "10:17"))).as_deref(), Some("r"));
        assert_eq!(name(Fact::Ipn(ipn("r"))).as_deref(), Some("r"));
        assert_eq!(name(Fact::QueryAnswered(answer("r"))).as_deref(), Some("r"));
        assert_eq!(name(Fact::Ipn(placeholder("r"))), None);
        assert_eq!(name(Fact::Ipn(unconfirmed("r"))), None);
        assert_eq!(name(Fact::DeadlinePassed { deadline: testkit::at("10:17") }), None);
    }

    #[test]
    fn every_order_of_a_shared_ref_gets_a_fact_about_every_other() {
        for (orders, expected) in [
            (vec![order("a", &["sr"])], ""),
            (vec![order("a", &["sr"]), order("b", &["sr"])], "a:b b:a"),
            (vec![order("a", &["or"]), order("b", &["pr"])], "a:b b:a"),
            (vec![order("a", &["sr"]), order("b", &["xr"])], ""),
            (vec![order("a", &["sr"]), order("b", &["xr", "or"])], "a:b b:a"),
            (vec![order("a", &["sr"]), order("b", &["ss"])], ""),
            (vec![order("a", &["sr"]), order("b", &["ur"])], ""),
            (vec![order("a", &["sr"]), order("b", &["ur", "pr"])], "a:b b:a"),
            (
                vec![order("a", &["sr"]), order("b", &["or"]), order("c", &["pr"])],
                "a:b a:c b:a b:c c:a c:b",
            ),
        ] {
            assert_eq!(missing_texts(&orders).join(" "), expected);
        }
    }

    #[test]
    fn a_fact_that_a_row_has_or_has_no_room_for_is_not_missing() {
        let shared = |text: &str, other: &str| {
            let other_order = testkit::key(other).order_id;
            known(SharedRef { provider_ref: reference(text), other_order })
        };
        let (mut one, other) = (order("a", &["sr"]), order("b", &["sr"]));
        one.facts.shared_refs.push(shared("r", "b"));
        assert_eq!(missing_texts(&[one.clone(), other.clone()]), ["b:a"]);
        // About another ref it is another fact.
        one.facts.shared_refs = vec![shared("s", "b")];
        assert_eq!(missing_texts(&[one.clone(), other.clone()]), ["a:b", "b:a"]);
        one.facts.shared_refs = (0..32).map(|n| shared("s", &format!("o{n}"))).collect();
        assert_eq!(missing_texts(&[one, other.clone()]), ["b:a"]);
        // A row that overflowed may lack the fact, so the view is believed.
        let mut full = order("c", &[]);
        full.facts.overflowed = true;
        assert_eq!(missing_texts(&[other, full]), ["b:c", "c:b"]);
    }

    #[test]
    fn many_orders_of_one_ref_do_not_get_a_square_of_facts() {
        let orders: Vec<_> = (100..150).map(|n| order(&format!("o{n}"), &["sr"])).collect();
        let missing = missing_texts(&orders);
        assert_eq!(missing.len(), 33 * 32 + 17);
        for order in &orders {
            let id = format!("{}:", order.key.order_id);
            let count = missing.iter().filter(|text| text.starts_with(&id)).count();
            assert!((1..=32).contains(&count), "{id} {count}");
        }
        assert!(missing[33 * 32..].iter().all(|text| text.ends_with(":o100")));
    }
}
