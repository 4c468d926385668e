//! The create call: its signature against another tool's, and every rule of its answer in a table.

use std::sync::LazyLock;

use super::*;
use crate::profile::DEFAULT_PROFILE;

fn of_default(secret: &str) -> Arc<Account> {
    let profile = Profile::parse(&partner(), DEFAULT_PROFILE).unwrap();
    let mut entry = AccountEntry::new(partner(), MerchantCode::parse("SHOP").unwrap());
    entry.keys = vec![key("ipn", Channel::Ipn, secret.as_bytes())];
    let vault = VaultDocument { accounts: vec![entry], ..VaultDocument::default() };
    Arc::clone(&Directory::build(vec![profile], &vault).unwrap().accounts()[0])
}

fn request() -> CreateRequest {
    CreateRequest {
        order_id: OrderId::parse("ord-1").unwrap(),
        description: "Two tickets".to_owned(),
        return_url: "https://pay.shop.example/api/payment/result".to_owned(),
        ipn_url: "https://pay.shop.example/api/payment/ipn".to_owned(),
        presentation: Some(PresentationKind::Qr),
        ..super::request(150_000, "VND")
    }
}

/// The text and signature were made with another tool:
/// `printf '%s' "$TEXT" | openssl dgst -sha256 -hmac 'a test key, worth nothing at all'`.
#[test]
fn the_request_is_signed_in_the_order_of_the_contract() {
    let account = of_default("a test key, worth nothing at all");
    let (sent, _) = put(&account, &request()).unwrap();
    let body: serde_json::Value = serde_json::from_slice(&sent.body).unwrap();
    assert_eq!(body["amount"], 150_000);
    assert_eq!(body.get("expiresAt"), None);
    assert_eq!(body.get("presentation"), None, "the default profile has no such field");
    assert_eq!(body["signature"], SIGNATURE);
    assert_eq!(format!("{}{}", sent.base, sent.target), "https://api.example/payments");
}

#[test]
fn an_expiry_and_a_presentation_are_sent_where_they_are_asked_for() {
    let text = DEFAULT_PROFILE.replace("[create]\n", "[create]\npresentation_field = \"show\"\n");
    let account = account_of(&text);
    let asked = CreateRequest { expires_at: Some(NOW.plus_ms(60_001)), ..request() };
    let (sent, asked) = put(&account, &asked).unwrap();
    let body: serde_json::Value = serde_json::from_slice(&sent.body).unwrap();
    assert_eq!(
        (&body["expiresAt"], &body["show"]),
        (&"2026-01-31T10:01:00.001Z".into(), &"qr".into())
    );
    assert!(account.profile().create_terms().unwrap().asks_presentation);
    assert!(!of_default(SECRET).profile().create_terms().unwrap().asks_presentation);
    assert_eq!(asked.order_id, request().order_id);
}

const SIGNATURE: &str = "de221f8b16f89c4106803c29bdf1e34f181544d7ba4ddf401984c8af34e3146b";

#[test]
fn a_value_with_the_separator_is_not_sent() {
    let request = CreateRequest { return_url: "https://shop.example/a|b".to_owned(), ..request() };
    let refused = put(&of_default(SECRET), &request).map(|_| ()).unwrap_err();
    assert_eq!(refused, CallBuildError::Separator("{return_url}".to_owned()));
}

