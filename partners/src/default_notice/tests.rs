//! Owns the tests of notices of the default scheme: which account and key a body belongs to, what
//! is refused, and the content that is read.

use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};
use payfold_schemas::notice_source::ProfileStamp;

use super::*;
use crate::document::{AccountEntry, NewKey, VaultDocument};
use crate::keys::Channel;
use crate::profile::DEFAULT_PROFILE;
use crate::secret::Secret;
use crate::signing::sign;

const NOW: Time = Time::from_unix_ms(1_769_853_600_000);

fn secret(name: &str) -> Secret {
    Secret::from_bytes(format!("a secret of 24 bytes at least: {name}").into_bytes())
}

fn partner(code: &str) -> PartnerCode {
    PartnerCode::parse(code).unwrap()
}

/// An account with one key. The key's id is also the name of its secret. The key is valid since a
/// minute before `NOW`.
fn account(partner_code: &str, merchant: &str, key: &str) -> AccountEntry {
    let merchant = MerchantCode::parse(merchant).unwrap();
    let mut account = AccountEntry::new(partner(partner_code), merchant);
    account.add_key(new_key(key, NOW.plus_ms(-60_000), 0)).unwrap();
    account
}

fn new_key(id: &str, valid_from: Time, overlap_ms: i64) -> NewKey {
    let id = KeyId::parse(id).unwrap();
    NewKey {
        secret: secret(id.as_str()),
        id,
        channel: Channel::Ipn,
        valid_from,
        overlap_ms,
        created_at: NOW,
    }
}

/// acme/SHOP with key a, acme/SHOP-2 with key a2, bolt/SHOP with key b, acme/GONE disabled with
/// key g.
fn directory() -> Directory {
    let mut gone = account("acme", "GONE", "g");
    gone.enabled = false;
    let accounts = vec![
        account("acme", "SHOP", "a"),
        gone,
        account("acme", "SHOP-2", "a2"),
        account("bolt", "SHOP", "b"),
    ];
    build(accounts)
}

fn build(accounts: Vec<AccountEntry>) -> Directory {
    let profiles = ["acme", "bolt"].map(|code| Profile::default_for(&partner(code)));
    let vault = VaultDocument { accounts, ..VaultDocument::default() };
    Directory::build(profiles.into(), &vault).unwrap()
}

/// The fields of an IPN as JSON text, to be changed before they are signed.
type IpnFields = Vec<(Field, String)>;

fn fields(merchant: &str) -> IpnFields {
    let source = |field| match field {
        Field::MerchantCode => format!("\"{merchant}\""),
        Field::Amount => "150000".to_owned(),
        Field::Status => "\"SUCCESS\"".to_owned(),
        Field::Currency => "\"VND\"".to_owned(),
        Field::PaidAt | Field::Timestamp => "\"2026-01-31T10:00:00Z\"".to_owned(),
        Field::OrderId | Field::ProviderRef | Field::Nonce | Field::Signature => {
            format!("\"{field}-1\"")
        }
    };
    let signed = Field::ALL.into_iter().filter(|field| *field != Field::Signature);
    signed.map(|field| (field, source(field))).collect()
}

/// The body of these fields, signed with the secret of this name.
fn signed(fields: &IpnFields, key: &str) -> Vec<u8> {
    let value_of = |wanted: Field| {
        let source = &fields.iter().find(|(field, _)| *field == wanted)?.1;
        Some(source.trim_matches('"')).filter(|_| source != "null")
    };
    let profile = Profile::default_for(&partner("acme"));
    let signature = sign(&profile, &MacKey::new(secret(key).expose()), value_of);
    let mut entries: Vec<_> =
        fields.iter().map(|(f, source)| format!("\"{f}\":{source}")).collect();
    entries.push(format!("\"signature\":\"{signature}\""));
    format!("{{{}}}", entries.join(",")).into_bytes()
}

/// The amount of a notice that can be admitted.
fn amount_of(notice: &VerifiedNotice) -> String {
    match notice.content() {
        Ok(NoticeContent::Event(event)) => event.money.amount.to_string(),
        other => panic!("no event: {other:?}"),
    }
}

/// Why a notice with a valid signature can't be admitted.
fn fault_of(directory: &Directory, body: &[u8]) -> (FaultKind, String) {
    let notice = directory.verify_default_scheme(None, body, NOW).unwrap();
    let fault = notice.content().unwrap_err();
    (fault.kind, fault.detail.clone().unwrap_or_default())
}

