//! Create calls of the shipped profiles over real sockets: the request that the gateway gets, and
//! the outcome of each answer.

use std::collections::BTreeMap;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use payfold_schemas::fact::Presentation;
use payfold_schemas::ids::{KeyId, MerchantCode, OrderId, PartnerCode};
use payfold_schemas::money::{Amount, Currency};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::create::CreateViolation;
use crate::directory::Directory;
use crate::document::{AccountEntry, NewKey, VaultDocument};
use crate::keys::Channel;
use crate::profile::Profile;
use crate::profile::shipped::{ShippedProfile, StarterProfile};
use crate::remote::create::{CreateFailure, CreateOutcome};
use crate::remote::partner_client::install_tls;
use crate::secret::Secret;

const ORDER_ID: &str = "ord-019c137e-c100-7abc-8000-00000000000f";

fn now() -> Time {
    Time::parse("2026-01-31T10:00:00Z").unwrap()
}

/// The account acme/SHOP under this profile, which may call this machine.
fn account(profile: &str, constants: &[(&str, &str)]) -> Arc<Account> {
    let partner = PartnerCode::parse("acme").unwrap();
    let mut entry = AccountEntry::new(partner.clone(), MerchantCode::parse("SHOP").unwrap());
    for (id, channel) in [("n", Channel::Ipn), ("c", Channel::Create)] {
        let key = NewKey {
            id: KeyId::parse(id).unwrap(),
            channel,
            secret: Secret::from_bytes(vec![b'x'; 32]),
            valid_from: now().plus_ms(-1),
            overlap_ms: 0,
            created_at: now(),
        };
        entry.add_key(key).unwrap();
    }
    for (name, value) in constants {
        entry.set_constant(name, value).unwrap();
    }
    let mut vault = VaultDocument::default();
    vault.add_account(entry).unwrap();
    let profile = profile.replace("stage = \"draft\"", "stage = \"sandbox\"");
    let profile = Profile::parse(&partner, &profile).unwrap_or_else(|error| panic!("{error}"));
    Arc::clone(&Directory::build(vec![profile], &vault).unwrap().accounts()[0])
}

fn wanted(amount: i64, currency: &str) -> CreateRequest {
    CreateRequest {
        merchant_code: MerchantCode::parse("SHOP").unwrap(),
        order_id: OrderId::parse(ORDER_ID).unwrap(),
        amount: Amount::from_minor(amount).unwrap(),
        currency: Currency::parse(currency).unwrap(),
        description: "Two tickets".to_owned(),
        return_url: "https://pay.example/r".to_owned(),
        ipn_url: "https://pay.example/n".to_owned(),
        expires_at: None,
        presentation: None,
        reference: None,
        payer_ip: None,
    }
}

/// Starts a gateway that answers one request with these bytes. Returns its address and the request.
async fn gateway(bytes: String) -> (String, tokio::task::JoinHandle<io::Result<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let received = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        let (mut read, mut chunk) = (String::new(), [0; 4_096]);
        while !is_whole(&read) {
            let count = stream.read(&mut chunk).await?;
            read.push_str(&String::from_utf8_lossy(&chunk[..count]));
        }
        stream.write_all(bytes.as_bytes()).await?;
        // Closes the connection, so that a client that waits for more bytes gets its end.
        drop(stream);
        Ok(read)
    });
    (url, received)
}

fn is_whole(read: &str) -> bool {
    let Some((head, body)) = read.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.parse().unwrap())
}

fn http(head: &str, body: &str) -> String {
    format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

const PAY_URL: &str = r#"{"resultCode":0,"payUrl":"https://payment.momo.vn/pay?t=1"}"#;

async fn ask_momo(bytes: String) -> (CreateOutcome, String) {
    install_tls();
    let (url, received) = gateway(bytes).await;
    let account = account(ShippedProfile::of("momo").unwrap().profile, &[("accessKey", "A-7")]);
    let remote = PartnerClient::new().unwrap();
    let call =
        remote.prepare_create(&account, &format!("{url}/base/"), &wanted(150_000, "VND"), now());
    let call = call.unwrap_or_else(|error| panic!("{error}"));
    assert!(call.goes_out());
    (call.make(now).await, received.await.unwrap().unwrap())
}

#[tokio::test]
async fn a_session_is_opened_and_named_by_its_order() {
    let (created, received) = ask_momo(http("200 OK", PAY_URL)).await;
    let CreateOutcome::Opened(offer) = created else { panic!("{created:?}") };
    assert_eq!(offer.provider_ref.as_str(), ORDER_ID);
    let page = Presentation::RedirectUrl("https://payment.momo.vn/pay?t=1".to_owned());
    assert_eq!((offer.presentation, offer.expires_at), (page, now().plus_ms(6_000_000)));
    let (head, body) = received.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /base/v2/gateway/api/create HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("content-type: application/json\r\n"), "{head}");
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!((&body["amount"], body["signature"].as_str().unwrap().len()), (&150_000.into(), 64));
}

