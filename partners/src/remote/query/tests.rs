//! Status queries over real sockets: the outcome of each answer, and what is never sent or read.

use std::io;
use std::net::SocketAddr;

use payfold_schemas::fact::QueryAnswer;
use payfold_schemas::ids::{KeyId, MerchantCode, OrderId, PartnerCode, ProviderRef};
use payfold_schemas::ipn::Status;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::directory::Directory;
use crate::document::{AccountEntry, NewKey, VaultDocument};
use crate::keys::Channel;
use crate::profile::{Profile, SANDBOX_PROFILE};
use crate::secret::Secret;

const NOW: &str = "2026-01-31T10:00:00Z";

fn now() -> Time {
    Time::parse(NOW).unwrap()
}

fn directory(profile: &str) -> Directory {
    let (partner, merchant) =
        (PartnerCode::parse("acme").unwrap(), MerchantCode::parse("M").unwrap());
    let mut account = AccountEntry::new(partner.clone(), merchant);
    let key = NewKey {
        id: KeyId::parse("k1").unwrap(),
        channel: Channel::Ipn,
        secret: Secret::from_bytes(vec![b'x'; 32]),
        valid_from: now().plus_ms(-1),
        overlap_ms: 0,
        created_at: now(),
    };
    account.add_key(key).unwrap();
    let mut vault = VaultDocument::default();
    vault.add_account(account).unwrap();
    Directory::build(vec![Profile::parse(&partner, profile).unwrap()], &vault).unwrap()
}

fn payment_query() -> PaymentQuery {
    PaymentQuery {
        merchant_code: MerchantCode::parse("M").unwrap(),
        order_id: OrderId::parse("o1").unwrap(),
        provider_ref: Some(ProviderRef::parse("r1").unwrap()),
    }
}

/// Starts a partner that answers one query with these bytes. Returns its address and the request.
async fn answers(bytes: String) -> (SocketAddr, tokio::task::JoinHandle<io::Result<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        let mut read = vec![0; 4_096];
        let count = stream.read(&mut read).await?;
        stream.write_all(bytes.as_bytes()).await?;
        // Closes the connection, so that a client that waits for more bytes gets its end.
        drop(stream);
        Ok(String::from_utf8_lossy(&read[..count]).into_owned())
    });
    (address, asked)
}

async fn ask(profile: &str, bytes: String) -> (QueryOutcome, String) {
    crate::remote::partner_client::install_tls();
    let (address, asked) = answers(bytes).await;
    let directory = directory(profile);
    let account = &directory.accounts()[0];
    let remote = PartnerClient::new().unwrap();
    let url = format!("http://{address}/base/");
    let call = remote.prepare_query(account, &url, payment_query(), now()).unwrap();
    let queried = call.make(now).await;
    (queried, asked.await.unwrap().unwrap())
}

