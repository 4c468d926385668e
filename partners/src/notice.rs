//! Owns the lenient parse of a notice's JSON body: as little judged as safety allows, and every digit kept.
//! Numbers are never read, only copied; nothing is normalised; two readers of one body can't disagree,
//! because duplicate keys, broken encodings and trailing bytes are refused wherever they are.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::nested;
use crate::profile::{Field, Limits};
use crate::verify::{RejectCode, Rejection};

/// What a scalar was on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalarKind {
    /// A string; the text is decoded.
    String,
    /// A number; the text is its digits as received.
    Number,
    /// `true` or `false`.
    Bool,
    /// `null`, which means absent.
    Null,
}

/// A value that has a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar<'n> {
    /// What it was on the wire.
    pub kind: ScalarKind,
    /// What it says; what is signed.
    pub text: &'n str,
}

#[derive(Clone, Debug, Default)]
enum Slot<'a> {
    #[default]
    Missing,
    Scalar(ScalarKind, Cow<'a, str>),
    Composite,
}

/// A parsed body: a slot for each field of the contract, and how many other keys there were at the top.
/// Whoever signed it, if anyone, is not known yet.
#[derive(Clone, Debug, Default)]
pub struct Notice<'a> {
    slots: [Slot<'a>; Field::COUNT],
    unknown_fields: u32,
}

impl<'a> Notice<'a> {
    /// Parses a body. Errors: a `Rejection` with a 400 code (refusals: `empty_body`, `invalid_encoding`,
    /// `malformed_json`, `not_an_object`, `duplicate_field`, `too_complex`).
    pub fn parse(body: &'a [u8], limits: Limits) -> Result<Self, Rejection> {
        let text = std::str::from_utf8(body).map_err(|error| {
            Rejection::new(RejectCode::InvalidEncoding)
                .with_detail(format!("not UTF-8 at byte {}", error.valid_up_to()))
        })?;
        let Some(first) = body.trim_ascii_start().first() else {
            return Err(Rejection::new(RejectCode::EmptyBody));
        };
        if let Some(offset) = nested::lone_surrogate(body) {
            return Err(Rejection::new(RejectCode::InvalidEncoding)
                .with_detail(format!("lone surrogate at byte {offset}")));
        }
        if *first != b'{' {
            return Err(match serde_json::from_str::<&RawValue>(text) {
                Ok(_) => Rejection::new(RejectCode::NotAnObject),
                Err(error) => malformed(&error),
            });
        }
        let mut reader = Reader { limits, notice: Self::default(), keys: 0, rejection: None };
        let mut deserializer = serde_json::Deserializer::from_str(text);
        match deserializer.deserialize_map(&mut reader).and_then(|()| deserializer.end()) {
            Ok(()) => Ok(reader.notice),
            Err(error) => Err(reader.rejection.unwrap_or_else(|| malformed(&error))),
        }
    }

    /// A field's value as it came; `None` if it is missing, an object or an array.
    pub fn field(&self, field: Field) -> Option<Scalar<'_>> {
        match &self.slots[field.index()] {
            Slot::Scalar(kind, text) => Some(Scalar { kind: *kind, text }),
            Slot::Missing | Slot::Composite => None,
        }
    }

    /// A field's value as it came; `None` if it is `null`, too.
    pub fn present(&self, field: Field) -> Option<Scalar<'_>> {
        self.field(field).filter(|scalar| scalar.kind != ScalarKind::Null)
    }

    /// What stands in the signing text for a field; `None` is an empty slot.
    pub fn signing_value(&self, field: Field) -> Option<&str> {
        self.present(field).map(|scalar| scalar.text)
    }

    /// Whether a field is an object or an array, which can't be signed.
    pub fn is_composite(&self, field: Field) -> bool {
        matches!(self.slots[field.index()], Slot::Composite)
    }

    /// How many keys at the top the contract doesn't know.
    pub fn unknown_fields(&self) -> u32 {
        self.unknown_fields
    }
}

/// Says where, and never what: the parser's message may quote the body.
fn malformed(error: &serde_json::Error) -> Rejection {
    Rejection::new(RejectCode::MalformedJson).with_detail(format!(
        "line {} column {}",
        error.line(),
        error.column()
    ))
}

/// Fills a notice while serde_json walks the outermost object.
struct Reader<'a> {
    limits: Limits,
    notice: Notice<'a>,
    keys: usize,
    rejection: Option<Rejection>,
}

impl<'a> Reader<'a> {
    /// Takes one entry in. `unknown` are the keys so far that name no field.
    fn entry(
        &mut self,
        key: Cow<'a, str>,
        value: &'a RawValue,
        unknown: &mut Vec<Cow<'a, str>>,
    ) -> Result<(), RejectCode> {
        self.keys += 1;
        if self.keys > self.limits.keys {
            return Err(RejectCode::TooComplex);
        }
        if unknown.iter().any(|other| other.eq_ignore_ascii_case(&key)) {
            return Err(RejectCode::DuplicateField);
        }
        let slot = slot(value.get());
        if matches!(slot, Slot::Composite) {
            self.keys = nested::check(value.get(), 1, self.keys, self.limits)?;
        }
        if let Some(field) = Field::from_name(&key) {
            let place = &mut self.notice.slots[field.index()];
            if !matches!(place, Slot::Missing) {
                return Err(RejectCode::DuplicateField);
            }
            *place = slot;
        } else {
            if self.has_known_in_another_case(&key) {
                return Err(RejectCode::DuplicateField);
            }
            unknown.push(key);
            self.notice.unknown_fields += 1;
        }
        Ok(())
    }

    fn has_known_in_another_case(&self, key: &str) -> bool {
        Field::ALL.iter().any(|field| {
            field.name().eq_ignore_ascii_case(key)
                && !matches!(self.notice.slots[field.index()], Slot::Missing)
        })
    }
}

/// What a value of valid JSON is. A string without escapes is borrowed as it stands.
fn slot(source: &str) -> Slot<'_> {
    match source.as_bytes()[0] {
        b'{' | b'[' => Slot::Composite,
        b'"' => Slot::Scalar(ScalarKind::String, nested::decode(source)),
        b't' | b'f' => Slot::Scalar(ScalarKind::Bool, Cow::Borrowed(source)),
        b'n' => Slot::Scalar(ScalarKind::Null, Cow::Borrowed(source)),
        _ => Slot::Scalar(ScalarKind::Number, Cow::Borrowed(source)),
    }
}

impl<'a> Visitor<'a> for &mut Reader<'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        // Most notices have no unknown key, so most allocate nothing here.
        let mut unknown = Vec::new();
        while let Some(Key(key)) = map.next_key()? {
            let value = map.next_value::<&'a RawValue>()?;
            if let Err(code) = self.entry(key, value, &mut unknown) {
                self.rejection = Some(Rejection::new(code));
                return Err(serde::de::Error::custom(code.as_str()));
            }
        }
        Ok(())
    }
}

/// A key, borrowed from the body unless it has escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(key)))
            }

            fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(key.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}
