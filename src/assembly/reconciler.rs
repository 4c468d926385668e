//! Builds the reconciler role: the queries about stuck orders, and the comparison with partners'
//! records. Invariant: settings that can't be used are refused before the role starts.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use payfold_partners::remote::PartnerClient;
use payfold_reconcile::service::ReconcileService;
use payfold_reconcile::setup::{DueSchedule, ReconcileSetup, RecordsFolder};
use payfold_reconciler::{Reconciler, UnconfirmedNotices};
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::record_mac::Writer;
use tokio::sync::{mpsc, watch};

use super::Assembly;
use crate::error::Fixable;
use crate::queries;
use crate::roles::RoleThread;
use crate::settings::RecordsBy;
use crate::two_people;

impl Assembly<'_> {
    /// Starts the reconciler on its own thread. Returns the thread and the service that admin calls
    /// use. Errors: a setting that can't be used; the engines'.
    pub(crate) fn start_reconciler(
        &self,
        stopped: watch::Receiver<bool>,
        failed: mpsc::UnboundedSender<anyhow::Error>,
    ) -> anyhow::Result<(RoleThread, ReconcileService)> {
        let set = &self.opened.settings.reconciler;
        let settings = payfold_reconciler::Settings {
            deadline_poll: Duration::from_millis(set.deadline_poll_ms),
            query_after: queries::schedule(&self.opened.settings, self.opened.origin())?,
            query_poll: Duration::from_millis(set.query_poll_ms.max(1)),
            ..Default::default()
        };
        let metrics = Arc::new(payfold_reconciler::Metrics::new(&self.opened.registry)?);
        let engines = self.opened.engines()?;
        let (log, store) = (engines.log_of(Writer::Reconciler), Arc::clone(engines.store()?));
        let clock = Arc::clone(&self.opened.clock);
        let mut reconciler = Reconciler::new(log, store, clock, Arc::clone(&metrics), settings);
        let api_urls = self.api_urls()?;
        if !api_urls.is_empty() {
            reconciler = reconciler.with_queries(payfold_reconciler::Partners {
                directory: self.opened.keys.directory(),
                api_urls,
                remote: PartnerClient::new().context("the system's certificates")?,
                unconfirmed: UnconfirmedNotices::of_profiles(self.opened.keys.profiles()),
            });
        }
        let setup = self.reconcile_setup()?;
        let (service, queue) = ReconcileService::open(&setup);
        let reconciler = reconciler.with_reconciliation(setup, queue);
        let halted = move || metrics.set_halted();
        let thread = RoleThread::start("reconciler", failed, halted, reconciler.run(stopped))?;
        Ok((thread, service))
    }

    /// The setup of the comparison with partners' records. Errors: a time zone or a schedule that
    /// can't be parsed.
    fn reconcile_setup(&self) -> anyhow::Result<ReconcileSetup> {
        let set = &self.opened.settings.reconciler;
        let mut setup = ReconcileSetup::new(self.opened.keys.directory(), self.scratch());
        setup.lookback_ms = i64::from(set.lookback_days) * 24 * 3_600 * 1_000;
        setup.poll = Duration::from_millis(set.reconcile_poll_ms.max(1));
        setup.tokens = self.opened.keys.tokens();
        setup.people = two_people::rules(&self.opened.settings, self.opened.origin());
        for (code, partner) in &self.opened.settings.partners {
            let zone = partner.records_zone.parse().map_err(|_| {
                Fixable::error(
                    format!(
                        "partners.{code}.records_zone = \"{}\" is no zone",
                        partner.records_zone
                    ),
                    "write a name of the IANA list, such as \"Asia/Ho_Chi_Minh\"",
                )
            })?;
            setup.zones.insert(PartnerCode::parse(code)?, zone);
            let due = DueSchedule::parse(&partner.records_due).map_err(|problem| {
                Fixable::error(
                    format!("partners.{code}.records_due = \"{}\": {problem}", partner.records_due),
                    "write minute, hour, day, month and weekday, such as \"0 6 * * *\"",
                )
            })?;
            if partner.records_by == RecordsBy::Query {
                setup.surveyed.push((PartnerCode::parse(code)?, due.clone()));
            }
            if !partner.records_folder.is_empty() {
                let folder = partner.records_folder.clone().into();
                setup.folders.push(RecordsFolder {
                    partner: PartnerCode::parse(code)?,
                    folder,
                    due,
                });
            }
        }
        Ok(setup)
    }
}
