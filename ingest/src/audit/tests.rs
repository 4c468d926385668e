//! What the audit finds in a stored notice, and what it leaves unjudged.

use payfold_partners::document::NewKey;
use payfold_partners::mac::MacKey;
use payfold_partners::profile::{DEFAULT_PROFILE, Field};
use payfold_partners::secret::Secret;
use payfold_partners::signing;
use payfold_schemas::ids::MerchantCode;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::record::NoticeRequest;

use super::*;
use crate::admit;

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

/// A notice as the door stored it.
struct Sample {
    order: OrderKey,
    ipn: Ipn,
    source: NoticeSource,
    raw: Vec<u8>,
}

fn sample() -> Sample {
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
    let verified = directory.verify(None, &raw, sent()).unwrap();
    let admitted = admit::admit(&verified, sent()).unwrap();
    let request =
        NoticeRequest { target: "/api/payment/ipn".to_owned(), ..NoticeRequest::default() };
    let source = admit::source(&verified, request);
    Sample { order: admitted.order, ipn: admitted.ipn, source, raw: raw.clone() }
}

fn profiles() -> HashMap<Digest, String> {
    HashMap::from([(Digest::of_bytes(DEFAULT_PROFILE.as_bytes()), DEFAULT_PROFILE.to_owned())])
}

fn judged(vault: VaultDocument, sample: &Sample, received_at: Time) -> Outcome {
    let stored = Stored {
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
        says: Some((&sample.order, &sample.ipn)),
    };
    Auditor::new(profiles(), vault, String::new()).judge(stored)
}

#[test]
fn what_was_signed_is_verified_by_retired_keys_and_for_closed_accounts_too() {
    assert_eq!(judged(vault(), &sample(), sent()), Outcome::Verified);
    let mut later = vault();
    let entry = &mut later.accounts[0];
    entry.enabled = false;
    entry.retire_key(&KeyId::parse("k").unwrap(), sent().plus_ms(1)).unwrap();
    assert_eq!(judged(later, &sample(), sent()), Outcome::Verified);
}

#[test]
fn every_change_is_found() {
    let fails = |change: fn(&mut Sample), failure| {
        let mut sample = sample();
        change(&mut sample);
        assert_eq!(judged(vault(), &sample, sent()), Outcome::Fails(failure));
    };
    fails(
        |sample| {
            let text = String::from_utf8(sample.raw.clone()).unwrap();
            sample.raw = text.replacen("150000", "950000", 1).into_bytes();
        },
        Failure::NotSigned,
    );
    fails(|sample| sample.raw.clear(), Failure::NotSigned);
    fails(|sample| sample.ipn.money.amount = Amount::parse("950000").unwrap(), Failure::SaysOther);
    fails(|sample| sample.order = OrderKey::parse("acme/SHOP/o-2").unwrap(), Failure::SaysOther);
    let mut other = vault();
    other.accounts[0].keys[0].secret = Secret::from_bytes(b"another secret, long enough".to_vec());
    assert_eq!(judged(other, &sample(), sent()), Outcome::Fails(Failure::NotSigned));
    let before = sent().plus_ms(-1_001);
    assert_eq!(judged(vault(), &sample(), before), Outcome::Fails(Failure::KeyNotValid));
}

/// Older programs admitted XXX. Such a record is no forgery, and it is not verified either.
#[test]
fn a_currency_that_is_no_longer_admitted_is_not_called_altered() {
    let mut old = sample();
    old.ipn.money.currency = Currency::parse_stored("XXX").unwrap();
    let Outcome::Unusable(why) = judged(vault(), &old, sent()) else { panic!("it is judged") };
    assert!(why.contains("XXX has no minor units and is no longer admitted"), "{why}");
}

#[test]
fn what_can_t_be_judged_is_not_verified() {
    let mut gone = vault();
    gone.accounts[0].keys[0].id = KeyId::parse("k2").unwrap();
    assert_eq!(judged(gone, &sample(), sent()), Outcome::NoKey);
    assert_eq!(judged(VaultDocument::default(), &sample(), sent()), Outcome::NoKey);
    let mut other = sample();
    other.source.profile.digest = Digest::of_bytes(b"an older one");
    assert_eq!(judged(vault(), &other, sent()), Outcome::NoProfile);
}
