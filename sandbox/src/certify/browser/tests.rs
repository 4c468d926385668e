//! Pages that can't be trusted or may not be visited.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, Stream};

use super::*;

/// A certificate nobody signed but itself, and its key: made for this test, good for nothing else.
const SELF_SIGNED: &[u8] = include_bytes!("self-signed.pem");

/// Serves one connection after the other for as long as the test runs; its address.
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
        // The other side hangs up in the middle of it.
        let _ = Stream::new(&mut tls, &mut socket).write_all(b"HTTP/1.1 200 OK\r\n\r\n");
    })
}

/// Answers every request with this head and body.
fn plain(response: &'static str) -> String {
    serve("http", move |mut socket| {
        let mut lines = BufReader::new(socket.try_clone().unwrap()).lines();
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let _ = socket.write_all(response.as_bytes());
    })
}

async fn visited(address: impl AsRef<str>) -> Page {
    let mut page = Page::default();
    let remote = Remote::new().unwrap();
    let browser = Browser::new(&remote, Reach::Sandbox, "http://127.0.0.1:9/back", Intent::Pay);
    browser.visit(address.as_ref(), &mut page).await;
    page
}

#[actix_web::test]
async fn a_certificate_nobody_signed_is_told_apart() {
    let page = visited(self_signed()).await;
    let Some(PageProblem::Tls(why)) = &page.problem else { panic!("{page:?}") };
    assert!(why.contains("certificate"), "{why}");
    let gone = visited("https://127.0.0.1:1/pay").await;
    assert!(matches!(gone.problem, Some(PageProblem::Unreachable(_))), "{gone:?}");
}

#[actix_web::test]
async fn a_page_that_leads_astray_is_not_followed() {
    let astray = visited(plain(
        "HTTP/1.1 302 Found\r\nlocation: http://pay.example/x?token=1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
    ));
    let page = astray.await;
    let Some(PageProblem::Http(why)) = &page.problem else { panic!("{page:?}") };
    assert!(why.contains("http://pay.example/x ") && !why.contains("token"), "{why}");
    let round = visited(plain(
        "HTTP/1.1 302 Found\r\nlocation: ?\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
    ));
    let page = round.await;
    assert!(matches!(page.problem, Some(PageProblem::Unreachable(_))), "{page:?}");
    assert_eq!(page.hops.len(), HOPS_MAX);
}

#[actix_web::test]
async fn headers_are_kept_as_they_came() {
    let page = visited(plain(
        "HTTP/1.1 200 OK\r\nx-frame-options: SAMEORIGIN\r\ncontent-security-policy: default-src *\r\n\
         content-security-policy: frame-ancestors 'self'\r\nset-cookie: a=1; Path=/\r\nconnection: close\r\n\
         content-length: 2\r\n\r\nhi",
    ));
    let page = page.await;
    assert!(page.is_shown() && page.done == Done::Nothing, "{page:?}");
    assert_eq!(page.hops[0].frame_options, ["SAMEORIGIN"]);
    assert_eq!(page.hops[0].policies, ["default-src *", "frame-ancestors 'self'"]);
    assert_eq!(page.cookies, Cookies::Unknown);
    assert!(page.cookies_set >= 1);
}
