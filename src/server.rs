//! Owns one running system: what `run` and the tests boot. Engines, keys, sockets, roles and listeners are opened
//! in this order, so that nothing listens before what it needs is there, and ended in the other.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use actix_web::web::Data;
use anyhow::Context;
use payfold_checkout::Checkout;
use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::health::StorageHealth;
use payfold_engines::log::{Extent, Start, Topic};
use payfold_engines::orders::live::Live;
use payfold_ingest::http::Ingest;
use payfold_sandbox::Sandbox;
use payfold_schemas::event::OrderChanged;
use payfold_schemas::publication::Publication;
use prometheus::Registry;
use tokio::sync::{mpsc, watch};

use crate::admin::Life;
use crate::data_dir::DataDir;
use crate::error::Fixable;
use crate::key_metrics::{KeyTimes, VaultMetrics};
use crate::keys::{Keys, Look};
use crate::listener::{Listener, bind, listen, listen_admin, listen_public, url};
use crate::roles::{RoleRuntime, RoleThread, Roles};
use crate::running::RunFile;
use crate::settings::{Loaded, Origin, Settings};
use crate::telemetry;
use crate::wiring::Engines;

/// How often the vault is looked at.
const VAULT_POLL: Duration = Duration::from_millis(500);
/// How often readers look whether other tables are told.
const SWITCH_POLL: Duration = Duration::from_millis(500);
/// After how many looks a change that can't be taken is told again: a minute.
const TELL_AGAIN_LOOKS: u32 = 120;
/// How long the sandbox partner may go on sending when the system ends: it would send again after a restart of a
/// real partner, but it forgets.
const SANDBOX_DRAIN: Duration = Duration::from_millis(500);

/// A system whose engines and keys are open and whose roles have not started.
pub struct Server {
    pub(crate) settings: Settings,
    pub(crate) demo: bool,
    pub(crate) data: DataDir,
    data_is_new: bool,
    /// None where no role needs them.
    engines: Option<Engines>,
    pub(crate) keys: Keys,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) registry: Registry,
}

/// A system that runs.
pub struct Started {
    /// The listeners of its roles.
    pub listeners: Listeners,
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
    engines: Option<Engines>,
    ingest: Option<Data<Ingest>>,
    checkout: Option<(Data<Checkout>, RoleRuntime)>,
    sandbox: Option<(Sandbox, RoleRuntime)>,
    threads: Vec<RoleThread>,
    stop_roles: watch::Sender<bool>,
    failures: mpsc::UnboundedReceiver<anyhow::Error>,
}

/// The listeners of roles; none where the role is not here.
pub struct Listeners {
    /// Partners and browsers.
    pub public: Option<Listener>,
    /// Shops.
    pub shop: Option<Listener>,
    /// The sandbox partner.
    pub sandbox: Option<Listener>,
}

/// Sockets that are bound and not served yet: their addresses are known before anything is made that names them.
struct Sockets {
    public: Option<TcpListener>,
    shop: Option<TcpListener>,
    sandbox: Option<TcpListener>,
    admin: TcpListener,
}

impl Sockets {
    fn bind(settings: &Settings, roles: Roles) -> anyhow::Result<Self> {
        let bind_if = |wanted: bool, address: &str, flag: &str| {
            wanted.then(|| bind(address, flag)).transpose()
        };
        Ok(Self {
            admin: bind(&settings.listen_admin, "listen-admin")?,
            public: bind_if(roles.ingest, &settings.listen_public, "listen-public")?,
            shop: bind_if(roles.checkout, &settings.listen_shop, "listen-shop")?,
            sandbox: bind_if(roles.sandbox, &settings.listen_sandbox, "listen-sandbox")?,
        })
    }
}

/// Where partners, browsers and we reach this system and its sandbox partner.
pub(crate) struct Urls {
    pub(crate) public: String,
    pub(crate) sandbox: Option<String>,
}

impl Urls {
    fn of(settings: &Settings, sockets: &Sockets, roles: Roles) -> anyhow::Result<Self> {
        let public = match (&sockets.public, settings.public_url.trim_end_matches('/')) {
            (Some(socket), "") => url(socket)?,
            (None, "") if roles.checkout => {
                return Err(Fixable::error(
                    "checkout has to tell partners where their notices go, and this process has no public listener",
                    "set public_url in payfold.toml to the address partners reach the ingest role at",
                ));
            }
            (_, set) => set.to_owned(),
        };
        let sandbox = sockets.sandbox.as_ref().map(url).transpose()?;
        Ok(Self { public, sandbox })
    }
}

