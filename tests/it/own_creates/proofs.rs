//! Owns how calls authenticate to a partner, on the real binary: a partner behind TLS that wants a
//! client certificate, grants access tokens, and takes payments signed with our private key.

use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use super::{World, text};
use crate::support::stub::{self, Request};
use crate::support::system::Home;
use crate::support::tls::{self, CA};
use crate::support::waits::until;

const CLIENT: &str = include_str!("../../../partners/tests/tls/client-rsa.pem");
const RENEWED: &str = include_str!("../../../partners/tests/tls/client-ec.pem");
const STRANGER: &str = include_str!("../../../partners/tests/tls/strangers-client.pem");
const SIGNS: &str = include_str!("../../../partners/tests/tls/rsa-2048.pem");
const WEAK: &str = include_str!("../../../partners/tests/tls/rsa-1024.pem");
const PUBLIC: &str = include_str!("../../../partners/tests/tls/rsa-2048-public.pem");
const CLIENT_SECRET: &str = "the client's test secret, worth nothing";

const PROFILE: &str = r#"
version = 1
stage = "sandbox"
client_certificate = true
exceptions = ["no_time", "no_paid_at"]
[limits]
body_bytes = 16384
depth = 8
keys = 64
[constants]
client_id = "c-1"
[notice]
content = "json"
[[sign]]
algorithm = "hmac-sha256"
text = "{body}"
signature = "{h.X-Signature}"
output = "hex-lower"
[map]
order = "{f.order}"
ref = "{f.id}"
amount = "{f.amount}"
currency = "{f.currency}"
[[event]]
when = [{ value = "{f.state}", is = "PAID" }]
outcome = "SUCCESS"
[[event]]
outcome = "refuse"
[time]
kind = "none"

[oauth]
path = "/oauth2/token"
content = "form"
[oauth.fields]
grant_type = "client_credentials"
client_id = "{c.client_id}"
client_secret = "{secret}"

[create]
kind = "call"
method = "POST"
path = "/v1/payments"
credential = "bearer"
token = "{access_token}"
headers = { X-Signature = 'serial="{key_serial}",nonce="{nonce}",signature="{sign}"' }
content = "json"
body = '{{"order":"{order}","amount":{amount},"currency":"{currency}","title":"{description}"}}'
amount_unit = "minor"
expiry = "ttl"
ttl_s = 900
[create.sign]
algorithm = "rsa-sha256"
text = "{method}\n{path}\n{nonce}\n{body}\n"
output = "base64"
[create.answer]
ref = "{a.id}"
redirect = "{a.url}"
"#;

/// What the partner saw of one request.
#[derive(Clone)]
struct Seen {
    certificate: Vec<u8>,
    request: Request,
}

/// A partner behind TLS that accepts clients with a certificate of its authority.
struct Partner {
    url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

fn tls() -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(tls::roots(CA), provider);
    tls::server(clients.build().expect("a verifier"))
}

