//! Owns the admin calls on quarantined notices: reading a notice with the keys and profiles in
//! force, and deciding it. Each call reads the bytes anew. Decisions go through the reconcile
//! service, as all decisions do.

use actix_web::web::{self, Data, ReqData};
use payfold_ingest::release::{self, RereadNotice};
use payfold_reconcile::notices::{NoticeDecisionRequest, NoticeFact};
use payfold_reconcile::service::ReconcileService;
use payfold_reconcile::withdraw::{DecisionOn, WithdrawalRequest};
use payfold_schemas::ids::Author;
use payfold_schemas::order::Severity;
use payfold_schemas::release::NoticeVerdict;

use super::answer::{Answer, Refusal, answer, assert_reason, bad, read};
use super::backends::NoticeBackend;
use super::router::Router;
use super::state::Admin;
use payfold_api::decisions::WithdrawRequest;
use payfold_api::quarantine::{
    DECIDE, DecideNotice, JUDGE, Judge, JudgedNotice, ReadNotice, WITHDRAW,
};

/// The routes.
pub(super) fn route(router: &mut Router) {
    router.call(&JUDGE, judge);
    router.call(&DECIDE, decide);
    router.call(&WITHDRAW, withdraw);
}

async fn judge(
    position: web::Path<String>,
    asked: web::Query<Judge>,
    admin: Data<Admin>,
) -> Answer {
    let (_, notices) = notice_backends(&admin)?;
    let kept = notices.read_notice(&position).await?;
    let reads = release::read_quarantined(&notices.directory.load(), &notices.public_url, &kept);
    let read = reads.as_ref().ok().map(|reread| ReadNotice {
        order: reread.order.clone(),
        status: reread.ipn.status,
        amount: reread.ipn.money.amount,
        currency: reread.ipn.money.currency,
        needs_second_person: reread.is_money(),
    });
    let problem = match asked.because {
        None => reads.err().map(|error| error.to_string()),
        Some(because) => notices.readmit(&kept, because).err().map(|refusal| refusal.to_string()),
    };
    answer(&JUDGE, &JudgedNotice { evidence: kept.evidence, reads: read, problem })
}

async fn decide(
    author: ReqData<Author>,
    position: web::Path<String>,
    body: web::Bytes,
    admin: Data<Admin>,
) -> Answer {
    let author = author.into_inner();
    let (service, notices) = notice_backends(&admin)?;
    let request: DecideNotice = read(&DECIDE, &body)?;
    assert_reason(&request.reason)?;
    let notice = notices.read_notice(&position).await?;
    let reads = release::read_quarantined(&notices.directory.load(), &notices.public_url, &notice);
    let DecideNotice { verdict, because, reason } = request;
    let fact = match (verdict, because) {
        (NoticeVerdict::Release, Some(because)) => {
            let RereadNotice { order, ipn, source } = notices.readmit(&notice, because)?;
            Some(NoticeFact { because, order, ipn, source })
        }
        (NoticeVerdict::Dismiss, None) => None,
        (NoticeVerdict::Release, None) => {
            return Err(bad(
                "a release says because of what: clock-fixed, late-retry, profile-fixed",
            ));
        }
        (NoticeVerdict::Dismiss, Some(_)) => {
            return Err(bad("a dismissal takes a reason and no because"));
        }
    };
    // A notice that can't be read may move money.
    let severity = match reads.as_ref().is_ok_and(|reread| !reread.is_money()) {
        true => Severity::High,
        false => Severity::Critical,
    };
    let order = reads.ok().map(|reread| reread.order);
    let dismissed = fact.is_none().then(|| notice.clone());
    let decision = NoticeDecisionRequest { notice, order, fact, severity, author, reason };
    let decided = service.decide_notice(decision).await?;
    if let (true, Some(notice), Some(ingest)) = (decided.decided, dismissed, &notices.ingest) {
        ingest.forget_dismissed(&notice);
    }
    answer(&DECIDE, &decided)
}

async fn withdraw(
    author: ReqData<Author>,
    position: web::Path<String>,
    body: web::Bytes,
    admin: Data<Admin>,
) -> Answer {
    let author = author.into_inner();
    let (service, notices) = notice_backends(&admin)?;
    let WithdrawRequest { reason } = read(&WITHDRAW, &body)?;
    assert_reason(&reason)?;
    let notice = notices.read_notice(&position).await?;
    let on = DecisionOn::Notice(notice.position, notice.evidence);
    answer(&WITHDRAW, &service.withdraw(WithdrawalRequest { on, author, reason }).await?)
}

/// The service that decides, and the backend of notices. Errors: this process has no reconciler.
fn notice_backends(admin: &Admin) -> Result<(&ReconcileService, &NoticeBackend), Refusal> {
    let notices = admin.notices.as_ref().ok_or(Refusal::NoReconciler)?;
    Ok((admin.reconciler()?.service(), notices))
}
