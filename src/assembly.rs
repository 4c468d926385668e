//! Builds each role from settings, engines, keys and addresses.

mod console;
mod reconciler;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actix_web::web::{Data, ServiceConfig};
use anyhow::Context;
use payfold_checkout::{Addresses, Checkout};
use payfold_engines::health::StorageHealth;
use payfold_ingest::browser_return::{self, BrowserReturn, ReturnMetrics, ReturnTargets};
use payfold_ingest::ingest::Ingest;
use payfold_ingest::intake::Intake;
use payfold_ingest::limits::Limits;
use payfold_ingest::metrics::IngestMetrics;
use payfold_ingest::posting_page::{self, PaymentForms};
use payfold_ingest::quarantine::QuarantineBudget;
use payfold_partners::remote::PartnerClient;
use payfold_projector::rebuild::projector_parts::ProjectorParts;
use payfold_projector::rebuild::service::RebuildService;
use payfold_projector::rebuild::supervisor::Supervisor;
use payfold_reconcile::service::ReconcileService;
use payfold_sandbox::{Sandbox, SandboxError, SandboxSettings};
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::record_mac::Writer;
use payfold_verify::damage::LogVerifier;
use payfold_views::reader::Reader;
use tokio::sync::{mpsc, watch};

use crate::admin::{
    Admin, AdminHosts, Life, NoticeBackend, ReadBackend, RebuildBackend, ReconcileBackend,
};
use crate::demo::{self, DemoOrders};
use crate::error::Fixable;
use crate::gauges::Gauges;
use crate::listener::Routes;
use crate::opened::OpenedSystem;
use crate::queries;
use crate::readiness::{CheckoutStorage, IngestStorage, Readiness};
use crate::roles::{RoleRuntime, RoleThread, Roles};
use crate::traffic::Traffic;
use crate::urls::Urls;
use crate::wiring::CompactedCopy;

/// Builds the roles of a process from its open engines, keys, settings and addresses.
pub(crate) struct Assembly<'a> {
    pub(crate) opened: &'a OpenedSystem,
    pub(crate) urls: &'a Urls,
}

/// The roles of the process, and the services that admin calls use; `None` without their role.
pub(crate) struct AdminServices {
    pub(crate) roles: Roles,
    pub(crate) reconcile: Option<ReconcileService>,
    pub(crate) rebuilds: Option<RebuildService>,
}

