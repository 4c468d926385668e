//! The description against the routes, the problems and itself.

use serde_json::Value;

use super::*;
use crate::problem::kinds;

fn described() -> Value {
    serde_json::from_str(document()).unwrap()
}

/// Every value of every member of this name, anywhere.
fn members<'v>(value: &'v Value, name: &str, into: &mut Vec<&'v Value>) {
    match value {
        Value::Object(object) => object.iter().for_each(|(key, value)| {
            if key == name {
                into.push(value);
            }
            members(value, name, into);
        }),
        Value::Array(list) => list.iter().for_each(|value| members(value, name, into)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_schema_is_used() {
    let document = described();
    assert_eq!(document["openapi"], "3.1.0");
    let mut references = Vec::new();
    members(&document, "$ref", &mut references);
    let mut used: Vec<_> =
        references.iter().map(|r| r.as_str().unwrap().rsplit('/').next().unwrap()).collect();
    used.push("CloudEvent"); // in lines of text, which have no schema of their own
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for name in &used {
        assert!(schemas.contains_key(*name), "{name}");
    }
    for name in schemas.keys() {
        assert!(used.contains(&name.as_str()), "{name}");
    }
}

#[test]
fn every_problem_is_described_with_its_status() {
    let text = document();
    for kind in kinds::ALL {
        let told = format!("`{}`: {}.", kind.code, kind.title);
        assert!(text.contains(&told), "{told}");
    }
}

#[test]
fn every_member_and_parameter_is_explained() {
    let document = described();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(schema["description"].is_string(), "{name}");
        let properties = schema["properties"].as_object();
        for (member, schema) in properties.into_iter().flatten() {
            let is_reference = schema.get("$ref").is_some();
            assert!(is_reference || schema["description"].is_string(), "{name}.{member}");
        }
    }
    let mut parameters = Vec::new();
    members(&document, "parameters", &mut parameters);
    for parameter in parameters.iter().flat_map(|list| list.as_array().unwrap()) {
        assert!(parameter["description"].is_string(), "{parameter}");
    }
}

/// Generators stumble over unions; an absent member is left out, never null.
#[test]
fn schemas_are_plain() {
    let document = described();
    let mut types = Vec::new();
    members(&document["components"], "type", &mut types);
    assert!(!types.iter().any(|kind| kind.is_array()), "{types:?}");
    for word in ["oneOf", "anyOf", "allOf", "not"] {
        let mut found = Vec::new();
        members(&document, word, &mut found);
        assert!(found.is_empty(), "{word}");
    }
}
