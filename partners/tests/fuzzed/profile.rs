//! Owns the check of the profile language. No text makes the parser panic. A mistake is reported
//! with its place. An accepted profile can be described, have an account, judge a notice and read a
//! partner's file.

use payfold_partners::create::CreateRequest;
use payfold_partners::directory::Directory;
use payfold_partners::profile::Profile;
use payfold_partners::scheme::AckKind;
use payfold_schemas::ids::{MerchantCode, OrderId, PartnerCode};
use payfold_schemas::money::{Amount, Currency};

use super::known::{MERCHANT, PARTNER, directory};
use super::wire::Wire;
use super::{Depth, NOW, SECRET};

/// An order id as checkout creates it.
const ORDER_ID: &str = "ord-019c137e-c100-7abc-8000-00000000000f";

/// The bytes up to the first 0 are a profile, those after it a request of its partner.
pub fn profile(bytes: &[u8], depth: Depth) {
    let end = bytes.iter().position(|byte| *byte == 0);
    let (text, request) = match end {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[][..]),
    };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let partner = PartnerCode::parse(PARTNER).expect("a partner code");
    let profile = match Profile::parse(&partner, text) {
        Ok(profile) => profile,
        Err(error) => {
            let lines = text.split('\n').count();
            for error in error.others.iter().chain([&error]) {
                assert!((1..=lines + 1).contains(&error.line), "line {} of {lines}", error.line);
                assert!(error.column > 0 && !error.problem.is_empty());
            }
            return;
        }
    };
    if depth == Depth::Explained {
        let second = Profile::parse(&partner, text).expect("an accepted profile is accepted again");
        assert_eq!(profile.digest(), second.digest());
    }
    let scheme = profile.scheme();
    assert!(!scheme.describe().is_empty(), "it says how notices are signed, or that they are not");
    assert_eq!(scheme.exceptions_explained(&profile).len(), scheme.exceptions().len());
    let _ = (scheme.describe_query(), scheme.describe_create());
    assert!(scheme.headers().iter().all(|name| !name.is_empty()));
    for ack in AckKind::ALL {
        let _ = scheme.acks().plain(ack);
    }
    if let Some(records) = profile.records() {
        assert!(!records.describe().is_empty());
        let _ = records.read(request, &mut |_| {});
    }
    // The key may not fit the profile. Building the directory then fails, as it should.
    let Ok(directory) = directory(profile, text, SECRET) else { return };
    creates(&directory, text);
    judge(&directory, Wire::read(request), depth);
}

/// Checks that a create call goes to the address that the profile gives and shows no key, or that
/// its draft is refused with a reason.
fn creates(directory: &Directory, text: &str) {
    for (amount, currency) in [(150_000, "VND"), (15_000_000, "IDR"), (1_050, "USD")] {
        let request = CreateRequest {
            merchant_code: MerchantCode::parse(MERCHANT).expect("a merchant code"),
            order_id: OrderId::parse(ORDER_ID).expect("an order id"),
            amount: Amount::from_minor(amount).expect("an amount"),
            currency: Currency::parse(currency).expect("a currency"),
            description: "Hai vé \"A&B\" \\ {x} / .. ".to_owned(),
            return_url: "https://pay.example/r".to_owned(),
            ipn_url: "https://pay.example/n".to_owned(),
            expires_at: None,
            presentation: None,
            reference: None,
            payer_ip: Some(std::net::Ipv4Addr::LOCALHOST.into()),
        };
        for account in directory.accounts() {
            let Ok(draft) = account.draft_create("https://api.example", &request, NOW) else {
                continue;
            };
            assert!(draft.expires_at > NOW);
            for sent in draft.token.iter().chain([&draft.create]) {
                assert!(sent.url.starts_with("https://api.example/") || text.contains("base"));
                let headers = sent.headers.iter().map(|(_, value)| value);
                let mut shown = headers.chain([&sent.url, &sent.body]).chain(&sent.signing_text);
                assert!(text.contains(SECRET) || !shown.any(|part| part.contains(SECRET)));
            }
        }
    }
}

/// Judges a notice, and if `depth` says so, checks that its explanation agrees. Returns the notice,
/// with its signature in place of the mark.
pub fn judge(directory: &Directory, wire: Wire, depth: Depth) -> Wire {
    let signature = wire.has_mark().then(|| wire.signature(directory, PARTNER)).flatten();
    let wire = signature.map(|signature| wire.with_signature(&signature)).unwrap_or(wire);
    let explained = match depth {
        Depth::Explained => directory.explain(PARTNER, &wire.request(), NOW),
        Depth::Judged => None,
    };
    let taken = directory.authenticate(Some(PARTNER), &wire.request(), NOW);
    if let Some(explained) = explained {
        let verdict = &explained.verdict;
        let is_taken = verdict.starts_with("signed") || verdict.starts_with("not signed, which");
        let is_read = !verdict.starts_with("405") && !verdict.starts_with("415");
        assert!(is_taken == taken.is_ok() || !is_read, "{verdict}");
    }
    for notice in taken.iter().flat_map(|verified| &verified.notices) {
        assert_eq!(notice.account().merchant_code().as_str(), MERCHANT);
        for ack in AckKind::ALL {
            let _ = notice.answer(ack);
        }
    }
    wire
}
