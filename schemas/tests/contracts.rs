//! Owns the gate of the published contracts: the committed documents are the ones generated from
//! the types, every sample of an event fits its schema, and readers lose nothing that a release
//! had.

#[path = "golden/events.rs"]
mod events;
#[path = "golden/samples.rs"]
#[allow(dead_code, reason = "the golden test uses the other part of it")]
mod samples;
#[path = "contracts/shape.rs"]
mod shape;

use std::path::PathBuf;

use payfold_schemas::asyncapi::asyncapi;
use payfold_schemas::contract::contracts;
use payfold_schemas::decision::FLAG_DECIDED_TYPE;
use payfold_schemas::event::ORDER_CHANGED_TYPE;
use payfold_schemas::finding::FINDING_CHANGED_TYPE;
use payfold_schemas::raw_read::RAW_READ_TYPE;
use payfold_schemas::release::NOTICE_DECIDED_TYPE;
use payfold_schemas::run::{PERIOD_CLOSED_TYPE, RUN_ENDED_TYPE};
use payfold_schemas::token::TOKEN_RECORDED_TYPE;
use serde::Serialize;
use serde_json::Value;

use crate::shape::{Shape, broken};

fn docs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

fn pretty(value: &Value) -> String {
    format!("{}\n", serde_json::to_string_pretty(value).expect("a value is JSON"))
}

#[test]
fn what_is_committed_is_what_is_made() {
    let stale = |name: &str, made: &Value| {
        let committed = std::fs::read_to_string(docs().join(name)).unwrap_or_default();
        assert!(
            committed == pretty(made),
            "docs/{name} is not what the types say: run `payfold schema events --write docs` and \
             commit what it writes; the next test says whether readers can live with it"
        );
    };
    let mut names = Vec::new();
    for contract in contracts() {
        stale(&format!("schemas/{}.json", contract.kind), &contract.schema);
        names.push(format!("{}.json", contract.kind));
    }
    stale("asyncapi.json", &asyncapi(env!("CARGO_PKG_VERSION")));
    names.push("released".to_owned());
    for entry in std::fs::read_dir(docs().join("schemas")).expect("the folder is there") {
        let name = entry.expect("it can be read").file_name().into_string().expect("ASCII");
        assert!(names.contains(&name), "docs/schemas/{name} is of no event type there is");
    }
}

/// Compares with the shapes of each release; these files are only ever added.
#[test]
fn what_was_released_still_holds() {
    let today = Shape::of_contracts(&contracts());
    let mut releases = 0;
    for entry in std::fs::read_dir(docs().join("schemas/released")).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let broken = broken(&Shape::parse(&text), &today);
        assert!(
            broken.is_empty(),
            "readers of {} can't live with this:\n  {}\nput it back, or make the next major \
             version of that type beside this one (payfold.….v2) and publish both for as long as \
             the first has readers",
            path.display(),
            broken.join("\n  ")
        );
        releases += 1;
    }
    assert!(releases > 0);
    let current = docs().join("schemas/released").join(concat!(env!("CARGO_PKG_VERSION"), ".txt"));
    let text = std::fs::read_to_string(&current).unwrap_or_default();
    assert!(
        text == today.to_string(),
        "{} is the shapes of the version that is being made, and should be\n{today}",
        current.display()
    );
}

/// Samples of every event's data, by type.
fn sampled() -> Vec<(&'static str, Value)> {
    fn json(event: &impl Serialize) -> Value {
        serde_json::to_value(event).expect("an event is JSON")
    }
    vec![
        (ORDER_CHANGED_TYPE, json(&samples::order_changed())),
        (ORDER_CHANGED_TYPE, json(&samples::order_changed_unmatched())),
        (FINDING_CHANGED_TYPE, json(&events::finding_changed())),
        (FINDING_CHANGED_TYPE, json(&events::finding_changed_agreed())),
        (FINDING_CHANGED_TYPE, json(&events::finding_changed_silent())),
        (FINDING_CHANGED_TYPE, json(&events::finding_changed_flag())),
        (FINDING_CHANGED_TYPE, json(&events::finding_changed_contested())),
        (FINDING_CHANGED_TYPE, json(&events::finding_changed_reopened())),
        (RUN_ENDED_TYPE, json(&events::run_ended())),
        (RUN_ENDED_TYPE, json(&events::run_ended_first())),
        (RUN_ENDED_TYPE, json(&events::run_ended_apart())),
        (RUN_ENDED_TYPE, json(&events::run_ended_asked())),
        (PERIOD_CLOSED_TYPE, json(&events::period_closed())),
        (FLAG_DECIDED_TYPE, json(&events::flag_decided())),
        (FLAG_DECIDED_TYPE, json(&events::flag_decided_agreed())),
        (FLAG_DECIDED_TYPE, json(&events::flag_decided_waiting())),
        (FLAG_DECIDED_TYPE, json(&events::flag_decided_withdrawn())),
        (NOTICE_DECIDED_TYPE, json(&events::notice_decided())),
        (NOTICE_DECIDED_TYPE, json(&events::notice_decided_agreed())),
        (NOTICE_DECIDED_TYPE, json(&events::notice_decided_unread())),
        (NOTICE_DECIDED_TYPE, json(&events::notice_decided_withdrawn())),
        (RAW_READ_TYPE, json(&events::raw_read())),
        (TOKEN_RECORDED_TYPE, json(&events::token_recorded())),
    ]
}

