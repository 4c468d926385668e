//! Owns what is told of Kafka and the CQL database in metrics.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use payfold_engines::log::kafka::Observers;
use payfold_engines::log::sqlite::CommitObserver;
use payfold_engines::orders::cql::{StatementKind, StatementObserver};
use prometheus::{
    GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry,
};

/// Puts what the producer and librdkafka tell into metrics.
pub(super) fn observers(registry: &Registry, commits: CommitObserver) -> anyhow::Result<Observers> {
    let gauge = |name: &str, help: &str| -> anyhow::Result<IntGaugeVec> {
        let gauge = IntGaugeVec::new(Opts::new(name, help), &["broker"])?;
        registry.register(Box::new(gauge.clone())).context("a metric")?;
        Ok(gauge)
    };
    let waiting = gauge(
        "payfold_engine_kafka_outbuf_requests",
        "Requests that wait to be sent to a broker.",
    )?;
    let rtt = GaugeVec::new(
        Opts::new("payfold_engine_kafka_rtt_seconds", "99th percentile of a broker's round trips."),
        &["broker"],
    )?;
    let counter = |name: &str, help: &str| -> anyhow::Result<IntCounterVec> {
        let counter = IntCounterVec::new(Opts::new(name, help), &["broker"])?;
        registry.register(Box::new(counter.clone())).context("a metric")?;
        Ok(counter)
    };
    registry.register(Box::new(rtt.clone()))?;
    let errors = counter(
        "payfold_engine_kafka_tx_errors_total",
        "Requests to a broker that could not be sent.",
    )?;
    let disconnects =
        counter("payfold_engine_kafka_disconnects_total", "Connections to a broker that broke.")?;
    let statistics = move |told: &payfold_engines::log::kafka::Statistics| {
        for broker in told.brokers.values().filter(|broker| broker.nodeid >= 0) {
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

/// Puts the statements on the order store into metrics.
pub(super) fn statements(registry: &Registry) -> anyhow::Result<StatementObserver> {
    let options = HistogramOpts::new(
        "payfold_engine_cql_statement_duration_seconds",
        "One statement on the order store, until its answer was there or its time was over.",
    );
    let buckets = prometheus::exponential_buckets(0.000_25, 2.5, 12)?;
    let took = HistogramVec::new(options.buckets(buckets), &["kind"])?;
    let failed = IntCounterVec::new(
        Opts::new(
            "payfold_engine_cql_statement_failures_total",
            "Statements on the order store that came to nothing.",
        ),
        &["kind"],
    )?;
    registry.register(Box::new(took.clone()))?;
    registry.register(Box::new(failed.clone()))?;
    let took = StatementKind::ALL.map(|kind| took.with_label_values(&[kind.name()]));
    let failed = StatementKind::ALL.map(|kind| failed.with_label_values(&[kind.name()]));
    Ok(Arc::new(move |run| {
        took[run.kind as usize].observe(run.took.as_secs_f64());
        failed[run.kind as usize].inc_by(u64::from(run.failed));
    }))
}

/// Raises a counter to what its source has counted.
fn raise(counter: &IntCounterVec, label: &[&str], counted: u64) {
    let counter = counter.with_label_values(label);
    counter.inc_by(counted.saturating_sub(counter.get()));
}
