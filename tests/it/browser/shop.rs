//! Owns a shop's site: a page with the partner's in a frame, a page of thanks, and the stream both
//! listen to, passed on from the shop listener with the key that no browser sees.

use std::net::{SocketAddr, TcpListener};
use std::sync::OnceLock;

use actix_web::web::{self, Data, Query};
use actix_web::{App, HttpResponse, HttpServer};
use payfold_engines::clock::{Clock, SystemClock};
use serde::Deserialize;
use serde_json::Value;

use crate::support::stub::listen;
use crate::support::system::System;
use crate::support::wire::{Connection, payment_request};

/// A site on its own port; it serves until the test's process ends.
pub struct ShopSite {
    url: String,
    socket: TcpListener,
    behind: OnceLock<Behind>,
}

/// What the site's server knows and its visitors don't.
#[derive(Clone)]
struct Behind {
    shop: SocketAddr,
    token: String,
}

/// RFC 3339, so many seconds from now.
pub fn in_seconds(seconds: i64) -> String {
    SystemClock.now().plus_ms(seconds * 1_000).to_string()
}

impl ShopSite {
    pub fn bind() -> Self {
        let (socket, url) = listen();
        Self { url, socket, behind: OnceLock::new() }
    }

    /// Where payers come back to.
    pub fn done_url(&self) -> String {
        format!("{}/done", self.url)
    }

    /// The page of a payment.
    pub fn page_of(&self, payment: &Value) -> String {
        let text = |name: &str| payment[name].as_str().expect("a text");
        let mut url = url::Url::parse(&format!("{}/pay", self.url)).expect("a URL");
        url.query_pairs_mut()
            .append_pair("orderId", text("orderId"))
            .append_pair("page", text("redirectUrl"));
        url.into()
    }

    /// Begins to serve, as a shop of this system.
    pub fn serve(&self, system: &System) {
        let behind = Behind { shop: system.shop(), token: system.home().data_file("demo.key") };
        let _ = self.behind.set(behind.clone());
        let socket = self.socket.try_clone().expect("a socket can be shared");
        std::thread::spawn(move || {
            payfold_partners::remote::install_tls();
            actix_web::rt::System::new().block_on(async move {
                let behind = Data::new(behind);
                let app = move || {
                    App::new()
                        .app_data(behind.clone())
                        .route("/pay", web::get().to(pay))
                        .route("/done", web::get().to(done))
                        .route("/events", web::get().to(events))
                };
                let server = HttpServer::new(app).workers(1).disable_signals();
                server.listen(socket).expect("the socket is ours").run().await
            })
        });
    }

    /// Creates a payment as the shop's server; the body without partner.
    pub fn create(&self, body: &str) -> Value {
        let behind = self.behind.get().expect("the site serves");
        let mut wanted: Value = serde_json::from_str(body).expect("a body");
        wanted["partner"] = "sandbox".into();
        let key = format!("browser-{}", SystemClock.request_id());
        let request = payment_request(&behind.token, &key, &wanted);
        let answer = Connection::open(behind.shop).exchange(&request);
        assert!(answer.status < 300, "{answer:?}");
        answer.json()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Visit {
    order_id: Option<String>,
    page: Option<String>,
}

/// A page that shows the order's state as the event stream reports it.
const LISTEN: &str = "<p>State: <b id='state'>?</b></p><script>
const order = new URLSearchParams(location.search).get('orderId');
new EventSource('/events?orderId=' + encodeURIComponent(order))\
.addEventListener('payment', event => {
  document.getElementById('state').textContent = JSON.parse(event.data).state;
});
</script>";

async fn pay(visit: Query<Visit>) -> HttpResponse {
    let page = visit.page.as_deref().unwrap_or_default().replace('\'', "");
    html(&format!("<h1>Shop</h1>{LISTEN}<iframe src='{page}' width='420' height='720'></iframe>"))
}

async fn done() -> HttpResponse {
    html(&format!("<h1>Shop: thank you</h1>{LISTEN}"))
}

fn html(body: &str) -> HttpResponse {
    HttpResponse::Ok()
        .content_type("text/html; charset=utf-8")
        .body(format!("<!doctype html>{body}"))
}

/// Passes the payment's stream on.
async fn events(visit: Query<Visit>, behind: Data<Behind>) -> HttpResponse {
    let order = visit.order_id.as_deref().unwrap_or_default();
    let url = format!("http://{}/v1/payments/sandbox/DEMO/{order}/events", behind.shop);
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    match client.get(url).bearer_auth(&behind.token).send().await {
        Ok(stream) => {
            HttpResponse::Ok().content_type("text/event-stream").streaming(stream.bytes_stream())
        }
        Err(_) => HttpResponse::BadGateway().finish(),
    }
}
