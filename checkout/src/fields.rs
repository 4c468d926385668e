//! Owns the strict reading of a JSON object: its fields by name, each at most once, and each as the
//! text it was written in. A number is never read as a float. A problem points to its field (RFC
//! 6901).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use payfold_schemas::text::TextError;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::problem::{Problem, kinds};

/// The fields of an object that are not taken yet.
#[derive(Debug)]
pub(crate) struct JsonFields<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> JsonFields<'a> {
    /// Reads a body. Errors: it is not one JSON object, or a field is there twice.
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, Problem> {
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
        let object: StrictObject<'a> = serde_json::from_str(text).map_err(|_| malformed())?;
        object.without_repeats("").map(Self)
    }

    /// Takes a field; `None` if it is absent or `null`.
    pub(crate) fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        self.0.remove(name).filter(|value| value.get() != "null")
    }

    /// Takes a string. Errors: another type, or half a surrogate pair.
    pub(crate) fn take_text(&mut self, name: &str) -> Result<Option<String>, Problem> {
        let Some(value) = self.take(name) else { return Ok(None) };
        text(value).map(Some).map_err(|kind| Problem::at_field(kind, pointer(name)))
    }

    /// Takes a string and parses it. Errors: another type, or the rule of `T` that it breaks.
    pub(crate) fn take_parsed<T>(
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
            Problem::at_field(kind, pointer(name)).with_detail(error.to_string())
        })
    }

    /// Takes an object of strings. Errors: another type, or a key twice.
    pub(crate) fn take_texts(&mut self, name: &str) -> Result<BTreeMap<String, String>, Problem> {
        let Some(value) = self.take(name) else { return Ok(BTreeMap::new()) };
        let object: StrictObject<'_> = serde_json::from_str(value.get())
            .map_err(|_| Problem::at_field(&kinds::WRONG_TYPE, pointer(name)))?;
        let mut texts = BTreeMap::new();
        for (key, value) in object.without_repeats(&pointer(name))? {
            let pointer = format!("{}{}", pointer(name), pointer(&key));
            texts.insert(key, text(value).map_err(|kind| Problem::at_field(kind, pointer))?);
        }
        Ok(texts)
    }

    /// Ends the reading. Errors: `unknown_field`, a field was not taken.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(Problem::at_field(&kinds::UNKNOWN_FIELD, pointer(name))),
        }
    }
}

/// The value of a required field. Errors: `missing_field`.
pub(crate) fn required<T>(name: &str, value: Option<T>) -> Result<T, Problem> {
    value.ok_or_else(|| Problem::at_field(&kinds::MISSING_FIELD, pointer(name)))
}

/// The JSON pointer `/name`, escaped (RFC 6901).
pub(crate) fn pointer(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn text(value: &RawValue) -> Result<String, &'static kinds::ProblemKind> {
    let wrong =
        if value.get().starts_with('"') { &kinds::ILLEGAL_CHARACTER } else { &kinds::WRONG_TYPE };
    serde_json::from_str(value.get()).map_err(|_| wrong)
}

/// An object as it was written, with its first repeated key. serde's maps would silently keep the
/// last of two equal keys.
struct StrictObject<'a> {
    fields: BTreeMap<String, &'a RawValue>,
    repeated: Option<String>,
}

impl<'a> StrictObject<'a> {
    fn without_repeats(self, parent: &str) -> Result<BTreeMap<String, &'a RawValue>, Problem> {
        match self.repeated {
            None => Ok(self.fields),
            Some(name) => Err(Problem::at_field(
                &kinds::DUPLICATE_FIELD,
                format!("{parent}{}", pointer(&name)),
            )),
        }
    }
}

impl<'de> Deserialize<'de> for StrictObject<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(StrictObjectVisitor)
    }
}

struct StrictObjectVisitor;

impl<'de> Visitor<'de> for StrictObjectVisitor {
    type Value = StrictObject<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut fields, mut repeated) = (BTreeMap::new(), None);
        while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
            match fields.entry(name) {
                Entry::Occupied(twice) => {
                    repeated.get_or_insert_with(|| twice.key().clone());
                }
                Entry::Vacant(first) => {
                    first.insert(value);
                }
            }
        }
        Ok(StrictObject { fields, repeated })
    }
}
