//! Owns how each role is put together from settings, engines, keys and addresses.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actix_web::web::Data;
use anyhow::Context;
use payfold_checkout::{Addresses, Checkout};
use payfold_engines::health::StorageHealth;
use payfold_ingest::browser_return::{self, BrowserReturn, ReturnMetrics, Targets};
use payfold_ingest::http::Ingest;
use payfold_ingest::intake::Intake;
use payfold_ingest::limits::Limits;
use payfold_ingest::metrics::Metrics as IngestMetrics;
use payfold_ingest::payment_form::{self, PaymentForms};
use payfold_ingest::quarantine::Budget;
use payfold_partners::remote::Remote;
use payfold_projector::rebuild::crew::{Crew, Parts};
use payfold_projector::rebuild::desk::Desk;
use payfold_reconciler::Reconciler;
use payfold_reconciler::books::desk::{Books, Desk as BooksDeskOfRole};
use payfold_reconciler::books::folder::{Due, Folder};
use payfold_sandbox::{Sandbox, SandboxSettings};
use payfold_schemas::ids::PartnerCode;
use tokio::sync::{mpsc, watch};

use crate::admin::{Admin, BooksDesk, Life, NoticeDesk, RebuildDesk};
use crate::asking;
use crate::demo::{self, DemoOrders};
use crate::error::Fixable;
use crate::gauges::Gauges;
use crate::listener::Routes;
use crate::readiness::Readiness;
use crate::roles::{RoleRuntime, RoleThread};
use crate::server::{Server, Urls};
use crate::settings::RecordsBy;
use crate::wiring::Twin;

impl Server {
    pub(crate) fn ingest(&self, storage: &Arc<StorageHealth>) -> anyhow::Result<Ingest> {
        let settings = &self.settings.ingest;
        let (log, clock) = (Arc::clone(&self.engines()?.log), Arc::clone(&self.clock));
        Ok(Ingest {
            intake: Intake::new(log, Arc::clone(&clock), Arc::clone(storage)),
            clock,
            directory: self.keys.directory(),
            public_url: self.settings.public_url.trim_end_matches('/').to_owned(),
            metrics: IngestMetrics::new(&self.registry)?,
            limits: Limits::new(settings.address_rate_per_s, settings.trusted_proxies.clone()),
            quarantine: Budget::new(settings.quarantine_bytes_per_hour),
            replays: payfold_ingest::replays::Replays::default(),
            clock_health: Arc::default(),
            body_timeout: Duration::from_millis(settings.body_timeout_ms),
            sampler: payfold_ingest::sampler::Sampler::default(),
            in_flight: std::sync::atomic::AtomicUsize::new(0),
        })
    }

    /// What the public listener serves: notices, and browsers that come back.
    pub(crate) fn public_routes(
        &self,
        ingest: &Data<Ingest>,
        urls: &Urls,
    ) -> anyhow::Result<Routes> {
        let ingest = ingest.clone();
        let returns = Data::new(self.browser_return(urls)?);
        let directory = self.keys.directory();
        let forms = Data::new(PaymentForms { directory, api_urls: self.api_urls(urls)? });
        Ok(Arc::new(move |config| {
            config.app_data(ingest.clone()).app_data(returns.clone()).app_data(forms.clone());
            // Routes are tried in this order, and the returns' patterns cost each notice 2 µs.
            payfold_ingest::http::routes(config);
            browser_return::routes(config);
            payment_form::routes(config);
        }))
    }

    /// Where payers' browsers go: as configured; in the demo to the page the sandbox has in a shop's place.
    fn browser_return(&self, urls: &Urls) -> anyhow::Result<BrowserReturn> {
        let settings = &self.settings.checkout;
        let shop_url = match (settings.shop_url.as_str(), self.demo) {
            ("", true) => format!("{}/shop/result", self.sandbox_url(urls)),
            (set, _) => set.to_owned(),
        };
        let targets =
            Targets::parse(&shop_url, &settings.return_to).map_err(|(name, problem)| {
                let setting =
                    if name.is_empty() { "shop_url".into() } else { format!("return_to.{name}") };
                Fixable::error(
                    format!("checkout.{setting} can't be used: {problem}"),
                    "mend it in payfold.toml",
                )
            })?;
        Ok(BrowserReturn {
            directory: self.keys.directory(),
            clock: Arc::clone(&self.clock),
            targets,
            metrics: ReturnMetrics::new(&self.registry)?,
        })
    }

