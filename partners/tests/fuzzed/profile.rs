//! Owns the check of the profile language: no text panics, a wrong one says where it is wrong, and what is taken can be
//! shown, can have an account, judges a notice and reads books.

use payfold_partners::create::CreateRequest;
use payfold_partners::directory::Directory;
use payfold_partners::profile::Profile;
use payfold_partners::scheme::Ack;
use payfold_schemas::ids::{MerchantCode, OrderId, PartnerCode};
use payfold_schemas::money::{Amount, Currency};

use super::known::{MERCHANT, PARTNER, directory};
use super::wire::Wire;
use super::{Depth, NOW, SECRET};

/// As checkout makes it.
const ORDER_ID: &str = "ord-019c137e-c100-7abc-8000-00000000000f";

/// Bytes up to the first 0 are a profile, those behind it a request to its partner.
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
        let again = Profile::parse(&partner, text).expect("what is taken once is taken again");
        assert_eq!(profile.digest(), again.digest());
    }
    if let Some(scheme) = profile.scheme() {
        assert!(!scheme.describe().is_empty(), "somebody signs, or nobody does and it says so");
        assert_eq!(scheme.exceptions_explained(&profile).len(), scheme.exceptions().len());
        let _ = (scheme.describe_query(), scheme.describe_create());
        assert!(scheme.headers().iter().all(|name| !name.is_empty()));
        for ack in Ack::ALL {
            let _ = scheme.acks().plain(ack);
        }
    }
    if let Some(records) = profile.records() {
        assert!(!records.describe().is_empty());
        let _ = records.read(request, &mut |_| {});
    }
    // A key may not fit, then the account has its problem and says so.
    let Ok(directory) = directory(profile, text, SECRET) else { return };
    creates(&directory, text);
    judge(&directory, Wire::read(request), depth);
}

/// What a create would send is put together, goes where the profile says, and shows no key; or it is told why not.
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
            wish: None,
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

/// A notice is judged and, where `depth` says so, explained alike; it comes back with its signature where one was
/// wanted.
pub fn judge(directory: &Directory, wire: Wire, depth: Depth) -> Wire {
    let signature = wire.has_mark().then(|| wire.signature(directory, PARTNER)).flatten();
    let wire = signature.map(|signature| wire.with_signature(&signature)).unwrap_or(wire);
    let is_own = directory.scheme(PARTNER).is_some();
    let explained = match depth {
        Depth::Explained if is_own => directory.explain(PARTNER, &wire.request(), NOW),
        Depth::Explained => {
            let _ = directory.explain_contract(PARTNER, &wire.body, NOW);
            None
        }
        Depth::Judged => None,
    };
    if !is_own {
        let _ = directory.verify(Some(PARTNER), &wire.body, NOW);
        return wire;
    }
    let taken = directory.verify_scheme(PARTNER, &wire.request(), NOW);
    if let Some(explained) = explained {
        let verdict = &explained.verdict;
        let is_taken = verdict.starts_with("signed") || verdict.starts_with("not signed, which");
        let is_read = !verdict.starts_with("405") && !verdict.starts_with("415");
        assert!(is_taken == taken.is_ok() || !is_read, "{verdict}");
    }
    for notice in taken.iter().flatten() {
        assert_eq!(notice.account().merchant_code().as_str(), MERCHANT);
        for ack in Ack::ALL {
            let _ = notice.answer(ack);
        }
    }
    wire
}
