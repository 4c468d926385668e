//! Owns the outcome of an input: the row and the events of every order, and the comparison of two
//! outcomes.

use std::collections::{BTreeMap, BTreeSet};

use payfold_engines::log::Topic;
use payfold_schemas::digest::Digest;
use payfold_schemas::state::StateDigest;
use serde_json::{Value, json};

use super::given::Given;
use crate::support::pair::Inside;
use crate::support::system::Home;

/// By order.
#[derive(Default)]
pub struct Outcome {
    /// Of all orders.
    pub state: Option<Digest>,
    rows: BTreeMap<String, Value>,
    events: BTreeMap<String, Vec<Value>>,
}

impl Outcome {
    /// Reads a store's rows and a log's events.
    pub fn of(home: &Home, given: &Given) -> Self {
        let inside = Inside::of(home);
        let (mut outcome, mut state) = (Self::default(), StateDigest::default());
        for order in inside.orders(given.keys()) {
            state.add(&order);
            let row = serde_json::to_value(&order).expect("an order serialises");
            outcome.rows.insert(order.key.to_string(), comparable(row));
        }
        outcome.state = Some(state.finish());
        let mut seen: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for message in inside.messages(Topic::Orders) {
            let event = message.event.expect("it is an event");
            if let Some(before) = seen.get(&event.id) {
                // What a projector takes over it may publish once more: subscribers drop it by its
                // id.
                assert!(*before == message.value, "{} was published with two contents", event.id);
                continue;
            }
            let data: Value = serde_json::from_slice(&message.value).expect("events are JSON");
            let whole =
                json!({ "id": event.id, "type": event.kind, "time": event.time, "data": data });
            seen.insert(event.id, message.value);
            outcome.events.entry(message.key).or_default().push(comparable(whole));
        }
        outcome
    }

    /// How many orders have a row.
    pub fn orders(&self) -> usize {
        self.rows.len()
    }

    /// How many events there are.
    pub fn events(&self) -> usize {
        self.events.values().map(Vec::len).sum()
    }
}

/// What has to be the same whatever the engines: everything but *positions*. They say where in its
/// log a record stands (of an order: the last record, and the first of each fact; of an event: its
/// cause), and another log has other places and other partitions. A caller that compares order by
/// order leaves out the order of events across orders. Versions stay: they count an order's own
/// changes, and its records stand in one sequence in every log; so do the ids that are made of
/// them.
fn comparable(mut value: Value) -> Value {
    strip_positions(&mut value);
    value
}

fn strip_positions(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("position");
            fields.values_mut().for_each(strip_positions);
        }
        Value::Array(values) => values.iter_mut().for_each(strip_positions),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What differs, one text an order.
pub fn differences(one: &Outcome, other: &Outcome) -> Vec<String> {
    let all = [&one.rows, &other.rows].into_iter().flat_map(BTreeMap::keys);
    let all = all.chain([&one.events, &other.events].into_iter().flat_map(BTreeMap::keys));
    let mut found = Vec::new();
    for key in all.collect::<BTreeSet<_>>() {
        let (row, other_row) = (one.rows.get(key), other.rows.get(key));
        let (events, other_events) = (one.events.get(key), other.events.get(key));
        if row != other_row {
            found.push(format!("{key}: row {}\nor {}", shown(row), shown(other_row)));
        } else if events != other_events {
            found.push(format!("{key}: events {events:?}\nor {other_events:?}"));
        }
    }
    found
}

fn shown(row: Option<&Value>) -> String {
    row.map_or_else(|| "none".to_owned(), Value::to_string)
}