#[test]
fn every_sample_fits_its_schema() {
    let events = sampled();
    for contract in contracts() {
        let validator = jsonschema::draft202012::options()
            .should_validate_formats(true)
            .build(&contract.schema)
            .expect("it is a schema");
        let of_kind = || events.iter().filter(|(name, _)| *name == contract.kind);
        assert!(of_kind().count() > 0, "{} has no sample", contract.kind);
        for (_, event) in of_kind() {
            let problems: Vec<_> = validator
                .iter_errors(event)
                .map(|problem| format!("{}: {problem}", problem.instance_path()))
                .collect();
            assert!(problems.is_empty(), "{}: {problems:?}", contract.kind);
            // The schema must not accept everything.
            let members = event.as_object().expect("an event is an object");
            for required in contract.schema["required"].as_array().expect("some are required") {
                let mut less = members.clone();
                let name = required.as_str().expect("a name");
                assert!(less.remove(name).is_some(), "{}.{name} is not there", contract.kind);
                assert!(
                    !validator.is_valid(&less.into()),
                    "{}.{name} may be left out",
                    contract.kind
                );
            }
            let mut more = members.clone();
            more.insert("aFieldFromTheFuture".to_owned(), true.into());
            assert!(validator.is_valid(&more.into()), "{} is closed", contract.kind);
        }
    }
}

#[test]
fn every_field_is_explained() {
    fn explained(path: &str, schema: &Value) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            assert!(field["description"].is_string(), "{path} has no words");
            explained(&path, field);
        }
        if !schema["items"].is_null() {
            explained(&format!("{path}[]"), &schema["items"]);
        }
    }
    for contract in contracts() {
        assert!(contract.schema["description"].is_string(), "{}", contract.kind);
        explained(contract.kind, &contract.schema);
    }
}

#[test]
fn the_asyncapi_document_holds_together() {
    let document = asyncapi("1.2.3");
    assert_eq!(
        (&document["asyncapi"], &document["info"]["version"]),
        (&"3.0.0".into(), &"1.2.3".into())
    );
    let mut references = 0;
    let mut look = vec![&document];
    while let Some(value) = look.pop() {
        if let Some(reference) = value["$ref"].as_str() {
            let pointer = reference.strip_prefix('#').expect("it is of this document");
            assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
            references += 1;
        }
        match value {
            Value::Object(members) => look.extend(members.values()),
            Value::Array(items) => look.extend(items),
            _ => {}
        }
    }
    // Each contract is in its channel, that of orders also in the channel of the compacted copy;
    // each operation has a channel.
    let (copies, operations) = (1, 3);
    assert_eq!(references, contracts().len() + copies + operations);
}

/// The effect of a change on readers: the shape after it, and the start of the complaint; an empty
/// complaint if readers are not affected.
#[test]
fn the_gate_lets_additions_pass_and_nothing_else() {
    let before = "e .a string required\ne .b integer optional\ne .s \"X\"|\"Y\" required\n\
        e .l[].c string required\n";
    for (after, said) in [
        (before, ""),
        (
            &*format!(
                "{before}e .new string optional\ne .new.inner string required\n\
                 f .a string required\n"
            ),
            "",
        ),
        (&*before.replace("\"X\"|\"Y\"", "\"W\"|\"X\"|\"Y\""), ""),
        (&*before.replace("e .a string required\n", ""), "e .a is gone"),
        (&*before.replace("e .l[].c string required\n", ""), "e .l[].c is gone"),
        (&*before.replace(".a string", ".a integer"), "e .a was string and is integer"),
        (&*before.replace(".a string", ".a null|string"), "e .a was string and is null|string"),
        (&*before.replace("\"X\"|\"Y\"", "\"X\""), "e .s was \"X\"|\"Y\" and is \"X\""),
        (&*before.replace("\"X\"|\"Y\"", "string"), "e .s was"),
        (
            &*before.replace("string required\ne .b", "string optional\ne .b"),
            "e .a was always there",
        ),
        (&*before.replace("optional", "required"), "e .b was optional and is required"),
        (&*format!("{before}e .new string required\n"), "e .new is new and required"),
        (&*format!("{before}e .l[].new string required\n"), "e .l[].new is new and required"),
    ] {
        let broken = broken(&Shape::parse(before), &Shape::parse(after));
        match said {
            "" => assert_eq!(broken, [""; 0], "{after}"),
            said => assert!(broken.iter().any(|line| line.starts_with(said)), "{said}: {broken:?}"),
        }
        assert_eq!(Shape::parse(after).to_string().lines().count(), after.lines().count());
    }
}
