//! Owns the parsed documents of a notice: its JSON body, its form, its query, and the documents
//! wrapped in their values. Invariants: every digit and escape stays available as received
//! (`FoundValue::raw`); nothing is normalised; a repeated name in JSON, form or query is refused,
//! also if the two are escaped differently; depth and number of keys are bounded before memory is
//! spent on them.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::limits::BodyLimits;
use crate::nested;
use crate::rejection::RejectCode;
use crate::scheme::rules::NameCase;

/// The type of a value in its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// Text without a type: a header, a parameter, a constant.
    Plain,
    /// A JSON string.
    String,
    /// A JSON number.
    Number,
    /// `true` or `false`.
    Bool,
    /// The JSON literal `null`.
    Null,
    /// An object or an array.
    Composite,
}

/// A value of a document or header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundValue<'d> {
    pub(crate) kind: ValueKind,
    /// Strings and parameters are decoded; numbers, objects and arrays are as received; `null` is
    /// empty.
    pub(crate) text: &'d str,
    /// As received.
    pub(crate) raw: &'d str,
}

impl<'d> FoundValue<'d> {
    /// A value without a type.
    pub(crate) const fn plain(text: &'d str) -> Self {
        Self { kind: ValueKind::Plain, text, raw: text }
    }
}

/// One name and its value in a form, a query or a structured header. `raw_…` = as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) raw_name: String,
    pub(crate) raw_value: String,
}

/// One parsed document.
#[derive(Clone, Debug)]
pub(crate) enum Document {
    /// Any JSON value.
    Json(JsonDocument),
    /// Names and values in the order received. Only in a structured header may a name repeat.
    Pairs(Vec<Pair>),
}

/// A JSON text and the byte range of every value in it.
#[derive(Clone, Debug)]
pub(crate) struct JsonDocument {
    source: String,
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
    Decoded(String),
    Object(Vec<(String, JsonNode)>),
    Array(Vec<JsonNode>),
}

impl JsonDocument {
    /// Parses one JSON value. Errors: the code of the refusal.
    pub(crate) fn parse(source: &str, limits: BodyLimits) -> Result<Self, RejectCode> {
        Self::parse_with(source, limits, NameCase::Different)
    }

    /// Parses one JSON value. `case` decides whether names that differ in case are one name.
    /// Errors: the code of the refusal.
    pub(crate) fn parse_with(
        source: &str,
        limits: BodyLimits,
        case: NameCase,
    ) -> Result<Self, RejectCode> {
        if source.trim_ascii().is_empty() {
            return Err(RejectCode::EmptyBody);
        }
        if nested::lone_surrogate(source.as_bytes()).is_some() {
            return Err(RejectCode::InvalidEncoding);
        }
        let whole: &RawValue =
            serde_json::from_str(source).map_err(|_| RejectCode::MalformedJson)?;
        let mut reader = JsonReader { base: source.as_ptr() as usize, limits, case, keys: 0 };
        let root = reader.node(whole.get(), 1)?;
        Ok(Self { source: source.to_owned(), root })
    }

    fn value<'d>(&'d self, node: &'d JsonNode) -> FoundValue<'d> {
        let raw = &self.source[node.range.clone()];
        let (kind, text) = match &node.shape {
            NodeShape::Scalar(ValueKind::String) => (ValueKind::String, &raw[1..raw.len() - 1]),
            NodeShape::Scalar(ValueKind::Null) => (ValueKind::Null, ""),
            NodeShape::Scalar(kind) => (*kind, raw),
            NodeShape::Decoded(text) => (ValueKind::String, text.as_str()),
            NodeShape::Object(_) | NodeShape::Array(_) => (ValueKind::Composite, raw),
        };
        FoundValue { kind, text, raw }
    }

    fn node(&self, path: &[String]) -> Option<&JsonNode> {
        path.iter().try_fold(&self.root, |node, step| match &node.shape {
            NodeShape::Object(members) => {
                members.iter().find(|(name, _)| name == step).map(|(_, node)| node)
            }
            NodeShape::Array(items) => items.get(step.parse::<usize>().ok()?),
            NodeShape::Scalar(_) | NodeShape::Decoded(_) => None,
        })
    }
}

impl Document {
    /// The value at a path; `None` if there is none. Errors: `DuplicateField` if there are several.
    pub(crate) fn find(&self, path: &[String]) -> Result<Option<FoundValue<'_>>, RejectCode> {
        match self {
            Self::Json(json) => Ok(json.node(path).map(|node| json.value(node))),
            Self::Pairs(_) => {
                let mut values = self.find_all(path);
                match (values.pop(), values.pop()) {
                    (one, None) => Ok(one),
                    (_, Some(_)) => Err(RejectCode::DuplicateField),
                }
            }
        }
    }

    /// Every value at a path; only in a structured header can there be several.
    pub(crate) fn find_all(&self, path: &[String]) -> Vec<FoundValue<'_>> {
        match self {
            Self::Json(json) => json.node(path).map(|node| json.value(node)).into_iter().collect(),
            Self::Pairs(pairs) => {
                let name = path.join(".");
                let named = pairs.iter().filter(|pair| pair.name == name);
                named
                    .map(|p| FoundValue {
                        kind: ValueKind::Plain,
                        text: &p.value,
                        raw: &p.raw_value,
                    })
                    .collect()
            }
        }
    }

    /// Whether it is a JSON object.
    pub(crate) fn is_object(&self) -> bool {
        matches!(
            self,
            Self::Json(JsonDocument { root: JsonNode { shape: NodeShape::Object(_), .. }, .. })
        )
    }

    /// The length of the array at a path. `None` if there is no array.
    pub(crate) fn count_items(&self, path: &[String]) -> Option<usize> {
        match self {
            Self::Json(json) => match &json.node(path)?.shape {
                NodeShape::Array(items) => Some(items.len()),
                NodeShape::Object(_) | NodeShape::Scalar(_) | NodeShape::Decoded(_) => None,
            },
            Self::Pairs(_) => None,
        }
    }

    /// The members of the object at a path, or all pairs, in the order received: name as received,
    /// decoded name, value.
    pub(crate) fn members<'d>(
        &'d self,
        path: &[String],
    ) -> Vec<(&'d str, &'d str, FoundValue<'d>)> {
        match self {
            Self::Json(json) => match json.node(path).map(|node| &node.shape) {
                Some(NodeShape::Object(members)) => members
                    .iter()
                    .map(|(name, node)| (name.as_str(), name.as_str(), json.value(node)))
                    .collect(),
                _ => Vec::new(),
            },
            Self::Pairs(pairs) => {
                let value = |p: &'d Pair| FoundValue {
                    kind: ValueKind::Plain,
                    text: &p.value,
                    raw: &p.raw_value,
                };
                pairs.iter().map(|p| (p.raw_name.as_str(), p.name.as_str(), value(p))).collect()
            }
        }
    }
}

