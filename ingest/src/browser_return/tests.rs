//! The browser return on a bound listener, requested over raw sockets.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use actix_web::rt::net::TcpStream;
use actix_web::{App, HttpServer};
use arc_swap::ArcSwap;
use payfold_engines::clock::FixedClock;
use payfold_engines::health::StorageHealth;
use payfold_engines::log::sqlite::{SqliteLog, SqliteLogSettings};
use payfold_partners::directory::Directory;
use payfold_partners::document::{AccountEntry, NewKey, VaultDocument};
use payfold_partners::keys::Channel;
use payfold_partners::mac::MacKey;
use payfold_partners::profile::{Field, Profile};
use payfold_partners::secret::Secret;
use payfold_partners::signing::sign;
use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};
use payfold_schemas::time::Time;
use prometheus::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::http;
use crate::ingest::Ingest;
use crate::intake::Intake;
use crate::limits::Limits;
use crate::metrics::IngestMetrics;
use crate::quarantine::QuarantineBudget;
use crate::replays::Replays;
use crate::sampler::Sampler;

const NOW: Time = Time::from_unix_ms(1_769_853_600_000);
const SECRET: &[u8] = b"a test key, worth nothing at all";
const SHOP: &str = "https://shop.example/paid?lang=vi";
const UNVERIFIED: &str = "https://shop.example/paid?lang=vi&verified=false";
const VERIFIED: &str = "https://shop.example/paid?lang=vi&verified=true&orderId=ord-1";

fn clock() -> Arc<FixedClock> {
    Arc::new(FixedClock::at(NOW))
}

fn directory() -> Arc<ArcSwap<Directory>> {
    let partner = PartnerCode::parse("acme").unwrap();
    let mut account = AccountEntry::new(partner.clone(), MerchantCode::parse("SHOP").unwrap());
    let secret = Secret::from_bytes(SECRET.to_vec());
    let (id, channel) = (KeyId::parse("k").unwrap(), Channel::Ipn);
    let (valid_from, created_at) = (NOW.plus_ms(-1), NOW);
    let key = NewKey { id, channel, secret, valid_from, overlap_ms: 0, created_at };
    account.add_key(key).unwrap();
    let vault = VaultDocument { accounts: vec![account], ..VaultDocument::default() };
    let directory = Directory::build(vec![Profile::default_for(&partner)], &vault).unwrap();
    Arc::new(ArcSwap::from_pointee(directory))
}

/// The query of a signed return.
fn signed_query() -> String {
    let profile = Profile::default_for(&PartnerCode::parse("acme").unwrap());
    let value = |field| match field {
        Field::MerchantCode => Some("SHOP"),
        Field::OrderId => Some("ord-1"),
        Field::ProviderRef => Some("tx-1"),
        Field::Status => Some("SUCCESS"),
        Field::Amount => Some("150000"),
        Field::Currency => Some("VND"),
        // Half a year ago: a return may be late.
        Field::PaidAt | Field::Timestamp => Some("2025-07-31T10:00:00Z"),
        Field::Nonce | Field::Signature => None,
    };
    let signature = sign(&profile, &MacKey::new(SECRET), value);
    let named = |field: Field| value(field).map(|text| format!("{}={text}&", field.name()));
    let query: String = Field::ALL.into_iter().filter_map(named).collect();
    format!("{query}signature={signature}")
}

fn targets(default: &str) -> ReturnTargets {
    let app = ("app".to_owned(), "myapp://payment-result".to_owned());
    ReturnTargets::parse(default, [(&app.0, &app.1)]).unwrap()
}

/// A listener with the routes of the browser return.
struct TestServer {
    address: SocketAddr,
    registry: Registry,
    _dir: tempfile::TempDir,
}

/// Whether the notice routes are on the same listener, before or after those of the return.
#[derive(Clone, Copy, PartialEq)]
enum NoticeRoutes {
    Absent,
    Before,
    After,
}

fn serve(targets: ReturnTargets, notice_routes: NoticeRoutes) -> TestServer {
    let (registry, dir) = (Registry::new(), tempfile::tempdir().unwrap());
    let metrics = ReturnMetrics::new(&registry).unwrap();
    let returns = BrowserReturn { directory: directory(), clock: clock(), targets, metrics };
    let returns = Data::new(returns);
    let ingest = Data::new(ingest(&dir, &registry));
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let configure = move |config: &mut ServiceConfig| {
        let notices = |config: &mut ServiceConfig| {
            config.app_data(ingest.clone());
            http::routes(config);
        };
        if notice_routes == NoticeRoutes::Before {
            notices(config);
        }
        config.app_data(returns.clone());
        routes(config);
        if notice_routes == NoticeRoutes::After {
            notices(config);
        }
    };
    let server = HttpServer::new(move || App::new().configure(configure.clone()))
        .workers(1)
        .disable_signals()
        .listen(socket)
        .unwrap()
        .run();
    actix_web::rt::spawn(server);
    TestServer { address, registry, _dir: dir }
}

