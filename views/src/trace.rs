//! Owns the trace: everything the log has about a request, a partner's reference or an order, in
//! order of time.

use std::collections::{BTreeMap, BTreeSet};

use payfold_engines::log::{Delivered, Topic};
use payfold_kit::search;
use payfold_projector::fold;
use payfold_schemas::event::OrderChanged;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::{MerchantCode, OrderKey, PartnerCode, RequestId};
use payfold_schemas::order::{Flag, KnownFacts};
use payfold_schemas::position::Position;
use payfold_schemas::record::{FactRecord, Parts};
use payfold_schemas::record_mac::Writer;
use payfold_schemas::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ReadError;
use crate::facts;
use crate::listing::Row;
use crate::messages::{MessageContent, MessageRow, corrupt};
use crate::reader::Reader;

/// Messages that one read of the log returns.
const PAGE: usize = 2_000;
/// A request's record is appended within this time after the time in its id (1 min).
const REQUEST_MS: i64 = 60_000;

/// What the trace is of.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindTrace {
    /// A request id, a partner's reference, or an order: its id, or `partner/merchantCode/id`.
    pub what: String,
}

impl FindTrace {
    /// Whether orders are searched for by what names them at each account.
    pub fn needs_accounts(&self) -> bool {
        self.request().is_none() && OrderKey::parse(&self.what).is_err()
    }

    /// The request that it names, and the time in its id; `None` if it names none.
    fn request(&self) -> Option<(RequestId, Time)> {
        let id: RequestId = self.what.parse().ok()?;
        let unix_ms = i64::try_from(id.unix_ms()?).ok()?;
        Some((id, Time::from_unix_ms(unix_ms)))
    }
}

/// The steps of a trace; none if the log has nothing about it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Trace {
    /// The steps, by time.
    pub steps: Vec<TraceStep>,
}

/// A message of the log, as a step.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TraceStep {
    /// When it was received or published.
    pub time: Time,
    /// The role that wrote it; `admin` for people's decisions, `-` for a damaged record.
    pub role: String,
    /// What was done.
    pub step: String,
    /// What came of it.
    pub result: String,
    /// The order of the step; null if it is of none.
    pub order: Option<String>,
    /// The order's flags after its fact; null if the fact changed nothing.
    pub flags: Option<Vec<Flag>>,
    /// The topic, and the message's position in it.
    pub position: String,
    /// The message.
    pub message: Value,
}

impl Row for TraceStep {
    const COLUMNS: &'static str = "time role order step result flags position";
}

/// A step with its place.
struct PlacedStep {
    /// Sorts the steps: a fact, then what was published because of it.
    place: (u64, u8, u64),
    /// The position in intake of the step's fact; `None` if it has none.
    fact: Option<Position>,
    /// The order of the step; `None` if it is of none.
    order: Option<OrderKey>,
    /// The request that brought it.
    request_id: Option<RequestId>,
    step: TraceStep,
}

/// What is searched for.
enum SearchTarget {
    Request(RequestId),
    /// The message keys of orders.
    Orders(BTreeSet<String>),
}

/// Where one partition is searched.
struct SearchRange {
    topic: Topic,
    /// Behind this position.
    after: Position,
    /// Up to this offset.
    end: u64,
    /// Up to this time of receipt, if there is one.
    until: Option<Time>,
}

impl SearchTarget {
    fn takes(&self, key: &str, request_id: Option<RequestId>) -> bool {
        match self {
            Self::Request(wanted) => request_id == Some(*wanted),
            Self::Orders(keys) => keys.contains(key),
        }
    }
}

impl Reader {
    /// Finds the steps. `accounts` are those that an order id or a reference is searched in.
    /// Errors: the engines'; a newer program wrote a record.
    pub async fn trace(
        &self,
        accounts: &[(PartnerCode, MerchantCode)],
        asked: &FindTrace,
    ) -> Result<Trace, ReadError> {
        let mut steps = match asked.request() {
            Some((id, at)) => self.steps(&SearchTarget::Request(id), at).await?,
            None => {
                let keys = self.orders_named(accounts, &asked.what).await?;
                let wanted = keys.iter().map(OrderKey::to_message_key).collect();
                let orders = self.store.load(keys).await?;
                match orders.iter().flatten().map(|order| order.first_seen).min() {
                    Some(from) => self.steps(&SearchTarget::Orders(wanted), from).await?,
                    None => Vec::new(),
                }
            }
        };
        self.add_flags(&mut steps).await?;
        steps.sort_by_key(|step| step.place);
        Ok(Trace { steps: steps.into_iter().map(|placed| placed.step).collect() })
    }

