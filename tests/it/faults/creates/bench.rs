//! Owns the other end of the shops: the program on fixed ports over one folder, and the sandbox
//! partner in this process, which outlives every kill and records every create call.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use payfold_engines::log::sqlite::SqliteLog;
use payfold_engines::log::{EventLog, Topic};
use payfold_engines::orders::OrderStore;
use payfold_engines::orders::sqlite::SqliteOrders;
use payfold_partners::profile::{Profile, SANDBOX_PROFILE};
use payfold_sandbox::{Sandbox, SandboxSettings};
use payfold_schemas::ids::{OrderId, OrderKey};
use payfold_schemas::position::Position;
use payfold_schemas::record::decode_fact;
use serde_json::Value;

use crate::faults::child::Child;
use crate::faults::trial;
use crate::support::pair::runtime;
use crate::support::sandbox::{self, TOKEN};
use crate::support::stub::free_port;

/// Everything around the program under test.
pub struct Bench {
    folder: tempfile::TempDir,
    public: u16,
    shop: u16,
    sandbox: Sandbox,
    stop: Arc<AtomicBool>,
}

/// The way to the shop listener.
#[derive(Clone)]
pub struct Shop {
    agent: ureq::Agent,
    url: String,
}

/// The sandbox's profile with a deadline that a test can wait for.
fn profile_text() -> String {
    let text = SANDBOX_PROFILE.replace("max_session_s = 1800", "max_session_s = 5");
    assert!(text.contains("max_session_s = 5"));
    text
}

impl Bench {
    /// A folder with a configuration and keys, and a partner that serves.
    pub fn new() -> Self {
        let folder = trial::folder();
        let profile = Profile::parse(&sandbox::code(), &profile_text()).expect("a profile");
        let (sandbox, url) =
            sandbox::serve(|url| SandboxSettings::new(profile, vec![sandbox::account()], url));
        let (public, shop) = (free_port(), free_port());
        let bench = Self { public, shop, stop: Arc::default(), sandbox, folder };
        let profile = bench.folder.path().join("sandbox.toml");
        std::fs::write(&profile, profile_text()).expect("the folder can be written");
        let settings = format!(
            "listen_public = \"127.0.0.1:{}\"\nlisten_shop = \"127.0.0.1:{}\"\n\
             listen_admin = \"127.0.0.1:0\"\n[partners.sandbox]\n\
                 profile = \"{}\"\napi_url = \"{url}\"\n",
            bench.public,
            bench.shop,
            profile.display()
        );
        std::fs::write(bench.config(), settings).expect("the folder can be written");
        sandbox::fill_vault(&bench.data());
        bench
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("payfold.toml")
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Starts the program and waits until it listens.
    pub fn boot(&self) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_payfold"));
        command.env_clear().current_dir(self.folder.path());
        command.arg("--config").arg(self.config()).arg("--data").arg(self.data());
        command.args(["run", "--roles", "ingest,checkout,projector,reconciler"]);
        let mut child = Child::spawn(command, &self.data());
        child.ready();
        child
    }

    /// A way to the shop listener that stays over restarts.
    pub fn shop(&self) -> Shop {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(30)))
            .http_status_as_error(false)
            .build();
        Shop { agent: config.into(), url: format!("http://127.0.0.1:{}", self.shop) }
    }

    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// No new payments.
    pub fn stop_asking(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Orders with two create calls or more.
    pub fn called_twice(&self) -> BTreeMap<OrderId, u32> {
        self.sandbox.create_calls(2)
    }

    /// The count of payments with a notice that is still to be sent.
    pub fn unfinished(&self) -> usize {
        self.sandbox.unfinished()
    }

    /// Every order the partner has seen a create call for.
    pub fn called(&self) -> BTreeSet<String> {
        self.sandbox.create_calls(1).into_keys().map(|order| order.to_string()).collect()
    }

    /// Where an order stands, as its shop sees it.
    pub fn state(&self, order_id: &str) -> Option<String> {
        let (status, answer) = self.shop().get(&format!("/v1/payments/sandbox/DEMO/{order_id}"))?;
        (status == 200).then(|| answer["state"].as_str().unwrap_or_default().to_owned())
    }

    /// The orders of a reference.
    pub fn orders_of(&self, reference: &str) -> Vec<String> {
        let (status, answer) = (self.shop().get(&format!("/v1/payments?reference={reference}")))
            .expect("the program runs");
        assert_eq!(status, 200, "{answer}");
        let payments = answer["payments"].as_array().expect("a list");
        let id = |payment: &Value| payment["orderId"].as_str().expect("an order").to_owned();
        payments.iter().map(id).collect()
    }

    /// Seconds from an order's deadline until the fact that it passed was received; `None` while
    /// there is no such fact.
    pub fn expired_after_s(&self, order_id: &str) -> Option<f64> {
        let key = OrderKey::parse(&format!("sandbox/DEMO/{order_id}")).expect("a key");
        runtime().block_on(async {
            let log = SqliteLog::open_read_only(self.data().join("log.db")).ok()?;
            let store = SqliteOrders::open_read_only(self.data().join("orders.db")).ok()?;
            let order = store.load(vec![key]).await.ok()?.pop()??;
            let passed = order.facts.deadlines_passed.first()?;
            let before = Position { offset: passed.position.offset - 1, ..passed.position };
            let record = log.read_after(Topic::Intake, before, 1).await.ok()?.pop()?;
            let record = decode_fact(&record.value).expect("a fact");
            let late = record.received_at.unix_ms() - passed.content.unix_ms();
            Some(Duration::from_millis(u64::try_from(late).expect("not early")).as_secs_f64())
        })
    }
}

impl Shop {
    /// `POST /v1/payments`; `None` if there was no whole answer.
    pub fn post(&self, key: &str, body: &Value) -> Option<(u16, Value)> {
        let request = self.agent.post(format!("{}/v1/payments", self.url));
        let request = request.header("authorization", format!("Bearer {TOKEN}"));
        let mut answer = request.header("idempotency-key", key).send_json(body).ok()?;
        Some((answer.status().as_u16(), answer.body_mut().read_json().ok()?))
    }

    fn get(&self, path: &str) -> Option<(u16, Value)> {
        let request = self.agent.get(format!("{}{path}", self.url));
        let mut answer = request.header("authorization", format!("Bearer {TOKEN}")).call().ok()?;
        Some((answer.status().as_u16(), answer.body_mut().read_json().ok()?))
    }
}
