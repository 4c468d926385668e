//! Owns the AsyncAPI 3 document: the topics, the events in each, and what a reader may rely on.

use serde_json::{Map, Value, json};

use crate::contract::{Contract, contracts};
use crate::event::SOURCE;

const ABOUT: &str = "What other teams read of this system, as CloudEvents 1.0: on Kafka in binary \
    mode, on any engine as lines of JSON from the shop listener's `GET /v1/topics/{topic}`. \
    Delivery is at least once: of two events with one `ce_id` the first stands, later ones are \
    byte-identical repeats. Events of one key come in order. Within a major version of a type only \
    fields and words are added: ignore what you don't know. Amounts are integers in minor units of \
    their currency (ISO 4217), times RFC 3339, digests SHA-256 in lower-case hex.";

const ORDERS: &str = "One event for each fact that changed an order, in the order of (epoch, \
    version) within a key. A reader keeps the highest (epoch, version) of each order and drops \
    every event that is not above it, so repeats, restarts and events that were in flight during a \
    rebuild change nothing. A missing version within an epoch is a gap: read again from before it.";

const ORDERS_LATEST: &str = "The last event of each order, kept for ever: the compacted copy of \
    `orders`, on Kafka only, with the same keys, headers and values. A new reader reads it from \
    its beginning to the ends it had then, committed messages only \
    (`isolation.level=read_committed`), and has every order as it is. From there the reader \
    follows `orders`; the same (epoch, version) rule drops old events. The copy is a second or so \
    behind `orders` and lacks earlier changes: only the last event of an order stays. Where \
    `kafka.orders_latest` is false, there is no copy.";

const FINDINGS: &str = "Differences to partners' records, the results of comparing them, and \
    people's decisions. The event with the highest version is the present state of a finding; an \
    event of any other type stands for itself.";

/// The document, for this version of the program.
pub fn asyncapi(version: &str) -> Value {
    let contracts = contracts();
    let of_topic = |topic: &str| -> Vec<&Contract> {
        contracts.iter().filter(|contract| contract.topic == topic).collect()
    };
    json!({
        "asyncapi": "3.0.0",
        "id": "urn:payfold",
        "info": {
            "title": "Payfold: the topics for other teams",
            "version": version,
            "description": ABOUT,
        },
        "defaultContentType": "application/json",
        "channels": {
            "orders": channel("orders", ORDERS, &of_topic("orders")),
            "ordersLatest": channel("orders.latest", ORDERS_LATEST, &of_topic("orders")),
            "findings": channel("findings", FINDINGS, &of_topic("findings")),
        },
        "operations": {
            "publishOrders": operation("orders", "Publishes changes of orders."),
            "keepOrdersLatest": operation("ordersLatest", "Keeps the last event of each order."),
            "publishFindings": operation(
                "findings",
                "Publishes differences to partners' records, and decisions.",
            ),
        },
        "components": {
            "messages": contracts
                .iter()
                .map(|contract| (contract.kind.to_owned(), message(contract)))
                .collect::<Map<_, _>>(),
        },
    })
}

fn channel(topic: &str, about: &str, contracts: &[&Contract]) -> Value {
    let message = |contract: &&Contract| {
        let reference = format!("#/components/messages/{}", contract.kind);
        (contract.kind.to_owned(), json!({ "$ref": reference }))
    };
    json!({
        "address": format!("{{prefix}}.{topic}"),
        "title": topic,
        "description": about,
        "parameters": {
            "prefix": {
                "description": "The part of the setting `log` after the brokers.",
                "default": "payfold",
            },
        },
        "messages": contracts.iter().map(message).collect::<Map<_, _>>(),
        "bindings": { "kafka": { "bindingVersion": "0.5.0" } },
    })
}

fn operation(topic: &str, summary: &str) -> Value {
    json!({
        "action": "send",
        "channel": { "$ref": format!("#/channels/{topic}") },
        "summary": summary,
    })
}

fn message(contract: &Contract) -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    json!({
        "name": contract.kind,
        "title": contract.kind,
        "summary": contract.summary,
        "contentType": "application/json",
        "headers": {
            "type": "object",
            "required": ["ce_specversion", "ce_id", "ce_source", "ce_type", "content-type"],
            "properties": {
                "ce_specversion": { "type": "string", "const": "1.0" },
                "ce_id": text(contract.id),
                "ce_source": { "type": "string", "const": SOURCE },
                "ce_type": { "type": "string", "const": contract.kind },
                "ce_time": { "type": "string", "format": "date-time", "description": "When the \
                    change, decision or reading happened." },
                "content-type": { "type": "string", "const": "application/json" },
            },
        },
        "payload": {
            "schemaFormat": "application/schema+json;version=2020-12",
            "schema": contract.schema,
        },
        "bindings": { "kafka": { "key": text(contract.key), "bindingVersion": "0.5.0" } },
    })
}