impl Assembly<'_> {
    pub(crate) fn ingest(&self, storage: &Arc<StorageHealth>) -> anyhow::Result<Ingest> {
        let settings = &self.opened.settings.ingest;
        let log = self.opened.engines()?.log_of(Writer::Ingest);
        let clock = Arc::clone(&self.opened.clock);
        Ok(Ingest {
            intake: Intake::new(log, Arc::clone(&clock), Arc::clone(storage)),
            clock,
            directory: self.opened.keys.directory(),
            public_url: self.opened.settings.public_url.trim_end_matches('/').to_owned(),
            metrics: IngestMetrics::new(&self.opened.registry)?,
            limits: Limits::new(settings.address_rate_per_s, settings.trusted_proxies.clone()),
            quarantine: QuarantineBudget::new(settings.quarantine_bytes_per_hour),
            replays: payfold_ingest::replays::Replays::default(),
            clock_health: Arc::default(),
            body_timeout: Duration::from_millis(settings.body_timeout_ms),
            sampler: payfold_ingest::sampler::Sampler::default(),
            in_flight: std::sync::atomic::AtomicUsize::new(0),
        })
    }

    /// The routes of the public listener: notices, payment forms, and browsers that return.
    pub(crate) fn public_routes(&self, ingest: &Data<Ingest>) -> anyhow::Result<Routes> {
        let ingest = ingest.clone();
        let returns = Data::new(self.browser_return()?);
        let directory = self.opened.keys.directory();
        let forms = Data::new(PaymentForms { directory, api_urls: self.api_urls()? });
        Ok(Arc::new(move |config| {
            config.app_data(ingest.clone()).app_data(returns.clone()).app_data(forms.clone());
            // Routes are tried in this order, and the returns' patterns cost each notice 2 µs.
            payfold_ingest::http::routes(config);
            browser_return::routes(config);
            posting_page::routes(config);
        }))
    }

    /// The targets of payers' browsers: the configured ones; in the demo by default a page of the
    /// sandbox that stands in for a shop. Errors: a target that can't be used.
    fn browser_return(&self) -> anyhow::Result<BrowserReturn> {
        let settings = &self.opened.settings.checkout;
        let shop_url = match (settings.shop_url.as_str(), self.opened.demo) {
            ("", true) => format!("{}/shop/result", self.sandbox_url()),
            (set, _) => set.to_owned(),
        };
        let targets =
            ReturnTargets::parse(&shop_url, &settings.return_to).map_err(|(name, problem)| {
                let setting =
                    if name.is_empty() { "shop_url".into() } else { format!("return_to.{name}") };
                Fixable::error(
                    format!("checkout.{setting} can't be used: {problem}"),
                    "mend it in payfold.toml",
                )
            })?;
        Ok(BrowserReturn {
            directory: self.opened.keys.directory(),
            clock: Arc::clone(&self.opened.clock),
            targets,
            metrics: ReturnMetrics::new(&self.opened.registry)?,
        })
    }

    /// Starts a background check of the whole log if it is embedded. Kafka's brokers check their
    /// log themselves.
    pub(crate) fn verify_log(&self, mut stopped: watch::Receiver<bool>) -> anyhow::Result<()> {
        let Ok(engines) = self.opened.engines() else { return Ok(()) };
        if !engines.embedded {
            return Ok(());
        }
        let (log, clock) = (Arc::clone(&engines.log), Arc::clone(&self.opened.clock));
        let verifier = LogVerifier::new(log, clock, &self.opened.registry)?;
        actix_web::rt::spawn(async move {
            tokio::select! {
                () = verifier.run() => {}
                // The sender is gone when the process ends.
                _ = stopped.wait_for(|stopped| *stopped) => {}
            }
        });
        Ok(())
    }

    pub(crate) fn start_projector(
        &self,
        stopped: watch::Receiver<bool>,
        failed: mpsc::UnboundedSender<anyhow::Error>,
    ) -> anyhow::Result<(RoleThread, RebuildService)> {
        let clock = Arc::clone(&self.opened.clock);
        let metrics = Arc::new(payfold_projector::ProjectorMetrics::new(
            &self.opened.registry,
            Arc::clone(&clock),
        )?);
        let settings = payfold_projector::ProjectorSettings {
            batch_records_max: self.opened.settings.projector.batch_records,
            ..Default::default()
        };
        let engines = self.opened.engines()?;
        let (log, store) = (engines.log_of(Writer::Projector), Arc::clone(engines.base()?));
        let (its_log, its_store) = (Arc::clone(&log), Arc::clone(&store));
        let supervisor = Supervisor::new(ProjectorParts {
            log,
            store,
            metrics: Arc::clone(&metrics),
            settings,
            clock,
        });
        let service = RebuildService::new(its_log, its_store, supervisor.monitor());
        let counted = Arc::clone(&metrics);
        let halted = move || metrics.partition_halted();
        let role = run_projector(engines.compacted_copy(), counted, supervisor, stopped);
        let thread = RoleThread::start("projector", failed, halted, role)?;
        Ok((thread, service))
    }

    /// The folder for uploaded files and for sorting during a comparison.
    fn scratch(&self) -> std::path::PathBuf {
        self.opened.data.file("reconcile")
    }

    /// Starts checkout. Returns it with the runtime of its create calls.
    pub(crate) fn checkout(&self) -> anyhow::Result<(Data<Checkout>, RoleRuntime)> {
        let runtime = RoleRuntime::new("checkout")?;
        let settings = &self.opened.settings.checkout;
        let engines = self.opened.engines()?;
        let parts = payfold_checkout::CheckoutParts {
            log: engines.log_of(Writer::Checkout),
            store: Arc::clone(engines.store()?),
            clock: Arc::clone(&self.opened.clock),
            directory: self.opened.keys.directory(),
            shops: self.opened.keys.shops(),
            remote: PartnerClient::new().context("the system's certificates")?,
            addresses: self.addresses()?,
            metrics: payfold_checkout::Metrics::new(&self.opened.registry)?,
            limits: payfold_checkout::Limits {
                calls_per_partner_max: settings.calls_per_partner_max,
                followers_max: settings.followers_max,
                ..Default::default()
            },
        };
        let checkout = Checkout::start(parts, runtime.handle().clone());
        Ok((Data::new(checkout), runtime))
    }

    /// The URL of the demo's sandbox partner: in this process, or in another one at the configured
    /// address.
    fn sandbox_url(&self) -> String {
        let configured = || format!("http://{}", self.opened.settings.listen_sandbox);
        self.urls.sandbox.clone().unwrap_or_else(configured)
    }

    /// The API URLs of partners that have one. Errors: a partner code that can't be parsed.
    fn api_urls(&self) -> anyhow::Result<HashMap<PartnerCode, String>> {
        let mut api_urls = HashMap::new();
        for (code, partner) in &self.opened.settings.partners {
            if !partner.api_url.is_empty() {
                api_urls.insert(PartnerCode::parse(code)?, partner.api_url.clone());
            }
        }
        if self.opened.demo {
            api_urls.insert(PartnerCode::parse(demo::PARTNER)?, self.sandbox_url());
        } else if self.urls.sandbox.is_some() {
            // The partner that this process plays needs no address in the settings.
            let (profile, _) = self.opened.keys.sandbox_accounts().of_one_partner()?;
            api_urls.entry(profile.partner().clone()).or_insert_with(|| self.sandbox_url());
        }
        Ok(api_urls)
    }

    fn addresses(&self) -> anyhow::Result<Addresses> {
        let api_urls = self.api_urls()?;
        let return_to = self.opened.settings.checkout.return_to.keys().cloned().collect();
        Ok(Addresses { public_url: self.urls.public.clone(), api_urls, return_to })
    }

    /// Starts the sandbox partner. Returns it with the runtime that sends its notices.
    pub(crate) fn sandbox(&self) -> anyhow::Result<(Sandbox, RoleRuntime)> {
        let (profile, accounts) = self.opened.keys.sandbox_accounts().of_one_partner()?;
        let url = self.urls.sandbox.as_deref().context("the sandbox's socket is bound")?;
        let settings = SandboxSettings {
            records: Some(self.opened.data.file("sandbox-records.jsonl")),
            notice_url: (!self.urls.public.is_empty())
                .then(|| format!("{}{}", self.urls.public, profile.ipn_path())),
            ..SandboxSettings::new(profile, accounts, url)
        };
        let runtime = RoleRuntime::new("sandbox")?;
        let inside = runtime.handle().enter();
        let sandbox = Sandbox::new(settings, Arc::clone(&self.opened.clock)).map_err(|error| {
            match &error {
                SandboxError::Profile(..) => Fixable::error(
                    error.to_string(),
                    "mend that, give another partner a profile of stage sandbox and disable this \
                     account, or run without the role",
                ),
                _ => error.into(),
            }
        })?;
        drop(inside);
        Ok((sandbox, runtime))
    }

    pub(crate) fn admin(
        &self,
        ingest: Option<Data<Ingest>>,
        readiness: Readiness,
        life: &Arc<Life>,
        services: AdminServices,
    ) -> anyhow::Result<Admin> {
        let engines = self.opened.engines().ok();
        let log = engines.map(|engines| Arc::clone(&engines.log));
        let demo = engines.filter(|_| self.opened.demo);
        let (clock, data) = (Arc::clone(&self.opened.clock), self.opened.data.path().to_owned());
        let notices =
            log.clone().filter(|_| services.reconcile.is_some()).map(|log| NoticeBackend {
                log,
                directory: self.opened.keys.directory(),
                public_url: self.urls.public.clone(),
                ingest: ingest.clone(),
            });
        let traffic = Arc::new(Traffic::new(self.opened.registry.clone(), Arc::clone(&clock)));
        Traffic::follow(&traffic);
        Ok(Admin {
            roles: services.roles,
            started_at: clock.now(),
            hosts: AdminHosts::parse(&self.opened.settings.admin_hosts)?,
            registry: self.opened.registry.clone(),
            traffic,
            clock: Arc::clone(&self.opened.clock),
            log: log.clone(),
            reads: self.reads()?,
            directory: self.opened.keys.directory(),
            readiness,
            life: Arc::clone(life),
            tokens: self.opened.keys.tokens(),
            demo: demo.map(|engines| DemoOrders::new(engines.log_of(Writer::Checkout))),
            gauges: Gauges::new(&self.opened.registry, log, clock, ingest, data)?,
            reconcile: (services.reconcile)
                .map(|service| ReconcileBackend::new(service, self.scratch())),
            notices,
            rebuilds: (services.rebuilds)
                .map(|service| RebuildBackend { service, may_drill: self.opened.demo }),
        })
    }

    /// What orders and findings are read with; `None` if no role has orders.
    fn reads(&self) -> anyhow::Result<Option<ReadBackend>> {
        let Some(engines) = &self.opened.engines else { return Ok(None) };
        let Ok(store) = engines.store() else { return Ok(None) };
        let (settings, origin) = (&self.opened.settings, self.opened.origin());
        let rules = queries::rules(settings, self.opened.keys.profiles(), origin)?;
        let reader = Reader::new(Arc::clone(&engines.log), Arc::clone(store));
        Ok(Some(ReadBackend::new(reader, rules)))
    }

    /// The readiness of this process's roles; `storage` has the results of ingest's appends.
    pub(crate) fn readiness(
        &self,
        storage: Arc<StorageHealth>,
        ingest: Option<&Ingest>,
        checkout: Option<Data<Checkout>>,
    ) -> anyhow::Result<Readiness> {
        let log = || self.opened.engines().map(|engines| Arc::clone(&engines.log));
        let ingest = match ingest {
            Some(ingest) => {
                let clock_health = Arc::clone(&ingest.clock_health);
                Some(IngestStorage { log: log()?, health: storage, clock_health })
            }
            None => None,
        };
        let checkout = match checkout {
            Some(checkout) => {
                let store = Arc::clone(self.opened.engines()?.store()?);
                Some(CheckoutStorage { log: log()?, store, checkout })
            }
            None => None,
        };
        Ok(Readiness { clock: Arc::clone(&self.opened.clock), ingest, checkout })
    }
}

