//! Owns lists of pairs: which names of a document go into a text, in which order and how they are written.

use serde::Deserialize;

use super::document::{Kind, Value};
use super::encoding::Encoding;

/// Which members are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    All,
    Prefix(String),
    /// These, in this order; those that are not there are empty.
    Listed(Vec<String>),
}

/// In which order the taken ones are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// By the bytes of the decoded names.
    #[default]
    Sorted,
    /// The same, upper and lower case alike.
    SortedNocase,
    /// As they came, or as they are listed.
    AsIs,
}

/// What is written of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Write {
    /// Name, `assign`, value.
    #[default]
    Pairs,
    /// The value alone.
    Values,
    /// Name and value with nothing between.
    NamesAndValues,
}

/// What is done with empty values (absent and `null` ones among them).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Empty {
    #[default]
    Keep,
    Skip,
}

/// A list of pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pairs {
    /// The document's number, and where in it the members stand.
    pub(crate) of: (usize, Vec<String>),
    pub(crate) pick: Pick,
    pub(crate) except: Vec<String>,
    pub(crate) order: Order,
    pub(crate) write: Write,
    pub(crate) assign: String,
    pub(crate) separator: String,
    pub(crate) empty: Empty,
    pub(crate) encoding: Encoding,
    /// Whether its document has no levels: what looks like a path is one name there.
    pub(crate) is_flat: bool,
    /// The names among them that decide something: no other value may look as if it held one of these.
    pub(crate) deciding: Vec<String>,
}

/// A name as received, the same decoded, and the value.
pub(crate) type Member<'d> = (&'d str, &'d str, Value<'d>);

const NOTHING: Value<'static> = Value { kind: Kind::Null, text: "", raw: "" };

impl Pairs {
    /// Writes the list of these members of its document.
    pub(crate) fn write(&self, members: Vec<Member<'_>>, into: &mut Vec<u8>) {
        let mut taken: Vec<Member<'_>> = match &self.pick {
            Pick::All => members,
            Pick::Prefix(prefix) => {
                members.into_iter().filter(|(_, name, _)| name.starts_with(prefix)).collect()
            }
            Pick::Listed(names) => names.iter().map(|name| listed(&members, name)).collect(),
        };
        taken.retain(|(_, name, value)| {
            let is_empty = value.text.is_empty() && self.empty == Empty::Skip;
            !is_empty && !self.except.iter().any(|other| other == name)
        });
        match self.order {
            Order::Sorted => taken.sort_by(|a, b| a.1.as_bytes().cmp(b.1.as_bytes())),
            Order::SortedNocase => taken.sort_by_key(|(_, name, _)| name.to_ascii_lowercase()),
            Order::AsIs => {}
        }
        for (place, member) in taken.iter().enumerate() {
            if place > 0 {
                into.extend_from_slice(self.separator.as_bytes());
            }
            self.write_one(member, into);
        }
    }

    /// Whether a text of these members tells which value is whose, so that a signature over it is over the names, too. It does
    /// where names stand in it with a mark on either side; and where all names and their order are fixed, if there is a mark
    /// between the values.
    pub(crate) fn tells_names(&self) -> bool {
        let has_marks = !self.separator.is_empty() && !self.assign.is_empty();
        let is_fixed = matches!(self.pick, Pick::Listed(_)) && self.empty == Empty::Keep;
        (self.write == Write::Pairs && has_marks) || (is_fixed && !self.separator.is_empty())
    }

    /// Whether a mark can stand in a value as it is.
    pub(crate) fn lets_marks_through(&self) -> bool {
        let is_kept = |mark: &str| {
            let mut written = Vec::new();
            self.encoding.write(mark, mark, &mut written);
            !mark.is_empty() && written == mark.as_bytes()
        };
        self.encoding.lets_marks_through() || is_kept(&self.separator) || is_kept(&self.assign)
    }

    /// A member that makes the text ambiguous: it could be of another one, too, so that text was moved from a value into
    /// a name or back. Whoever moved it had to hide what really decides in a name or a value: there it is found.
    pub(crate) fn ambiguous<'d>(&self, members: &[Member<'d>]) -> Option<&'d str> {
        if !self.lets_marks_through() {
            return None;
        }
        let found = members.iter().find(|(_, name, value)| {
            let is_left_out = self.except.iter().any(|other| other == name);
            let is_deciding = self.deciding.iter().any(|other| other == name);
            !is_left_out
                && (self.name_is_ambiguous(name)
                    || self.value_is_ambiguous(value.text)
                    || (is_deciding && self.holds_separator(value.text)))
        });
        found.map(|(_, name, _)| *name)
    }

    /// What decides could have swallowed the members behind it.
    fn holds_separator(&self, value: &str) -> bool {
        !self.separator.is_empty() && value.contains(&self.separator)
    }

    fn name_is_ambiguous(&self, name: &str) -> bool {
        let holds = |mark: &str| !mark.is_empty() && name.contains(mark);
        match self.write {
            Write::Pairs => holds(&self.assign) || holds(&self.separator),
            Write::Values => false,
            Write::NamesAndValues => holds(&self.separator),
        }
    }

    fn value_is_ambiguous(&self, value: &str) -> bool {
        let mut deciding = self.deciding.iter();
        match self.write {
            Write::Pairs => deciding
                .any(|name| value.contains(&format!("{}{name}{}", self.separator, self.assign))),
            Write::Values => self.holds_separator(value),
            Write::NamesAndValues => {
                self.holds_separator(value) || deciding.any(|name| value.contains(name.as_str()))
            }
        }
    }

    /// The name by which a place is a member of this list.
    pub(crate) fn member(&self, (document, path): (usize, &[String])) -> Option<String> {
        let inside = path.strip_prefix(self.of.1.as_slice()).filter(|_| document == self.of.0)?;
        if self.is_flat && !inside.is_empty() {
            Some(inside.join("."))
        } else {
            inside.first().cloned()
        }
    }

    fn write_one(&self, (raw_name, name, value): &Member<'_>, into: &mut Vec<u8>) {
        if self.write != Write::Values {
            self.encoding.write(name, raw_name, into);
        }
        if self.write == Write::Pairs {
            into.extend_from_slice(self.assign.as_bytes());
        }
        self.encoding.write(value.text, value.raw, into);
    }

    /// Whether a change of this member changes the text.
    pub(crate) fn covers(&self, (document, path): (usize, &[String])) -> bool {
        let Some(name) = self.member((document, path)) else { return false };
        let is_picked = match &self.pick {
            Pick::All => true,
            Pick::Prefix(prefix) => name.starts_with(prefix),
            Pick::Listed(names) => names.contains(&name),
        };
        is_picked && !self.except.contains(&name)
    }
}

