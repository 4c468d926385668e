//! Owns the proof that both pairs of engines give the same: one input of 10,000 orders is put into
//! either log, real projectors fold it, and every row and every event are compared, order by order.

mod given;
mod outcome;
mod projecting;

use crate::support::pair::Pair;
use given::Given;
use outcome::{Outcome, differences};

const ORDERS: usize = 10_000;
/// So that each of two projectors has some.
const PARTITIONS: u32 = 4;
const SHOWN: usize = 5;

#[test]
#[ignore = "nightly: servers"]
fn the_same_facts_give_the_same_orders_and_events_on_both_pairs() {
    let Some(shared) = Pair::KafkaAndCql.home_of(PARTITIONS) else { return };
    let given = Given::generate(ORDERS);
    given.reaches_enough();
    let alone = Pair::Sqlite.home().expect("files can always be made");
    given.preload(&alone);
    given.preload(&shared);

    let one = projecting::fold(&alone, (1, &given));
    assert_eq!(one, [given.records()], "one projector folds each record once");
    let two = projecting::fold(&shared, (2, &given));
    assert!(two.iter().all(|folded| *folded > 0), "both have folded: {two:?}");

    let (sqlite, cluster) = (Outcome::of(&alone, &given), Outcome::of(&shared, &given));
    assert_eq!(sqlite.orders(), ORDERS, "every order has its row");
    assert_eq!(sqlite.state, cluster.state, "one state digest");
    assert!(sqlite.events() > 2 * ORDERS, "{} events", sqlite.events());
    let found = differences(&sqlite, &cluster);
    let shown = found.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>();
    assert!(found.is_empty(), "{} orders differ:\n{}", found.len(), shown.join("\n"));
}
