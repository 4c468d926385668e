//! `payfold trace`: everything the log has about a request, a partner's ref or an order, in order of time.

use std::collections::{BTreeMap, BTreeSet};

use payfold_engines::log::{Delivered, Topic};
use payfold_engines::orders::Scan;
use payfold_projector::fold;
use payfold_schemas::event::OrderChanged;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::{OrderId, OrderKey, ProviderRef, RequestId};
use payfold_schemas::order::KnownFacts;
use payfold_schemas::record::{FactRecord, Parts, Position, Record};
use payfold_schemas::time::Time;
use serde_json::{Value, json};

use super::{block_on, tail};
use crate::accounts::accounts;
use crate::args::{Global, TraceArgs};
use crate::error::Fixable;
use crate::output::Listing;
use crate::search;
use crate::settings::{self, Loaded};
use crate::walk::Walk;
use crate::wiring::Engines;

const COLUMNS: [&str; 6] = ["time", "role", "step", "result", "flags", "position"];
const PAGE: usize = 2_000;
/// A request's record is appended within this time of its id.
const REQUEST_MS: i64 = 60_000;

/// Prints the trace.
pub fn run(global: &Global, args: &TraceArgs) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    let mut steps = block_on(async {
        let engines = Engines::open_to_read(&loaded.settings).await?;
        let mut steps = steps(&loaded, &engines, &args.what).await?;
        add_flags(&engines, &mut steps).await?;
        anyhow::Ok(steps)
    })?;
    if steps.is_empty() {
        return Err(Fixable::error(
            format!("the log has nothing about {}", args.what),
            "a refused notice nobody signed is not kept; `payfold tail quarantine` shows the signed ones",
        ));
    }
    steps.sort_by_key(|step| step.order);
    let mut listing = Listing::new(args.output.output, &COLUMNS);
    for step in steps {
        let object = json!({
            "time": step.time, "role": step.role, "step": step.step, "result": step.result,
            "flags": step.flags, "position": format!("{} {}", step.topic.name(), step.position),
            "message": step.message,
        });
        let position = format!("{} {}", step.topic.name(), step.position);
        listing.row(
            vec![
                crate::output::time(step.time),
                step.role.to_owned(),
                step.step,
                step.result,
                step.flags.map_or_else(|| "-".to_owned(), |flags| flags.join(" ")),
                position,
            ],
            &object,
        )?;
    }
    listing.print()
}

struct Step {
    order: (u64, u8, u64),
    time: Time,
    role: &'static str,
    step: String,
    result: String,
    /// The order and the record of intake that the step is about; none where it is about no fact.
    of: Option<(OrderKey, Position)>,
    /// The order's flags after that fact, as `order show --facts` has them; none where the fact changed nothing.
    flags: Option<Vec<&'static str>>,
    topic: Topic,
    position: Position,
    message: Value,
}

/// What is looked for.
enum Wanted {
    Request(RequestId),
    Orders(Vec<OrderKey>),
}

impl Wanted {
    fn takes(&self, key: &str, request_id: RequestId) -> bool {
        match self {
            Self::Request(wanted) => *wanted == request_id,
            Self::Orders(_) => self.is_of(key),
        }
    }

    /// Whether it is an order of this key.
    fn is_of(&self, key: &str) -> bool {
        match self {
            Self::Request(_) => false,
            Self::Orders(keys) => keys.iter().any(|order| order.to_string() == key),
        }
    }
}