fn http(head: &str, body: &str) -> String {
    format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

const PAID: &str = r#"{"merchantCode":"M","orderId":"o1","providerRef":"r1","status":"SUCCESS","amount":5,"currency":"EUR"}"#;

#[tokio::test]
async fn an_answer_is_read_and_the_query_is_signed() {
    let (queried, asked) = ask(SANDBOX_PROFILE, http("200 OK", PAID)).await;
    let QueryOutcome::Answered(PaymentStatus::Terminal(QueryAnswer {
        provider_ref,
        status,
        amount,
        currency,
    })) = queried
    else {
        panic!("{queried:?}")
    };
    let answered = (provider_ref.as_str(), status, amount.minor(), currency.code());
    assert_eq!(answered, ("r1", Status::Success, 5, "EUR"));
    let line = asked.lines().next().unwrap();
    let expected =
        "GET /base/payments/r1?merchantCode=M&timestamp=2026-01-31T10%3A00%3A00Z&signature=";
    assert!(line.starts_with(expected) && line.ends_with(" HTTP/1.1"), "{line}");
}

#[tokio::test]
async fn every_answer_has_its_outcome() {
    let huge = format!("{}{}", " ".repeat(70_000), PAID);
    let date = "retry-after: Sat, 31 Jan 2026 10:02:00 GMT\r\nx: y";
    for (bytes, expected) in [
        (http("404 Not Found", "{}"), QueryOutcome::Answered(PaymentStatus::Unknown)),
        (http("429 Too Many Requests\r\nretry-after: 7", ""), QueryOutcome::Busy(Some(7_000))),
        (
            http(&format!("503 Service Unavailable\r\n{date}"), ""),
            QueryOutcome::Busy(Some(120_000)),
        ),
        (http("429 Too Many Requests\r\nretry-after: soon", ""), QueryOutcome::Busy(None)),
        (http("429 Too Many Requests", ""), QueryOutcome::Busy(None)),
        (http("401 Unauthorized", PAID), QueryOutcome::Refused(401)),
        (http("302 Found\r\nlocation: /else", ""), QueryOutcome::Invalid(QueryViolation::Redirect)),
        (http("200 OK", "<html>"), QueryOutcome::Invalid(QueryViolation::NotJson)),
        (http("200 OK", &PAID.replace("o1", "o2")), QueryOutcome::Invalid(QueryViolation::OrderId)),
        (http("500 Oops", PAID), QueryOutcome::Unanswered("the partner answered 500".into())),
        (http("204 No Content", ""), QueryOutcome::Unanswered("the partner answered 204".into())),
        (http("200 OK", &huge), QueryOutcome::Unanswered("the answer is over 65536 bytes".into())),
    ] {
        assert_eq!(ask(SANDBOX_PROFILE, bytes.clone()).await.0, expected, "{bytes:.80}");
    }
    let cut = http("200 OK", PAID).replace("EUR\"}", "");
    let (queried, _) = ask(SANDBOX_PROFILE, cut).await;
    assert!(matches!(queried, QueryOutcome::Unanswered(_)), "{queried:?}");
}

#[tokio::test]
async fn a_partner_that_hangs_is_left_after_the_profiles_timeout() {
    crate::remote::partner_client::install_tls();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let quick = SANDBOX_PROFILE.rsplit_once("timeout_s = 10").unwrap();
    let directory = directory(&format!("{}timeout_s = 1{}", quick.0, quick.1));
    let remote = PartnerClient::new().unwrap();
    let call =
        remote.prepare_query(&directory.accounts()[0], &url, payment_query(), now()).unwrap();
    let expected = QueryOutcome::Unanswered("no whole answer within 1000 ms".into());
    assert_eq!(call.make(now).await, expected);
}

#[tokio::test]
async fn a_mistake_on_our_side_is_reported_before_anything_is_sent() {
    crate::remote::partner_client::install_tls();
    let remote = PartnerClient::new().unwrap();
    let refused = |profile: &str, url: &str, at: Time| {
        let directory = directory(profile);
        let prepared = remote.prepare_query(&directory.accounts()[0], url, payment_query(), at);
        prepared.err().expect("it is refused").to_string()
    };
    let without = SANDBOX_PROFILE.split("[query]").next().unwrap();
    let public = crate::profile::DEFAULT_PROFILE;
    for (profile, url, at, expected) in [
        (without, "http://127.0.0.1:1", now(), "no [query]"),
        (
            SANDBOX_PROFILE,
            "http://127.0.0.1:1",
            now().plus_ms(-60_000),
            "acme/M is valid now (it has k1 from ",
        ),
        (public, "http://127.0.0.1:1", now(), "not https"),
        (public, "https://127.0.0.1:1", now(), "private network"),
        (public, "", now(), "not an absolute"),
    ] {
        let message = refused(profile, url, at);
        assert!(message.contains(expected), "{message}");
    }
}

/// The shipped profile of Midtrans, which may call this machine.
fn custom_scheme() -> String {
    let profile = crate::profile::shipped::ShippedProfile::of("midtrans").unwrap().profile;
    profile.replace("stage = \"draft\"", "stage = \"sandbox\"")
}

#[tokio::test]
async fn a_partner_with_a_custom_scheme_is_queried_by_its_profile() {
    let paid = r#"{"status_code":"200","order_id":"o1","transaction_id":"t1","transaction_status":"settlement","gross_amount":"5.00","currency":"EUR"}"#;
    let (queried, asked) = ask(&custom_scheme(), http("200 OK", paid)).await;
    let QueryOutcome::Answered(PaymentStatus::Terminal(end)) = queried else {
        panic!("{queried:?}")
    };
    assert_eq!((end.provider_ref.as_str(), end.amount.minor()), ("t1", 500));
    assert!(asked.starts_with("GET /base/v2/o1/status HTTP/1.1\r\n"), "{asked}");
    // The base64 of 32 times x, and a colon.
    let basic = "authorization: Basic eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHg6\r\n";
    assert!(asked.contains(basic) && asked.contains("accept: application/json\r\n"), "{asked}");
    for (bytes, expected) in [
        (http("404 Not Found", "{}"), QueryOutcome::Answered(PaymentStatus::Unknown)),
        (
            http("201 Created", &paid.replace("settlement", "pending")),
            QueryOutcome::Answered(PaymentStatus::Pending),
        ),
        (http("200 OK", &paid.replace("o1", "o2")), QueryOutcome::Invalid(QueryViolation::OrderId)),
        (http("200 OK", ""), QueryOutcome::Invalid(QueryViolation::NotJson)),
        (http("400 Bad Request", "{}"), QueryOutcome::Refused(400)),
        (http("401 Unauthorized", paid), QueryOutcome::Refused(401)),
        (http("429 Too Many Requests\r\nretry-after: 7", ""), QueryOutcome::Busy(Some(7_000))),
        (http("302 Found\r\nlocation: /else", ""), QueryOutcome::Invalid(QueryViolation::Redirect)),
        (http("500 Oops", paid), QueryOutcome::Unanswered("the partner answered 500".into())),
    ] {
        assert_eq!(ask(&custom_scheme(), bytes.clone()).await.0, expected, "{bytes:.80}");
    }
    let directory = directory(custom_scheme().split("[query]").next().unwrap());
    let remote = PartnerClient::new().unwrap();
    let account = &directory.accounts()[0];
    let refused = remote.prepare_query(account, "https://a.example", payment_query(), now()).err();
    assert_eq!(refused, Some(QueryError::NoQuery("acme".to_owned())));
}
