//! Owns the admin calls of the comparison with partners' records: a file is taken and compared, a finding or a flag
//! decided, a day closed. A run takes longer than a request should: it is answered with a ticket that tells how far it is.

use std::collections::VecDeque;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use actix_web::web::{self, Data, Payload, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse, ResponseError};
use chrono::NaiveDate;
use futures_util::StreamExt;
use payfold_reconciler::books::day::{Request, Source};
use payfold_reconciler::books::desk::{Closing, Desk, DeskError, OnFinding, OnFlag};
use payfold_reconciler::books::survey::Survey;
use payfold_reconciler::books::withdraw::{DecisionOn, Withdraw};
use payfold_schemas::fact::Verdict;
use payfold_schemas::ids::{Author, OrderKey, PartnerCode};
use payfold_schemas::order::Flag;
use payfold_schemas::run::RunEnded;
use serde::Deserialize;
use serde_json::json;

use super::{Admin, only, only_upload, problem};

/// Tickets that are remembered.
const TICKETS: usize = 64;
/// Longer reasons are no reasons.
const REASON_CHARS: usize = 1_000;

/// The comparison's side of the admin listener.
pub struct BooksDesk {
    desk: Desk,
    uploads: PathBuf,
    tickets: Arc<Mutex<VecDeque<(String, Outcome)>>>,
}

