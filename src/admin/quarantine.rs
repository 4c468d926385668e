//! Owns the admin calls on quarantined notices: how one reads today, and a person's word on it. The bytes are judged again
//! here, each time, by the keys and profiles in force; what is decided goes through the same desk as every decision.

use std::sync::Arc;

use actix_web::web::{self, Data, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse};
use arc_swap::ArcSwap;
use payfold_engines::log::{EventLog, Topic};
use payfold_ingest::release::{self, Reread};
use payfold_partners::directory::Directory;
use payfold_reconciler::books::desk::Desk;
use payfold_reconciler::books::notices::{NoticeFact, OnNotice};
use payfold_reconciler::books::withdraw::{DecisionOn, Withdraw};
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::Author;
use payfold_schemas::order::Severity;
use payfold_schemas::record::{Parts, Position, PositionError, Record};
use payfold_schemas::release::{Because, NoticeVerdict, Quarantined};
use serde::Deserialize;
use serde_json::{Value, json};

use super::books::{Answer, Refusal, assert_reason, at_desk, bad, withdrawal_reason};
use super::{Admin, only};
use crate::search;

/// What quarantined notices are judged with.
pub struct NoticeDesk {
    /// Where they are read.
    pub log: Arc<dyn EventLog>,
    /// Accounts, profiles and keys; loads what is in force.
    pub directory: Arc<ArcSwap<Directory>>,
    /// Our address as partners know it, for schemes that sign it.
    pub public_url: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    because: Option<Because>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Word {
    verdict: NoticeVerdict,
    because: Option<Because>,
    reason: String,
}

/// The routes.
pub(super) fn routes(config: &mut ServiceConfig) {
    config
        .service(only("/v1/quarantine/{position}", web::get().to(look)))
        .service(only("/v1/quarantine/{position}/decision", web::post().to(decide)))
        .service(only("/v1/quarantine/{position}/withdrawal", web::post().to(withdraw)));
}

impl NoticeDesk {
    async fn at(&self, position: &str) -> Result<Quarantined, Refusal> {
        let position: Position =
            position.parse().map_err(|error: PositionError| bad(format!("{position}: {error}")))?;
        let found = quarantined(&*self.log, position).await;
        found.map_err(|error| Refusal::Unread(format!("{error:#}")))?.ok_or_else(|| {
            bad(format!(
                "there is nothing at {position} in quarantine; `payfold quarantine list` lists it"
            ))
        })
    }

    fn judge(&self, kept: &Quarantined, because: Because) -> Result<Reread, Refusal> {
        let directory = self.directory.load();
        release::readmit(&directory, &self.public_url, kept, because)
            .map_err(|error| Refusal::NotReleasable(format!("{}: {error}", kept.position)))
    }
}

/// A quarantined notice, if there is one at this place. Errors: the log's, or a record that can't be read.
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

async fn look(
    request: HttpRequest,
    position: web::Path<String>,
    asked: web::Query<Asked>,
    admin: Data<Admin>,
) -> Answer {
    let (_, _, notices) = at_notices(&admin, &request)?;
    let kept = notices.at(&position).await?;
    let reads = release::look(&notices.directory.load(), &notices.public_url, &kept);
    let read: Option<Value> = reads.as_ref().ok().map(|reread| {
        let money = &reread.ipn.money;
        json!({
            "order": reread.order.to_string(), "status": reread.ipn.status, "amount": money.amount,
            "currency": money.currency, "takesTwo": reread.is_money(),
        })
    });
    let problem = match asked.because {
        None => reads.err().map(|error| error.to_string()),
        Some(because) => notices.judge(&kept, because).err().map(|refusal| refusal.to_string()),
    };
    let told = json!({ "evidence": kept.evidence, "reads": read, "problem": problem });
    Ok(HttpResponse::Ok().json(told))
}

async fn decide(
    request: HttpRequest,
    position: web::Path<String>,
    body: web::Bytes,
    admin: Data<Admin>,
) -> Answer {
    let (author, desk, notices) = at_notices(&admin, &request)?;
    let form = "{\"verdict\": \"release|dismiss\", \"because\": \"clock-fixed|late-retry|profile-fixed\", \"reason\": …}";
    let word: Word = serde_json::from_slice(&body)
        .map_err(|error| bad(format!("the body must be {form}: {error}")))?;
    assert_reason(&word.reason)?;
    let notice = notices.at(&position).await?;
    let reads = release::look(&notices.directory.load(), &notices.public_url, &notice);
    let fact = match (word.verdict, word.because) {
        (NoticeVerdict::Release, Some(because)) => {
            let Reread { order, ipn, source } = notices.judge(&notice, because)?;
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
    // What can't be read may move money.
    let severity = match reads.as_ref().is_ok_and(|reread| !reread.is_money()) {
        true => Severity::High,
        false => Severity::Critical,
    };
    let order = reads.ok().map(|reread| reread.order);
    let word = OnNotice { notice, order, fact, severity, author, reason: word.reason };
    Ok(HttpResponse::Ok().json(desk.decide_notice(word).await?))
}

async fn withdraw(
    request: HttpRequest,
    position: web::Path<String>,
    body: web::Bytes,
    admin: Data<Admin>,
) -> Answer {
    let (author, desk, notices) = at_notices(&admin, &request)?;
    let reason = withdrawal_reason(&body)?;
    let notice = notices.at(&position).await?;
    let on = DecisionOn::Notice(notice.position, notice.evidence);
    Ok(HttpResponse::Ok().json(desk.withdraw(Withdraw { on, author, reason }).await?))
}

/// Who asks, where decisions are made, and what notices are judged with.
fn at_notices<'a>(
    admin: &'a Admin,
    request: &HttpRequest,
) -> Result<(Author, &'a Desk, &'a NoticeDesk), Refusal> {
    let (author, books) = at_desk(admin, request)?;
    let notices = admin.notices.as_ref().ok_or(Refusal::NoReconciler)?;
    Ok((author, books.desk(), notices))
}