/// Parses `a=1&b=2`, percent-encoded as forms are. Errors: `DuplicateField`, `InvalidEncoding`,
/// `TooComplex`.
pub(crate) fn parse_url_encoded(text: &str, limits: BodyLimits) -> Result<Document, RejectCode> {
    let mut pairs: Vec<Pair> = Vec::new();
    for piece in text.split('&').filter(|piece| !piece.is_empty()) {
        let (raw_name, raw_value) = piece.split_once('=').unwrap_or((piece, ""));
        let (name, value) = (percent_decode(raw_name)?, percent_decode(raw_value)?);
        if pairs.iter().any(|pair| pair.name == name) {
            return Err(RejectCode::DuplicateField);
        }
        let (raw_name, raw_value) = (raw_name.to_owned(), raw_value.to_owned());
        pairs.push(Pair { name, value, raw_name, raw_value });
        if pairs.len() > limits.keys {
            return Err(RejectCode::TooComplex);
        }
    }
    Ok(Document::Pairs(pairs))
}

/// Parses a structured header such as `t=1,v1=abc`. A piece without `assign` has an empty name.
/// Pieces beyond `limits.keys` are dropped.
pub(crate) fn parse_parts(
    text: &str,
    (separator, assign): (&str, &str),
    limits: BodyLimits,
) -> Document {
    let pieces = text.split(separator).map(str::trim).filter(|piece| !piece.is_empty());
    let pair = |piece: &str| {
        let (name, value) = piece.split_once(assign).unwrap_or(("", piece));
        let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
        Pair { raw_name: name.clone(), raw_value: value.clone(), name, value }
    };
    Document::Pairs(pieces.take(limits.keys).map(pair).collect())
}

fn percent_decode(raw: &str) -> Result<String, RejectCode> {
    let spaced = raw.replace('+', " ");
    let text = percent_encoding::percent_decode_str(&spaced).decode_utf8();
    text.map(Cow::into_owned).map_err(|_| RejectCode::InvalidEncoding)
}

/// Builds the nodes of JSON that is known to be valid, and checks the limits.
struct JsonReader {
    base: usize,
    limits: BodyLimits,
    case: NameCase,
    keys: usize,
}

impl JsonReader {
    fn node(&mut self, source: &str, depth: usize) -> Result<JsonNode, RejectCode> {
        // `source` is a slice of the whole text, so the difference of the addresses is its offset.
        let start = source.as_ptr() as usize - self.base;
        let range = start..start + source.len();
        let shape = match source.as_bytes()[0] {
            b'{' => NodeShape::Object(self.object(source, depth)?),
            b'[' => NodeShape::Array(self.array(source, depth)?),
            b'"' => match nested::decode(source) {
                Cow::Borrowed(_) => NodeShape::Scalar(ValueKind::String),
                Cow::Owned(text) => NodeShape::Decoded(text),
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
    ) -> Result<Vec<(String, JsonNode)>, RejectCode> {
        self.enter(depth)?;
        let ObjectMembers(members) =
            serde_json::from_str(source).map_err(|_| RejectCode::MalformedJson)?;
        let mut nodes: Vec<(String, JsonNode)> = Vec::with_capacity(members.len());
        for (name, value) in members {
            self.keys += 1;
            if self.keys > self.limits.keys {
                return Err(RejectCode::TooComplex);
            }
            let is_same = |other: &str| match self.case {
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
        let ArrayItems(items) =
            serde_json::from_str(source).map_err(|_| RejectCode::MalformedJson)?;
        items.into_iter().map(|item| self.node(item.get(), depth + 1)).collect()
    }

    fn enter(&self, depth: usize) -> Result<(), RejectCode> {
        if depth > self.limits.depth { Err(RejectCode::TooComplex) } else { Ok(()) }
    }
}

/// The members of an object, in the order received.
struct ObjectMembers<'a>(Vec<(String, &'a RawValue)>);

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

/// The items of an array, in the order received.
struct ArrayItems<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for ArrayItems<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemsVisitor;
        impl<'de> Visitor<'de> for ItemsVisitor {
            type Value = ArrayItems<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(ArrayItems(items))
            }
        }
        deserializer.deserialize_seq(ItemsVisitor)
    }
}
