//! Owns the engines of a bench: a log of its own, on which each message has a MAC as on a real one.

use std::sync::Arc;

use anyhow::Context;
use payfold_bench::fill::fill_log;
use payfold_bench::world::FactGenerator;
use payfold_engines::EngineError;
use payfold_schemas::record_keys::{DatedKey, RecordKeys};
use payfold_schemas::record_mac::{RecordKey, Writer};
use payfold_schemas::time::Time;
use prometheus::Registry;

use crate::settings::Settings;
use crate::wiring::{self, Engines, Need};

/// Opens the engines, with keys that are no secret. Errors: the engines'.
pub(super) async fn open(
    settings: &Settings,
    registry: &Registry,
    need: Need,
) -> anyhow::Result<Engines> {
    let engines = wiring::open(settings, registry, need).await?.context("a bench has engines")?;
    let key = |writer: Writer| DatedKey {
        key: RecordKey::new(writer, writer.name().as_bytes()),
        valid_from: Time::from_unix_ms(0),
    };
    engines.record_keys.store(Arc::new(RecordKeys::new(Writer::ALL.map(key).to_vec(), &[])));
    Ok(engines)
}

/// Appends all generated records, each with the MAC of its writer. Errors: those of the log.
pub(super) async fn fill(
    engines: &Engines,
    facts: &FactGenerator,
    progress: impl Fn(u64),
) -> Result<(), EngineError> {
    fill_log(&*engines.raw, facts, &engines.record_keys.load(), progress).await
}
