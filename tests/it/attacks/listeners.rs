//! A stranger's page in an operator's browser, a host that may scrape metrics, and who sits between
//! an operator's command and the admin listener: none of them makes a call, reads an answer or gets
//! a token.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::server::WebPkiClientVerifier;
use rustls::{ServerConnection, StreamOwned};

use crate::support::stub;
use crate::support::system::System;
use crate::support::tls::{self, CA};
use crate::support::wire::{Answer, Connection, bearer, request};

const STRANGERS_CA: &str = include_str!("../../../partners/tests/tls/strangers-ca.pem");

const PAGES: [&str; 6] =
    ["/livez", "/startupz", "/readyz", "/readyz/ingest", "/metrics", "/openapi.json"];

/// A demo with a listener for probes.
fn system() -> System {
    let probes = [("PAYFOLD_LISTEN_PROBES", "127.0.0.1:0")];
    System::demo_with(&[&probes[..], &[("PAYFOLD_ADMIN_HOSTS", "pay.example")]].concat())
}

fn get(address: SocketAddr, path: &str, host: &str) -> Answer {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n");
    Connection::open(address).exchange(request.as_bytes())
}

#[test]
fn a_page_reads_nothing_by_a_name_of_its_own() {
    let system = system();
    for (address, pages) in [(system.admin(), &PAGES[..]), (system.probes(), &PAGES[..5])] {
        for page in pages {
            for host in ["evil.example", "evil.example:9464", "127.0.0.1.evil.example", "pay"] {
                let answer = get(address, page, host);
                let is_ours = host == "pay";
                assert_eq!(answer.status == 200, is_ours, "{page} {host}: {}", answer.text());
                if !is_ours {
                    assert_eq!((answer.status, answer.code().as_str()), (421, "misdirected"));
                }
            }
            for host in ["127.0.0.1:9464", "localhost", "pay.example", "PAY.example:443"] {
                assert_eq!(get(address, page, host).status, 200, "{page} {host}");
            }
        }
        // Two names: one that is ours lets the other not pass.
        let two = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n\r\n";
        assert_ne!(Connection::open(address).exchange(two).status, 200);
    }
    let bearer = bearer(&system.home().data_file("admin.token"));
    let call = |host: &str| {
        let head = format!("GET /v1/orders HTTP/1.1\r\nhost: {host}\r\n{bearer}\r\n");
        system.ask_admin(head.as_bytes()).status
    };
    assert_eq!((call("localhost"), call("evil.example")), (200, 421));
}

#[test]
fn a_host_that_scrapes_makes_no_call_with_a_good_token() {
    let system = system();
    let document = system.get("/openapi.json").json();
    let bearer = bearer(&system.home().data_file("admin.token"));
    let mut calls = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let is_probe = PAGES[..5].contains(&path.as_str()) || path == "/readyz/{role}";
        for method in methods.as_object().expect("methods").keys().filter(|_| !is_probe) {
            let line = format!("{} {}", method.to_uppercase(), path.replace(['{', '}'], ""));
            let request = request(&line, &bearer, Some(b"{}"));
            let answer = Connection::open(system.probes()).exchange(&request);
            assert_eq!(answer.status, 404, "{line}: {}", answer.text());
            calls += 1;
        }
    }
    assert!(calls > 40, "{calls} calls");
}

/// A proxy with TLS in front of an admin listener: its URL, and what it was sent.
struct TlsProxy {
    url: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl TlsProxy {
    fn before(admin: SocketAddr) -> Self {
        let tls = tls::server(WebPkiClientVerifier::no_client_auth());
        let heads = Arc::<Mutex<Vec<_>>>::default();
        let seen = Arc::clone(&heads);
        let url = stub::serve(move |stream: TcpStream| {
            let connection = ServerConnection::new(Arc::clone(&tls)).expect("a connection");
            let mut stream = StreamOwned::new(connection, stream);
            while let Some(asked) = stub::read(&mut stream) {
                let passed = format!("{}\r\n\r\n{}", asked.head, asked.body);
                seen.lock().unwrap_or_else(PoisonError::into_inner).push(asked.head);
                let answer = Connection::open(admin).exchange(passed.as_bytes());
                stub::answer(&mut stream, &format!("{} OK", answer.status), &answer.text());
            }
        });
        Self { url: url.replace("http:", "https:"), heads }
    }

    /// How many requests reached it.
    fn count(&self) -> usize {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[test]
fn a_token_goes_over_tls_to_a_certificate_of_the_named_authority_only() {
    let system = system();
    let proxy = TlsProxy::before(system.admin());
    let home = system.home();
    home.write("ca.pem", CA);
    home.write("strangers.pem", STRANGERS_CA);
    home.write("empty.pem", "no certificate\n");
    let list = |more: &[&str]| {
        let asked = ["order", "list", "--output", "json", "--admin-url", &proxy.url];
        home.payfold(&[&asked[..], more].concat())
    };
    list(&[]).fails(&["UnknownIssuer", "--admin-ca-file"]);
    list(&["--admin-ca-file", &home.file("strangers.pem")]).fails(&["UnknownIssuer"]);
    list(&["--admin-ca-file", &home.file("empty.pem")]).fails(&["empty.pem", "no certificate"]);
    list(&["--admin-ca-file", &home.file("none.pem")]).fails(&["none.pem"]);
    assert_eq!(proxy.count(), 0, "nothing was sent to who could not prove who it is");
    let ca = home.file("ca.pem");
    list(&["--admin-ca-file", &ca]).ok();
    let asked = ["check", "--ready", "--admin-url", &proxy.url, "--admin-ca-file", &ca];
    assert!(home.payfold(&asked).ok().contains(&proxy.url));
    assert_eq!(proxy.count(), 2);
    let plain = format!("https://{}", system.admin());
    home.payfold(&["order", "list", "--admin-url", &plain]).fails(&["speaks plain HTTP"]);
}

#[test]
fn a_token_goes_through_no_proxy_and_follows_no_redirect() {
    let system = system();
    let heads = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&heads);
    let stranger = stub::serve(move |mut stream| {
        while let Some(asked) = stub::read(&mut stream) {
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(asked.head);
            stub::answer(&mut stream, "200 OK", "[]");
        }
    });
    let admin = format!("http://{}", system.admin());
    let proxies = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"].map(|it| (it, &*stranger));
    let list =
        |url: &str| system.home().payfold_with(&["order", "list", "--admin-url", url], &proxies);
    list(&admin).ok();
    let location = stranger.clone();
    let moved = stub::serve(move |mut stream| {
        while stub::read(&mut stream).is_some() {
            let head = format!("307 Temporary Redirect\r\nlocation: {location}/v1/orders");
            stub::answer(&mut stream, &head, "");
        }
    });
    list(&moved).fails(&["answered 307"]);
    let live = ["check", "--live", "--admin-url", &moved];
    system.payfold(&live).fails(&["/livez answered 307", "check --admin-url"]);
    let heads = heads.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(heads.is_empty(), "a stranger was asked: {heads:?}");
}