fn ingest(dir: &tempfile::TempDir, registry: &Registry) -> Ingest {
    let log = SqliteLog::open(dir.path().join("log.db"), SqliteLogSettings::default()).unwrap();
    let storage = Arc::new(StorageHealth::default());
    Ingest {
        public_url: String::new(),
        intake: Intake::new(Arc::new(log), clock(), storage),
        clock: clock(),
        directory: directory(),
        metrics: IngestMetrics::new(registry).unwrap(),
        limits: Limits::new(0, Vec::new()),
        quarantine: QuarantineBudget::new(1 << 20),
        replays: Replays::default(),
        clock_health: Arc::default(),
        body_timeout: Duration::from_secs(5),
        sampler: Sampler::default(),
        in_flight: AtomicUsize::new(0),
    }
}

/// A response as received.
#[derive(Debug)]
struct RawResponse {
    status: u16,
    head: String,
    body: String,
}

impl RawResponse {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl TestServer {
    async fn send(&self, request: &str, headers: &str) -> RawResponse {
        let request =
            format!("{request} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{headers}\r\n");
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        RawResponse { status, head: head.to_owned(), body: body.to_owned() }
    }

    async fn get(&self, target: &str) -> RawResponse {
        self.send(&format!("GET {target}"), "").await
    }

    fn return_count(&self, verified: &str) -> f64 {
        let families = self.registry.gather();
        let family = families.iter().find(|f| f.name() == "payfold_ingest_returns_total").unwrap();
        let mut metrics = family.get_metric().iter();
        let metric = metrics.find(|metric| metric.get_label()[0].value() == verified).unwrap();
        metric.get_counter().get_value()
    }
}

/// Asserts the headers that every response of the return has.
fn assert_guard_headers(answer: &RawResponse) {
    for (name, value) in [
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name} in {answer:?}");
    }
    let policy = answer.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; base-uri 'none'"), "{policy}");
    assert!(!policy.contains("frame-ancestors") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(answer.header("x-frame-options"), None);
}

#[actix_web::test]
async fn a_payer_is_sent_only_to_a_configured_address() {
    let served = serve(targets(SHOP), NoticeRoutes::Absent);
    let signed = signed_query();
    let app = "myapp://payment-result?verified=true&orderId=ord-1";
    let mut verified = 0.0;
    let table = [
        (format!("?{signed}"), VERIFIED),
        (format!("/app?{signed}"), app),
        (format!("/other?{signed}"), VERIFIED),
        (format!("/APP?{signed}"), VERIFIED),
        (format!("?{signed}&next=https://evil.example"), VERIFIED),
        (format!("?{signed}&returnTo=//evil.example&target=app"), VERIFIED),
        (format!("?{signed}&verified=false"), VERIFIED),
        (String::new(), UNVERIFIED),
        ("?".to_owned(), UNVERIFIED),
        ("/app".to_owned(), "myapp://payment-result?verified=false"),
        (format!("?{}", signed.replace("ord-1", "ord-2")), UNVERIFIED),
        (format!("?{}", signed.replace("SUCCESS", "FAILED")), UNVERIFIED),
        (format!("?{signed}0"), UNVERIFIED),
        (format!("?{signed}&orderId=ord-1"), UNVERIFIED),
        (format!("?{signed}&orderId=ord-2"), UNVERIFIED),
        (format!("?{signed}&%6frderId=ord-2"), UNVERIFIED),
        (format!("?{signed}&nonce=%ff"), UNVERIFIED),
        (format!("?{signed}&nonce=%00%0d%0aLocation:x"), UNVERIFIED),
        (format!("?{signed}&x={}", "a".repeat(9_000)), UNVERIFIED),
        (format!("?{signed}{}", "&x=1".repeat(80)), UNVERIFIED),
        ("?verified=true&orderId=ord-1".to_owned(), UNVERIFIED),
        ("?orderId=%3Cscript%3E&next=javascript:alert(1)".to_owned(), UNVERIFIED),
        ("?%".to_owned(), UNVERIFIED),
    ];
    let requests = table.len() as f64;
    for (target, location) in table {
        let answer = served.get(&format!("/api/payment/result{target}")).await;
        assert_eq!((answer.status, answer.header("location")), (303, Some(location)), "{target}");
        assert_eq!(answer.body, "");
        assert_guard_headers(&answer);
        verified += f64::from(location.contains("verified=true"));
    }
    assert_eq!(
        (served.return_count("true"), served.return_count("false")),
        (verified, requests - verified)
    );
}

#[actix_web::test]
async fn in_a_frame_the_page_leaves_the_frame() {
    let served = serve(targets(SHOP), NoticeRoutes::Absent);
    let path = format!("GET /api/payment/result?{}&x=%22%3E%3Cscript%3E", signed_query());
    for destination in ["iframe", "frame"] {
        let answer = served.send(&path, &format!("Sec-Fetch-Dest: {destination}\r\n")).await;
        assert_eq!((answer.status, answer.header("location")), (200, None));
        assert_guard_headers(&answer);
        assert!(answer.header("content-type").unwrap().starts_with("text/html"));
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.contains("script-src 'sha256-"), "{policy}");
        let link = format!("target=\"_top\" href=\"{}\"", VERIFIED.replace('&', "&amp;"));
        assert!(answer.body.contains(&link), "{}", answer.body);
        assert!(answer.body.contains("postMessage({type:'payfold:return'},'*')"));
        assert!(answer.body.contains("<noscript>"));
        assert_eq!(answer.body.matches("<script").count(), 1);
    }
    for other in ["document", "empty", ""] {
        let answer = served.send(&path, &format!("Sec-Fetch-Dest: {other}\r\n")).await;
        assert_eq!(answer.status, 303, "{other}");
    }
}

