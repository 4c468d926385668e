//! The hints of `explain` and of vectors: the change that would make a signature match.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::scheme::check_vectors;

/// A form with signed, sorted pairs, encoded with `encoding`.
fn pairs(encoding: &str) -> String {
    HEAD.to_owned()
        + &format!(
            r#"exceptions = ["no_time", "no_paid_at"]
[notice]
content = "form"
[[pairs]]
name = "all"
of = "f"
except = ["sig"]
encoding = "{encoding}"
[[text]]
name = "signed"
text = "{{p.all}}"
[[sign]]
algorithm = "hmac-sha256"
text = "{{t.signed}}"
signature = "{{f.sig}}"
output = "hex-lower"
[[field]]
at = "{{f.note}}"
pattern = "[^&=]*"
[map]
order = "{{f.o}}"
ref = "{{f.r}}"
amount = "{{f.a}}"
currency = "VND"
"#
        )
        + TAIL
}

/// Verdict and hints of the first key.
fn explain(directory: &Directory, body: &str, headers: &[(&str, &str)]) -> (String, Vec<String>) {
    let request = post(body, headers);
    let explained = directory.explain("acme", &request, NOW).unwrap();
    let hints = explained.attempts.first().map(|attempt| attempt.would_match.clone());
    (explained.verdict, hints.unwrap_or_default())
}

#[test]
fn another_encoding_of_the_pairs_is_named_by_explain_and_by_vectors() {
    let sent = "a=100&note=two+t%2A&o=o-1&r=r-1&state=paid";
    let signature = sha256("a=100&note=two+t*&o=o-1&r=r-1&state=paid");
    let body = format!("{sent}&sig={signature}");
    for (encoding, hint) in [("form", None), ("rfc3986", Some("form")), ("js", Some("form"))] {
        let profile = pairs(encoding);
        let (verdict, hints) = explain(&directory(&profile), &body, &[]);
        assert_eq!(verdict.starts_with("signed"), hint.is_none(), "{encoding}: {verdict}");
        let named = |name| format!("[[pairs]] encoding = \"{name}\", empty = \"keep\"");
        assert_eq!(hints.first().cloned(), hint.map(named), "{encoding}");

        let vectors = serde_json::json!({ "vectors": [{
            "name": "sample", "secret": SECRET, "expected": signature,
            "request": { "method": "POST", "url": "https://pay.example/x", "body": body },
        }] });
        let profile = Profile::parse(&partner(), &profile).unwrap();
        let report = check_vectors(&profile, &vectors.to_string()).unwrap().remove(0);
        let ends = hint.map(|name| format!("; it would match with {}", named(name)));
        assert!(report.problem.ends_with(&ends.unwrap_or_default()), "{encoding}: {report:?}");
        assert_eq!(report.problem.is_empty(), hint.is_none(), "{report:?}");
    }
}

#[test]
fn a_text_with_a_literal_at_its_end_has_no_separator() {
    let body = format!("a=1&o=o-1&r=r-1&state=paid&sig={}", sha256("a=1&o=o-1&r=r-1&state=paid"));
    let profile = pairs("form").replace("{t.signed}", "{t.signed}x");
    let (verdict, hints) = explain(&directory(&profile), &body, &[]);
    assert!(verdict.starts_with("unauthenticated"), "{verdict}");
    assert_eq!(hints, Vec::<String>::new());
}

