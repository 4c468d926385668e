//! A checkout on its own port, over engines in their own folder.

use std::collections::{BTreeSet, HashMap};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::web::Data;
use actix_web::{App, HttpServer};
use arc_swap::ArcSwap;
use payfold_checkout::{Addresses, Checkout, CheckoutParts, Limits, Metrics};
use payfold_engines::clock::FixedClock;
use payfold_engines::log::sqlite::{SqliteLog, SqliteLogSettings};
use payfold_engines::log::{EventLog, Topic};
use payfold_engines::orders::sqlite::SqliteOrders;
use payfold_engines::orders::{ClaimKey, OrderStore};
use payfold_partners::directory::Directory;
use payfold_partners::document::{AccountEntry, NewKey, VaultDocument};
use payfold_partners::keys::Channel;
use payfold_partners::profile::{Profile, SANDBOX_PROFILE};
use payfold_partners::remote::PartnerClient;
use payfold_partners::secret::Secret;
use payfold_partners::shops::{ShopAccount, ShopToken, Shops};
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{KeyId, MerchantCode, OrderKey, PartnerCode, ShopName};
use payfold_schemas::position::Position;
use payfold_schemas::record::{FactRecord, decode_fact};
use payfold_schemas::time::Time;
use payfold_testing::waits::eventually;
use prometheus::Registry;
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};

use crate::manual_fold::{self, Folding};
use crate::partner::Partner;

/// The key of the web shop, which most tests use.
pub const TOKEN: &str = "token of the web shop";
/// The key of a shop with another account at the same partner.
pub const OTHER_TOKEN: &str = "token of the other shop";
/// The time at the start of a test.
pub const NOW: Time = Time::from_unix_ms(1_769_853_600_000);

/// Engines on disk. Several checkouts may run over them.
#[derive(Clone)]
pub struct Engines {
    pub log: Arc<dyn EventLog>,
    pub store: Arc<dyn OrderStore>,
    pub clock: Arc<FixedClock>,
    _dir: Arc<tempfile::TempDir>,
}

impl Engines {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = SqliteLog::open(dir.path().join("log.db"), SqliteLogSettings::default()).unwrap();
        let store = SqliteOrders::open(dir.path().join("orders.db")).unwrap();
        let clock = Arc::new(FixedClock::at(NOW));
        Self { log: Arc::new(log), store: Arc::new(store), clock, _dir: Arc::new(dir) }
    }

    /// The same engines with another log.
    pub fn with_log(&self, log: Arc<dyn EventLog>) -> Self {
        Self { log, ..self.clone() }
    }

    /// The same engines with another store.
    pub fn with_store(&self, store: Arc<dyn OrderStore>) -> Self {
        Self { store, ..self.clone() }
    }

    /// The kinds of the facts in the log, in order. A fact that is there twice counts once.
    pub async fn facts(&self) -> String {
        let mut facts = Vec::new();
        for record in self.records().await {
            if !facts.contains(&(record.order.clone(), record.fact.clone())) {
                facts.push((record.order, record.fact));
            }
        }
        facts.iter().map(|(_, fact)| fact.kind()).collect::<Vec<_>>().join(" ")
    }

    /// The records of intake.
    pub async fn records(&self) -> Vec<FactRecord> {
        let read = self.log.read_after(Topic::Intake, Position::default(), 1_000).await.unwrap();
        read.iter().map(|record| decode_fact(&record.value).unwrap()).collect()
    }

    /// Starts to fold intake.
    pub fn fold(&self) -> Folding {
        manual_fold::start(Arc::clone(&self.log), Arc::clone(&self.store))
    }
}

/// How a world differs from the default.
#[derive(Default)]
pub struct WorldOptions {
    pub limits: Option<Limits>,
    /// The profile of `acme`.
    pub profile: Option<Profile>,
    /// More partners: code, profile and address. Each has an account `SHOP` of the web shop.
    pub partners: Vec<(&'static str, Profile, String)>,
}

/// One process of the role.
pub struct World {
    pub url: String,
    pub checkout: Data<Checkout>,
    pub registry: Registry,
    pub shops: Arc<ArcSwap<Shops>>,
    pub client: Client,
    server: ServerHandle,
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.server.stop(false));
    }
}

/// The sandbox's profile, with a timeout that no pause of a busy machine reaches.
pub fn profile(partner: &str) -> Profile {
    limited(partner, 20)
}

/// The same with a timeout of 1 s, short enough for a test.
pub fn hasty(partner: &str) -> Profile {
    limited(partner, 1)
}

fn limited(partner: &str, seconds: u8) -> Profile {
    let text = SANDBOX_PROFILE.replace("timeout_s = 10", &format!("timeout_s = {seconds}"));
    Profile::parse(&PartnerCode::parse(partner).unwrap(), &text).unwrap()
}

impl World {
    /// The default world: partner `acme` with the accounts `SHOP` of the web shop and `OTHER` of
    /// the other shop.
    pub async fn new(engines: &Engines, partner: &Partner) -> Self {
        Self::with_options(engines, &partner.url, WorldOptions::default()).await
    }

