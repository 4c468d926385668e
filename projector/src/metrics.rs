//! Owns what the projector counts, as verbs. Every counter is resolved once, when it is made.

use std::sync::Arc;

use payfold_engines::clock::Clock;
use payfold_schemas::chain::Head;
use payfold_schemas::fact::Fact;
use payfold_schemas::order::OrderState;
use payfold_schemas::record::Position;
use payfold_schemas::time::Time;
use prometheus::{
    GaugeVec, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry,
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
pub struct Metrics {
    clock: Arc<dyn Clock>,
    facts: [[IntCounter; 4]; 8],
    entered: [IntCounter; 8],
    publish_failures: IntCounter,
    partitions: IntGauge,
    intake_partitions: IntGauge,
    partitions_halted: IntGauge,
    lag_records: IntGauge,
    lag_seconds: GaugeVec,
    generations: GenerationMetrics,
    chain: ChainMetrics,
    ack_to_event_seconds: Histogram,
    latest: OfLatest,
}

/// What is told of the copying to `orders.latest`.
struct OfLatest {
    lag_records: IntGauge,
    failures: IntCounter,
}

impl OfLatest {
    fn new(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            lag_records: gauge(
                registry,
                "payfold_projector_latest_lag_records",
                "events of orders that are not copied to orders.latest yet",
            )?,
            failures: counter(
                registry,
                "payfold_projector_latest_failures_total",
                "times the copying to orders.latest had to begin anew, or stopped at an event",
            )?,
        })
    }
}

impl Metrics {
    /// Registers the metrics. `clock` says how old a record is. Errors: a name is registered already.
    pub fn new(registry: &Registry, clock: Arc<dyn Clock>) -> prometheus::Result<Self> {
        let facts = counters(
            registry,
            Opts::new(
                "payfold_projector_facts_total",
                "facts folded, by kind and what became of them",
            ),
            &["kind", "result"],
        )?;
        let entered = counters(
            registry,
            Opts::new("payfold_projector_state_changes_total", "orders that came into a state"),
            &["state"],
        )?;
        let metrics = Self {
            clock,
            facts: KINDS.map(|kind| RESULTS.map(|result| facts.with_label_values(&[kind, result]))),
            entered: OrderState::ALL.map(|state| entered.with_label_values(&[state.as_str()])),
            publish_failures: counter(
                registry,
                "payfold_projector_publish_failures_total",
                "batches of events that could not be published and were tried again",
            )?,
            partitions: gauge(
                registry,
                "payfold_projector_partitions",
                "partitions of intake this process folds",
            )?,
            intake_partitions: gauge(
                registry,
                "payfold_projector_intake_partitions",
                "partitions intake has, for all processes together to fold",
            )?,
            partitions_halted: gauge(
                registry,
                "payfold_projector_partitions_halted",
                "partitions that stand at a record that can't be read",
            )?,
            lag_records: gauge(
                registry,
                "payfold_projector_lag_records",
                "records of intake that are not folded yet",
            )?,
            lag_seconds: GaugeVec::new(
                Opts::new(
                    "payfold_projector_lag_seconds",
                    "age of the oldest record not folded yet",
                ),
                &["partition"],
            )?,
            generations: GenerationMetrics::new(registry)?,
            chain: ChainMetrics::new(registry)?,
            ack_to_event_seconds: Histogram::with_opts(
                HistogramOpts::new(
                    "payfold_projector_ack_to_event_seconds",
                    "from the receipt of a fact to its durable event",
                )
                .buckets(ACK_BUCKETS_SECONDS.to_vec()),
            )?,
            latest: OfLatest::new(registry)?,
        };
        registry.register(Box::new(metrics.lag_seconds.clone()))?;
        registry.register(Box::new(metrics.ack_to_event_seconds.clone()))?;
        Ok(metrics)
    }

    /// The same metrics, registered nowhere: for work nobody is told of.
    pub(crate) fn apart(&self) -> Self {
        let made = Self::new(&Registry::new(), Arc::clone(&self.clock));
        made.expect("nothing is registered twice in a new registry")
    }