#[test]
fn a_key_that_fits_without_or_behind_its_prefix_is_named() {
    let profile = |key: &str| {
        HEAD.to_owned()
            + &format!(
                r#"exceptions = ["no_time", "no_paid_at"]
[notice]
content = "json"
{key}
[[sign]]
algorithm = "hmac-sha256"
text = "{{body}}"
signature = "{{h.X-Sig}}"
output = "hex-lower"
[map]
order = "{{f.o}}"
ref = "{{f.r}}"
amount = "{{f.a}}"
currency = "VND"
"#
            )
            + TAIL
    };
    let body = r#"{"state":"paid","o":"o-1","r":"r-1","a":100}"#;
    let base64 = STANDARD.encode(SECRET);
    let decoded = "[key]\nprefix = \"whsec_\"\nencoding = \"base64\"";
    for (shown, section, hint) in [
        (format!("whsec_{SECRET}"), "", "[key] prefix = \"whsec_\""),
        (format!("whsec_{base64}"), "", "[key] prefix = \"whsec_\", encoding = \"base64\""),
        (
            format!("sk_test_{}", hex::encode(SECRET)),
            "",
            "[key] prefix = \"sk_test_\", encoding = \"hex\"",
        ),
        (format!("whsec_{base64}"), decoded, ""),
    ] {
        let keys = vec![key("k", Channel::Ipn, shown.as_bytes())];
        let (verdict, hints) =
            explain(&directory_of(&profile(section), keys), body, &[("X-Sig", &sha256(body))]);
        assert_eq!(verdict.starts_with("signed"), hint.is_empty(), "{shown}: {verdict}");
        assert_eq!(hints.first().map_or("", String::as_str), hint, "{shown}");
    }
    // The reverse: signed with the key as it is shown.
    let keys = vec![key("k", Channel::Ipn, format!("whsec_{base64}").as_bytes())];
    let mut mac = Hmac::<Sha256>::new_from_slice(format!("whsec_{base64}").as_bytes()).unwrap();
    mac.update(body.as_bytes());
    let signature = hex::encode(mac.finalize().into_bytes());
    let (_, hints) =
        explain(&directory_of(&profile(decoded), keys), body, &[("X-Sig", &signature)]);
    assert_eq!(hints, ["[key] without a prefix"]);
}

#[test]
fn a_requirement_that_does_not_hold_is_named_with_its_values() {
    let profile = pairs("form").replace(
        "[[pairs]]",
        "[constants]\napp = \"\"\n[[require]]\nvalue = \"{f.app}\"\nequals = \"{c.app}\"\n\
         [[pairs]]",
    );
    let signed = |app: &str| {
        let text = format!("a=100&app={app}&o=o-1&r=r-1&state=paid");
        format!("{text}&sig={}", sha256(&text))
    };
    let directory = directory(&profile);
    assert!(explain(&directory, &signed("A-7"), &[]).0.starts_with("signed"));
    assert_eq!(
        explain(&directory, &signed("A-8"), &[]).0,
        "unauthenticated: a [[require]] does not hold, so the notice is not for this account: \
         {f.app} is \"A-8\", and {c.app} is \"A-7\""
    );
}

#[test]
fn what_is_signed_is_shown_as_the_profile_writes_it() {
    let profile =
        pairs("form").replace("{t.signed}", r"{f.o}.{f.r}:{f.a}\n{{x}}{t.signed}[;{f.n|upper}]");
    let directory = directory(&profile);
    let described = directory.scheme("acme").unwrap().describe();
    let text = r"{f.o}.{f.r}:{f.a}\n{{x}}{t.signed}[;{f.n|upper}]";
    assert_eq!(described, [format!("sign-1: hmac-sha256 over {text} at {{f.sig}}")]);
}

/// A vector that passes and would still be refused gets a warning, and explain names a refusal
/// before the signature check.
#[test]
fn what_is_refused_for_another_reason_is_named() {
    let profile = pairs("none");
    let vector = |sent: &str| {
        let body = format!("{sent}&sig={}", sha256(sent));
        let request = serde_json::json!({ "body": body });
        let vector = serde_json::json!({
            "name": "v", "secret": SECRET, "request": request, "expected": sha256(sent),
        });
        let file = serde_json::json!({ "vectors": [vector] }).to_string();
        let profile = Profile::parse(&partner(), &profile).unwrap();
        let report = check_vectors(&profile, &file).unwrap().remove(0);
        assert_eq!(report.problem, "", "{sent}");
        report.warning
    };
    assert_eq!(vector("a=100&o=o-1&r=r-1&state=paid"), "");
    let amount = vector("a=ten&o=o-1&r=r-1&state=paid");
    assert!(amount.starts_with("it would be refused: ") && amount.contains("amount"), "{amount}");
    assert_eq!(vector("a=100&o=o-1&state=paid"), "it would be refused: ref is required");
    assert_eq!(vector("a=100&o=o-1&r=r-1&state=odd"), "", "a kind the profile refuses on purpose");

    let directory = directory(&profile);
    let body =
        format!("a=100&o=o-1&r=r-1&state=paid&sig={}", sha256("a=100&o=o-1&r=r-1&state=paid"));
    let plain = [("content-type", "text/html")];
    assert!(explain(&directory, &body, &plain).0.starts_with("415: "));
    let by_get = NoticeRequest { method: "GET", ..post(&body, &[]) };
    let explained = directory.explain("acme", &by_get, NOW).unwrap();
    assert!(explained.verdict.starts_with("405: "), "{}", explained.verdict);
    let form = [("content-type", "application/x-www-form-urlencoded; charset=utf-8")];
    assert!(explain(&directory, &body, &form).0.starts_with("signed: "));
}

