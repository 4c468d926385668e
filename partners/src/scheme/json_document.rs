//! Owns reading JSON with every digit and escape as received. Invariants: nothing is normalised; a
//! repeated name is refused, also if the two are escaped differently; depth and number of keys are
//! bounded before memory is spent on them; bytes that are not UTF-8 stay in their strings.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::limits::BodyLimits;
use crate::rejection::RejectCode;
use crate::scheme::found_value::{FoundValue, ValueKind};
use crate::scheme::rules::NameCase;

/// A JSON text and the byte range of every value in it.
#[derive(Clone, Debug)]
pub(crate) struct JsonDocument {
    source: Vec<u8>,
    root: JsonNode,
}

#[derive(Clone, Debug)]
struct JsonNode {
    range: Range<usize>,
    shape: NodeShape,
}

#[derive(Clone, Debug)]
enum NodeShape {
    Scalar(ValueKind),
    /// A string with escapes, decoded.
    Decoded(Vec<u8>),
    Object(Vec<(Vec<u8>, JsonNode)>),
    Array(Vec<JsonNode>),
}

impl JsonDocument {
    /// Parses one JSON value. Errors: the code of the refusal.
    pub(crate) fn parse(source: &[u8], limits: BodyLimits) -> Result<Self, RejectCode> {
        Self::parse_with(source, limits, NameCase::Different)
    }

    /// Parses one JSON value, behind a byte order mark or not. `case` decides whether names that
    /// differ in case are one name. Errors: the code of the refusal.
    pub(crate) fn parse_with(
        source: &[u8],
        limits: BodyLimits,
        case: NameCase,
    ) -> Result<Self, RejectCode> {
        let source = without_byte_order_mark(source);
        if source.trim_ascii().is_empty() {
            return Err(RejectCode::EmptyBody);
        }
        let text = with_placeholders(source);
        let whole: &RawValue = serde_json::from_str(&text).map_err(|_| match text {
            Cow::Borrowed(_) => RejectCode::MalformedJson,
            Cow::Owned(_) => RejectCode::InvalidEncoding,
        })?;
        let base = text.as_ptr() as usize;
        let mut reader = JsonReader { base, source, limits, case, keys: 0 };
        let root = reader.node(whole.get(), 1)?;
        Ok(Self { source: source.to_owned(), root })
    }

    /// The value at a path. `None` if there is none.
    pub(crate) fn find(&self, path: &[String]) -> Option<FoundValue<'_>> {
        self.node(path).map(|node| self.value(node))
    }

    /// Whether it is an object.
    pub(crate) const fn is_object(&self) -> bool {
        matches!(self.root.shape, NodeShape::Object(_))
    }

    /// The length of the array at a path. `None` if there is no array.
    pub(crate) fn count_items(&self, path: &[String]) -> Option<usize> {
        match &self.node(path)?.shape {
            NodeShape::Array(items) => Some(items.len()),
            NodeShape::Object(_) | NodeShape::Scalar(_) | NodeShape::Decoded(_) => None,
        }
    }

    /// The members of the object at a path: name, the same again, value.
    pub(crate) fn members<'d>(
        &'d self,
        path: &[String],
    ) -> Vec<(&'d [u8], &'d [u8], FoundValue<'d>)> {
        match self.node(path).map(|node| &node.shape) {
            Some(NodeShape::Object(members)) => members
                .iter()
                .map(|(name, node)| (name.as_slice(), name.as_slice(), self.value(node)))
                .collect(),
            _ => Vec::new(),
        }
    }

    fn value<'d>(&'d self, node: &'d JsonNode) -> FoundValue<'d> {
        let raw = &self.source[node.range.clone()];
        let (kind, text) = match &node.shape {
            NodeShape::Scalar(ValueKind::String) => (ValueKind::String, &raw[1..raw.len() - 1]),
            NodeShape::Scalar(ValueKind::Null) => (ValueKind::Null, &[][..]),
            NodeShape::Scalar(kind) => (*kind, raw),
            NodeShape::Decoded(text) => (ValueKind::String, text.as_slice()),
            NodeShape::Object(_) | NodeShape::Array(_) => (ValueKind::Composite, raw),
        };
        FoundValue { kind, text, raw }
    }

    fn node(&self, path: &[String]) -> Option<&JsonNode> {
        path.iter().try_fold(&self.root, |node, step| match &node.shape {
            NodeShape::Object(members) => {
                members.iter().find(|(name, _)| name == step.as_bytes()).map(|(_, node)| node)
            }
            NodeShape::Array(items) => items.get(step.parse::<usize>().ok()?),
            NodeShape::Scalar(_) | NodeShape::Decoded(_) => None,
        })
    }
}