#[test]
fn a_signed_notice_is_verified_and_read() {
    let directory = directory();
    let body = signed(&fields("SHOP"), "b");
    for route in [None, Some("bolt")] {
        let ipn = directory.verify_default_scheme(route, &body, NOW).unwrap();
        assert_eq!(ipn.account().partner().as_str(), "bolt");
        assert_eq!(ipn.account().index(), 3);
        assert_eq!(ipn.key_id().as_str(), "b");
        assert_eq!(amount_of(&ipn), "150000");
        let stamp = ProfileStamp {
            partner: partner("bolt"),
            version: 1,
            digest: payfold_schemas::digest::Digest::of_bytes(DEFAULT_PROFILE.as_bytes()),
        };
        assert_eq!(*ipn.profile().stamp(), stamp);
    }
}

/// The fields with another value for one of them; an empty value leaves the field out.
fn with(mut fields: IpnFields, field: Field, source: &str) -> IpnFields {
    fields.retain(|(other, _)| *other != field || !source.is_empty());
    for (other, value) in &mut fields {
        if *other == field {
            source.clone_into(value);
        }
    }
    fields
}

fn code(directory: &Directory, route: Option<&str>, body: &[u8]) -> String {
    match directory.verify_default_scheme(route, body, NOW) {
        Ok(ipn) => format!("{}/{}", ipn.account().partner(), ipn.key_id()),
        Err(rejection) => {
            assert_eq!(rejection.detail(), None);
            rejection.to_string()
        }
    }
}

/// Route (`-` is the shared one), merchantCode as JSON, signing key => the partner and key, or
/// the code of the refusal.
const ROUTES: &str = r#"
    -      "SHOP"    a   => acme/a
    -      "SHOP"    b   => bolt/b
    -      "SHOP-2"  a2  => acme/a2
    acme   "SHOP"    a   => acme/a
    acme   "SHOP"    b   => unauthenticated
    bolt   "SHOP"    a   => unauthenticated
    bolt   "SHOP-2"  a2  => unauthenticated
    absent "SHOP"    a   => unauthenticated
    ACME   "SHOP"    a   => unauthenticated
    -      "SHOP"    a2  => unauthenticated
    -      "SHOP"    z   => unauthenticated
    -      "shop"    a   => unauthenticated
    -      "NONE"    a   => unauthenticated
    -      "GONE"    g   => unauthenticated
    acme   "GONE"    g   => unauthenticated
    acme   -         g   => unauthenticated
    -      ["SHOP"]  a   => unauthenticated
    -      12        a   => unauthenticated
    acme   -         a2  => acme/a2
    acme   null      a2  => acme/a2
    acme   ""        a2  => acme/a2
    -      -         b   => bolt/b
    -      -         z   => unauthenticated
    bolt   -         a   => unauthenticated
    absent -         a   => unauthenticated
"#;

#[test]
fn a_notice_belongs_to_the_account_with_the_key_that_signed_it() {
    let directory = directory();
    for case in ROUTES.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let [route, merchant, key, _, expected] =
            case.split_whitespace().collect::<Vec<_>>().try_into().unwrap();
        let merchant = if merchant == "-" { "" } else { merchant };
        let body = signed(&with(fields("SHOP"), Field::MerchantCode, merchant), key);
        let route = Some(route).filter(|route| *route != "-");
        assert_eq!(code(&directory, route, &body), expected, "{case}");
    }
    let body = signed(&fields("SHOP"), "a");
    assert_eq!(code(&build(Vec::new()), None, &body), "unauthenticated");
}

fn swap_case(text: &str) -> String {
    let swap = |c: char| {
        if c.is_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
    };
    text.chars().map(swap).collect()
}

#[test]
fn a_notice_with_one_altered_field_is_refused() {
    let directory = directory();
    let authentic = String::from_utf8(signed(&fields("SHOP"), "a")).unwrap();
    for (field, source) in fields("SHOP") {
        let from = format!("\"{field}\":{source}");
        assert!(authentic.contains(&from));
        let text = source.trim_matches('"');
        for to in [
            format!("\"{text}x\""),
            format!("\"{}\"", &text[1..]),
            format!("\" {text}\""),
            format!("\"{}\"", swap_case(text)),
            "null".to_owned(),
            "\"\"".to_owned(),
            "{}".to_owned(),
            format!("[{source}]"),
            "1500000".to_owned(),
            "true".to_owned(),
        ] {
            if to == format!("\"{text}\"") {
                continue;
            }
            let body = authentic.replace(&from, &format!("\"{field}\":{to}"));
            assert_eq!(code(&directory, None, body.as_bytes()), "unauthenticated", "{body}");
        }
        let body = authentic.replace(&format!("{from},"), "");
        assert_eq!(code(&directory, None, body.as_bytes()), "unauthenticated", "{body}");
    }
}

