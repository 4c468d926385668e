//! Owns the parsing of a JSON object into fields with decoded names and unparsed values, so that a
//! signature is checked over the digits as sent. A repeated name is an error.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The most fields of an object.
const FIELDS_MAX: usize = 64;

/// The fields of an object, in document order.
pub(super) struct JsonFields<'a>(Vec<(String, &'a RawValue)>);

/// A field has the wrong JSON type; names the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a JSON {0}")]
pub(super) struct WrongType(&'static str);

/// The expected JSON type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonType {
    String,
    Number,
}

impl<'a> JsonFields<'a> {
    /// Parses an object. Errors: not an object, a repeated name, too many fields.
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, serde_json::Error> {
        // A derived `Deserialize` would also accept an array. The visitor accepts maps only.
        serde_json::from_slice(body)
    }

    /// A field's text: a string's content or a number's digits. `None` if the field is absent or
    /// null.
    pub(super) fn text(&self, name: &str, shape: JsonType) -> Result<Option<String>, WrongType> {
        let Some((_, value)) = self.0.iter().find(|(known, _)| known == name) else {
            return Ok(None);
        };
        let source = value.get();
        match (shape, source.as_bytes().first()) {
            (_, Some(b'n')) => Ok(None),
            (JsonType::String, Some(b'"')) => {
                serde_json::from_str(source).map(Some).map_err(|_| WrongType("string in Unicode"))
            }
            (JsonType::Number, Some(b'-' | b'0'..=b'9')) => Ok(Some(source.to_owned())),
            (JsonType::String, _) => Err(WrongType("string")),
            (JsonType::Number, _) => Err(WrongType("number")),
        }
    }
}

impl<'de> Deserialize<'de> for JsonFields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(JsonFieldsVisitor)
    }
}

struct JsonFieldsVisitor;

impl<'de> Visitor<'de> for JsonFieldsVisitor {
    type Value = JsonFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields: Vec<(String, &RawValue)> = Vec::with_capacity(16);
        while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
            if fields.iter().any(|(known, _)| *known == name) {
                return Err(A::Error::custom(format_args!("the field {name} occurs twice")));
            }
            if fields.len() == FIELDS_MAX {
                return Err(A::Error::custom(format_args!("there are over {FIELDS_MAX} fields")));
            }
            fields.push((name, value));
        }
        Ok(JsonFields(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_keeps_its_source_text() {
        let body = br#"{"a":"x\u0041\n","b":100.0,"c":null,"d":[1],"e":"1","f":-1e3, "g" : 7 }"#;
        let fields = JsonFields::parse(body).unwrap();
        let text = |name| fields.text(name, JsonType::String);
        let number = |name| fields.text(name, JsonType::Number);
        assert_eq!(text("a"), Ok(Some("xA\n".to_owned())));
        assert_eq!(number("b"), Ok(Some("100.0".to_owned())));
        assert_eq!((text("c"), number("c")), (Ok(None), Ok(None)));
        assert_eq!(text("d"), Err(WrongType("string")));
        assert_eq!(number("e"), Err(WrongType("number")));
        assert_eq!(number("f"), Ok(Some("-1e3".to_owned())));
        assert_eq!(number("g"), Ok(Some("7".to_owned())));
        assert_eq!(text("z"), Ok(None));
    }

    #[test]
    fn only_objects_with_unique_names_are_read() {
        for (body, problem) in [
            ("[]", "a JSON object"),
            ("", "EOF"),
            ("null", "a JSON object"),
            (r#"{"a":1,"a":2}"#, "the field a occurs twice"),
            (r#"{"a":1,"\u0061":2}"#, "the field a occurs twice"),
            (r#"{"a":1} x"#, "trailing"),
        ] {
            let error = JsonFields::parse(body.as_bytes())
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            assert!(error.contains(problem), "{body}: {error}");
        }
    }
}
