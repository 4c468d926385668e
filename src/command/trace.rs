//! `payfold trace`: everything the log has about a request, a partner's reference or an order, in
//! order of time.

use std::collections::{BTreeMap, BTreeSet};

use payfold_engines::log::walk::Walk;
use payfold_engines::log::{Delivered, Topic};
use payfold_engines::orders::Scan;
use payfold_kit::search;
use payfold_projector::fold;
use payfold_schemas::event::OrderChanged;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::{OrderId, OrderKey, ProviderRef, RequestId};
use payfold_schemas::order::KnownFacts;
use payfold_schemas::position::Position;
use payfold_schemas::record::{FactRecord, Parts, Record};
use payfold_schemas::time::Time;
use payfold_views::facts;
use serde::Serialize;

use super::block_on::block_on;
use super::message::ShownMessage;
use crate::accounts::accounts;
use crate::args::{Global, TraceArgs};
use crate::error::Fixable;
use crate::listing::{self, Row};
use crate::settings::{self, Loaded};
use crate::wiring::{self, Engines};

const PAGE: usize = 2_000;
/// A request's record is appended within this time after the time in its id (1 min).
const REQUEST_MS: i64 = 60_000;

/// Prints the trace.
pub(crate) fn run(global: &Global, args: &TraceArgs) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    let mut steps = block_on(async {
        let engines = wiring::open_to_read(&loaded.settings).await?;
        let mut steps = steps(&loaded, &engines, &args.what).await?;
        add_flags(&engines, &mut steps).await?;
        anyhow::Ok(steps)
    })?;
    if steps.is_empty() {
        return Err(Fixable::error(
            format!("the log has nothing about {}", args.what),
            "check the spelling; a refused notice without a valid signature is not stored, and \
             `payfold tail quarantine` shows those with one",
        ));
    }
    steps.sort_by_key(|step| step.place);
    listing::print(args.output.output, &steps)
}

#[derive(Serialize)]
struct TraceStep {
    #[serde(skip)]
    place: (u64, u8, u64),
    time: Time,
    role: &'static str,
    step: String,
    result: String,
    /// The order of the step; `None` if it is of none.
    order: Option<String>,
    /// The position in intake of the step's fact; `None` if it has none.
    #[serde(skip)]
    fact: Option<Position>,
    /// The order's flags after that fact, as in `order show --facts`; `None` if the fact changed
    /// nothing.
    flags: Option<Vec<&'static str>>,
    /// The topic, and the message's position in it.
    position: String,
    message: ShownMessage,
}

impl Row for TraceStep {
    const COLUMNS: &'static str = "time role order step result flags position";
}

/// What the user searches for.
enum SearchTarget {
    Request(RequestId),
    Orders(Vec<OrderKey>),
}

impl SearchTarget {
    fn takes(&self, key: &str, request_id: RequestId) -> bool {
        match self {
            Self::Request(wanted) => *wanted == request_id,
            Self::Orders(_) => self.is_of(key),
        }
    }

    /// Whether this key is one of the orders.
    fn is_of(&self, key: &str) -> bool {
        match self {
            Self::Request(_) => false,
            Self::Orders(keys) => keys.iter().any(|order| order.to_string() == key),
        }
    }
}

async fn steps(loaded: &Loaded, engines: &Engines, what: &str) -> anyhow::Result<Vec<TraceStep>> {
    let (wanted, from, until) =
        match what.parse::<RequestId>().ok().and_then(|id| Some((id, id.unix_ms()?))) {
            Some((id, unix_ms)) => {
                let at = Time::from_unix_ms(i64::try_from(unix_ms)?);
                (SearchTarget::Request(id), at, Some(at.plus_ms(REQUEST_MS)))
            }
            None => {
                let keys = orders(loaded, engines, what).await?;
                let rows = engines.store()?.load(keys.clone()).await?;
                let Some(from) = rows.iter().flatten().map(|order| order.first_seen).min() else {
                    return Ok(Vec::new());
                };
                (SearchTarget::Orders(keys), from, None)
            }
        };
    let mut found = Vec::new();
    for topic in [Topic::Intake, Topic::Quarantine, Topic::Orders] {
        let places = search::positions_before(&*engines.log, topic, from).await?;
        let mut walk = Walk::from(&*engines.log, topic, places);
        while let Some(page) = walk.next(PAGE).await? {
            for message in &page {
                if topic != Topic::Orders && search::decode_undamaged(message)?.is_none() {
                    if wanted.is_of(&message.key) {
                        found.push(unreadable(topic, message)?);
                    }
                    continue;
                }
                let step = step(topic, message)?;
                if until.is_some_and(|until| step.0 > until) {
                    walk.drop_current_partition();
                    break;
                }
                if wanted.takes(&message.key, step.1) {
                    found.push(step.2);
                }
            }
        }
    }
    Ok(found)
}

