//! Owns the metrics of Kafka and the CQL database.

use std::sync::Arc;
use std::time::Duration;

use payfold_engines::log::kafka::Observers;
use payfold_engines::log::sqlite::CommitObserver;
use payfold_engines::orders::cql::{StatementKind, StatementObserver};
use prometheus::{
    IntCounterVec, Registry, register_gauge_vec_with_registry,
    register_histogram_vec_with_registry, register_int_counter_vec_with_registry,
    register_int_gauge_vec_with_registry,
};

/// Makes the observers that export statistics of the producer and of librdkafka.
pub(super) fn observers(registry: &Registry, commits: CommitObserver) -> anyhow::Result<Observers> {
    let waiting = register_int_gauge_vec_with_registry!(
        "payfold_engine_kafka_outbuf_requests",
        "Requests that wait to be sent to a broker.",
        &["broker"],
        registry
    )?;
    let rtt = register_gauge_vec_with_registry!(
        "payfold_engine_kafka_rtt_seconds",
        "99th percentile of the round trips to a broker.",
        &["broker"],
        registry
    )?;
    let errors = register_int_counter_vec_with_registry!(
        "payfold_engine_kafka_tx_errors_total",
        "Requests to a broker that could not be sent.",
        &["broker"],
        registry
    )?;
    let disconnects = register_int_counter_vec_with_registry!(
        "payfold_engine_kafka_disconnects_total",
        "Broken connections to a broker.",
        &["broker"],
        registry
    )?;
    let statistics = move |reported: &payfold_engines::log::kafka::Statistics| {
        for broker in reported.brokers.values().filter(|broker| broker.nodeid >= 0) {
            let label = [broker.nodeid.to_string()];
            let label = [label[0].as_str()];
            waiting.with_label_values(&label).set(broker.outbuf_cnt);
            if let Some(times) = &broker.rtt {
                let p99 = Duration::from_micros(u64::try_from(times.p99).unwrap_or(0));
                rtt.with_label_values(&label).set(p99.as_secs_f64());
            }
            raise(&errors, &label, broker.txerrs);
            raise(
                &disconnects,
                &label,
                u64::try_from(broker.disconnects.unwrap_or(0)).unwrap_or(0),
            );
        }
    };
    Ok(Observers { statistics: Some(Arc::new(statistics)), commits: Some(commits) })
}

/// Makes the observer that exports the statements on the order store.
pub(super) fn statements(registry: &Registry) -> anyhow::Result<StatementObserver> {
    let took = register_histogram_vec_with_registry!(
        "payfold_engine_cql_statement_duration_seconds",
        "Duration of a statement on the order store, until its answer or its timeout.",
        &["kind"],
        prometheus::exponential_buckets(0.000_25, 2.5, 12)?,
        registry,
    )?;
    let failed = register_int_counter_vec_with_registry!(
        "payfold_engine_cql_statement_failures_total",
        "Statements on the order store that failed.",
        &["kind"],
        registry
    )?;
    let took = StatementKind::ALL.map(|kind| took.with_label_values(&[kind.name()]));
    let failed = StatementKind::ALL.map(|kind| failed.with_label_values(&[kind.name()]));
    Ok(Arc::new(move |run| {
        took[run.kind as usize].observe(run.took.as_secs_f64());
        failed[run.kind as usize].inc_by(u64::from(run.failed));
    }))
}

/// Raises a counter to the total that its source reports.
fn raise(counter: &IntCounterVec, label: &[&str], counted: u64) {
    let counter = counter.with_label_values(label);
    counter.inc_by(counted.saturating_sub(counter.get()));
}
