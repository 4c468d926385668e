//! Owns a JSON object as its fields came: names decoded, values as their source text, so that a signature is checked
//! over the digits that were sent. A name twice is no object.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// How many fields are read.
const FIELDS_MAX: usize = 64;

/// The fields of an object, in their order.
pub(super) struct Fields<'a>(Vec<(String, &'a RawValue)>);

/// A field is not of the shape it must have: which that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a JSON {0}")]
pub(super) struct WrongType(&'static str);

/// What a field must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    Number,
}

impl<'a> Fields<'a> {
    /// Reads an object. Errors: what is wrong with it.
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, String> {
        // serde would take an array for some kinds of objects; this reads maps only.
        serde_json::from_slice(body).map_err(|error| error.to_string())
    }

    /// A field's text: of a string what it says, of a number its digits; `None` if it is absent or null.
    pub(super) fn text(&self, name: &str, shape: Shape) -> Result<Option<String>, WrongType> {
        let Some((_, value)) = self.0.iter().find(|(known, _)| known == name) else {
            return Ok(None);
        };
        let source = value.get();
        match (shape, source.as_bytes().first()) {
            (_, Some(b'n')) => Ok(None),
            (Shape::Text, Some(b'"')) => {
                serde_json::from_str(source).map(Some).map_err(|_| WrongType("string in Unicode"))
            }
            (Shape::Number, Some(b'-' | b'0'..=b'9')) => Ok(Some(source.to_owned())),
            (Shape::Text, _) => Err(WrongType("string")),
            (Shape::Number, _) => Err(WrongType("number")),
        }
    }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields: Vec<(String, &RawValue)> = Vec::with_capacity(16);
        while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
            if fields.iter().any(|(known, _)| *known == name) {
                return Err(A::Error::custom(format_args!("the field {name} is there twice")));
            }
            if fields.len() == FIELDS_MAX {
                return Err(A::Error::custom(format_args!("there are over {FIELDS_MAX} fields")));
            }
            fields.push((name, value));
        }
        Ok(Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_read_as_it_came() {
        let body = br#"{"a":"x\u0041\n","b":100.0,"c":null,"d":[1],"e":"1","f":-1e3, "g" : 7 }"#;
        let fields = Fields::parse(body).unwrap();
        let text = |name| fields.text(name, Shape::Text);
        let number = |name| fields.text(name, Shape::Number);
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
    fn what_is_no_object_is_not_read() {
        for (body, problem) in [
            ("[]", "a JSON object"),
            ("", "EOF"),
            ("null", "a JSON object"),
            (r#"{"a":1,"a":2}"#, "the field a is there twice"),
            (r#"{"a":1,"\u0061":2}"#, "the field a is there twice"),
            (r#"{"a":1} x"#, "trailing"),
        ] {
            let error = Fields::parse(body.as_bytes()).err().unwrap_or_default();
            assert!(error.contains(problem), "{body}: {error}");
        }
    }
}
