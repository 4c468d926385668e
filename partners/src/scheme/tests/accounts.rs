//! Many accounts at one partner: which account a notice is for, and what refusing it costs.

use super::attacks::TEXT;
use super::*;
use crate::directory::route::UNNAMED_TRIED_MAX;
use crate::rejection::RejectCode;
use crate::scheme::crypt::counted::count;

/// A profile that signs the whole body; `map` may be a line with map.merchant.
fn profile(map: &str) -> String {
    let signed = TEXT.replace("TEXT", "{body}").replace("[map]", &format!("[map]\n{map}"));
    HEAD.to_owned() + &signed + TAIL
}

fn account(merchant: &str, secrets: &[&str]) -> AccountEntry {
    let mut account = AccountEntry::new(partner(), MerchantCode::parse(merchant).unwrap());
    let keys = secrets.iter().enumerate();
    account.keys =
        keys.map(|(n, secret)| key(&format!("k{n}"), Channel::Ipn, secret.as_bytes())).collect();
    account
}

/// The accounts `M-0`, `M-1`, …, each with a secret of its own.
fn accounts(count: usize) -> Vec<AccountEntry> {
    (0..count).map(|n| account(&format!("M-{n}"), &[&secret(n)])).collect()
}

fn secret(n: usize) -> String {
    format!("the secret of account {n}, worth nothing at all")
}

fn build(profile: &str, accounts: Vec<AccountEntry>) -> Result<Directory, String> {
    let profile = Profile::parse(&partner(), profile).unwrap_or_else(|error| panic!("{error}"));
    let vault = VaultDocument { accounts, ..VaultDocument::default() };
    Directory::build(vec![profile], &vault)
        .map_err(|problems| problems.iter().map(|p| format!("{p}\n")).collect())
}