    /// The steps since this time, up to the end that the log has now.
    async fn steps(&self, wanted: &SearchTarget, from: Time) -> Result<Vec<PlacedStep>, ReadError> {
        let until = match wanted {
            SearchTarget::Request(_) => Some(from.plus_ms(REQUEST_MS)),
            SearchTarget::Orders(_) => None,
        };
        let mut found = Vec::new();
        for topic in [Topic::Intake, Topic::Quarantine, Topic::Orders] {
            // An event is published because of a fact.
            let has_fact = found.iter().any(|step: &PlacedStep| step.fact.is_some());
            if topic == Topic::Orders && until.is_some() && !has_fact {
                break;
            }
            let until = until.filter(|_| topic != Topic::Orders);
            let ends = self.log.extent(topic).await?;
            for after in search::positions_before(&*self.log, topic, from).await? {
                let end = ends.iter().find(|extent| extent.partition == after.partition);
                let range = SearchRange { topic, after, end: end.map_or(0, |it| it.last), until };
                self.add_steps(&mut found, wanted, range).await?;
            }
        }
        Ok(found)
    }

    /// Adds the steps of a range.
    async fn add_steps(
        &self,
        found: &mut Vec<PlacedStep>,
        wanted: &SearchTarget,
        SearchRange { topic, after: mut place, end, until }: SearchRange,
    ) -> Result<(), ReadError> {
        while place.offset < end {
            let page = self.log.read_after(topic, place, PAGE).await?;
            let Some(last) = page.last() else { break };
            place = last.position;
            for message in &page {
                let (mut placed, content) = step(topic, message)?;
                if until.is_some_and(|until| placed.step.time > until) {
                    return Ok(());
                }
                if wanted.takes(&message.key, placed.request_id) {
                    placed.step.message = MessageRow::of(message, content).message;
                    found.push(placed);
                }
            }
        }
        Ok(())
    }

    /// Adds to each step the flags of its order after its fact.
    async fn add_flags(&self, steps: &mut [PlacedStep]) -> Result<(), ReadError> {
        let of_facts = steps.iter().filter(|step| step.fact.is_some());
        let orders: BTreeSet<_> = of_facts.filter_map(|step| step.order.clone()).collect();
        for order in self.store.load(orders.into_iter().collect()).await?.into_iter().flatten() {
            let mut known = KnownFacts::default();
            let mut flags: BTreeMap<Position, Vec<Flag>> = BTreeMap::new();
            // An order with a damaged record gets no flags, because it can't be folded here. The
            // damaged record is a step of its own.
            let Ok(records) = facts::records(&*self.log, &order).await else { continue };
            for (position, record, _) in records {
                fold::apply(&mut known, &record.fact, position);
                let raised = fold::summarize(&known).flags;
                flags.insert(position, raised.iter().map(|raised| raised.flag).collect());
            }
            for placed in steps.iter_mut().filter(|step| step.order.as_ref() == Some(&order.key)) {
                placed.step.flags = placed.fact.and_then(|position| flags.get(&position).cloned());
            }
        }
        Ok(())
    }
}

/// A message as a step, yet without its JSON, and its content. Errors: a newer program wrote it; an
/// event that can't be parsed.
fn step(topic: Topic, message: &Delivered) -> Result<(PlacedStep, MessageContent), ReadError> {
    let content = MessageContent::of(topic, message)?;
    let mut placed = match &content {
        MessageContent::Event(event, data) => {
            let change = OrderChanged::deserialize(data);
            let change = change.map_err(|error| corrupt(topic, message, &error))?;
            published(&change, Time::parse(&event.time).ok(), message.position)
        }
        MessageContent::Record(record) => stored(&record.parts, message.position),
        MessageContent::Damaged(_) => {
            let step = "stored a record that is damaged now".to_owned();
            PlacedStep::new(message.position, "-", step, "damaged")
        }
    };
    placed.order = OrderKey::parse(&message.key).ok();
    placed.step.order = placed.order.as_ref().map(OrderKey::to_string);
    placed.step.position = format!("{} {}", topic.name(), message.position);
    Ok((placed, content))
}

