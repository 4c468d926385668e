//! Owns the admin calls of reconciliation: comparing records with orders, deciding findings and
//! flags, closing days. A comparison takes longer than a request should. Its call is answered with
//! a ticket at once, and `RUN` returns the progress of the ticket.

use std::sync::atomic::Ordering;

use actix_web::web::{self, Data, Payload, ReqData};
use chrono::NaiveDate;
use payfold_reconcile::close::CloseDayRequest;
use payfold_reconcile::decide::{FindingDecisionRequest, FlagDecisionRequest, NewDecision};
use payfold_reconcile::request::{
    NamedFile, RecordsSource, Replaceable, RunRequest, SurveyRequest,
};
use payfold_reconcile::withdraw::{DecisionOn, WithdrawalRequest};
use payfold_schemas::ids::{Author, PartnerCode};
use payfold_schemas::run::RunAsked;

use super::answer::{Answer, Refusal, answer, assert_reason, bad, read};
use super::backends::Outcome;
use super::names::{FlagNames, day_of, flag_of, partner_of};
use super::router::Router;
use super::state::Admin;
use super::uploads::{PreviewedFile, Reading, Upload};
use payfold_api::decisions::{
    DECIDE_FINDING, DECIDE_FLAG, DecideRequest, WITHDRAW_FINDING, WITHDRAW_FLAG, WithdrawRequest,
};
use payfold_api::reconcile::{
    CLOSE, COMPARE, COMPARE_PREVIEWED, CompareFile, ComparePreviewed, PREVIEW, PREVIEWED,
    PreviewFile, PreviewState, QUERY, QueryPartner, RUN, RunState, Ticket,
};

/// The routes.
pub(super) fn route(router: &mut Router) {
    router.call(&COMPARE, compare);
    // Before the paths of tickets: a partner may have a name like theirs.
    router.call(&QUERY, survey);
    router.call(&PREVIEW, preview);
    router.call(&PREVIEWED, previewed);
    router.call(&COMPARE_PREVIEWED, compare_previewed);
    router.call(&RUN, run_state);
    router.call(&DECIDE_FINDING, decide_finding);
    router.call(&WITHDRAW_FINDING, withdraw_finding);
    router.call(&DECIDE_FLAG, decide_flag);
    router.call(&WITHDRAW_FLAG, withdraw_flag);
    router.call(&CLOSE, close);
}

async fn compare(
    author: ReqData<Author>,
    partner: web::Path<String>,
    asked: web::Query<CompareFile>,
    body: Payload,
    admin: Data<Admin>,
) -> Answer {
    let author = author.into_inner();
    let backend = admin.reconciler()?;
    let (partner, asked) = (partner_of(&partner)?, asked.into_inner());
    let day = asked.day.as_deref().map(day_of).transpose()?;
    let CompareFile { name, replace, .. } = asked;
    let ticket = admin.clock.request_id().to_string();
    let upload = Upload::store(&backend.uploads, &ticket, name, body).await?;
    let asked = RunAsked { by: author, at: admin.clock.now() };
    let request = run_of(&upload, partner, day, replace.into(), asked);
    backend.start_run(ticket.clone(), request, upload, None);
    answer(&COMPARE, &Ticket { ticket })
}

/// The run with a file that somebody sent.
fn run_of(
    upload: &Upload,
    partner: PartnerCode,
    day: Option<NaiveDate>,
    replace: Replaceable,
    asked: RunAsked,
) -> RunRequest {
    let NamedFile { path, name } = upload.file.clone();
    tracing::info!(author = %asked.by, %partner, file = name, "records are to be compared");
    let source = RecordsSource::File(path);
    RunRequest { partner, day, source, name, replace, asked: Some(asked) }
}

async fn preview(
    author: ReqData<Author>,
    partner: web::Path<String>,
    asked: web::Query<PreviewFile>,
    body: Payload,
    admin: Data<Admin>,
) -> Answer {
    let author = author.into_inner();
    let backend = admin.reconciler()?;
    let (partner, PreviewFile { name }) = (partner_of(&partner)?, asked.into_inner());
    let ticket = admin.clock.request_id().to_string();
    let upload = Upload::store(&backend.uploads, &ticket, name, body).await?;
    tracing::info!(%author, %partner, file = upload.file.name, "records are to be read");
    backend.start_preview(ticket.clone(), partner, upload);
    answer(&PREVIEW, &Ticket { ticket })
}

async fn previewed(ticket: web::Path<String>, admin: Data<Admin>) -> Answer {
    let file = admin.reconciler()?.previewed(&ticket)?;
    let state = match file.reading {
        Reading::Lines(lines) => PreviewState::Reading { lines: lines.load(Ordering::Relaxed) },
        Reading::Read(preview) => PreviewState::Read { preview },
        Reading::Refused(problem) => PreviewState::Refused { problem },
    };
    answer(&PREVIEWED, &state)
}

