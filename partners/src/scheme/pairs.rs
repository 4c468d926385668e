//! Owns lists of pairs: which names of a document are written into a text, in which order, and how.

use schemars::JsonSchema;
use serde::Deserialize;

use super::encoding::PairEncoding;
use super::found_value::{FoundValue, ValueKind};

/// Which members of the document are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PairSelection {
    All,
    Prefix(String),
    /// These, in this order; absent ones are empty.
    Listed(Vec<String>),
}

/// The order in which the members are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PairOrder {
    /// By the bytes of the decoded names.
    #[default]
    Sorted,
    /// By the decoded names, ASCII case ignored.
    SortedNocase,
    /// As received, or as listed.
    AsIs,
}

/// What is written of each member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PairWriting {
    /// Name, `assign`, value.
    #[default]
    Pairs,
    /// The value alone.
    Values,
    /// Name and value, with nothing between them.
    NamesAndValues,
}

/// What is done with empty values; absent and `null` values are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EmptyValues {
    #[default]
    Keep,
    Skip,
}

/// A compiled list of pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PairList {
    /// The document's number, and the path to the members in it.
    pub(crate) of: (usize, Vec<String>),
    pub(crate) pick: PairSelection,
    pub(crate) except: Vec<String>,
    pub(crate) order: PairOrder,
    pub(crate) write: PairWriting,
    pub(crate) assign: String,
    pub(crate) separator: String,
    pub(crate) empty: EmptyValues,
    pub(crate) encoding: PairEncoding,
    /// Whether its document is flat, so that what looks like a path is one name.
    pub(crate) is_flat: bool,
    /// The names of its members that decide about money.
    pub(crate) deciding: Vec<String>,
}

/// A name as received, the same decoded, and the value.
pub(crate) type Member<'d> = (&'d [u8], &'d [u8], FoundValue<'d>);

const NOTHING: FoundValue<'static> = FoundValue { kind: ValueKind::Null, text: b"", raw: b"" };

