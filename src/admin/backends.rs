//! Owns the backends of the admin calls: the reader, the reconcile service with its latest runs,
//! the rebuild service, and the quarantined notices.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

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
use payfold_schemas::ids::PartnerCode;
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
use super::tickets::Tickets;
use super::uploads::{self, KEPT, PreviewedFile, Reading, Upload};

/// How many runs are remembered. The ticket of an older one is answered with 404.
const RUNS: usize = 64;
/// How many files of previews are kept: each takes room where the log may be.
const FILES: usize = 16;

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

/// The reconcile service, and the previews and runs that admin calls started.
pub(crate) struct ReconcileBackend {
    pub(super) service: ReconcileService,
    pub(super) uploads: PathBuf,
    pub(super) previews: Tickets<PreviewedFile>,
    pub(super) runs: Tickets<Outcome>,
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
        uploads::sweep(&uploads);
        Self { service, uploads, previews: Tickets::of(FILES), runs: Tickets::of(RUNS) }
    }

    /// The service that makes decisions.
    pub(super) fn service(&self) -> &ReconcileService {
        &self.service
    }

    /// Starts to read a file under this ticket. A file that can be used is kept for an hour.
    pub(super) fn start_preview(&self, ticket: String, partner: PartnerCode, upload: Arc<Upload>) {
        let (service, previews) = (self.service.clone(), self.previews.clone());
        let lines = Arc::new(AtomicU64::new(0));
        let reading = Reading::Lines(Arc::clone(&lines));
        let file =
            PreviewedFile { partner: partner.clone(), upload: Some(upload.clone()), reading };
        previews.set(&ticket, file.clone());
        let named = upload.file.clone();
        let read = async move { service.preview(&partner, named, lines).await };
        actix_web::rt::spawn(async move {
            let reading = match actix_web::rt::spawn(read).await {
                Ok(Ok(preview)) => Reading::Read(Box::new(preview)),
                Ok(Err(error)) => Reading::Refused(error.to_string()),
                Err(error) => Reading::Refused(format!("the file can't be read: {error}")),
            };
            let is_of_use = matches!(&reading, Reading::Read(preview) if preview.trusted);
            let upload = file.upload.filter(|_| is_of_use);
            previews.set(&ticket, PreviewedFile { reading, upload, ..file });
            tokio::time::sleep(KEPT).await;
            previews.forget(&ticket);
        });
    }

    /// The file of a preview. Errors: it is not kept here.
    pub(super) fn previewed(&self, ticket: &str) -> Result<PreviewedFile, Refusal> {
        self.previews.get(ticket).ok_or(Refusal::NoSuchFile)
    }

    /// Starts a run with a file under this ticket. If it is refused, the file stays with its
    /// preview; else it is deleted.
    pub(super) fn start_run(
        &self,
        ticket: String,
        request: RunRequest,
        upload: Arc<Upload>,
        preview: Option<String>,
    ) {
        let (service, previews) = (self.service.clone(), self.previews.clone());
        self.track_run(ticket, async move {
            let ended = service.run(request).await;
            drop(upload);
            if let (Ok(_), Some(preview)) = (&ended, preview) {
                previews.forget(&preview);
            }
            ended
        });
    }

    /// Starts a run, and remembers its outcome under its ticket.
    pub(super) fn track_run(
        &self,
        ticket: String,
        run: impl Future<Output = Result<RunEnded, ServiceError>> + 'static,
    ) {
        let runs = self.runs.clone();
        runs.set(&ticket, Outcome::Running);
        actix_web::rt::spawn(async move {
            let outcome = match run.await {
                Ok(ended) => Outcome::Ended(Box::new(ended)),
                Err(error) => Outcome::Refused(error.to_string()),
            };
            runs.set(&ticket, outcome);
        });
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
    let Record { parts, raw, raw_key_id } = message.record()?;
    Ok(match parts {
        Parts::Quarantine(record) => {
            Some(Quarantined { position, evidence, record, raw, raw_key_id })
        }
        Parts::Fact(_) | Parts::Switch(_) | Parts::Parked(_) | Parts::ParkingProposed(_) => None,
    })
}
