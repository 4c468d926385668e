//! Access tokens over real sockets: the gateway grants tokens, and accepts calls with one of them.

use std::sync::atomic::{AtomicU64, Ordering};

use payfold_schemas::ids::{KeyId, MerchantCode, OrderId, PartnerCode};
use payfold_schemas::money::{Amount, Currency};
use payfold_testing::waits::Stopwatch;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::create::CreateRequest;
use crate::directory::Directory;
use crate::document::{AccountEntry, NewKey, VaultDocument};
use crate::keys::Channel;
use crate::profile::Profile;
use crate::query::{PaymentQuery, PaymentStatus};
use crate::remote::create::{CreateFailure, CreateOutcome};
use crate::remote::partner_client::{PartnerClient, install_tls};
use crate::remote::query::QueryOutcome;
use crate::scheme::oauth::tests::{CREATE, OAUTH, with};

const CLIENT_SECRET: &str = "the client's test secret, worth nothing";

const QUERY: &str = r#"
[query]
method = "GET"
path = "/v1/payments/{order}"
headers = { X-Token = "{access_token}" }
[query.map]
order = "{a.order}"
ref = "{a.id}"
amount = "{a.amount}"
currency = "{a.currency}"
[[query.event]]
when = [{ value = "{a.state}", is = "PAID" }]
outcome = "SUCCESS"
[[query.event]]
outcome = "pending"
"#;

/// A gateway: the requests it got, and how it answers.
#[derive(Default)]
struct Gateway {
    granted: AtomicU64,
    called: AtomicU64,
    /// The number of the token that it accepts. A call with another token gets 401.
    takes: AtomicU64,
    /// The status that refuses a token request; 0 if it grants tokens.
    refuses: AtomicU64,
    delay_ms: AtomicU64,
    asked: Mutex<Vec<String>>,
}