#[test]
fn a_signature_must_be_in_the_format_of_the_profile() {
    let directory = directory();
    let authentic = String::from_utf8(signed(&fields("SHOP"), "a")).unwrap();
    let (before, signature) = authentic.split_once("\"signature\":").unwrap();
    let signature = signature.trim_end_matches('}');
    let hex = signature.trim_matches('"');
    for spelling in [
        format!("\"{}\"", hex.to_uppercase()),
        format!("\"{}\"", &hex[1..]),
        format!("\"{hex}0\""),
        format!("\" {hex}\""),
        format!("\"{}\"", "0".repeat(64)),
        format!("[{signature}]"),
        "\"\"".to_owned(),
        "null".to_owned(),
        "12".to_owned(),
        "true".to_owned(),
    ] {
        let body = format!("{before}\"signature\":{spelling}}}");
        assert_eq!(code(&directory, None, body.as_bytes()), "unauthenticated", "{body}");
    }
    let body = format!("{}}}", before.trim_end_matches(','));
    assert_eq!(code(&directory, None, body.as_bytes()), "unauthenticated");
    let escaped = format!("\\u00{:02x}{}", hex.as_bytes()[0], &hex[1..]);
    let body = format!("{before}\"signature\":\"{escaped}\"}}");
    assert_eq!(code(&directory, None, body.as_bytes()), "acme/a");
}

#[test]
fn verification_does_not_check_the_content() {
    let directory = directory();
    for (field, source) in [
        (Field::Amount, "1e3"),
        (Field::Amount, "\"150000\""),
        (Field::Status, "true"),
        (Field::OrderId, "null"),
        (Field::OrderId, ""),
        (Field::Nonce, "\"\""),
        (Field::Currency, "\"đ\""),
    ] {
        let body = signed(&with(fields("SHOP"), field, source), "a");
        assert_eq!(code(&directory, None, &body), "acme/a", "{field} {source}");
    }
    // An object is signed as an absent field is, so the signing text stays the same.
    let absent = signed(&with(fields("SHOP"), Field::Nonce, ""), "a");
    let mut composite = String::from_utf8(absent).unwrap();
    composite.insert_str(1, "\"nonce\":{},");
    assert_eq!(code(&directory, None, composite.as_bytes()), "unauthenticated");
    let body = signed(&with(fields("SHOP"), Field::PaidAt, "null"), "a");
    assert_eq!(fault_of(&directory, &body), (FaultKind::Missing, "paidAt is required".to_owned()));
}

#[test]
fn a_separator_in_a_signed_value_is_reported() {
    let body = signed(&with(fields("SHOP"), Field::ProviderRef, "\"a|b\""), "a");
    let directory = directory();
    assert_eq!(fault_of(&directory, &body), (FaultKind::Ambiguous, "in providerRef".to_owned()));
}

#[test]
fn an_old_key_is_valid_during_its_overlap() {
    let mut shop = account("acme", "SHOP", "old");
    shop.add_key(new_key("new", NOW, 5_000)).unwrap();
    let directory = build(vec![shop]);
    let key_at = |key, now| {
        let body = signed(&fields("SHOP"), key);
        directory.verify_default_scheme(None, &body, now).ok().map(|ipn| ipn.key_id().to_string())
    };
    let just_before = |time: Time| Time::from_unix_nanos(time.unix_nanos() - 1);
    let body = signed(&fields("SHOP"), "new");
    let early = directory.verify_default_scheme(None, &body, just_before(NOW)).unwrap();
    assert_eq!((early.key_id().as_str(), early.key_begins()), ("new", Some(NOW)));
    assert_eq!(directory.verify_default_scheme(None, &body, NOW).unwrap().key_begins(), None);
    for (key, now, counts) in [
        ("new", NOW, true),
        ("old", NOW, true),
        ("old", just_before(NOW.plus_ms(5_000)), true),
        ("old", NOW.plus_ms(5_000), false),
    ] {
        assert_eq!(key_at(key, now), counts.then(|| key.to_owned()), "{key} at {now}");
    }
}

#[test]
fn a_body_that_can_t_be_parsed_has_its_code_on_every_route() {
    let directory = directory();
    for (body, expected) in [("", "empty_body"), ("[]", "not_an_object")] {
        for route in [None, Some("acme"), Some("absent")] {
            assert_eq!(code(&directory, route, body.as_bytes()), expected);
        }
    }
    let mut unknown = String::from_utf8(signed(&fields("SHOP"), "a")).unwrap();
    unknown.insert_str(1, "\"extra\":{\"amount\":1},\"note\":null,");
    let ipn = directory.verify_default_scheme(None, unknown.as_bytes(), NOW).unwrap();
    assert_eq!(ipn.unknown_fields(), 2);
    assert_eq!(amount_of(&ipn), "150000");
}
