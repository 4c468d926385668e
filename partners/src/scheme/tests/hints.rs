//! What a profile's author is told when something does not match: the change that would have made it match.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::scheme::check_vectors;

/// A form whose pairs are signed sorted, written as `encoding` says, in a text of its own.
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
fn told(directory: &Directory, body: &str, headers: &[(&str, &str)]) -> (String, Vec<String>) {
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
        let (verdict, hints) = told(&directory(&profile), &body, &[]);
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
            told(&directory_of(&profile(section), keys), body, &[("X-Sig", &sha256(body))]);
        assert_eq!(verdict.starts_with("signed"), hint.is_empty(), "{shown}: {verdict}");
        assert_eq!(hints.first().map_or("", String::as_str), hint, "{shown}");
    }
    // The other way round: signed with the key as it is shown.
    let keys = vec![key("k", Channel::Ipn, format!("whsec_{base64}").as_bytes())];
    let mut mac = Hmac::<Sha256>::new_from_slice(format!("whsec_{base64}").as_bytes()).unwrap();
    mac.update(body.as_bytes());
    let signature = hex::encode(mac.finalize().into_bytes());
    let (_, hints) = told(&directory_of(&profile(decoded), keys), body, &[("X-Sig", &signature)]);
    assert_eq!(hints, ["[key] without a prefix"]);
}

#[test]
fn a_requirement_that_does_not_hold_is_named_with_its_values() {
    let profile = pairs("form").replace(
        "[[pairs]]",
        "[constants]\napp = \"\"\n[[require]]\nvalue = \"{f.app}\"\nequals = \"{c.app}\"\n[[pairs]]",
    );
    let signed = |app: &str| {
        let text = format!("a=100&app={app}&o=o-1&r=r-1&state=paid");
        format!("{text}&sig={}", sha256(&text))
    };
    let directory = directory(&profile);
    assert!(told(&directory, &signed("A-7"), &[]).0.starts_with("signed"));
    assert_eq!(
        told(&directory, &signed("A-8"), &[]).0,
        "unauthenticated: a [[require]] does not hold, so it counts as somebody else's: {f.app} is \"A-8\", and {c.app} \
         is \"A-7\""
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

/// What comes out as a vector and would be refused all the same is said, and so is what nobody looks at the signature of.
#[test]
fn what_is_refused_for_another_reason_is_named() {
    let profile = pairs("none");
    let vector = |sent: &str| {
        let body = format!("{sent}&sig={}", sha256(sent));
        let request = serde_json::json!({ "body": body });
        let vector = serde_json::json!({ "name": "v", "secret": SECRET, "request": request, "expected": sha256(sent) });
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
    assert!(told(&directory, &body, &plain).0.starts_with("415: "));
    let by_get = Request { method: "GET", ..post(&body, &[]) };
    let explained = directory.explain("acme", &by_get, NOW).unwrap();
    assert!(explained.verdict.starts_with("405: "), "{}", explained.verdict);
    let form = [("content-type", "application/x-www-form-urlencoded; charset=utf-8")];
    assert!(told(&directory, &body, &form).0.starts_with("signed: "));
}
