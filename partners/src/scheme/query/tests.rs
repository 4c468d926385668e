//! The questions of the shipped profiles, byte for byte, and how their answers are judged.

mod default_scheme;
mod mistakes;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use hmac::{Hmac, Mac};
use payfold_schemas::ids::{MerchantCode, OrderId, PartnerCode};
use proptest::prelude::*;
use sha2::Sha256;

use super::*;
use crate::directory::Directory;
use crate::directory::account::Account;
use crate::document::{AccountEntry, VaultDocument};
use crate::keys::Channel;
use crate::profile::Profile;
use crate::profile::shipped::ShippedProfile;
use crate::query::{PaymentStatus, QueryViolation};
use crate::scheme::call::{CallRequest, RequestBuilder};
use crate::scheme::signature_encoding::SignatureEncoding;
use crate::scheme::tests::{NOW, SECRET, key};

const CREATE_SECRET: &str = "rzp_test_1:another test key, worth nothing";

/// An order id as checkout makes it, at NOW.
const MADE: &str = "ord-019c137e-c100-7abc-8000-00000000000f";

fn partner() -> PartnerCode {
    PartnerCode::parse("acme").unwrap()
}

fn shipped(name: &str) -> &'static str {
    ShippedProfile::of(name).unwrap().profile
}

/// acme/SHOP under this profile, with a key of these channels.
fn account(profile: &str, channels: &[Channel]) -> Arc<Account> {
    let profile = Profile::parse(&partner(), profile).unwrap_or_else(|error| panic!("{error}"));
    let mut account = AccountEntry::new(partner(), MerchantCode::parse("SHOP").unwrap());
    let secret = |channel| if channel == Channel::Create { CREATE_SECRET } else { SECRET };
    let key = |channel: &Channel| key(channel.name(), *channel, secret(*channel).as_bytes());
    account.keys = channels.iter().map(key).collect();
    account.constants = ["accessKey", "notification_url"]
        .map(|name| (name.to_owned(), "A-7".to_owned()))
        .into_iter()
        .collect::<BTreeMap<_, _>>();
    let vault = VaultDocument { accounts: vec![account], ..VaultDocument::default() };
    let directory = Directory::build(vec![profile], &vault);
    Arc::clone(&directory.unwrap_or_else(|problems| panic!("{problems:?}")).accounts()[0])
}

fn question(provider_ref: Option<&str>) -> PaymentQuery {
    PaymentQuery {
        merchant_code: MerchantCode::parse("SHOP").unwrap(),
        order_id: OrderId::parse("o-1").unwrap(),
        provider_ref: provider_ref.map(|text| ProviderRef::parse(text).unwrap()),
    }
}

fn query(account: &Account) -> &SchemeQuery {
    account.profile().scheme().query.as_ref().unwrap()
}

fn put(account: &Account, question: &PaymentQuery) -> Result<CallRequest, CallBuildError> {
    let rule = &query(account).question;
    let calling = RequestBuilder::of(
        account,
        (rule, query(account).answer.content.accept()),
        account.scheme_keys().call_keys(rule, NOW),
        "https://api.example",
    );
    calling.build(query(account).values(question, NOW)?)
}

/// Method, target, headers in their order and body, each on its line.
fn written(asked: CallRequest) -> String {
    let headers = asked.headers.iter().map(|(name, value)| format!("{name}: {value}\n"));
    let headers: String = headers.collect();
    let body = String::from_utf8(asked.body).unwrap();
    format!("{} {}\n{headers}{body}", asked.method.name(), asked.target)
}

fn build_text(profile: &str, channels: &[Channel], provider_ref: Option<&str>) -> String {
    let account = account(profile, channels);
    written(put(&account, &question(provider_ref)).unwrap_or_else(|error| panic!("{error}")))
}

