//! Owns the admin call that returns the raw bytes of a notice. Invariant: bytes are returned only
//! after the read, with its author and reason, is published on `findings`.

use actix_web::web::{self, Data, ReqData};
use payfold_engines::log::{EventLog, Message, Topic};
use payfold_kit::search;
use payfold_partners::directory::Directory;
use payfold_partners::sealing::UnsealedBody;
use payfold_schemas::event::EventAttributes;
use payfold_schemas::ids::Author;
use payfold_schemas::notice_source::RecordedRequest;
use payfold_schemas::position::Position;
use payfold_schemas::raw_read::{RAW_READ_TYPE, RawRead};
use payfold_schemas::record::{FactRecord, Parts, Record};
use payfold_schemas::release::Quarantined;

use super::answer::{Answer, Refusal, answer, assert_reason, bad, read};
use super::backends::quarantined;
use super::names::position_of;
use super::router::Router;
use super::state::Admin;
use payfold_api::raw::{READ_RAW, RawNotice, ReadRaw};

/// The unsealed bytes of a record, and the account they belong to.
struct FoundNotice {
    account: String,
    request_id: payfold_schemas::ids::RequestId,
    opened: UnsealedBody,
}

/// The routes.
pub(super) fn route(router: &mut Router) {
    router.call(&READ_RAW, read_raw);
}

async fn read_raw(
    author: ReqData<Author>,
    path: web::Path<(String, String)>,
    body: web::Bytes,
    admin: Data<Admin>,
) -> Answer {
    let author = author.into_inner();
    let Some(log) = &admin.log else { return Err(Refusal::NoOrders) };
    let ReadRaw { reason } = read(&READ_RAW, &body)?;
    assert_reason(&reason)?;
    let (topic, position) = path.into_inner();
    let position = position_of(&position)?;
    let found = find(&**log, &admin.directory.load(), (&topic, position)).await?;
    let FoundNotice { account, request_id, opened } = found;
    let at = admin.clock.now();
    let read = RawRead { account, topic, position, request_id, author, reason, at };
    let event = EventAttributes { id: read.event_id(), kind: RAW_READ_TYPE, time: at };
    let value = serde_json::to_vec(&read).expect("the event serialises");
    let message = Message { key: read.account, event: Some(event), value, mac: None };
    let published = log.append(Topic::Findings, message).await;
    published.map_err(|error| Refusal::Unread(error.to_string()))?;
    let UnsealedBody { request, raw } = opened;
    answer(&READ_RAW, &RawNotice { request, raw: hex::encode(raw) })
}

async fn find(
    log: &dyn EventLog,
    directory: &Directory,
    (topic, position): (&str, Position),
) -> Result<FoundNotice, Refusal> {
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
    let record = message.record()?;
    Ok(match &record.parts {
        Parts::Fact(fact) => Some((fact.clone(), record)),
        Parts::Quarantine(_) | Parts::Switch(_) | Parts::Parked(_) | Parts::ParkingProposed(_) => {
            None
        }
    })
}

fn of_fact(
    directory: &Directory,
    fact: &FactRecord,
    record: &Record,
) -> Result<FoundNotice, Refusal> {
    let order = &fact.order;
    let account = order.account_name();
    let none = RecordedRequest::default();
    let request = fact.source.as_ref().map_or(&none, |source| &source.request);
    let sealed = (record.raw_key_id.as_ref(), record.raw.as_slice());
    let opened = directory.open_body(&account, (fact.delivery(), request), sealed);
    let opened = opened.map_err(|error| bad(error.to_string()))?;
    Ok(FoundNotice { account, request_id: fact.request_id, opened })
}

fn of_quarantined(directory: &Directory, kept: &Quarantined) -> Result<FoundNotice, Refusal> {
    let account = kept.record.account.clone();
    let sealed = (kept.raw_key_id.as_ref(), kept.raw.as_slice());
    let recorded = (kept.delivery(), &kept.record.source.request);
    let opened = directory.open_body(&account, recorded, sealed);
    let opened = opened.map_err(|error| bad(error.to_string()))?;
    Ok(FoundNotice { account, request_id: kept.record.request_id, opened })
}
