//! Requests that claim many signatures: what comparing them costs, and how many are compared.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::attacks::TEXT;
use super::*;
use crate::scheme::crypt::counted::count;

const BODY: &str = r#"{"m":"SHOP","state":"paid","o":"o-1","r":"r-1","a":100}"#;

/// A profile with comma-separated signatures in one header, each with the prefix `v1=`.
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
        "unauthenticated: the request has more than 8 signatures where [[sign]] sign-1 reads them, \
         and none is compared; a partner sends one for each key it signs with"
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
    let accepted = [junk(7), vec![signed(BODY)]].concat();
    assert_eq!(judged(&directory, &accepted).0, "o-1 SUCCESS 100 VND r-1");
}

/// A profile of arrays with one signature in a header. `merchant` is a line of `[map]`, `require` a
/// section.
fn of_items(text: &str, merchant: &str, require: &str) -> String {
    let items = "[items]\nat = \"f.items\"\nforged = \"refuse_item\"\n[[sign]]";
    let map = format!("{require}\n[map]\n{merchant}");
    let signed = TEXT.replace("TEXT", text).replace("[[sign]]", items).replace("[map]", &map);
    let all = HEAD.to_owned() + &signed + TAIL;
    ["o", "r", "a", "state"]
        .iter()
        .fold(all, |all, field| all.replace(&format!("{{f.{field}}}"), &format!("{{i.{field}}}")))
}

fn array(items: &[&str]) -> String {
    format!(r#"{{"items":[{}]}}"#, items.join(","))
}

/// The verdict on an array with this signature, and what it cost.
fn judged_items(directory: &Directory, items: &[&str], signature: &str) -> (String, usize) {
    let body = array(items);
    count(|| verdict(directory, &post(&body, &[("X-Sig", signature)])))
}

/// An empty item has no key that `limits.keys` counts, so the number of items is limited, too.
#[test]
fn items_that_one_signature_covers_cost_one_mac_for_each_key() {
    let directory = directory(&of_items("{body}", "", ""));
    let junk = sha256("no key signed this");
    for count in [1, 2, 64] {
        let refused = judged_items(&directory, &vec!["{}"; count], &junk);
        assert_eq!(refused, ("unauthenticated".to_owned(), 1), "{count} items");
    }
    for count in [65, 5_000] {
        let refused = judged_items(&directory, &vec!["{}"; count], &junk);
        assert_eq!(refused, ("too_complex".to_owned(), 0), "{count} items");
    }
    let item = |order: &str| format!(r#"{{"o":"{order}","r":"r-1","a":100,"state":"paid"}}"#);
    let items = [&item("o-1"), "{}", &item("o-2")];
    let accepted = judged_items(&directory, &items, &sha256(&array(&items)));
    let said = "o-1 SUCCESS 100 VND r-1; fault: ".to_owned();
    assert!(
        accepted.0.starts_with(&said) && accepted.0.ends_with("; o-2 SUCCESS 100 VND r-1"),
        "{accepted:?}"
    );
    assert_eq!(accepted.1, 1);
}

/// Each merchant name costs the checks of one notice, however often it occurs and whether or not it
/// has an account.
#[test]
fn items_that_name_merchants_cost_the_same_whether_they_exist() {
    let directory = directory(&of_items("{body}", "merchant = \"{i.m}\"", ""));
    let (known, other, third) = (r#"{"m":"SHOP"}"#, r#"{"m":"NONE"}"#, r#"{"m":"ABSENT"}"#);
    let junk = sha256("no key signed this");
    for (items, checks) in [
        (vec![known], 1),
        (vec![other], 1),
        (vec![known, known, known], 1),
        (vec![other, other, other], 1),
        (vec![known, other, known, other], 2),
        (vec![other, third, other, third], 2),
        (vec![known, other, third], 3),
    ] {
        let refused = judged_items(&directory, &items, &junk);
        assert_eq!(refused, ("unauthenticated".to_owned(), checks), "{items:?}");
    }
    let mine = r#"{"m":"SHOP","o":"o-1","r":"r-1","a":100,"state":"paid"}"#;
    let theirs = r#"{"m":"NONE","o":"o-2","r":"r-2","a":100,"state":"paid"}"#;
    let items = [mine, theirs, mine];
    let accepted = judged_items(&directory, &items, &sha256(&array(&items)));
    let said = "o-1 SUCCESS 100 VND r-1; o-1 SUCCESS 100 VND r-1".to_owned();
    assert_eq!(accepted, (said, 2), "each by its own merchant");
}

/// Items that hold their own signature, key or account are checked one by one.
#[test]
fn items_that_are_signed_one_by_one_are_checked_one_by_one() {
    let junk = sha256("no key signed this");
    for (text, require) in
        [("{body}|{i.o}", ""), ("{body}", "[[require]]\nvalue = \"{i.live}\"\nequals = \"yes\"")]
    {
        let directory = directory(&of_items(text, "", require));
        let items = [r#"{"o":"a","live":"no"}"#, r#"{"o":"b","live":"yes"}"#, r#"{"o":"c"}"#];
        let refused = judged_items(&directory, &items, &junk);
        assert_eq!(refused, ("unauthenticated".to_owned(), 3), "{text} {require}");
    }
    let require = "[[require]]\nvalue = \"{i.live}\"\nequals = \"yes\"";
    let directory = directory(&of_items("{body}", "", require));
    let item = |order: &str, live: &str| {
        format!(r#"{{"o":"{order}","r":"r-1","a":100,"state":"paid","live":"{live}"}}"#)
    };
    let (test, live) = (item("o-1", "no"), item("o-2", "yes"));
    for items in [[test.as_str(), &live], [&live, &test]] {
        let accepted = judged_items(&directory, &items, &sha256(&array(&items)));
        assert_eq!(accepted.0, "o-2 SUCCESS 100 VND r-1", "{items:?}");
    }
}
