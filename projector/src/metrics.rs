//! Owns the projector's metrics, one method for each change. Counters without changing labels are
//! resolved once, when the metrics are made.

use std::sync::Arc;

use payfold_engines::clock::Clock;
use payfold_schemas::chain::Head;
use payfold_schemas::fact::Fact;
use payfold_schemas::order::{Flag, OrderState};
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;
use prometheus::{
    GaugeVec, Histogram, IntCounter, IntGauge, IntGaugeVec, Registry,
    register_gauge_vec_with_registry, register_histogram_with_registry,
    register_int_counter_vec_with_registry, register_int_counter_with_registry,
    register_int_gauge_vec_with_registry, register_int_gauge_with_registry,
};

use crate::fold::Effect;

const KINDS: [&str; 8] = [
    "createRequested",
    "sessionOpened",
    "createFailed",
    "ipn",
    "deadlinePassed",
    "queryAnswered",
    "refShared",
    "decided",
];
const RESULTS: [&str; 4] = ["added", "merged", "overflowed", "unchanged"];
const ACK_BUCKETS_SECONDS: [f64; 12] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0];

/// The projector's metrics.
pub struct ProjectorMetrics {
    clock: Arc<dyn Clock>,
    facts: [[IntCounter; 4]; 8],
    entered: [IntCounter; 8],
    raised: [IntCounter; 20],
    publish_failures: IntCounter,
    partitions: IntGauge,
    intake_partitions: IntGauge,
    partitions_halted: IntGauge,
    lag_records: IntGauge,
    lag_seconds: GaugeVec,
    builds: BuildMetrics,
    chain: ChainMetrics,
    ack_to_event_seconds: Histogram,
    latest: CopierMetrics,
}

/// The metrics of the copying to `orders.latest`.
struct CopierMetrics {
    lag_records: IntGauge,
    failures: IntCounter,
}

impl CopierMetrics {
    fn new(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            lag_records: register_int_gauge_with_registry!(
                "payfold_projector_latest_lag_records",
                "events of orders that are not copied to orders.latest yet",
                registry
            )?,
            failures: register_int_counter_with_registry!(
                "payfold_projector_latest_failures_total",
                "times the copying to orders.latest had to begin anew, or stopped at an event",
                registry
            )?,
        })
    }
}

impl ProjectorMetrics {
    /// Registers the metrics. The ages of records are measured by `clock`. Errors: a name is
    /// registered already.
    pub fn new(registry: &Registry, clock: Arc<dyn Clock>) -> prometheus::Result<Self> {
        let facts = register_int_counter_vec_with_registry!(
            "payfold_projector_facts_total",
            "facts folded, by kind and what became of them",
            &["kind", "result"],
            registry
        )?;
        let entered = register_int_counter_vec_with_registry!(
            "payfold_projector_state_changes_total",
            "orders that came into a state",
            &["state"],
            registry
        )?;
        let raised = register_int_counter_vec_with_registry!(
            "payfold_projector_flags_raised_total",
            "critical flags that orders got",
            &["flag"],
            registry
        )?;
        Ok(Self {
            clock,
            raised: Flag::ALL.map(|flag| raised.with_label_values(&[flag.as_str()])),
            facts: KINDS.map(|kind| RESULTS.map(|result| facts.with_label_values(&[kind, result]))),
            entered: OrderState::ALL.map(|state| entered.with_label_values(&[state.as_str()])),
            publish_failures: register_int_counter_with_registry!(
                "payfold_projector_publish_failures_total",
                "batches of events that could not be published and were tried again",
                registry
            )?,
            partitions: register_int_gauge_with_registry!(
                "payfold_projector_partitions",
                "partitions of intake this process folds",
                registry
            )?,
            intake_partitions: register_int_gauge_with_registry!(
                "payfold_projector_intake_partitions",
                "partitions intake has, for all processes together to fold",
                registry
            )?,
            partitions_halted: register_int_gauge_with_registry!(
                "payfold_projector_partitions_halted",
                "partitions that stand at a record that can't be read",
                registry
            )?,
            lag_records: register_int_gauge_with_registry!(
                "payfold_projector_lag_records",
                "records of intake that are not folded yet",
                registry
            )?,
            lag_seconds: register_gauge_vec_with_registry!(
                "payfold_projector_lag_seconds",
                "age of the oldest record not folded yet",
                &["partition"],
                registry
            )?,
            builds: BuildMetrics::new(registry)?,
            chain: ChainMetrics::new(registry)?,
            ack_to_event_seconds: register_histogram_with_registry!(
                "payfold_projector_ack_to_event_seconds",
                "from the receipt of a fact to its durable event",
                ACK_BUCKETS_SECONDS.to_vec(),
                registry
            )?,
            latest: CopierMetrics::new(registry)?,
        })
    }

