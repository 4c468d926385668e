//! A cluster under faults: two ingest, two projector and two checkout processes over three brokers
//! and a database, with partners and shops at work, while processes are killed and frozen, servers
//! die, leaders move and connections break. No acknowledged notice is lost, none is applied twice,
//! no version is missing, every request is answered in time, and all of it goes on by itself.
//! `PAYFOLD_CLUSTER_FAULTS=60` for the long run.

mod assembly;
mod brokers_away;
mod client;
mod faults;
mod late;
mod load;
mod pods;
mod proxy;
mod view;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::faults::trial;
use crate::support::dice::Dice;
use crate::support::knobs;
use crate::support::stack;
use crate::support::waits::until;

use assembly::Cluster;
use faults::Kind;
use load::Load;

/// How long, once no fault strikes, the partner may take to send the notices that are due, and
/// the projectors to fold them.
const SETTLE_MAX: Duration = Duration::from_secs(150);

#[test]
#[ignore = "nightly: cluster"]
fn a_cluster_loses_nothing_and_applies_nothing_twice() {
    if !stack::is_available() {
        return;
    }
    let seed = knobs::seed().unwrap_or_else(Dice::any_seed);
    let kinds = kinds();
    let faults = knobs::cluster_faults().unwrap_or(kinds.len());
    trial::print_line(&format!("PAYFOLD_SEED={seed} PAYFOLD_CLUSTER_FAULTS={faults}"));
    let mut dice = Dice::new(seed, 7);
    let cluster = Cluster::start();
    let load = Load::start(&cluster.scene, seed);
    cluster.warm_up();
    let mut struck: BTreeMap<Kind, usize> = BTreeMap::new();
    for kind in faults::order(&kinds, faults, &mut dice) {
        let effect = kind.strike(&cluster, &mut dice);
        let recovered = cluster.recover(kind.name());
        *struck.entry(kind).or_default() += 1;
        trial::print_line(&format!("{}: {effect}; all well after {recovered:.1?}", kind.name()));
    }
    load.finish();
    until("the partner has sent every notice", SETTLE_MAX, || {
        (cluster.partner.unfinished() == 0).then_some(())
    });
    cluster.quiet(SETTLE_MAX);
    finish(&cluster, &struck);
    let missing: Vec<_> = kinds.iter().filter(|kind| !struck.contains_key(kind)).collect();
    assert!(missing.is_empty(), "faults that never struck: {missing:?}");
}

/// What is to strike: every kind, unless somebody looks for a bug.
fn kinds() -> Vec<Kind> {
    let Some(only) = knobs::cluster_only() else { return Kind::ALL.to_vec() };
    assert!(!knobs::is_ci(), "PAYFOLD_CLUSTER_ONLY is not for CI");
    let named = |kind: &&Kind| only.iter().any(|name| name == kind.name());
    Kind::ALL.iter().filter(named).copied().collect()
}

/// Holds what is left against what was answered.
fn finish(cluster: &Cluster, struck: &BTreeMap<Kind, usize>) {
    cluster.assert_runs();
    let verified = cluster.verify();
    let report = cluster.view.check(&cluster.scene.world.seen());
    let strikes: Vec<_> =
        struck.iter().map(|(kind, times)| format!("{} {times}", kind.name())).collect();
    trial::print_line(&report);
    let restarts = cluster.restarts();
    trial::print_line(&format!(
        "struck: {}; failed starts begun again: {restarts}",
        strikes.join(", ")
    ));
    trial::print_line(&cluster.scene.answers);
    report.assert_clean();
    assert!(verified.status.success(), "payfold log verify: {verified:?}");
    assert_eq!(cluster.partner.create_calls(2), BTreeMap::new(), "orders with two create calls");
    let violations = cluster.scene.answers.violations();
    assert!(violations.is_empty(), "{violations:#?}");
}