/// What became of a run.
#[derive(Clone)]
enum Outcome {
    Running,
    Ended(Box<RunEnded>),
    Refused(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// In the partner's zone; none is yesterday.
    day: Option<String>,
    /// What the file is called.
    name: String,
    /// Whether it may take the place of records that are called something else.
    #[serde(default)]
    replace: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Word {
    accept: Verdict,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WithdrawalBody {
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedToAsk {
    /// In the partner's zone; none is yesterday.
    day: Option<String>,
    /// Whether the answers may take the place of a file.
    #[serde(default)]
    replace: bool,
}

/// The routes.
pub(super) fn routes(config: &mut ServiceConfig) {
    config
        .service(only_upload("/v1/reconcile/{partner}", web::post().to(run)))
        .service(only("/v1/reconcile/{partner}/query", web::post().to(survey)))
        .service(only("/v1/reconcile/runs/{ticket}", web::get().to(ticket)))
        .service(only("/v1/findings/{finding}/decision", web::post().to(decide_finding)))
        .service(only("/v1/findings/{finding}/withdrawal", web::post().to(withdraw_finding)))
        .service(only(
            "/v1/orders/{partner}/{merchant}/{order}/flags/{flag}/decision",
            web::post().to(decide_flag),
        ))
        .service(only(
            "/v1/orders/{partner}/{merchant}/{order}/flags/{flag}/withdrawal",
            web::post().to(withdraw_flag),
        ))
        .service(only("/v1/periods/{partner}/{day}/close", web::post().to(close)));
}

impl BooksDesk {
    /// Takes files into this folder, for this desk.
    pub fn new(desk: Desk, uploads: PathBuf) -> Self {
        Self { desk, uploads, tickets: Arc::default() }
    }

    /// Where words are taken.
    pub(super) fn desk(&self) -> &Desk {
        &self.desk
    }

    /// Begins a run; the ticket tells of it. The file is taken away at its end.
    fn begin(&self, ticket: String, request: Request, path: PathBuf) {
        let desk = self.desk.clone();
        let running = self.follow(ticket, async move { desk.run(request).await });
        actix_web::rt::spawn(async move {
            running.await;
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(%error, file = %path.display(), "a compared file could not be taken away");
            }
        });
    }

    /// Remembers how a run goes on.
    fn follow<R: Future<Output = Result<RunEnded, DeskError>>>(
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

    fn outcome(&self, ticket: &str) -> Option<Outcome> {
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

/// Why nothing is done.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("an admin token is needed: Authorization: Bearer …")]
    Unauthenticated,
    #[error("this process has no reconciler: ask the admin listener of one that runs the role")]
    NoReconciler,
    #[error("{0}")]
    Bad(String),
    #[error("this process knows of no such run; `payfold reconcile runs` lists what ended")]
    NoSuchRun,
    #[error("the file can't be kept: {0}")]
    NotStored(anyhow::Error),
    #[error("quarantine can't be read: {0}; try again when `payfold check --connect` is well")]
    Unread(String),
    #[error("{0}")]
    NotReleasable(String),
    #[error(transparent)]
    Desk(#[from] DeskError),
}

impl ResponseError for Refusal {
    fn error_response(&self) -> HttpResponse {
        let (status, code) = match self {
            Self::Unauthenticated => (401, "unauthenticated"),
            Self::NoReconciler => (404, "no_reconciler"),
            Self::Bad(_) => (400, "bad_request"),
            Self::NoSuchRun => (404, "no_such_run"),
            Self::NotStored(_) => (507, "not_stored"),
            Self::Unread(_) => (503, "storage_unavailable"),
            Self::NotReleasable(_) => (422, "not_releasable"),
            Self::Desk(DeskError::Refused(_)) => (422, "refused"),
            Self::Desk(DeskError::Busy) => (429, "busy"),
            Self::Desk(DeskError::Ended) => (503, "reconciler_ended"),
        };
        problem(status, code, &self.to_string())
    }
}

pub(super) type Answer = Result<HttpResponse, Refusal>;

/// Who asks, and whom.
pub(super) fn at_desk<'a>(
    admin: &'a Admin,
    request: &HttpRequest,
) -> Result<(Author, &'a BooksDesk), Refusal> {
    let author = admin.author(request).ok_or(Refusal::Unauthenticated)?;
    Ok((author, admin.books.as_ref().ok_or(Refusal::NoReconciler)?))
}

pub(super) fn bad(detail: impl Into<String>) -> Refusal {
    Refusal::Bad(detail.into())
}

fn partner_of(code: &str) -> Result<PartnerCode, Refusal> {
    PartnerCode::parse(code).map_err(|_| bad("that is no partner's code"))
}

fn day_of(day: &str) -> Result<NaiveDate, Refusal> {
    day.parse().map_err(|_| bad("a day is a date such as 2026-01-31"))
}

async fn run(
    request: HttpRequest,
    partner: web::Path<String>,
    asked: web::Query<Asked>,
    body: Payload,
    admin: Data<Admin>,
) -> Answer {
    let (author, books) = at_desk(&admin, &request)?;
    let (partner, asked) = (partner_of(&partner)?, asked.into_inner());
    let day = asked.day.as_deref().map(day_of).transpose()?;
    let ticket = admin.clock.request_id().to_string();
    let path = books.uploads.join(format!("upload-{ticket}"));
    if let Err(error) = take(&books.uploads, &path, body).await {
        // What is there of it is of no use to anybody.
        let _ = fs::remove_file(&path);
        return Err(Refusal::NotStored(error));
    }
    tracing::info!(%author, %partner, file = asked.name, "records are to be compared");
    let Asked { name, replace, .. } = asked;
    let source = Source::File(path.clone());
    books.begin(ticket.clone(), Request { partner, day, source, name, replace }, path);
    Ok(HttpResponse::Accepted().json(json!({ "ticket": ticket })))
}

async fn survey(
    request: HttpRequest,
    partner: web::Path<String>,
    asked: web::Query<AskedToAsk>,
    admin: Data<Admin>,
) -> Answer {
    let (author, books) = at_desk(&admin, &request)?;
    let (partner, AskedToAsk { day, replace }) = (partner_of(&partner)?, asked.into_inner());
    let day = day.as_deref().map(day_of).transpose()?;
    let ticket = admin.clock.request_id().to_string();
    tracing::info!(%author, %partner, "the partner is to be asked for the payments of a day");
    let (desk, survey) = (books.desk.clone(), Survey { partner, day, replace });
    let running = books.follow(ticket.clone(), async move { desk.survey(survey).await });
    actix_web::rt::spawn(running);
    Ok(HttpResponse::Accepted().json(json!({ "ticket": ticket })))
}

/// Chunks are small and go to the page cache: nothing else waits for them that would mind.
async fn take(folder: &Path, path: &Path, mut body: Payload) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    let mut file = fs::File::create_new(path)?;
    while let Some(chunk) = body.next().await {
        file.write_all(&chunk.map_err(|error| anyhow::anyhow!("{error}"))?)?;
    }
    Ok(())
}

async fn ticket(request: HttpRequest, ticket: web::Path<String>, admin: Data<Admin>) -> Answer {
    let (_, books) = at_desk(&admin, &request)?;
    let told = match books.outcome(&ticket).ok_or(Refusal::NoSuchRun)? {
        Outcome::Running => {
            let progress = books.desk.progress();
            let (stage, done) = (progress.stage, progress.done);
            json!({ "state": "running", "stage": stage, "done": done })
        }
        Outcome::Ended(ended) => json!({ "state": "ended", "run": *ended }),
        Outcome::Refused(problem) => json!({ "state": "refused", "problem": problem }),
    };
    Ok(HttpResponse::Ok().json(told))
}

/// A word with a reason.
fn word(body: &[u8]) -> Result<Word, Refusal> {
    let word: Word = serde_json::from_slice(body).map_err(|error| {
        let form = "{\"accept\": \"ours|partner|write-off\", \"reason\": …}";
        bad(format!("the body must be {form}: {error}"))
    })?;
    assert_reason(&word.reason)?;
    Ok(word)
}

/// Every decision has a reason. Errors: this one has none, or a book.
pub(super) fn assert_reason(reason: &str) -> Result<(), Refusal> {
    let chars = reason.trim().chars().count();
    if chars == 0 || chars > REASON_CHARS {
        return Err(bad(format!("a decision takes a reason of 1 to {REASON_CHARS} characters")));
    }
    Ok(())
}

async fn decide_finding(
    request: HttpRequest,
    finding: web::Path<String>,
    body: web::Bytes,
    admin: Data<Admin>,
) -> Answer {
    let (author, books) = at_desk(&admin, &request)?;
    let Word { accept, reason } = word(&body)?;
    let finding = finding.into_inner();
    let word = OnFinding { finding, accept, author, reason };
    Ok(HttpResponse::Ok().json(books.desk.decide_finding(word).await?))
}

/// The order and its flag that a path names.
fn flag_of(path: web::Path<(String, String, String, String)>) -> Result<(OrderKey, Flag), Refusal> {
    let (partner, merchant, order, flag) = path.into_inner();
    let order = OrderKey::parse(&format!("{partner}/{merchant}/{order}"))
        .map_err(|_| bad("that names no order"))?;
    let flag = Flag::parse(&flag)
        .ok_or_else(|| bad(format!("{flag} is no flag; docs/order-state.md has them")))?;
    Ok((order, flag))
}

async fn decide_flag(
    request: HttpRequest,
    path: web::Path<(String, String, String, String)>,
    body: web::Bytes,
    admin: Data<Admin>,
) -> Answer {
    let (author, books) = at_desk(&admin, &request)?;
    let Word { accept, reason } = word(&body)?;
    let (order, flag) = flag_of(path)?;
    let word = OnFlag { order, flag, accept, author, reason };
    Ok(HttpResponse::Ok().json(books.desk.decide_flag(word).await?))
}

/// Why a decision is withdrawn. Errors: the body is none, or has no reason.
pub(super) fn withdrawal_reason(body: &[u8]) -> Result<String, Refusal> {
    let WithdrawalBody { reason } = serde_json::from_slice(body)
        .map_err(|error| bad(format!("the body must be {{\"reason\": …}}: {error}")))?;
    assert_reason(&reason)?;
    Ok(reason)
}

async fn withdraw_finding(
    request: HttpRequest,
    finding: web::Path<String>,
    body: web::Bytes,
    admin: Data<Admin>,
) -> Answer {
    let (author, books) = at_desk(&admin, &request)?;
    let (on, reason) = (DecisionOn::Finding(finding.into_inner()), withdrawal_reason(&body)?);
    Ok(HttpResponse::Ok().json(books.desk.withdraw(Withdraw { on, author, reason }).await?))
}

async fn withdraw_flag(
    request: HttpRequest,
    path: web::Path<(String, String, String, String)>,
    body: web::Bytes,
    admin: Data<Admin>,
) -> Answer {
    let (author, books) = at_desk(&admin, &request)?;
    let (order, flag) = flag_of(path)?;
    let (on, reason) = (DecisionOn::Flag(order, flag), withdrawal_reason(&body)?);
    Ok(HttpResponse::Ok().json(books.desk.withdraw(Withdraw { on, author, reason }).await?))
}

async fn close(
    request: HttpRequest,
    path: web::Path<(String, String)>,
    admin: Data<Admin>,
) -> Answer {
    let (author, books) = at_desk(&admin, &request)?;
    let (partner, day) = (partner_of(&path.0)?, day_of(&path.1)?);
    Ok(HttpResponse::Ok().json(books.desk.close(Closing { partner, day, author }).await?))
}
