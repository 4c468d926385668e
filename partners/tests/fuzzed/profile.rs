//! Owns the check of the profile language: no text panics, a wrong one says where it is wrong, and what is taken can be
//! shown, can have an account, judges a notice and reads books.

use payfold_partners::directory::Directory;
use payfold_partners::profile::Profile;
use payfold_partners::scheme::Ack;
use payfold_schemas::ids::PartnerCode;

use super::known::{MERCHANT, PARTNER, directory};
use super::wire::Wire;
use super::{NOW, SECRET};

/// Bytes up to the first 0 are a profile, those behind it a request to its partner.
pub fn profile(bytes: &[u8]) {
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
    let again = Profile::parse(&partner, text).expect("what is taken once is taken again");
    assert_eq!(profile.digest(), again.digest());
    if let Some(scheme) = profile.scheme() {
        assert!(!scheme.describe().is_empty(), "somebody signs, or nobody does and it says so");
        assert_eq!(scheme.exceptions_explained(&profile).len(), scheme.exceptions().len());
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
    judge(&directory, Wire::read(request));
}

/// A notice is judged and explained alike; it comes back with its signature where one was wanted.
pub fn judge(directory: &Directory, wire: Wire) -> Wire {
    let signature = wire.has_mark().then(|| wire.signature(directory, PARTNER)).flatten();
    let wire = signature.map(|signature| wire.with_signature(&signature)).unwrap_or(wire);
    let Some(explained) = directory.explain(PARTNER, &wire.request(), NOW) else {
        let _ = directory.verify(Some(PARTNER), &wire.body, NOW);
        let _ = directory.explain_contract(PARTNER, &wire.body, NOW);
        return wire;
    };
    match directory.verify_scheme(PARTNER, &wire.request(), NOW) {
        Err(_) => assert!(!explained.verdict.starts_with("signed"), "{}", explained.verdict),
        Ok(notices) => {
            assert!(explained.verdict.starts_with("signed"), "{}", explained.verdict);
            for notice in &notices {
                assert_eq!(notice.account().merchant_code().as_str(), MERCHANT);
                for ack in Ack::ALL {
                    let _ = notice.answer(ack);
                }
            }
        }
    }
    wire
}
