//! Owns the admin calls of rebuilds: how far each generation is, and what is asked for it. Each that changes something is
//! decided when it is answered; doing it goes on, and `GET /v1/rebuild` tells how far it is.

use actix_web::middleware::from_fn;
use actix_web::web::{self, Data, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse, ResponseError};
use payfold_engines::EngineError;
use payfold_engines::generations::{Asked, DecideError};
use payfold_projector::Speed;
use payfold_projector::rebuild::desk::{Desk, Target, Wish};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{Admin, body, only, problem};

/// Longer reasons are no reasons.
const REASON_CHARS: usize = 1_000;

/// The rebuild's side of the admin listener.
pub struct RebuildDesk {
    /// Where it is decided.
    pub desk: Desk,
    /// Whether a rule may be broken on purpose: in the demo, where nothing is real money.
    pub may_drill: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Start {
    reason: String,
    #[serde(default)]
    drill: bool,
    throttle: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Pace {
    reason: String,
    throttle: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Move {
    reason: String,
    generation: Option<u32>,
    #[serde(default)]
    force: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ThrowAway {
    reason: String,
    generation: u32,
}

/// The routes.
pub(super) fn routes(config: &mut ServiceConfig) {
    let whole = web::resource("/v1/rebuild")
        .route(web::get().to(standings))
        .route(web::post().to(start))
        .default_service(web::to(|| async {
            problem(405, "method_not_allowed", "this path takes another method")
        }))
        .wrap(from_fn(body::in_time));
    config
        .service(whole)
        .service(only("/v1/rebuild/pause", web::post().to(pause)))
        .service(only("/v1/rebuild/resume", web::post().to(resume)))
        .service(only("/v1/rebuild/switch", web::post().to(switch)))
        .service(only("/v1/rebuild/rollback", web::post().to(roll_back)))
        .service(only("/v1/rebuild/drop", web::post().to(throw_away)));
}

/// Why nothing is done.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("an admin token is needed: Authorization: Bearer …")]
    Unauthenticated,
    #[error("this process has no projector: ask the admin listener of one that runs the role")]
    NoProjector,
    #[error("{0}")]
    Bad(String),
    #[error(
        "a rule is broken on purpose in the demo only (`payfold run` without a configuration): here orders are real"
    )]
    NoDrill,
    #[error(transparent)]
    Decide(#[from] DecideError),
}

impl ResponseError for Refusal {
    fn error_response(&self) -> HttpResponse {
        let (status, code) = match self {
            Self::Unauthenticated => (401, "unauthenticated"),
            Self::NoProjector => (404, "no_projector"),
            Self::Bad(_) => (400, "bad_request"),
            Self::NoDrill => (422, "no_drill"),
            Self::Decide(DecideError::Refused(_)) => (422, "refused"),
            Self::Decide(DecideError::Engine(EngineError::Unavailable(_))) => {
                (503, "storage_unavailable")
            }
            Self::Decide(DecideError::Engine(_)) => (500, "storage_failed"),
        };
        problem(status, code, &self.to_string())
    }
}

type Answer = Result<HttpResponse, Refusal>;

fn at_desk<'a>(admin: &'a Admin, request: &HttpRequest) -> Result<&'a RebuildDesk, Refusal> {
    admin.author(request).ok_or(Refusal::Unauthenticated)?;
    admin.rebuilds.as_ref().ok_or(Refusal::NoProjector)
}

/// What is asked, by whom and why.
fn read<T: DeserializeOwned>(
    admin: &Admin,
    request: &HttpRequest,
    body: &[u8],
    reason: impl FnOnce(&T) -> &str,
) -> Result<(T, Asked), Refusal> {
    let author = admin.author(request).ok_or(Refusal::Unauthenticated)?;
    let wish: T = serde_json::from_slice(body)
        .map_err(|error| Refusal::Bad(format!("the body must be JSON with a reason: {error}")))?;
    let reason = reason(&wish).trim().to_owned();
    if reason.is_empty() || reason.chars().count() > REASON_CHARS {
        let text =
            format!("what changes something takes a reason of 1 to {REASON_CHARS} characters");
        return Err(Refusal::Bad(text));
    }
    let (request_id, at) = (admin.clock.request_id(), admin.clock.now());
    Ok((wish, Asked { author, reason, request_id, at }))
}