/// The orders that a text may name: an order key, or an order id or partner's reference at any
/// account.
async fn orders(loaded: &Loaded, engines: &Engines, what: &str) -> anyhow::Result<Vec<OrderKey>> {
    if let Ok(key) = OrderKey::parse(what) {
        return Ok(vec![key]);
    }
    let mut keys = Vec::new();
    for (partner, merchant_code) in accounts(loaded)? {
        if let Ok(order_id) = OrderId::parse(what) {
            let (partner, merchant_code) = (partner.clone(), merchant_code.clone());
            keys.push(OrderKey { partner, merchant_code, order_id });
        }
        if let Ok(provider_ref) = ProviderRef::parse(what) {
            let scan = Scan::ProviderRef(partner, merchant_code, provider_ref);
            let page = engines.store()?.scan(scan, None, PAGE).await?;
            keys.extend(page.entries.into_iter().map(|(key, _)| key));
        }
    }
    Ok(keys)
}

/// A step for a damaged record, of which only the order is known.
fn unreadable(topic: Topic, message: &Delivered) -> anyhow::Result<TraceStep> {
    let position = message.position;
    Ok(TraceStep {
        place: (position.offset, 0, position.offset),
        time: Time::from_unix_ms(0),
        role: "-",
        step: "stored a record that is damaged now".to_owned(),
        result: "damaged".to_owned(),
        order: Some(message.key.clone()),
        fact: None,
        flags: None,
        position: format!("{} {position}", topic.name()),
        message: ShownMessage::of(message)?,
    })
}

/// A message as a step, with its receipt time and request id, which the search filters by.
fn step(topic: Topic, message: &Delivered) -> anyhow::Result<(Time, RequestId, TraceStep)> {
    let position = message.position;
    let shown = ShownMessage::of(message)?;
    if topic == Topic::Orders {
        let change: OrderChanged = serde_json::from_slice(&message.value)?;
        let time = message.event.as_ref().map(|event| Time::parse(&event.time)).transpose()?;
        let before = change.previous_state.map_or("new", |state| state.as_str());
        let step = TraceStep {
            place: (change.cause.position.offset, 1, position.offset),
            time: time.unwrap_or(Time::from_unix_ms(0)),
            role: "projector",
            step: format!("published version {}", change.version),
            result: format!("{before} → {}", change.state),
            order: Some(message.key.clone()),
            fact: Some(change.cause.position),
            flags: None,
            position: format!("{} {position}", topic.name()),
            message: shown,
        };
        return Ok((Time::from_unix_nanos(i64::MIN), change.cause.request_id, step));
    }
    let (mut order, mut fact, mut role) = (None, None, "admin");
    let (received_at, request_id, place, step, result) = match Record::decode(&message.value)?.parts
    {
        Parts::Fact(record) => {
            role = writer(&record);
            (order, fact) = (Some(record.order.to_string()), Some(position));
            let status = record.fact.status().map_or(String::new(), |status| format!(" {status}"));
            let key = record
                .source
                .as_ref()
                .map_or(String::new(), |source| format!(", key {}", source.key_id));
            let step = format!("stored {}{status}{key}{}", record.fact.kind(), decided_by(&record));
            (
                record.received_at,
                record.request_id,
                (position.offset, 0, position.offset),
                step,
                "durable".to_owned(),
            )
        }
        Parts::Quarantine(record) => {
            role = "ingest";
            let step = format!("refused {}", record.code);
            // Positions of quarantine and intake can't be compared, so quarantined notices come
            // last.
            let place = (u64::MAX, 0, position.offset);
            (record.received_at, record.request_id, place, step, "quarantined".to_owned())
        }
        Parts::Switch(switch) => {
            let step = format!("from here on build {} is published", switch.publication.build);
            let place = (position.offset, 0, position.offset);
            (switch.at, switch.request_id, place, step, "durable".to_owned())
        }
        Parts::Parked(parked) => {
            let step = format!("parked record {}: {}", parked.parked, parked.reason);
            let place = (position.offset, 0, position.offset);
            (parked.at, parked.request_id, place, step, "durable".to_owned())
        }
    };
    let (time, flags, message) = (received_at, None, shown);
    let position = format!("{} {position}", topic.name());
    let step = TraceStep { place, time, role, order, step, result, fact, flags, position, message };
    Ok((received_at, request_id, step))
}

