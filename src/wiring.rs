//! Owns the choice of engines by URL, and the checks that they belong together. Engines are chosen
//! only here and in tests. Invariant: log and order store are both embedded or both distributed.
//! Without the feature `cluster` distributed engines are refused with an explanation.

pub(crate) mod cluster_state;
#[cfg(feature = "cluster")]
mod distributed;
#[cfg(not(feature = "cluster"))]
#[path = "wiring/embedded_only.rs"]
mod distributed;
mod embedded;
mod engines;
pub(crate) mod explain;
mod metrics;

use prometheus::Registry;

pub(crate) use self::distributed::DistributedEngines;
pub(crate) use self::distributed::compacted_copy::CompactedCopy;
pub(crate) use self::embedded::Paths;
pub use self::engines::{Engines, Need};
use crate::error::Fixable;
use crate::settings::Settings;
use crate::vault;

/// The kind of engines that the settings name, with their addresses.
#[derive(Clone, Debug)]
pub(crate) enum ChosenEngines {
    /// SQLite files.
    Embedded(Paths),
    /// Kafka, and a CQL database if the settings name one.
    Distributed(Box<DistributedEngines>),
}

/// Chooses the engines that the settings name. Errors: a URL that can't be parsed, or a mix of
/// embedded and distributed engines.
pub(crate) fn choose_engines(settings: &Settings) -> anyhow::Result<ChosenEngines> {
    let distributed = (settings.logs_to_kafka(), settings.orders.starts_with("cql"));
    match distributed {
        (false, false) => Ok(ChosenEngines::Embedded(Paths::of(settings)?)),
        (true, _) if distributed.1 || settings.orders.is_empty() => {
            Ok(ChosenEngines::Distributed(Box::new(DistributedEngines::of(settings)?)))
        }
        _ => Err(Fixable::error(
            format!(
                "log = \"{}\" with orders = \"{}\" mixes engines: one process owns a SQLite \
                    file, and many share Kafka and CQL, so some processes would fold orders that \
                    others can't read",
                settings.log, settings.orders
            ),
            "write both as sqlite: (or leave both out), or log as kafka:// and orders as cql://",
        )),
    }
}

/// Opens the engines that a running system needs, and checks that they belong together.
pub async fn open(
    settings: &Settings,
    registry: &Registry,
    need: Need,
) -> anyhow::Result<Option<Engines>> {
    if need == Need::Nothing {
        return Ok(None);
    }
    let opened = match choose_engines(settings)? {
        ChosenEngines::Embedded(paths) => paths.open(settings, registry).await?,
        ChosenEngines::Distributed(distributed) => {
            distributed.open(registry, need, vault::record_keys(settings)).await?
        }
    };
    Ok(Some(opened))
}

/// Whether no log has been made yet; at scale that is not known.
pub(crate) fn is_new(settings: &Settings) -> anyhow::Result<bool> {
    match choose_engines(settings)? {
        ChosenEngines::Embedded(paths) => paths.is_new(),
        ChosenEngines::Distributed(_) => Ok(false),
    }
}

/// Opens both engines read-only, with or without a running system.
pub(crate) async fn open_to_read(settings: &Settings) -> anyhow::Result<Engines> {
    let keys = vault::record_keys(settings);
    match choose_engines(settings)? {
        ChosenEngines::Embedded(paths) => paths.open_to_read(keys).await,
        ChosenEngines::Distributed(distributed) => distributed.open_to_read(keys).await,
    }
}
