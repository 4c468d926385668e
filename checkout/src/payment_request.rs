//! Owns the fields of a create request and the rule of each. Pure: rules that depend on the time,
//! the shop or the partner are checked in `attempt`. Two bodies are the same request if their
//! `PaymentRequest::canonical_bytes` are equal.

use std::collections::BTreeMap;
use std::net::IpAddr;

use payfold_partners::create::PresentationKind;
use payfold_schemas::ids::{MerchantCode, PartnerCode, Reference};
use payfold_schemas::money::{Amount, AmountError, Currency};
use payfold_schemas::time::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use crate::fields::{JsonFields, pointer, required};
use crate::problem::{Problem, kinds};

/// The most characters of a description.
const DESCRIPTION_CHARS_MAX: usize = 255;
/// The most entries of the metadata.
const METADATA_MAX: usize = 16;
/// The most characters of a metadata key.
const METADATA_KEY_CHARS_MAX: usize = 64;
/// The most characters of a metadata value.
const METADATA_VALUE_CHARS_MAX: usize = 512;
/// The most characters of `returnTo`.
const RETURN_TO_CHARS_MAX: usize = 64;

/// How the payment is to be shown to the payer, if the partner can be asked for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(schema_with = "presentations")]
pub(crate) enum WantedPresentation {
    /// A hosted page.
    Page,
    /// A QR code.
    Qr,
}

impl WantedPresentation {
    /// All values.
    pub(crate) const ALL: [Self; 2] = [Self::Page, Self::Qr];

    /// The same value for the request to the partner.
    pub(crate) fn to_presentation_kind(self) -> PresentationKind {
        match self {
            Self::Page => PresentationKind::Page,
            Self::Qr => PresentationKind::Qr,
        }
    }
}

fn presentations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": WantedPresentation::ALL })
}

/// A payment to create. Unknown fields are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PaymentRequest {
    /// The gateway partner's code, as `GET /v1/partners` lists it.
    #[schemars(regex(pattern = "^[a-z0-9-]+$"), extend("example" = "sandbox"))]
    pub partner: PartnerCode,
    /// The account at the partner (contract 2.1). It may be left out if the shop has exactly one
    /// account there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[A-Za-z0-9._:-]+$"), extend("example" = "DEMO"))]
    pub merchant_code: Option<MerchantCode>,
    /// The shop's own reference for what is paid, in printable ASCII. Several attempts may have the
    /// same.
    #[schemars(extend("example" = "cart-1001"))]
    pub reference: Reference,
    /// The amount in minor units of the currency (contract 2.1): 1500 is 15.00 EUR or 1500 VND.
    /// From 1 to 10^15.
    #[schemars(extend("format" = "int64", "example" = 150_000))]
    pub amount: Amount,
    /// The currency (ISO 4217), in capitals.
    #[schemars(extend("example" = "VND"))]
    pub currency: Currency,
    /// Shown to the payer. Control characters and the separator of the partner's signing text are
    /// replaced with a space. The answer has the description that was sent.
    #[schemars(length(min = 1, max = DESCRIPTION_CHARS_MAX), extend("example" = "Two tickets"))]
    pub description: String,
    /// Where the payer's browser returns to: a name from the settings. If it is absent, the default
    /// address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = RETURN_TO_CHARS_MAX))]
    pub return_to: Option<String>,
    /// Page or QR code, if the partner can be asked for it (`presentations` of `GET /v1/partners`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "WantedPresentation")]
    pub presentation: Option<WantedPresentation>,
    /// When the payment should end (RFC 3339), in the future. The partner may end it sooner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// The payer's IP address as the shop sees it, v4 or v6. It is sent only to partners that need
    /// it (`needsPayerIp` of `GET /v1/partners`) and is not stored. A retry from another address is
    /// the same request.
    #[serde(skip_serializing_if = "skip_always")]
    #[schemars(with = "String", length(max = 45), extend("example" = "203.0.113.7"))]
    pub payer_ip: Option<IpAddr>,
    /// Stored with the create request. At most 16 entries, with keys of 1 to 64 and values of at
    /// most 512 characters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

fn skip_always(_: &Option<IpAddr>) -> bool {
    true
}