#[actix_web::test]
async fn without_a_configured_shop_there_is_a_plain_page() {
    let served = serve(targets(""), NoticeRoutes::Absent);
    let path = format!("/api/payment/result?{}", signed_query());
    let answer = served.get(&path).await;
    assert_eq!((answer.status, answer.header("location")), (200, None));
    assert_guard_headers(&answer);
    assert!(answer.body.contains("go back to the shop"), "{}", answer.body);
    assert!(!answer.body.contains("<script") && !answer.body.contains("ord-1"));
    // In a frame, the surrounding page still gets the message.
    let answer = served.send(&format!("GET {path}"), "Sec-Fetch-Dest: iframe\r\n").await;
    assert_guard_headers(&answer);
    assert!(answer.body.contains("go back to the shop") && answer.body.contains("<script>"));
    // A name still selects its target.
    let answer = served.get("/api/payment/result/app").await;
    assert_eq!(answer.header("location"), Some("myapp://payment-result?verified=false"));
}

#[actix_web::test]
async fn other_methods_and_paths_get_problem_documents() {
    let signed = signed_query();
    for notice_routes in [NoticeRoutes::Absent, NoticeRoutes::Before, NoticeRoutes::After] {
        let served = serve(targets(SHOP), notice_routes);
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"] {
            let request = format!("{method} /api/payment/result?{signed}");
            let answer = served.send(&request, "Content-Length: 0\r\n").await;
            assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")));
            assert!(answer.body.contains("\"code\":\"method_not_allowed\""), "{}", answer.body);
            assert_guard_headers(&answer);
        }
        for path in [
            "/",
            "/api/payment/results",
            "/api/payment/result/",
            "/api/payment/result//evil.example",
            "/api/payment/result/app/x",
            "/api/payment/result/%61pp",
            "/api/payment/%72esult",
            "/api/payment/result/..",
            "/api/payment/x/../result",
            "/api//payment/result",
            "/API/payment/result",
        ] {
            let answer = served.get(&format!("{path}?{signed}")).await;
            assert_eq!(answer.status, 404, "{path}");
            assert!(answer.body.contains("\"code\":\"not_found\""), "{path}: {}", answer.body);
            assert!(!answer.body.contains("ord-1"));
        }
        assert_eq!((served.return_count("true"), served.return_count("false")), (0.0, 0.0));
        let answer = served.get(&format!("/api/payment/result?{signed}")).await;
        assert_eq!((answer.status, answer.header("location")), (303, Some(VERIFIED)));
        // The notice routes exist only if they were configured, and behave as without the return.
        let answer = served.send("GET /api/payment/ipn", "").await;
        let expected =
            if notice_routes == NoticeRoutes::Absent { (404, None) } else { (405, Some("POST")) };
        assert_eq!((answer.status, answer.header("allow")), expected);
        let answer = served.send("POST /api/payment/ipn", "Content-Length: 0\r\n").await;
        assert_eq!(answer.status, if notice_routes == NoticeRoutes::Absent { 404 } else { 415 });
    }
}

#[actix_web::test]
async fn a_head_request_gets_the_same_without_a_body_and_is_not_counted() {
    let served = serve(targets(""), NoticeRoutes::Absent);
    let answer = served.send(&format!("HEAD /api/payment/result/app?{}", signed_query()), "").await;
    assert_eq!((answer.status, answer.body.as_str()), (303, ""));
    assert_eq!(
        answer.header("location"),
        Some("myapp://payment-result?verified=true&orderId=ord-1")
    );
    let answer = served.send("HEAD /api/payment/result", "").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    assert_guard_headers(&answer);
    assert_eq!((served.return_count("true"), served.return_count("false")), (0.0, 0.0));
}

/// An unread body does not keep the connection open.
#[actix_web::test]
async fn a_body_is_not_waited_for() {
    let served = serve(targets(SHOP), NoticeRoutes::Absent);
    let endless = "Transfer-Encoding: chunked\r\n";
    let answer = served.send("GET /api/payment/result", endless).await;
    assert_eq!((answer.status, answer.header("location")), (303, Some(UNVERIFIED)));
}