/// Runs the projector and beside it the copier of the compacted copy. A copier that fails does not
/// end the projector.
async fn run_projector(
    compacted_copy: Option<CompactedCopy>,
    metrics: Arc<payfold_projector::ProjectorMetrics>,
    supervisor: Supervisor,
    stopped: watch::Receiver<bool>,
) -> Result<(), payfold_projector::RunError> {
    let Some(copy) = compacted_copy else { return supervisor.run(stopped).await };
    let copier = tokio::spawn(copy.run(metrics, stopped.clone()));
    supervisor.run(stopped).await?;
    // A panic of the copier is logged. The topic `orders` is complete without the copy.
    let _ = copier.await;
    Ok(())
}

pub(crate) fn shop_routes(checkout: &Data<Checkout>) -> Routes {
    let checkout = checkout.clone();
    Arc::new(move |config| {
        config.app_data(checkout.clone());
        payfold_checkout::routes(config);
    })
}

pub(crate) fn sandbox_routes(sandbox: &Sandbox) -> Routes {
    let sandbox = sandbox.clone();
    Arc::new(move |config| sandbox.routes(config))
}

/// Routes of the admin listener, or of the one for probes.
pub(crate) fn routes_of(admin: &Data<Admin>, routes: fn(&mut ServiceConfig)) -> Routes {
    let admin = admin.clone();
    Arc::new(move |config| {
        config.app_data(admin.clone()).configure(routes);
    })
}
