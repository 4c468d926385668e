//! Requests that claim many signatures: what comparing them costs, and how many are compared.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::attacks::TEXT;
use super::*;
use crate::scheme::crypt::counted::count;

const BODY: &str = r#"{"m":"SHOP","state":"paid","o":"o-1","r":"r-1","a":100}"#;

/// A profile with signatures apart by commas in one header, each behind `v1=`.
fn profile() -> String {
    let signed = TEXT.replace("TEXT", "{body}").replace("[map]", "[map]\nmerchant = \"{f.m}\"");
    let several = signed.replace("output =", "split = \",\"\nprefix = \"v1=\"\noutput =");
    HEAD.to_owned() + &several + TAIL
}

/// The verdict on claims in one header, and how many signatures were computed or checked for it.
fn judged(directory: &Directory, claims: &[String]) -> (String, usize) {
    let header: Vec<_> = claims.iter().map(|claim| format!("v1={claim}")).collect();
    let header = header.join(",");
    count(|| verdict(directory, &post(BODY, &[("X-Sig", header.as_str())])))
}

#[test]
fn a_key_makes_one_mac_however_many_signatures_are_claimed() {
    let directory = directory(&profile());
    let junk = |count: usize| (0..count).map(|n| sha256(&n.to_string())).collect::<Vec<_>>();
    for count in [1, 2, 8] {
        let refused = judged(&directory, &junk(count));
        assert_eq!(refused, ("unauthenticated".to_owned(), 1), "{count} claims");
    }
    let too_many = judged(&directory, &junk(2_000));
    assert_eq!(too_many, ("unauthenticated".to_owned(), 0), "none of them is compared");
}

#[test]
fn a_signature_counts_behind_seven_others_and_not_behind_eight() {
    let directory = directory(&profile());
    let mut claims: Vec<_> = (0..7).map(|n| sha256(&n.to_string())).collect();
    claims.push(sha256(BODY));
    assert_eq!(judged(&directory, &claims).0, "o-1 SUCCESS 100 VND r-1");
    claims.insert(0, sha256("one more"));
    assert_eq!(judged(&directory, &claims).0, "unauthenticated");

    let header = claims.iter().map(|claim| format!("v1={claim}")).collect::<Vec<_>>().join(",");
    let headers = [("X-Sig", header.as_str())];
    let (explained, checks) = count(|| directory.explain("acme", &post(BODY, &headers), NOW));
    let explained = explained.unwrap();
    assert_eq!(
        explained.verdict,
        "unauthenticated: the request has more than 8 signatures where [[sign]] sign-1 looks, and none of them is compared; a \
         partner sends one for each key it signs with"
    );
    assert!(explained.attempts[0].would_match.is_empty() && checks < 4, "{checks}");
    // Values without the prefix are no signatures.
    let others = (0..50).map(|n| format!("v0={n}")).collect::<Vec<_>>().join(",");
    let header = format!("{others},v1={}", sha256(BODY));
    let headers = [("X-Sig", header.as_str())];
    assert_eq!(verdict(&directory, &post(BODY, &headers)), "o-1 SUCCESS 100 VND r-1");
}

#[test]
fn a_public_key_checks_eight_claims_at_most() {
    let profile = profile().replace("hmac-sha256", "ed25519").replace("hex-lower", "base64");
    let pair = Ed25519KeyPair::generate().unwrap();
    let public = STANDARD.encode(pair.public_key().as_ref());
    let directory = directory_of(&profile, vec![key("k", Channel::Ipn, public.as_bytes())]);
    let signed = |text: &str| STANDARD.encode(pair.sign(text.as_bytes()));
    let junk = |count: usize| (0..count).map(|n| signed(&n.to_string())).collect::<Vec<_>>();
    assert_eq!(judged(&directory, &junk(8)), ("unauthenticated".to_owned(), 8));
    assert_eq!(judged(&directory, &junk(9)), ("unauthenticated".to_owned(), 0));
    let genuine = [junk(7), vec![signed(BODY)]].concat();
    assert_eq!(judged(&directory, &genuine).0, "o-1 SUCCESS 100 VND r-1");
}