    pub(crate) fn start_projector(
        &self,
        stopped: watch::Receiver<bool>,
        failed: mpsc::UnboundedSender<anyhow::Error>,
    ) -> anyhow::Result<(RoleThread, Desk)> {
        let clock = Arc::clone(&self.clock);
        let metrics =
            Arc::new(payfold_projector::Metrics::new(&self.registry, Arc::clone(&clock))?);
        let settings = payfold_projector::Settings {
            batch_records_max: self.settings.projector.batch_records,
            ..Default::default()
        };
        let engines = self.engines()?;
        let (log, store) = (Arc::clone(&engines.log), Arc::clone(engines.base()?));
        let (its_log, its_store) = (Arc::clone(&log), Arc::clone(&store));
        let crew = Crew::new(Parts { log, store, metrics: Arc::clone(&metrics), settings, clock });
        let desk = Desk::new(its_log, its_store, crew.board());
        let counted = Arc::clone(&metrics);
        let halted = move || metrics.partition_halted();
        let role = with_twin(engines.twin(), counted, crew, stopped);
        let thread = RoleThread::start("projector", failed, halted, role)?;
        Ok((thread, desk))
    }

    pub(crate) fn start_reconciler(
        &self,
        urls: &Urls,
        stopped: watch::Receiver<bool>,
        failed: mpsc::UnboundedSender<anyhow::Error>,
    ) -> anyhow::Result<(RoleThread, BooksDeskOfRole)> {
        let set = &self.settings.reconciler;
        let settings = payfold_reconciler::Settings {
            deadline_poll: Duration::from_millis(set.deadline_poll_ms),
            query_after: asking::schedule(&self.settings, self.origin())?,
            query_poll: Duration::from_millis(set.query_poll_ms.max(1)),
            ..Default::default()
        };
        let metrics = Arc::new(payfold_reconciler::Metrics::new(&self.registry)?);
        let engines = self.engines()?;
        let (log, store) = (Arc::clone(&engines.log), Arc::clone(engines.store()?));
        let clock = Arc::clone(&self.clock);
        let mut reconciler = Reconciler::new(log, store, clock, Arc::clone(&metrics), settings);
        let api_urls = self.api_urls(urls)?;
        if !api_urls.is_empty() {
            reconciler = reconciler.asking(payfold_reconciler::Partners {
                directory: self.keys.directory(),
                api_urls,
                remote: Remote::new().context("the system's certificates")?,
                confirms: asking::confirms(self.keys.profiles()),
            });
        }
        let (books, desk) = self.books()?;
        let reconciler = reconciler.comparing(books);
        let halted = move || metrics.halted();
        let thread = RoleThread::start("reconciler", failed, halted, reconciler.run(stopped))?;
        Ok((thread, desk))
    }

    /// How partners' records are compared, and where that is asked for.
    fn books(&self) -> anyhow::Result<(Books, BooksDeskOfRole)> {
        let set = &self.settings.reconciler;
        let (mut books, desk) = Books::new(self.keys.directory(), self.scratch());
        books.lookback_ms = i64::from(set.lookback_days) * 24 * 3_600 * 1_000;
        books.poll = Duration::from_millis(set.books_poll_ms.max(1));
        for (code, partner) in &self.settings.partners {
            let zone = partner.records_zone.parse().map_err(|_| {
                Fixable::error(
                    format!(
                        "partners.{code}.records_zone = \"{}\" is no zone",
                        partner.records_zone
                    ),
                    "write a name of the IANA list, such as \"Asia/Ho_Chi_Minh\"",
                )
            })?;
            books.zones.insert(PartnerCode::parse(code)?, zone);
            let due = Due::parse(&partner.records_due).map_err(|problem| {
                Fixable::error(
                    format!("partners.{code}.records_due = \"{}\": {problem}", partner.records_due),
                    "write minute, hour, day, month and weekday, such as \"0 6 * * *\"",
                )
            })?;
            if partner.records_by == RecordsBy::Query {
                books.surveyed.push((PartnerCode::parse(code)?, due.clone()));
            }
            if !partner.records_folder.is_empty() {
                let folder = partner.records_folder.clone().into();
                books.folders.push(Folder { partner: PartnerCode::parse(code)?, folder, due });
            }
        }
        Ok((books, desk))
    }

    /// Where files are taken and sorted that are compared.
    fn scratch(&self) -> std::path::PathBuf {
        self.data.file("reconcile")
    }

