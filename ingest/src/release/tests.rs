//! Which quarantined notices can be released, and which never can.

use payfold_partners::document::{AccountEntry, NewKey, VaultDocument};
use payfold_partners::keys::Channel;
use payfold_partners::mac::MacKey;
use payfold_partners::profile::{DEFAULT_PROFILE, Field, Profile};
use payfold_partners::secret::Secret;
use payfold_partners::signing;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{MerchantCode, PartnerCode};
use payfold_schemas::notice_source::{ProfileStamp, RecordedRequest};
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;

use super::*;

const SECRET: &[u8] = b"a secret of the test, long enough";
const SENT: &str = "2026-01-31T10:00:00Z";

fn partner() -> PartnerCode {
    PartnerCode::parse("acme").unwrap()
}

/// The account acme/SHOP with one key, under the default profile with `changes` applied.
fn directory(key: &str, secret: &[u8], changes: &[(&str, &str)]) -> Directory {
    let mut profile = DEFAULT_PROFILE.to_owned();
    for (from, to) in changes {
        assert!(profile.contains(from), "{from}");
        profile = profile.replacen(from, to, 1);
    }
    let mut account = AccountEntry::new(partner(), MerchantCode::parse("SHOP").unwrap());
    let key = NewKey {
        id: KeyId::parse(key).unwrap(),
        channel: Channel::Ipn,
        secret: Secret::from_bytes(secret.to_vec()),
        valid_from: Time::from_unix_nanos(i64::MIN),
        overlap_ms: 0,
        created_at: Time::from_unix_ms(0),
    };
    account.add_key(key).unwrap();
    let vault = VaultDocument { accounts: vec![account], ..VaultDocument::default() };
    Directory::build(vec![Profile::parse(&partner(), &profile).unwrap()], &vault).unwrap()
}

/// The signed body with these fields. The amount is written as a number, all others as text.
fn body(fields: &[(Field, &str)]) -> Vec<u8> {
    let value_of = |wanted| {
        let found = fields.iter().find(|(field, _)| *field == wanted)?;
        Some(found.1)
    };
    let signature =
        signing::sign(&Profile::default_for(&partner()), &MacKey::new(SECRET), value_of);
    let json = |(field, text): &(Field, &str)| match field {
        Field::Amount => format!("\"{field}\":{text},"),
        _ => format!("\"{field}\":\"{text}\","),
    };
    let fields: String = fields.iter().map(json).collect();
    format!("{{{fields}\"signature\":\"{signature}\"}}").into_bytes()
}

const PAID: [(Field, &str); 8] = [
    (Field::MerchantCode, "SHOP"),
    (Field::OrderId, "o-1"),
    (Field::ProviderRef, "r-1"),
    (Field::Status, "SUCCESS"),
    (Field::Amount, "150000"),
    (Field::Currency, "VND"),
    (Field::PaidAt, SENT),
    (Field::Timestamp, SENT),
];

fn quarantined(raw: Vec<u8>, code: &str) -> Quarantined {
    let stamp = Profile::default_for(&partner()).stamp().clone();
    Quarantined {
        position: Position { partition: 0, offset: 1 },
        evidence: Digest::of_bytes(b"record"),
        record: QuarantineRecord {
            account: "acme/SHOP".to_owned(),
            code: code.to_owned(),
            detail: String::new(),
            request_id: "01939b1c-7a00-7000-8000-000000000001".parse().unwrap(),
            received_at: Time::parse(SENT).unwrap().plus_ms(3_600_000),
            source: NoticeSource {
                profile: ProfileStamp { version: 7, ..stamp },
                key_id: KeyId::parse("k").unwrap(),
                request: RecordedRequest {
                    target: "/api/payment/ipn".to_owned(),
                    ..RecordedRequest::default()
                },
                released: None,
            },
        },
        raw,
        raw_key_id: None,
    }
}