impl PairList {
    /// Appends the list of these members.
    pub(crate) fn write(&self, members: Vec<Member<'_>>, into: &mut Vec<u8>) {
        let mut taken: Vec<Member<'_>> = match &self.pick {
            PairSelection::All => members,
            PairSelection::Prefix(prefix) => members
                .into_iter()
                .filter(|(_, name, _)| name.starts_with(prefix.as_bytes()))
                .collect(),
            PairSelection::Listed(names) => {
                names.iter().map(|name| listed(&members, name)).collect()
            }
        };
        taken.retain(|(_, name, value)| {
            let is_empty = value.text.is_empty() && self.empty == EmptyValues::Skip;
            !is_empty && !is_one_of(&self.except, name)
        });
        match self.order {
            PairOrder::Sorted => taken.sort_by(|a, b| a.1.cmp(b.1)),
            PairOrder::SortedNocase => taken.sort_by_key(|(_, name, _)| name.to_ascii_lowercase()),
            PairOrder::AsIs => {}
        }
        for (place, member) in taken.iter().enumerate() {
            if place > 0 {
                into.extend_from_slice(self.separator.as_bytes());
            }
            self.write_one(member, into);
        }
    }

    /// Whether the text of the list binds each value to its name, so that a signature covers the
    /// names, too. It does if names are written with marks around them, or if all names and their
    /// order are fixed and a mark separates the values.
    pub(crate) fn binds_names(&self) -> bool {
        let has_marks = !self.separator.is_empty() && !self.assign.is_empty();
        let is_fixed =
            matches!(self.pick, PairSelection::Listed(_)) && self.empty == EmptyValues::Keep;
        (self.write == PairWriting::Pairs && has_marks) || (is_fixed && !self.separator.is_empty())
    }

    /// Whether a value may hold a mark of the list unencoded.
    pub(crate) fn lets_marks_through(&self) -> bool {
        let is_kept = |mark: &str| {
            let mut written = Vec::new();
            self.encoding.write(mark.as_bytes(), mark.as_bytes(), &mut written);
            !mark.is_empty() && written == mark.as_bytes()
        };
        self.encoding.lets_marks_through() || is_kept(&self.separator) || is_kept(&self.assign)
    }

    /// The name of a member that makes the text ambiguous: the same text could be written from
    /// other members, so text may have been moved from a value into a name or back. Such an attack
    /// must hide the real deciding member inside another name or value. The check finds it there.
    pub(crate) fn find_ambiguous_member(&self, members: &[Member<'_>]) -> Option<String> {
        if !self.lets_marks_through() {
            return None;
        }
        let taken = members.iter().filter(|(_, name, _)| self.picks(name));
        for (_, name, value) in taken {
            // What is not UTF-8 holds no mark and no name.
            let [text, value] = [*name, value.text].map(String::from_utf8_lossy);
            let is_deciding = is_one_of(&self.deciding, name);
            if self.name_is_ambiguous(&text)
                || self.value_is_ambiguous(&value)
                || (is_deciding && self.holds_separator(&value))
            {
                return Some(text.into_owned());
            }
        }
        None
    }

    /// Whether a deciding value may contain the members that follow it: it has the separator in it.
    fn holds_separator(&self, value: &str) -> bool {
        !self.separator.is_empty() && value.contains(&self.separator)
    }

    fn name_is_ambiguous(&self, name: &str) -> bool {
        let holds = |mark: &str| !mark.is_empty() && name.contains(mark);
        match self.write {
            PairWriting::Pairs => holds(&self.assign) || holds(&self.separator),
            PairWriting::Values => false,
            PairWriting::NamesAndValues => holds(&self.separator),
        }
    }

    fn value_is_ambiguous(&self, value: &str) -> bool {
        let mut deciding = self.deciding.iter();
        match (self.write, &self.pick) {
            (PairWriting::Pairs, _) => deciding
                .any(|name| value.contains(&format!("{}{name}{}", self.separator, self.assign))),
            (PairWriting::Values, _) => self.holds_separator(value),
            (PairWriting::NamesAndValues, PairSelection::Listed(names))
                if !self.separator.is_empty() =>
            {
                self.holds_boundary(names, value)
            }
            (PairWriting::NamesAndValues, _) => {
                self.holds_separator(value) || deciding.any(|name| value.contains(name.as_str()))
            }
        }
    }

    /// Whether a separator and a name of this list begin inside a value. In a list of fixed names
    /// nothing else can be another boundary: of two readings of a text, the one with fewer
    /// boundaries up to some place has one of the other's inside a value.
    fn holds_boundary(&self, names: &[String], value: &str) -> bool {
        // A name may end like the separator that follows the value.
        let written = format!("{value}{}", self.separator);
        let begins_inside = |mark: &str| written.find(mark).is_some_and(|at| at < value.len());
        names.iter().any(|name| begins_inside(&format!("{}{name}", self.separator)))
    }

    /// The member of this list that a place is or is part of. `None` if it is outside the list.
    pub(crate) fn member(&self, (document, path): (usize, &[String])) -> Option<String> {
        let inside = path.strip_prefix(self.of.1.as_slice()).filter(|_| document == self.of.0)?;
        if self.is_flat && !inside.is_empty() {
            Some(inside.join("."))
        } else {
            inside.first().cloned()
        }
    }

    fn write_one(&self, (raw_name, name, value): &Member<'_>, into: &mut Vec<u8>) {
        if self.write != PairWriting::Values {
            self.encoding.write(name, raw_name, into);
        }
        if self.write == PairWriting::Pairs {
            into.extend_from_slice(self.assign.as_bytes());
        }
        self.encoding.write(value.text, value.raw, into);
    }

    /// Whether changing this member changes the text.
    pub(crate) fn covers(&self, (document, path): (usize, &[String])) -> bool {
        self.member((document, path)).is_some_and(|name| self.picks(name.as_bytes()))
    }

    /// Whether the text has a member of this name.
    fn picks(&self, name: &[u8]) -> bool {
        let is_picked = match &self.pick {
            PairSelection::All => true,
            PairSelection::Prefix(prefix) => name.starts_with(prefix.as_bytes()),
            PairSelection::Listed(names) => is_one_of(names, name),
        };
        is_picked && !is_one_of(&self.except, name)
    }
}

fn is_one_of(names: &[String], name: &[u8]) -> bool {
    names.iter().any(|other| other.as_bytes() == name)
}

