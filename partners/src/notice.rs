//! Owns the parsing of a notice's JSON body. It is lenient: it refuses only what is unsafe, and the
//! contract's rules are checked later. Numbers are copied as text and never parsed, and nothing is
//! normalised. Duplicate keys, broken encodings and trailing bytes are refused at any depth, so
//! that two parsers of one body can't disagree.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::field::Field;
use crate::limits::BodyLimits;
use crate::nested;
use crate::rejection::{RejectCode, Rejection};

/// The JSON type of a scalar.
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

/// A scalar value of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar<'n> {
    /// The JSON type.
    pub kind: ScalarKind,
    /// The text, as the signing text has it.
    pub text: &'n str,
}

#[derive(Clone, Debug, Default)]
enum FieldSlot<'a> {
    #[default]
    Missing,
    Scalar(ScalarKind, Cow<'a, str>),
    Composite,
}

/// A parsed body: a slot for each field of the contract, and the number of other top-level keys.
/// Its signature is not verified yet.
#[derive(Clone, Debug, Default)]
pub struct Notice<'a> {
    slots: [FieldSlot<'a>; Field::COUNT],
    unknown_fields: u32,
}

impl<'a> Notice<'a> {
    /// Parses a body. Errors: a `Rejection` with a 400 code (refusals: `empty_body`,
    /// `invalid_encoding`, `malformed_json`, `not_an_object`, `duplicate_field`, `too_complex`).
    pub fn parse(body: &'a [u8], limits: BodyLimits) -> Result<Self, Rejection> {
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
        let mut reader = NoticeReader { limits, notice: Self::default(), keys: 0, rejection: None };
        let mut deserializer = serde_json::Deserializer::from_str(text);
        match deserializer.deserialize_map(&mut reader).and_then(|()| deserializer.end()) {
            Ok(()) => Ok(reader.notice),
            Err(error) => Err(reader.rejection.unwrap_or_else(|| malformed(&error))),
        }
    }

    /// A field's value as received; `None` if it is missing, an object or an array.
    pub fn field(&self, field: Field) -> Option<Scalar<'_>> {
        match &self.slots[field.index()] {
            FieldSlot::Scalar(kind, text) => Some(Scalar { kind: *kind, text }),
            FieldSlot::Missing | FieldSlot::Composite => None,
        }
    }

    /// A field's value as received; `None` also if it is `null`.
    pub(crate) fn present(&self, field: Field) -> Option<Scalar<'_>> {
        self.field(field).filter(|scalar| scalar.kind != ScalarKind::Null)
    }

    /// A field's text in the signing text; `None` if the field is absent, which is signed as an
    /// empty text.
    pub fn signing_value(&self, field: Field) -> Option<&str> {
        self.present(field).map(|scalar| scalar.text)
    }

    /// Whether a field is an object or an array, which can't be signed.
    pub fn is_composite(&self, field: Field) -> bool {
        matches!(self.slots[field.index()], FieldSlot::Composite)
    }

    /// The number of top-level keys that the contract does not define.
    pub(crate) fn unknown_fields(&self) -> u32 {
        self.unknown_fields
    }
}

/// A refusal with the place of the fault. It has no message, because that of the parser may quote
/// the body.
fn malformed(error: &serde_json::Error) -> Rejection {
    Rejection::new(RejectCode::MalformedJson).with_detail(format!(
        "line {} column {}",
        error.line(),
        error.column()
    ))
}

/// Fills a notice while serde_json walks the outermost object.
struct NoticeReader<'a> {
    limits: BodyLimits,
    notice: Notice<'a>,
    keys: usize,
    rejection: Option<Rejection>,
}

impl<'a> NoticeReader<'a> {
    /// Takes one member of the outermost object. `unknown` has the keys so far that name no field.
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
        if matches!(slot, FieldSlot::Composite) {
            self.keys = nested::check(value.get(), 1, self.keys, self.limits)?;
        }
        if let Some(field) = Field::from_name(&key) {
            let place = &mut self.notice.slots[field.index()];
            if !matches!(place, FieldSlot::Missing) {
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
                && !matches!(self.notice.slots[field.index()], FieldSlot::Missing)
        })
    }
}

/// The slot of a value of valid JSON. A string without escapes is borrowed from the body.
fn slot(source: &str) -> FieldSlot<'_> {
    match source.as_bytes()[0] {
        b'{' | b'[' => FieldSlot::Composite,
        b'"' => FieldSlot::Scalar(ScalarKind::String, nested::decode(source)),
        b't' | b'f' => FieldSlot::Scalar(ScalarKind::Bool, Cow::Borrowed(source)),
        b'n' => FieldSlot::Scalar(ScalarKind::Null, Cow::Borrowed(source)),
        _ => FieldSlot::Scalar(ScalarKind::Number, Cow::Borrowed(source)),
    }
}