/// A good answer with one key's JSON replaced (`-` leaves it out) => `ok`, or the rule.
const ANSWERS: &str = r#"
    -            -                                   => ok
    providerRef  -                                   => provider_ref
    providerRef  null                                => provider_ref
    providerRef  ""                                  => provider_ref
    providerRef  12                                  => provider_ref
    providerRef  "x\u0000y"                          => provider_ref
    redirectUrl  -                                   => no_presentation
    redirectUrl  null                                => no_presentation
    redirectUrl  ""                                  => redirect_url
    redirectUrl  5                                   => redirect_url
    redirectUrl  "/pay"                              => redirect_url
    redirectUrl  "javascript:alert(1)"               => redirect_url
    redirectUrl  "http://pay.example/x"              => redirect_url_not_https
    redirectUrl  "https://me@pay.example/x"          => redirect_url_userinfo
    redirectUrl  "https://169.254.169.254/latest"    => redirect_url_private
    redirectUrl  "https://localhost/x"               => redirect_url_private
    qrPayload    "00020101"                          => two_presentations
    qrPayload    ""                                  => two_presentations
    qrPayload    null                                => ok
    expiresAt    -                                   => expires_at
    expiresAt    null                                => expires_at
    expiresAt    1769857200                          => expires_at
    expiresAt    "tomorrow"                          => expires_at
    expiresAt    "2026-01-31T10:00:00"               => expires_at
    expiresAt    "2026-01-31T10:00:00Z"              => expires_at_past
    expiresAt    "2020-01-31T10:00:00Z"              => expires_at_past
    extra        {"a":[1,2]}                         => ok
    extra        "\ud800"                            => ok
    providerRef  "\ud800"                            => provider_ref
"#;

fn judged(body: &[u8]) -> Result<SessionOffer, OfferError> {
    static ACCOUNT: LazyLock<Arc<Account>> = LazyLock::new(|| of_default(SECRET));
    let asked =
        RequestedSession { order_id: request().order_id, expires_at: NOW, presentation: None };
    ACCOUNT.judge_offer(&asked, body, NOW)
}

fn verdict(body: &str) -> String {
    match judged(body.as_bytes()) {
        Ok(_) => "ok".to_owned(),
        Err(OfferError::Violation(rule)) => rule.name().to_owned(),
        Err(OfferError::Declined(_)) => panic!("the contract has no answer that says no"),
    }
}

#[test]
fn every_rule_of_the_answer_is_held() {
    for case in ANSWERS.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (case, expected) = case.split_once("=>").unwrap();
        let (name, json) = case.trim().split_once(' ').unwrap();
        let mut fields = vec![
            ("providerRef", "\"tx-1\""),
            ("redirectUrl", "\"https://pay.example/h/1\""),
            ("expiresAt", "\"2026-01-31T10:15:00Z\""),
        ];
        fields.retain(|(field, _)| *field != name);
        if json.trim() != "-" {
            fields.push((name, json.trim()));
        }
        let fields: Vec<_> = fields.iter().map(|(f, json)| format!("\"{f}\":{json}")).collect();
        assert_eq!(verdict(&format!("{{{}}}", fields.join(","))), expected.trim(), "{case}");
    }
}

#[test]
fn an_answer_that_is_no_json_object_is_refused() {
    for body in [
        "",
        "<html></html>",
        "[]",
        "null",
        "\"x\"",
        r#"{"providerRef":"a","providerRef":"b","redirectUrl":"https://a.example","expiresAt":"2030-01-01T00:00:00Z"}"#,
        r#"{"providerRef":"a","redirectUrl":"https://a.example","expiresAt":"2030-01-01T00:00:00Z"} x"#,
        r#"["a","https://a.example",null,"2030-01-01T00:00:00Z"]"#,
    ] {
        assert_eq!(verdict(body), "not_json", "{body}");
    }
    assert_eq!(judged(b"{\"a\":\"\xff\""), Err(CreateViolation::NotJson.into()));
}

#[test]
fn a_qr_answer_is_taken_as_it_is() {
    let body = |payload: &str| {
        format!(r#"{{"providerRef":"t","qrPayload":{payload},"expiresAt":"2030-01-01T00:00:00Z"}}"#)
    };
    let offer = judged(body("\"0002 é\"").as_bytes()).unwrap();
    assert_eq!(offer.presentation, Presentation::QrPayload("0002 é".to_owned()));
    for bad in ["\"\"", "7", "\"a\\nb\"", &format!("\"{}\"", "a".repeat(2_954))] {
        assert_eq!(verdict(&body(bad)), "qr_payload");
    }
}