    /// Checkout, and the runtime its create calls run on.
    pub(crate) fn checkout(&self, urls: &Urls) -> anyhow::Result<(Data<Checkout>, RoleRuntime)> {
        let runtime = RoleRuntime::new("checkout")?;
        let settings = &self.settings.checkout;
        let engines = self.engines()?;
        let parts = payfold_checkout::Parts {
            log: Arc::clone(&engines.log),
            store: Arc::clone(engines.store()?),
            clock: Arc::clone(&self.clock),
            directory: self.keys.directory(),
            shops: self.keys.shops(),
            remote: Remote::new().context("the system's certificates")?,
            addresses: self.addresses(urls)?,
            metrics: payfold_checkout::Metrics::new(&self.registry)?,
            limits: payfold_checkout::Limits {
                calls_per_partner_max: settings.calls_per_partner_max,
                followers_max: settings.followers_max,
                ..Default::default()
            },
        };
        let checkout = Checkout::start(parts, runtime.handle().clone());
        Ok((Data::new(checkout), runtime))
    }

    /// Where the demo's sandbox partner is: here, or in another process at the address it is set to.
    fn sandbox_url(&self, urls: &Urls) -> String {
        let elsewhere = || format!("http://{}", self.settings.listen_sandbox);
        urls.sandbox.clone().unwrap_or_else(elsewhere)
    }

    /// Where partners are called.
    fn api_urls(&self, urls: &Urls) -> anyhow::Result<HashMap<PartnerCode, String>> {
        let mut api_urls = HashMap::new();
        for (code, partner) in &self.settings.partners {
            if !partner.api_url.is_empty() {
                api_urls.insert(PartnerCode::parse(code)?, partner.api_url.clone());
            }
        }
        if self.demo {
            api_urls.insert(PartnerCode::parse(demo::PARTNER)?, self.sandbox_url(urls));
        }
        Ok(api_urls)
    }

    fn addresses(&self, urls: &Urls) -> anyhow::Result<Addresses> {
        let api_urls = self.api_urls(urls)?;
        let return_to = self.settings.checkout.return_to.keys().cloned().collect();
        Ok(Addresses { public_url: urls.public.clone(), api_urls, return_to })
    }

    /// The sandbox partner, and the runtime its notices are sent on.
    pub(crate) fn sandbox(&self, urls: &Urls) -> anyhow::Result<(Sandbox, RoleRuntime)> {
        let (profile, accounts) = self.keys.sandbox_accounts().of_one_partner()?;
        let url = urls.sandbox.as_deref().context("the sandbox's socket is bound")?;
        let settings = SandboxSettings {
            records: Some(self.data.file("sandbox-records.jsonl")),
            ..SandboxSettings::new(profile, accounts, url)
        };
        let runtime = RoleRuntime::new("sandbox")?;
        let inside = runtime.handle().enter();
        let sandbox = Sandbox::new(settings, Arc::clone(&self.clock))?;
        drop(inside);
        Ok((sandbox, runtime))
    }

    pub(crate) fn admin(
        &self,
        ingest: Option<Data<Ingest>>,
        readiness: Readiness,
        life: &Arc<Life>,
        (books, rebuilds): (Option<(BooksDeskOfRole, &str)>, Option<Desk>),
    ) -> anyhow::Result<Admin> {
        let log = self.engines().ok().map(|engines| Arc::clone(&engines.log));
        let (clock, data) = (Arc::clone(&self.clock), self.data.path().to_owned());
        let notices = log.clone().zip(books.as_ref()).map(|(log, (_, public_url))| NoticeDesk {
            log,
            directory: self.keys.directory(),
            public_url: (*public_url).to_owned(),
        });
        Ok(Admin {
            registry: self.registry.clone(),
            clock: Arc::clone(&self.clock),
            log: log.clone(),
            directory: self.keys.directory(),
            readiness,
            life: Arc::clone(life),
            tokens: self.keys.tokens(),
            demo: self.demo.then(DemoOrders::default),
            gauges: Gauges::new(&self.registry, log, clock, ingest, data)?,
            books: books.map(|(desk, _)| BooksDesk::new(desk, self.scratch())),
            notices,
            rebuilds: rebuilds.map(|desk| RebuildDesk { desk, may_drill: self.demo }),
        })
    }
}

/// The projector's work, and beside it the keeping of the compacted twin, which never ends it.
async fn with_twin(
    twin: Option<Twin>,
    metrics: Arc<payfold_projector::Metrics>,
    crew: Crew,
    stopped: watch::Receiver<bool>,
) -> Result<(), payfold_projector::RunError> {
    let Some(twin) = twin else { return crew.run(stopped).await };
    let kept = tokio::spawn(twin.keep(metrics, stopped.clone()));
    crew.run(stopped).await?;
    // If it panicked, that is logged, and orders are whole.
    let _ = kept.await;
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