impl<'a> Visitor<'a> for &mut NoticeReader<'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        // Most notices have no unknown key, so most allocate nothing here.
        let mut unknown = Vec::new();
        while let Some(ObjectKey(key)) = map.next_key()? {
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
struct ObjectKey<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for ObjectKey<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = ObjectKey<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
                Ok(ObjectKey(Cow::Borrowed(key)))
            }

            fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
                Ok(ObjectKey(Cow::Owned(key.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: BodyLimits = BodyLimits { body_bytes: 16_384, depth: 8, keys: 64 };

    /// `ok` or the code.
    fn outcome(body: &[u8]) -> &'static str {
        match Notice::parse(body, LIMITS) {
            Ok(_) => "ok",
            Err(rejection) => rejection.code().as_str(),
        }
    }

    /// The code, then the body.
    const BODIES: &str = r#"
        ok               {}
        ok               { "orderId" : "A" , "x" : [ 1 , { "y" : null } ] }
        ok               {"a":{"k":1},"b":{"k":1},"c":[{"k":1},{"k":1}]}
        ok               {"a":"{\"b\":1,\"b\":2}","c":"a\\","d":["x\":","y"]}
        ok               {"a":1e999,"b":-0,"c":0.10,"d":123456789012345678901234567890}
        ok               {"x":"\ud83d\ude00","é":1,"É":2}
        malformed_json   {
        malformed_json   {"a":1
        malformed_json   {"a":1}}
        malformed_json   {"a":1} x
        malformed_json   {"a":1}{"b":2}
        malformed_json   {"a":1,}
        malformed_json   {"a" 1}
        malformed_json   {a:1}
        malformed_json   {'a':1}
        malformed_json   {"a":1 /* no */}
        malformed_json   {"a":1} // no
        malformed_json   {"a":NaN}
        malformed_json   {"a":Infinity}
        malformed_json   {"a":+1}
        malformed_json   {"a":01}
        malformed_json   {"a":1.}
        malformed_json   {"a":.5}
        malformed_json   {"a":1e}
        malformed_json   {"a":"\x41"}
        malformed_json   {"a":"\u12g4"}
        malformed_json   {"a":tru}
        malformed_json   {"a":[1,2}
        malformed_json   {1:2}
        malformed_json   NaN
        malformed_json   "half
        malformed_json   [1,2
        malformed_json   [1] 2
        not_an_object    []
        not_an_object    ["SHOP","O"]
        not_an_object    "text"
        not_an_object    12
        not_an_object    null
        not_an_object    true
        duplicate_field  {"orderId":"A","orderId":"B"}
        duplicate_field  {"orderId":null,"orderId":"B"}
        duplicate_field  {"orderId":{},"orderId":"B"}
        duplicate_field  {"orderId":"A","order\u0049d":"B"}
        duplicate_field  {"\u006frderId":"A","orderId":"B"}
        duplicate_field  {"orderId":"A","ORDERID":"B"}
        duplicate_field  {"orderid":"A","orderId":"B"}
        duplicate_field  {"x":1,"x":1}
        duplicate_field  {"x":1,"y":2,"X":3}
        duplicate_field  {"x":1,"\u0058":3}
        duplicate_field  {"x":{"y":1,"y":2}}
        duplicate_field  {"x":{"y":1,"Y":2}}
        duplicate_field  {"x":[[{"y":1,"z":{},"\u0079" : 2}]]}
        duplicate_field  {"nonce":{"y":1,"y":2}}
        duplicate_field  {"":1,"":2}
        ok               {"x":{"a":{},"b":{"a":1}}}
        ok               {"a":[[[[[[[]]]]]]]}
        too_complex      {"a":[[[[[[[[]]]]]]]]}
        ok               {"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":1}}}}}}}}
        too_complex      {"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{}}}}}}}}}
        too_complex      {"amount":[{"a":[{"a":[{"a":[{}]}]}]}]}
        invalid_encoding {"a":"\ud800"}
        invalid_encoding {"a":"\udc00\ud800"}
        invalid_encoding {"a":{"b":["\udfff"]}}
        invalid_encoding {"\ud800":1}
        invalid_encoding {"a":{"\ud800":1}}
        invalid_encoding "\ud800"
    "#;

    #[test]
    fn a_body_is_parsed_or_gets_its_code() {
        for line in BODIES.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (expected, body) = line.split_once(' ').unwrap();
            assert_eq!(outcome(body.trim_start().as_bytes()), expected, "{line}");
        }
        for body in ["", " ", "\r\n\t "] {
            assert_eq!(outcome(body.as_bytes()), "empty_body", "{body:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_refused_anywhere() {
        for bytes in ["\u{feff}{}", "{\"a\":\"\u{1}\"}", "{}\0", "\u{a0}{}", "{\"a\":\"\n\"}"] {
            assert_eq!(outcome(bytes.as_bytes()), "malformed_json", "{bytes:?}");
        }
        let broken: [&[u8]; 6] =
            [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\xfe\xff"];
        for bytes in broken {
            for (before, after) in [("{\"a\":\"", "\"}"), ("{\"", "\":1}"), ("", "{}"), ("{}", "")]
            {
                let body = [before.as_bytes(), bytes, after.as_bytes()].concat();
                assert_eq!(outcome(&body), "invalid_encoding", "{before} {bytes:?}");
            }
        }
    }

    #[test]
    fn keys_are_counted_at_any_depth() {
        let flat = |count: usize| {
            let keys: Vec<_> = (0..count).map(|n| format!("\"k{n}\":0")).collect();
            format!("{{{}}}", keys.join(","))
        };
        let nested = |count: usize| format!("{{\"a\":[{}]}}", flat(count - 1));
        let spread = |count: usize| format!("{{\"a\":[{}{{}}]}}", "{\"k\":0},".repeat(count - 1));
        let halves = |count: usize| format!("{{\"a\":{},\"b\":{}}}", flat(30), flat(count - 32));
        for (keys, expected) in [(64, "ok"), (65, "too_complex")] {
            for body in [flat(keys), nested(keys), spread(keys), halves(keys)] {
                assert_eq!(outcome(body.as_bytes()), expected, "{keys} keys: {body}");
            }
        }
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(500_000), "]".repeat(500_000));
        assert_eq!(outcome(deep.as_bytes()), "too_complex");
        assert_eq!(outcome("[".repeat(500_000).as_bytes()), "malformed_json");
        assert_eq!(
            outcome(format!("{{\"a\":{}", "[".repeat(500_000)).as_bytes()),
            "malformed_json"
        );
    }

    #[test]
    fn values_are_kept_as_received() {
        let body = br#"{"merchantCode":"S\u0048OP","orderId":"","providerRef":null,"status":true,
            "amount": 1e3 ,"currency":[1],"paidAt":-0.10,"nonce":"a\/b","extra":1,"more":{"x":1}}"#;
        let notice = Notice::parse(body, LIMITS).unwrap();
        let text = |field| notice.field(field).map(|scalar| (scalar.kind, scalar.text));
        assert_eq!(text(Field::MerchantCode), Some((ScalarKind::String, "SHOP")));
        assert_eq!(text(Field::OrderId), Some((ScalarKind::String, "")));
        assert_eq!(text(Field::ProviderRef), Some((ScalarKind::Null, "null")));
        assert_eq!(notice.signing_value(Field::ProviderRef), None);
        assert_eq!(notice.present(Field::ProviderRef), None);
        assert_eq!(text(Field::Status), Some((ScalarKind::Bool, "true")));
        assert_eq!(text(Field::Amount), Some((ScalarKind::Number, "1e3")));
        assert_eq!(text(Field::PaidAt), Some((ScalarKind::Number, "-0.10")));
        assert_eq!(text(Field::Nonce), Some((ScalarKind::String, "a/b")));
        assert_eq!(text(Field::Currency), None);
        assert!(notice.is_composite(Field::Currency) && !notice.is_composite(Field::Timestamp));
        assert_eq!(text(Field::Timestamp), None);
        assert_eq!(notice.unknown_fields(), 2);
    }

    #[test]
    fn a_refusal_never_quotes_the_body() {
        for body in [
            "{\"nonce\":\"hush\",\"a\":1,\"a\":2}",
            "{\"a\":hush}",
            "{\"hush\":1,\"hush\":2}",
            "hush",
            "{\"a\":1}hush",
            "[\"hush\"]",
        ] {
            let rejection = Notice::parse(body.as_bytes(), LIMITS).unwrap_err();
            assert!(!format!("{rejection} {rejection:?}").contains("hush"), "{rejection:?}");
        }
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let scalar = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            ".{0,6}".prop_map(Into::into),
        ];
        scalar.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                proptest::collection::btree_map("[a-z\"\\\\:é]{0,4}", inner, 0..4)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// It accepts what serde_json accepts and reads the same strings, whatever is nested.
        #[test]
        fn it_reads_what_serde_json_reads(order_id in ".{0,12}", other in any_json()) {
            let body = serde_json::json!({ "x": other, "orderId": order_id }).to_string();
            let notice = Notice::parse(body.as_bytes(), LIMITS);
            let notice = notice.unwrap();
            let read = notice.field(Field::OrderId).unwrap();
            prop_assert_eq!((read.kind, read.text), (ScalarKind::String, order_id.as_str()));
            prop_assert_eq!(notice.unknown_fields(), 1);
        }

        /// No bytes make it panic, and serde_json accepts everything that it accepts.
        #[test]
        fn it_takes_nothing_serde_json_refuses(body in "[{}\\[\\]\":,\\\\u0-9a-e tx]{0,24}") {
            if Notice::parse(body.as_bytes(), LIMITS).is_ok() {
                let read: Result<serde_json::Map<String, serde_json::Value>, _> =
                    serde_json::from_str(&body);
                prop_assert!(read.is_ok(), "{body}");
            }
        }
    }
}