/// acme/SHOP of the default scheme, with an expired key and a valid one.
fn of_default() -> Directory {
    let mut account = AccountEntry::new(partner(), MerchantCode::parse("SHOP").unwrap());
    let mut old = key("old", Channel::Ipn, OLD.as_bytes());
    old.valid_until = Some(NOW.plus_ms(-1_000));
    account.keys = vec![old, key("new", Channel::Ipn, NEW.as_bytes())];
    let vault = VaultDocument { accounts: vec![account], ..VaultDocument::default() };
    Directory::build(vec![Profile::default_for(&partner())], &vault).unwrap()
}

const OLD: &str = "an old test key that is worth nothing";
const NEW: &str = "a new test key that is worth nothing";

/// Verdict and hints of a notice of the default scheme with this signature.
fn explain_default(signature: &str) -> (String, String) {
    let body = format!(
        r#"{{"merchantCode":"SHOP","orderId":"o","providerRef":"r","status":"FAILED","amount":1,"currency":"VND","timestamp":"t","signature":"{signature}"}}"#
    );
    let explained = of_default().explain("acme", &post(&body, &[]), NOW).unwrap();
    let hints = explained.attempts.iter().flat_map(|attempt| &attempt.would_match);
    (explained.verdict.clone(), hints.cloned().collect::<Vec<_>>().join("; "))
}

#[test]
fn another_way_to_join_the_values_is_named() {
    let signed = |secret: &str, text: &str| {
        let key = crate::mac::MacKey::new(secret.as_bytes());
        crate::mac::HexCase::Lower.write(&key.sign(text.as_bytes()))
    };
    let good = "SHOP|o|r|FAILED|1|VND||t|";
    let (verdict, _) = explain_default(&signed(NEW, good));
    assert!(verdict.starts_with("signed, but not admissible"), "{verdict}");
    let (verdict, _) = explain_default(&signed(OLD, good));
    assert_eq!(
        verdict,
        "unauthenticated: key old (no longer valid) has made this signature, and it is not valid \
         now"
    );
    for (text, expected) in [
        ("SHOP&o&r&FAILED&1&VND&&t&", "separator = \"&\""),
        ("SHOP|o|r|FAILED|1|VND|t", "absent fields left out instead of empty"),
        ("SHOP|r|o|FAILED|1|VND||t|", "{f.orderId} and {f.providerRef} swapped"),
        ("SHOP|o|r|FAILED|1|VND||t", "without {f.nonce}"),
        ("1|VND|SHOP||o||r|FAILED|t", "fields in the order of their names"),
    ] {
        let (verdict, hints) = explain_default(&signed(NEW, text));
        assert_eq!(verdict, "unauthenticated: no key of the account has made this signature");
        assert!(hints.contains(expected), "{text}: {hints}");
    }
    let (_, hints) = explain_default(&signed(NEW, good).to_uppercase());
    assert!(hints.contains("output = \"hex-upper\""), "{hints}");
    assert!(explain_default("zz!").1.contains("neither hex digits"));
    assert_eq!(explain_default(&signed(NEW, "else")).1, "");
}