fn hmac(secret: &str, text: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(text.as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

fn body(merchant: &str) -> String {
    format!(r#"{{"m":"{merchant}","state":"paid","o":"o-1","r":"r-1","a":100}}"#)
}

/// The account a notice is for, or the rejection, and how many signatures were computed.
fn verified_account(directory: &Directory, body: &str, signature: &str) -> (String, usize) {
    let headers = [("X-Sig", signature)];
    let request = post(body, &headers);
    let (verified, checks) = count(|| directory.verify_scheme("acme", &request, NOW));
    let code = |notice: &VerifiedNotice| notice.account().merchant_code().to_string();
    (verified.map_or_else(|error| error.to_string(), |all| code(&all.notices[0])), checks)
}

#[test]
fn a_notice_is_verified_with_the_key_of_its_account_among_fifty() {
    let directory = build(&profile("merchant = \"{f.m}\""), accounts(50)).unwrap();
    for n in 0..50 {
        let (name, body) = (format!("M-{n}"), body(&format!("M-{n}")));
        let signed = verified_account(&directory, &body, &hmac(&secret(n), &body));
        assert_eq!(signed, (name, 1), "one account's key is tried");
        let by_another = verified_account(&directory, &body, &hmac(&secret(49 - n), &body));
        assert_eq!(by_another.0, "unauthenticated", "only its own key counts");
    }
}

/// The merchant is read from an array's items, or from a document that needs no key.
#[test]
fn a_merchant_is_read_wherever_no_key_is_needed() {
    let wrapped = profile("merchant = \"{data.m}\"").replace(
        "[[sign]]",
        "[[document]]\nname = \"data\"\nfrom = \"{f.data}\"\ncontent = \"json\"\n[[sign]]",
    );
    let directory = build(&wrapped, accounts(50)).unwrap();
    let sent = r#"{"data":"{\"m\":\"M-42\"}","state":"paid","o":"o-1","r":"r-1","a":100}"#;
    assert_eq!(verified_account(&directory, sent, &hmac(&secret(42), sent)).0, "M-42");

    let items = include_str!("../../../tests/fuzzed/profiles/items.toml");
    let items = items.replace("[map]", "[map]\nmerchant = \"{i.N.m}\"");
    let directory = build(&items, accounts(50)).unwrap();
    let item = |n: usize| {
        use base64::Engine as _;
        let text = format!("r-{n}:o-{n}:100:VND:paid:");
        let signature = hex::decode(hmac(&secret(n), &text)).unwrap();
        let signature = base64::engine::general_purpose::STANDARD.encode(signature);
        serde_json::json!({ "N": {
            "m": format!("M-{n}"), "ref": format!("r-{n}"), "order": format!("o-{n}"),
            "state": "paid", "amount": { "value": 100, "currency": "VND" }, "sig": signature,
        } })
    };
    let both = serde_json::json!({ "items": [item(3), item(47)] }).to_string();
    assert_eq!(
        verdict(&directory, &post(&both, &[])),
        "o-3 SUCCESS 100 VND r-3; o-47 SUCCESS 100 VND r-47"
    );
}

#[test]
fn an_unknown_merchant_costs_as_many_checks_as_a_forged_signature() {
    let mut all = accounts(20);
    // One account is rotating its key.
    all[7] = account("M-7", &[&secret(7), "its next secret, worth nothing at all"]);
    let directory = build(&profile("merchant = \"{f.m}\""), all).unwrap();
    let forged = hmac("no account's secret, worth nothing at all", "x");
    for merchant in ["M-0", "M-7", "M-19", "M-20", "NONE"] {
        let cost = verified_account(&directory, &body(merchant), &forged);
        assert_eq!(cost, ("unauthenticated".to_owned(), 2), "{merchant:?}");
    }
    // A notice without a merchant costs the keys of all first accounts, so its time reveals nothing
    // about one account.
    let nameless = verified_account(&directory, &body(""), &forged);
    assert_eq!(nameless, ("unauthenticated".to_owned(), UNNAMED_TRIED_MAX + 1));
    // A notice that one of them signed is authenticated, and refused for its missing merchant.
    let signed = directory.authenticate(
        Some("acme"),
        &post(&body(""), &[("x-sig", &hmac(&secret(3), &body("")))]),
        NOW,
    );
    let signed = &signed.unwrap().notices[0];
    assert_eq!(signed.account().merchant_code().as_str(), "M-3");
    assert_eq!(signed.content().unwrap_err().to_string(), "merchant is required");
    let (_, none) = verified_account(&directory, &body("M-0"), "no signature at all");
    assert_eq!(
        (none, verified_account(&directory, &body("NONE"), "no signature at all").1),
        (0, 0)
    );
}

#[test]
fn a_forged_notice_without_a_merchant_costs_no_more_than_eight_accounts() {
    let directory = build(&profile(""), accounts(UNNAMED_TRIED_MAX)).unwrap();
    let body = body("M-7");
    let forged = verified_account(
        &directory,
        &body,
        &hmac("no account's secret, worth nothing at all", &body),
    );
    assert_eq!(forged, ("unauthenticated".to_owned(), UNNAMED_TRIED_MAX));
    assert_eq!(verified_account(&directory, &body, &hmac(&secret(7), &body)).0, "M-7");
}

#[test]
fn more_accounts_than_are_tried_without_a_merchant_are_refused() {
    for map in ["", "merchant = \"{merchant}\""] {
        let refused = build(&profile(map), accounts(UNNAMED_TRIED_MAX + 1)).err().unwrap();
        assert!(
            refused.starts_with(
                "partner acme has 9 enabled accounts, and its profile reads no merchant before a \
                 key is tried"
            ) && refused.contains("; map merchant to a place of the notice"),
            "{refused}"
        );
    }
    let sealed = include_str!("../../../tests/fuzzed/profiles/sealed.toml");
    let refused = build(sealed, accounts(UNNAMED_TRIED_MAX + 1)).err().unwrap();
    assert!(refused.contains("that is not encrypted"), "{refused}");
    let mut closed = accounts(UNNAMED_TRIED_MAX + 1);
    closed[3].enabled = false;
    assert!(build(&profile(""), closed).is_ok(), "a disabled account gets no notices");
}

#[test]
fn explain_checks_the_named_account() {
    let directory = build(&profile("merchant = \"{f.m}\""), accounts(50)).unwrap();
    let explained = |merchant: &str| {
        let body = body(merchant);
        let headers = [("X-Sig", "00")];
        directory.explain("acme", &post(&body, &headers), NOW).unwrap()
    };
    let known = explained("M-42");
    let accounts: Vec<_> = known.attempts.iter().map(|one| one.account.as_str()).collect();
    assert_eq!(accounts, ["acme/M-42"]);
    assert_eq!(known.verdict, "unauthenticated: no key of the account has made this signature");
    let verdict = explained("M-50").verdict;
    let said = "unauthenticated: the notice names the merchant \"M-50\", and no account of acme \
        has that code";
    assert!(verdict.starts_with(said), "{verdict}");
}

#[test]
fn a_key_of_two_accounts_needs_a_notice_that_names_its_account() {
    let shared = |profile: &str| {
        let secret = secret(0);
        build(
            profile,
            vec![
                account("A", &[&secret]),
                account("B", &["other key, worth nothing at all", &secret]),
            ],
        )
    };
    let refused = shared(&profile("")).err().unwrap();
    let said = "accounts acme/A and acme/B have one key, and what [[sign]] sign-1 of acme signs \
        does not say for which";
    assert!(refused.starts_with(said), "{refused}");
    assert_eq!(refused.lines().count(), 1, "{refused}");
    assert!(
        shared(&profile("merchant = \"{h.X-Merchant}\"")).is_err(),
        "an unsigned place says nothing"
    );
    let directory = shared(&profile("merchant = \"{f.m}\"")).unwrap();
    let body = body("B");
    assert_eq!(verified_account(&directory, &body, &hmac(&secret(0), &body)).0, "B");
}

/// Both accounts have one key, and the constant that the notice is compared with: one's notices are
/// valid for the other.
#[test]
fn a_key_of_two_accounts_needs_values_that_differ() {
    let bound = profile("")
        .replace("[notice]", "[constants]\nshop = \"\"\n[notice]")
        .replace("[map]", "[[require]]\nvalue = \"{f.shop}\"\nequals = \"{c.shop}\"\n[map]");
    let shared = |shops: [&str; 2]| {
        let pairs = ["A", "B"].into_iter().zip(shops);
        let accounts = pairs.map(|(merchant, shop)| {
            let mut account = account(merchant, &[&secret(0)]);
            account.constants = BTreeMap::from([("shop".to_owned(), shop.to_owned())]);
            account
        });
        build(&bound, accounts.collect())
    };
    let refused = shared(["7", "7"]).err().unwrap();
    let said = "accounts acme/A and acme/B have one key, and the same value for {f.shop}: a notice \
        for one is valid for the other";
    assert!(refused.starts_with(said), "{refused}");
    let directory = shared(["7", "8"]).unwrap();
    let body = r#"{"shop":"8","state":"paid","o":"o-1","r":"r-1","a":100}"#;
    assert_eq!(verified_account(&directory, body, &hmac(&secret(0), body)).0, "B");
}

/// One signature covers every item, and each item names another merchant that is no account: each
/// would cost a check of the whole body.
#[test]
fn an_array_of_strangers_costs_no_more_checks_than_its_length_allows() {
    let items = profile("merchant = \"{i.m}\"")
        .replace("{f.", "{i.")
        .replace("[[sign]]", "[items]\nat = \"f.items\"\nforged = \"refuse_item\"\n[[sign]]")
        .replace("keys = 64", "keys = 4096")
        .replace("body_bytes = 16384", "body_bytes = 1048576");
    let directory = build(&items, accounts(2)).unwrap();
    let forged = hmac("no account's secret, worth nothing at all", "x");
    let cost = |merchants: usize, padding: usize| {
        let item = |n: usize| {
            format!(r#"{{"m":"STRANGER-{n}","state":"paid","o":"o","r":"r-{n}","a":1}}"#)
        };
        let items: Vec<_> = (0..merchants).map(item).collect();
        let body = format!(r#"{{"pad":"{}","items":[{}]}}"#, "x".repeat(padding), items.join(","));
        verified_account(&directory, &body, &forged)
    };
    assert_eq!(cost(100, 0), ("unauthenticated".to_owned(), 100));
    // Each item would be stored with the whole body.
    assert_eq!(cost(300, 1_000_000), ("too_complex".to_owned(), 0));
    let (said, checks) = cost(66, 950_000);
    assert_eq!(said, "too_complex");
    assert_eq!(checks, 18, "16 MiB of a body of 0.95 MB");
}

#[test]
fn a_key_is_valid_from_its_beginning_to_before_its_end() {
    let a_nanosecond_later = Time::from_unix_nanos(NOW.unix_nanos() + 1);
    let long_ago = Time::from_unix_ms(0);
    for (valid_from, valid_until, is_valid) in [
        (NOW, None, true),
        (a_nanosecond_later, None, false),
        (long_ago, Some(a_nanosecond_later), true),
        (long_ago, Some(NOW), false),
    ] {
        let mut account = account("M-0", &[&secret(0)]);
        account.keys[0] = KeyEntry { valid_from, valid_until, ..account.keys[0].clone() };
        let directory = build(&profile("merchant = \"{f.m}\""), vec![account]).unwrap();
        let sent = body("M-0");
        let signature = hmac(&secret(0), &sent);
        let headers = [("X-Sig", signature.as_str())];
        let verified = directory.verify_scheme("acme", &post(&sent, &headers), NOW);
        let begins = verified.map(|all| all.notices[0].key_begins());
        let expected = match is_valid {
            true => Ok(None),
            // A key that is not valid yet shows who has signed.
            false if valid_from > NOW => Ok(Some(valid_from)),
            false => Err(RejectCode::Unauthenticated),
        };
        let begins = begins.map_err(|rejection| rejection.code());
        assert_eq!(begins, expected, "from {valid_from} until {valid_until:?} at {NOW}");
    }
}

/// While an account has keys that are not valid yet, every refusal tries as many.
#[test]
fn keys_that_are_not_valid_yet_do_not_show_which_accounts_exist() {
    let mut all = accounts(20);
    let next = ["one, worth nothing at all", "two, worth nothing at all"];
    all[7] = account("M-7", &[&secret(7), next[0], next[1]]);
    let begins = Time::from_unix_nanos(NOW.unix_nanos() + 1);
    all[7].keys[1..].iter_mut().for_each(|key| key.valid_from = begins);
    let directory = build(&profile("merchant = \"{f.m}\""), all).unwrap();
    let forged = hmac("no account's secret, worth nothing at all", "x");
    for merchant in ["M-0", "M-7", "M-19", "M-20", "NONE"] {
        let cost = verified_account(&directory, &body(merchant), &forged);
        assert_eq!(cost, ("unauthenticated".to_owned(), 5), "{merchant:?}");
    }
    let nameless = verified_account(&directory, &body(""), &forged).1;
    assert_eq!(nameless, UNNAMED_TRIED_MAX + 2);
    let sent = body("M-7");
    let early = verified_account(&directory, &sent, &hmac(next[1], &sent));
    assert_eq!(early, ("M-7".to_owned(), 3), "one valid key, then two");
}

#[test]
fn a_part_of_a_signature_is_no_signature() {
    let account = account("M-0", &[&secret(0)]);
    let directory = build(&profile("merchant = \"{f.m}\""), vec![account]).unwrap();
    let sent = body("M-0");
    let whole = hmac(&secret(0), &sent);
    for length in 1..whole.len() {
        let (found, _) = verified_account(&directory, &sent, &whole[..length]);
        assert_eq!(found, "unauthenticated", "the first {length} of {}", whole.len());
    }
    assert_eq!(verified_account(&directory, &sent, &whole).0, "M-0");
}
