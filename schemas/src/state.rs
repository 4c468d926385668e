//! Owns the state digest: one digest of the content of all orders, equal on every engine and after
//! every rebuild by the same rules. It leaves out versions and positions, which differ between two
//! correct folds of the same facts.

use minicbor::Encode;

use crate::digest::Digest;
use crate::ids::OrderKey;
use crate::order::{Known, KnownFacts, Order, Summary};
use crate::position::Position;
use crate::time::Time;

const ORDER_TAG: &str = "payfold.order.content.v1";
const STATE_TAG: &str = "payfold.state.v1";

/// The part of an order that the digest covers.
#[derive(Encode)]
struct Content<'a> {
    #[n(0)]
    key: &'a OrderKey,
    #[n(1)]
    first_seen: Time,
    #[n(2)]
    summary: &'a Summary,
    #[n(3)]
    facts: KnownFacts,
}

/// The digest of an order's content: key, first receipt, summary and kept facts.
pub(crate) fn content_digest(order: &Order) -> Digest {
    let content = Content {
        key: &order.key,
        first_seen: order.first_seen,
        summary: &order.summary,
        facts: without_positions(&order.facts),
    };
    Digest::of_content(ORDER_TAG, &content)
}

/// The facts, all with the default position. The fold keeps them sorted by content, so they need no
/// sorting here.
fn without_positions(facts: &KnownFacts) -> KnownFacts {
    KnownFacts {
        creates: placeless(&facts.creates),
        sessions: placeless(&facts.sessions),
        create_failures: placeless(&facts.create_failures),
        ipns: placeless(&facts.ipns),
        deadlines_passed: placeless(&facts.deadlines_passed),
        query_answers: placeless(&facts.query_answers),
        shared_refs: placeless(&facts.shared_refs),
        decisions: placeless(&facts.decisions),
        overflowed: facts.overflowed,
        unconfirmed_left_out: facts.unconfirmed_left_out,
    }
}

fn placeless<T: Clone>(known: &[Known<T>]) -> Vec<Known<T>> {
    let position = Position::default();
    known.iter().map(|one| Known { content: one.content.clone(), position }).collect()
}

/// Collects the digests of orders; their sequence doesn't matter. It holds 32 bytes for each.
#[derive(Clone, Debug, Default)]
pub struct StateDigest {
    orders: Vec<Digest>,
}

impl StateDigest {
    /// Adds one order, which must not be among those added before.
    pub fn add(&mut self, order: &Order) {
        self.orders.push(content_digest(order));
    }

    /// How many orders were added.
    pub fn orders(&self) -> usize {
        self.orders.len()
    }

    /// The digest of all added orders.
    pub fn finish(self) -> Digest {
        Digest::of_set(STATE_TAG, self.orders)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::{OrderState, Summary};

    fn order(id: &str, offset: u64) -> Order {
        let position = Position { partition: 0, offset };
        let known = Known { content: Time::from_unix_ms(5_000), position };
        Order {
            key: OrderKey::parse(&format!("acme/SHOP/{id}")).unwrap(),
            version: offset,
            first_seen: Time::from_unix_ms(1_000),
            position,
            summary: Summary::new(OrderState::Expired),
            facts: KnownFacts { deadlines_passed: vec![known], ..KnownFacts::default() },
        }
    }

    fn digest(orders: &[Order]) -> Digest {
        let mut state = StateDigest::default();
        orders.iter().for_each(|order| state.add(order));
        state.finish()
    }

    #[test]
    fn neither_the_sequence_of_orders_nor_versions_nor_positions_count() {
        let here = [order("a", 1), order("b", 2), order("c", 3)];
        let there = [order("c", 40), order("a", 7), order("b", 1)];
        assert_eq!(digest(&here), digest(&there));
    }

    #[test]
    fn every_part_of_the_content_counts() {
        let whole = digest(&[order("a", 1), order("b", 2)]);
        let changes: [fn(&mut Order); 5] = [
            |order| order.first_seen = Time::from_unix_ms(1_001),
            |order| order.summary.paid_amount = 1,
            |order| order.facts.deadlines_passed[0].content = Time::from_unix_ms(5_001),
            |order| order.facts.overflowed = true,
            |order| order.facts.unconfirmed_left_out = true,
        ];
        for (place, change) in changes.iter().enumerate() {
            let mut changed = order("b", 2);
            change(&mut changed);
            assert_ne!(digest(&[order("a", 1), changed]), whole, "change {place}");
        }
        assert_ne!(digest(&[order("a", 1)]), whole, "an order less");
        assert_ne!(digest(&[order("a", 1), order("c", 2)]), whole, "another order");
    }

    /// The digest is stored outside of this program, so its computation may not change under one
    /// tag.
    #[test]
    fn the_digest_of_a_known_order_stays() {
        assert_eq!(
            content_digest(&order("a", 1)).to_string(),
            "2019abbd3a68779c40759347757cfbe229e967f206334f41375e1603412ce143"
        );
    }
}