    /// A copy that is not exported, for the projector of an unpublished build.
    pub(crate) fn unregistered(&self) -> Self {
        let copy = Self::new(&Registry::new(), Arc::clone(&self.clock));
        copy.expect("nothing is registered twice in a new registry")
    }

    /// The current time, by the clock that ages are measured with.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(crate) fn fact_folded(&self, fact: &Fact, effect: Effect) {
        let kind = match fact {
            Fact::CreateRequested(_) => 0,
            Fact::SessionOpened(_) => 1,
            Fact::CreateFailed(_) => 2,
            Fact::Ipn(_) => 3,
            Fact::DeadlinePassed { .. } => 4,
            Fact::QueryAnswered(_) => 5,
            Fact::RefShared(_) => 6,
            Fact::Decided(_) => 7,
        };
        let result = match effect {
            Effect::Added => 0,
            Effect::Merged => 1,
            Effect::Overflowed => 2,
            Effect::Unchanged => 3,
        };
        self.facts[kind][result].inc();
    }

    pub(crate) fn state_entered(&self, state: OrderState) {
        let index = OrderState::ALL.iter().position(|other| *other == state);
        self.entered[index.expect("ALL has every state")].inc();
    }

    pub(crate) fn flag_raised(&self, flag: Flag) {
        let index = Flag::ALL.iter().position(|other| *other == flag);
        self.raised[index.expect("ALL has every flag")].inc();
    }

    /// Observes how long events took to become durable; `received` holds the times at which their
    /// facts were received.
    pub(crate) fn events_published(&self, received: &[Time]) {
        let now = self.now();
        for received in received {
            self.ack_to_event_seconds.observe(seconds(now.nanos_since(*received)));
        }
    }

    pub(crate) fn publish_failed(&self) {
        self.publish_failures.inc();
    }

    /// Counts at least one halted partition, because the projector has ended with an error.
    pub fn partition_halted(&self) {
        self.partitions_halted.set(self.partitions_halted.get().max(1));
    }

    /// Sets the number of partitions that are halted at a record that can't be read.
    pub(crate) fn set_partitions_halted(&self, count: usize) {
        self.partitions_halted.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Sets the number of partitions assigned to this projector.
    pub(crate) fn set_partitions(&self, count: usize) {
        self.partitions.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Sets the number of partitions of intake, each of which some process has to fold.
    pub(crate) fn set_intake_partitions(&self, count: usize) {
        self.intake_partitions.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Removes the series of partitions that were revoked or lost.
    pub(crate) fn clear_partitions(&self, partitions: &[u32]) {
        for partition in partitions {
            // The errors mean that nothing was measured yet.
            self.clear_lag_age(*partition);
            let partition = partition.to_string();
            let _ = self.chain.head.remove_label_values(&[&partition]);
            let _ = self.chain.offset.remove_label_values(&[&partition]);
        }
    }

    /// Sets the head of a partition's chain. Prometheus keeps its history out of reach of the
    /// person who runs the log.
    pub(crate) fn set_chain_head(&self, position: Position, head: Head) {
        let [a, b, c, d, e, f, ..] = *head.digest().as_bytes();
        let partition = position.partition.to_string();
        // 48 bits, because Prometheus stores a gauge as a float.
        let head = i64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        self.chain.head.with_label_values(&[&partition]).set(head);
        let offset = i64::try_from(position.offset).unwrap_or(i64::MAX);
        self.chain.offset.with_label_values(&[&partition]).set(offset);
    }

    /// Sets the number of records that are not folded yet.
    pub(crate) fn set_lag_records(&self, records: u64) {
        self.lag_records.set(i64::try_from(records).unwrap_or(i64::MAX));
    }

    /// Sets the number of records that are not folded yet into an unpublished build.
    pub(crate) fn set_build_lag(&self, build: u32, records: u64) {
        let records = i64::try_from(records).unwrap_or(i64::MAX);
        self.builds.lag_records.with_label_values(&[&build.to_string()]).set(records);
    }

    /// Removes the lag of a build that is published now, or that this process no longer folds.
    pub(crate) fn clear_build_lag(&self, build: u32) {
        // An error means that no lag was set.
        let _ = self.builds.lag_records.remove_label_values(&[&build.to_string()]);
    }

    /// Marks an unpublished build after its projector has ended with an error.
    pub(crate) fn set_build_failed(&self, build: u32) {
        self.builds.failed.with_label_values(&[&build.to_string()]).set(1);
    }

    /// Removes the mark of a build that is dropped, or that has a new projector.
    pub(crate) fn clear_build_failed(&self, build: u32) {
        // An error means that there is no mark.
        let _ = self.builds.failed.remove_label_values(&[&build.to_string()]);
    }

    /// Sets the number of events of this process's partitions that are not copied to
    /// `orders.latest` yet.
    pub fn set_latest_lag(&self, records: u64) {
        self.latest.lag_records.set(i64::try_from(records).unwrap_or(i64::MAX));
    }

    /// Counts an error of the copying to `orders.latest`, or an event it stopped at.
    pub fn latest_failed(&self) {
        self.latest.failures.inc();
    }

    /// Sets the age of a partition's oldest record that is not folded yet, in nanoseconds.
    pub(crate) fn set_lag_age(&self, partition: u32, age_nanos: i64) {
        self.lag_seconds.with_label_values(&[&partition.to_string()]).set(seconds(age_nanos));
    }

    /// Removes the age of a partition that this process does not fold any longer.
    pub(crate) fn clear_lag_age(&self, partition: u32) {
        // An error means that nothing was measured yet.
        let _ = self.lag_seconds.remove_label_values(&[&partition.to_string()]);
    }
}

/// The metrics of unpublished builds, by build.
struct BuildMetrics {
    lag_records: IntGaugeVec,
    failed: IntGaugeVec,
}

impl BuildMetrics {
    fn new(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            lag_records: register_int_gauge_vec_with_registry!(
                "payfold_projector_build_lag_records",
                "records of intake not folded yet into an unpublished build",
                &["build"],
                registry
            )?,
            failed: register_int_gauge_vec_with_registry!(
                "payfold_projector_build_failed",
                "1 where the projector of an unpublished build has ended with an error",
                &["build"],
                registry
            )?,
        })
    }
}