impl Partner {
    fn start() -> Self {
        let seen = Arc::<Mutex<Vec<_>>>::default();
        let (books, tls) = (Arc::clone(&seen), tls());
        let url = stub::serve(move |stream| serve(stream, Arc::clone(&tls), &books));
        Self { url: url.replace("http:", "https:"), seen }
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve(stream: TcpStream, tls: Arc<ServerConfig>, seen: &Mutex<Vec<Seen>>) {
    let connection = ServerConnection::new(tls).expect("a connection");
    let mut stream = StreamOwned::new(connection, stream);
    while let Some(request) = stub::read(&mut stream) {
        let shown = stream.conn.peer_certificates().expect("it is asked for");
        let certificate = shown[0].as_ref().to_vec();
        let answer = match request.target() {
            "/oauth2/token" => {
                json!({"access_token": "granted-1", "token_type": "Bearer", "expires_in": 3600})
            }
            _ => json!({"id": "p-1", "url": "https://pay.example/p-1"}),
        };
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push(Seen { certificate, request });
        drop(seen);
        stub::answer(&mut stream, "200 OK", &answer.to_string());
    }
}

fn certificate_of(pem: &str) -> Vec<u8> {
    CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate").as_ref().to_vec()
}

/// Whether a call was signed with our private key, from what the partner was sent alone.
fn is_signed(call: &Request) -> bool {
    let header = call.header("x-signature").expect("a signature");
    let part = |name: &str| {
        let from = header.split_once(&format!("{name}=\"")).expect("a part").1;
        from.split_once('"').expect("its end").0.to_owned()
    };
    assert_eq!(part("serial"), "3775B6A4");
    let signed = format!("POST\n{}\n{}\n{}\n", call.target(), part("nonce"), call.body);
    let signature = STANDARD.decode(part("signature")).expect("base64");
    let spki: String = PUBLIC.lines().filter(|line| !line.contains([' ', '-'])).collect();
    let spki = STANDARD.decode(spki).expect("base64");
    // In the SubjectPublicKeyInfo of RSA 2048, 24 bytes precede the key itself.
    let key = aws_lc_rs::signature::UnparsedPublicKey::new(
        &aws_lc_rs::signature::RSA_PKCS1_2048_8192_SHA256,
        &spki[24..],
    );
    key.verify(signed.as_bytes(), &signature).is_ok()
}

fn world(partner: &Partner) -> World {
    let home = Home::configured(&format!(
        "[partners.acme]\nprofile = \"acme.toml\"\napi_url = \"{}\"\n",
        partner.url
    ));
    for (name, content) in [
        ("acme.toml", PROFILE),
        ("ipn.txt", "text:a test key of notices, worth nothing"),
        ("create.txt", &format!("text:{CLIENT_SECRET}")),
        ("ca.pem", CA),
        ("client.pem", &pem(CLIENT)),
        ("renewed.pem", &pem(RENEWED)),
        ("stranger.pem", &pem(STRANGER)),
        ("signs.pem", &pem(SIGNS)),
        ("weak.pem", &pem(WEAK)),
    ] {
        home.write(name, content);
    }
    for key in [
        ["--secret-file", "ipn.txt", "--channel", "ipn"].as_slice(),
        &["--secret-file", "create.txt", "--channel", "create"],
        &["--secret-file", "signs.pem", "--channel", "sign", "--serial", "3775B6A4"],
    ] {
        home.payfold(&[&["key", "add", "acme", "--merchant", "SHOP"], key].concat()).ok();
    }
    let token = home.add_shop("acme/SHOP");
    World { system: home.boot_as("all", &[("SSL_CERT_FILE", &home.file("ca.pem"))]), token }
}

/// The PEM block alone, without the marker line above it.
fn pem(marked: &str) -> String {
    marked[marked.find("-----BEGIN").expect("PEM")..].to_owned()
}

fn add_certificate(world: &World, file: &str, overlap: &str) {
    let add =
        ["key", "add", "acme", "--channel", "tls", "--overlap", overlap, "--secret-file", file];
    world.system.payfold(&add).ok();
}

/// Tries until the running system has taken a change of the vault.
fn created_when(world: &World, wanted: u16) -> Value {
    let mut number = 0;
    until("the change is in force", Duration::from_secs(10), || {
        number += 1;
        let (status, payment) = world.create(&format!("try-{wanted}-{number}"), &json!({}));
        (status == wanted).then_some(payment)
    })
}

#[test]
fn a_payment_is_asked_for_with_a_token_a_signature_and_a_certificate() {
    let partner = Partner::start();
    let world = world(&partner);
    let check = world.system.payfold(&["check"]).stdout;
    assert!(check.contains("no key of channel tls that is valid now"), "{check}");
    let (status, refused) = world.create("none", &json!({}));
    assert_eq!((status, text(&refused, "code")), (503, "account_not_ready"));
    assert!(partner.seen().is_empty(), "the partner was not called without it");

    add_certificate(&world, "client.pem", "0s");
    let payment = created_when(&world, 201);
    assert_eq!(text(&payment, "redirectUrl"), "https://pay.example/p-1");
    let seen = partner.seen();
    let requests: Vec<_> = seen.iter().map(|seen| &seen.request).collect();
    let [token, call] = requests[..] else { panic!("{} requests", seen.len()) };
    let order = text(&payment, "orderId");
    assert_eq!(
        token.body,
        "grant_type=client_credentials&client_id=c-1\
         &client_secret=the%20client%27s%20test%20secret%2C%20worth%20nothing"
    );
    assert_eq!(call.header("authorization"), Some("Bearer granted-1"), "{}", call.head);
    assert!(
        call.body.contains(&format!("\"order\":\"{order}\"")) && is_signed(call),
        "{}",
        call.body
    );
    assert!(seen.iter().all(|seen| seen.certificate == certificate_of(CLIENT)));

    // A renewed certificate is shown from the next call on.
    add_certificate(&world, "renewed.pem", "0s");
    until("it is shown", Duration::from_secs(10), || {
        let (status, _) = world.create(&format!("renewed-{}", partner.seen().len()), &json!({}));
        assert_eq!(status, 201);
        (partner.seen().last()?.certificate == certificate_of(RENEWED)).then_some(())
    });
    // A certificate of another authority is refused, and nothing was created.
    add_certificate(&world, "stranger.pem", "0s");
    let refused = created_when(&world, 502);
    assert_eq!(text(&refused, "code"), "partner_unreachable");

    let keys = world.system.payfold(&["key", "list", "--output", "json"]).json();
    let tls: Vec<_> =
        keys.as_array().expect("keys").iter().filter(|k| k["channel"] == "tls").collect();
    assert_eq!(tls.len(), 3);
    assert!(tls.iter().all(|key| key["validUntil"].is_string()), "{tls:?}");
    let metrics = world.system.get("/metrics").text();
    let covered = "payfold_key_covered_until_timestamp_seconds{channel=\"tls\"";
    assert!(metrics.contains(covered), "{metrics}");
    let (home, _) = world.system.stop();
    let log = home.log();
    for secret in [CLIENT_SECRET, "granted-1", "PRIVATE KEY"] {
        assert!(!log.contains(secret), "the log holds no secret");
    }
}

#[test]
fn what_can_t_prove_anything_is_named_and_not_taken() {
    let partner = Partner::start();
    let world = world(&partner);
    for (arguments, expected) in [
        (&["--channel", "tls", "--secret-file", "signs.pem"][..], "has no certificate"),
        (&["--channel", "sign", "--secret-file", "weak.pem"], "of fewer than 2048 bits"),
        (&["--channel", "sign", "--secret-file", "create.txt"], "is not a private key"),
        (
            &["--channel", "sign", "--secret-file", "renewed.pem"],
            "is of another kind than rsa-sha256",
        ),
        (&["--channel", "tls"], "--secret-file"),
    ] {
        let refused = world.system.payfold(&[&["key", "add", "acme"], arguments].concat());
        assert!(refused.code() != 0 && refused.stderr.contains(expected), "{}", refused.stderr);
        assert!(!refused.stderr.contains("MII"), "no part of a key: {}", refused.stderr);
    }
    let shown = world.system.payfold(&["partner", "show", "acme"]).ok();
    assert!(shown.contains("access token  POST /oauth2/token"), "{shown}");
    let draft = ["partner", "draft", "acme", "--amount", "150000", "--currency", "VND"];
    let draft = world.system.payfold(&draft).ok();
    for part in [
        "client_secret=%7Bsecret%7D",
        "authorization: Bearer {access_token}",
        "serial=\"3775B6A4\"",
    ] {
        assert!(draft.contains(part), "{draft}");
    }
    assert!(!draft.contains("the%20client"), "{draft}");
}
