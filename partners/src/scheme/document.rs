//! Owns the parsed documents of a notice: its JSON body, its form, its query, and what is wrapped inside their values.
//! Invariants: every digit and every escape stays reachable as it was received (`Value::raw`); nothing is
//! normalised; a name that comes twice in JSON, form or query is refused, also when it is spelt differently
//! once; depth and number of keys are bounded before memory is spent on them.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::nested;
use crate::profile::Limits;
use crate::verify::RejectCode;

/// What a value was where it stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text that has no type of its own: a header, a parameter, a constant.
    Plain,
    /// A JSON string.
    String,
    /// A JSON number.
    Number,
    /// `true` or `false`.
    Bool,
    /// `null`.
    Null,
    /// An object or an array.
    Composite,
}

/// A value that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value<'d> {
    pub(crate) kind: Kind,
    /// Strings and parameters decoded; numbers as received; a composite as received; nothing for `null`.
    pub(crate) text: &'d str,
    /// As received.
    pub(crate) raw: &'d str,
}

impl<'d> Value<'d> {
    /// Text without a type.
    pub(crate) const fn plain(text: &'d str) -> Self {
        Self { kind: Kind::Plain, text, raw: text }
    }
}

/// One name and its value in a form, a query or a structured header.
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
    /// JSON of any shape.
    Json(Json),
    /// Names and values in the order they came; in a structured header a name may come more than once.
    Pairs(Vec<Pair>),
}

/// The JSON text and where everything stands in it.
#[derive(Clone, Debug)]
pub(crate) struct Json {
    source: String,
    root: Node,
}

#[derive(Clone, Debug)]
struct Node {
    range: Range<usize>,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    Scalar(Kind),
    /// A string with escapes, decoded.
    Decoded(String),
    Object(Vec<(String, Node)>),
    Array(Vec<Node>),
}

impl Json {
    /// Parses text that must be one JSON value. Errors: the code of a refusal.
    pub(crate) fn parse(source: &str, limits: Limits) -> Result<Self, RejectCode> {
        if source.trim_ascii().is_empty() {
            return Err(RejectCode::EmptyBody);
        }
        if nested::lone_surrogate(source.as_bytes()).is_some() {
            return Err(RejectCode::InvalidEncoding);
        }
        let whole: &RawValue =
            serde_json::from_str(source).map_err(|_| RejectCode::MalformedJson)?;
        let mut reader = Reader { base: source.as_ptr() as usize, limits, keys: 0 };
        let root = reader.node(whole.get(), 1)?;
        Ok(Self { source: source.to_owned(), root })
    }

    fn value<'d>(&'d self, node: &'d Node) -> Value<'d> {
        let raw = &self.source[node.range.clone()];
        let (kind, text) = match &node.shape {
            Shape::Scalar(Kind::String) => (Kind::String, &raw[1..raw.len() - 1]),
            Shape::Scalar(Kind::Null) => (Kind::Null, ""),
            Shape::Scalar(kind) => (*kind, raw),
            Shape::Decoded(text) => (Kind::String, text.as_str()),
            Shape::Object(_) | Shape::Array(_) => (Kind::Composite, raw),
        };
        Value { kind, text, raw }
    }

    fn node(&self, path: &[String]) -> Option<&Node> {
        path.iter().try_fold(&self.root, |node, step| match &node.shape {
            Shape::Object(members) => {
                members.iter().find(|(name, _)| name == step).map(|(_, node)| node)
            }
            Shape::Array(items) => items.get(step.parse::<usize>().ok()?),
            Shape::Scalar(_) | Shape::Decoded(_) => None,
        })
    }
}

impl Document {
    /// The value at a path; `None` if there is none. Errors: `DuplicateField` if there are several.
    pub(crate) fn find(&self, path: &[String]) -> Result<Option<Value<'_>>, RejectCode> {
        match self {
            Self::Json(json) => Ok(json.node(path).map(|node| json.value(node))),
            Self::Pairs(_) => {
                let mut values = self.all(path);
                match (values.pop(), values.pop()) {
                    (one, None) => Ok(one),
                    (_, Some(_)) => Err(RejectCode::DuplicateField),
                }
            }
        }
    }

    /// Every value at a path.
    pub(crate) fn all(&self, path: &[String]) -> Vec<Value<'_>> {
        match self {
            Self::Json(json) => json.node(path).map(|node| json.value(node)).into_iter().collect(),
            Self::Pairs(pairs) => {
                let name = path.join(".");
                let named = pairs.iter().filter(|pair| pair.name == name);
                named
                    .map(|p| Value { kind: Kind::Plain, text: &p.value, raw: &p.raw_value })
                    .collect()
            }
        }
    }

    /// How many items the array at a path has; `None` if it is no array.
    pub(crate) fn items(&self, path: &[String]) -> Option<usize> {
        match self {
            Self::Json(json) => match &json.node(path)?.shape {
                Shape::Array(items) => Some(items.len()),
                Shape::Object(_) | Shape::Scalar(_) | Shape::Decoded(_) => None,
            },
            Self::Pairs(_) => None,
        }
    }

    /// The members of the object at a path, or all pairs, in the order they came: names as received and decoded.
    pub(crate) fn members<'d>(&'d self, path: &[String]) -> Vec<(&'d str, &'d str, Value<'d>)> {
        match self {
            Self::Json(json) => match json.node(path).map(|node| &node.shape) {
                Some(Shape::Object(members)) => members
                    .iter()
                    .map(|(name, node)| (name.as_str(), name.as_str(), json.value(node)))
                    .collect(),
                _ => Vec::new(),
            },
            Self::Pairs(pairs) => {
                let value =
                    |p: &'d Pair| Value { kind: Kind::Plain, text: &p.value, raw: &p.raw_value };
                pairs.iter().map(|p| (p.raw_name.as_str(), p.name.as_str(), value(p))).collect()
            }
        }
    }
}

