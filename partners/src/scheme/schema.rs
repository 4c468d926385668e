//! Owns the JSON Schema of a profile, for editors: every key the parser reads, its meaning and its
//! values. It is derived from the parser's types: keys and types are theirs, descriptions are the
//! doc comments of their fields, and bounds and enums are the constants the parser checks against.
//! Invariant: the schema accepts every profile that the parser accepts, and refuses only errors of
//! structure. `payfold partner show` and `payfold check` check a profile as a whole.

#[cfg(test)]
mod tests;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use super::file::CUSTOM_SECTIONS;
use super::file::scheme_file::SchemeFile;
use crate::profile::tables::ProfileFile;

/// The JSON Schema (draft 7) of a profile, of a custom scheme or the default scheme.
pub fn profile_schema() -> Value {
    let of_custom: Vec<_> =
        CUSTOM_SECTIONS.iter().map(|name| json!({ "required": [name] })).collect();
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Payfold partner profile",
        "description": "What a partner's notices look like, how they are signed and what they \
            mean. docs/reference/profiles.md explains every key.",
        "type": "object",
        "if": { "anyOf": of_custom },
        "then": { "$ref": "#/definitions/custom" },
        "else": { "$ref": "#/definitions/default" },
        // Always true. Editors follow anyOf for completions, and ignore if.
        "anyOf": [{ "$ref": "#/definitions/custom" }, { "$ref": "#/definitions/default" }, {}],
        "definitions": {
            "custom": definition::<SchemeFile>(),
            "default": definition::<ProfileFile>(),
        },
    })
}

/// The schema of a whole file. Types are inlined, because draft 7 ignores a description beside a
/// `$ref`.
fn definition<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft07().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let settings = settings.with_transform(RecursiveTransform(as_toml));
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // Title and description of the Rust type are for readers of the code.
    schema.remove("title");
    schema.remove("description");
    schema
}

/// Removes what TOML does not have and editors don't use, and puts each description on one line.
fn as_toml(schema: &mut Schema) {
    without_null(schema);
    merge_enum_values(schema);
    // `format` is Rust's integer type; `default` is known for some types only.
    schema.remove("format");
    schema.remove("default");
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}

/// Removes `null` from optional keys: TOML has none.
fn without_null(schema: &mut Schema) {
    if let Some(Value::Array(kinds)) = schema.remove("anyOf") {
        let kinds = kinds.into_iter().filter(|kind| kind["type"] != "null");
        for (keyword, value) in kinds.filter_map(|kind| kind.as_object().cloned()).flatten() {
            schema.ensure_object().entry(keyword).or_insert(value);
        }
    }
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    if let Some(Value::Array(kinds)) = schema.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if kinds.len() == 1 {
            let kind = kinds.remove(0);
            schema.insert("type".to_owned(), kind);
        }
    }
}

/// Turns enum variants with a doc comment each into one list. Those comments are for readers of the
/// code; the key's description says what the values mean.
fn merge_enum_values(schema: &mut Schema) {
    let Some(Value::Array(kinds)) = schema.remove("oneOf") else { return };
    let words = kinds.iter().flat_map(|kind| match (&kind["enum"], &kind["const"]) {
        (Value::Array(words), _) => words.clone(),
        (_, word) => vec![word.clone()],
    });
    let words: Vec<_> = words.collect();
    let schema = schema.ensure_object();
    schema.entry("type").or_insert("string".into());
    // A field that takes only some of the values has its own `enum`.
    schema.entry("enum").or_insert(words.into());
}
