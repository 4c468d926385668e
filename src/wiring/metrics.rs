//! Owns the metrics of the log's commits on every engine.

use std::sync::Arc;
use std::time::Duration;

use payfold_engines::log::sqlite::CommitObserver;
use prometheus::{Registry, register_histogram_with_registry, register_int_counter_with_registry};

/// Makes the observer of commits, which feeds `payfold_engine_sync_duration_seconds` and
/// `payfold_engine_rows_total`.
pub(super) fn commit_metrics(registry: &Registry) -> anyhow::Result<CommitObserver> {
    let sync_duration = register_histogram_with_registry!(
        "payfold_engine_sync_duration_seconds",
        "Duration of a commit of the log, until it is synced or acknowledged by the in-sync \
            replicas.",
        prometheus::exponential_buckets(0.000_1, 2.5, 12)?,
        registry,
    )?;
    let rows = register_int_counter_with_registry!(
        "payfold_engine_rows_total",
        "Messages that became durable.",
        registry
    )?;
    Ok(Arc::new(move |committed, duration: Duration| {
        sync_duration.observe(duration.as_secs_f64());
        rows.inc_by(u64::try_from(committed).unwrap_or(0));
    }))
}