async fn compare_previewed(
    author: ReqData<Author>,
    ticket: web::Path<String>,
    asked: web::Query<ComparePreviewed>,
    admin: Data<Admin>,
) -> Answer {
    let author = author.into_inner();
    let backend = admin.reconciler()?;
    let PreviewedFile { partner, upload, .. } = backend.previewed(&ticket)?;
    let upload = upload.ok_or_else(|| bad("this file can't be read, so it can't be compared"))?;
    let ComparePreviewed { day, replaces } = asked.into_inner();
    let day = Some(day_of(&day)?);
    let replace = replaces.map_or(Replaceable::No, Replaceable::Only);
    let asked = RunAsked { by: author, at: admin.clock.now() };
    let request = run_of(&upload, partner, day, replace, asked);
    let run = admin.clock.request_id().to_string();
    backend.start_run(run.clone(), request, upload, Some(ticket.into_inner()));
    answer(&COMPARE_PREVIEWED, &Ticket { ticket: run })
}

async fn survey(
    author: ReqData<Author>,
    partner: web::Path<String>,
    asked: web::Query<QueryPartner>,
    admin: Data<Admin>,
) -> Answer {
    let author = author.into_inner();
    let backend = admin.reconciler()?;
    let (partner, QueryPartner { day, replace }) = (partner_of(&partner)?, asked.into_inner());
    let day = day.as_deref().map(day_of).transpose()?;
    let ticket = admin.clock.request_id().to_string();
    tracing::info!(%author, %partner, "the partner is to be asked for the payments of a day");
    let asked = Some(RunAsked { by: author, at: admin.clock.now() });
    let (service, survey) =
        (backend.service.clone(), SurveyRequest { partner, day, replace: replace.into(), asked });
    backend.track_run(ticket.clone(), async move { service.survey(survey).await });
    answer(&QUERY, &Ticket { ticket })
}

async fn run_state(ticket: web::Path<String>, admin: Data<Admin>) -> Answer {
    let backend = admin.reconciler()?;
    let state = match backend.runs.get(&ticket).ok_or(Refusal::NoSuchRun)? {
        Outcome::Running => {
            let progress = backend.service.progress();
            RunState::Running { stage: progress.stage.to_owned(), done: progress.done }
        }
        Outcome::Ended(run) => RunState::Ended { run },
        Outcome::Refused(problem) => RunState::Refused { problem },
    };
    answer(&RUN, &state)
}

async fn decide_finding(
    author: ReqData<Author>,
    finding: web::Path<String>,
    body: web::Bytes,
    admin: Data<Admin>,
) -> Answer {
    let author = author.into_inner();
    let backend = admin.reconciler()?;
    let decision = decision_of(read(&DECIDE_FINDING, &body)?, author)?;
    let request = FindingDecisionRequest { finding: finding.into_inner(), decision };
    answer(&DECIDE_FINDING, &backend.service.decide_finding(request).await?)
}

async fn decide_flag(
    author: ReqData<Author>,
    path: web::Path<FlagNames>,
    body: web::Bytes,
    admin: Data<Admin>,
) -> Answer {
    let author = author.into_inner();
    let backend = admin.reconciler()?;
    let (order, flag) = flag_of(path.into_inner())?;
    let decision = decision_of(read(&DECIDE_FLAG, &body)?, author)?;
    let request = FlagDecisionRequest { order, flag, decision };
    answer(&DECIDE_FLAG, &backend.service.decide_flag(request).await?)
}

/// What an author asks to decide. Errors: the reason is not 1 to 1,000 characters.
fn decision_of(asked: DecideRequest, author: Author) -> Result<NewDecision, Refusal> {
    let DecideRequest { accept, reason, evidence } = asked;
    assert_reason(&reason)?;
    Ok(NewDecision { accept, author, reason, evidence })
}

async fn withdraw_finding(
    author: ReqData<Author>,
    finding: web::Path<String>,
    body: web::Bytes,
    admin: Data<Admin>,
) -> Answer {
    let author = author.into_inner();
    let backend = admin.reconciler()?;
    let WithdrawRequest { reason } = read(&WITHDRAW_FINDING, &body)?;
    assert_reason(&reason)?;
    let on = DecisionOn::Finding(finding.into_inner());
    answer(
        &WITHDRAW_FINDING,
        &backend.service.withdraw(WithdrawalRequest { on, author, reason }).await?,
    )
}

async fn withdraw_flag(
    author: ReqData<Author>,
    path: web::Path<FlagNames>,
    body: web::Bytes,
    admin: Data<Admin>,
) -> Answer {
    let author = author.into_inner();
    let backend = admin.reconciler()?;
    let (order, flag) = flag_of(path.into_inner())?;
    let WithdrawRequest { reason } = read(&WITHDRAW_FLAG, &body)?;
    assert_reason(&reason)?;
    let on = DecisionOn::Flag(order, flag);
    answer(
        &WITHDRAW_FLAG,
        &backend.service.withdraw(WithdrawalRequest { on, author, reason }).await?,
    )
}

async fn close(
    author: ReqData<Author>,
    path: web::Path<(String, String)>,
    admin: Data<Admin>,
) -> Answer {
    let author = author.into_inner();
    let backend = admin.reconciler()?;
    let (partner, day) = (partner_of(&path.0)?, day_of(&path.1)?);
    answer(&CLOSE, &backend.service.close(CloseDayRequest { partner, day, author }).await?)
}
