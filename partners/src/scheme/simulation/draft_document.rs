//! One document of a message that is being written: JSON, or names with their values.

use serde_json::{Map, Value};

use crate::scheme::encoding::PairEncoding;

/// One document of a draft.
#[derive(Clone)]
pub(super) enum DraftDocument {
    /// `Null` until a value is put into it.
    Json(Value),
    Pairs(Vec<(String, String)>),
}

/// The place of a value in a document.
pub(super) enum Place<'d> {
    Json(&'d mut Value),
    Pair(&'d mut String),
}

impl DraftDocument {
    /// The place of a path; objects and arrays on the way are made. `None` if another value is on
    /// the way.
    pub(super) fn place(&mut self, path: &[String]) -> Option<Place<'_>> {
        match self {
            Self::Pairs(pairs) => {
                let name = path.join(".");
                let known = pairs.iter().position(|(known, _)| *known == name);
                let at = known.unwrap_or_else(|| {
                    pairs.push((name, String::new()));
                    pairs.len() - 1
                });
                Some(Place::Pair(&mut pairs[at].1))
            }
            Self::Json(root) => {
                let mut value = root;
                for step in path {
                    if value.is_null() {
                        *value = match step == "0" {
                            true => Value::Array(Vec::new()),
                            false => Value::Object(Map::new()),
                        };
                    }
                    value = match value {
                        Value::Object(members) => {
                            members.entry(step.as_str()).or_insert(Value::Null)
                        }
                        Value::Array(items) => {
                            if items.is_empty() {
                                items.push(Value::Null);
                            }
                            items.get_mut(step.parse::<usize>().ok()?)?
                        }
                        _ => return None,
                    };
                }
                Some(Place::Json(value))
            }
        }
    }

    /// The text at a path. `None` if nothing is there.
    pub(super) fn text(&self, path: &[String]) -> Option<String> {
        match self {
            Self::Pairs(pairs) => {
                let name = path.join(".");
                pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
            }
            Self::Json(root) => {
                let found = path.iter().try_fold(root, |value, step| match value {
                    Value::Array(items) => items.get(step.parse::<usize>().ok()?),
                    other => other.get(step),
                });
                match found? {
                    Value::Null => None,
                    Value::String(text) => Some(text.clone()),
                    other => Some(other.to_string()),
                }
            }
        }
    }

    /// Removes what is at a path.
    pub(super) fn remove(&mut self, path: &[String]) {
        match (self, path.split_last()) {
            (Self::Pairs(pairs), _) => {
                let name = path.join(".");
                pairs.retain(|(known, _)| *known != name);
            }
            (Self::Json(root), Some((last, parents))) => {
                let parent = parents.iter().try_fold(root, |value, step| value.get_mut(step));
                if let Some(members) = parent.and_then(Value::as_object_mut) {
                    members.remove(last);
                }
            }
            (Self::Json(_), None) => {}
        }
    }

    /// Whether nothing was put into it.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Json(value) => value.is_null(),
            Self::Pairs(pairs) => pairs.is_empty(),
        }
    }

    /// The document as it is sent; `parts` are the marks of a structured header.
    pub(super) fn bytes(&self, parts: Option<(&String, &String)>) -> Vec<u8> {
        let pairs = match self {
            Self::Json(Value::Null) => return b"{}".to_vec(),
            Self::Json(value) => return value.to_string().into_bytes(),
            Self::Pairs(pairs) => pairs,
        };
        if let Some((separator, assign)) = parts {
            let part = |(name, value): &(String, String)| match name.is_empty() {
                true => value.clone(),
                false => format!("{name}{assign}{value}"),
            };
            return pairs.iter().map(part).collect::<Vec<_>>().join(separator).into_bytes();
        }
        let mut text = Vec::new();
        for (name, value) in pairs {
            if !text.is_empty() {
                text.push(b'&');
            }
            PairEncoding::Form.write(name.as_bytes(), b"", &mut text);
            text.push(b'=');
            PairEncoding::Form.write(value.as_bytes(), b"", &mut text);
        }
        text
    }
}
