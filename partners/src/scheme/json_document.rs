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
    /// The members, each with its name.
    Object(Vec<(JsonNode, JsonNode)>),
    Array(Vec<JsonNode>),
}

impl JsonNode {
    /// The text of the value: a string's without its quotes, decoded.
    fn text<'n>(&'n self, source: &'n [u8]) -> &'n [u8] {
        let Range { start, end } = self.range;
        match &self.shape {
            NodeShape::Scalar(ValueKind::String) => &source[start + 1..end - 1],
            NodeShape::Scalar(ValueKind::Null) => &[],
            NodeShape::Decoded(text) => text,
            NodeShape::Scalar(_) | NodeShape::Object(_) | NodeShape::Array(_) => {
                &source[start..end]
            }
        }
    }
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
        let base = text.as_ptr() as usize;
        let mut reader = JsonReader { base, source, limits, case, keys: 0 };
        let root = match text.trim_matches([' ', '\t', '\n', '\r']) {
            // The reader parses an object or an array whole.
            whole if whole.starts_with(['{', '[']) => reader.node(whole, 1),
            whole => match serde_json::from_str::<&RawValue>(whole) {
                Ok(scalar) => reader.node(scalar.get(), 1),
                Err(_) => Err(RejectCode::MalformedJson),
            },
        };
        match (root, text) {
            (Ok(root), _) => Ok(Self { source: source.to_owned(), root }),
            (Err(RejectCode::MalformedJson), Cow::Owned(_)) => Err(RejectCode::InvalidEncoding),
            (Err(code), _) => Err(code),
        }
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
            Some(NodeShape::Object(members)) => {
                let members = members.iter();
                let named = members.map(|(name, node)| (name.text(&self.source), self.value(node)));
                named.map(|(name, value)| (name, name, value)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn value<'d>(&'d self, node: &'d JsonNode) -> FoundValue<'d> {
        let kind = match &node.shape {
            NodeShape::Scalar(kind) => *kind,
            NodeShape::Decoded(_) => ValueKind::String,
            NodeShape::Object(_) | NodeShape::Array(_) => ValueKind::Composite,
        };
        let raw = &self.source[node.range.clone()];
        FoundValue { kind, text: node.text(&self.source), raw }
    }

    fn node(&self, path: &[String]) -> Option<&JsonNode> {
        path.iter().try_fold(&self.root, |node, step| match &node.shape {
            NodeShape::Object(members) => {
                let is_named = |name: &JsonNode| name.text(&self.source) == step.as_bytes();
                members.iter().find(|(name, _)| is_named(name)).map(|(_, node)| node)
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

/// Builds the nodes of a JSON text, and checks the limits.
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

    /// The node of one value. A scalar is known to be valid. Errors: the code of the refusal.
    fn node(&mut self, text: &str, depth: usize) -> Result<JsonNode, RejectCode> {
        let range = self.range(text);
        let shape = match text.as_bytes()[0] {
            b'{' => NodeShape::Object(self.object(text, depth)?),
            b'[' => NodeShape::Array(self.array(text, depth)?),
            b'"' => return Ok(self.string(text)),
            b't' | b'f' => NodeShape::Scalar(ValueKind::Bool),
            b'n' => NodeShape::Scalar(ValueKind::Null),
            _ => NodeShape::Scalar(ValueKind::Number),
        };
        Ok(JsonNode { range, shape })
    }

    /// The node of a valid string in quotes.
    fn string(&self, text: &str) -> JsonNode {
        let range = self.range(text);
        let shape = match decode_string(&self.source[range.clone()]) {
            Cow::Borrowed(_) => NodeShape::Scalar(ValueKind::String),
            Cow::Owned(decoded) => NodeShape::Decoded(decoded),
        };
        JsonNode { range, shape }
    }

    fn object(
        &mut self,
        source: &str,
        depth: usize,
    ) -> Result<Vec<(JsonNode, JsonNode)>, RejectCode> {
        self.enter(depth)?;
        let ObjectMembers(members) =
            serde_json::from_str(source).map_err(|_| RejectCode::MalformedJson)?;
        let mut nodes: Vec<(JsonNode, JsonNode)> = Vec::with_capacity(members.len());
        for (name, value) in members {
            let name = self.string(name.get());
            self.keys += 1;
            if self.keys > self.limits.keys {
                return Err(RejectCode::TooComplex);
            }
            let text = name.text(self.source);
            let is_same = |other: &[u8]| match self.case {
                NameCase::Different => other == text,
                NameCase::Same => other.eq_ignore_ascii_case(text),
            };
            if nodes.iter().any(|(other, _)| is_same(other.text(self.source))) {
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

/// Room for the members of most objects.
const MEMBERS_USUAL: usize = 16;

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
                let mut members = Vec::with_capacity(MEMBERS_USUAL);
                while let Some(entry) = map.next_entry()? {
                    members.push(entry);
                }
                Ok(ObjectMembers(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_json_value_is_read_whole() {
        let limits = BodyLimits { body_bytes: 1_000, depth: 3, keys: 3 };
        for (source, expected) in [
            (&b" \t\r\n{\"a\": [1, {}]}\n"[..], None),
            (b"[{\"a\": 1}]", None),
            (b" \"text\" ", None),
            (b"12", None),
            (b"\"\xff\"", None),
            (b"", Some(RejectCode::EmptyBody)),
            (b" \n", Some(RejectCode::EmptyBody)),
            (b"{}{}", Some(RejectCode::MalformedJson)),
            (b"[1] 2", Some(RejectCode::MalformedJson)),
            (b"12 3", Some(RejectCode::MalformedJson)),
            (b"\x0c{}", Some(RejectCode::MalformedJson)),
            (b"{\"a\": {\"b\": }}", Some(RejectCode::MalformedJson)),
            (b"{\"a\": 1, \"a\": 2} x", Some(RejectCode::MalformedJson)),
            (b"{\"\xff\"}", Some(RejectCode::InvalidEncoding)),
            (b"{\"a\": 1, \"\\u0061\": 2}", Some(RejectCode::DuplicateField)),
            (b"[[[[]]]]", Some(RejectCode::TooComplex)),
            (b"{\"a\": {\"b\": 1}, \"c\": {\"d\": 1}}", Some(RejectCode::TooComplex)),
        ] {
            let read = JsonDocument::parse(source, limits).err();
            assert_eq!(read, expected, "{}", String::from_utf8_lossy(source));
        }
    }
}
