//! The create call: its signature against another tool's, and every rule of its answer in a table.

use payfold_schemas::ids::PartnerCode;

use super::*;

const NOW: Time = Time::from_unix_ms(1_769_853_600_000);

fn profile() -> Profile {
    Profile::default_for(&PartnerCode::parse("acme").unwrap())
}

fn request() -> CreateRequest {
    CreateRequest {
        merchant_code: MerchantCode::parse("SHOP").unwrap(),
        order_id: OrderId::parse("ord-1").unwrap(),
        amount: Amount::from_minor(150_000).unwrap(),
        currency: Currency::parse("VND").unwrap(),
        description: "Two tickets".to_owned(),
        return_url: "https://pay.shop.example/api/payment/result".to_owned(),
        ipn_url: "https://pay.shop.example/api/payment/ipn".to_owned(),
        expires_at: None,
        wish: Some(Wish::Qr),
        reference: None,
        payer_ip: None,
    }
}

/// The text and signature were made with another tool:
/// `printf '%s' "$TEXT" | openssl dgst -sha256 -hmac 'a test key, worth nothing at all'`.
#[test]
fn the_request_is_signed_in_the_order_of_the_contract() {
    let (profile, key) = (profile(), MacKey::new(b"a test key, worth nothing at all"));
    let rule = profile.create().unwrap();
    let body: Value =
        serde_json::from_slice(&request().body(&profile, rule, &key).unwrap()).unwrap();
    assert_eq!(body["amount"], 150_000);
    assert_eq!(body.get("expiresAt"), None);
    assert_eq!(body.get("presentation"), None, "the default profile has no such field");
    assert_eq!(body["signature"], SIGNATURE);
}

const SIGNATURE: &str = "de221f8b16f89c4106803c29bdf1e34f181544d7ba4ddf401984c8af34e3146b";

#[test]
fn a_value_with_the_separator_is_not_sent() {
    let (profile, key) = (profile(), MacKey::new(b"k"));
    let request = CreateRequest { description: "a|b".to_owned(), ..request() };
    let error = request.body(&profile, profile.create().unwrap(), &key).unwrap_err();
    assert_eq!(error, Ambiguous(CreateField::Description));
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
"#;

fn verdict(body: &str) -> String {
    judge(body.as_bytes(), Reach::Public, NOW)
        .map_or_else(|rule| rule.name().to_owned(), |_| "ok".to_owned())
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
fn what_is_no_json_object_is_not_read() {
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
    assert_eq!(judge(b"{\"a\":\"\xff\"}", Reach::Public, NOW), Err(Violation::NotJson));
}

#[test]
fn a_qr_answer_is_taken_as_it_is() {
    let body = |payload: &str| {
        format!(r#"{{"providerRef":"t","qrPayload":{payload},"expiresAt":"2030-01-01T00:00:00Z"}}"#)
    };
    let offer = judge(body("\"0002 é\"").as_bytes(), Reach::Public, NOW).unwrap();
    assert_eq!(offer.presentation, Presentation::QrPayload("0002 é".to_owned()));
    for bad in ["\"\"", "7", "\"a\\nb\"", &format!("\"{}\"", "a".repeat(QR_BYTES_MAX + 1))] {
        assert_eq!(verdict(&body(bad)), "qr_payload");
    }
}