impl PaymentRequest {
    /// Parses a body. Errors: the first field that can't be used, with its pointer.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Problem> {
        let mut fields = JsonFields::parse(body)?;
        let request = Self {
            partner: required("partner", fields.take_parsed("partner", PartnerCode::parse)?)?,
            merchant_code: fields.take_parsed("merchantCode", MerchantCode::parse)?,
            reference: required("reference", fields.take_parsed("reference", Reference::parse)?)?,
            amount: parse_amount(&mut fields)?,
            currency: parse_currency(&mut fields)?,
            description: parse_description(&mut fields)?,
            return_to: parse_return_to(&mut fields)?,
            presentation: parse_presentation(&mut fields)?,
            expires_at: parse_expires_at(&mut fields)?,
            payer_ip: parse_payer_ip(&mut fields)?,
            metadata: parse_metadata(&mut fields)?,
        };
        fields.finish()?;
        Ok(request)
    }

    /// The bytes by which this request is compared with another. They are stored with its
    /// `CreateRequested` fact.
    pub(crate) fn canonical_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a request is texts and numbers")
    }
}

/// What an amount has to be that is not a number.
const AMOUNT_DETAIL: &str = "a number of minor units, without quotes: 500 is 500 VND, but 5.00 EUR";

fn parse_amount(fields: &mut JsonFields<'_>) -> Result<Amount, Problem> {
    let digits = required("amount", fields.take("amount"))?.get();
    let at = |kind| Problem::at_field(kind, "/amount");
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        return Err(at(&kinds::WRONG_TYPE).with_detail(AMOUNT_DETAIL));
    }
    Amount::parse(digits).map_err(|error| match error {
        AmountError::NotInteger => at(&kinds::AMOUNT_NOT_INTEGER),
        AmountError::OutOfRange => at(&kinds::AMOUNT_OUT_OF_RANGE),
    })
}

fn parse_currency(fields: &mut JsonFields<'_>) -> Result<Currency, Problem> {
    let code = required("currency", fields.take_text("currency")?)?;
    Currency::parse(&code).map_err(|_| Problem::at_field(&kinds::UNKNOWN_CURRENCY, "/currency"))
}

fn parse_description(fields: &mut JsonFields<'_>) -> Result<String, Problem> {
    let text = required("description", fields.take_text("description")?)?;
    check_length("/description", &text, DESCRIPTION_CHARS_MAX)?;
    if clean_description(&text, None).trim().is_empty() {
        return Err(Problem::at_field(&kinds::EMPTY_FIELD, "/description"));
    }
    Ok(text)
}

fn parse_return_to(fields: &mut JsonFields<'_>) -> Result<Option<String>, Problem> {
    let name = fields.take_text("returnTo")?;
    name.iter().try_for_each(|name| check_length("/returnTo", name, RETURN_TO_CHARS_MAX))?;
    Ok(name)
}

fn parse_presentation(fields: &mut JsonFields<'_>) -> Result<Option<WantedPresentation>, Problem> {
    match fields.take_text("presentation")?.as_deref() {
        None => Ok(None),
        Some("page") => Ok(Some(WantedPresentation::Page)),
        Some("qr") => Ok(Some(WantedPresentation::Qr)),
        Some(_) => Err(Problem::at_field(&kinds::WRONG_VALUE, "/presentation")
            .with_detail("it must be page or qr")),
    }
}

fn parse_expires_at(fields: &mut JsonFields<'_>) -> Result<Option<Time>, Problem> {
    let Some(text) = fields.take_text("expiresAt")? else { return Ok(None) };
    let time =
        Time::parse(&text).map_err(|_| Problem::at_field(&kinds::BAD_TIMESTAMP, "/expiresAt"))?;
    Ok(Some(time))
}

fn parse_payer_ip(fields: &mut JsonFields<'_>) -> Result<Option<IpAddr>, Problem> {
    let Some(text) = fields.take_text("payerIp")? else { return Ok(None) };
    let wrong = |_| {
        Problem::at_field(&kinds::WRONG_VALUE, "/payerIp").with_detail("it must be an IP address")
    };
    text.parse().map(Some).map_err(wrong)
}

fn parse_metadata(fields: &mut JsonFields<'_>) -> Result<BTreeMap<String, String>, Problem> {
    let metadata = fields.take_texts("metadata")?;
    if metadata.len() > METADATA_MAX {
        return Err(Problem::at_field(&kinds::TOO_MANY_ENTRIES, "/metadata")
            .with_detail(format!("at most {METADATA_MAX} entries")));
    }
    for (key, value) in &metadata {
        let pointer = format!("/metadata{}", pointer(key));
        if key.is_empty() {
            return Err(Problem::at_field(&kinds::EMPTY_FIELD, pointer));
        }
        check_length(&pointer, key, METADATA_KEY_CHARS_MAX)?;
        check_length(&pointer, value, METADATA_VALUE_CHARS_MAX)?;
    }
    Ok(metadata)
}

