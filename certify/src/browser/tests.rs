//! Visits of pages with an untrusted certificate, a forbidden redirect, or special headers.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, Stream};

use super::*;

/// A self-signed certificate and its key, made for this test.
const SELF_SIGNED: &[u8] = include_bytes!("self-signed.pem");

/// Serves connections one after another while the test runs. Returns the address.
fn serve(scheme: &str, answer: impl Fn(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("{scheme}://{}/pay/1", listener.local_addr().unwrap());
    std::thread::spawn(move || listener.incoming().flatten().for_each(answer));
    address
}

fn self_signed() -> String {
    payfold_partners::remote::install_tls();
    let certificate = CertificateDer::from_pem_slice(SELF_SIGNED).unwrap();
    let key = PrivateKeyDer::from_pem_slice(SELF_SIGNED).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let config = Arc::new(config.with_single_cert(vec![certificate], key).unwrap());
    serve("https", move |mut socket| {
        let mut tls = ServerConnection::new(Arc::clone(&config)).unwrap();
        // The client closes the connection during the handshake.
        let _ = Stream::new(&mut tls, &mut socket).write_all(b"HTTP/1.1 200 OK\r\n\r\n");
    })
}

/// Answers every request with this head and body.
fn serve_response(response: &'static str) -> String {
    serve("http", move |mut socket| {
        let mut lines = BufReader::new(socket.try_clone().unwrap()).lines();
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let _ = socket.write_all(response.as_bytes());
    })
}

async fn visit(address: impl AsRef<str>) -> VisitedPage {
    let mut page = VisitedPage::default();
    let remote = PartnerClient::new().unwrap();
    let browser =
        Browser::new(&remote, Reach::Sandbox, "http://127.0.0.1:9/back", PayerIntent::Pay);
    browser.visit(address.as_ref(), &mut page).await;
    page
}

#[actix_web::test]
async fn an_untrusted_certificate_is_a_tls_problem() {
    let page = visit(self_signed()).await;
    let Some(PageProblem::Tls(why)) = &page.problem else { panic!("{page:?}") };
    assert!(why.contains("certificate"), "{why}");
    let gone = visit("https://127.0.0.1:1/pay").await;
    assert!(matches!(gone.problem, Some(PageProblem::Unreachable(_))), "{gone:?}");
}

#[actix_web::test]
async fn forbidden_and_endless_redirects_are_not_followed() {
    let forbidden = visit(serve_response(
        "HTTP/1.1 302 Found\r\nlocation: http://pay.example/x?token=1\r\nconnection: close\r\n\
         content-length: 0\r\n\r\n",
    ));
    let page = forbidden.await;
    let Some(PageProblem::Http(why)) = &page.problem else { panic!("{page:?}") };
    assert!(why.contains("http://pay.example/x ") && !why.contains("token"), "{why}");
    let endless = visit(serve_response(
        "HTTP/1.1 302 Found\r\nlocation: ?\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
    ));
    let page = endless.await;
    assert!(matches!(page.problem, Some(PageProblem::Unreachable(_))), "{page:?}");
    assert_eq!(page.hops.len(), HOPS_MAX);
}

#[actix_web::test]
async fn headers_are_recorded_unchanged() {
    let page = visit(serve_response(
        "HTTP/1.1 200 OK\r\nx-frame-options: SAMEORIGIN\r\n\
         content-security-policy: default-src *\r\n\
         content-security-policy: frame-ancestors 'self'\r\nset-cookie: a=1; Path=/\r\n\
         connection: close\r\n\
         content-length: 2\r\n\r\nhi",
    ));
    let page = page.await;
    assert!(page.is_shown() && page.action == PageAction::Nothing, "{page:?}");
    assert_eq!(page.hops[0].frame_options, ["SAMEORIGIN"]);
    assert_eq!(page.hops[0].policies, ["default-src *", "frame-ancestors 'self'"]);
    assert_eq!(page.cookies, CookieNeed::Unknown);
    assert!(page.cookies_set >= 1);
}