/// The bytes behind a byte order mark, if they begin with one.
pub(crate) fn without_byte_order_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes)
}

/// The text with a `?` for each byte that is not UTF-8, so that every offset stays.
fn with_placeholders(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '?'));
    }
    assert!(text.len() == bytes.len(), "every offset stays");
    Cow::Owned(text)
}

/// Builds the nodes of JSON that is known to be valid, and checks the limits.
struct JsonReader<'s> {
    /// The address of the text that is parsed.
    base: usize,
    /// The bytes behind that text.
    source: &'s [u8],
    limits: BodyLimits,
    case: NameCase,
    keys: usize,
}

impl JsonReader<'_> {
    /// Where a slice of the text that is parsed stands in it.
    fn range(&self, slice: &str) -> Range<usize> {
        let start = slice.as_ptr() as usize - self.base;
        start..start + slice.len()
    }

    fn node(&mut self, text: &str, depth: usize) -> Result<JsonNode, RejectCode> {
        let range = self.range(text);
        let shape = match text.as_bytes()[0] {
            b'{' => NodeShape::Object(self.object(text, depth)?),
            b'[' => NodeShape::Array(self.array(text, depth)?),
            b'"' => match decode_string(&self.source[range.clone()]) {
                Cow::Borrowed(_) => NodeShape::Scalar(ValueKind::String),
                Cow::Owned(decoded) => NodeShape::Decoded(decoded),
            },
            b't' | b'f' => NodeShape::Scalar(ValueKind::Bool),
            b'n' => NodeShape::Scalar(ValueKind::Null),
            _ => NodeShape::Scalar(ValueKind::Number),
        };
        Ok(JsonNode { range, shape })
    }

    fn object(
        &mut self,
        source: &str,
        depth: usize,
    ) -> Result<Vec<(Vec<u8>, JsonNode)>, RejectCode> {
        self.enter(depth)?;
        let ObjectMembers(members) =
            serde_json::from_str(source).map_err(|_| RejectCode::MalformedJson)?;
        let mut nodes: Vec<(Vec<u8>, JsonNode)> = Vec::with_capacity(members.len());
        for (name, value) in members {
            let name = decode_string(&self.source[self.range(name.get())]).into_owned();
            self.keys += 1;
            if self.keys > self.limits.keys {
                return Err(RejectCode::TooComplex);
            }
            let is_same = |other: &[u8]| match self.case {
                NameCase::Different => other == name,
                NameCase::Same => other.eq_ignore_ascii_case(&name),
            };
            if nodes.iter().any(|(other, _)| is_same(other)) {
                return Err(RejectCode::DuplicateField);
            }
            nodes.push((name, self.node(value.get(), depth + 1)?));
        }
        Ok(nodes)
    }

    fn array(&mut self, source: &str, depth: usize) -> Result<Vec<JsonNode>, RejectCode> {
        self.enter(depth)?;
        let items: Vec<&RawValue> =
            serde_json::from_str(source).map_err(|_| RejectCode::MalformedJson)?;
        items.into_iter().map(|item| self.node(item.get(), depth + 1)).collect()
    }

    fn enter(&self, depth: usize) -> Result<(), RejectCode> {
        if depth > self.limits.depth { Err(RejectCode::TooComplex) } else { Ok(()) }
    }
}

/// Decodes a valid JSON string in quotes.
fn decode_string(source: &[u8]) -> Cow<'_, [u8]> {
    if source.contains(&b'\\') {
        let StringBytes(decoded) = serde_json::from_slice(source).expect("it was parsed before");
        Cow::Owned(decoded)
    } else {
        Cow::Borrowed(&source[1..source.len() - 1])
    }
}

/// The bytes of a JSON string, whether they are UTF-8 or not.
struct StringBytes(Vec<u8>);

impl<'de> Deserialize<'de> for StringBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BytesVisitor;
        impl Visitor<'_> for BytesVisitor {
            type Value = StringBytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Self::Value, E> {
                Ok(StringBytes(bytes.to_owned()))
            }
        }
        deserializer.deserialize_bytes(BytesVisitor)
    }
}

/// The members of an object, in the order received; names in quotes.
struct ObjectMembers<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for ObjectMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = ObjectMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    members.push(entry);
                }
                Ok(ObjectMembers(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}