    /// The present, by the clock the ages are measured with.
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
        let place = OrderState::ALL.iter().position(|other| *other == state);
        self.entered[place.expect("ALL has every state")].inc();
    }

    /// Events are durable; `received` is when their facts were received.
    pub(crate) fn events_published(&self, received: &[Time]) {
        let now = self.now();
        for received in received {
            self.ack_to_event_seconds.observe(seconds(now.nanos_since(*received)));
        }
    }

    pub(crate) fn publish_failed(&self) {
        self.publish_failures.inc();
    }

    /// The projector has ended with an error: at least one partition stands where it is.
    pub fn partition_halted(&self) {
        self.partitions_halted.set(self.partitions_halted.get().max(1));
    }

    /// So many partitions stand at a record that can't be read.
    pub(crate) fn partitions_halted_are(&self, count: usize) {
        self.partitions_halted.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// So many partitions are this projector's.
    pub(crate) fn partitions_are(&self, count: usize) {
        self.partitions.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Intake has so many partitions; somebody has to fold each.
    pub(crate) fn intake_partitions_are(&self, count: usize) {
        self.intake_partitions.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// These partitions are another projector's now; what was told of them here holds no longer.
    pub(crate) fn partitions_gone(&self, partitions: &[u32]) {
        for partition in partitions {
            // Nothing may have been measured yet.
            let partition = partition.to_string();
            let _ = self.lag_seconds.remove_label_values(&[&partition]);
            let _ = self.chain.head.remove_label_values(&[&partition]);
            let _ = self.chain.offset.remove_label_values(&[&partition]);
        }
    }

    /// The chain of a partition has this head now. Prometheus remembers it where the log's keeper can't reach.
    pub(crate) fn chained(&self, position: Position, head: Head) {
        let [a, b, c, d, e, f, ..] = *head.digest().as_bytes();
        let partition = position.partition.to_string();
        // No more than 48 bits: a gauge is a float where it is kept.
        let head = i64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        self.chain.head.with_label_values(&[&partition]).set(head);
        let offset = i64::try_from(position.offset).unwrap_or(i64::MAX);
        self.chain.offset.with_label_values(&[&partition]).set(offset);
    }

    pub(crate) fn lag_measured(&self, records: u64) {
        self.lag_records.set(i64::try_from(records).unwrap_or(i64::MAX));
    }

    /// So many records are not folded yet into a generation that nobody is told of.
    pub(crate) fn generation_lag_measured(&self, tables: u32, records: u64) {
        let records = i64::try_from(records).unwrap_or(i64::MAX);
        self.generations.lag_records.with_label_values(&[&tables.to_string()]).set(records);
    }

    /// Nobody here folds into this generation in silence any more.
    pub(crate) fn generation_not_silent(&self, tables: u32) {
        // It may never have been measured.
        let _ = self.generations.lag_records.remove_label_values(&[&tables.to_string()]);
    }

    /// The projector of a generation in the making has ended with an error.
    pub(crate) fn generation_has_failed(&self, tables: u32) {
        self.generations.failed.with_label_values(&[&tables.to_string()]).set(1);
    }

    /// It is tried again, or thrown away.
    pub(crate) fn generation_has_not_failed(&self, tables: u32) {
        // It may never have failed.
        let _ = self.generations.failed.remove_label_values(&[&tables.to_string()]);
    }

    /// So many events of this process's partitions are not copied to `orders.latest` yet.
    pub fn latest_behind(&self, records: u64) {
        self.latest.lag_records.set(i64::try_from(records).unwrap_or(i64::MAX));
    }

    /// The copying to `orders.latest` had to begin anew, or stands at an event.
    pub fn latest_failed(&self) {
        self.latest.failures.inc();
    }

    pub(crate) fn oldest_unfolded(&self, partition: u32, age_nanos: i64) {
        self.lag_seconds.with_label_values(&[&partition.to_string()]).set(seconds(age_nanos));
    }
}

fn counters(registry: &Registry, opts: Opts, labels: &[&str]) -> prometheus::Result<IntCounterVec> {
    let counters = IntCounterVec::new(opts, labels)?;
    registry.register(Box::new(counters.clone()))?;
    Ok(counters)
}

/// Of the generations that nobody is told of, by generation.
struct GenerationMetrics {
    lag_records: IntGaugeVec,
    failed: IntGaugeVec,
}

impl GenerationMetrics {
    fn new(registry: &Registry) -> prometheus::Result<Self> {
        let of_generation = |name, help| gauges(registry, (name, help), "generation");
        Ok(Self {
            lag_records: of_generation(
                "payfold_projector_generation_lag_records",
                "records of intake not folded yet into a generation that nobody is told of",
            )?,
            failed: of_generation(
                "payfold_projector_generation_failed",
                "1 where the projector of a generation in the making has ended with an error",
            )?,
        })
    }
}

/// Of the log's chain, by partition.
struct ChainMetrics {
    head: IntGaugeVec,
    offset: IntGaugeVec,
}

impl ChainMetrics {
    fn new(registry: &Registry) -> prometheus::Result<Self> {
        let of_partition = |name, help| gauges(registry, (name, help), "partition");
        Ok(Self {
            head: of_partition(
                "payfold_projector_chain_head",
                "first 48 bits of the head of the log's chain, as a number",
            )?,
            offset: of_partition(
                "payfold_projector_chain_offset",
                "offset the head of the chain is of",
            )?,
        })
    }
}

fn counter(registry: &Registry, name: &str, help: &str) -> prometheus::Result<IntCounter> {
    let counter = IntCounter::new(name, help)?;
    registry.register(Box::new(counter.clone()))?;
    Ok(counter)
}

fn gauge(registry: &Registry, name: &str, help: &str) -> prometheus::Result<IntGauge> {
    let gauge = IntGauge::new(name, help)?;
    registry.register(Box::new(gauge.clone()))?;
    Ok(gauge)
}

fn gauges(
    registry: &Registry,
    (name, help): (&str, &str),
    label: &str,
) -> prometheus::Result<IntGaugeVec> {
    let gauges = IntGaugeVec::new(Opts::new(name, help), &[label])?;
    registry.register(Box::new(gauges.clone()))?;
    Ok(gauges)
}

/// Nanoseconds as seconds; never negative, whatever two clocks say.
fn seconds(nanos: i64) -> f64 {
    std::time::Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use payfold_engines::clock::SystemClock;

    use super::*;
    use crate::fold::testkit::facts;

    #[test]
    fn every_kind_and_state_has_its_own_counter() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry, Arc::new(SystemClock)).unwrap();
        let digest = payfold_schemas::digest::Digest::of_bytes(b"");
        let all = format!(
            "C 1; O r; CF c; S r 1; X 10:00; P S r 1; K r o; D d UNKNOWN_ORDER {digest} ours"
        );
        for fact in facts(&all) {
            metrics.fact_folded(&fact, Effect::Unchanged);
        }
        OrderState::ALL.into_iter().for_each(|state| metrics.state_entered(state));
        for family in registry.gather() {
            let expected = match family.name() {
                "payfold_projector_facts_total" => |labels: &str| labels.contains("unchanged"),
                "payfold_projector_state_changes_total" => |_: &str| true,
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
