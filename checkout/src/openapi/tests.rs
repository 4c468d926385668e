//! The OpenAPI document has every problem, explains every member, and uses every schema.

use serde_json::Value;

use super::*;
use crate::problem::kinds;

fn described() -> Value {
    serde_json::from_str(document()).unwrap()
}

/// Collects the values of all members of this name, at any depth.
fn collect_members<'v>(value: &'v Value, name: &str, into: &mut Vec<&'v Value>) {
    match value {
        Value::Object(object) => object.iter().for_each(|(key, value)| {
            if key == name {
                into.push(value);
            }
            collect_members(value, name, into);
        }),
        Value::Array(list) => list.iter().for_each(|value| collect_members(value, name, into)),
        _ => {}
    }
}

#[test]
fn every_reference_has_a_schema_and_every_schema_is_used() {
    let document = described();
    assert_eq!(document["openapi"], "3.1.0");
    let mut references = Vec::new();
    collect_members(&document, "$ref", &mut references);
    let mut used: Vec<_> =
        references.iter().map(|r| r.as_str().unwrap().rsplit('/').next().unwrap()).collect();
    // Lines of text have no schema of their own.
    used.push("CloudEvent");
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
        let expected = format!("`{}`: {}.", kind.code, kind.title);
        assert!(text.contains(&expected), "{expected}");
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
    collect_members(&document, "parameters", &mut parameters);
    for parameter in parameters.iter().flat_map(|list| list.as_array().unwrap()) {
        assert!(parameter["description"].is_string(), "{parameter}");
    }
}

/// Client generators handle unions badly. An absent member is left out, never null.
#[test]
fn schemas_have_no_unions() {
    let document = described();
    let mut types = Vec::new();
    collect_members(&document["components"], "type", &mut types);
    assert!(!types.iter().any(|kind| kind.is_array()), "{types:?}");
    for keyword in ["oneOf", "anyOf", "allOf", "not"] {
        let mut found = Vec::new();
        collect_members(&document, keyword, &mut found);
        assert!(found.is_empty(), "{keyword}");
    }
}
