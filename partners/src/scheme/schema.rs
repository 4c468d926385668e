//! Owns the JSON Schema of a profile, for editors: every key the parser reads, what it is for, and what may stand there.
//! Keys, kinds and what can't be left out come from the parser's own types (`shape`), bounds and words from here and the
//! constants the parser compares with. Whatever the parser takes the schema takes; it refuses no more than what is wrong
//! with the file's structure. What a profile must be as a whole only `payfold partner show` and `check` tell.

mod says;
pub(crate) mod shape;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use payfold_schemas::ipn::Status;
use serde_json::{Map, Value, json};

use self::shape::{Kind, Shape};
use super::ack::Ack;
use super::file::{self, OWN_SECTIONS, call, create, oauth, query, records};
use super::lint::EXCEPTIONS;
use crate::profile;

/// The JSON Schema (draft 7) of a profile of either kind of scheme.
pub fn profile_schema() -> Value {
    let of_own: Vec<_> = OWN_SECTIONS.iter().map(|name| json!({ "required": [name] })).collect();
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Payfold partner profile",
        "description": "What a partner's notices look like, how they are signed and what they mean. docs/partners.md explains every key.",
        "type": "object",
        "if": { "anyOf": of_own },
        "then": { "$ref": "#/definitions/own" },
        "else": { "$ref": "#/definitions/contract" },
        // Always true: editors that look for completions follow anyOf, and not if.
        "anyOf": [{ "$ref": "#/definitions/own" }, { "$ref": "#/definitions/contract" }, {}],
        "definitions": {
            "own": written(&own(), "own", ""),
            "contract": written(&contract(), "contract", ""),
        },
    })
}

/// Numbers that their types don't bound as the parser does: place, least, most.
const BOUNDS_OWN: [(&str, i64, i64); 29] = [
    ("version", 1, 4_294_967_295),
    ("language", 1, 1),
    ("retry_horizon_s", 0, 31_536_000),
    ("limits.body_bytes", 64, 1_048_576),
    ("limits.depth", 1, 32),
    ("limits.keys", 1, 4_096),
    ("time.skew_s", 1, 86_400),
    ("time.max_age_s", 1, 31_536_000),
    ("map.exponents{}", 0, 4),
    ("acks.accepted.status", 200, 599),
    ("acks.ignored.status", 200, 599),
    ("acks.bad_signature.status", 200, 599),
    ("acks.not_admissible.status", 200, 599),
    ("acks.stale.status", 200, 599),
    ("acks.unavailable.status", 200, 599),
    ("query.not_found[]", 400, 499),
    ("query.at_once", 1, 64),
    ("query.per_s", 1, 1_000),
    ("query.timeout_s", 1, 60),
    ("query.answer_bytes", 1_024, 1_048_576),
    ("query.map.exponents{}", 0, 4),
    ("create.exponents{}", 0, 4),
    ("create.ttl_s", 60, 31_536_000),
    ("create.timeout_s", 1, 60),
    ("create.answer_bytes", 1_024, 65_536),
    ("create.grace_s", 0, 86_400),
    ("create.max_session_s", 1, 604_800),
    ("oauth.ttl_s", 1, 86_400),
    ("oauth.timeout_s", 1, 60),
];

const BOUNDS_CONTRACT: [(&str, i64, i64); 14] = [
    ("version", 1, 4_294_967_295),
    ("limits.body_bytes", 1_024, 1_048_576),
    ("limits.depth", 1, 32),
    ("limits.keys", 10, 1_024),
    ("time.skew_s", 1, 86_400),
    ("time.max_age_s", 1, 31_536_000),
    ("create.timeout_s", 1, 60),
    ("create.answer_bytes", 1_024, 1_048_576),
    ("create.grace_s", 0, 86_400),
    ("create.max_session_s", 1, 604_800),
    ("query.timeout_s", 1, 60),
    ("query.answer_bytes", 1_024, 1_048_576),
    ("query.at_once", 1, 64),
    ("query.per_s", 1, 1_000),
];

const BOUNDS_RECORDS: [(&str, i64, i64); 8] = [
    ("records.columns", 1, 1_000),
    ("records.skip_head", 0, 1_000),
    ("records.grace_s", 0, 2_678_400),
    ("records.cut_off_s", 0, 43_200),
    ("records.time_tolerance_s", 0, 2_678_400),
    ("records.map.exponents{}", 0, 4),
    ("records.tail.lines", 1, 16),
    ("records.tail.row", 1, 16),
];

