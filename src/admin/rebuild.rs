//! Owns the admin calls of rebuilds: the progress of each build, and the calls that change a build.
//! A change is decided when its call is answered. The work goes on after that, and
//! `GET /v1/rebuild` returns its progress.

use actix_web::web::{self, Data, ReqData};
use payfold_projector::Speed;
use payfold_projector::journal::DecisionRequest;
use payfold_projector::rebuild::service::{BuildRequest, SwitchTarget};
use payfold_schemas::ids::Author;

use super::answer::{Answer, Refusal, answer, assert_reason, read};
use super::backends::RebuildBackend;
use super::router::Router;
use super::state::Admin;
use payfold_api::call::Call;
use payfold_api::rebuild::{
    BUILDS, Build, Builds, DROP, DropBuild, MovePublication, PAUSE, PaceBuild, PacedBuild, RESUME,
    ROLL_BACK, START, SWITCH, StartBuild,
};

/// The routes.
pub(super) fn route(router: &mut Router) {
    router.call(&BUILDS, build_statuses);
    router.call(&START, start);
    router.call(&PAUSE, pause);
    router.call(&RESUME, resume);
    router.call(&SWITCH, switch);
    router.call(&ROLL_BACK, roll_back);
    router.call(&DROP, drop_build);
}

/// The backend of rebuilds. Errors: this process has no projector.
fn rebuilds(admin: &Admin) -> Result<&RebuildBackend, Refusal> {
    admin.rebuilds.as_ref().ok_or(Refusal::NoProjector)
}

/// The author, reason and time of a change. Errors: no valid reason.
fn decision_request(
    admin: &Admin,
    author: Author,
    reason: &str,
) -> Result<DecisionRequest, Refusal> {
    assert_reason(reason)?;
    let (request_id, at) = (admin.clock.request_id(), admin.clock.now());
    Ok(DecisionRequest { author, reason: reason.trim().to_owned(), request_id, at })
}

async fn build_statuses(admin: Data<Admin>) -> Answer {
    let backend = rebuilds(&admin)?;
    answer(&BUILDS, &Builds { builds: backend.service.build_statuses().await? })
}

async fn start(author: ReqData<Author>, body: web::Bytes, admin: Data<Admin>) -> Answer {
    let author = author.into_inner();
    let backend = rebuilds(&admin)?;
    let StartBuild { reason, drill, throttle } = read(&START, &body)?;
    let asked = decision_request(&admin, author, &reason)?;
    if drill && !backend.may_drill {
        return Err(Refusal::NoDrill);
    }
    let build =
        backend.service.start_build(&asked, BuildRequest { drill, facts_per_s: throttle }).await?;
    tracing::info!(author = %asked.author, build, "a rebuild is asked for");
    answer(&START, &Build { build })
}

async fn pause(author: ReqData<Author>, body: web::Bytes, admin: Data<Admin>) -> Answer {
    let speed = |facts_per_s| Speed { paused: true, facts_per_s };
    pace(&PAUSE, author.into_inner(), &body, &admin, speed).await
}

async fn resume(author: ReqData<Author>, body: web::Bytes, admin: Data<Admin>) -> Answer {
    let speed = |facts_per_s| Speed { paused: false, facts_per_s };
    pace(&RESUME, author.into_inner(), &body, &admin, speed).await
}

async fn pace(
    call: &Call<PaceBuild, PacedBuild>,
    author: Author,
    body: &[u8],
    admin: &Admin,
    speed: impl FnOnce(Option<u32>) -> Speed,
) -> Answer {
    let backend = rebuilds(admin)?;
    let PaceBuild { reason, throttle } = read(call, body)?;
    let asked = decision_request(admin, author, &reason)?;
    let speed = speed(throttle);
    let (build, paused) = (backend.service.set_speed(&asked, speed).await?, speed.paused);
    tracing::info!(author = %asked.author, build, paused, "a rebuild is paced");
    answer(call, &PacedBuild { build, paused })
}

async fn switch(author: ReqData<Author>, body: web::Bytes, admin: Data<Admin>) -> Answer {
    let author = author.into_inner();
    let backend = rebuilds(&admin)?;
    let MovePublication { reason, build, force } = read(&SWITCH, &body)?;
    let asked = decision_request(&admin, author, &reason)?;
    let switched = backend.service.switch(&asked, SwitchTarget { build, force }).await?;
    let build = switched.publication.build;
    tracing::info!(author = %asked.author, build, "a switch is decided");
    answer(&SWITCH, &switched)
}

async fn roll_back(author: ReqData<Author>, body: web::Bytes, admin: Data<Admin>) -> Answer {
    let author = author.into_inner();
    let backend = rebuilds(&admin)?;
    let MovePublication { reason, build, force } = read(&ROLL_BACK, &body)?;
    let asked = decision_request(&admin, author, &reason)?;
    let switched = backend.service.roll_back(&asked, SwitchTarget { build, force }).await?;
    let build = switched.publication.build;
    tracing::info!(author = %asked.author, build, "a rollback is decided");
    answer(&ROLL_BACK, &switched)
}

async fn drop_build(author: ReqData<Author>, body: web::Bytes, admin: Data<Admin>) -> Answer {
    let author = author.into_inner();
    let backend = rebuilds(&admin)?;
    let DropBuild { reason, build } = read(&DROP, &body)?;
    let asked = decision_request(&admin, author, &reason)?;
    backend.service.drop_build(&asked, build).await?;
    tracing::info!(author = %asked.author, build, "a build is to go");
    answer(&DROP, &Build { build })
}
