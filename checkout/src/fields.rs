//! Owns the strict reading of a JSON object: its fields by name, none twice, each as the text it was written in.
//! A number is never read through a float; a problem points to its field (RFC 6901).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use payfold_schemas::text::TextError;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::problem::{Problem, kinds};

/// An object's fields that nobody has taken yet.
#[derive(Debug)]
pub struct Fields<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Fields<'a> {
    /// Reads a body. Errors: it is not one JSON object, or one with a field twice.
    pub fn parse(body: &'a [u8]) -> Result<Self, Problem> {
        let malformed = || Problem::new(&kinds::MALFORMED_JSON);
        let text = std::str::from_utf8(body).map_err(|_| malformed())?;
        let first = text.trim_start_matches([' ', '\t', '\r', '\n']);
        if first.is_empty() {
            return Err(Problem::new(&kinds::EMPTY_BODY));
        }
        if !first.starts_with('{') {
            let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
            return Err(if is_json { Problem::new(&kinds::NOT_AN_OBJECT) } else { malformed() });
        }
        let object: Object<'a> = serde_json::from_str(text).map_err(|_| malformed())?;
        object.unless_doubled("").map(Self)
    }

    /// Takes a field, `null` as if it were absent.
    pub fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        self.0.remove(name).filter(|value| value.get() != "null")
    }

    /// Takes a text. Errors: another type, or half a surrogate pair.
    pub fn take_text(&mut self, name: &str) -> Result<Option<String>, Problem> {
        let Some(value) = self.take(name) else { return Ok(None) };
        text(value).map(Some).map_err(|kind| Problem::at(kind, pointer(name)))
    }

    /// Takes a field whose rule is that of `T`. Errors: its type, or the rule it breaks.
    pub fn take_parsed<T>(
        &mut self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, TextError>,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.take_text(name)? else { return Ok(None) };
        parse(&text).map(Some).map_err(|error| {
            let kind = match error {
                TextError::Empty { .. } => &kinds::EMPTY_FIELD,
                TextError::TooLong { .. } => &kinds::FIELD_TOO_LONG,
                TextError::IllegalCharacter { .. } => &kinds::ILLEGAL_CHARACTER,
            };
            Problem::at(kind, pointer(name)).because(error.to_string())
        })
    }

    /// Takes an object of texts. Errors: another type, or a key twice.
    pub fn take_texts(&mut self, name: &str) -> Result<BTreeMap<String, String>, Problem> {
        let Some(value) = self.take(name) else { return Ok(BTreeMap::new()) };
        let object: Object<'_> = serde_json::from_str(value.get())
            .map_err(|_| Problem::at(&kinds::WRONG_TYPE, pointer(name)))?;
        let mut texts = BTreeMap::new();
        for (key, value) in object.unless_doubled(&pointer(name))? {
            let place = format!("{}{}", pointer(name), pointer(&key));
            texts.insert(key, text(value).map_err(|kind| Problem::at(kind, place))?);
        }
        Ok(texts)
    }

    /// What was not taken is not known here.
    pub fn end(self) -> Result<(), Problem> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(Problem::at(&kinds::UNKNOWN_FIELD, pointer(name))),
        }
    }
}

/// A required field. Errors: `missing_field`.
pub fn required<T>(name: &str, value: Option<T>) -> Result<T, Problem> {
    value.ok_or_else(|| Problem::at(&kinds::MISSING_FIELD, pointer(name)))
}

/// `/name`, escaped (RFC 6901).
pub fn pointer(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn text(value: &RawValue) -> Result<String, &'static kinds::Kind> {
    let wrong =
        if value.get().starts_with('"') { &kinds::ILLEGAL_CHARACTER } else { &kinds::WRONG_TYPE };
    serde_json::from_str(value.get()).map_err(|_| wrong)
}

/// An object as it was written: serde's maps would keep the last of two equal keys.
struct Object<'a> {
    fields: BTreeMap<String, &'a RawValue>,
    doubled: Option<String>,
}

impl<'a> Object<'a> {
    fn unless_doubled(self, place: &str) -> Result<BTreeMap<String, &'a RawValue>, Problem> {
        match self.doubled {
            None => Ok(self.fields),
            Some(name) => {
                Err(Problem::at(&kinds::DUPLICATE_FIELD, format!("{place}{}", pointer(&name))))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut fields, mut doubled) = (BTreeMap::new(), None);
        while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
            match fields.entry(name) {
                Entry::Occupied(twice) => {
                    doubled.get_or_insert_with(|| twice.key().clone());
                }
                Entry::Vacant(first) => {
                    first.insert(value);
                }
            }
        }
        Ok(Object { fields, doubled })
    }
}