impl Server {
    /// Opens engines and keys as the settings say, for the roles that are asked for.
    pub async fn open(loaded: &Loaded, roles: Roles) -> anyhow::Result<Self> {
        let settings = loaded.settings.clone();
        let data = DataDir::of(&settings);
        let data_is_new = data.create()?;
        let registry = telemetry::registry()?;
        let engines = Engines::open(&settings, &registry, roles.need()).await?;
        Ok(Self { data_is_new, ..Self::with_engines(loaded, engines, registry)? })
    }

    /// The same over engines that are open already: how tests put faults between roles and engines.
    pub fn with_engines(
        loaded: &Loaded,
        engines: Option<Engines>,
        registry: Registry,
    ) -> anyhow::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let settings = loaded.settings.clone();
        let data = DataDir::of(&settings);
        let keys = Keys::open(&settings, &data, loaded.origin(), clock.now())?;
        let demo = loaded.is_demo();
        Ok(Self { settings, demo, data, data_is_new: false, engines, keys, clock, registry })
    }

    pub(crate) fn origin(&self) -> Origin {
        if self.demo { Origin::Demo } else { Origin::Configured }
    }

    pub(crate) fn engines(&self) -> anyhow::Result<&Engines> {
        self.engines.as_ref().context("a role that needs engines has them")
    }

    /// Starts the roles that are asked for and the listeners; everything is bound when this returns.
    pub async fn start(self, roles: Roles) -> anyhow::Result<Started> {
        let life = Arc::new(Life::default());
        let storage = Arc::new(StorageHealth::default());
        let (failed, failures) = mpsc::unbounded_channel();
        let (stop_roles, stopped) = watch::channel(false);
        let sockets = Sockets::bind(&self.settings, roles)?;
        let urls = Urls::of(&self.settings, &sockets, roles)?;

        if let Some(live) = self.engines.as_ref().and_then(Engines::live) {
            follow_switches(Arc::clone(live));
        }
        self.verify_log(stopped.clone())?;
        let (mut threads, mut desk, mut rebuilds) = (Vec::new(), None, None);
        if roles.projector {
            let (thread, its_desk) = self.start_projector(stopped.clone(), failed.clone())?;
            threads.push(thread);
            rebuilds = Some(its_desk);
        }
        if roles.reconciler {
            let (thread, its_desk) = self.start_reconciler(&urls, stopped, failed)?;
            threads.push(thread);
            desk = Some(its_desk);
        }
        let ingest = roles.ingest.then(|| self.ingest(&storage)).transpose()?.map(Data::new);
        let checkout = roles.checkout.then(|| self.checkout(&urls)).transpose()?;
        let sandbox = roles.sandbox.then(|| self.sandbox(&urls)).transpose()?;
        let desk = desk.map(|desk| (desk, urls.public.as_str()));
        let readiness = self.readiness(
            storage,
            ingest.as_deref().map(|ingest| &**ingest),
            checkout.as_ref().map(|(checkout, _)| checkout.clone()),
        )?;
        let admin = Data::new(self.admin(ingest.clone(), readiness, &life, (desk, rebuilds))?);
        let admin = listen_admin(sockets.admin, admin)?;
        let mut listeners = Listeners { public: None, shop: None, sandbox: None };
        if let (Some(ingest), Some(socket)) = (&ingest, sockets.public) {
            let routes = self.public_routes(ingest, &urls)?;
            listeners.public = Some(listen_public(socket, routes, &self.settings)?);
        }
        if let (Some((checkout, _)), Some(socket)) = (&checkout, sockets.shop) {
            let workers = self.settings.checkout.workers;
            listeners.shop = Some(listen(socket, crate::assembly::shop_routes(checkout), workers)?);
        }
        if let (Some((sandbox, _)), Some(socket)) = (&sandbox, sockets.sandbox) {
            listeners.sandbox = Some(listen(socket, crate::assembly::sandbox_routes(sandbox), 1)?);
        }
        KeyTimes::register(&self.registry, self.keys.directory(), Arc::clone(&self.clock))?;
        watch_vault(self.keys, VaultMetrics::new(&self.registry)?);
        let run_file = RunFile { demo: self.demo, ..listeners.run_file(&admin) };
        run_file.write(&self.data)?;
        life.started();
        Ok(Started {
            listeners,
            admin,
            data: self.data,
            data_is_new: self.data_is_new,
            durability: self.engines.as_ref().map_or("no engines", |engines| engines.durability),
            life,
            run_file,
            engines: self.engines,
            ingest,
            checkout,
            sandbox,
            threads,
            stop_roles,
            failures,
        })
    }
}

