//! How answers to token calls are judged, and mistakes in `[oauth]`.

use std::collections::BTreeMap;

use payfold_schemas::ids::PartnerCode;

use super::*;
use crate::profile::Profile;
use crate::scheme::tests::{HEAD, TAIL};

const NOTICE: &str = r#"
exceptions = ["no_time", "no_paid_at"]
[constants]
client_id = "c-1"
[notice]
content = "json"
[[sign]]
algorithm = "hmac-sha256"
text = "{body}"
signature = "{h.X-Signature}"
output = "hex-lower"
[map]
order = "{f.o}"
ref = "{f.r}"
amount = "{f.a}"
currency = "{f.c}"
"#;

/// A create that carries a token.
pub(crate) const CREATE: &str = r#"
[create]
kind = "call"
method = "POST"
path = "/v1/payments"
credential = "bearer"
token = "{access_token}"
content = "json"
body = '{{"order":"{order}","amount":{amount},"currency":"{currency}"}}'
amount_unit = "minor"
expiry = "ttl"
ttl_s = 900
[create.answer]
ref = "{a.id}"
redirect = "{a.url}"
"#;

/// A token call as in RFC 6749.
pub(crate) const OAUTH: &str = r#"
[oauth]
path = "/oauth2/token"
credential = "basic"
user = "{c.client_id}"
password = "{secret}"
content = "form"
[oauth.fields]
grant_type = "client_credentials"
scope = "payments"
"#;

/// A profile with these parts.
pub(crate) fn with(parts: &[&str]) -> String {
    format!("{HEAD}{NOTICE}{TAIL}{}", parts.concat())
}

fn parse(text: &str) -> Result<Profile, String> {
    let partner = PartnerCode::parse("acme").unwrap();
    Profile::parse(&partner, text).map_err(|error| error.to_string())
}

fn granted(oauth: &str, body: &str) -> Result<(String, u64), String> {
    let profile = parse(&with(&[CREATE, oauth])).unwrap_or_else(|error| panic!("{error}"));
    let scheme = profile.scheme();
    let constants = BTreeMap::new();
    let inputs = TemplateInputs {
        merchant: "SHOP",
        constants: &constants,
        decryption_keys: &[],
        values: &[],
    };
    let rule = &scheme.oauth.as_ref().unwrap().grant;
    let grant = rule
        .judge(scheme, (profile.limits(), inputs), body.as_bytes())
        .map_err(|why| why.to_string())?;
    Ok((String::from_utf8(grant.token.expose().to_vec()).unwrap(), grant.lasts_s))
}

