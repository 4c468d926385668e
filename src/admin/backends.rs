//! Owns the backends of the admin calls: the reader, the reconcile service with its latest runs,
//! the rebuild service, and the quarantined notices.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use actix_web::web::Data;
use arc_swap::ArcSwap;
use payfold_engines::log::{EventLog, Topic};
use payfold_ingest::ingest::Ingest;
use payfold_ingest::release::{self, RereadNotice};
use payfold_kit::search;
use payfold_partners::directory::Directory;
use payfold_projector::rebuild::service::RebuildService;
use payfold_reconcile::request::RunRequest;
use payfold_reconcile::service::{ReconcileService, ServiceError};
use payfold_schemas::digest::Digest;
use payfold_schemas::position::Position;
use payfold_schemas::record::{Parts, Record};
use payfold_schemas::release::Quarantined;
use payfold_schemas::released::Because;
use payfold_schemas::run::RunEnded;
use payfold_views::queries::QueryRules;
use payfold_views::reader::Reader;
use tokio::sync::Semaphore;

use super::answer::{Refusal, bad};
use super::names::position_of;

/// How many tickets are remembered. An older ticket is answered with 404.
const TICKETS: usize = 64;

/// What the calls that read use: orders, findings, decisions, topics.
pub(crate) struct ReadBackend {
    pub(crate) reader: Reader,
    pub(crate) rules: QueryRules,
    /// One trace at a time: it may read the whole log.
    pub(super) tracing: Semaphore,
}

impl ReadBackend {
    /// Makes a backend.
    pub(crate) fn new(reader: Reader, rules: QueryRules) -> Self {
        Self { reader, rules, tracing: Semaphore::new(1) }
    }
}

/// The reconcile service, and the runs that admin calls started.
pub(crate) struct ReconcileBackend {
    pub(super) service: ReconcileService,
    pub(super) uploads: PathBuf,
    tickets: Arc<Mutex<VecDeque<(String, Outcome)>>>,
}

/// The outcome of a run so far.
#[derive(Clone)]
pub(super) enum Outcome {
    Running,
    Ended(Box<RunEnded>),
    Refused(String),
}

impl ReconcileBackend {
    /// Makes a backend that stores uploaded files in the folder `uploads`.
    pub(crate) fn new(service: ReconcileService, uploads: PathBuf) -> Self {
        Self { service, uploads, tickets: Arc::default() }
    }

    /// The service that makes decisions.
    pub(super) fn service(&self) -> &ReconcileService {
        &self.service
    }

    /// Starts a run under this ticket. When it ends, the uploaded file is deleted.
    pub(super) fn start_run(&self, ticket: String, request: RunRequest, path: PathBuf) {
        let service = self.service.clone();
        let running = self.track_run(ticket, async move { service.run(request).await });
        actix_web::rt::spawn(async move {
            running.await;
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(%error, file = %path.display(), "a compared file can't be deleted");
            }
        });
    }

    /// Remembers the outcome of a run under its ticket. The returned future drives the run.
    pub(super) fn track_run<R: Future<Output = Result<RunEnded, ServiceError>>>(
        &self,
        ticket: String,
        run: R,
    ) -> impl Future<Output = ()> + use<R> {
        let tickets = Arc::clone(&self.tickets);
        remember(&tickets, ticket.clone(), Outcome::Running);
        async move {
            let outcome = match run.await {
                Ok(ended) => Outcome::Ended(Box::new(ended)),
                Err(error) => Outcome::Refused(error.to_string()),
            };
            remember(&tickets, ticket, outcome);
        }
    }

    /// The outcome of a run; `None` if the ticket is unknown or forgotten.
    pub(super) fn outcome(&self, ticket: &str) -> Option<Outcome> {
        let tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        tickets.iter().find(|(known, _)| known == ticket).map(|(_, outcome)| outcome.clone())
    }
}

fn remember(tickets: &Mutex<VecDeque<(String, Outcome)>>, ticket: String, outcome: Outcome) {
    let mut tickets = tickets.lock().unwrap_or_else(PoisonError::into_inner);
    tickets.retain(|(known, _)| *known != ticket);
    tickets.push_back((ticket, outcome));
    while tickets.len() > TICKETS {
        tickets.pop_front();
    }
}

/// The rebuild service, and what this system allows.
pub(crate) struct RebuildBackend {
    /// The service that decides.
    pub service: RebuildService,
    /// Whether a rule of the fold may be broken on purpose; in the demo only.
    pub may_drill: bool,
}

/// Reads quarantined notices and checks them with the profiles and keys in force.
pub(crate) struct NoticeBackend {
    /// The log with the topic `quarantine`.
    pub log: Arc<dyn EventLog>,
    /// The accounts, profiles and keys in force.
    pub directory: Arc<ArcSwap<Directory>>,
    /// The public URL that partners post to; some schemes sign it.
    pub public_url: String,
    /// The ingest role of this process, if it has one: it remembers what it has quarantined.
    pub ingest: Option<Data<Ingest>>,
}

impl NoticeBackend {
    /// Reads the notice at a position. Errors: there is none, or it can't be read.
    pub(super) async fn read_notice(&self, position: &str) -> Result<Quarantined, Refusal> {
        let position = position_of(position)?;
        let found = quarantined(&*self.log, position).await;
        found.map_err(|error| Refusal::Unread(format!("{error:#}")))?.ok_or_else(|| {
            bad(format!(
                "there is nothing at {position} in quarantine; `payfold quarantine list` lists it"
            ))
        })
    }

    /// Reads the notice again with the profiles and keys in force, for a release. Errors: it can't
    /// be released.
    pub(super) fn readmit(
        &self,
        kept: &Quarantined,
        because: Because,
    ) -> Result<RereadNotice, Refusal> {
        let directory = self.directory.load();
        release::readmit(&directory, &self.public_url, kept, because)
            .map_err(|error| Refusal::NotReleasable(format!("{}: {error}", kept.position)))
    }
}

/// Reads the quarantined notice at a position; `None` if there is none. Errors: the log's, or a
/// record that can't be decoded.
pub(crate) async fn quarantined(
    log: &dyn EventLog,
    position: Position,
) -> anyhow::Result<Option<Quarantined>> {
    let Some(message) = search::message_at(log, Topic::Quarantine, position).await? else {
        return Ok(None);
    };
    let evidence = Digest::of_bytes(&message.value);
    let Record { parts, raw, raw_key_id } = Record::decode(&message.value)?;
    Ok(match parts {
        Parts::Quarantine(record) => {
            Some(Quarantined { position, evidence, record, raw, raw_key_id })
        }
        Parts::Fact(_) | Parts::Switch(_) | Parts::Parked(_) => None,
    })
}