impl Listeners {
    /// What other commands of this machine find this process by.
    fn run_file(&self, admin: &Listener) -> RunFile {
        let url_of = |listener: &Option<Listener>| listener.as_ref().map(|l| l.url.clone());
        RunFile {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            public_url: url_of(&self.public),
            shop_url: url_of(&self.shop),
            sandbox_url: url_of(&self.sandbox),
            admin_url: admin.url.clone(),
            demo: false,
        }
    }
}

impl Started {
    /// Work that has begun and is not durable or not answered yet.
    pub fn in_flight(&self) -> usize {
        let ingest = self.ingest.as_ref().map_or(0, |ingest| ingest.in_flight());
        ingest + self.checkout.as_ref().map_or(0, |(checkout, _)| checkout.in_flight())
    }

    /// Whether it takes notices.
    pub fn takes_notices(&self) -> bool {
        self.listeners.public.is_some()
    }

    /// Ends what would stay open for ever: streams and long polls.
    pub fn end_streams(&self) {
        if let Some((checkout, _)) = &self.checkout {
            checkout.drain();
        }
    }

    /// Resolves when a role ends with an error.
    pub async fn role_failed(&mut self) -> anyhow::Error {
        match self.failures.recv().await {
            Some(error) => {
                // A process that still takes notices is alive; one that does nothing else should be restarted.
                if !self.takes_notices() {
                    self.life.broken();
                }
                error
            }
            None => std::future::pending().await,
        }
    }

    /// Calls `show` for every event from now on.
    pub async fn watch_orders(&self, show: fn(&OrderChanged)) -> anyhow::Result<()> {
        let Some(engines) = &self.engines else { return Ok(()) };
        let log = Arc::clone(&engines.log);
        let head = log.extent(Topic::Orders).await?.iter().map(Extent::end).collect();
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

    /// Ends the roles behind the listeners: folds what is durable, and closes log and claims, whatever a role ends with.
    /// The listeners have been stopped before. Errors: a role's, or the storage's.
    pub async fn finish(mut self) -> anyhow::Result<()> {
        if let Some((sandbox, runtime)) = self.sandbox.take() {
            sandbox.drain(SANDBOX_DRAIN).await;
            drop(runtime);
        }
        // Roles are gone when the channel is: then nobody is left to stop.
        let _ = self.stop_roles.send(true);
        let mut ended = Ok(());
        for thread in self.threads.drain(..) {
            ended = ended.and(thread.join().await);
        }
        drop(self.checkout.take());
        if let Some(engines) = &self.engines {
            engines.close().await.context("log and claims could not be closed")?;
        }
        self.admin.handle.stop(false).await;
        self.run_file.remove(&self.data);
        ended
    }
}

/// Lets readers follow when other tables are told.
fn follow_switches(live: Arc<Live>) {
    actix_web::rt::spawn(async move {
        let mut ticks = tokio::time::interval(SWITCH_POLL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match live.look().await {
                Ok(false) => {}
                Ok(true) => {
                    let Publication { tables, number } = live.publication();
                    tracing::info!(tables, number, "orders are read from another generation");
                }
                // What was read before is read on, and whoever folds tells of the outage.
                Err(error) => tracing::debug!(%error, "can't look whether other tables are told"),
            }
        }
    });
}

/// Swaps accounts and keys when the vault changes. What can't be taken leaves the old ones in force, and is told at once
/// and then every minute.
fn watch_vault(mut keys: Keys, metrics: VaultMetrics) {
    actix_web::rt::spawn(async move {
        let mut ticks = tokio::time::interval(VAULT_POLL);
        let (mut told, mut looks, mut untended) = (String::new(), 0, 0);
        loop {
            ticks.tick().await;
            match keys.tend(SystemClock.now()) {
                Ok(()) => untended = 0,
                // Another process may be at it.
                Err(error) => {
                    untended += 1;
                    if untended % TELL_AGAIN_LOOKS == 0 {
                        let error = format!("{error:#}");
                        tracing::warn!(error, "the next month's keys of bodies can't be made yet");
                    }
                }
            }
            match keys.look() {
                Ok(Look::Same) => {}
                Ok(Look::Taken) => {
                    metrics.taken();
                    told.clear();
                    tracing::info!("the vault changed: accounts and keys are reloaded");
                }
                Ok(Look::Undone) => {
                    metrics.undone();
                    told.clear();
                    tracing::info!("the vault is again what is in force");
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    if error != told {
                        metrics.refused();
                    }
                    if error != told || looks >= TELL_AGAIN_LOOKS {
                        tracing::error!(
                            error,
                            "the vault can't be reloaded: the old keys stay in force"
                        );
                        (told, looks) = (error, 0);
                    }
                    looks += 1;
                }
            }
        }
    });
}