/// Reads `a=1&b=2`, percent-encoded as forms are. Errors: `DuplicateField`, `InvalidEncoding`, `TooComplex`.
pub(crate) fn form(text: &str, limits: Limits) -> Result<Document, RejectCode> {
    let mut pairs: Vec<Pair> = Vec::new();
    for piece in text.split('&').filter(|piece| !piece.is_empty()) {
        let (raw_name, raw_value) = piece.split_once('=').unwrap_or((piece, ""));
        let (name, value) = (decoded(raw_name)?, decoded(raw_value)?);
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

/// Reads `t=1,v1=abc`: a structured header. What has no `assign` in it has no name.
pub(crate) fn parts(text: &str, (separator, assign): (&str, &str), limits: Limits) -> Document {
    let pieces = text.split(separator).map(str::trim).filter(|piece| !piece.is_empty());
    let pair = |piece: &str| {
        let (name, value) = piece.split_once(assign).unwrap_or(("", piece));
        let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
        Pair { raw_name: name.clone(), raw_value: value.clone(), name, value }
    };
    Document::Pairs(pieces.take(limits.keys).map(pair).collect())
}

fn decoded(raw: &str) -> Result<String, RejectCode> {
    let spaced = raw.replace('+', " ");
    let text = percent_encoding::percent_decode_str(&spaced).decode_utf8();
    text.map(Cow::into_owned).map_err(|_| RejectCode::InvalidEncoding)
}

/// Walks JSON that is known to be valid.
struct Reader {
    base: usize,
    limits: Limits,
    keys: usize,
}

impl Reader {
    fn node(&mut self, source: &str, depth: usize) -> Result<Node, RejectCode> {
        let start = source.as_ptr() as usize - self.base;
        let range = start..start + source.len();
        let shape = match source.as_bytes()[0] {
            b'{' => Shape::Object(self.object(source, depth)?),
            b'[' => Shape::Array(self.array(source, depth)?),
            b'"' => match nested::decode(source) {
                Cow::Borrowed(_) => Shape::Scalar(Kind::String),
                Cow::Owned(text) => Shape::Decoded(text),
            },
            b't' | b'f' => Shape::Scalar(Kind::Bool),
            b'n' => Shape::Scalar(Kind::Null),
            _ => Shape::Scalar(Kind::Number),
        };
        Ok(Node { range, shape })
    }

    fn object(&mut self, source: &str, depth: usize) -> Result<Vec<(String, Node)>, RejectCode> {
        self.enter(depth)?;
        let Members(members) =
            serde_json::from_str(source).map_err(|_| RejectCode::MalformedJson)?;
        let mut nodes: Vec<(String, Node)> = Vec::with_capacity(members.len());
        for (name, value) in members {
            self.keys += 1;
            if self.keys > self.limits.keys {
                return Err(RejectCode::TooComplex);
            }
            if nodes.iter().any(|(other, _)| *other == name) {
                return Err(RejectCode::DuplicateField);
            }
            nodes.push((name, self.node(value.get(), depth + 1)?));
        }
        Ok(nodes)
    }

    fn array(&mut self, source: &str, depth: usize) -> Result<Vec<Node>, RejectCode> {
        self.enter(depth)?;
        let Items(items) = serde_json::from_str(source).map_err(|_| RejectCode::MalformedJson)?;
        items.into_iter().map(|item| self.node(item.get(), depth + 1)).collect()
    }

    fn enter(&self, depth: usize) -> Result<(), RejectCode> {
        if depth > self.limits.depth { Err(RejectCode::TooComplex) } else { Ok(()) }
    }
}

/// An object's members as they come.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Walk;
        impl<'de> Visitor<'de> for Walk {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    members.push(entry);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Walk)
    }
}

/// An array's items as they come.
struct Items<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for Items<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Walk;
        impl<'de> Visitor<'de> for Walk {
            type Value = Items<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Items(items))
            }
        }
        deserializer.deserialize_seq(Walk)
    }
}
