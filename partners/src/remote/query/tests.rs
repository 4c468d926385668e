//! The call over real sockets: what each answer is worth, and what is never sent or read.

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

fn question() -> Question {
    Question {
        merchant_code: MerchantCode::parse("M").unwrap(),
        order_id: OrderId::parse("o1").unwrap(),
        provider_ref: Some(ProviderRef::parse("r1").unwrap()),
    }
}

/// A partner that answers one question with these bytes and keeps the connection; what it was asked.
async fn answers(bytes: String) -> (SocketAddr, tokio::task::JoinHandle<io::Result<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        let mut read = vec![0; 4_096];
        let count = stream.read(&mut read).await?;
        stream.write_all(bytes.as_bytes()).await?;
        // Whoever waits for more than was sent waits for the end of the connection.
        drop(stream);
        Ok(String::from_utf8_lossy(&read[..count]).into_owned())
    });
    (address, asked)
}

async fn ask(profile: &str, bytes: String) -> (Queried, String) {
    super::super::install_tls();
    let (address, asked) = answers(bytes).await;
    let directory = directory(profile);
    let account = &directory.accounts()[0];
    let remote = Remote::new().unwrap();
    let url = format!("http://{address}/base/");
    let call = remote.prepare_query(account, &url, question(), now()).unwrap();
    let queried = call.make(now).await;
    (queried, asked.await.unwrap().unwrap())
}