/// The order that the notice names, or the error.
fn outcome(directory: &Directory, notice: &Quarantined, because: Because) -> String {
    match readmit(directory, "https://pay.example", notice, because) {
        Ok(reread) => reread.order.to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn an_out_of_window_notice_is_released_for_a_reason_about_time() {
    let directory = directory("k", SECRET, &[]);
    let stale = quarantined(body(&PAID), "timestamp_out_of_window");
    for because in [Because::ClockFixed, Because::LateRetry] {
        assert_eq!(outcome(&directory, &stale, because), "acme/SHOP/o-1");
    }
    let with_profile_fixed = outcome(&directory, &stale, Because::ProfileFixed);
    assert!(with_profile_fixed.contains("timestamp_out_of_window, the timestamp is 3600 s old"));
    let reread = readmit(&directory, "", &stale, Because::ClockFixed).unwrap();
    assert!(reread.is_money());
    assert_eq!(reread.ipn.money.paid_at, Some(Time::parse(SENT).unwrap()));
    assert_eq!((reread.source.key_id.as_str(), reread.source.profile.version), ("k", 1));
    for (status, is_money) in [("REFUNDED", true), ("FAILED", false), ("EXPIRED", false)] {
        let mut fields = PAID;
        fields[3].1 = status;
        let read = read_quarantined(
            &directory,
            "",
            &quarantined(body(&fields), "timestamp_out_of_window"),
        )
        .unwrap();
        assert_eq!(read.is_money(), is_money, "{status}");
    }
}

#[test]
fn only_the_time_rule_is_skipped() {
    let directory = directory("k", SECRET, &[]);
    let mut unnamed = PAID;
    unnamed[2].1 = "";
    // It was refused for its time, and it has another fault.
    let stale = quarantined(body(&unnamed), "timestamp_out_of_window");
    let problem = outcome(&directory, &stale, Because::ClockFixed);
    assert!(problem.contains("empty_field, providerRef is empty"), "{problem}");
    let problem =
        outcome(&directory, &quarantined(body(&PAID), "missing_field"), Because::LateRetry);
    assert!(problem.contains("refused with missing_field, and late-retry"), "{problem}");
    let mut ambiguous = PAID;
    ambiguous[2].1 = "a|b";
    let ambiguous = quarantined(body(&ambiguous), "separator_in_field");
    let problem = outcome(&directory, &ambiguous, Because::ProfileFixed);
    assert!(problem.contains("separator_in_field"), "{problem}");
}

#[test]
fn a_corrected_profile_admits_what_it_refused() {
    let with_more = {
        let body = String::from_utf8(body(&PAID)).unwrap();
        body.replacen('{', "{\"extra\":1,", 1).into_bytes()
    };
    let mut refused = quarantined(with_more, "unknown_field");
    refused.record.received_at = Time::parse(SENT).unwrap();
    let strict = [("unknown_fields = \"allow\"", "unknown_fields = \"refuse\"")];
    let before = outcome(&directory("k", SECRET, &strict), &refused, Because::ProfileFixed);
    assert!(before.contains("the profile does not admit it: unknown_field"), "{before}");
    let after = outcome(&directory("k", SECRET, &[]), &refused, Because::ProfileFixed);
    assert_eq!(after, "acme/SHOP/o-1");
}

#[test]
fn a_notice_that_its_key_does_not_verify_is_not_released() {
    let good = directory("k", SECRET, &[]);
    let stale = || quarantined(body(&PAID), "timestamp_out_of_window");
    let refused = |directory: &Directory, notice: &Quarantined| {
        let problem = outcome(directory, notice, Because::ClockFixed);
        assert!(problem.contains("key k of its account no longer verifies it"), "{problem}");
    };
    let mut altered = stale();
    altered.raw = String::from_utf8(altered.raw).unwrap().replace("150000", "950000").into_bytes();
    refused(&good, &altered);
    // The same secret under another key id, another secret under the same id, another account.
    refused(&directory("k2", SECRET, &[]), &stale());
    refused(&directory("k", b"another secret, as long as that one", &[]), &stale());
    let mut other_account = stale();
    other_account.record.account = "acme/OTHER".to_owned();
    refused(&good, &other_account);
    let mut on_path = stale();
    on_path.record.source.request.target = "/api/payment/ipn/other".to_owned();
    refused(&good, &on_path);
    on_path.record.source.request.target = "/api/payment/ipn/acme?x=1".to_owned();
    assert_eq!(outcome(&good, &on_path, Because::ClockFixed), "acme/SHOP/o-1");
}
