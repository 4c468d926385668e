//! The create call: made by the very code that calls partners, altered field by field.

use payfold_partners::create::CreateRequest;
use payfold_partners::mac::MacKey;
use payfold_partners::profile::SANDBOX_PROFILE;
use payfold_schemas::ids::PartnerCode;
use serde_json::{Value, json};

use super::*;

const KEY: &[u8] = b"a test key, worth nothing at all";

fn reception(profile: Profile) -> Reception {
    let account = |code: &str, key: &[u8]| {
        let merchant_code = MerchantCode::parse(code).unwrap();
        let key = MacKey::new(key);
        (merchant_code.clone(), Arc::new(Account { merchant_code, key }))
    };
    let accounts = HashMap::from([account("SHOP", KEY), account("OTHER", b"another key")]);
    let rule = profile.create().unwrap().clone();
    Reception::new(profile, rule, accounts)
}

fn sandbox() -> Reception {
    reception(Profile::sandbox_for(&PartnerCode::parse("sandbox").unwrap()))
}

fn request() -> CreateRequest {
    CreateRequest {
        merchant_code: MerchantCode::parse("SHOP").unwrap(),
        order_id: OrderId::parse("ord-1").unwrap(),
        amount: Amount::from_minor(150_000).unwrap(),
        currency: Currency::parse("VND").unwrap(),
        description: "Zwei Brötchen #pay".to_owned(),
        return_url: "http://127.0.0.1:8080/api/payment/result".to_owned(),
        ipn_url: "http://127.0.0.1:8080/api/payment/ipn".to_owned(),
        expires_at: Some(Time::from_unix_ms(1_769_853_600_000)),
        wish: Some(Wish::Qr),
        reference: None,
        payer_ip: None,
    }
}

fn body(reception: &Reception, request: &CreateRequest) -> Value {
    let bytes = request.body(&reception.profile, &reception.rule, &MacKey::new(KEY)).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn verdict(reception: &Reception, body: &Value) -> Result<CreateCall, Problem> {
    reception.verify(body.to_string().as_bytes()).and_then(|call| reception.read(call))
}

fn refusal(reception: &Reception, body: &Value) -> String {
    let problem = verdict(reception, body).unwrap_err();
    format!("{} {problem}", problem.status)
}

#[test]
fn a_call_is_read_as_it_was_signed() {
    let reception = sandbox();
    let call = verdict(&reception, &body(&reception, &request())).unwrap();
    assert_eq!(call.account.merchant_code.as_str(), "SHOP");
    assert_eq!((call.order_id.as_str(), call.amount.minor()), ("ord-1", 150_000));
    assert_eq!((call.currency.code(), &*call.description), ("VND", "Zwei Brötchen #pay"));
    assert_eq!(call.expires_at, Some(Time::from_unix_ms(1_769_853_600_000)));
    assert_eq!(call.wish, Wish::Qr);
    assert_eq!(call.return_url.path(), "/api/payment/result");
    let without = CreateRequest { expires_at: None, wish: None, ..request() };
    let call = verdict(&reception, &body(&reception, &without)).unwrap();
    assert_eq!((call.expires_at, call.wish), (None, Wish::Page));
}

#[test]
fn an_altered_field_is_refused() {
    let reception = sandbox();
    for field in CreateField::ALL.map(CreateField::name) {
        let mut altered = body(&reception, &request());
        altered[field] = match &altered[field] {
            Value::String(text) if field == "merchantCode" => {
                assert_eq!(text, "SHOP");
                json!("OTHER")
            }
            Value::String(text) => json!(format!("{text} ")),
            _ => json!(15_000),
        };
        let told = refusal(&reception, &altered);
        assert!(told.starts_with("401 unauthenticated: signature"), "{field}: {told}");
    }
    let mut dropped = body(&reception, &request());
    dropped.as_object_mut().unwrap().remove("expiresAt");
    assert!(refusal(&reception, &dropped).starts_with("401"), "a field left out is altered too");
    let mut presentation = body(&reception, &request());
    presentation["presentation"] = json!("page");
    assert_eq!(verdict(&reception, &presentation).unwrap().wish, Wish::Page, "it is not signed");
}

#[test]
fn a_signature_has_one_spelling_and_one_key() {
    let reception = sandbox();
    let genuine = body(&reception, &request());
    let signature = genuine["signature"].as_str().unwrap();
    let forged = request().body(&reception.profile, &reception.rule, &MacKey::new(b"no")).unwrap();
    let forged: Value = serde_json::from_slice(&forged).unwrap();
    for claimed in [
        signature.to_uppercase(),
        signature[1..].to_owned(),
        format!("{signature}0"),
        String::new(),
        forged["signature"].as_str().unwrap().to_owned(),
    ] {
        let mut altered = genuine.clone();
        altered["signature"] = json!(claimed);
        assert!(refusal(&reception, &altered).starts_with("401"), "{claimed}");
    }
}

/// What is put into the body after the signing (`-` takes the field out), and what is told.
const UNREAD: &str = r#"
    merchantCode  -          => 400 invalid_field: merchantCode: is required
    orderId       null       => 400 invalid_field: orderId: is required
    amount        "150000"   => 400 invalid_field: amount: must be a JSON number
    currency      7          => 400 invalid_field: currency: must be a JSON string
    description   ["x"]      => 400 invalid_field: description: must be a JSON string
    ipnUrl        -          => 400 invalid_field: ipnUrl: is required
    signature     -          => 400 invalid_field: signature: is required
    signature     true       => 400 invalid_field: signature: must be a JSON string
    presentation  1          => 400 invalid_field: presentation: must be a JSON string
    presentation  "poster"   => 400 invalid_field: presentation: must be page or qr
    merchantCode  "NOBODY"   => 401 unauthenticated: merchantCode: there is no such account
    merchantCode  "a b"      => 401 unauthenticated: merchantCode: there is no such account
    description   "a|b"      => 400 invalid_field: description: holds the separator
"#;

#[test]
fn what_is_wrong_is_named() {
    let reception = sandbox();
    for case in UNREAD.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (alteration, expected) = case.split_once("=>").unwrap();
        let (field, source) = alteration.trim().split_once(' ').unwrap();
        let mut altered = body(&reception, &request());
        match source.trim() {
            "-" => drop(altered.as_object_mut().unwrap().remove(field)),
            source => altered[field] = serde_json::from_str(source).unwrap(),
        }
        let told = refusal(&reception, &altered);
        assert!(told.starts_with(expected.trim()), "{case}: {told}");
    }
    for raw in ["", "[]", "{", "{\"orderId\":\"a\",\"orderId\":\"b\"}"] {
        let problem = reception.verify(raw.as_bytes()).unwrap_err();
        assert_eq!((problem.status, problem.code), (400, "malformed_body"), "{raw}");
    }
}