fn listed<'m>(members: &[Member<'m>], name: &'m str) -> Member<'m> {
    let name = name.as_bytes();
    let found = members.iter().find(|(_, other, _)| *other == name);
    found.copied().unwrap_or((name, name, NOTHING))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::BodyLimits;
    use crate::scheme::document::{Document, parse_url_encoded};
    use crate::scheme::json_document::JsonDocument;

    const LIMITS: BodyLimits = BodyLimits { body_bytes: 16_384, depth: 8, keys: 64 };

    fn pairs() -> PairList {
        PairList {
            of: (0, Vec::new()),
            pick: PairSelection::All,
            except: Vec::new(),
            order: PairOrder::Sorted,
            write: PairWriting::Pairs,
            assign: "=".to_owned(),
            separator: "&".to_owned(),
            empty: EmptyValues::Keep,
            encoding: PairEncoding::None,
            is_flat: false,
            deciding: Vec::new(),
        }
    }

    fn text(pairs: &PairList, document: &Document) -> String {
        let mut text = Vec::new();
        pairs.write(document.members(&pairs.of.1), &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_list_is_picked_ordered_and_written() {
        let document = parse_url_encoded(b"b=2+x&a=%20&C=&d%2a=~&vnp_x=1", LIMITS).unwrap();
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        for (pairs, expected) in [
            (pairs(), "C=&a= &b=2 x&d*=~&vnp_x=1"),
            (PairList { order: PairOrder::SortedNocase, ..pairs() }, "a= &b=2 x&C=&d*=~&vnp_x=1"),
            (PairList { order: PairOrder::AsIs, ..pairs() }, "b=2 x&a= &C=&d*=~&vnp_x=1"),
            (PairList { empty: EmptyValues::Skip, ..pairs() }, "a= &b=2 x&d*=~&vnp_x=1"),
            (PairList { except: list(&["a", "C"]), ..pairs() }, "b=2 x&d*=~&vnp_x=1"),
            (PairList { pick: PairSelection::Prefix("vnp_".into()), ..pairs() }, "vnp_x=1"),
            (PairList { encoding: PairEncoding::Raw, ..pairs() }, "C=&a=%20&b=2+x&d%2a=~&vnp_x=1"),
            (
                PairList { encoding: PairEncoding::Rfc3986, ..pairs() },
                "C=&a=%20&b=2%20x&d%2A=~&vnp_x=1",
            ),
            (
                PairList { write: PairWriting::Values, separator: "|".into(), ..pairs() },
                "| |2 x|~|1",
            ),
            (
                PairList {
                    write: PairWriting::NamesAndValues,
                    separator: String::new(),
                    ..pairs()
                },
                "Ca b2 xd*~vnp_x1",
            ),
            (
                PairList {
                    pick: PairSelection::Listed(list(&["b", "no", "a"])),
                    order: PairOrder::AsIs,
                    ..pairs()
                },
                "b=2 x&no=&a= ",
            ),
        ] {
            assert_eq!(text(&pairs, &document), expected, "{pairs:?}");
        }
    }

    #[test]
    fn an_ambiguous_member_is_found() {
        let amount = PairList { deciding: vec!["amount".to_owned()], ..pairs() };
        let values = PairList { write: PairWriting::Values, separator: "|".into(), ..pairs() };
        let bare = PairList {
            write: PairWriting::NamesAndValues,
            separator: String::new(),
            ..amount.clone()
        };
        let encoded = PairList { encoding: PairEncoding::Form, ..amount.clone() };
        let listed = |names: &[&str]| PairList {
            pick: PairSelection::Listed(names.iter().map(|name| (*name).to_owned()).collect()),
            write: PairWriting::NamesAndValues,
            separator: "|".into(),
            order: PairOrder::AsIs,
            deciding: vec!["state".to_owned()],
            ..pairs()
        };
        let (fixed, alike) = (listed(&["payer", "state", "note"]), listed(&["a", "note", "note2"]));
        // The encoding does not change this mark.
        let dotted =
            PairList { separator: ".".into(), encoding: PairEncoding::Rfc3986, ..amount.clone() };
        for (pairs, query, expected) in [
            (&amount, "note=a%26b%3Dc&amount=1", None),
            (&amount, "note=a%26amount%3D9&amount=1", Some("note")),
            (&amount, "amount%3D1%26note=a&amount=9", Some("amount=1&note")),
            (&amount, "a%3Db=c", Some("a=b")),
            (&encoded, "note=a%26amount%3D9&amount=1", None),
            (&values, "a=x%7Cy&b=z", Some("a")),
            (&values, "a=x&b=z", None),
            (&bare, "note=1amount9&amount=1", Some("note")),
            (&bare, "note=1&amount=1", None),
            (&dotted, "note=a.amount=9&amount=1", Some("note")),
            (&fixed, "payer=Golden+Estate&state=paid&note=", None),
            (&fixed, "payer=a%7Cb&state=paid&note=%7C", None),
            (&fixed, "payer=a%7Cstate&state=paid&note=", Some("payer")),
            (&fixed, "payer=a&state=paid&note=b%7Cpayer", Some("note")),
            (&fixed, "payer=a&state=paid%7C&note=", Some("state")),
            (&fixed, "payer=a&state=paid&other=%7Cstate", None),
            (&alike, "a=x&note=2y%7Cnote2&note2=z", Some("note")),
            (&alike, "a=x&note=y&note2=z%7Cnote", Some("note2")),
        ] {
            let document = parse_url_encoded(query.as_bytes(), LIMITS).unwrap();
            assert_eq!(
                pairs.find_ambiguous_member(&document.members(&[])).as_deref(),
                expected,
                "{query} {pairs:?}"
            );
        }
    }

    #[test]
    fn json_members_keep_their_digits() {
        let json = r#"{"x":{"b":10.10,"a":"é\n","n":null,"o":{"k": 1},"t":true}}"#;
        let document = Document::Json(JsonDocument::parse(json.as_bytes(), LIMITS).unwrap());
        let pairs = PairList { of: (0, vec!["x".into()]), ..pairs() };
        assert_eq!(text(&pairs, &document), "a=é\n&b=10.10&n=&o={\"k\": 1}&t=true");
        assert!(pairs.covers((0, &["x".into(), "b".into()])));
        let excepted = PairList { except: vec!["a.b".into()], is_flat: true, ..self::pairs() };
        assert!(
            !excepted.covers((0, &["a".into(), "b".into()])),
            "one name of a form, and left out"
        );
        assert!(excepted.covers((0, &["a".into(), "c".into()])));
        assert!(!pairs.covers((0, &["y".into()])) && !pairs.covers((1, &["x".into(), "b".into()])));
    }
}
