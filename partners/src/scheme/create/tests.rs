//! The create requests of the shipped profiles, byte for byte. Signatures are computed here
//! independently, with the crypto libraries over texts that are written out.

mod answers;
mod default_scheme;
mod mistakes;
mod notices;
mod texts;

use std::sync::Arc;

use hmac::{Hmac, Mac};
use payfold_schemas::fact::Presentation;
use payfold_schemas::ids::{MerchantCode, OrderId, PartnerCode, Reference};
use payfold_schemas::money::{Amount, Currency};
use sha2::{Sha256, Sha512};

use super::*;
use crate::create::PresentationKind;
use crate::directory::Directory;
use crate::directory::account::Account;
use crate::document::{AccountEntry, VaultDocument};
use crate::keys::Channel;
use crate::profile::Profile;
use crate::profile::shipped::{ShippedProfile, StarterProfile};
use crate::scheme::call::RequestBuilder;
use crate::scheme::tests::{NOW, SECRET, key};

const KEY1: &str = "rzp_test_1:another test key, worth nothing";

/// An order id as checkout makes it, at NOW.
const ORDER_ID: &str = "ord-019c137e-c100-7abc-8000-00000000000f";

fn partner() -> PartnerCode {
    PartnerCode::parse("acme").unwrap()
}

fn shipped(name: &str) -> &'static str {
    ShippedProfile::of(name).unwrap().profile
}

/// acme/SHOP under this profile, with a key of each channel.
fn account_of(profile: &str) -> Arc<Account> {
    Arc::clone(&directory_of(profile).accounts()[0])
}

