//! A notice of the default scheme takes a fast path. The scheme that its profile is compiled to
//! judges it alike.

use fastrand::Rng;
use payfold_testing::knobs;

use super::*;
use crate::field::Field;
use crate::profile::DEFAULT_PROFILE;

fn pick(random: &mut Rng, from: &[&'static str]) -> &'static str {
    random.choice(from).copied().expect("a choice is not empty")
}

/// Wrong JSON values for any field; an empty one leaves the field out.
const ODD: [&str; 12] = [
    "",
    "null",
    "\"\"",
    "\" \"",
    "12",
    "1.5",
    "true",
    "{}",
    "[1]",
    "\"a|b\"",
    "\"\\u00e9\"",
    "\"x\"",
];

/// A value of a field as JSON source; nine of ten are valid.
fn source(random: &mut Rng, field: Field) -> &'static str {
    let (good, bad): (&[&str], &[&str]) = match field {
        Field::MerchantCode => (&["\"SHOP\""], &["\"SHOP-2\"", "\"shop\""]),
        Field::Status => (
            &["\"SUCCESS\"", "\"SUCCESS\"", "\"FAILED\"", "\"EXPIRED\"", "\"REFUNDED\""],
            &["\"success\"", "\"PENDING\""],
        ),
        Field::Amount => (
            &["150000", "1", "1000000000000000"],
            &["1000000000000001", "0", "-5", "1e3", "1.0", "\"5\"", "01"],
        ),
        Field::Currency => (&["\"VND\"", "\"USD\""], &["\"vnd\"", "\"XXX\"", "\"VN\""]),
        Field::PaidAt | Field::Timestamp => (
            &["\"2026-01-31T10:00:00Z\"", "\"2026-01-31T17:00:00+07:00\""],
            &["\"2026-01-31\"", "\"2026-01-31T10:00:00\"", "1769853600"],
        ),
        Field::Nonce => (&["", "\"n-1\"", "null"], &["\"n 1\""]),
        _ => (&["\"o-1\"", "\"A.b:2_\"", "\"7\""], &["\"o 1\"", "7"]),
    };
    match random.u8(..20) {
        0 => pick(random, bad),
        1 => pick(random, &ODD),
        _ => pick(random, good),
    }
}

/// The text of a value in the signing text.
fn signed(source: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(source) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(serde_json::Value::Null) | Err(_)
            if !source.starts_with(|c: char| c.is_ascii_digit()) =>
        {
            String::new()
        }
        _ => source.to_owned(),
    }
}

fn body(random: &mut Rng) -> String {
    let signed_fields = Field::ALL.into_iter().filter(|field| *field != Field::Signature);
    let sources: Vec<_> = signed_fields.map(|field| (field, source(random, field))).collect();
    let text = sources.iter().map(|(_, source)| signed(source)).collect::<Vec<_>>().join("|");
    let mut signature = sha256(&text);
    match random.u8(..20) {
        0 => signature = signature.to_uppercase(),
        1 => signature.truncate(62),
        2 => signature = sha256("another text"),
        _ => {}
    }
    let mut members: Vec<_> = sources
        .into_iter()
        .filter(|(_, source)| !source.is_empty())
        .map(|(field, source)| format!("\"{field}\":{source}"))
        .collect();
    members.push(format!("\"signature\":\"{signature}\""));
    if random.u8(..20) == 0 {
        members.push(
            pick(
                random,
                &["\"x\":1", "\"orderId\":\"o-1\"", "\"OrderId\":1", "\"y\":{\"z\":[{}]}", "\"x\""],
            )
            .to_owned(),
        );
    }
    format!("{{{}}}", members.join(","))
}

/// How a directory judges a body. A refusal is one word, because the two schemes describe faults
/// differently.
fn outcome(directory: &Directory, body: &str) -> String {
    match directory.authenticate(Some("acme"), &post(body, &[]), NOW) {
        Err(rejection) => rejection.code().to_string(),
        Ok(verified) => match verified.notices[0].content() {
            Ok(NoticeContent::Event(mapped)) => format!("{mapped:?}"),
            Ok(said) => format!("{said:?}"),
            Err(_) => "refused".to_owned(),
        },
    }
}

#[test]
fn the_fast_path_and_the_scheme_judge_alike() {
    judge_alike(20_260_131, 20_000);
}

#[test]
#[ignore = "nightly: seeds"]
fn the_fast_path_and_the_scheme_judge_a_million_alike() {
    judge_alike(knobs::seed().unwrap_or(20_260_131), 1_000_000);
}

/// Compares the verdicts on random bodies.
fn judge_alike(seed: u64, bodies: u32) {
    let partner = PartnerCode::parse("acme").unwrap();
    let written_out = Profile::default_for(&partner).written_out().unwrap();
    let (fast, scheme) = (directory(DEFAULT_PROFILE), directory(&written_out));
    let mut random = Rng::with_seed(seed);
    let mut taken = 0;
    for _ in 0..bodies {
        let body = body(&mut random);
        let expected = outcome(&scheme, &body);
        assert_eq!(outcome(&fast, &body), expected, "{body}");
        taken += u32::from(expected.starts_with("PaymentEvent"));
    }
    assert!(taken > bodies / 20, "only {taken} are taken");
}

/// Readings take some hundred KiB for each account, and notices on the fast path don't need them.
#[test]
fn an_account_of_the_default_scheme_holds_no_readings() {
    let partner = PartnerCode::parse("acme").unwrap();
    let written_out = Profile::default_for(&partner).written_out().unwrap();
    let readings = |profile| {
        let directory = directory(profile);
        directory.accounts()[0].scheme_keys().readings.iter().flatten().count()
    };
    assert_eq!((readings(DEFAULT_PROFILE), readings(&written_out)), (0, 1));
}