/// A profile of a partner's own scheme.
fn own() -> Shape {
    let mut shape = Shape::default();
    shape.add::<file::HeadFile>("");
    shape.add::<file::LimitsFile>("limits");
    shape.add::<file::NoticeFile>("notice");
    shape.add::<BTreeMap<String, String>>("constants");
    shape.add::<Vec<file::DocumentFile>>("document");
    shape.add::<file::ItemsFile>("items");
    shape.add::<Vec<file::PairsFile>>("pairs");
    shape.add::<Vec<file::TextFile>>("text");
    shape.add::<file::KeyFile>("key");
    shape.add::<Vec<file::SignFile>>("sign");
    shape.add::<Vec<file::RequireFile>>("require");
    shape.add::<Vec<file::FieldFile>>("field");
    shape.add::<file::MapFile>("map");
    shape.add::<Vec<file::EventFile>>("event");
    shape.add::<file::TimeFile>("time");
    shape.table("acks");
    for ack in Ack::ALL {
        shape.add::<file::AckFile>(&format!("acks.{}", ack.name()));
    }
    call_of(&mut shape, "query");
    shape.add::<query::QueryHeadFile>("query");
    shape.add::<file::MapFile>("query.map");
    shape.add::<Vec<query::QueryEventFile>>("query.event");
    for other in ["paid_at", "paid_at_format", "paid_at_zone", "event", "nonce"] {
        shape.remove(&format!("query.map.{other}"));
    }
    call_of(&mut shape, "create");
    shape.add::<create::CreateHeadFile>("create");
    shape.add::<create::OfferFile>("create.answer");
    call_of(&mut shape, "oauth");
    shape.add::<oauth::OauthHeadFile>("oauth");
    shape.add::<oauth::GrantFile>("oauth.answer");
    records_of(&mut shape);
    for section in ["limits", "notice", "sign", "map", "event", "time", "query.method", "query.map"]
    {
        shape.require(section);
    }
    for (place, min, max) in BOUNDS_OWN {
        shape.refine(place, Kind::Number(min, max));
    }
    shape.refine("exceptions[]", Kind::Words(EXCEPTIONS.to_vec()));
    shape.refine("notice.methods[]", Kind::Words(vec!["POST", "GET"]));
    shape.refine("event[].outcome", Kind::Words(outcomes(["ignore", "keep", "refuse"])));
    shape.refine("query.event[].outcome", Kind::Words(outcomes(["pending", "unknown"])));
    shape
}

/// What `[query]`, `[create]` and `[oauth]` have in common.
fn call_of(shape: &mut Shape, section: &str) {
    shape.add::<call::CallHeadFile>(section);
    shape.add::<BTreeMap<String, String>>(&format!("{section}.fields"));
    shape.add::<Vec<file::TextFile>>(&format!("{section}.text"));
    shape.add::<Vec<file::PairsFile>>(&format!("{section}.pairs"));
    shape.add::<call::CallSignFile>(&format!("{section}.sign"));
}

/// A profile of the contract's scheme.
fn contract() -> Shape {
    let mut shape = Shape::default();
    profile::file::shape(&mut shape);
    records_of(&mut shape);
    for (place, min, max) in BOUNDS_CONTRACT {
        shape.refine(place, Kind::Number(min, max));
    }
    shape.refine("signature.field", Kind::Words(vec!["signature"]));
    shape.refine("time.field", Kind::Words(vec!["timestamp", "paidAt"]));
    shape
}

/// `[records]`, of either kind.
fn records_of(shape: &mut Shape) {
    shape.add::<records::RecordsHeadFile>("records");
    shape.add::<records::RecordsMapFile>("records.map");
    shape.add::<Vec<file::EventFile>>("records.event");
    shape.remove("records.event[].nonce");
    shape.add::<records::TailFile>("records.tail");
    for part in ["records.map", "records.event"] {
        shape.require(part);
    }
    for (place, min, max) in BOUNDS_RECORDS {
        shape.refine(place, Kind::Number(min, max));
    }
    shape.refine("records.event[].outcome", Kind::Words(outcomes(["ignore", "refuse"])));
    shape.refine("records.lists[]", Kind::Words(outcomes([])));
}

/// The statuses and some words beside them.
fn outcomes<const N: usize>(others: [&'static str; N]) -> Vec<&'static str> {
    Status::ALL.iter().map(|status| status.as_str()).chain(others).collect()
}

/// A place and all inside it as JSON Schema.
fn written(shape: &Shape, scheme: &str, place: &str) -> Value {
    let kind = shape.kinds.get(place).unwrap_or(&Kind::Unread);
    let mut node = match kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Number(min, max) => number(*min, *max),
        Kind::Words(words) => json!({ "type": "string", "enum": words }),
        Kind::List => {
            let items = written(shape, scheme, &format!("{place}[]"));
            let least = usize::from(is_never_empty(place));
            json!({ "type": "array", "items": items, "minItems": least })
        }
        Kind::Map => {
            let values = written(shape, scheme, &format!("{place}{{}}"));
            json!({ "type": "object", "additionalProperties": values })
        }
        Kind::Table => table(shape, scheme, place),
        Kind::Unread => json!({}),
    };
    if let (Some(says), Some(node)) = (says::of(scheme, place), node.as_object_mut()) {
        node.insert("description".to_owned(), says.into());
    }
    node
}

fn number(min: i64, max: i64) -> Value {
    let mut node = json!({ "type": "integer" });
    for (name, bound, open) in [("minimum", min, i64::MIN), ("maximum", max, i64::MAX)] {
        if bound != open {
            node[name] = bound.into();
        }
    }
    node
}

fn table(shape: &Shape, scheme: &str, place: &str) -> Value {
    let keys = shape.keys(place);
    let required: Vec<&str> = keys
        .iter()
        .filter(|(_, path)| shape.required.contains(*path))
        .map(|(key, _)| *key)
        .collect();
    let properties: Map<String, Value> =
        keys.iter().map(|(key, path)| ((*key).to_owned(), written(shape, scheme, path))).collect();
    let mut node = json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false,
    });
    if is_condition(place) {
        // A place and one test of it.
        node["minProperties"] = 2.into();
        node["maxProperties"] = 2.into();
    }
    node
}

/// Whether a list that is there has to have an element.
fn is_never_empty(place: &str) -> bool {
    ["sign", "event", "notice.methods"].contains(&place)
}

fn is_condition(place: &str) -> bool {
    place.ends_with("when[]") || place.ends_with("success[]")
}
