//! Owns a running system, as `payfold run` and tests start it. Starts from open engines and keys
//! (`opened`) and opens sockets, roles and listeners in this order, so that nothing is served
//! before its dependencies exist. They end in the reverse order.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use actix_web::web::Data;
use anyhow::Context;
use payfold_checkout::Checkout;
use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::health::StorageHealth;
use payfold_engines::log::{Extent, Start, Topic};
use payfold_ingest::ingest::Ingest;
use payfold_projector::live::LiveStore;
use payfold_sandbox::Sandbox;
use payfold_schemas::event::OrderChanged;
use payfold_schemas::publication::Publication;
use tokio::sync::{mpsc, watch};

use crate::admin::{self, Life};
use crate::assembly::{AdminServices, Assembly, routes_of, sandbox_routes, shop_routes};
use crate::data_dir::DataDir;
use crate::key_metrics::{KeyTimes, VaultMetrics};
use crate::keys::{Keys, VaultChange};
use crate::listener::{Listener, Routes, bind, listen, listen_admin, listen_public};
use crate::opened::OpenedSystem;
use crate::roles::{RoleRuntime, RoleThread, Roles};
use crate::run_file::RunFile;
use crate::settings::Settings;
use crate::urls::Urls;
use crate::wiring::Engines;

/// One worker: a page waits for admin listeners most of its time.
const CONSOLE_WORKERS: usize = 1;
/// One worker: the sandbox plays one partner.
const SANDBOX_WORKERS: usize = 1;
/// How often the vault is checked for changes.
const VAULT_POLL: Duration = Duration::from_millis(500);
/// How often readers check whether another build is published.
const SWITCH_POLL: Duration = Duration::from_millis(500);
/// After how many checks of the vault a lasting failure is logged again: a minute.
const REPEAT_LOG_AFTER_CHECKS: u32 = 120;
/// How long the sandbox partner may go on sending notices when the system ends. A real partner
/// would send them again later; the sandbox forgets them.
const SANDBOX_DRAIN: Duration = Duration::from_millis(500);

/// A running system.
pub struct RunningSystem {
    /// The listeners of its roles.
    pub listeners: Listeners,
    /// The admin listener.
    pub admin: Listener,
    /// The data folder.
    pub data: DataDir,
    /// Whether this start created the folder.
    pub data_is_new: bool,
    /// The durability of the log, for the banner.
    pub durability: &'static str,
    /// The lifecycle state of the process.
    pub life: Arc<Life>,
    /// A link that logs the demo's user in to the console, once.
    pub console_login: Option<String>,
    run_file: RunFile,
    engines: Option<Engines>,
    ingest: Option<Data<Ingest>>,
    checkout: Option<(Data<Checkout>, RoleRuntime)>,
    sandbox: Option<(Sandbox, RoleRuntime)>,
    threads: Vec<RoleThread>,
    stop_roles: watch::Sender<bool>,
    failures: mpsc::UnboundedReceiver<anyhow::Error>,
}

/// The listeners of roles, `None` for a role that this process does not run; and the one for
/// probes and metrics alone.
pub struct Listeners {
    /// The listener for probes and metrics, if it is configured.
    pub probes: Option<Listener>,
    /// The listener for partners and browsers.
    pub public: Option<Listener>,
    /// The listener for shops.
    pub shop: Option<Listener>,
    /// The listener of the console.
    pub console: Option<Listener>,
    /// The listener of the sandbox partner.
    pub sandbox: Option<Listener>,
}

/// Bound sockets that are not served yet. They are bound first because partners and run files need
/// their addresses.
struct Sockets {
    probes: Option<TcpListener>,
    public: Option<TcpListener>,
    shop: Option<TcpListener>,
    console: Option<TcpListener>,
    sandbox: Option<TcpListener>,
}

/// What the listeners serve; `None` for a role that this process does not run.
struct RoleRoutes {
    probes: Routes,
    public: Option<Routes>,
    shop: Option<Routes>,
    console: Option<Routes>,
    sandbox: Option<Routes>,
}

impl Sockets {
    fn bind(settings: &Settings, roles: Roles) -> anyhow::Result<Self> {
        let bind_if = |wanted: bool, address: &str, flag: &str| {
            wanted.then(|| bind(address, flag)).transpose()
        };
        let probes = &settings.listen_probes;
        Ok(Self {
            probes: bind_if(!probes.is_empty(), probes, "listen-probes")?,
            public: bind_if(roles.ingest, &settings.listen_public, "listen-public")?,
            shop: bind_if(roles.checkout, &settings.listen_shop, "listen-shop")?,
            console: bind_if(roles.console, &settings.listen_console, "listen-console")?,
            sandbox: bind_if(roles.sandbox, &settings.listen_sandbox, "listen-sandbox")?,
        })
    }