impl Gateway {
    async fn start() -> (Arc<Self>, String) {
        install_tls();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let gateway = Arc::new(Self::default());
        let serving = Arc::clone(&gateway);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&serving).serve(stream));
            }
        });
        (gateway, url)
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let (mut read, mut chunk) = (String::new(), [0; 4_096]);
        loop {
            let Ok(count @ 1..) = stream.read(&mut chunk).await else { return };
            read.push_str(&String::from_utf8_lossy(&chunk[..count]));
            let Some((head, body)) = read.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() < length.map_or(0, |length| length.parse().unwrap()) {
                continue;
            }
            let (status, answer) = self.answer(&read).await;
            self.asked.lock().unwrap().push(std::mem::take(&mut read));
            let length = answer.len();
            let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{answer}");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    }

    async fn answer(&self, request: &str) -> (u64, String) {
        if request.starts_with("POST /oauth2/token") {
            let number = self.granted.fetch_add(1, Ordering::SeqCst) + 1;
            tokio::time::sleep(Duration::from_millis(self.delay_ms.load(Ordering::SeqCst))).await;
            let refuses = self.refuses.load(Ordering::SeqCst);
            if refuses != 0 {
                return (refuses, r#"{"error":"invalid_client"}"#.to_owned());
            }
            return (200, format!(r#"{{"access_token":"token-{number}","expires_in":3600}}"#));
        }
        self.called.fetch_add(1, Ordering::SeqCst);
        let takes = format!("token-{}\r\n", self.takes.load(Ordering::SeqCst));
        if !request.contains(&takes) {
            return (401, String::new());
        }
        let body = r#"{"id":"p-1","url":"https://pay.example/p-1","order":"o-1","state":"NEW"}"#;
        (200, body.to_owned())
    }

    fn counts(&self) -> (u64, u64) {
        (self.granted.load(Ordering::SeqCst), self.called.load(Ordering::SeqCst))
    }
}

/// A stopped clock, this many ms after the beginning of the test.
fn at(ms: i64) -> impl Fn() -> Time {
    move || Time::from_unix_ms(1_769_853_600_000 + ms)
}

fn account_of(profile: &str) -> Arc<Account> {
    account_from(profile, &[0])
}

/// An account with create keys that begin at these ms. Each begins when the previous key ends.
fn account_from(profile: &str, begins: &[i64]) -> Arc<Account> {
    let partner = PartnerCode::parse("acme").unwrap();
    let mut entry = AccountEntry::new(partner.clone(), MerchantCode::parse("SHOP").unwrap());
    let creates = begins.iter().map(|begins| (Channel::Create, CLIENT_SECRET.to_owned(), *begins));
    let keys = [(Channel::Ipn, "x".repeat(32), 0)].into_iter().chain(creates);
    for (n, (channel, secret, begins)) in keys.enumerate() {
        let key = NewKey {
            id: KeyId::parse(&format!("k{n}")).unwrap(),
            channel,
            secret: Secret::from_bytes(secret.into_bytes()),
            valid_from: Time::from_unix_ms(begins),
            overlap_ms: 0,
            created_at: Time::from_unix_ms(0),
        };
        entry.add_key(key).unwrap();
    }
    let mut vault = VaultDocument::default();
    vault.add_account(entry).unwrap();
    let profile = profile.replace("stage = \"draft\"", "stage = \"sandbox\"");
    let profile = Profile::parse(&partner, &profile).unwrap_or_else(|error| panic!("{error}"));
    Arc::clone(&Directory::build(vec![profile], &vault).unwrap().accounts()[0])
}

fn account() -> Arc<Account> {
    account_of(&with(&[CREATE, QUERY, OAUTH]))
}

fn wanted() -> CreateRequest {
    CreateRequest {
        merchant_code: MerchantCode::parse("SHOP").unwrap(),
        order_id: OrderId::parse("o-1").unwrap(),
        amount: Amount::from_minor(150_000).unwrap(),
        currency: Currency::parse("VND").unwrap(),
        description: String::new(),
        return_url: "https://pay.example/r".to_owned(),
        ipn_url: "https://pay.example/n".to_owned(),
        expires_at: None,
        presentation: None,
        reference: None,
        payer_ip: None,
    }
}

async fn create(
    remote: &PartnerClient,
    account: &Arc<Account>,
    url: &str,
    ms: i64,
) -> CreateOutcome {
    let call = remote.prepare_create(account, url, &wanted(), at(ms)());
    call.unwrap_or_else(|error| panic!("{error}")).make(at(ms)).await
}

async fn query(remote: &PartnerClient, account: &Arc<Account>, url: &str, ms: i64) -> QueryOutcome {
    let payment_query = PaymentQuery {
        merchant_code: account.merchant_code().clone(),
        order_id: OrderId::parse("o-1").unwrap(),
        provider_ref: None,
    };
    let call = remote.prepare_query(account, url, payment_query, at(ms)());
    call.unwrap_or_else(|error| panic!("{error}")).make(at(ms)).await
}

fn is_open(created: &CreateOutcome) -> bool {
    matches!(created, CreateOutcome::Opened(_))
}

#[tokio::test]
async fn one_token_serves_all_calls_until_shortly_before_it_expires() {
    let (gateway, url) = Gateway::start().await;
    gateway.takes.store(1, Ordering::SeqCst);
    gateway.delay_ms.store(100, Ordering::SeqCst);
    let (remote, account) = (PartnerClient::new().unwrap(), account());
    let calls = (0..20).map(|_| {
        let (remote, account, url) = (remote.clone(), Arc::clone(&account), url.clone());
        tokio::spawn(async move { create(&remote, &account, &url, 0).await })
    });
    for call in calls.collect::<Vec<_>>() {
        let created = call.await.unwrap();
        assert!(is_open(&created), "{created:?}");
    }
    assert_eq!(gateway.counts(), (1, 20));
    assert_eq!(
        query(&remote, &account, &url, 1_000).await,
        QueryOutcome::Answered(PaymentStatus::Pending)
    );
    let last = 3_600_000 - MARGIN_MS - 1;
    assert!(is_open(&create(&remote, &account, &url, last).await));
    assert_eq!(gateway.counts(), (1, 22));
    gateway.takes.store(2, Ordering::SeqCst);
    assert!(is_open(&create(&remote, &account, &url, last + 1).await));
    assert_eq!(gateway.counts(), (2, 23));
    let asked = gateway.asked.lock().unwrap();
    let token = asked.iter().find(|request| request.starts_with("POST /oauth2")).unwrap();
    // The base64 of `c-1:` and the client's secret.
    assert!(
        token.contains(
            "authorization: Basic Yy0xOnRoZSBjbGllbnQncyB0ZXN0IHNlY3JldCwgd29ydGggbm90aGluZw==\r\n"
        ) && token.ends_with("grant_type=client_credentials&scope=payments"),
        "{token}"
    );
    assert!(asked.iter().any(|request| request.contains("authorization: Bearer token-1\r\n")));
    assert!(asked.iter().any(|request| request.contains("x-token: token-1\r\n")));
}

/// The partner ended a token early: each call requests at most one new token, and only if it used a
/// cached one.
#[tokio::test]
async fn a_refused_cached_token_is_replaced_once() {
    let (gateway, url) = Gateway::start().await;
    gateway.takes.store(1, Ordering::SeqCst);
    let (remote, account) = (PartnerClient::new().unwrap(), account());
    assert!(is_open(&create(&remote, &account, &url, 0).await));
    gateway.takes.store(2, Ordering::SeqCst);
    assert!(is_open(&create(&remote, &account, &url, 0).await));
    assert_eq!(gateway.counts(), (2, 3));
    gateway.takes.store(3, Ordering::SeqCst);
    assert_eq!(
        query(&remote, &account, &url, 0).await,
        QueryOutcome::Answered(PaymentStatus::Pending)
    );
    assert_eq!(gateway.counts(), (3, 5));
    gateway.takes.store(99, Ordering::SeqCst);
    let refused = CreateOutcome::Failed(CreateFailure::Refused(401));
    assert_eq!(create(&remote, &account, &url, 0).await, refused);
    assert_eq!(gateway.counts(), (4, 7));
    // The refused new token is now in the cache, so the next call replaces it.
    assert_eq!(query(&remote, &account, &url, 0).await, QueryOutcome::Refused(401));
    assert_eq!(gateway.counts(), (5, 9));
    let fresh = PartnerClient::new().unwrap();
    assert_eq!(create(&fresh, &account, &url, 0).await, refused);
    assert_eq!(gateway.counts(), (6, 10), "a refused new token is not replaced");
}

/// A partner may refuse a nonce that it has seen, or an old time: a repeated call has new ones.
#[tokio::test]
async fn a_repeated_call_has_a_new_nonce_and_time() {
    let (gateway, url) = Gateway::start().await;
    gateway.takes.store(1, Ordering::SeqCst);
    let query = QUERY.replace("X-Token", "X-Nonce = \"{nonce}\", X-Now = \"{now_ms}\", X-Token");
    let (remote, account) =
        (PartnerClient::new().unwrap(), account_of(&with(&[CREATE, &query, OAUTH])));
    assert_eq!(
        self::query(&remote, &account, &url, 0).await,
        QueryOutcome::Answered(PaymentStatus::Pending)
    );
    gateway.takes.store(2, Ordering::SeqCst);
    let payment_query = PaymentQuery {
        merchant_code: account.merchant_code().clone(),
        order_id: OrderId::parse("o-1").unwrap(),
        provider_ref: None,
    };
    let call = remote.prepare_query(&account, &url, payment_query, at(1_000)()).unwrap();
    let ms = std::sync::atomic::AtomicI64::new(1_000);
    let outcome = call.make(|| at(ms.fetch_add(1_000, Ordering::SeqCst))()).await;
    assert_eq!(outcome, QueryOutcome::Answered(PaymentStatus::Pending));
    assert_eq!(gateway.counts(), (2, 3));
    let asked = gateway.asked.lock().unwrap();
    for name in ["x-nonce: ", "x-now: "] {
        let line = |request: &String| {
            request.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
        };
        let mut sent: Vec<_> = asked.iter().filter_map(line).collect();
        sent.dedup();
        assert_eq!(sent.len(), 3, "{name}{sent:?}");
    }
}

/// Without a token nothing is sent, so the outcome is a failure and never unknown.
#[tokio::test]
async fn without_a_token_nothing_is_sent() {
    let (gateway, url) = Gateway::start().await;
    gateway.refuses.store(401, Ordering::SeqCst);
    let (remote, account) = (PartnerClient::new().unwrap(), account());
    let why = "no access token: the partner answered 401 invalid_client".to_owned();
    let failed = CreateOutcome::Failed(CreateFailure::Unreachable(why.clone()));
    assert_eq!(create(&remote, &account, &url, 0).await, failed);
    assert_eq!(failed_code(&failed), "partner_unreachable");
    // Within a second another call gets the same failure; after it, the token is requested again.
    assert_eq!(
        query(&remote, &account, &url, FAILED_FOR_MS - 1).await,
        QueryOutcome::Unanswered(why)
    );
    assert_eq!(gateway.counts(), (1, 0));
    gateway.refuses.store(0, Ordering::SeqCst);
    gateway.takes.store(2, Ordering::SeqCst);
    assert!(is_open(&create(&remote, &account, &url, FAILED_FOR_MS).await));
    assert_eq!(gateway.counts(), (2, 1));

    let slow = account_of(&with(&[CREATE, &OAUTH.replace("[oauth]", "[oauth]\ntimeout_s = 1")]));
    gateway.delay_ms.store(3_000, Ordering::SeqCst);
    let late = create(&remote, &slow, &url, 0).await;
    let why = "no access token: none within 1000 ms".to_owned();
    assert_eq!(late, CreateOutcome::Failed(CreateFailure::Unreachable(why)));
    assert_eq!(gateway.counts().1, 1, "nothing was sent");

    let nowhere = create(&PartnerClient::new().unwrap(), &account, "http://127.0.0.1:1", 0).await;
    let CreateOutcome::Failed(CreateFailure::Unreachable(why)) = nowhere else {
        panic!("{nowhere:?}")
    };
    assert!(why.starts_with("no access token: ") && !why.contains(CLIENT_SECRET), "{why}");
}

/// One token request runs into its timeout. The calls that wait for it then fail at once, and no
/// request is cut short.
#[tokio::test]
#[ignore = "nightly: limits"]
async fn calls_that_wait_do_not_repeat_a_token_request_that_timed_out() {
    let (gateway, url) = Gateway::start().await;
    gateway.delay_ms.store(5_000, Ordering::SeqCst);
    let account = account_of(&with(&[CREATE, &OAUTH.replace("[oauth]", "[oauth]\ntimeout_s = 1")]));
    let (remote, watch) = (PartnerClient::new().unwrap(), Stopwatch::start());
    let mut calls = Vec::new();
    for _ in 0..4 {
        let (remote, account, url) = (remote.clone(), Arc::clone(&account), url.clone());
        calls.push(tokio::spawn(async move { create(&remote, &account, &url, 0).await }));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let why = "no access token: none within 1000 ms".to_owned();
    for call in calls {
        assert_eq!(
            call.await.unwrap(),
            CreateOutcome::Failed(CreateFailure::Unreachable(why.clone()))
        );
    }
    assert_eq!(gateway.counts(), (1, 0));
    watch.assert_within(Duration::from_secs(4), "calls that wait fail with the request");
}

#[tokio::test]
async fn a_token_is_used_only_with_the_key_it_was_requested_with() {
    let (gateway, url) = Gateway::start().await;
    gateway.takes.store(1, Ordering::SeqCst);
    let change = at(60_000)().unix_ms();
    let account = account_from(&with(&[CREATE, OAUTH]), &[0, change]);
    let remote = PartnerClient::new().unwrap();
    assert!(is_open(&create(&remote, &account, &url, 0).await));
    assert!(is_open(&create(&remote, &account, &url, 59_999).await));
    assert_eq!(gateway.counts(), (1, 2));
    gateway.takes.store(2, Ordering::SeqCst);
    assert!(is_open(&create(&remote, &account, &url, 60_000).await));
    assert_eq!(gateway.counts(), (2, 3), "the old token was not tried first");
}

fn failed_code(created: &CreateOutcome) -> String {
    let CreateOutcome::Failed(failure) = created else { panic!("{created:?}") };
    failure.code()
}

/// Another vault or profile makes another `Account` value, which does not use the old token.
#[tokio::test]
async fn a_changed_account_requests_a_new_token() {
    let (gateway, url) = Gateway::start().await;
    gateway.takes.store(1, Ordering::SeqCst);
    let remote = PartnerClient::new().unwrap();
    assert!(is_open(&create(&remote, &account(), &url, 0).await));
    gateway.takes.store(2, Ordering::SeqCst);
    assert!(is_open(&create(&remote, &account(), &url, 0).await));
    assert_eq!(gateway.counts(), (2, 2));
}
