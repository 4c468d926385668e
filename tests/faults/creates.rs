//! No order has two create calls, and none ends wrong: payments are created while the whole program is killed at
//! random moments; every shop asks again under its key until it has a definite answer. `PAYFOLD_KILLS=100` for the
//! long run.

mod bench;
mod shopper;

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use crate::dice::Dice;
use crate::support::knobs;
use crate::support::system::until;
use crate::trial;

use bench::Bench;
use shopper::{Shopper, Told};

/// Shops that ask at the same time.
const SHOPPERS: usize = 8;
/// A kill comes so long after the program listens, at most. A key whose call a kill cut off is answered after a
/// second of waiting for its outcome, so shorter lives would see little else.
const ALIVE_MS_MAX: u64 = 2_500;
/// The longest of it all is the deadline of an order whose call was never made.
const SETTLE_MAX: Duration = Duration::from_secs(60);

#[test]
#[ignore = "nightly: kills"]
fn no_order_has_two_create_calls_and_every_order_ends_right() {
    let seed = knobs::seed().unwrap_or_else(Dice::any_seed);
    let kills = knobs::kills();
    trial::tell(&format!("PAYFOLD_SEED={seed} PAYFOLD_KILLS={kills} of creates"));
    let bench = Bench::new();
    let mut dice = Dice::new(seed, 77);
    let mut program = bench.boot();
    let shoppers: Vec<_> = (0..SHOPPERS).map(|n| Shopper::start(&bench, n)).collect();
    for _ in 0..kills {
        // The random moment is the experiment.
        thread::sleep(Duration::from_millis(dice.roll(ALIVE_MS_MAX)));
        program.assert_runs();
        program.kill();
        program = bench.boot();
    }
    bench.stop_asking();
    let told: Vec<Told> = shoppers.into_iter().flat_map(Shopper::finish).collect();
    assert!(told.len() > usize::try_from(kills).expect("a count"), "{} payments", told.len());
    assert_eq!(bench.called_twice(), BTreeMap::new(), "orders with two create calls");
    until("the partner has told everything", SETTLE_MAX, || {
        (bench.unfinished() == 0).then_some(())
    });
    let called = bench.called();
    let known: BTreeSet<_> = told.iter().map(|told| told.order_id.clone()).collect();
    let unknown: Vec<_> = called.difference(&known).collect();
    assert!(unknown.is_empty(), "orders that were called and no shop was told of: {unknown:?}");
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    let mut late_s: f64 = 0.0;
    for told in &told {
        // The reference is the key: a second claim under it would show as a second order.
        assert_eq!(bench.orders_of(&told.key), [told.order_id.as_str()], "one key has one order");
        let called = called.contains(&told.order_id);
        // A claim that was made before a crash and a call that was not: the deadline ends it.
        let right = if called { "PAID" } else { "EXPIRED" };
        let state = || bench.state(&told.order_id).filter(|state| state == right);
        until(
            &format!("{} answered {} ends {right}", told.order_id, told.status),
            SETTLE_MAX,
            state,
        );
        *ends.entry(format!("{} {right}", told.status)).or_default() += 1;
        assert!(called || told.status == 202, "a definite answer without a call: {told:?}");
        if !called {
            late_s = late_s.max(bench.expired_after_s(&told.order_id).expect("X is what ended it"));
        }
    }
    assert!(late_s <= 5.0, "X came {late_s:.1} s after its deadline");
    trial::tell(&format!(
        "{} payments created under {kills} kills: called twice 0, ended wrong 0; answer and end: {ends:?}; \
         X at most {late_s:.1} s after its deadline",
        told.len()
    ));
}
