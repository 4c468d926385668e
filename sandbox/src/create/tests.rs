//! Create calls made by the code that calls partners in service, altered field by field.

use payfold_partners::create::CreateRequest;
use payfold_partners::directory::Directory;
use payfold_partners::document::{AccountEntry, NewKey, VaultDocument};
use payfold_partners::keys::Channel;
use payfold_partners::mac::MacKey;
use payfold_partners::profile::SANDBOX_PROFILE;
use payfold_partners::secret::Secret;
use payfold_schemas::ids::{KeyId, PartnerCode};
use serde_json::{Value, json};

use super::*;

const KEY: &[u8] = b"a test key, worth nothing at all";
const OTHER_KEY: &[u8] = b"another test key, worth nothing at all";
const NOW: Time = Time::from_unix_ms(1_769_853_500_000);

fn create_endpoint(profile: Profile) -> CreateEndpoint {
    let entries = [("SHOP", KEY), ("OTHER", OTHER_KEY)];
    let directory = directory(&profile, &entries.map(|(code, key)| (merchant(code), key)));
    let account = |account: &Arc<Account>| (account.merchant_code().clone(), Arc::clone(account));
    let accounts = directory.accounts().iter().map(account).collect();
    let terms = profile.create_terms().unwrap();
    CreateEndpoint::new(profile, terms, accounts)
}

fn merchant(code: &str) -> MerchantCode {
    MerchantCode::parse(code).unwrap()
}

fn directory(profile: &Profile, entries: &[(MerchantCode, &[u8])]) -> Directory {
    let entry = |(merchant, secret): &(MerchantCode, &[u8])| {
        let mut entry = AccountEntry::new(profile.partner().clone(), merchant.clone());
        let (id, channel) = (KeyId::parse("k1").unwrap(), Channel::Ipn);
        let (secret, created_at) = (Secret::from_bytes(secret.to_vec()), NOW.plus_ms(-1_000));
        let key = NewKey { id, channel, secret, valid_from: created_at, overlap_ms: 0, created_at };
        entry.add_key(key).unwrap();
        entry
    };
    let vault =
        VaultDocument { accounts: entries.iter().map(entry).collect(), ..Default::default() };
    Directory::build(vec![profile.clone()], &vault).unwrap()
}

fn sandbox() -> CreateEndpoint {
    create_endpoint(Profile::sandbox_for(&PartnerCode::parse("sandbox").unwrap()))
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
        presentation: Some(PresentationKind::Qr),
        reference: None,
        payer_ip: None,
    }
}

fn body(create_endpoint: &CreateEndpoint, request: &CreateRequest) -> Value {
    signed(&create_endpoint.profile, request, KEY)
}

/// The body that the system sends to a partner of this profile, signed with this key.
fn signed(profile: &Profile, request: &CreateRequest, key: &[u8]) -> Value {
    let directory = directory(profile, &[(request.merchant_code.clone(), key)]);
    let draft = directory.accounts()[0].draft_create("http://127.0.0.1:1", request, NOW);
    serde_json::from_str(&draft.unwrap().create.body).unwrap()
}

fn parse_call(
    create_endpoint: &CreateEndpoint,
    body: &Value,
) -> Result<CreateCall, RequestProblem> {
    create_endpoint
        .verify(body.to_string().as_bytes(), NOW)
        .and_then(|call| create_endpoint.parse_fields(call))
}

fn refusal(create_endpoint: &CreateEndpoint, body: &Value) -> String {
    let problem = parse_call(create_endpoint, body).unwrap_err();
    format!("{} {problem}", problem.status)
}

#[test]
fn a_signed_call_is_parsed() {
    let create_endpoint = sandbox();
    let call = parse_call(&create_endpoint, &body(&create_endpoint, &request())).unwrap();
    assert_eq!(call.account.merchant_code().as_str(), "SHOP");
    assert_eq!((call.order_id.as_str(), call.amount.minor()), ("ord-1", 150_000));
    assert_eq!((call.currency.code(), &*call.description), ("VND", "Zwei Brötchen #pay"));
    assert_eq!(call.expires_at, Some(Time::from_unix_ms(1_769_853_600_000)));
    assert_eq!(call.presentation, Some(PresentationKind::Qr));
    assert_eq!(call.return_url.path(), "/api/payment/result");
    let without = CreateRequest { expires_at: None, presentation: None, ..request() };
    let call = parse_call(&create_endpoint, &body(&create_endpoint, &without)).unwrap();
    assert_eq!((call.expires_at, call.presentation), (None, Some(PresentationKind::Page)));
}

