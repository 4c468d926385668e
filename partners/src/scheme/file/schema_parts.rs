//! Owns the changes that a derived schema needs where one type of the parser is used in several
//! sections, or where the parser compares a value with a list or with bounds. Each function panics
//! if the key it changes is missing, so that renaming a key can't leave a change behind.

use payfold_schemas::ipn::Status;
use schemars::Schema;
use serde_json::Value;

use crate::profile::bounds::Bounds;

/// The schema of a list's elements.
pub(crate) fn items(schema: &mut Schema) -> &mut Schema {
    part(schema, "/items")
}

/// The schema of a table's key.
pub(crate) fn property<'s>(schema: &'s mut Schema, key: &str) -> &'s mut Schema {
    part(schema, &format!("/properties/{key}"))
}

fn part<'s>(schema: &'s mut Schema, place: &str) -> &'s mut Schema {
    let part = schema.pointer_mut(place).and_then(|part| part.try_into().ok());
    part.unwrap_or_else(|| panic!("a schema without {place} has it changed"))
}

/// Replaces the description of a key.
pub(crate) fn describe(schema: &mut Schema, text: &str) {
    schema.insert("description".to_owned(), text.into());
}

/// Removes keys that a type has and that the parser refuses in this place. None of them may be
/// required.
pub(crate) fn remove(schema: &mut Schema, keys: &[&str]) {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    let properties = properties.expect("a table has keys");
    for key in keys {
        assert!(properties.remove(*key).is_some(), "there is no key {key} to take out");
    }
}

/// Makes a key required that is optional in its type.
pub(crate) fn require(schema: &mut Schema, key: &str) {
    property(schema, key);
    let required = schema.get_mut("required").and_then(Value::as_array_mut);
    required.expect("the table requires other keys").push(key.into());
}

/// Restricts the elements of a list to these words.
pub(crate) fn items_of(words: &[&str]) -> impl FnMut(&mut Schema) + Clone {
    let words = Value::from(words.to_vec());
    move |schema| {
        items(schema).insert("enum".to_owned(), words.clone());
    }
}

/// Restricts the values of a table with free keys to these bounds.
pub(crate) fn values_within(bounds: Bounds) -> impl FnMut(&mut Schema) + Clone {
    move |schema| {
        let values = part(schema, "/additionalProperties");
        values.insert("minimum".to_owned(), bounds.min.into());
        values.insert("maximum".to_owned(), bounds.max.into());
    }
}

/// The names of all statuses, and these others.
pub(crate) fn statuses_and(others: &[&'static str]) -> Vec<&'static str> {
    Status::ALL.iter().map(|status| status.as_str()).chain(others.iter().copied()).collect()
}
