//! Owns one running system: what `run` and the tests boot. Engines, keys, roles and listeners are opened
//! in this order, so that nothing listens before what it needs is there.

use std::sync::Arc;
use std::time::Duration;

use actix_web::web::Data;
use anyhow::Context;
use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::{Extent, Start, Topic};
use payfold_ingest::health::StorageHealth;
use payfold_ingest::http::Ingest;
use payfold_ingest::intake::Intake;
use payfold_ingest::limits::Limits;
use payfold_ingest::metrics::Metrics as IngestMetrics;
use payfold_ingest::quarantine::Budget;
use payfold_projector::Projector;
use payfold_schemas::event::OrderChanged;
use payfold_schemas::record::Position;
use prometheus::Registry;
use tokio::sync::{mpsc, watch};

use crate::admin::{Admin, Life};
use crate::data_dir::DataDir;
use crate::demo::DemoOrders;
use crate::gauges::Gauges;
use crate::keys::Keys;
use crate::listener::{Listener, Routes, bind, listen_admin, listen_public};
use crate::roles::{RoleThread, Roles};
use crate::running::RunFile;
use crate::settings::{Loaded, Settings};
use crate::telemetry;
use crate::wiring::Engines;

/// How often the vault is looked at.
const VAULT_POLL: Duration = Duration::from_millis(500);

/// A system whose engines and keys are open and whose roles have not started.
pub struct Server {
    settings: Settings,
    demo: bool,
    data: DataDir,
    data_is_new: bool,
    engines: Engines,
    keys: Keys,
    clock: Arc<dyn Clock>,
    registry: Registry,
}

/// A system that runs.
pub struct Started {
    /// The public listener, if the ingest role is here.
    pub public: Option<Listener>,
    /// The admin listener.
    pub admin: Listener,
    /// The data folder.
    pub data: DataDir,
    /// Whether the folder was made just now.
    pub data_is_new: bool,
    /// How the log is kept.
    pub durability: &'static str,
    /// Where the process stands in its life.
    pub life: Arc<Life>,
    run_file: RunFile,
    engines: Engines,
    ingest: Option<Data<Ingest>>,
    projector: Option<RoleThread>,
    stop_projector: watch::Sender<bool>,
    failures: mpsc::UnboundedReceiver<anyhow::Error>,
}

impl Server {
    /// Opens engines and keys as the settings say.
    pub async fn open(loaded: &Loaded) -> anyhow::Result<Self> {
        let settings = loaded.settings.clone();
        let data = DataDir::of(&settings);
        let data_is_new = data.create()?;
        let registry = telemetry::registry()?;
        let engines = Engines::open(&settings, &registry).await?;
        Ok(Self { data_is_new, ..Self::with_engines(loaded, engines, registry)? })
    }

    /// The same over engines that are open already: how tests put faults between roles and engines.
    pub fn with_engines(
        loaded: &Loaded,
        engines: Engines,
        registry: Registry,
    ) -> anyhow::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let settings = loaded.settings.clone();
        let data = DataDir::of(&settings);
        let keys = Keys::open(&settings, &data, loaded.origin(), clock.now())?;
        let demo = loaded.is_demo();
        Ok(Self { settings, demo, data, data_is_new: false, engines, keys, clock, registry })
    }

    /// Whether the vault has an account of a sandbox profile.
    pub fn has_sandbox_account(&self) -> bool {
        let directory = self.keys.directory().load_full();
        directory.accounts().iter().any(|account| account.profile().allows_private_addresses())
    }

    /// Starts the roles that are asked for and the listeners; everything is bound when this returns.
    pub async fn start(self, roles: Roles) -> anyhow::Result<Started> {
        let life = Arc::new(Life::default());
        let storage = Arc::new(StorageHealth::default());
        let (failed, failures) = mpsc::unbounded_channel();
        let (stop_projector, stopped) = watch::channel(false);

        let admin_socket = bind(&self.settings.listen_admin, "listen-admin")?;
        let public_socket = roles
            .ingest
            .then(|| bind(&self.settings.listen_public, "listen-public"))
            .transpose()?;
        let projector = match roles.projector {
            true => Some(self.start_projector(stopped, failed)?),
            false => None,
        };
        let ingest = match roles.ingest {
            true => Some(Data::new(self.ingest(&storage)?)),
            false => None,
        };
        let admin = Data::new(self.admin(ingest.clone(), &storage, &life)?);
        let admin = listen_admin(admin_socket, admin)?;
        let public = match (&ingest, public_socket) {
            (Some(ingest), Some(socket)) => {
                Some(listen_public(socket, ingest_routes(ingest.clone()), &self.settings)?)
            }
            _ => None,
        };
        watch_vault(self.keys);
        let run_file = RunFile {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            public_url: public.as_ref().map(|listener| listener.url.clone()),
            admin_url: admin.url.clone(),
            demo: self.demo,
        };
        run_file.write(&self.data)?;
        life.started();
        Ok(Started {
            public,
            admin,
            data: self.data,
            data_is_new: self.data_is_new,
            durability: self.engines.durability,
            life,
            run_file,
            engines: self.engines,
            ingest,
            projector,
            stop_projector,
            failures,
        })
    }

    fn ingest(&self, storage: &Arc<StorageHealth>) -> anyhow::Result<Ingest> {
        let settings = &self.settings.ingest;
        let (log, clock) = (Arc::clone(&self.engines.log), Arc::clone(&self.clock));
        Ok(Ingest {
            intake: Intake::new(log, Arc::clone(&clock), Arc::clone(storage)),
            clock,
            directory: self.keys.directory(),
            metrics: IngestMetrics::new(&self.registry)?,
            limits: Limits::new(settings.address_rate_per_s, settings.trusted_proxies.clone()),
            quarantine: Budget::new(settings.quarantine_bytes_per_hour),
            body_timeout: Duration::from_millis(settings.body_timeout_ms),
            sampler: payfold_ingest::sampler::Sampler::default(),
            in_flight: std::sync::atomic::AtomicUsize::new(0),
        })
    }

    fn admin(
        &self,
        ingest: Option<Data<Ingest>>,
        storage: &Arc<StorageHealth>,
        life: &Arc<Life>,
    ) -> anyhow::Result<Admin> {
        let (log, clock) = (Arc::clone(&self.engines.log), Arc::clone(&self.clock));
        let data = self.data.path().to_owned();
        Ok(Admin {
            registry: self.registry.clone(),
            clock: Arc::clone(&self.clock),
            log: Arc::clone(&self.engines.log),
            storage: Arc::clone(storage),
            life: Arc::clone(life),
            tokens: self.keys.tokens(),
            demo: self.demo.then(DemoOrders::default),
            gauges: Gauges::new(&self.registry, log, clock, ingest, data)?,
        })
    }
}