/// Signed by its account and yet wrong: field, JSON, what is told.
const SIGNED: &str = r#"
    orderId      "a b"                             => orderId
    amount       0                                 => amount
    amount       100.0                             => amount
    amount       1e3                               => amount
    currency     "vnd"                             => currency
    expiresAt    "tomorrow"                        => expiresAt
    returnUrl    "javascript:alert(1)"             => returnUrl
    returnUrl    "javascript://payment-result/%0a" => returnUrl
    returnUrl    "http://shop.example/back"        => returnUrl
    returnUrl    "shop://somewhere"                => returnUrl
    returnUrl    "/back"                           => returnUrl
    ipnUrl       "http://10.0.0.1/ipn"             => ipnUrl
    ipnUrl       "http://shop.example/ipn"         => ipnUrl
    ipnUrl       "shop://payment-result"           => ipnUrl
    ipnUrl       "http://me@127.0.0.1/ipn"         => ipnUrl
    returnUrl    "shop://payment-result"           => ok
    returnUrl    "com.shop.app://payment-result"   => ok
    returnUrl    "https://shop.example/back?a=b"   => ok
    ipnUrl       "http://localhost:1/ipn"          => ok
"#;

#[test]
fn a_signed_value_is_judged_too() {
    let reception = sandbox();
    for case in SIGNED.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (alteration, expected) = case.split_once("=>").unwrap();
        let (field, source) = alteration.trim().split_once(' ').unwrap();
        let mut fields: Vec<(&str, String)> = CreateField::ALL
            .map(CreateField::name)
            .into_iter()
            .map(|name| (name, body(&reception, &request())[name].to_string()))
            .collect();
        fields.iter_mut().find(|(name, _)| *name == field).unwrap().1 = source.trim().to_owned();
        let text = |source: &String| serde_json::from_str(source).unwrap_or(source.clone());
        let signed: Vec<String> = fields.iter().map(|(_, source)| text(source)).collect();
        let signature = MacKey::new(KEY).sign(signed.join("|").as_bytes());
        fields.push(("signature", format!("\"{}\"", hex::encode(signature))));
        let fields: Vec<_> =
            fields.iter().map(|(name, json)| format!("\"{name}\":{json}")).collect();
        let raw = format!("{{{}}}", fields.join(","));
        let told = match reception.verify(raw.as_bytes()).and_then(|call| reception.read(call)) {
            Ok(_) => "ok".to_owned(),
            Err(problem) => {
                assert_eq!(problem.status, 400, "{case}: {problem}");
                problem.detail.split(':').next().unwrap().to_owned()
            }
        };
        assert_eq!(told, expected.trim(), "{case}");
    }
}

#[test]
fn another_profile_signs_in_its_own_order() {
    let text = SANDBOX_PROFILE
        .replace(
            "\"merchantCode\", \"orderId\", \"amount\", \"currency\", \"description\"",
            "\"orderId\", \"merchantCode\", \"amount\", \"currency\", \"description\"",
        )
        .replace("separator = \"|\"", "separator = \"&\"")
        .replace("hex-lower\"", "hex-upper\"");
    let other = reception(Profile::parse(&PartnerCode::parse("other").unwrap(), &text).unwrap());
    assert_ne!(other.rule.signed_fields[0], sandbox().rule.signed_fields[0]);
    let signed = body(&other, &CreateRequest { description: "a|b".to_owned(), ..request() });
    assert!(verdict(&other, &signed).is_ok());
    assert!(refusal(&sandbox(), &body(&other, &request())).starts_with("401"));
}