    pub async fn with_options(engines: &Engines, api_url: &str, options: WorldOptions) -> Self {
        let mut vault = VaultDocument::default();
        let mut profiles = vec![options.profile.unwrap_or_else(|| profile("acme"))];
        let mut api_urls = HashMap::from([(code("acme"), api_url.to_owned())]);
        let mut web = vec![account("acme", "SHOP")];
        for (partner, profile, url) in options.partners {
            profiles.push(profile);
            api_urls.insert(code(partner), url);
            web.push(account(partner, "SHOP"));
        }
        let other = account("acme", "OTHER");
        for account in web.iter().chain([&other]) {
            vault.add_account(entry(account)).unwrap();
        }
        for (name, accounts, token) in [("web", web, TOKEN), ("other", vec![other], OTHER_TOKEN)] {
            let sha256 = Digest::of_bytes(token.as_bytes());
            let token = ShopToken { sha256, created_at: NOW, valid_until: None };
            vault.add_shop_token(&ShopName::parse(name).unwrap(), &accounts, token, 0);
        }
        let registry = Registry::new();
        let shops = Arc::new(ArcSwap::from_pointee(Shops::of(&vault)));
        let parts = CheckoutParts {
            log: Arc::clone(&engines.log),
            store: Arc::clone(&engines.store),
            clock: engines.clock.clone(),
            directory: Arc::new(ArcSwap::from_pointee(Directory::build(profiles, &vault).unwrap())),
            shops: Arc::clone(&shops),
            remote: PartnerClient::new().unwrap(),
            addresses: Addresses {
                public_url: "https://shop.example/".to_owned(),
                api_urls,
                return_to: BTreeSet::from(["app".to_owned()]),
            },
            metrics: Metrics::new(&registry).unwrap(),
            limits: options.limits.unwrap_or_default(),
        };
        let runtime = tokio::runtime::Handle::current();
        let checkout = Data::new(Checkout::start(parts, runtime));
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", socket.local_addr().unwrap());
        let app = checkout.clone();
        let server = HttpServer::new(move || {
            App::new().app_data(app.clone()).configure(payfold_checkout::routes)
        })
        .workers(1)
        .disable_signals()
        .listen(socket)
        .unwrap()
        .run();
        let handle = server.handle();
        actix_web::rt::spawn(server);
        let client = Client::builder().timeout(Duration::from_secs(30)).build().unwrap();
        Self { url, checkout, registry, shops, client, server: handle }
    }

    pub fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(format!("{}{path}", self.url)).bearer_auth(TOKEN)
    }

    pub fn post(&self, key: &str, body: &Value) -> RequestBuilder {
        self.client
            .post(format!("{}/v1/payments", self.url))
            .bearer_auth(TOKEN)
            .header("Idempotency-Key", key)
            .header("Content-Type", "application/json")
            .body(body.to_string())
    }

    /// Sends a create request, and returns status and body.
    pub async fn create(&self, key: &str, body: &Value) -> (u16, Value) {
        read_answer(self.post(key, body).send().await.unwrap()).await
    }

    /// The sum of a metric's values with these labels.
    pub fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name);
        let metrics = family.into_iter().flat_map(|family| family.get_metric());
        metrics
            .filter(|metric| {
                labels.iter().all(|l| metric.get_label().iter().any(|label| label.value() == *l))
            })
            .map(|metric| metric.get_counter().get_value() + metric.get_gauge().get_value())
            .sum()
    }
}

/// Awaits what a quiet machine has within a second; fails the test if it never comes.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(Duration::from_secs(60), future).await;
    ended.unwrap_or_else(|_| panic!("[time] not within 60 s: {what}"))
}

/// Asks again until it holds; fails the test if it never does.
pub async fn wait_until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    eventually(what, async || holds().await.then_some(()).ok_or("not yet")).await;
}

/// Status and JSON of a response. Checks that a problem document has the right type and status.
pub async fn read_answer(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let kind = response.headers().get("content-type").map(|v| v.to_str().unwrap().to_owned());
    let text = response.text().await.unwrap();
    let body: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
    if status >= 400 {
        assert_eq!(kind.as_deref(), Some("application/problem+json"), "{body}");
        assert_eq!(body["status"], status, "{body}");
        assert!(body["title"].is_string() && body["requestId"].is_string(), "{body}");
        let code = body["code"].as_str().unwrap();
        assert_eq!(body["type"], format!("urn:payfold:problem:{code}"));
    }
    (status, body)
}

/// The body of a create request that the default world accepts.
pub fn payment_body(reference: &str) -> Value {
    json!({
        "partner": "acme", "merchantCode": "SHOP", "reference": reference, "amount": 1_500,
        "currency": "EUR", "description": "Two tickets",
    })
}

/// The same with members replaced or removed (null).
pub fn payment_body_with(members: &Value) -> Value {
    let mut body = payment_body("cart");
    for (name, value) in members.as_object().unwrap() {
        match value {
            Value::Null => body.as_object_mut().unwrap().remove(name),
            value => body.as_object_mut().unwrap().insert(name.clone(), value.clone()),
        };
    }
    body
}

pub fn key(text: &str) -> OrderKey {
    OrderKey::parse(text).unwrap()
}

fn code(partner: &str) -> PartnerCode {
    PartnerCode::parse(partner).unwrap()
}

fn account(partner: &str, merchant: &str) -> ShopAccount {
    ShopAccount { partner: code(partner), merchant_code: MerchantCode::parse(merchant).unwrap() }
}

fn entry(account: &ShopAccount) -> AccountEntry {
    let mut entry = AccountEntry::new(account.partner.clone(), account.merchant_code.clone());
    let secret = format!("a test key of {account}, worth nothing");
    let key = NewKey {
        id: KeyId::parse("k1").unwrap(),
        channel: Channel::Ipn,
        secret: Secret::from_bytes(secret.into_bytes()),
        valid_from: Time::from_unix_ms(0),
        overlap_ms: 0,
        created_at: Time::from_unix_ms(0),
    };
    entry.add_key(key).unwrap();
    entry
}

/// The claim key of a create request, written `SHOP/IDEMPOTENCY-KEY`.
pub fn claim_key(text: &str) -> ClaimKey {
    let (shop, key) = text.split_once('/').unwrap();
    ClaimKey::create_request(&ShopName::parse(shop).unwrap(), key).unwrap()
}