    /// Serves these routes.
    fn listen(self, settings: &Settings, routes: RoleRoutes) -> anyhow::Result<Listeners> {
        let serve = |socket: Option<TcpListener>, routes: Option<Routes>, workers| {
            socket.zip(routes).map(|(socket, routes)| listen(socket, routes, workers)).transpose()
        };
        let public = self.public.zip(routes.public);
        Ok(Listeners {
            probes: self.probes.map(|socket| listen_admin(socket, routes.probes)).transpose()?,
            public: public
                .map(|(socket, routes)| listen_public(socket, routes, settings))
                .transpose()?,
            shop: serve(self.shop, routes.shop, settings.checkout.workers)?,
            console: serve(self.console, routes.console, CONSOLE_WORKERS)?,
            sandbox: serve(self.sandbox, routes.sandbox, SANDBOX_WORKERS)?,
        })
    }
}

impl RunningSystem {
    /// Starts these roles and their listeners. All sockets are bound when this returns.
    pub async fn start(opened: OpenedSystem, roles: Roles) -> anyhow::Result<Self> {
        let life = Arc::new(Life::default());
        let storage = Arc::new(StorageHealth::default());
        let (failed, failures) = mpsc::unbounded_channel();
        let (stop_roles, stopped) = watch::channel(false);
        let admin_socket = bind(&opened.settings.listen_admin, "listen-admin")?;
        let sockets = Sockets::bind(&opened.settings, roles)?;
        let (public, its_sandbox) = (sockets.public.as_ref(), sockets.sandbox.as_ref());
        let urls = Urls::of(&opened.settings, public, its_sandbox, roles)?;
        let assembly = Assembly { opened: &opened, urls: &urls };

        if let Some(live) = opened.engines.as_ref().and_then(Engines::live) {
            follow_switches(Arc::clone(live));
        }
        assembly.verify_log(stopped.clone())?;
        let (mut threads, mut reconcile, mut rebuilds) = (Vec::new(), None, None);
        if roles.projector {
            let (thread, service) = assembly.start_projector(stopped.clone(), failed.clone())?;
            threads.push(thread);
            rebuilds = Some(service);
        }
        if roles.reconciler {
            let (thread, service) = assembly.start_reconciler(stopped, failed)?;
            threads.push(thread);
            reconcile = Some(service);
        }
        let ingest = roles.ingest.then(|| assembly.ingest(&storage)).transpose()?.map(Data::new);
        let checkout = roles.checkout.then(|| assembly.checkout()).transpose()?;
        let sandbox = roles.sandbox.then(|| assembly.sandbox()).transpose()?;
        let readiness = assembly.readiness(
            storage,
            ingest.as_deref().map(|ingest| &**ingest),
            checkout.as_ref().map(|(checkout, _)| checkout.clone()),
        )?;
        let services = AdminServices { roles, reconcile, rebuilds };
        let admin = Data::new(assembly.admin(ingest.clone(), readiness, &life, services)?);
        let probes = routes_of(&admin, admin::probe_routes);
        let admin = listen_admin(admin_socket, routes_of(&admin, admin::routes))?;
        let console = assembly.console(sockets.console.as_ref(), &admin.url, roles)?;
        let console_login = console.as_ref().and_then(|it| it.login_link.clone());
        let routes = RoleRoutes {
            probes,
            public: ingest.as_ref().map(|ingest| assembly.public_routes(ingest)).transpose()?,
            shop: checkout.as_ref().map(|(checkout, _)| shop_routes(checkout)),
            console: console.map(|console| console.routes),
            sandbox: sandbox.as_ref().map(|(sandbox, _)| sandbox_routes(sandbox)),
        };
        let listeners = sockets.listen(&opened.settings, routes)?;
        KeyTimes::register(&opened.registry, opened.keys.directory(), Arc::clone(&opened.clock))?;
        watch_vault(opened.keys, VaultMetrics::new(&opened.registry)?);
        let run_file = RunFile { demo: opened.demo, ..listeners.run_file(&admin) };
        run_file.write(&opened.data)?;
        life.started();
        Ok(RunningSystem {
            listeners,
            admin,
            data: opened.data,
            data_is_new: opened.data_is_new,
            durability: opened.engines.as_ref().map_or("no engines", |engines| engines.durability),
            life,
            console_login,
            run_file,
            engines: opened.engines,
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
    /// The run file by which commands on this machine find this process.
    fn run_file(&self, admin: &Listener) -> RunFile {
        let url_of = |listener: &Option<Listener>| listener.as_ref().map(|l| l.url.clone());
        RunFile {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            public_url: url_of(&self.public),
            shop_url: url_of(&self.shop),
            console_url: url_of(&self.console),
            sandbox_url: url_of(&self.sandbox),
            admin_url: admin.url.clone(),
            probes_url: url_of(&self.probes),
            demo: false,
        }
    }
}

impl RunningSystem {
    /// The number of requests that are not yet durable or not yet answered.
    pub fn in_flight(&self) -> usize {
        let ingest = self.ingest.as_ref().map_or(0, |ingest| ingest.in_flight());
        ingest + self.checkout.as_ref().map_or(0, |(checkout, _)| checkout.open_work_count())
    }

    /// Whether this process receives notices.
    pub fn takes_notices(&self) -> bool {
        self.listeners.public.is_some()
    }

    /// Ends event streams and long polls, which would stay open otherwise.
    pub fn end_streams(&self) {
        if let Some((checkout, _)) = &self.checkout {
            checkout.drain();
        }
    }

    /// Resolves when a role ends with an error.
    pub async fn role_failed(&mut self) -> anyhow::Error {
        match self.failures.recv().await {
            Some(error) => {
                // A process that still receives notices must stay alive; any other should be
                // restarted by its orchestrator.
                if !self.takes_notices() {
                    self.life.broken();
                }
                error
            }
            None => std::future::pending().await,
        }
    }

    /// Calls `show` for every `order.changed` event from now on.
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
                    .filter_map(|event| serde_json::from_slice(event.authentic_value().ok()?).ok())
                    .for_each(|e| show(&e));
            }
        });
        Ok(())
    }

    /// Ends the roles after their listeners were stopped: folds durable facts, then closes log and
    /// claims even if a role failed. Errors: a role's, or the storage's.
    pub async fn finish(mut self) -> anyhow::Result<()> {
        if let Some((sandbox, runtime)) = self.sandbox.take() {
            sandbox.drain(SANDBOX_DRAIN).await;
            drop(runtime);
        }
        // Sending fails only if every role has ended already.
        let _ = self.stop_roles.send(true);
        let mut ended = Ok(());
        for thread in self.threads.drain(..) {
            ended = ended.and(thread.join().await);
        }
        drop(self.checkout.take());
        if let Some(engines) = &self.engines {
            engines.close().await.context("log and claims can't be closed")?;
        }
        for listener in self.listeners.probes.iter().chain([&self.admin]) {
            listener.handle.stop(false).await;
        }
        self.run_file.remove(&self.data);
        ended
    }
}