async fn steps(loaded: &Loaded, engines: &Engines, what: &str) -> anyhow::Result<Vec<Step>> {
    let (wanted, from, until) =
        match what.parse::<RequestId>().ok().and_then(|id| Some((id, id.unix_ms()?))) {
            Some((id, unix_ms)) => {
                let at = Time::from_unix_ms(i64::try_from(unix_ms)?);
                (Wanted::Request(id), at, Some(at.plus_ms(REQUEST_MS)))
            }
            None => {
                let keys = orders(loaded, engines, what).await?;
                let rows = engines.store()?.load(keys.clone()).await?;
                let Some(from) = rows.iter().flatten().map(|order| order.first_seen).min() else {
                    return Ok(Vec::new());
                };
                (Wanted::Orders(keys), from, None)
            }
        };
    let mut found = Vec::new();
    for topic in [Topic::Intake, Topic::Quarantine, Topic::Orders] {
        let places = search::before_time(&*engines.log, topic, from).await?;
        let mut walk = Walk::from(&*engines.log, topic, places);
        while let Some(page) = walk.next(PAGE).await? {
            for message in &page {
                if topic != Topic::Orders && search::readable(message)?.is_none() {
                    if wanted.is_of(&message.key) {
                        found.push(unreadable(topic, message)?);
                    }
                    continue;
                }
                let step = step(topic, message)?;
                if until.is_some_and(|until| step.0 > until) {
                    walk.leave();
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

/// The orders a text may mean: a key, an id at any account, or a partner's ref at any account.
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

/// A damaged record as a step: of all it says only the order is known.
fn unreadable(topic: Topic, message: &Delivered) -> anyhow::Result<Step> {
    let position = message.position;
    Ok(Step {
        order: (position.offset, 0, position.offset),
        time: Time::from_unix_ms(0),
        role: "-",
        step: "stored a record that can't be read".to_owned(),
        result: "damaged".to_owned(),
        of: None,
        flags: None,
        topic,
        position,
        message: tail::show(message)?,
    })
}

/// A message as a step, with what it is filtered by: its time of receipt and its request.
fn step(topic: Topic, message: &Delivered) -> anyhow::Result<(Time, RequestId, Step)> {
    let position = message.position;
    let shown = tail::show(message)?;
    if topic == Topic::Orders {
        let change: OrderChanged = serde_json::from_slice(&message.value)?;
        let time = message.event.as_ref().map(|event| Time::parse(&event.time)).transpose()?;
        let before = change.previous_state.map_or("new", |state| state.as_str());
        let step = Step {
            order: (change.cause.position.offset, 1, position.offset),
            time: time.unwrap_or(Time::from_unix_ms(0)),
            role: "projector",
            step: format!("published version {}", change.version),
            result: format!("{before} → {}", change.state),
            of: OrderKey::parse(&message.key).ok().map(|key| (key, change.cause.position)),
            flags: None,
            topic,
            position,
            message: shown,
        };
        return Ok((Time::from_unix_nanos(i64::MIN), change.cause.request_id, step));
    }
    let (mut of, mut role) = (None, "admin");
    let (received_at, request_id, order, step, result) = match Record::decode(&message.value)?.parts
    {
        Parts::Fact(fact) => {
            role = writer(&fact);
            of = Some((fact.order.clone(), position));
            let word = fact.fact.status().map_or(String::new(), |status| format!(" {status}"));
            let key = fact
                .source
                .as_ref()
                .map_or(String::new(), |source| format!(", key {}", source.key_id));
            let step = format!("stored {}{word}{key}{}", fact.fact.kind(), decided_by(&fact));
            (
                fact.received_at,
                fact.request_id,
                (position.offset, 0, position.offset),
                step,
                "durable".to_owned(),
            )
        }
        Parts::Quarantine(record) => {
            role = "ingest";
            let step = format!("refused {}", record.code);
            // Quarantined notices have no place among the records: they come last.
            let order = (u64::MAX, 0, position.offset);
            (record.received_at, record.request_id, order, step, "quarantined".to_owned())
        }
        Parts::Switch(switch) => {
            let step = format!("generation {} is told from here on", switch.publication.tables);
            let order = (position.offset, 0, position.offset);
            (switch.at, switch.request_id, order, step, "durable".to_owned())
        }
        Parts::Parked(parked) => {
            let step = format!("record {} is left out: {}", parked.parked, parked.reason);
            let order = (position.offset, 0, position.offset);
            (parked.at, parked.request_id, order, step, "durable".to_owned())
        }
    };
    let (time, flags, message) = (received_at, None, shown);
    let step = Step { order, time, role, step, result, of, flags, topic, position, message };
    Ok((received_at, request_id, step))
}

/// The role that wrote a fact: it follows from the fact's kind. What people decided is written on the admin listener's word.
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

/// Who decided on a fact that a person let in or made.
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

/// Adds to each step the flags its order has after the fact it is about.
async fn add_flags(engines: &Engines, steps: &mut [Step]) -> anyhow::Result<()> {
    let orders: BTreeSet<OrderKey> =
        steps.iter().filter_map(|step| step.of.as_ref()).map(|(key, _)| key.clone()).collect();
    let rows = engines.store()?.load(orders.into_iter().collect()).await?;
    for order in rows.into_iter().flatten() {
        let mut facts = KnownFacts::default();
        let mut flags: BTreeMap<Position, Vec<&'static str>> = BTreeMap::new();
        // A record that can't be read is a step of its own; flags are for the orders that can be folded.
        let Ok(records) = super::order::records(engines, &order).await else { continue };
        for (position, record, _) in records {
            fold::apply(&mut facts, &record.fact, position);
            let raised = fold::summarize(&facts).flags;
            flags.insert(position, raised.iter().map(|raised| raised.flag.as_str()).collect());
        }
        let is_of = |step: &&mut Step| step.of.as_ref().is_some_and(|(key, _)| *key == order.key);
        for step in steps.iter_mut().filter(is_of) {
            step.flags = step.of.as_ref().and_then(|(_, position)| flags.get(position).cloned());
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
