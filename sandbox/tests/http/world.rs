//! Owns a running simulated partner and its caller: the code that calls partners in service.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use actix_web::{App, HttpServer};
use payfold_engines::clock::{Clock, SystemClock};
use payfold_partners::create::{CreateRequest, PresentationKind};
use payfold_partners::directory::Directory;
use payfold_partners::document::{AccountEntry, NewKey, VaultDocument};
use payfold_partners::keys::Channel;
use payfold_partners::profile::{Profile, SANDBOX_PROFILE};
use payfold_partners::remote::{CreateOutcome, PartnerClient};
use payfold_partners::secret::Secret;
use payfold_sandbox::{RetrySchedule, Sandbox, SandboxSettings};
use payfold_schemas::ids::{KeyId, MerchantCode, OrderId, PartnerCode};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use reqwest::{Client, Response, redirect};
use serde_json::Value;

use crate::sink::Sink;

pub const KEY: &[u8] = b"a test key, worth nothing at all";
pub const OTHER_KEY: &[u8] = b"another test key, worth nothing at all";
pub const MERCHANT: &str = "DEMO";
/// The longest wait for all notices of a test.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

pub struct TestWorld {
    pub sandbox: Sandbox,
    pub sink: Sink,
    pub url: String,
    pub browser: Client,
    pub directory: Directory,
    remote: PartnerClient,
}

/// The parameters of a create call.
#[derive(Clone, Debug)]
pub struct TestCall {
    pub order: String,
    pub description: String,
    pub amount: i64,
    pub presentation: Option<PresentationKind>,
    pub expires_at: Option<Time>,
    pub return_url: String,
}

impl TestCall {
    pub fn new(order: &str, description: &str) -> Self {
        Self {
            order: order.to_owned(),
            description: description.to_owned(),
            amount: 150_000,
            presentation: None,
            expires_at: None,
            return_url: "http://127.0.0.1:9/api/payment/result?shop=1".to_owned(),
        }
    }
}

/// The sandbox profile with a short timeout and no grace.
fn profile() -> Profile {
    let text = SANDBOX_PROFILE
        .replace("timeout_s = 10", "timeout_s = 6")
        .replace("grace_s = 1", "grace_s = 0");
    Profile::parse(&PartnerCode::parse("sandbox").unwrap(), &text).unwrap()
}

fn account(code: &str, secret: &[u8]) -> AccountEntry {
    let merchant = MerchantCode::parse(code).unwrap();
    let mut account = AccountEntry::new(PartnerCode::parse("sandbox").unwrap(), merchant);
    let (id, channel) = (KeyId::parse("k1").unwrap(), Channel::Ipn);
    let secret = Secret::from_bytes(secret.to_vec());
    let created_at = SystemClock.now().plus_ms(-1_000);
    let key = NewKey { id, channel, secret, valid_from: created_at, overlap_ms: 0, created_at };
    account.add_key(key).unwrap();
    account
}

fn directory() -> Directory {
    let accounts = vec![account(MERCHANT, KEY)];
    let vault = VaultDocument { accounts, ..VaultDocument::default() };
    Directory::build(vec![profile()], &vault).unwrap()
}

impl TestWorld {
    pub fn start() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut SandboxSettings)) -> Self {
        Self::with_clock(Arc::new(SystemClock), change)
    }

    pub fn with_clock(clock: Arc<dyn Clock>, change: impl FnOnce(&mut SandboxSettings)) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", socket.local_addr().unwrap());
        let accounts = vec![account(MERCHANT, KEY), account("OTHER", OTHER_KEY)];
        let mut settings = SandboxSettings::new(profile(), accounts, &url);
        settings.short_session_ms = 3_000;
        settings.late_ms = 100;
        settings.retry = RetrySchedule { first_ms: 20, longest_ms: 50, attempts_max: 4 };
        change(&mut settings);
        let sandbox = Sandbox::new(settings, clock).unwrap();
        let served = sandbox.clone();
        let server = HttpServer::new(move || {
            let sandbox = served.clone();
            App::new().configure(move |config| sandbox.routes(config))
        });
        let server = server.workers(2).disable_signals().listen(socket).unwrap().run();
        actix_web::rt::spawn(server);
        let browser = Client::builder().redirect(redirect::Policy::none()).no_proxy();
        Self {
            sandbox,
            sink: Sink::start(KEY),
            url,
            remote: PartnerClient::new().unwrap(),
            browser: browser.build().unwrap(),
            directory: directory(),
        }
    }

    pub fn request(&self, call: &TestCall) -> CreateRequest {
        CreateRequest {
            merchant_code: MerchantCode::parse(MERCHANT).unwrap(),
            order_id: OrderId::parse(&call.order).unwrap(),
            amount: Amount::from_minor(call.amount).unwrap(),
            currency: Currency::parse("VND").unwrap(),
            description: call.description.clone(),
            return_url: call.return_url.clone(),
            ipn_url: format!("{}/api/payment/ipn", self.sink.url),
            expires_at: call.expires_at,
            presentation: call.presentation,
            reference: None,
            payer_ip: None,
        }
    }

    /// Makes a create call as in service.
    pub async fn call(&self, call: &TestCall) -> CreateOutcome {
        let account = &self.directory.accounts()[0];
        let now = SystemClock.now();
        let call =
            self.remote.prepare_create(account, &self.url, &self.request(call), now).unwrap();
        call.make(|| SystemClock.now()).await
    }

    /// Makes a create call and waits until all its notices are sent.
    pub async fn call_and_drain(&self, order: &str, description: &str) -> CreateOutcome {
        let created = self.call(&TestCall::new(order, description)).await;
        self.drain().await;
        created
    }

    /// Waits until all notices that are due are sent.
    pub async fn drain(&self) {
        let left = self.sandbox.drain(DRAIN_TIMEOUT).await;
        assert!(left == 0, "[time] {left} notices are still to be sent");
    }

    pub async fn get(&self, path: &str) -> Response {
        self.browser.get(format!("{}{path}", self.url)).send().await.unwrap()
    }

    pub async fn post(&self, path: &str) -> Response {
        self.browser.post(format!("{}{path}", self.url)).send().await.unwrap()
    }

    pub async fn json(&self, path: &str) -> Value {
        let text = self.get(path).await.text().await.unwrap();
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{path}: {text}"))
    }
}

/// The providerRef of an opened session.
pub fn provider_ref(created: &CreateOutcome) -> String {
    let CreateOutcome::Opened(offer) = created else { panic!("{created:?}") };
    offer.provider_ref.to_string()
}
