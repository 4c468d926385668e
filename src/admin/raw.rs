//! Owns the admin call that gives out a notice as it came: who reads it and why is told on `findings` first. Invariant: no
//! bytes are given out that nobody has been told of.

use actix_web::web::{self, Data, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse};
use payfold_engines::log::{EventLog, Message, Topic};
use payfold_partners::directory::Directory;
use payfold_partners::sealing::Opened;
use payfold_schemas::event::EventAttributes;
use payfold_schemas::raw_read::{RAW_READ_TYPE, RawRead};
use payfold_schemas::record::{FactRecord, NoticeRequest, Parts, Position, PositionError, Record};
use payfold_schemas::release::Quarantined;
use serde::Deserialize;
use serde_json::json;

use super::books::{Answer, Refusal, assert_reason, bad};
use super::quarantine::quarantined;
use super::{Admin, only};
use crate::search;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Why {
    reason: String,
}

/// A record's bytes, and whose they are.
struct Found {
    account: String,
    request_id: payfold_schemas::ids::RequestId,
    opened: Opened,
}

/// The routes.
pub(super) fn routes(config: &mut ServiceConfig) {
    config.service(only("/v1/raw/{topic}/{position}", web::post().to(read)));
}

async fn read(
    request: HttpRequest,
    place: web::Path<(String, String)>,
    body: web::Bytes,
    admin: Data<Admin>,
) -> Answer {
    let author = admin.author(&request).ok_or(Refusal::Unauthenticated)?;
    let Some(log) = &admin.log else { return Err(bad("this process has no log; ask another")) };
    let why: Why = serde_json::from_slice(&body)
        .map_err(|error| bad(format!("the body must be {{\"reason\": …}}: {error}")))?;
    assert_reason(&why.reason)?;
    let (topic, position) = place.into_inner();
    let position: Position =
        position.parse().map_err(|error: PositionError| bad(format!("{position}: {error}")))?;
    let found = find(&**log, &admin.directory.load(), (&topic, position)).await?;
    let Found { account, request_id, opened } = found;
    let at = admin.clock.now();
    let read = RawRead { account, topic, position, request_id, author, reason: why.reason, at };
    let event = EventAttributes { id: read.event_id(), kind: RAW_READ_TYPE, time: at };
    let value = serde_json::to_vec(&read).expect("what is told is JSON");
    let message = Message { key: read.account, event: Some(event), value };
    let told = log.append(Topic::Findings, message).await;
    told.map_err(|error| Refusal::Unread(error.to_string()))?;
    let Opened { request, raw } = opened;
    Ok(HttpResponse::Ok().json(json!({ "request": request, "raw": hex::encode(raw) })))
}

async fn find(
    log: &dyn EventLog,
    directory: &Directory,
    (topic, position): (&str, Position),
) -> Result<Found, Refusal> {
    let unread = |error: anyhow::Error| Refusal::Unread(format!("{error:#}"));
    match topic {
        "intake" => match fact(log, position).await.map_err(unread)? {
            Some((fact, record)) => of_fact(directory, &fact, &record),
            None => Err(nothing_at(topic, position)),
        },
        "quarantine" => match quarantined(log, position).await.map_err(unread)? {
            Some(kept) => of_quarantined(directory, &kept),
            None => Err(nothing_at(topic, position)),
        },
        _ => Err(bad("bytes as they came are kept in intake and quarantine")),
    }
}

fn nothing_at(topic: &str, position: Position) -> Refusal {
    bad(format!("there are no bytes of anybody at {position} of {topic}"))
}

async fn fact(
    log: &dyn EventLog,
    position: Position,
) -> anyhow::Result<Option<(FactRecord, Record)>> {
    let Some(message) = search::message_at(log, Topic::Intake, position).await? else {
        return Ok(None);
    };
    let record = Record::decode(&message.value)?;
    Ok(match &record.parts {
        Parts::Fact(fact) => Some((fact.clone(), record)),
        Parts::Quarantine(_) | Parts::Switch(_) | Parts::Parked(_) => None,
    })
}

fn of_fact(directory: &Directory, fact: &FactRecord, record: &Record) -> Result<Found, Refusal> {
    let order = &fact.order;
    let account = order.account_name();
    let none = NoticeRequest::default();
    let request = fact.source.as_ref().map_or(&none, |source| &source.request);
    let sealed = (record.raw_key_id.as_ref(), record.raw.as_slice());
    let opened = directory.opened(&account, (fact.delivery(), request), sealed);
    let opened = opened.map_err(|error| bad(error.to_string()))?;
    Ok(Found { account, request_id: fact.request_id, opened })
}

fn of_quarantined(directory: &Directory, kept: &Quarantined) -> Result<Found, Refusal> {
    let account = kept.record.account.clone();
    let sealed = (kept.raw_key_id.as_ref(), kept.raw.as_slice());
    let recorded = (kept.delivery(), &kept.record.source.request);
    let opened = directory.opened(&account, recorded, sealed);
    let opened = opened.map_err(|error| bad(error.to_string()))?;
    Ok(Found { account, request_id: kept.record.request_id, opened })
}
