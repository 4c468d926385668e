//! Owns the check of the contract's own scheme and of what partners answer: no body, query or answer panics, what is
//! read is what JSON says, nobody else's signature counts, and a signed text has one meaning.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use payfold_partners::directory::Directory;
use payfold_partners::mac::MacKey;
use payfold_partners::notice::{Notice, ScalarKind};
use payfold_partners::outbound::Reach;
use payfold_partners::profile::{Field, Profile};
use payfold_partners::query::{Question, judge as judge_answer};
use payfold_partners::{create, mac};
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
    question: Question,
}

static CONTRACT: LazyLock<Contract> = LazyLock::new(|| {
    let partner = PartnerCode::parse(PARTNER).expect("a partner code");
    let profile = Profile::sandbox_for(&partner);
    let of = |secret| directory(profile.clone(), "", secret).expect("the key fits");
    Contract {
        ours: of(SECRET),
        strangers: of(OTHER_SECRET),
        key: MacKey::new(SECRET.as_bytes()),
        question: Question {
            merchant_code: MerchantCode::parse(MERCHANT).expect("a merchant code"),
            order_id: OrderId::parse("o-1").expect("an order id"),
            provider_ref: None,
        },
        profile,
    }
});

/// The bytes are a body, a query and an answer.
pub fn contract(bytes: &[u8], depth: Depth) {
    let all = &*CONTRACT;
    let signed = signed(all, bytes);
    let body = signed.as_deref().unwrap_or(bytes);
    for partner in [None, Some(PARTNER)] {
        let ours = all.ours.verify(partner, body, NOW);
        if let Ok(verified) = &ours {
            let known = [Field::OrderId, Field::Amount].map(|field| verified.field(field));
            assert!(signed.is_some(), "a signature that nobody here made: {known:?}");
        }
        let strangers = all.strangers.verify(partner, body, NOW);
        assert!(strangers.is_err(), "taken under a key that has signed nothing");
    }
    if depth == Depth::Explained {
        let _ = all.ours.explain_contract(PARTNER, body, NOW);
    }
    as_json_says(all, body);
    if let Ok(query) = std::str::from_utf8(bytes) {
        let is_known = all.ours.verify_return(query, NOW);
        assert!(is_known.is_none(), "a return that nobody here signed");
    }
    let _ = create::judge(bytes, Reach::Public, NOW);
    let _ = create::judge(bytes, Reach::Sandbox, NOW);
    let rule = all.profile.query().expect("the sandbox answers queries");
    let _ = judge_answer(bytes, &all.question, rule);
}

/// The body with the signature of its fields, where it has the mark.
fn signed(all: &Contract, bytes: &[u8]) -> Option<Vec<u8>> {
    let wire = Wire { body: bytes.to_vec(), ..Wire::default() };
    if !wire.has_mark() {
        return None;
    }
    let notice = Notice::parse(bytes, all.profile.limits()).ok()?;
    let text = text(&all.profile, |field| notice.signing_value(field).unwrap_or_default());
    let signature = mac::Output::HexLower.write(&all.key.sign(text.as_bytes()));
    Some(wire.with_signature(&signature).body)
}

/// The text of the contract's section 5, put together once more.
fn text<'v>(profile: &Profile, value: impl Fn(Field) -> &'v str) -> String {
    let values: Vec<&str> = profile.signed_fields().iter().map(|field| value(*field)).collect();
    values.join(&char::from(profile.separator()).to_string())
}

/// What a parsed notice holds is what another reader of JSON finds there.
fn as_json_says(all: &Contract, body: &[u8]) {
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