fn directory_of(profile: &str) -> Directory {
    let profile = Profile::parse(&partner(), profile).unwrap_or_else(|error| panic!("{error}"));
    let mut entry = AccountEntry::new(partner(), MerchantCode::parse("SHOP").unwrap());
    entry.keys = vec![
        key("ipn", Channel::Ipn, SECRET.as_bytes()),
        key("create", Channel::Create, KEY1.as_bytes()),
    ];
    entry.constants = [("accessKey", "A-7"), ("notification_url", "u"), ("location_id", "L1")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let vault = VaultDocument { accounts: vec![entry], ..VaultDocument::default() };
    Directory::build(vec![profile], &vault).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn request(amount: i64, currency: &str) -> CreateRequest {
    CreateRequest {
        merchant_code: MerchantCode::parse("SHOP").unwrap(),
        order_id: OrderId::parse(ORDER_ID).unwrap(),
        amount: Amount::from_minor(amount).unwrap(),
        currency: Currency::parse(currency).unwrap(),
        description: "Hai vé \"A&B\"".to_owned(),
        return_url: "https://pay.example/api/payment/result".to_owned(),
        ipn_url: "https://pay.example/api/payment/ipn/acme".to_owned(),
        expires_at: None,
        presentation: None,
        reference: Some(Reference::parse("cart 7").unwrap()),
        payer_ip: None,
    }
}

fn create(account: &Account) -> &SchemeCreate {
    account.profile().scheme().create.as_ref().unwrap()
}

fn put(
    account: &Account,
    request: &CreateRequest,
) -> Result<(CallRequest, RequestedSession), CallBuildError> {
    let rule = &create(account).rule;
    let calling = RequestBuilder::of(
        account,
        (rule, Some("application/json")),
        account.scheme_keys().call_keys(rule, NOW),
        "https://api.example",
    );
    let (values, asked) = create(account).values(calling.scheme, request, NOW)?;
    Ok((calling.build(values)?, asked))
}

/// Method, address, headers in their order and body, each on its line.
fn written(sent: &CallRequest) -> String {
    let headers = sent.headers.iter().map(|(name, value)| format!("{name}: {value}\n"));
    let headers: String = headers.collect();
    let body = String::from_utf8(sent.body.clone()).unwrap();
    format!("{} {}{}\n{headers}{body}", sent.method.name(), sent.base, sent.target)
}

fn sent(profile: &str, request: &CreateRequest) -> (String, RequestedSession) {
    let put = put(&account_of(profile), request);
    let (sent, asked) = put.unwrap_or_else(|why| panic!("{why}"));
    (written(&sent), asked)
}

fn hmac<M: Mac + hmac::digest::KeyInit>(secret: &str, text: &str) -> String {
    let mut mac = <M as Mac>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(text.as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

const JSON: &str = "accept: application/json\ncontent-type: application/json\n";

#[test]
fn momo_is_sent_a_signed_json() {
    let text = format!(
        "accessKey=A-7&amount=150000&extraData=&ipnUrl=https://pay.example/api/payment/ipn/acme&\
         orderId={ORDER_ID}&orderInfo=Hai vé \"A B\"&partnerCode=SHOP&\
         redirectUrl=https://pay.example/api/payment/result&requestId={ORDER_ID}&\
         requestType=captureWallet"
    );
    // A key of channel create is used before the key of notices.
    let signature = hmac::<Hmac<Sha256>>(KEY1, &text);
    let (sent_text, asked) = sent(shipped("momo"), &request(150_000, "VND"));
    let (head, body) = sent_text.split_once(JSON).unwrap();
    assert_eq!(head, "POST https://api.example/v2/gateway/api/create\n");
    let expected = serde_json::json!({
        "partnerCode": "SHOP", "requestId": ORDER_ID, "amount": 150_000, "orderId": ORDER_ID,
        "orderInfo": "Hai vé \"A B\"", "redirectUrl": "https://pay.example/api/payment/result",
        "ipnUrl": "https://pay.example/api/payment/ipn/acme", "requestType": "captureWallet",
        "extraData": "", "lang": "en", "signature": signature,
    });
    assert_eq!(serde_json::from_str::<serde_json::Value>(body).unwrap(), expected);
    assert_eq!(asked.expires_at, NOW.plus_ms(6_000_000));
}

#[test]
fn zalopay_is_sent_an_id_that_leads_back_to_the_order() {
    let mut request = request(150_000, "VND");
    request.expires_at = Some(NOW.plus_ms(400_900));
    let (sent_text, asked) = sent(shipped("zalopay"), &request);
    let id = "260131_019c137ec1007abc800000000000000f";
    let embed = r#"{"redirecturl":"https://pay.example/api/payment/result"}"#;
    let mac =
        hmac::<Hmac<Sha256>>(KEY1, &format!("SHOP|{id}|payer|150000|1769853600000|{embed}|[]"));
    let (head, body) = sent_text.rsplit_once('\n').unwrap();
    assert_eq!(
        head,
        "POST https://api.example/v2/create\naccept: application/json\n\
         content-type: application/x-www-form-urlencoded"
    );
    let pairs: Vec<_> = url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    let expected = [
        ("app_id", "SHOP"),
        ("app_user", "payer"),
        ("app_trans_id", id),
        ("app_time", "1769853600000"),
        ("amount", "150000"),
        ("item", "[]"),
        ("embed_data", embed),
        ("description", "Hai vé \"A&B\""),
        ("bank_code", ""),
        ("callback_url", "https://pay.example/api/payment/ipn/acme"),
        ("expire_duration_seconds", "400"),
        ("mac", &mac),
    ];
    assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(asked.expires_at, NOW.plus_ms(400_000), "no later than the shop asks");
}

#[test]
fn midtrans_is_asked_for_whole_rupiahs_and_minutes_at_its_own_address() {
    let mut wanted = request(15_000_000, "IDR");
    wanted.expires_at = Some(NOW.plus_ms(719_000));
    let (sent_text, asked) = sent(shipped("midtrans"), &wanted);
    let (head, body) = sent_text.rsplit_once('\n').unwrap();
    // base64 of KEY1 and a colon.
    let expected = "POST https://app.midtrans.com/snap/v1/transactions\n\
        X-Override-Notification: https://pay.example/api/payment/ipn/acme\n\
        accept: application/json\ncontent-type: application/json\n\
        authorization: Basic cnpwX3Rlc3RfMTphbm90aGVyIHRlc3Qga2V5LCB3b3J0aCBub3RoaW5nOg==";
    assert_eq!(head, expected);
    let expected = serde_json::json!({
        "transaction_details": {"order_id": ORDER_ID, "gross_amount": 150_000},
        "callbacks": {"finish": "https://pay.example/api/payment/result"},
        "expiry": {"start_time": "2026-01-31 17:00:00 +0700", "duration": 11, "unit": "minutes"},
        "page_expiry": {"duration": 11, "unit": "minutes"},
        "custom_field1": "Hai vé \"A&B\"",
    });
    assert_eq!(serde_json::from_str::<serde_json::Value>(body).unwrap(), expected);
    assert_eq!(asked.expires_at, NOW.plus_ms(660_000), "eleven whole minutes");
}

#[test]
fn square_and_razorpay_are_sent_links() {
    let (sent_text, _) = sent(shipped("square"), &request(1_050, "USD"));
    let (head, body) = sent_text.rsplit_once('\n').unwrap();
    let expected = format!(
        "POST https://api.example/v2/online-checkout/payment-links\naccept: application/json\n\
         content-type: application/json\nauthorization: Bearer {KEY1}"
    );
    assert_eq!(head, expected);
    let expected = serde_json::json!({
        "idempotency_key": ORDER_ID,
        "quick_pay": {
            "name": "Hai vé \"A&B\"", "price_money": {"amount": 1_050, "currency": "USD"},
            "location_id": "L1",
        },
        "checkout_options": {"redirect_url": "https://pay.example/api/payment/result"},
        "payment_note": ORDER_ID,
    });
    assert_eq!(serde_json::from_str::<serde_json::Value>(body).unwrap(), expected);

    let (sent_text, asked) = sent(shipped("razorpay"), &request(5_000, "INR"));
    let (head, body) = sent_text.rsplit_once('\n').unwrap();
    let basic = "Authorization: Basic cnpwX3Rlc3RfMTphbm90aGVyIHRlc3Qga2V5LCB3b3J0aCBub3RoaW5n\n";
    assert!(
        head.starts_with(&format!("POST https://api.example/v1/payment_links\n{basic}")),
        "{head}"
    );
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    let sent_text =
        [&body["amount"], &body["currency"], &body["expire_by"], &body["notes"]["order_id"]];
    assert_eq!(
        sent_text.map(ToString::to_string),
        ["5000", "\"INR\"", "1769855400", &format!("\"{ORDER_ID}\"")]
    );
    assert_eq!(asked.expires_at, NOW.plus_ms(1_800_000));
}

/// VNPay as in its documentation: sorted pairs, form-encoded, followed by the digest.
pub(super) fn vnpay() -> String {
    let (head, _) =
        StarterProfile::of("sorted-pairs").unwrap().profile.split_once("[create]").unwrap();
    format!(
        r#"{head}
[create]
kind = "signed_url"
path = "/paymentv2/vpcpay.html"
encoding = "form"
amount_unit = "hundredths"
currencies = {{ VND = "VND" }}
expiry = "request"
ttl_s = 900
now_format = "%Y%m%d%H%M%S"
now_zone = "+07:00"
expires_format = "%Y%m%d%H%M%S"
expires_zone = "+07:00"
[create.fields]
vnp_Version = "2.1.0"
vnp_Command = "pay"
vnp_TmnCode = "{{merchant}}"
vnp_Amount = "{{amount}}"
vnp_CreateDate = "{{now}}"
vnp_CurrCode = "{{currency}}"
vnp_IpAddr = "127.0.0.1"
vnp_Locale = "vn"
vnp_OrderInfo = "{{description|ascii}}"
vnp_OrderType = "other"
vnp_ReturnUrl = "{{return_url}}"
vnp_TxnRef = "{{order}}"
vnp_ExpireDate = "{{expires}}"
vnp_SecureHash = "{{sign}}"
[[create.pairs]]
name = "sent"
of = "s"
encoding = "form"
[create.sign]
algorithm = "hmac-sha512"
text = "{{p.sent}}"
output = "hex-lower"
"#
    )
}

#[test]
fn a_signed_address_is_only_built() {
    let account = account_of(&vnpay());
    let (sent, asked) =
        put(&account, &request(150_000, "VND")).unwrap_or_else(|why| panic!("{why}"));
    let reach = Reach::Public;
    let offer = create(&account).offer_of((&sent, &asked), "", reach).unwrap();
    let Presentation::RedirectUrl(address) = &offer.presentation else { panic!("{offer:?}") };
    assert_eq!(offer.provider_ref.as_str(), ORDER_ID);
    assert_eq!(offer.expires_at, NOW.plus_ms(900_000));

    // As the partner checks it: all fields but the digest, sorted, encoded by another library.
    let url = url::Url::parse(address).unwrap();
    assert_eq!((url.host_str(), url.path()), (Some("api.example"), "/paymentv2/vpcpay.html"));
    let mut pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let (name, digest) = pairs.pop().unwrap();
    assert_eq!(name, "vnp_SecureHash");
    pairs.sort();
    let mut text = url::form_urlencoded::Serializer::new(String::new());
    let text = text.extend_pairs(&pairs).finish();
    assert_eq!(digest, hmac::<Hmac<Sha512>>(KEY1, &text));
    for (name, value) in [
        ("vnp_Amount", "15000000"),
        ("vnp_CreateDate", "20260131170000"),
        ("vnp_ExpireDate", "20260131171500"),
        ("vnp_OrderInfo", "Hai v   A B "),
        ("vnp_TxnRef", ORDER_ID),
    ] {
        let sent_text =
            pairs.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
        assert_eq!(sent_text, Some(value), "{name}");
    }
    assert!(address.contains("vnp_OrderInfo=Hai+v+++A+B+&"), "{address}");
}

#[test]
fn a_request_that_can_t_be_built_is_refused() {
    let refused = |profile: &str, request: &CreateRequest| put(&account_of(profile), request).err();
    assert_eq!(refused(shipped("momo"), &request(1_050, "USD")), Some(CallBuildError::Currency));
    assert_eq!(refused(shipped("midtrans"), &request(1_050, "IDR")), Some(CallBuildError::Amount));
    let mut soon = request(15_000_000, "IDR");
    soon.expires_at = Some(NOW.plus_ms(59_999));
    assert_eq!(refused(shipped("midtrans"), &soon), Some(CallBuildError::Expiry));
    let mut other = request(150_000, "VND");
    other.order_id = OrderId::parse("cart-7").unwrap();
    assert_eq!(refused(shipped("zalopay"), &other), Some(CallBuildError::Order));
    assert_eq!(refused(shipped("momo"), &other), None);
}

#[test]
fn the_payers_address_is_sent_where_the_profile_requests_it() {
    let sent_text = |profile: &str, payer_ip: Option<&str>| {
        let payer_ip = payer_ip.map(|address| address.parse().unwrap());
        let asked = CreateRequest { payer_ip, ..request(150_000, "VND") };
        let put = put(&account_of(profile), &asked).map(|(sent, _)| written(&sent));
        put.map(|sent| {
            sent.split(['?', '&'])
                .find_map(|pair| pair.strip_prefix("vnp_IpAddr=").map(str::to_owned))
        })
    };
    let needed = vnpay().replace("vnp_IpAddr = \"127.0.0.1\"", "vnp_IpAddr = \"{payer_ip}\"");
    assert_ne!(needed, vnpay());
    assert_eq!(sent_text(&needed, Some("203.0.113.7")), Ok(Some("203.0.113.7".to_owned())));
    assert_eq!(sent_text(&needed, Some("::ffff:203.0.113.7")), Ok(Some("203.0.113.7".to_owned())));
    assert_eq!(sent_text(&needed, Some("2001:db8::7")), Ok(Some("2001%3Adb8%3A%3A7".to_owned())));
    assert_eq!(sent_text(&needed, None), Err(CallBuildError::PayerIp));
    assert_eq!(
        sent_text(&needed.replace("{payer_ip}", "[{payer_ip}]"), None),
        Ok(Some(String::new()))
    );
    assert_eq!(sent_text(&vnpay(), None), Ok(Some("127.0.0.1".to_owned())));
}

/// Cut inside an escape, the description would end the string that holds it.
#[test]
fn a_value_can_t_break_out_of_its_place() {
    let momo = shipped("momo").replace("{description}", "{description|json|first:9}");
    let (sent_text, _) = sent(&momo, &request(150_000, "VND"));
    let body: serde_json::Value =
        serde_json::from_str(sent_text.split_once(JSON).unwrap().1).unwrap();
    assert_eq!(body["orderInfo"], "Hai vé \\\"");
    let address = vnpay()
        .replace("path = \"/paymentv2/vpcpay.html\"", "path = \"/{description|url|before:%22}/p\"");
    let (sent_text, _) = sent(&address, &request(150_000, "VND"));
    assert!(
        sent_text.starts_with("GET https://api.example/Hai%2520v%25C3%25A9%2520/p?"),
        "{sent_text}"
    );
}

#[test]
fn what_is_signed_over_the_body_and_sent_as_fields_is_the_same() {
    let of_body = vnpay()
        .replace(
            "kind = \"signed_url\"",
            "kind = \"call\"\nmethod = \"POST\"\ncontent = \"json\"\n\
             headers = { X-Sign = \"{sign}\" }",
        )
        .replace("vnp_SecureHash = \"{sign}\"\n", "")
        .replace("text = \"{p.sent}\"", "text = \"{method}{path}{body}\"");
    let of_body =
        format!("{of_body}[create.answer]\nref = \"{{a.id}}\"\nredirect = \"{{a.url}}\"\n");
    let (sent_text, _) = sent(&of_body, &request(150_000, "VND"));
    let (head, body) = sent_text.rsplit_once('\n').unwrap();
    let parsed: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        (&parsed["vnp_Amount"], parsed.as_object().unwrap().len()),
        (&"15000000".into(), 13)
    );
    let signature = hmac::<Hmac<Sha512>>(KEY1, &format!("POST/paymentv2/vpcpay.html{body}"));
    assert!(head.contains(&format!("X-Sign: {signature}\n")), "{head}");
}
