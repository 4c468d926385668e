//! Owns the shape of a schema as lines of text, `event path type presence`, and the check for
//! changes that break readers. A path is `.name` for a member and `[]` for the items of a list.

use std::collections::BTreeMap;
use std::fmt;

use payfold_schemas::contract::Contract;
use serde_json::Value;

/// Type and presence of the value at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// Types and literal values, sorted, with `|` between them.
    kind: String,
    is_required: bool,
}

/// The values of every event type, by (event, path).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape(BTreeMap<(String, String), Place>);

impl Shape {
    /// The shape of the present contracts.
    pub fn of_contracts(contracts: &[Contract]) -> Self {
        let mut shape = Self::default();
        for contract in contracts {
            shape.object(contract.kind, "", &contract.schema);
        }
        shape
    }

    fn object(&mut self, event: &str, path: &str, schema: &Value) {
        let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (name, member) in schema["properties"].as_object().into_iter().flatten() {
            let is_required = required.iter().any(|required| required == name);
            self.place(event, (format!("{path}.{name}"), is_required), member);
        }
    }

    fn place(&mut self, event: &str, (path, is_required): (String, bool), schema: &Value) {
        let mut kinds = kinds(schema);
        kinds.sort_unstable();
        kinds.dedup();
        for inner in alternatives(schema) {
            self.object(event, &path, inner);
            if !inner["items"].is_null() {
                self.place(event, (format!("{path}[]"), true), &inner["items"]);
            }
        }
        assert!(!kinds.is_empty(), "{event} {path} says nothing of its type: {schema}");
        self.0.insert((event.to_owned(), path), Place { kind: kinds.join("|"), is_required });
    }

    /// Parses a shape that `to_string` wrote.
    pub fn parse(text: &str) -> Self {
        let place = |line: &str| {
            let [event, path, kind, presence] =
                line.split(' ').collect::<Vec<_>>().try_into().expect("four words a line");
            let place = Place { kind: kind.to_owned(), is_required: presence == "required" };
            ((event.to_owned(), path.to_owned()), place)
        };
        Self(text.lines().map(place).collect())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((event, path), Place { kind, is_required }) in &self.0 {
            let presence = if *is_required { "required" } else { "optional" };
            writeln!(f, "{event} {path} {kind} {presence}")?;
        }
        Ok(())
    }
}

fn either(schema: &Value) -> Option<&Vec<Value>> {
    ["oneOf", "anyOf"].into_iter().find_map(|word| schema[word].as_array())
}

/// The alternatives of a schema, or the schema itself.
fn alternatives(schema: &Value) -> Vec<&Value> {
    either(schema).map_or_else(|| vec![schema], |either| either.iter().collect())
}

/// The types of a schema with their format or pattern, or its literal values.
fn kinds(schema: &Value) -> Vec<String> {
    if let Some(either) = either(schema) {
        return either.iter().flat_map(kinds).collect();
    }
    if !schema["const"].is_null() {
        return vec![schema["const"].to_string()];
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(literal).collect();
    }
    let form = schema["format"].as_str().or(schema["pattern"].as_str());
    let one = |kind: &Value| match (kind.as_str().unwrap_or_default(), form) {
        (kind @ ("string" | "integer"), Some(form)) => format!("{kind}:{form}"),
        (kind, _) => kind.to_owned(),
    };
    match &schema["type"] {
        Value::Array(kinds) => kinds.iter().map(one).collect(),
        Value::Null => Vec::new(),
        kind => vec![one(kind)],
    }
}

fn literal(value: &Value) -> String {
    if value.is_null() { "null".to_owned() } else { value.to_string() }
}

/// The changes from `before` to `after` that break readers, a line each.
pub fn broken(before: &Shape, after: &Shape) -> Vec<String> {
    let mut broken = Vec::new();
    for ((event, path), was) in &before.0 {
        let name = format!("{event} {path}");
        let Some(is) = after.0.get(&(event.clone(), path.clone())) else {
            broken.push(format!("{name} is gone"));
            continue;
        };
        if !takes(&was.kind, &is.kind) {
            broken.push(format!("{name} was {} and is {}", was.kind, is.kind));
        }
        match (was.is_required, is.is_required) {
            (true, false) => broken.push(format!("{name} was always there and may be left out")),
            (false, true) => broken.push(format!(
                "{name} was optional and is required, and events that are on the topic lack it"
            )),
            (true, true) | (false, false) => {}
        }
    }
    let is_new = |(event, path): &(String, String)| {
        let known = |path: &str| before.0.contains_key(&(event.clone(), path.to_owned()));
        let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent.trim_end_matches("[]"));
        let is_of_known = if parent.is_empty() {
            before.0.keys().any(|(other, _)| other == event)
        } else {
            // A shape may have only the items of a list, and not the list itself.
            known(parent)
                || before.0.keys().any(|(other, place)| {
                    other == event && place.starts_with(&format!("{parent}[]"))
                })
        };
        !known(path) && is_of_known && !path.ends_with("[]")
    };
    for ((event, path), place) in &after.0 {
        if place.is_required && is_new(&(event.clone(), path.clone())) {
            broken.push(format!(
                "{event} {path} is new and required, and events that are on the topic lack it: let \
                 it be left out (skip_serializing_if)"
            ));
        }
    }
    broken
}

/// Whether a reader of type `was` accepts type `is`: they are equal, or a list of literal values
/// grew.
fn takes(was: &str, is: &str) -> bool {
    let (was, is): (Vec<_>, Vec<_>) = (was.split('|').collect(), is.split('|').collect());
    let is_words =
        |kinds: &[&str]| kinds.iter().all(|kind| kind.starts_with('"') || *kind == "null");
    let more = |kind: &&&str| !was.contains(*kind);
    let additions: Vec<_> = is.iter().filter(more).collect();
    was.iter().all(|kind| is.contains(kind))
        && (additions.is_empty()
            || (is_words(&was) && additions.iter().all(|kind| kind.starts_with('"'))))
}
