//! Owns the AsyncAPI 3 document: which topics there are, what stands on them, and what a reader may rely on.

use serde_json::{Map, Value, json};

use super::{Contract, contracts};
use crate::event::SOURCE;

const ABOUT: &str = "What other teams read of this system, as CloudEvents 1.0: on Kafka in binary mode, on any engine as lines \
    of JSON from the shop listener's `GET /v1/topics/{topic}`. Delivery is at least once: of two events with one `ce_id` the \
    first stands, later ones are byte-identical repeats. Events of one key come in order. Within a major version of a type \
    only fields and words are added: ignore what you don't know. Amounts are integers in minor units of their currency \
    (ISO 4217), times RFC 3339, digests SHA-256 in lower-case hex.";

const ORDERS: &str = "One event for each fact that changed an order, in the order of (generation, version) within a key. A \
    reader keeps the highest (generation, version) of each order and drops what is not above it: that makes it deaf to \
    repeats, to restarts and to what was on the way when orders were rebuilt. A version that is left out within a generation \
    is a gap: read again from before it.";

const ORDERS_LATEST: &str = "The last event of each order, for ever: the compacted twin of `orders`, on Kafka only, with the same \
    keys, headers and values. Who is new reads it from its beginning to the ends it had then, committed messages only \
    (`isolation.level=read_committed`), and has every order as it is; `orders` is followed from there, and the same \
    (generation, version) rule drops what is old. It comes a second or so behind `orders`, and tells not every change: only the \
    last one stays. Where `kafka.orders_latest` is false there is none.";

const FINDINGS: &str = "Differences to partners' own records, what comparing them came to, and what people decided. A finding \
    is what its highest version says; of all other types each event stands for itself.";

/// The document, for this version of the program.
pub fn asyncapi(version: &str) -> Value {
    let contracts = contracts();
    let of_topic = |topic: &str| -> Vec<&Contract> {
        contracts.iter().filter(|contract| contract.topic == topic).collect()
    };
    json!({
        "asyncapi": "3.0.0",
        "id": "urn:payfold",
        "info": { "title": "Payfold: the topics for other teams", "version": version, "description": ABOUT },
        "defaultContentType": "application/json",
        "channels": {
            "orders": channel("orders", ORDERS, &of_topic("orders")),
            "ordersLatest": channel("orders.latest", ORDERS_LATEST, &of_topic("orders")),
            "findings": channel("findings", FINDINGS, &of_topic("findings")),
        },
        "operations": {
            "tellOrders": operation("orders", "Tells what changed of orders."),
            "keepOrdersLatest": operation("ordersLatest", "Keeps the last event of each order."),
            "tellFindings": operation("findings", "Tells differences to partners' records, and decisions."),
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
            "prefix": { "description": "What stands behind the brokers in the setting `log`.", "default": "payfold" },
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
        "summary": contract.told,
        "contentType": "application/json",
        "headers": {
            "type": "object",
            "required": ["ce_specversion", "ce_id", "ce_source", "ce_type", "content-type"],
            "properties": {
                "ce_specversion": { "type": "string", "const": "1.0" },
                "ce_id": text(contract.id),
                "ce_source": { "type": "string", "const": SOURCE },
                "ce_type": { "type": "string", "const": contract.kind },
                "ce_time": { "type": "string", "format": "date-time", "description": "When what it tells happened." },
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