/// Moves readers to another build when it is published.
fn follow_switches(live: Arc<LiveStore>) {
    actix_web::rt::spawn(async move {
        let mut ticks = tokio::time::interval(SWITCH_POLL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match live.refresh().await {
                Ok(false) => {}
                Ok(true) => {
                    let Publication { build, epoch } = live.publication();
                    tracing::info!(build, epoch, "orders are now read from another build");
                }
                // Readers stay on their build. The roles that write report the outage.
                Err(error) => tracing::debug!(%error, "can't check which build is published"),
            }
        }
    });
}

/// Swaps accounts and keys when the vault changes. A change that can't be applied leaves the old
/// ones in force, and is logged at once and then every minute.
fn watch_vault(mut keys: Keys, metrics: VaultMetrics) {
    actix_web::rt::spawn(async move {
        let mut ticks = tokio::time::interval(VAULT_POLL);
        let (mut logged, mut checks, mut failed_key_additions) = (String::new(), 0, 0);
        loop {
            ticks.tick().await;
            match keys.add_next_body_keys(SystemClock.now()) {
                Ok(()) => failed_key_additions = 0,
                // Another process may be writing the vault.
                Err(error) => {
                    failed_key_additions += 1;
                    if failed_key_additions % REPEAT_LOG_AFTER_CHECKS == 0 {
                        let error = format!("{error:#}");
                        tracing::warn!(
                            error,
                            "the keys that seal next month's notices can't be created yet"
                        );
                    }
                }
            }
            match keys.apply_change() {
                Ok(VaultChange::Unchanged) => {}
                Ok(VaultChange::Applied) => {
                    metrics.taken();
                    logged.clear();
                    tracing::info!("the vault changed: accounts and keys are reloaded");
                }
                Ok(VaultChange::Reverted) => {
                    metrics.undone();
                    logged.clear();
                    tracing::info!(
                        "the change of the vault was reverted; its content is in force again"
                    );
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    if error != logged {
                        metrics.refused();
                    }
                    if error != logged || checks >= REPEAT_LOG_AFTER_CHECKS {
                        tracing::error!(
                            error,
                            "the vault can't be reloaded: the old keys stay in force, but a \
                                restart would be refused; see payfold check"
                        );
                        (logged, checks) = (error, 0);
                    }
                    checks += 1;
                }
            }
        }
    });
}