#[test]
fn an_altered_field_is_refused() {
    let create_endpoint = sandbox();
    for field in CreateField::ALL.map(CreateField::name) {
        let mut altered = body(&create_endpoint, &request());
        altered[field] = match &altered[field] {
            Value::String(text) if field == "merchantCode" => {
                assert_eq!(text, "SHOP");
                json!("OTHER")
            }
            Value::String(text) => json!(format!("{text} ")),
            _ => json!(15_000),
        };
        let refusal_text = refusal(&create_endpoint, &altered);
        assert!(
            refusal_text.starts_with("401 unauthenticated: signature"),
            "{field}: {refusal_text}"
        );
    }
    let mut dropped = body(&create_endpoint, &request());
    dropped.as_object_mut().unwrap().remove("expiresAt");
    assert!(
        refusal(&create_endpoint, &dropped).starts_with("401"),
        "a field left out is altered too"
    );
    let mut presentation = body(&create_endpoint, &request());
    presentation["presentation"] = json!("page");
    assert_eq!(
        parse_call(&create_endpoint, &presentation).unwrap().presentation,
        Some(PresentationKind::Page),
        "it is not signed"
    );
}

#[test]
fn a_signature_has_one_spelling_and_one_key() {
    let create_endpoint = sandbox();
    let valid = body(&create_endpoint, &request());
    let signature = valid["signature"].as_str().unwrap();
    let forged = signed(&create_endpoint.profile, &request(), b"another key, worth nothing at all");
    for claimed in [
        signature.to_uppercase(),
        signature[1..].to_owned(),
        format!("{signature}0"),
        String::new(),
        forged["signature"].as_str().unwrap().to_owned(),
    ] {
        let mut altered = valid.clone();
        altered["signature"] = json!(claimed);
        assert!(refusal(&create_endpoint, &altered).starts_with("401"), "{claimed}");
    }
}

/// A value put into the body after signing (`-` removes the field), and a part of the refusal.
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
    merchantCode  "ABSENT"   => 401 unauthenticated: merchantCode: this partner has no such account
    merchantCode  "a b"      => 401 unauthenticated: merchantCode: this partner has no such account
    description   "a|b"      => 400 invalid_field: description: contains the separator
"#;

#[test]
fn the_wrong_field_is_named() {
    let create_endpoint = sandbox();
    for case in UNREAD.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (alteration, expected) = case.split_once("=>").unwrap();
        let (field, source) = alteration.trim().split_once(' ').unwrap();
        let mut altered = body(&create_endpoint, &request());
        match source.trim() {
            "-" => drop(altered.as_object_mut().unwrap().remove(field)),
            source => altered[field] = serde_json::from_str(source).unwrap(),
        }
        let refusal_text = refusal(&create_endpoint, &altered);
        assert!(refusal_text.starts_with(expected.trim()), "{case}: {refusal_text}");
    }
    for raw in ["", "[]", "{", "{\"orderId\":\"a\",\"orderId\":\"b\"}"] {
        let problem = create_endpoint.verify(raw.as_bytes(), NOW).unwrap_err();
        assert_eq!((problem.status, problem.code), (400, "malformed_body"), "{raw}");
    }
}

/// Signed calls with a wrong field: the field, its JSON, and a part of the refusal.
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
fn signed_values_are_checked_too() {
    let create_endpoint = sandbox();
    for case in SIGNED.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (alteration, expected) = case.split_once("=>").unwrap();
        let (field, source) = alteration.trim().split_once(' ').unwrap();
        let mut fields: Vec<(&str, String)> = CreateField::ALL
            .map(CreateField::name)
            .into_iter()
            .map(|name| (name, body(&create_endpoint, &request())[name].to_string()))
            .collect();
        fields.iter_mut().find(|(name, _)| *name == field).unwrap().1 = source.trim().to_owned();
        let text = |source: &String| serde_json::from_str(source).unwrap_or(source.clone());
        let signed: Vec<String> = fields.iter().map(|(_, source)| text(source)).collect();
        let signature = MacKey::new(KEY).sign(signed.join("|").as_bytes());
        fields.push(("signature", format!("\"{}\"", hex::encode(signature))));
        let fields: Vec<_> =
            fields.iter().map(|(name, json)| format!("\"{name}\":{json}")).collect();
        let raw = format!("{{{}}}", fields.join(","));
        let refusal_text = match create_endpoint
            .verify(raw.as_bytes(), NOW)
            .and_then(|call| create_endpoint.parse_fields(call))
        {
            Ok(_) => "ok".to_owned(),
            Err(problem) => {
                assert_eq!(problem.status, 400, "{case}: {problem}");
                problem.detail.split(':').next().unwrap().to_owned()
            }
        };
        assert_eq!(refusal_text, expected.trim(), "{case}");
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
    let other =
        create_endpoint(Profile::parse(&PartnerCode::parse("other").unwrap(), &text).unwrap());
    assert_ne!(other.rule().signed_fields[0], sandbox().rule().signed_fields[0]);
    let signed = body(&other, &CreateRequest { description: "a|b".to_owned(), ..request() });
    assert!(parse_call(&other, &signed).is_ok());
    assert!(refusal(&sandbox(), &body(&other, &request())).starts_with("401"));
}