fn http(head: &str, body: &str) -> String {
    format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

const PAID: &str = r#"{"merchantCode":"M","orderId":"o1","providerRef":"r1","status":"SUCCESS","amount":5,"currency":"EUR"}"#;

#[tokio::test]
async fn an_answer_is_told_and_the_question_is_signed() {
    let (queried, asked) = ask(SANDBOX_PROFILE, http("200 OK", PAID)).await;
    let Queried::Told(Told::Ended(QueryAnswer { provider_ref, status, amount, currency })) =
        queried
    else {
        panic!("{queried:?}")
    };
    let told = (provider_ref.as_str(), status, amount.minor(), currency.code());
    assert_eq!(told, ("r1", Status::Success, 5, "EUR"));
    let line = asked.lines().next().unwrap();
    let expected =
        "GET /base/payments/r1?merchantCode=M&timestamp=2026-01-31T10%3A00%3A00Z&signature=";
    assert!(line.starts_with(expected) && line.ends_with(" HTTP/1.1"), "{line}");
}

#[tokio::test]
async fn every_end_is_worth_what_it_is() {
    let huge = format!("{}{}", " ".repeat(70_000), PAID);
    let date = "retry-after: Sat, 31 Jan 2026 10:02:00 GMT\r\nx: y";
    for (bytes, expected) in [
        (http("404 Not Found", "{}"), Queried::Told(Told::Unknown)),
        (http("429 Too Many Requests\r\nretry-after: 7", ""), Queried::Busy(Some(7_000))),
        (http(&format!("503 Service Unavailable\r\n{date}"), ""), Queried::Busy(Some(120_000))),
        (http("429 Too Many Requests\r\nretry-after: soon", ""), Queried::Busy(None)),
        (http("429 Too Many Requests", ""), Queried::Busy(None)),
        (http("401 Unauthorized", PAID), Queried::Refused(401)),
        (http("302 Found\r\nlocation: /else", ""), Queried::Wrong(WrongAnswer::Redirect)),
        (http("200 OK", "<html>"), Queried::Wrong(WrongAnswer::NotJson)),
        (http("200 OK", &PAID.replace("o1", "o2")), Queried::Wrong(WrongAnswer::OrderId)),
        (http("500 Oops", PAID), Queried::Unanswered("the partner answered 500".into())),
        (http("204 No Content", ""), Queried::Unanswered("the partner answered 204".into())),
        (http("200 OK", &huge), Queried::Unanswered("the answer is over 65536 bytes".into())),
    ] {
        assert_eq!(ask(SANDBOX_PROFILE, bytes.clone()).await.0, expected, "{bytes:.80}");
    }
    let cut = http("200 OK", PAID).replace("EUR\"}", "");
    let (queried, _) = ask(SANDBOX_PROFILE, cut).await;
    assert!(matches!(queried, Queried::Unanswered(_)), "{queried:?}");
}

#[tokio::test]
async fn who_hangs_is_left_after_the_profiles_time() {
    super::super::install_tls();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let quick = SANDBOX_PROFILE.rsplit_once("timeout_s = 10").unwrap();
    let directory = directory(&format!("{}timeout_s = 1{}", quick.0, quick.1));
    let remote = Remote::new().unwrap();
    let call = remote.prepare_query(&directory.accounts()[0], &url, question(), now()).unwrap();
    let expected = Queried::Unanswered("no whole answer within 1000 ms".into());
    assert_eq!(call.make(now).await, expected);
}

#[tokio::test]
async fn what_is_wrong_on_our_side_is_told_before_anything_is_sent() {
    super::super::install_tls();
    let remote = Remote::new().unwrap();
    let refused = |profile: &str, url: &str, at: Time| {
        let directory = directory(profile);
        let prepared = remote.prepare_query(&directory.accounts()[0], url, question(), at);
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
        let told = refused(profile, url, at);
        assert!(told.contains(expected), "{told}");
    }
}

/// Midtrans as it is shipped, let to this machine.
fn of_its_own() -> String {
    let profile = crate::profile::Shipped::of("midtrans").unwrap().profile;
    profile.replace("stage = \"draft\"", "stage = \"sandbox\"")
}

#[tokio::test]
async fn a_partner_with_a_scheme_of_its_own_is_asked_in_its_way() {
    let paid = r#"{"status_code":"200","order_id":"o1","transaction_id":"t1","transaction_status":"settlement","gross_amount":"5.00","currency":"EUR"}"#;
    let (queried, asked) = ask(&of_its_own(), http("200 OK", paid)).await;
    let Queried::Told(Told::Ended(end)) = queried else { panic!("{queried:?}") };
    assert_eq!((end.provider_ref.as_str(), end.amount.minor()), ("t1", 500));
    assert!(asked.starts_with("GET /base/v2/o1/status HTTP/1.1\r\n"), "{asked}");
    // base64 of 32 times x, and a colon.
    let basic = "authorization: Basic eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHg6\r\n";
    assert!(asked.contains(basic) && asked.contains("accept: application/json\r\n"), "{asked}");
    for (bytes, expected) in [
        (http("404 Not Found", "{}"), Queried::Told(Told::Unknown)),
        (http("201 Created", &paid.replace("settlement", "pending")), Queried::Told(Told::Pending)),
        (http("200 OK", &paid.replace("o1", "o2")), Queried::Wrong(WrongAnswer::OrderId)),
        (http("200 OK", ""), Queried::Wrong(WrongAnswer::NotJson)),
        (http("400 Bad Request", "{}"), Queried::Refused(400)),
        (http("401 Unauthorized", paid), Queried::Refused(401)),
        (http("429 Too Many Requests\r\nretry-after: 7", ""), Queried::Busy(Some(7_000))),
        (http("302 Found\r\nlocation: /else", ""), Queried::Wrong(WrongAnswer::Redirect)),
        (http("500 Oops", paid), Queried::Unanswered("the partner answered 500".into())),
    ] {
        assert_eq!(ask(&of_its_own(), bytes.clone()).await.0, expected, "{bytes:.80}");
    }
    let directory = directory(of_its_own().split("[query]").next().unwrap());
    let remote = Remote::new().unwrap();
    let account = &directory.accounts()[0];
    let refused = remote.prepare_query(account, "https://a.example", question(), now()).err();
    assert_eq!(refused, Some(QueryError::NoQuery("acme".to_owned())));
}