#[tokio::test]
async fn every_answer_has_its_outcome() {
    let huge = format!("{}{PAY_URL}", " ".repeat(70_000));
    let violation = |rule| CreateOutcome::Failed(CreateFailure::Violation(rule));
    let unknown = |text: &str| CreateOutcome::Unknown(text.to_owned());
    for (bytes, expected) in [
        (
            http("200 OK", r#"{"resultCode":41}"#),
            CreateOutcome::Failed(CreateFailure::Declined("41".into())),
        ),
        (http("201 Created", "[]"), CreateOutcome::Failed(CreateFailure::Declined(String::new()))),
        (http("200 OK", "<html>"), violation(CreateViolation::NotJson)),
        (http("200 OK", ""), violation(CreateViolation::NotJson)),
        (http("200 OK", r#"{"resultCode":0}"#), violation(CreateViolation::NoPresentation)),
        (http("302 Found\r\nlocation: /else", PAY_URL), violation(CreateViolation::Redirect)),
        (http("400 Bad Request", PAY_URL), CreateOutcome::Failed(CreateFailure::Refused(400))),
        (http("429 Too Many Requests", ""), CreateOutcome::Failed(CreateFailure::Refused(429))),
        (http("408 Request Timeout", ""), unknown("the partner answered 408")),
        (http("500 Oops", PAY_URL), unknown("the partner answered 500")),
        (http("200 OK", &huge), unknown("the answer is over 65536 bytes")),
    ] {
        let (created, _) = ask_momo(bytes.clone()).await;
        assert_eq!(created, expected, "{bytes:.80}");
    }
    let cut = http("200 OK", PAY_URL).replace("t=1\"}", "");
    let (created, _) = ask_momo(cut).await;
    assert!(matches!(created, CreateOutcome::Unknown(_)), "{created:?}");
    assert_eq!(CreateFailure::Declined("41".into()).code(), "partner_refused");
}

/// The gateway, its currency and amount, its answer, and the path of the create call.
const GATEWAYS: [(&str, &str, i64, &str, &str); 5] = [
    ("momo", "VND", 150_000, PAY_URL, "/v2/gateway/api/create"),
    (
        "zalopay",
        "VND",
        150_000,
        r#"{"return_code":1,"sub_return_code":1,"zp_trans_token":"t","order_url":"https://qcgateway.zalopay.vn/openinapp?order=e"}"#,
        "/v2/create",
    ),
    (
        "midtrans",
        "IDR",
        15_000_000,
        r#"{"token":"t","redirect_url":"https://app.midtrans.com/snap/v2/vtweb/t"}"#,
        "/snap/v1/transactions",
    ),
    (
        "square",
        "USD",
        1_050,
        r#"{"payment_link":{"id":"F","version":1,"order_id":"C","url":"https://square.link/u/j"}}"#,
        "/v2/online-checkout/payment-links",
    ),
    (
        "razorpay",
        "INR",
        5_000,
        r#"{"id":"plink_1","status":"created","short_url":"https://rzp.io/i/n","reference_id":"x"}"#,
        "/v1/payment_links",
    ),
];

/// Authenticates a create call as the gateway does, from the request alone.
fn is_authenticated(name: &str, head: &str, body: &str) -> bool {
    let secret = "x".repeat(32);
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
    };
    let signed = |text: &str| {
        let key = mac_key(secret.as_bytes());
        let tag = aws_lc_rs::hmac::sign(&key, text.as_bytes());
        tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let form = |name: &str| {
        let mut pairs = url::form_urlencoded::parse(body.as_bytes());
        pairs.find(|(known, _)| known == name).unwrap().1.into_owned()
    };
    let basic = |both: String| Some(format!("Basic {}", STANDARD.encode(both)));
    match name {
        // Signed: the access key and all members except language and signature, sorted by name.
        "momo" => {
            let mut all: BTreeMap<String, serde_json::Value> = serde_json::from_str(body).unwrap();
            let signature = all.remove("signature").unwrap();
            all.remove("lang");
            all.insert("accessKey".to_owned(), "A-7".into());
            let pair = |(name, value): (&String, &serde_json::Value)| {
                format!("{name}={}", value.as_str().map_or(value.to_string(), str::to_owned))
            };
            signature == signed(&all.iter().map(pair).collect::<Vec<_>>().join("&"))
        }
        "zalopay" => {
            let names =
                ["app_id", "app_trans_id", "app_user", "amount", "app_time", "embed_data", "item"];
            form("mac") == signed(&names.map(form).join("|"))
        }
        "midtrans" => header("authorization") == basic(format!("{secret}:")),
        "square" => header("authorization") == Some(format!("Bearer {secret}")),
        _ => header("authorization") == basic(secret),
    }
}

fn mac_key(secret: &[u8]) -> aws_lc_rs::hmac::Key {
    aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret)
}

#[tokio::test]
async fn every_shipped_gateway_authenticates_the_call_and_opens_a_session() {
    install_tls();
    let remote = PartnerClient::new().unwrap();
    for (name, currency, amount, answer, path) in GATEWAYS {
        let (url, received) = gateway(http("200 OK", answer)).await;
        let constants = match name {
            "momo" => vec![("accessKey", "A-7")],
            "midtrans" => vec![("snap_url", url.as_str())],
            "square" => vec![("notification_url", "u"), ("location_id", "L1")],
            _ => Vec::new(),
        };
        let account = account(ShippedProfile::of(name).unwrap().profile, &constants);
        let call = remote.prepare_create(&account, &url, &wanted(amount, currency), now());
        let created = call.unwrap_or_else(|error| panic!("{error}")).make(now).await;
        let CreateOutcome::Opened(offer) = created else { panic!("{name}: {created:?}") };
        assert_eq!(offer.provider_ref.as_str(), ORDER_ID, "{name}");
        let received = received.await.unwrap().unwrap();
        let (head, body) = received.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{name}: {head}");
        assert!(is_authenticated(name, head, body), "{name}: {received}");
    }
}

#[tokio::test]
async fn a_profile_may_send_its_create_calls_to_another_address() {
    install_tls();
    let offer = r#"{"token":"t","redirect_url":"https://app.midtrans.com/s/t"}"#;
    let (url, received) = gateway(http("201 Created", offer)).await;
    let account = account(ShippedProfile::of("midtrans").unwrap().profile, &[("snap_url", &url)]);
    let remote = PartnerClient::new().unwrap();
    let wanted = wanted(15_000_000, "IDR");
    let call = remote.prepare_create(&account, "https://api.midtrans.com", &wanted, now()).unwrap();
    assert!(matches!(call.make(now).await, CreateOutcome::Opened(_)));
    let received = received.await.unwrap().unwrap();
    assert!(received.starts_with("POST /snap/v1/transactions HTTP/1.1\r\n"), "{received}");
    let header = "\r\nx-override-notification: https://pay.example/n\r\n";
    assert!(received.contains(header), "{received}");
}

#[tokio::test]
async fn a_signed_address_needs_no_call() {
    install_tls();
    let account = account(StarterProfile::of("sorted-pairs").unwrap().profile, &[]);
    let remote = PartnerClient::new().unwrap();
    // Nothing listens at this address.
    let call = remote
        .prepare_create(&account, "http://127.0.0.1:9", &wanted(1_500, "EUR"), now())
        .unwrap();
    assert!(!call.goes_out());
    let CreateOutcome::Opened(offer) = call.make(now).await else { panic!("it is built") };
    let Presentation::RedirectUrl(url) = offer.presentation else { panic!("it is a page") };
    assert!(url.starts_with("http://127.0.0.1:9/pay?merchant_id=SHOP&order_id=ord-"), "{url}");
    let mut long = wanted(1_500, "EUR");
    long.return_url = format!("https://pay.example/{}", "x".repeat(2_100));
    let refused = remote.prepare_create(&account, "http://127.0.0.1:9", &long, now()).err();
    let why = "a browser can't open its address: redirect_url".to_owned();
    assert_eq!(refused, Some(CallError::Unbuildable("acme".to_owned(), why).into()));
}

#[tokio::test]
async fn a_mistake_on_our_side_is_reported_before_anything_is_sent() {
    install_tls();
    let remote = PartnerClient::new().unwrap();
    let momo = ShippedProfile::of("momo").unwrap().profile;
    let constants = [("accessKey", "A-7")];
    let refused = |account: &Arc<Account>, url: &str, at: Time, wanted: &CreateRequest| {
        let prepared = remote.prepare_create(account, url, wanted, at);
        prepared.err().expect("it is refused").to_string()
    };
    let sandbox = account(momo, &constants);
    let without = account(momo.split("\n[create]").next().unwrap(), &constants);
    let good = wanted(150_000, "VND");
    let here = "http://127.0.0.1:1";
    for (account, url, at, wanted, expected) in [
        (&without, here, now(), &good, "no [create]"),
        (&sandbox, here, now().plus_ms(-60_000), &good, "acme/SHOP is valid now (it has c from "),
        (&sandbox, "http://pay.example", now(), &good, "not https"),
        (&sandbox, "", now(), &good, "not an absolute"),
        (&sandbox, here, now(), &self::wanted(1_050, "USD"), "takes no such currency"),
    ] {
        let message = refused(account, url, at, wanted);
        assert!(message.contains(expected), "{message}");
    }
    assert!(sandbox.can_sign_creates(now()) && !without.can_sign_creates(now()));
    assert!(!sandbox.can_sign_creates(now().plus_ms(-60_000)));
}