fn sha256(secret: &str, text: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(text.as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

static RAZORPAY_ACCOUNT: LazyLock<Arc<Account>> =
    LazyLock::new(|| account(shipped("razorpay"), &BOTH));

const BOTH: [Channel; 2] = [Channel::Ipn, Channel::Create];

#[test]
fn momo_is_asked_with_a_signed_json() {
    let signature =
        sha256(SECRET, "accessKey=A-7&orderId=o-1&partnerCode=SHOP&requestId=o-1-1769853600000");
    let expected = format!(
        "POST /v2/gateway/api/query\naccept: application/json\ncontent-type: application/json\n\
         {{\"partnerCode\":\"SHOP\",\"requestId\":\"o-1-1769853600000\",\"orderId\":\"o-1\",\
         \"lang\":\"en\",\"signature\":\"{signature}\"}}"
    );
    for known in [None, Some("4014083433")] {
        assert_eq!(build_text(shipped("momo"), &[Channel::Ipn], known), expected);
    }
}

#[test]
fn zalopay_is_queried_with_fields_signed_with_key1() {
    let made = PaymentQuery { order_id: OrderId::parse(MADE).unwrap(), ..question(None) };
    let id = "260131_019c137ec1007abc800000000000000f";
    let mac = sha256(CREATE_SECRET, &format!("SHOP|{id}|{CREATE_SECRET}"));
    let expected = format!(
        "POST /v2/query\naccept: application/json\n\
         content-type: application/x-www-form-urlencoded\n\
         app_id=SHOP&app_trans_id={id}&mac={mac}"
    );
    let both = account(shipped("zalopay"), &BOTH);
    assert_eq!(put(&both, &made).map(written), Ok(expected));
    // An order id that checkout did not make does not fit the profile's filters.
    assert_eq!(put(&both, &question(None)).err(), Some(CallBuildError::Order));
    // Signed with the callback's key, the question would be answered as a failed payment.
    let only_key2 = account(shipped("zalopay"), &[Channel::Ipn]);
    assert_eq!(put(&only_key2, &made).err(), Some(CallBuildError::NoKey));
}

#[test]
fn midtrans_is_asked_as_the_server_key() {
    // base64 of SECRET and a colon.
    let expected = "GET /v2/o-1/status\naccept: application/json\n\
        authorization: Basic YSB0ZXN0IGtleSB0aGF0IGlzIHdvcnRoIG5vdGhpbmcgYXQgYWxsOg==\n";
    assert_eq!(build_text(shipped("midtrans"), &[Channel::Ipn], None), expected);
    assert_eq!(build_text(shipped("midtrans"), &[Channel::Ipn], Some("t-1")), expected);
    let own = build_text(shipped("midtrans"), &BOTH, None);
    assert!(own != expected && own.starts_with("GET /v2/o-1/status\n"), "a key of creates counts");
}

#[test]
fn square_and_razorpay_are_asked_for_transactions_only() {
    let expected = format!(
        "GET /v2/payments/p%2F1%3F\naccept: application/json\n\
         authorization: Bearer {CREATE_SECRET}\n"
    );
    assert_eq!(build_text(shipped("square"), &BOTH, Some("p/1?")), expected);
    // base64 of CREATE_SECRET.
    let expected = "GET /v1/payments/pay_1\n\
        Authorization: Basic cnpwX3Rlc3RfMTphbm90aGVyIHRlc3Qga2V5LCB3b3J0aCBub3RoaW5n\n\
        accept: application/json\n";
    assert_eq!(build_text(shipped("razorpay"), &BOTH, Some("pay_1")), expected);
    for name in ["square", "razorpay"] {
        let account_here = account(shipped(name), &BOTH);
        assert_eq!(
            put(&account_here, &question(None)).err(),
            Some(CallBuildError::NoRef),
            "{name}"
        );
        for step in [".", ".."] {
            let refused = put(&account_here, &question(Some(step))).err();
            assert_eq!(refused, Some(CallBuildError::PathStep), "{name} {step}");
        }
        let only_webhook = account(shipped(name), &[Channel::Ipn]);
        let refused = put(&only_webhook, &question(Some("p"))).err();
        assert_eq!(refused, Some(CallBuildError::NoKey), "{name}");
    }
}

proptest! {
    /// Whatever a transaction is called, the address is that of one payment, under the profile's
    /// path.
    #[test]
    fn no_ref_changes_the_address(text in "[ -~]{1,64}") {
        let Ok(provider_ref) = ProviderRef::parse(&text) else { return Ok(()) };
        let asked_for = PaymentQuery { provider_ref: Some(provider_ref), ..question(None) };
        let Ok(asked) = put(&RAZORPAY_ACCOUNT, &asked_for) else {
            prop_assert!(matches!(text.as_str(), "." | ".."), "{} is not asked for", text);
            return Ok(());
        };
        let url = url::Url::parse(&format!("https://api.example{}", asked.target)).unwrap();
        let steps: Vec<_> = url.path_segments().unwrap().collect();
        let parts = (url.host_str(), url.query(), url.fragment());
        prop_assert_eq!(parts, (Some("api.example"), None, None));
        prop_assert_eq!(&steps[..2], ["v1", "payments"]);
        let named = percent_encoding::percent_decode_str(steps[2]).decode_utf8().unwrap();
        prop_assert_eq!((steps.len(), named.as_ref()), (3, text.as_str()));
    }
}

/// The Midtrans profile with another question.
pub(super) fn with_question(question: &str) -> String {
    let old = "method = \"GET\"\npath = \"/v2/{order}/status\"\ncredential = \"basic\"\n\
        user = \"{secret}\"\n";
    let profile = shipped("midtrans");
    assert!(profile.contains(old));
    profile.replace(old, question)
}

#[test]
fn what_is_sent_is_signed_wherever_the_signature_stands() {
    let over_all = with_question(
        r#"method = "POST"
path = "/q?order={order}[&ref={ref}]"
headers = { X-Sign = "{sign}", X-Time = "{now}" }
content = "json"
body = '{{"note":"[{ref}]"}}'
now_format = "%Y%m%d%H%M%S"
now_zone = "Asia/Ho_Chi_Minh"
[query.sign]
algorithm = "hmac-sha256"
text = "{method}{path}?{query}{body}{now}{url}"
output = "base64"
"#,
    );
    let text = "POST/q?order=o-1&\
        ref=a%22b{\"note\":\"a\\\"b\"}20260131170000https://api.example/q?order=o-1&ref=a%22b";
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(text.as_bytes());
    let signature = SignatureEncoding::Base64.encode(&mac.finalize().into_bytes());
    let expected = format!(
        "POST /q?order=o-1&ref=a%22b\nX-Sign: {signature}\nX-Time: 20260131170000\n\
         accept: application/json\n\
         content-type: application/json\n{{\"note\":\"a\\\"b\"}}"
    );
    assert_eq!(build_text(&over_all, &[Channel::Ipn], Some("a\"b")), expected);
    // A time is written in the zone beside the pattern, and its offset with it.
    for (pattern, expected) in [
        ("%FT%T%Z", "2026-01-31T17:00:00+07"),
        ("%FT%T%:z", "2026-01-31T17:00:00+07:00"),
        ("%s", "1769853600"),
    ] {
        let written = over_all.replace("%Y%m%d%H%M%S", pattern);
        let sent = build_text(&written, &[Channel::Ipn], None);
        assert!(sent.contains(&format!("X-Time: {expected}\n")), "{pattern}: {sent}");
    }
    let without = build_text(&over_all, &[Channel::Ipn], None);
    assert!(without.starts_with("POST /q?order=o-1\n"), "{without}");

    let in_address = with_question(
        r#"method = "GET"
path = "/q?order={order}&sign={sign}"
[query.sign]
algorithm = "sha256"
text = "{order}{secret}"
output = "hex-upper"
"#,
    );
    let digest = crate::scheme::signature_encoding::SignatureEncoding::HexUpper
        .encode(&<Sha256 as sha2::Digest>::digest(format!("o-1{SECRET}")));
    let expected = format!("GET /q?order=o-1&sign={digest}\naccept: application/json\n");
    assert_eq!(build_text(&in_address, &[Channel::Ipn], None), expected);
}

#[test]
fn a_public_key_asks_nothing() {
    let pem = "-----BEGIN PUBLIC KEY-----\n\
        MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";
    let profile = with_question(
        "method = \"GET\"\npath = \"/{order}\"\ncredential = \"bearer\"\ntoken = \"{secret}\"\n",
    )
    .replace("sha512", "ed25519")
    .replace("{secret}\"\nsignature", "\"\nsignature")
    .replace("\"needs_confirmation\", \"plain_digest\"", "\"needs_confirmation\"");
    let profile = Profile::parse(&partner(), &profile).unwrap_or_else(|error| panic!("{error}"));
    let mut entry = AccountEntry::new(partner(), MerchantCode::parse("SHOP").unwrap());
    entry.keys = vec![key("k", Channel::Ipn, pem.as_bytes())];
    let vault = VaultDocument { accounts: vec![entry], ..VaultDocument::default() };
    let directory = Directory::build(vec![profile], &vault).unwrap_or_else(|p| panic!("{p:?}"));
    let refused = put(&directory.accounts()[0], &question(None)).err();
    assert_eq!(refused, Some(CallBuildError::NoKey));
}

const MOMO: &str = r#"{"partnerCode":"SHOP","requestId":"q","orderId":"o-1","extraData":"","amount":150000,"transId":4014083433,"payType":"qr","resultCode":0,"refundTrans":[],"message":"ok","responseTime":1769853600000}"#;
const ZALOPAY: &str = r#"{"return_code":1,"return_message":"","sub_return_code":1,"is_processing":false,"amount":150000,"zp_trans_id":240331000000175,"server_time":1769853600000,"discount_amount":0}"#;
const MIDTRANS: &str = r#"{"status_code":"200","status_message":"Success","transaction_id":"t-1","order_id":"o-1","gross_amount":"150000.00","currency":"IDR","payment_type":"qris","transaction_status":"settlement","fraud_status":"accept","transaction_time":"2026-01-31 17:00:00"}"#;
const SQUARE: &str = r#"{"payment":{"id":"p-1","status":"COMPLETED","amount_money":{"amount":1050,"currency":"USD"},"reference_id":"o-1"}}"#;
const RAZORPAY: &str = r#"{"id":"pay_1","entity":"payment","amount":5000,"currency":"INR","status":"captured","amount_refunded":0,"refund_status":null,"notes":{"order_id":"o-1"}}"#;

/// The profile, the ref that was asked for (`-` for none), a part of its good answer, its
/// replacement => the judgement.
const ANSWERS: &str = r#"
    momo - | - | - => SUCCESS 4014083433 150000 VND
    momo 77 | - | - => SUCCESS 4014083433 150000 VND
    momo - | 150000 | 150000.50 => amount
    momo - | 150000 | 1.5e5 => amount
    momo - | 4014083433 | null => provider_ref
    momo - | "o-1" | "o-2" => order_id
    momo - | "SHOP" | "SHIP" => merchant_code
    momo - | "resultCode":0 | "resultCode":1000 => pending
    momo - | "resultCode":0 | "resultCode":9000 => pending
    momo - | "resultCode":0 | "resultCode":42 => unknown
    momo - | "resultCode":0 | "resultCode":1006 => FAILED 4014083433 150000 VND
    momo - | "resultCode":0 | "resultCode":1005 => EXPIRED 4014083433 150000 VND
    momo - | "resultCode":0 | "resultCode":13 => status
    momo - | "resultCode":0 | "resultCode":0.0 => status
    momo - | "resultCode":0 | "resultCode":0,"resultCode":1006 => not_json
    zalopay - | - | - => SUCCESS 240331000000175 150000 VND
    zalopay - | "return_code":1 | "return_code":3 => pending
    zalopay - | "return_code":1,"return_message":"","sub_return_code":1 | "return_code":2,"sub_return_code":-101 => unknown
    zalopay - | "return_code":1,"return_message":"","sub_return_code":1 | "return_code":2,"sub_return_code":-54 => pending
    zalopay - | "return_code":1,"return_message":"","sub_return_code":1 | "return_code":2,"sub_return_code":-402 => status
    zalopay - | "amount":150000 | "amount":"x" => amount
    midtrans - | - | - => SUCCESS t-1 15000000 IDR
    midtrans t-1 | - | - => SUCCESS t-1 15000000 IDR
    midtrans forged | - | - => SUCCESS t-1 15000000 IDR
    midtrans - | settlement | capture => SUCCESS t-1 15000000 IDR
    midtrans - | "settlement","fraud_status":"accept" | "capture","fraud_status":"challenge" => pending
    midtrans - | settlement | pending => pending
    midtrans - | settlement | deny => FAILED t-1 15000000 IDR
    midtrans - | settlement | expire => EXPIRED t-1 15000000 IDR
    midtrans - | settlement | refund => REFUNDED t-1 15000000 IDR
    midtrans - | settlement | partial_refund => pending
    midtrans - | settlement | magic => status
    midtrans - | "status_code":"200" | "status_code":"404" => unknown
    midtrans - | "150000.00" | "149999.00" => SUCCESS t-1 14999900 IDR
    midtrans - | "150000.00" | "150000.001" => amount
    midtrans - | "IDR" | "RP" => currency
    midtrans - | "o-1" | "o-2" => order_id
    midtrans - | "order_id":"o-1", |  => order_id
    midtrans - | "transaction_id":"t-1", |  => provider_ref
    midtrans - | {"status_code" | {{"status_code" => not_json
    square p-1 | - | - => SUCCESS p-1 1050 USD
    square p-2 | - | - => provider_ref
    square p-1 | COMPLETED | APPROVED => pending
    square p-1 | COMPLETED | CANCELED => FAILED p-1 1050 USD
    square p-1 | "o-1" | "o-2" => order_id
    square p-1 | COMPLETED | DONE => status
    razorpay pay_1 | - | - => SUCCESS pay_1 5000 INR
    razorpay pay_2 | - | - => provider_ref
    razorpay pay_1 | captured | failed => FAILED pay_1 5000 INR
    razorpay pay_1 | captured","amount_refunded":0 | refunded","amount_refunded":5000 => REFUNDED pay_1 5000 INR
    razorpay pay_1 | captured | authorized => pending
    razorpay pay_1 | {"order_id":"o-1"} | [] => order_id
"#;

fn judge_text(name: &str, account: &Account, asked_ref: Option<&str>, body: &str) -> String {
    match account.judge_answer(&question(asked_ref), body.as_bytes()) {
        Ok(PaymentStatus::Pending) => "pending".to_owned(),
        Ok(PaymentStatus::Unknown) => "unknown".to_owned(),
        Ok(PaymentStatus::Terminal(end)) => {
            format!("{} {} {} {}", end.status, end.provider_ref, end.amount.minor(), end.currency)
        }
        Err(rule) => {
            assert_ne!(rule, QueryViolation::Redirect, "{name}");
            rule.name().to_owned()
        }
    }
}

#[test]
fn answers_of_shipped_profiles_are_judged() {
    let mut wrong = Vec::new();
    for case in ANSWERS.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (given, expected) = case.rsplit_once("=>").unwrap();
        let [head, from, to] = given
            .split(" | ")
            .map(str::trim)
            .collect::<Vec<_>>()
            .try_into()
            .unwrap_or_else(|parts| panic!("{case}: {parts:?}"));
        let (name, asked_ref) = head.split_once(' ').unwrap();
        let good = match name {
            "momo" => MOMO,
            "zalopay" => ZALOPAY,
            "midtrans" => MIDTRANS,
            "square" => SQUARE,
            _ => RAZORPAY,
        };
        assert!(from == "-" || good.contains(from), "{case}");
        let body = if from == "-" { good.to_owned() } else { good.replacen(from, to, 1) };
        let account = account(shipped(name), &BOTH);
        let judged = judge_text(name, &account, Some(asked_ref).filter(|text| *text != "-"), &body);
        if judged != expected.trim() {
            wrong.push(format!("{case}\n  {judged}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