fn listed<'m>(members: &[Member<'m>], name: &'m str) -> Member<'m> {
    let found = members.iter().find(|(_, other, _)| *other == name);
    found.copied().unwrap_or((name, name, NOTHING))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Limits;
    use crate::scheme::document::{Document, Json, form};

    const LIMITS: Limits = Limits { body_bytes: 16_384, depth: 8, keys: 64 };

    fn pairs() -> Pairs {
        Pairs {
            of: (0, Vec::new()),
            pick: Pick::All,
            except: Vec::new(),
            order: Order::Sorted,
            write: Write::Pairs,
            assign: "=".to_owned(),
            separator: "&".to_owned(),
            empty: Empty::Keep,
            encoding: Encoding::None,
            is_flat: false,
            deciding: Vec::new(),
        }
    }

    fn text(pairs: &Pairs, document: &Document) -> String {
        let mut text = Vec::new();
        pairs.write(document.members(&pairs.of.1), &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_list_is_picked_ordered_and_written() {
        let document = form("b=2+x&a=%20&C=&d%2a=~&vnp_x=1", LIMITS).unwrap();
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        for (pairs, expected) in [
            (pairs(), "C=&a= &b=2 x&d*=~&vnp_x=1"),
            (Pairs { order: Order::SortedNocase, ..pairs() }, "a= &b=2 x&C=&d*=~&vnp_x=1"),
            (Pairs { order: Order::AsIs, ..pairs() }, "b=2 x&a= &C=&d*=~&vnp_x=1"),
            (Pairs { empty: Empty::Skip, ..pairs() }, "a= &b=2 x&d*=~&vnp_x=1"),
            (Pairs { except: list(&["a", "C"]), ..pairs() }, "b=2 x&d*=~&vnp_x=1"),
            (Pairs { pick: Pick::Prefix("vnp_".into()), ..pairs() }, "vnp_x=1"),
            (Pairs { encoding: Encoding::Raw, ..pairs() }, "C=&a=%20&b=2+x&d%2a=~&vnp_x=1"),
            (Pairs { encoding: Encoding::Rfc3986, ..pairs() }, "C=&a=%20&b=2%20x&d%2A=~&vnp_x=1"),
            (Pairs { write: Write::Values, separator: "|".into(), ..pairs() }, "| |2 x|~|1"),
            (
                Pairs { write: Write::NamesAndValues, separator: String::new(), ..pairs() },
                "Ca b2 xd*~vnp_x1",
            ),
            (
                Pairs {
                    pick: Pick::Listed(list(&["b", "no", "a"])),
                    order: Order::AsIs,
                    ..pairs()
                },
                "b=2 x&no=&a= ",
            ),
        ] {
            assert_eq!(text(&pairs, &document), expected, "{pairs:?}");
        }
    }

    #[test]
    fn what_could_be_read_another_way_is_found() {
        let amount = Pairs { deciding: vec!["amount".to_owned()], ..pairs() };
        let values = Pairs { write: Write::Values, separator: "|".into(), ..pairs() };
        let bare =
            Pairs { write: Write::NamesAndValues, separator: String::new(), ..amount.clone() };
        let encoded = Pairs { encoding: Encoding::Form, ..amount.clone() };
        // A mark that the encoding leaves as it is.
        let dotted = Pairs { separator: ".".into(), encoding: Encoding::Rfc3986, ..amount.clone() };
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
        ] {
            let document = form(query, LIMITS).unwrap();
            assert_eq!(pairs.ambiguous(&document.members(&[])), expected, "{query} {pairs:?}");
        }
    }

    #[test]
    fn json_members_keep_their_digits() {
        let json = r#"{"x":{"b":10.10,"a":"é\n","n":null,"o":{"k": 1},"t":true}}"#;
        let document = Document::Json(Json::parse(json, LIMITS).unwrap());
        let pairs = Pairs { of: (0, vec!["x".into()]), ..pairs() };
        assert_eq!(text(&pairs, &document), "a=é\n&b=10.10&n=&o={\"k\": 1}&t=true");
        assert!(pairs.covers((0, &["x".into(), "b".into()])));
        let excepted = Pairs { except: vec!["a.b".into()], is_flat: true, ..self::pairs() };
        assert!(
            !excepted.covers((0, &["a".into(), "b".into()])),
            "one name of a form, and left out"
        );
        assert!(excepted.covers((0, &["a".into(), "c".into()])));
        assert!(!pairs.covers((0, &["y".into()])) && !pairs.covers((1, &["x".into(), "b".into()])));
    }
}
