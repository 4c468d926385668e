//! What an audit reports for intact, altered and unusable notices.

use payfold_partners::document::NewKey;
use payfold_partners::mac::MacKey;
use payfold_partners::profile::{DEFAULT_PROFILE, Field};
use payfold_partners::scheme::NoticeRequest;
use payfold_partners::secret::Secret;
use payfold_partners::signing;
use payfold_schemas::ids::MerchantCode;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::notice_source::RecordedRequest;

use super::*;
use crate::{admit, incoming};

const SECRET: &[u8] = b"a secret of the test, long enough";
const REQUEST: &str = "01939b1c-7a00-7000-8000-000000000001";
const SENT: &str = "2026-01-31T10:00:00Z";

fn sent() -> Time {
    Time::parse(SENT).unwrap()
}

fn vault() -> VaultDocument {
    let partner = PartnerCode::parse("acme").unwrap();
    let mut entry = AccountEntry::new(partner, MerchantCode::parse("SHOP").unwrap());
    let key = NewKey {
        id: KeyId::parse("k").unwrap(),
        channel: Channel::Ipn,
        secret: Secret::from_bytes(SECRET.to_vec()),
        valid_from: sent().plus_ms(-1_000),
        overlap_ms: 0,
        created_at: sent(),
    };
    entry.add_key(key).unwrap();
    VaultDocument { accounts: vec![entry], ..VaultDocument::default() }
}

/// A notice as ingest stored it.
struct SampleNotice {
    order: OrderKey,
    ipn: Ipn,
    source: NoticeSource,
    raw: Vec<u8>,
}

fn sample() -> SampleNotice {
    let partner = PartnerCode::parse("acme").unwrap();
    let fields = [
        (Field::MerchantCode, "SHOP"),
        (Field::OrderId, "o-1"),
        (Field::ProviderRef, "r-1"),
        (Field::Status, "SUCCESS"),
        (Field::Amount, "150000"),
        (Field::Currency, "VND"),
        (Field::PaidAt, SENT),
        (Field::Timestamp, SENT),
    ];
    let value = |wanted| fields.iter().find(|(field, _)| *field == wanted).map(|found| found.1);
    let signature = signing::sign(&Profile::default_for(&partner), &MacKey::new(SECRET), value);
    let json = |(field, text): &(Field, &str)| match field {
        Field::Amount => format!("\"{field}\":{text},"),
        _ => format!("\"{field}\":\"{text}\","),
    };
    let all: String = fields.iter().map(json).collect();
    let raw = format!("{{{all}\"note\":\"-\",\"signature\":\"{signature}\"}}").into_bytes();
    let profile = Profile::default_for(&partner);
    let directory = Directory::build(vec![profile], &vault()).unwrap();
    let request = NoticeRequest { body: &raw, ..NoticeRequest::default() };
    let verified = directory.authenticate(None, &request, sent()).unwrap().notices.remove(0);
    let Admission::Admitted(admitted) = admit::admit_notice(&verified, sent()).unwrap() else {
        panic!("it is a fact")
    };
    let request =
        RecordedRequest { target: "/api/payment/ipn".to_owned(), ..RecordedRequest::default() };
    let source = incoming::build_notice_source(&verified, request);
    SampleNotice { order: admitted.order, ipn: admitted.ipn, source, raw: raw.clone() }
}

fn profiles() -> HashMap<Digest, String> {
    HashMap::from([(Digest::of_bytes(DEFAULT_PROFILE.as_bytes()), DEFAULT_PROFILE.to_owned())])
}

fn audit(vault: VaultDocument, sample: &SampleNotice, received_at: Time) -> AuditOutcome {
    let stored = StoredNotice {
        account: "acme/SHOP",
        source: &sample.source,
        raw: &sample.raw,
        raw_key_id: None,
        delivery: Delivery {
            partner: "acme",
            merchant_code: "SHOP",
            request_id: REQUEST.parse().unwrap(),
        },
        received_at,
        recorded: Some((&sample.order, &sample.ipn)),
    };
    Auditor::new(profiles(), vault, String::new()).audit_notice(stored)
}

#[test]
fn retired_keys_and_disabled_accounts_still_verify() {
    assert_eq!(audit(vault(), &sample(), sent()), AuditOutcome::Verified);
    let mut later = vault();
    let entry = &mut later.accounts[0];
    entry.enabled = false;
    entry.retire_key(&KeyId::parse("k").unwrap(), sent().plus_ms(1)).unwrap();
    assert_eq!(audit(later, &sample(), sent()), AuditOutcome::Verified);
}

#[test]
fn every_alteration_is_reported() {
    let fails = |change: fn(&mut SampleNotice), failure| {
        let mut sample = sample();
        change(&mut sample);
        assert_eq!(audit(vault(), &sample, sent()), AuditOutcome::Fails(failure));
    };
    fails(
        |sample| {
            let text = String::from_utf8(sample.raw.clone()).unwrap();
            sample.raw = text.replacen("150000", "950000", 1).into_bytes();
        },
        AuditFailure::NotSigned,
    );
    fails(|sample| sample.raw.clear(), AuditFailure::NotSigned);
    fails(
        |sample| sample.ipn.money.amount = Amount::parse("950000").unwrap(),
        AuditFailure::ContentDiffers,
    );
    fails(
        |sample| sample.order = OrderKey::parse("acme/SHOP/o-2").unwrap(),
        AuditFailure::ContentDiffers,
    );
    let mut other = vault();
    other.accounts[0].keys[0].secret = Secret::from_bytes(b"another secret, long enough".to_vec());
    assert_eq!(audit(other, &sample(), sent()), AuditOutcome::Fails(AuditFailure::NotSigned));
    let before = sent().plus_ms(-1_001);
    assert_eq!(audit(vault(), &sample(), before), AuditOutcome::Fails(AuditFailure::KeyNotValid));
}

/// Older versions admitted XXX. Such a record is reported neither as altered nor as verified.
#[test]
fn a_currency_that_is_no_longer_admitted_is_not_an_alteration() {
    let mut old = sample();
    old.ipn.money.currency = Currency::parse_stored("XXX").unwrap();
    let AuditOutcome::Unusable(why) = audit(vault(), &old, sent()) else {
        panic!("its content is compared")
    };
    assert!(why.contains("XXX has no minor units and is no longer admitted"), "{why}");
}

#[test]
fn a_notice_without_its_key_or_profile_is_not_verified() {
    let mut gone = vault();
    gone.accounts[0].keys[0].id = KeyId::parse("k2").unwrap();
    assert_eq!(audit(gone, &sample(), sent()), AuditOutcome::NoKey);
    assert_eq!(audit(VaultDocument::default(), &sample(), sent()), AuditOutcome::NoKey);
    let mut other = sample();
    other.source.profile.digest = Digest::of_bytes(b"an older one");
    assert_eq!(audit(vault(), &other, sent()), AuditOutcome::NoProfile);
}
