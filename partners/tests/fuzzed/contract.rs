//! Owns the check of the default scheme and of partners' answers: no body, query string or answer
//! makes them panic, fields have the values that another JSON parser finds, and only a signature of
//! the known key is accepted.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use payfold_partners::directory::Directory;
use payfold_partners::mac;
use payfold_partners::mac::MacKey;
use payfold_partners::notice::{Notice, ScalarKind};
use payfold_partners::profile::{Field, Profile};
use payfold_partners::query::PaymentQuery;
use payfold_partners::scheme::{NoticeRequest, RequestedSession};
use payfold_schemas::ids::{MerchantCode, OrderId, PartnerCode};
use serde_json::value::RawValue;

use super::known::{MERCHANT, PARTNER, directory};
use super::wire::Wire;
use super::{Depth, NOW, OTHER_SECRET, SECRET};

struct Contract {
    ours: Directory,
    strangers: Directory,
    profile: Profile,
    key: MacKey,
    payment_query: PaymentQuery,
}

static CONTRACT: LazyLock<Contract> = LazyLock::new(|| {
    let partner = PartnerCode::parse(PARTNER).expect("a partner code");
    let profile = Profile::sandbox_for(&partner);
    let of = |secret| directory(profile.clone(), "", secret).expect("the key fits");
    Contract {
        ours: of(SECRET),
        strangers: of(OTHER_SECRET),
        key: MacKey::new(SECRET.as_bytes()),
        payment_query: PaymentQuery {
            merchant_code: MerchantCode::parse(MERCHANT).expect("a merchant code"),
            order_id: OrderId::parse("o-1").expect("an order id"),
            provider_ref: None,
        },
        profile,
    }
});

/// Tries the bytes as a notice's body, a return's query string, and an answer.
pub fn contract(bytes: &[u8], depth: Depth) {
    let all = &*CONTRACT;
    let signed = signed(all, bytes);
    let body = signed.as_deref().unwrap_or(bytes);
    let request = NoticeRequest { body, ..NoticeRequest::default() };
    for partner in [None, Some(PARTNER)] {
        if let Ok(verified) = all.ours.authenticate(partner, &request, NOW) {
            let content = verified.notices[0].content();
            assert!(signed.is_some(), "accepted without a signature of the key: {content:?}");
        }
        let strangers = all.strangers.authenticate(partner, &request, NOW);
        assert!(strangers.is_err(), "accepted under a key that has signed nothing");
    }
    if depth == Depth::Explained {
        let _ = all.ours.explain(PARTNER, &request, NOW);
    }
    check_against_serde(all, body);
    if let Ok(query) = std::str::from_utf8(bytes) {
        let is_known = all.ours.verify_return(query, NOW);
        assert!(is_known.is_none(), "accepted a return that is not signed");
    }
    let account = &all.ours.accounts()[0];
    let asked = RequestedSession {
        order_id: all.payment_query.order_id.clone(),
        expires_at: NOW,
        presentation: None,
    };
    let _ = account.judge_offer(&asked, bytes, NOW);
    let _ = account.judge_answer(&all.payment_query, bytes);
}

/// The body with the signature of its fields in place of the mark; `None` if it has no mark.
fn signed(all: &Contract, bytes: &[u8]) -> Option<Vec<u8>> {
    let wire = Wire { body: bytes.to_vec(), ..Wire::default() };
    if !wire.has_mark() {
        return None;
    }
    let notice = Notice::parse(bytes, all.profile.limits()).ok()?;
    let text = text(&all.profile, |field| notice.signing_value(field).unwrap_or_default());
    let signature = mac::HexCase::Lower.write(&all.key.sign(text.as_bytes()));
    Some(wire.with_signature(&signature).body)
}

/// A second implementation of the signing text (contract 5).
fn text<'v>(profile: &Profile, value: impl Fn(Field) -> &'v str) -> String {
    let values: Vec<&str> = profile.signed_fields().iter().map(|field| value(*field)).collect();
    values.join(&char::from(profile.separator()).to_string())
}

/// Checks that `serde_json` finds the same values.
fn check_against_serde(all: &Contract, body: &[u8]) {
    let Ok(notice) = Notice::parse(body, all.profile.limits()) else { return };
    let read: BTreeMap<String, Box<RawValue>> =
        serde_json::from_slice(body).expect("what is taken is JSON");
    for field in Field::ALL {
        let other = read.get(field.name()).map(|raw| raw.get());
        match notice.field(field) {
            Some(scalar) if scalar.kind == ScalarKind::String => {
                let text: Option<String> = other.and_then(|raw| serde_json::from_str(raw).ok());
                assert_eq!(text.as_deref(), Some(scalar.text));
            }
            Some(scalar) => assert_eq!(other, Some(scalar.text)),
            None => assert!(other.is_none() || notice.is_composite(field)),
        }
    }
}
