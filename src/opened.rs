//! Owns a system that has open engines and keys, before its roles start.

use std::sync::Arc;

use anyhow::Context;
use payfold_engines::clock::{Clock, SystemClock};
use payfold_projector::rebuild::restored_epoch::write_missing_markers;
use payfold_schemas::record_mac::Writer;
use prometheus::Registry;

use crate::data_dir::DataDir;
use crate::keys::{Keys, records};
use crate::roles::Roles;
use crate::settings::{Loaded, Origin, Settings};
use crate::telemetry;
use crate::vault;
use crate::wiring::{self, Engines};

/// A system that has open engines and keys, before its roles start.
pub struct OpenedSystem {
    pub(crate) settings: Settings,
    pub(crate) demo: bool,
    pub(crate) data: DataDir,
    pub(crate) data_is_new: bool,
    /// `None` if no role needs engines.
    pub(crate) engines: Option<Engines>,
    pub(crate) keys: Keys,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) registry: Registry,
}

impl OpenedSystem {
    /// Opens the engines that these roles need, and the keys, as the settings say.
    pub async fn open(loaded: &Loaded, roles: Roles) -> anyhow::Result<Self> {
        let settings = loaded.settings.clone();
        let data = DataDir::of(&settings);
        let data_is_new = data.create()?;
        let registry = telemetry::registry()?;
        let engines = wiring::open(&settings, &registry, roles.need()).await?;
        let mut opened = Self { data_is_new, ..Self::with_engines(loaded, engines, registry)? };
        if let Some(engines) = &opened.engines {
            if engines.embedded {
                let (place, now) = (vault::place(&opened.settings)?, opened.clock.now());
                let keys = engines.record_keys.load_full();
                records::create_missing(&place, &keys, &*engines.log, now).await?;
                opened.keys.apply_change()?;
                write_missing_markers(&*engines.log_of(Writer::Projector), engines.base()?).await?;
            }
            let keys = engines.record_keys.load();
            records::check_writers(roles, &keys)?;
            records::warn_if_unproved(&keys);
        }
        if roles.ingest {
            opened.keys.warn_of_refused_notices(opened.clock.now());
        }
        Ok(opened)
    }

    /// Opens the keys for engines that are open already. Tests use it to inject faults between
    /// roles and engines.
    pub fn with_engines(
        loaded: &Loaded,
        engines: Option<Engines>,
        registry: Registry,
    ) -> anyhow::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let settings = loaded.settings.clone();
        let data = DataDir::of(&settings);
        let record_keys = engines.as_ref().map(|engines| Arc::clone(&engines.record_keys));
        let at_start = (loaded.origin(), clock.now());
        let keys = Keys::open(&settings, &data, record_keys.unwrap_or_default(), at_start)?;
        let demo = loaded.is_demo();
        Ok(Self { settings, demo, data, data_is_new: false, engines, keys, clock, registry })
    }

    pub(crate) fn origin(&self) -> Origin {
        if self.demo { Origin::Demo } else { Origin::Configured }
    }

    pub(crate) fn engines(&self) -> anyhow::Result<&Engines> {
        self.engines.as_ref().context("a role that needs engines has them")
    }
}