async fn standings(request: HttpRequest, admin: Data<Admin>) -> Answer {
    let desk = at_desk(&admin, &request)?;
    let generations = desk.desk.standings().await?;
    Ok(HttpResponse::Ok().json(json!({ "generations": generations })))
}

async fn start(request: HttpRequest, body: web::Bytes, admin: Data<Admin>) -> Answer {
    let desk = at_desk(&admin, &request)?;
    let (wish, asked) = read(&admin, &request, &body, |wish: &Start| &wish.reason)?;
    if wish.drill && !desk.may_drill {
        return Err(Refusal::NoDrill);
    }
    let made = Wish { drill: wish.drill, facts_per_s: wish.throttle };
    let generation = desk.desk.start(&asked, made).await?;
    tracing::info!(author = %asked.author, generation, "a rebuild is asked for");
    Ok(HttpResponse::Accepted().json(json!({ "generation": generation })))
}

async fn pause(request: HttpRequest, body: web::Bytes, admin: Data<Admin>) -> Answer {
    pace(&request, &body, &admin, |facts_per_s| Speed { paused: true, facts_per_s }).await
}

async fn resume(request: HttpRequest, body: web::Bytes, admin: Data<Admin>) -> Answer {
    pace(&request, &body, &admin, |facts_per_s| Speed { paused: false, facts_per_s }).await
}

async fn pace(
    request: &HttpRequest,
    body: &[u8],
    admin: &Admin,
    speed: impl FnOnce(Option<u32>) -> Speed,
) -> Answer {
    let desk = at_desk(admin, request)?;
    let (wish, asked) = read(admin, request, body, |wish: &Pace| &wish.reason)?;
    let speed = speed(wish.throttle);
    let generation = desk.desk.pace(&asked, speed).await?;
    let paused = speed.paused;
    tracing::info!(author = %asked.author, generation, paused, "a rebuild is paced");
    Ok(HttpResponse::Ok().json(json!({ "generation": generation, "paused": paused })))
}

async fn switch(request: HttpRequest, body: web::Bytes, admin: Data<Admin>) -> Answer {
    let desk = at_desk(&admin, &request)?;
    let (wish, asked) = read(&admin, &request, &body, |wish: &Move| &wish.reason)?;
    let target = Target { generation: wish.generation, force: wish.force };
    let switched = desk.desk.switch(&asked, target).await?;
    tracing::info!(author = %asked.author, tables = switched.publication.tables, "a switch is decided");
    Ok(HttpResponse::Accepted().json(switched))
}

async fn roll_back(request: HttpRequest, body: web::Bytes, admin: Data<Admin>) -> Answer {
    let desk = at_desk(&admin, &request)?;
    let (wish, asked) = read(&admin, &request, &body, |wish: &Move| &wish.reason)?;
    let target = Target { generation: wish.generation, force: wish.force };
    let switched = desk.desk.roll_back(&asked, target).await?;
    tracing::info!(author = %asked.author, tables = switched.publication.tables, "a rollback is decided");
    Ok(HttpResponse::Accepted().json(switched))
}

async fn throw_away(request: HttpRequest, body: web::Bytes, admin: Data<Admin>) -> Answer {
    let desk = at_desk(&admin, &request)?;
    let (wish, asked) = read(&admin, &request, &body, |wish: &ThrowAway| &wish.reason)?;
    desk.desk.throw_away(&asked, wish.generation).await?;
    tracing::info!(author = %asked.author, generation = wish.generation, "a generation is to go");
    Ok(HttpResponse::Accepted().json(json!({ "generation": wish.generation })))
}
