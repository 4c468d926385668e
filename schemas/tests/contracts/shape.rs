//! Owns the shape of a schema as lines of text, `event path type presence`, and what of a change breaks readers.
//! A path is `.name` for a member and `[]` for what a list holds.

use std::collections::BTreeMap;
use std::fmt;

use payfold_schemas::contract::Contract;
use serde_json::Value;

/// What is said of one place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// Types and words, sorted, with `|` between them.
    kind: String,
    is_required: bool,
}

/// Every place of every event type: (event, path).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape(BTreeMap<(String, String), Place>);

impl Shape {
    /// As the contracts are now.
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

    /// As `to_string` wrote it.
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

/// A schema, or each of what it may be.
fn alternatives(schema: &Value) -> Vec<&Value> {
    either(schema).map_or_else(|| vec![schema], |either| either.iter().collect())
}

/// The types of a schema with their format or pattern, or its words.
fn kinds(schema: &Value) -> Vec<String> {
    if let Some(either) = either(schema) {
        return either.iter().flat_map(kinds).collect();
    }
    if !schema["const"].is_null() {
        return vec![schema["const"].to_string()];
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(word).collect();
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

fn word(word: &Value) -> String {
    if word.is_null() { "null".to_owned() } else { word.to_string() }
}

/// What readers of `before` can't live with in `after`, a line each.
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
            // What a place that has nothing below it holds is known by its members.
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
                "{event} {path} is new and required, and events that are on the topic lack it: let it be left out \
                 (skip_serializing_if)"
            ));
        }
    }
    broken
}

/// Whether a reader of the one takes the other: the same, or more words of a list of words.
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
