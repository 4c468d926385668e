//! Owns the folding of a filled log: real projectors over real engines, until everything is folded.

use std::sync::Arc;
use std::time::Duration;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_projector::{Projector, ProjectorMetrics, ProjectorSettings};
use prometheus::Registry;
use tokio::sync::watch;

use super::given::Given;
use crate::support::pair::{Engines, runtime};
use crate::support::system::{Home, alone};
use crate::support::waits::until;

const FOLDED_MAX: Duration = Duration::from_secs(120);

/// Lets so many projectors fold an input, of which the end comes when each has its partitions; how
/// many records each has folded.
pub fn fold(home: &Home, (projectors, given): (usize, &Given)) -> Vec<u64> {
    let runtime = runtime();
    let (stop, stopped) = watch::channel(false);
    let start = |_| {
        let engines = alone(|| runtime.block_on(Engines::of(home)));
        let registry = Registry::new();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let metrics =
            Arc::new(ProjectorMetrics::new(&registry, clock).expect("they are registered once"));
        let Engines { log, store } = engines.clone();
        let projector = Projector::new(log, store, metrics, ProjectorSettings::default());
        let status = projector.status();
        (engines, registry, status, runtime.spawn(projector.run(stopped.clone())))
    };
    let started: Vec<_> = (0..projectors).map(start).collect();
    until("every projector has partitions", FOLDED_MAX, || {
        started.iter().all(|(_, _, status, _)| !status.owned().is_empty()).then_some(())
    });
    let Engines { log, store } = &started[0].0;
    runtime.block_on(given.finish(&**log));
    until("everything is folded", FOLDED_MAX, || {
        let progress = runtime.block_on(store.progress()).expect("the store can be read");
        let folded = progress.into_iter().flat_map(|progress| progress.folded);
        let folded: u64 = folded.map(|one| one.position.offset).sum();
        (folded >= given.records()).then_some(())
    });
    stop.send(true).expect("projectors listen");
    let ended = started.into_iter().map(|(engines, registry, _, running)| {
        runtime.block_on(async {
            running.await.expect("no panic").expect("no error");
            engines.log.close().await.expect("it can be closed");
        });
        facts(&registry)
    });
    ended.collect()
}

/// How many records a projector counted, whatever came of them.
fn facts(registry: &Registry) -> u64 {
    let families = registry.gather();
    let family = families.iter().find(|family| family.name() == "payfold_projector_facts_total");
    let counters = family.into_iter().flat_map(|family| family.get_metric());
    counters.map(|one| one.get_counter().get_value() as u64).sum()
}