fn check_length(pointer: &str, text: &str, chars_max: usize) -> Result<(), Problem> {
    if text.chars().count() > chars_max {
        let detail = format!("at most {chars_max} characters");
        return Err(Problem::at_field(&kinds::FIELD_TOO_LONG, pointer).with_detail(detail));
    }
    Ok(())
}

/// Replaces control characters and, if there is one, the separator of the signing text with spaces.
pub(crate) fn clean_description(description: &str, separator: Option<u8>) -> String {
    let separator = separator.map(char::from);
    description
        .chars()
        .map(|c| if c.is_control() || Some(c) == separator { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"partner":"acme","merchantCode":"SHOP","reference":"cart 1","amount":1500,"currency":"EUR","description":"Two tickets"}"#;

    /// One field of the good body, replaced or added (`-` leaves it out) => ok, or code and
    /// pointer.
    const CASES: &str = r#"
        extra         1                              => unknown_field /extra
        a/b~c         1                              => unknown_field /a~1b~0c
        partner       -                              => missing_field /partner
        partner       null                           => missing_field /partner
        partner       ""                             => empty_field /partner
        partner       "Acme"                         => illegal_character /partner
        partner       5                              => wrong_type /partner
        merchantCode  -                              => ok
        merchantCode  null                           => ok
        merchantCode  "a b"                          => illegal_character /merchantCode
        reference     -                              => missing_field /reference
        reference     "  "                           => empty_field /reference
        reference     "caf\u00e9"                    => illegal_character /reference
        reference     "\ud800"                       => illegal_character /reference
        amount        -                              => missing_field /amount
        amount        "1500"                         => wrong_type /amount
        amount        true                           => wrong_type /amount
        amount        [1]                            => wrong_type /amount
        amount        15.0                           => amount_not_integer /amount
        amount        1e3                            => amount_not_integer /amount
        amount        -0                             => amount_not_integer /amount
        amount        0                              => amount_out_of_range /amount
        amount        -5                             => amount_out_of_range /amount
        amount        1000000000000001               => amount_out_of_range /amount
        amount        99999999999999999999999999     => amount_out_of_range /amount
        amount        1000000000000000               => ok
        currency      "eur"                          => unknown_currency /currency
        currency      "XYZ"                          => unknown_currency /currency
        currency      "XXX"                          => unknown_currency /currency
        currency      "XTS"                          => unknown_currency /currency
        currency      "XAU"                          => unknown_currency /currency
        currency      978                            => wrong_type /currency
        description   -                              => missing_field /description
        description   ""                             => empty_field /description
        description   "\u0000\t "                    => empty_field /description
        description   {"a":1}                        => wrong_type /description
        returnTo      "app"                          => ok
        returnTo      5                              => wrong_type /returnTo
        presentation  "qr"                           => ok
        presentation  "QR"                           => wrong_value /presentation
        expiresAt     "2026-01-31T10:00:00Z"         => ok
        expiresAt     "2026-01-31 10:00:00Z"         => bad_timestamp /expiresAt
        expiresAt     "2026-01-31T10:00:00"          => bad_timestamp /expiresAt
        expiresAt     1769853600                     => wrong_type /expiresAt
        payerIp       "203.0.113.7"                  => ok
        payerIp       "2001:db8::7"                  => ok
        payerIp       "203.0.113.7:80"               => wrong_value /payerIp
        payerIp       "203.0.113.07"                 => wrong_value /payerIp
        payerIp       ""                             => wrong_value /payerIp
        payerIp       7                              => wrong_type /payerIp
        metadata      {}                             => ok
        metadata      {"a":"b"}                      => ok
        metadata      {"a":1}                        => wrong_type /metadata/a
        metadata      {"a":{"b":"c"}}                => wrong_type /metadata/a
        metadata      {"":"b"}                       => empty_field /metadata/
        metadata      {"a":"b","a":"c"}              => duplicate_field /metadata/a
        metadata      ["a"]                          => wrong_type /metadata
    "#;

    fn outcome_of(body: &str) -> String {
        match PaymentRequest::parse(body.as_bytes()) {
            Ok(_) => "ok".to_owned(),
            Err(problem) => format!("{} {}", problem.code(), problem.pointer().unwrap_or("-")),
        }
    }

    fn body_with(name: &str, value: &str) -> String {
        let mut fields: BTreeMap<String, Box<serde_json::value::RawValue>> =
            serde_json::from_str(GOOD).unwrap();
        fields.remove(name);
        let rest = serde_json::to_string(&fields).unwrap();
        match value {
            "-" => rest,
            value => format!("{{{name:?}:{value},{}", &rest[1..]),
        }
    }

    #[test]
    fn each_field_has_its_rule() {
        for case in CASES.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (field, expected) = case.split_once(" => ").unwrap();
            let (name, value) = field.split_once(' ').unwrap();
            assert_eq!(outcome_of(&body_with(name, value.trim())), expected, "{case}");
        }
    }

    #[test]
    fn lengths_are_limited() {
        let text = |chars: usize| format!("\"{}\"", "é".repeat(chars));
        assert_eq!(outcome_of(&body_with("description", &text(255))), "ok");
        assert_eq!(
            outcome_of(&body_with("description", &text(256))),
            "field_too_long /description"
        );
        let ascii = |chars: usize| format!("\"{}\"", "x".repeat(chars));
        assert_eq!(outcome_of(&body_with("reference", &ascii(128))), "ok");
        assert_eq!(outcome_of(&body_with("reference", &ascii(129))), "field_too_long /reference");
        let entries = |count: usize| {
            let all: Vec<_> = (0..count).map(|n| format!("\"k{n}\":\"\"")).collect();
            format!("{{{}}}", all.join(","))
        };
        assert_eq!(outcome_of(&body_with("metadata", &entries(16))), "ok");
        assert_eq!(outcome_of(&body_with("metadata", &entries(17))), "too_many_entries /metadata");
        let long = format!("{{\"k\":{}}}", ascii(513));
        assert_eq!(outcome_of(&body_with("metadata", &long)), "field_too_long /metadata/k");
    }

    #[test]
    fn a_body_is_exactly_one_json_object() {
        for (body, expected) in [
            ("", "empty_body -"),
            (" \n", "empty_body -"),
            ("[]", "not_an_object -"),
            ("\"x\"", "not_an_object -"),
            ("[\"acme\",null,\"r\",1,\"EUR\",\"d\"]", "not_an_object -"),
            ("nonsense", "malformed_json -"),
            ("{", "malformed_json -"),
            ("{} x", "malformed_json -"),
            ("{\"a\":NaN}", "malformed_json -"),
            ("{\"a\":1,}", "malformed_json -"),
            ("\u{feff}{}", "malformed_json -"),
            ("{\"amount\":1,\"amount\":2}", "duplicate_field /amount"),
            ("{\"amount\":1,\"\\u0061mount\":2}", "duplicate_field /amount"),
            ("{\"x\":1,\"x\":1}", "duplicate_field /x"),
        ] {
            assert_eq!(outcome_of(body), expected, "{body}");
        }
        assert_eq!(
            PaymentRequest::parse(b"{\"a\":\"\xff\"}").unwrap_err().code(),
            "malformed_json"
        );
    }

    #[test]
    fn requests_are_compared_by_their_values_not_their_spelling() {
        let canonical =
            |body: &str| PaymentRequest::parse(body.as_bytes()).unwrap().canonical_bytes();
        let good = canonical(GOOD);
        assert_eq!(canonical(&body_with("amount", " 1500 ")), good);
        assert_eq!(canonical(&body_with("metadata", "{}")), good);
        assert_eq!(canonical(&body_with("returnTo", "null")), good);
        assert_eq!(canonical(&body_with("payerIp", "\"203.0.113.7\"")), good, "it is not stored");
        assert_eq!(canonical(&body_with("description", "\"Two ticket\\u0073\"")), good);
        let zoned = canonical(&body_with("expiresAt", "\"2026-01-31T17:00:00+07:00\""));
        assert_eq!(canonical(&body_with("expiresAt", "\"2026-01-31T10:00:00Z\"")), zoned);
        for (name, value) in [
            ("amount", "1501"),
            ("merchantCode", "-"),
            ("description", "\"two tickets\""),
            ("metadata", "{\"a\":\"b\"}"),
            ("presentation", "\"qr\""),
        ] {
            assert_ne!(canonical(&body_with(name, value)), good, "{name}");
        }
    }

    #[test]
    fn control_characters_and_separators_become_spaces() {
        assert_eq!(clean_description("a|b\tc\u{7f}\u{85}d é", Some(b'|')), "a b c  d é");
    }
}