impl Server {
    fn start_projector(
        &self,
        stopped: watch::Receiver<bool>,
        failed: mpsc::UnboundedSender<anyhow::Error>,
    ) -> anyhow::Result<RoleThread> {
        let metrics =
            Arc::new(payfold_projector::Metrics::new(&self.registry, Arc::clone(&self.clock))?);
        let settings = payfold_projector::Settings {
            batch_records_max: self.settings.projector.batch_records,
            ..Default::default()
        };
        let (log, store) = (Arc::clone(&self.engines.log), Arc::clone(&self.engines.store));
        let projector = Projector::new(log, store, Arc::clone(&metrics), settings);
        let halted = move || metrics.partition_halted();
        RoleThread::start("projector", failed, halted, projector.run(stopped))
    }
}

impl Started {
    /// Requests that have begun and not been answered.
    pub fn requests_in_flight(&self) -> usize {
        self.ingest.as_ref().map_or(0, |ingest| ingest.in_flight())
    }

    /// Resolves when a role ends with an error.
    pub async fn role_failed(&mut self) -> anyhow::Error {
        match self.failures.recv().await {
            Some(error) => {
                // A process that still takes notices is alive; one that does nothing else should be restarted.
                if self.public.is_none() {
                    self.life.broken();
                }
                error
            }
            None => std::future::pending().await,
        }
    }

    /// Calls `show` for every event from now on.
    pub async fn watch_orders(&self, show: fn(&OrderChanged)) -> anyhow::Result<()> {
        let log = Arc::clone(&self.engines.log);
        let head = log.extent(Topic::Orders).await?.iter().map(last).collect();
        actix_web::rt::spawn(async move {
            let Ok(mut events) = log.subscribe(Topic::Orders, "terminal", Start::After(head)).await
            else {
                return;
            };
            while let Ok(batch) = events.next_batch(256).await {
                batch
                    .iter()
                    .filter_map(|event| serde_json::from_slice(&event.value).ok())
                    .for_each(|e| show(&e));
            }
        });
        Ok(())
    }

    /// Ends the roles behind the listeners: folds what is durable, syncs the log. The public listener has been
    /// stopped before.
    pub async fn finish(mut self) -> anyhow::Result<()> {
        // Roles are gone when the channel is: then nobody is left to stop.
        let _ = self.stop_projector.send(true);
        if let Some(projector) = self.projector.take() {
            projector.join().await?;
        }
        self.engines.log.close().await.context("the log could not be closed")?;
        self.admin.handle.stop(false).await;
        self.run_file.remove(&self.data);
        Ok(())
    }
}

fn last(extent: &Extent) -> Position {
    Position { partition: extent.partition, offset: extent.last }
}

fn ingest_routes(ingest: Data<Ingest>) -> Routes {
    Arc::new(move |config| {
        config.app_data(ingest.clone());
        payfold_ingest::http::routes(config);
    })
}

/// Swaps accounts and keys when the vault changes. What can't be read leaves the old ones in force.
fn watch_vault(mut keys: Keys) {
    actix_web::rt::spawn(async move {
        let mut ticks = tokio::time::interval(VAULT_POLL);
        loop {
            ticks.tick().await;
            match keys.reload_if_changed() {
                Ok(true) => tracing::info!("the vault changed: accounts and keys are reloaded"),
                Ok(false) => {}
                Err(error) => tracing::error!(
                    error = format!("{error:#}"),
                    "the vault can't be reloaded: the old keys stay in force"
                ),
            }
        }
    });
}
