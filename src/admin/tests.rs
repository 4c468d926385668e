//! Checks that the description of the admin listener is consistent. `tests/it/admin_api.rs`
//! compares it with the listener.

use serde_json::Value;

use super::*;

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
fn every_reference_leads_to_a_schema_and_every_schema_is_used() {
    let document = openapi::document(&router().operations());
    let mut references = Vec::new();
    members(&document, "$ref", &mut references);
    let used: Vec<_> =
        references.iter().map(|r| r.as_str().unwrap().rsplit('/').next().unwrap()).collect();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for name in &used {
        assert!(schemas.contains_key(*name), "{name}");
    }
    for name in schemas.keys() {
        assert!(used.contains(&name.as_str()), "{name}");
    }
}

#[test]
fn every_member_and_parameter_is_explained_and_every_operation_has_its_own_id() {
    let document = openapi::document(&router().operations());
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(schema["description"].is_string(), "{name}");
        for (member, schema) in schema["properties"].as_object().into_iter().flatten() {
            let is_reference = schema.get("$ref").is_some();
            assert!(is_reference || schema["description"].is_string(), "{name}.{member}");
        }
    }
    let (mut parameters, mut ids) = (Vec::new(), Vec::new());
    members(&document, "parameters", &mut parameters);
    for parameter in parameters.iter().flat_map(|list| list.as_array().unwrap()) {
        let about = parameter["description"].as_str().unwrap_or_default();
        assert!(!about.is_empty(), "{parameter}");
    }
    members(&document, "operationId", &mut ids);
    let count = ids.len();
    ids.sort_by_key(|id| id.as_str());
    ids.dedup();
    assert_eq!(ids.len(), count);
}

#[test]
fn a_call_is_described_by_its_types() {
    let document = openapi::document(&router().operations());
    let start = &document["paths"]["/v1/rebuild"]["post"];
    let reference = |name: &str| Value::from(format!("#/components/schemas/{name}"));
    let of = |content: &Value| content["content"]["application/json"]["schema"]["$ref"].clone();
    assert_eq!(start["operationId"], "postRebuild");
    assert_eq!(of(&start["requestBody"]), reference("StartBuild"));
    assert_eq!(of(&start["responses"]["202"]), reference("Build"));
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["StartBuild"]["required"], serde_json::json!(["reason"]));
    let query = &document["paths"]["/v1/reconcile/{partner}/query"]["post"];
    let names: Vec<_> =
        query["parameters"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["partner", "day", "replace"]);
    assert!(query["requestBody"].is_null(), "the request is in the query");
    assert_eq!(document["paths"]["/livez"]["get"]["security"], serde_json::json!([{}]));
}