#[test]
fn a_token_answer_is_judged() {
    let other = format!(
        "{OAUTH}[oauth.answer]\ntoken = \"{{a.data.jwt}}\"\nexpires_in = \"{{a.data.ttl}}\"\n\
         refusal = \"{{a.code}}\"\n\
         success = [{{ value = \"{{a.code}}\", is = \"00\" }}]\n"
    );
    let silent = OAUTH.replace("[oauth]", "[oauth]\nttl_s = 77");
    for (oauth, body, expected) in [
        (
            OAUTH,
            r#"{"access_token":"t-1","token_type":"Bearer","expires_in":3599}"#,
            Ok(("t-1", 3_599)),
        ),
        (OAUTH, r#"{"access_token":"t-1","expires_in":"3599.5"}"#, Ok(("t-1", 3_599))),
        (OAUTH, r#"{"access_token":"t-1"}"#, Ok(("t-1", 300))),
        (OAUTH, r#"{"access_token":"t-1","expires_in":null}"#, Ok(("t-1", 300))),
        (OAUTH, r#"{"access_token":"t-1","expires_in":99999999999}"#, Ok(("t-1", 86_400))),
        (&silent, r#"{"access_token":"t-1"}"#, Ok(("t-1", 77))),
        (&other, r#"{"code":"00","data":{"jwt":"a.b.c","ttl":60}}"#, Ok(("a.b.c", 60))),
        (&other, r#"{"code":"17","data":{"jwt":"a.b.c","ttl":60}}"#, Err("it grants none: 17")),
        (OAUTH, r#"{"token":"t-1"}"#, Err("{a.access_token} of its answer is empty")),
        (OAUTH, r#"{"access_token":"t 1"}"#, Err("{a.access_token} of its answer is no token")),
        (OAUTH, r#"{"access_token":"tö"}"#, Err("{a.access_token} of its answer is no token")),
        (
            OAUTH,
            r#"{"access_token":"t-1","expires_in":"soon"}"#,
            Err("{a.expires_in} of its answer is no number of seconds"),
        ),
        (OAUTH, r#"{"access_token":["t-1"]}"#, Err("{a.access_token} of its answer is empty")),
        (OAUTH, "<html>", Err("its answer is no JSON")),
        (OAUTH, "", Err("its answer is no JSON")),
    ] {
        let expected = expected.map(|(token, s)| (token.to_owned(), s)).map_err(str::to_owned);
        assert_eq!(granted(oauth, body), expected, "{body}");
    }
}

#[test]
fn mistakes_are_named() {
    let of = |from: &str, to: &str| OAUTH.replace(from, to);
    for (parts, expected) in [
        ([CREATE, ""], "{access_token} needs [oauth]: how it is asked for"),
        (
            [&CREATE.replace("{access_token}", "{secret}"), OAUTH],
            "no call uses {access_token}; write credential",
        ),
        (
            [&CREATE.replace("/v1/payments", "/v1/payments?t={access_token}"), OAUTH],
            "an access token must not stand in an address",
        ),
        ([CREATE, &of("payments", "{order}")], "{order} can't stand here"),
        ([CREATE, &of("payments", "{access_token}")], "{access_token} can't stand here"),
        ([CREATE, &of("payments", "{amount}")], "{amount} names nothing"),
        ([CREATE, &of("/oauth2/token", "oauth2/token")], "oauth.path must be a path"),
        (
            [
                CREATE,
                &of(
                    "credential = \"basic\"\nuser = \"{c.client_id}\"\npassword = \"{secret}\"",
                    "",
                ),
            ],
            "the call does not authenticate us",
        ),
        (
            [CREATE, &of("content = \"form\"", "ttl_s = 0\ncontent = \"form\"")],
            "oauth.ttl_s must be 1",
        ),
        (
            [CREATE, &of("content = \"form\"", "grant = 1\ncontent = \"form\"")],
            "unknown field `grant`",
        ),
        (
            [CREATE, &(OAUTH.to_owned() + "[oauth.answer]\ntoken = \"{now}\"\n")],
            "{now} is not read from the answer",
        ),
        (
            [CREATE, &(OAUTH.to_owned() + "[[oauth.answer]]\ntoken = \"{a.t}\"\n")],
            "oauth.answer is a section",
        ),
    ] {
        let error = parse(&with(&parts)).map(drop).unwrap_err();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let form = CREATE.replace("kind = \"call\"\nmethod = \"POST\"", "kind = \"form_post\"");
    let form = form.replace(
        "credential = \"bearer\"\ntoken = \"{access_token}\"\ncontent = \"json\"\n\
         body = '{{\"order\":\"{order}\",\"amount\":{amount},\"currency\":\"{currency}\"}}'",
        "content = \"form\"",
    );
    let form = form.split("[create.answer]").next().unwrap().to_owned()
        + "[create.fields]\no = \"{order}\"\na = \"{amount}\"\nc = \"{currency}\"\n\
            t = \"{access_token}\"\ns = \"{sign}\"\n\
            [create.sign]\nalgorithm = \"hmac-sha256\"\ntext = \"{s.o}|{s.a}|{s.c}\"\n\
            output = \"hex-lower\"\n";
    let error = parse(&with(&[&form, OAUTH])).map(drop).unwrap_err();
    assert!(error.contains("neither the secret nor a token must stand in one"), "{error}");
}

/// A client certificate authenticates us as well (RFC 8705).
#[test]
fn a_client_certificate_authenticates_the_token_call() {
    let plain = OAUTH
        .replace("credential = \"basic\"\nuser = \"{c.client_id}\"\npassword = \"{secret}\"", "");
    let plain = plain.replace("scope = \"payments\"", "client_id = \"{c.client_id}\"");
    let text = with(&[CREATE, &plain]);
    assert!(parse(&text).is_err());
    let profile = parse(&text.replace("stage = ", "client_certificate = true\nstage = ")).unwrap();
    assert!(profile.needs_client_certificate());
}