impl PlacedStep {
    /// A step in the place of this position: what role did what, and what came of it.
    fn new(position: Position, role: &str, step: String, result: &str) -> Self {
        let step = TraceStep {
            time: Time::from_unix_ms(0),
            role: role.to_owned(),
            step,
            result: result.to_owned(),
            order: None,
            flags: None,
            position: String::new(),
            message: Value::Null,
        };
        let place = (position.offset, 0, position.offset);
        Self { place, fact: None, order: None, request_id: None, step }
    }
}

/// A published change as a step.
fn published(change: &OrderChanged, time: Option<Time>, position: Position) -> PlacedStep {
    let before = change.previous_state.map_or("new", |state| state.as_str());
    let step = format!("published version {}", change.version);
    let result = format!("{before} → {}", change.state);
    let mut placed = PlacedStep::new(position, "projector", step, &result);
    placed.place = (change.cause.position.offset, 1, position.offset);
    placed.fact = Some(change.cause.position);
    placed.request_id = Some(change.cause.request_id);
    placed.step.time = time.unwrap_or(placed.step.time);
    placed
}

/// A record as a step.
fn stored(parts: &Parts, position: Position) -> PlacedStep {
    let durable = "durable";
    let (at, request_id, mut placed) = match parts {
        Parts::Fact(record) => {
            let status = record.fact.status().map_or(String::new(), |status| format!(" {status}"));
            let source = record.source.as_ref();
            let key = source.map_or(String::new(), |source| format!(", key {}", source.key_id));
            let step = format!("stored {}{status}{key}{}", record.fact.kind(), decided_by(record));
            let mut placed = PlacedStep::new(position, writer(record), step, durable);
            placed.fact = Some(position);
            (record.received_at, record.request_id, placed)
        }
        Parts::Quarantine(record) => {
            let step = format!("refused {}", record.code);
            let mut placed = PlacedStep::new(position, "ingest", step, "quarantined");
            // Positions of quarantine and intake can't be compared, so quarantined notices come
            // last.
            placed.place = (u64::MAX, 0, position.offset);
            (record.received_at, record.request_id, placed)
        }
        Parts::Switch(switch) => {
            let step = format!("from here on build {} is published", switch.publication.build);
            let placed = PlacedStep::new(position, "admin", step, durable);
            (switch.at, switch.request_id, placed)
        }
        Parts::Parked(parked) => {
            let step = format!("parked record {}: {}", parked.parked, parked.reason);
            let placed = PlacedStep::new(position, "admin", step, durable);
            (parked.at, parked.request_id, placed)
        }
        Parts::ParkingProposed(parked) => {
            let step = format!("proposed to park record {}: {}", parked.parked, parked.reason);
            let placed = PlacedStep::new(position, "admin", step, durable);
            (parked.at, parked.request_id, placed)
        }
    };
    placed.step.time = at;
    placed.request_id = Some(request_id);
    placed
}

/// The role that writes such a fact. Decisions and releases of people are shown as `admin`.
fn writer(record: &FactRecord) -> &'static str {
    match record.writer() {
        Writer::Reconciler if matches!(record.fact, Fact::Ipn(_) | Fact::Decided(_)) => "admin",
        writer => writer.name(),
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

#[cfg(test)]
mod tests {
    use payfold_schemas::ids::{Author, ProviderRef};
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
    fn an_order_id_may_be_a_uuid() {
        for (what, needs_accounts) in [
            ("019e5f3c-53f1-7c9c-a42a-cdea07e8f1aa", false),
            ("7c9ca42a-53f1-4c9c-a42a-cdea07e8f1aa", true),
            ("acme/SHOP/o-1", false),
            ("o-1", true),
        ] {
            let asked = FindTrace { what: what.to_owned() };
            assert_eq!(asked.needs_accounts(), needs_accounts, "{what}");
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