/// The role that wrote a fact, which follows from the fact's kind. Decisions of people are shown as
/// `admin`.
fn writer(record: &FactRecord) -> &'static str {
    let is_released = record.source.as_ref().is_some_and(|source| source.released.is_some());
    match &record.fact {
        Fact::CreateRequested(_) | Fact::SessionOpened(_) | Fact::CreateFailed(_) => "checkout",
        Fact::Ipn(_) if is_released => "admin",
        Fact::Ipn(_) => "ingest",
        Fact::DeadlinePassed { .. } | Fact::QueryAnswered(_) | Fact::RefShared(_) => "reconciler",
        Fact::Decided(_) => "admin",
    }
}

/// The people who released or decided a fact, as text.
fn decided_by(record: &FactRecord) -> String {
    let released = record.source.as_ref().and_then(|source| source.released.as_ref());
    let (how, author, second) = match (&record.fact, released) {
        (Fact::Decided(decision), _) => {
            (format!(" on {}", decision.flag), &decision.author, &decision.seconded_by)
        }
        (_, Some(released)) => {
            let from = format!(", released from quarantine {}", released.position);
            (from, &released.author, &released.seconded_by)
        }
        (_, None) => return String::new(),
    };
    let second = second.as_ref().map_or(String::new(), |second| format!(" and {second}"));
    format!("{how} by {author}{second}")
}

/// Adds to each step the flags of its order after its fact.
async fn add_flags(engines: &Engines, steps: &mut [TraceStep]) -> anyhow::Result<()> {
    let of_facts = steps.iter().filter(|step| step.fact.is_some());
    let orders: BTreeSet<&str> = of_facts.filter_map(|step| step.order.as_deref()).collect();
    let orders = orders.into_iter().filter_map(|order| OrderKey::parse(order).ok()).collect();
    let rows = engines.store()?.load(orders).await?;
    for order in rows.into_iter().flatten() {
        let mut facts = KnownFacts::default();
        let mut flags: BTreeMap<Position, Vec<&'static str>> = BTreeMap::new();
        // An order with a damaged record gets no flags, because it can't be folded here. The
        // damaged record is a step of its own.
        let Ok(records) = facts::records(&*engines.log, &order).await else { continue };
        for (position, record, _) in records {
            fold::apply(&mut facts, &record.fact, position);
            let raised = fold::summarize(&facts).flags;
            flags.insert(position, raised.iter().map(|raised| raised.flag.as_str()).collect());
        }
        let key = order.key.to_string();
        for step in steps.iter_mut().filter(|step| step.order.as_ref() == Some(&key)) {
            step.flags = step.fact.and_then(|position| flags.get(&position).cloned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use payfold_schemas::ids::{Author, OrderKey};
    use payfold_schemas::money::Currency;

    use super::*;

    fn record(fact: Fact) -> FactRecord {
        FactRecord {
            order: OrderKey::parse("p/M/a").unwrap(),
            fact,
            request_id: "01939b1c-7a00-7000-8000-000000000001".parse().unwrap(),
            received_at: Time::from_unix_ms(0),
            source: None,
        }
    }

    #[test]
    fn the_writer_of_a_fact_follows_from_its_kind() {
        let answer = payfold_schemas::fact::QueryAnswer {
            provider_ref: ProviderRef::parse("r").unwrap(),
            status: payfold_schemas::ipn::Status::Success,
            amount: payfold_schemas::money::Amount::parse("100").unwrap(),
            currency: Currency::parse("VND").unwrap(),
        };
        let decision = payfold_schemas::fact::Decision {
            id: "d".to_owned(),
            flag: payfold_schemas::order::Flag::AmountMismatch,
            evidence: payfold_schemas::digest::Digest::of_bytes(b"evidence"),
            accept: payfold_schemas::fact::Verdict::Ours,
            author: Author::parse("ann").unwrap(),
            reason: "asked".to_owned(),
            seconded_by: Author::parse("bob").ok(),
        };
        let passed = record(Fact::DeadlinePassed { deadline: Time::from_unix_ms(0) });
        assert_eq!(writer(&passed), "reconciler");
        assert_eq!(writer(&record(Fact::QueryAnswered(answer))), "reconciler");
        let decided = record(Fact::Decided(decision));
        assert_eq!(writer(&decided), "admin");
        assert_eq!(decided_by(&decided), " on AMOUNT_MISMATCH by ann and bob");
    }
}