/// The metrics of the log's chain, by partition.
struct ChainMetrics {
    head: IntGaugeVec,
    offset: IntGaugeVec,
}

impl ChainMetrics {
    fn new(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            head: register_int_gauge_vec_with_registry!(
                "payfold_projector_chain_head",
                "first 48 bits of the head of the log's chain, as a number",
                &["partition"],
                registry
            )?,
            offset: register_int_gauge_vec_with_registry!(
                "payfold_projector_chain_offset",
                "offset the head of the chain is of",
                &["partition"],
                registry
            )?,
        })
    }
}

/// Nanoseconds as seconds; 0 for a negative age, which two clocks that differ can yield.
fn seconds(nanos: i64) -> f64 {
    std::time::Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use payfold_engines::clock::SystemClock;

    use super::*;
    use crate::fold::testkit::facts;

    #[test]
    fn every_kind_state_and_flag_has_its_own_counter() {
        let registry = Registry::new();
        let metrics = ProjectorMetrics::new(&registry, Arc::new(SystemClock)).unwrap();
        let digest = payfold_schemas::digest::Digest::of_bytes(b"");
        let all = format!(
            "C 1; O r; CF c; S r 1; X 10:00; P S r 1; K r o; D d UNKNOWN_ORDER {digest} ours"
        );
        for fact in facts(&all) {
            metrics.fact_folded(&fact, Effect::Unchanged);
        }
        OrderState::ALL.into_iter().for_each(|state| metrics.state_entered(state));
        Flag::ALL.into_iter().for_each(|flag| metrics.flag_raised(flag));
        for family in registry.gather() {
            let expected = match family.name() {
                "payfold_projector_facts_total" => |labels: &str| labels.contains("unchanged"),
                "payfold_projector_state_changes_total" => |_: &str| true,
                "payfold_projector_flags_raised_total" => |_: &str| true,
                _ => continue,
            };
            for metric in family.get_metric() {
                let labels: Vec<_> = metric.get_label().iter().map(|l| l.value()).collect();
                let counted = metric.get_counter().get_value() == 1.0;
                assert_eq!(counted, expected(&labels.join(" ")), "{labels:?}");
            }
        }
        let kinds: Vec<_> = facts(&all).iter().map(Fact::kind).collect();
        assert_eq!(kinds, KINDS);
    }
}
