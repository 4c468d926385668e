//! Owns the facts of an order as rows, each with what it changed.

use payfold_engines::log::{EventLog, Topic};
use payfold_kit::search;
use payfold_projector::fold;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::{OrderKey, ProviderRef, RequestId};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::notice_source::{NoticeSource, RecordedRequest};
use payfold_schemas::order::{Flag, KnownFacts, Order, OrderState};
use payfold_schemas::position::Position;
use payfold_schemas::record::{FactRecord, Parts};
use payfold_schemas::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::ReadError;
use crate::listing::{Cells, Row, show_money};
use crate::reader::Reader;

/// A fact, with the order's state and flags after it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FactRow {
    /// Its position in intake.
    pub position: String,
    /// When it was received.
    pub received_at: Time,
    /// The fact.
    pub fact: Fact,
    /// `PENDING → PAID`, or `= PAID` where the state stays.
    pub effect: String,
    /// The order's flags after it.
    pub flags: Vec<Flag>,
    /// The id of the request that brought it.
    pub request_id: RequestId,
    /// Profile, key and request of a notice, without what a payer may have written.
    pub source: Option<NoticeSource>,
    /// The size of the notice's stored bytes.
    pub raw_bytes: usize,
}

impl Row for FactRow {
    const COLUMNS: &'static str =
        "position received:receivedAt fact ref amount effect flags request_id";
    /// The currency and the minor units have columns of their own.
    const CSV_COLUMNS: &'static str = "position received:receivedAt fact ref amount amount_minor \
        currency effect flags request_id";

    fn shown(&self, column: &str, cells: Cells) -> Option<Value> {
        match column {
            "fact" => Some(self.fact.letter().into()),
            "ref" => Some(json!(ref_of(&self.fact))),
            _ => show_money(column, money_of(&self.fact), cells),
        }
    }
}

/// The provider reference in a fact.
fn ref_of(fact: &Fact) -> Option<&ProviderRef> {
    match fact {
        Fact::SessionOpened(session) => Some(&session.provider_ref),
        Fact::Ipn(ipn) => Some(&ipn.provider_ref),
        Fact::QueryAnswered(answer) => Some(&answer.provider_ref),
        Fact::RefShared(shared) => Some(&shared.provider_ref),
        Fact::CreateRequested(_)
        | Fact::CreateFailed(_)
        | Fact::DeadlinePassed { .. }
        | Fact::Decided(_) => None,
    }
}

/// The amount in a fact.
fn money_of(fact: &Fact) -> Option<(Amount, Currency)> {
    match fact {
        Fact::CreateRequested(create) => Some((create.amount, create.currency)),
        Fact::Ipn(ipn) => Some((ipn.money.amount, ipn.money.currency)),
        Fact::QueryAnswered(answer) => Some((answer.amount, answer.currency)),
        Fact::SessionOpened(_)
        | Fact::RefShared(_)
        | Fact::CreateFailed(_)
        | Fact::DeadlinePassed { .. }
        | Fact::Decided(_) => None,
    }
}

/// The facts of an order.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct OrderFacts {
    /// The facts, in log order.
    pub facts: Vec<FactRow>,
}

impl Reader {
    /// The facts of an order with what each changed. Errors: `NoOrder`, `Damaged`, `Lost`; the
    /// engines'.
    pub async fn facts(&self, key: &OrderKey) -> Result<OrderFacts, ReadError> {
        let order = self.load(key).await?;
        let (mut facts, mut before) = (KnownFacts::default(), None::<OrderState>);
        let mut rows = Vec::new();
        for (position, mut record, raw) in records(&*self.log, &order).await? {
            fold::apply(&mut facts, &record.fact, position);
            let summary = fold::summarize(&facts);
            let effect = match before {
                Some(state) if state == summary.state => format!("= {state}"),
                Some(state) => format!("{state} → {}", summary.state),
                None => format!("→ {}", summary.state),
            };
            before = Some(summary.state);
            record.source.iter_mut().for_each(|source| mask(&mut source.request));
            rows.push(FactRow {
                position: position.to_string(),
                received_at: record.received_at,
                fact: record.fact,
                effect,
                flags: summary.flags.iter().map(|raised| raised.flag).collect(),
                request_id: record.request_id,
                source: record.source,
                raw_bytes: raw.len(),
            });
        }
        Ok(OrderFacts { facts: rows })
    }
}

/// The records of an order's facts, in log order, each with the bytes of its notice. Errors:
/// `Damaged`, `Lost`; the log's.
pub async fn records(
    log: &dyn EventLog,
    order: &Order,
) -> Result<Vec<(Position, FactRecord, Vec<u8>)>, ReadError> {
    let mut found = Vec::new();
    for position in positions(&order.facts) {
        let message = search::message_at(log, Topic::Intake, position).await?;
        let message = message.ok_or(ReadError::Lost(position))?;
        let record = message
            .record()
            .map_err(|error| ReadError::of_record(Topic::Intake, position, error))?;
        if let Parts::Fact(fact) = record.parts {
            found.push((position, fact, record.raw));
        }
    }
    Ok(found)
}

/// The positions of an order's facts, in log order.
pub fn positions(facts: &KnownFacts) -> Vec<Position> {
    let mut positions: Vec<Position> = Vec::new();
    positions.extend(facts.creates.iter().map(|known| known.position));
    positions.extend(facts.sessions.iter().map(|known| known.position));
    positions.extend(facts.create_failures.iter().map(|known| known.position));
    positions.extend(facts.ipns.iter().map(|known| known.position));
    positions.extend(facts.deadlines_passed.iter().map(|known| known.position));
    positions.extend(facts.query_answers.iter().map(|known| known.position));
    positions.extend(facts.shared_refs.iter().map(|known| known.position));
    positions.extend(facts.decisions.iter().map(|known| known.position));
    positions.sort_unstable();
    positions
}

/// Hides the parts of a record's request that a payer may have written: query and header values.
pub fn mask(request: &mut RecordedRequest) {
    if let Some((path, _)) = request.target.split_once('?') {
        request.target = format!("{path}?…");
    }
    for (_, value) in &mut request.headers {
        *value = "…".to_owned();
    }
}
