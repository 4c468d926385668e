//! No order has two create calls, and none ends wrong: payments are created while the whole program
//! is killed at random moments; every shop asks again under its key until it has a definite answer.
//! `PAYFOLD_KILLS=100` for the long run.

mod bench;
mod shopper;

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use crate::faults::trial;
use crate::support::dice::Dice;
use crate::support::knobs;
use crate::support::waits::until;

use bench::Bench;
use shopper::{CreateAnswer, Shopper};

/// Shops that ask at the same time.
const SHOPPERS: usize = 8;
/// The longest time between a program's start and its kill. A key with a call that a kill cut off
/// is answered after a second of waiting for its outcome, so shorter lives would see little else.
const ALIVE_MS_MAX: u64 = 2_500;
/// The longest wait: until the deadline of an order that was never created at the partner.
const SETTLE_MAX: Duration = Duration::from_secs(60);

#[test]
#[ignore = "nightly: kills"]
fn no_order_has_two_create_calls_and_every_order_ends_right() {
    let seed = knobs::seed().unwrap_or_else(Dice::any_seed);
    let kills = knobs::kills();
    trial::print_line(&format!("PAYFOLD_SEED={seed} PAYFOLD_KILLS={kills} of creates"));
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
    let answers: Vec<CreateAnswer> = shoppers.into_iter().flat_map(Shopper::finish).collect();
    assert!(answers.len() > usize::try_from(kills).expect("a count"), "{} payments", answers.len());
    assert_eq!(bench.called_twice(), BTreeMap::new(), "orders with two create calls");
    until("the partner has sent every notice", SETTLE_MAX, || {
        (bench.unfinished() == 0).then_some(())
    });
    let called = bench.called();
    let known: BTreeSet<_> = answers.iter().map(|answer| answer.order_id.clone()).collect();
    let unknown: Vec<_> = called.difference(&known).collect();
    assert!(unknown.is_empty(), "orders that were called and that no shop has: {unknown:?}");
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    let mut late_s: f64 = 0.0;
    for answer in &answers {
        // The reference is the key: a second claim under it would show as a second order.
        assert_eq!(
            bench.orders_of(&answer.key),
            [answer.order_id.as_str()],
            "one key has one order"
        );
        let called = called.contains(&answer.order_id);
        // If a crash came between claim and call, the deadline ends the order.
        let right = if called { "PAID" } else { "EXPIRED" };
        let state = || bench.state(&answer.order_id).filter(|state| state == right);
        until(
            &format!("{} answered {} ends {right}", answer.order_id, answer.status),
            SETTLE_MAX,
            state,
        );
        *ends.entry(format!("{} {right}", answer.status)).or_default() += 1;
        assert!(called || answer.status == 202, "a definite answer without a call: {answer:?}");
        if !called {
            late_s =
                late_s.max(bench.expired_after_s(&answer.order_id).expect("X is what ended it"));
        }
    }
    assert!(late_s <= 5.0, "[time] X came {late_s:.1} s after its deadline");
    trial::print_line(&format!(
        "{} payments created under {kills} kills: called twice 0, ended wrong 0; \
         answer and end: {ends:?}; \
         X at most {late_s:.1} s after its deadline",
        answers.len()
    ));
}
