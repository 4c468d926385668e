//! Owns the parsed documents of a notice: its JSON body, its form, its query, and the documents
//! wrapped in their values. Invariants: nothing is normalised; a repeated name in a form or query
//! is refused where it is read, also if the two are escaped differently; the number of names is
//! bounded before memory is spent on them.

use crate::limits::BodyLimits;
use crate::rejection::{RejectCode, Rejection};
use crate::scheme::found_value::{FoundValue, ValueKind};
use crate::scheme::json_document::{JsonDocument, without_byte_order_mark};
use crate::scheme::rules::{NameCase, NoticeFormat};

/// One name and its value in a form, a query or a structured header. `raw_…` = as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) name: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) raw_name: Vec<u8>,
    pub(crate) raw_value: Vec<u8>,
}

impl Pair {
    /// A pair of texts that stand as they are.
    pub(crate) fn plain(name: &str, value: &str) -> Self {
        let (raw_name, raw_value) = (name.into(), value.into());
        Self { name: name.into(), value: value.into(), raw_name, raw_value }
    }

    fn found(&self) -> FoundValue<'_> {
        FoundValue { kind: ValueKind::Plain, text: &self.value, raw: &self.raw_value }
    }
}

/// One parsed document.
#[derive(Clone, Debug)]
pub(crate) enum Document {
    /// Any JSON value.
    Json(JsonDocument),
    /// Names and values in the order received. A name may repeat.
    Pairs(Vec<Pair>),
}

impl Document {
    /// Parses a body; `None` if the notice is all in its query. Errors: it can't be parsed.
    pub(crate) fn parse_body(
        (format, case): (NoticeFormat, NameCase),
        body: &[u8],
        limits: BodyLimits,
    ) -> Result<Option<Self>, Rejection> {
        let parsed = match format {
            NoticeFormat::Json => JsonDocument::parse_with(body, limits, case).map(Self::Json),
            NoticeFormat::Form if body.is_empty() => Err(RejectCode::EmptyBody),
            NoticeFormat::Form => parse_url_encoded(without_byte_order_mark(body), limits),
            NoticeFormat::Query => return Ok(None),
        };
        parsed.map(Some).map_err(|code| match (code, std::str::from_utf8(body)) {
            (RejectCode::InvalidEncoding, Err(error)) => Rejection::new(code)
                .with_detail(format!("not JSON, and not UTF-8 at byte {}", error.valid_up_to())),
            _ => Rejection::new(code),
        })
    }

    /// The value at a path; `None` if there is none. Errors: `DuplicateField` if there are several.
    pub(crate) fn find(&self, path: &[String]) -> Result<Option<FoundValue<'_>>, RejectCode> {
        match self {
            Self::Json(json) => Ok(json.find(path)),
            Self::Pairs(_) => {
                let mut values = self.find_all(path);
                match (values.pop(), values.pop()) {
                    (one, None) => Ok(one),
                    (_, Some(_)) => Err(RejectCode::DuplicateField),
                }
            }
        }
    }

    /// Every value at a path; of pairs there can be several.
    pub(crate) fn find_all(&self, path: &[String]) -> Vec<FoundValue<'_>> {
        match self {
            Self::Json(json) => json.find(path).into_iter().collect(),
            Self::Pairs(pairs) => {
                let name = path.join(".");
                pairs.iter().filter(|pair| pair.name == name.as_bytes()).map(Pair::found).collect()
            }
        }
    }

    /// Whether it is a JSON object.
    pub(crate) fn is_object(&self) -> bool {
        matches!(self, Self::Json(json) if json.is_object())
    }

    /// The length of the array at a path. `None` if there is no array.
    pub(crate) fn count_items(&self, path: &[String]) -> Option<usize> {
        match self {
            Self::Json(json) => json.count_items(path),
            Self::Pairs(_) => None,
        }
    }

    /// The members of the object at a path, or all pairs, in the order received: name as received,
    /// decoded name, value.
    pub(crate) fn members<'d>(
        &'d self,
        path: &[String],
    ) -> Vec<(&'d [u8], &'d [u8], FoundValue<'d>)> {
        match self {
            Self::Json(json) => json.members(path),
            Self::Pairs(pairs) => pairs
                .iter()
                .map(|pair| (pair.raw_name.as_slice(), pair.name.as_slice(), pair.found()))
                .collect(),
        }
    }
}

/// Parses `a=1&b=2`, percent-encoded as forms are. Errors: `TooComplex`.
pub(crate) fn parse_url_encoded(text: &[u8], limits: BodyLimits) -> Result<Document, RejectCode> {
    let pieces = text.split(|byte| *byte == b'&').filter(|piece| !piece.is_empty());
    let mut pairs: Vec<Pair> = Vec::new();
    for piece in pieces {
        let mut parts = piece.splitn(2, |byte| *byte == b'=');
        let [raw_name, raw_value] = [parts.next(), parts.next()].map(Option::unwrap_or_default);
        pairs.push(Pair {
            name: percent_decode(raw_name),
            value: percent_decode(raw_value),
            raw_name: raw_name.to_owned(),
            raw_value: raw_value.to_owned(),
        });
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
        Pair::plain(name.trim(), value.trim())
    };
    Document::Pairs(pieces.take(limits.keys).map(pair).collect())
}

fn percent_decode(raw: &[u8]) -> Vec<u8> {
    let spaced: Vec<u8> = raw.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    percent_encoding::percent_decode(&spaced).collect()
}
