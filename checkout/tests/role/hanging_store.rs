//! A store on a disk that hangs: every request ends within its timeout and holds no key or permit
//! afterwards.

use std::sync::Arc;
use std::time::Duration;

use payfold_doubles::{Double, StoreCall, StoreDouble};
use payfold_engines::orders::{ClaimKey, Claimed, OrderStore};
use payfold_engines::{EngineError, SeamFuture};
use tokio::sync::watch;

use crate::partner::Partner;
use crate::world::{Engines, World, WorldOptions, payment_body, read_answer};

/// A store in which one method hangs until it is released.
struct HangingStore {
    real: Arc<dyn OrderStore>,
    call: watch::Sender<&'static str>,
}

impl HangingStore {
    fn over(engines: &Engines) -> Arc<Double<Self>> {
        let real = Arc::clone(&engines.store);
        Arc::new(Double(Self { real, call: watch::Sender::new("none") }))
    }

    fn set_hanging(&self, call: &'static str) {
        self.call.send_replace(call);
    }
}

impl StoreDouble for HangingStore {
    fn real(&self) -> &dyn OrderStore {
        &*self.real
    }

    /// Returns when this method does not hang.
    fn before(&self, call: StoreCall<'_>) -> SeamFuture<'static, (), EngineError> {
        let name = match call {
            StoreCall::Load => "load",
            StoreCall::Scan(_) => "scan",
            StoreCall::Claim => "claim",
            StoreCall::Claimed => "claimed",
            StoreCall::Commit | StoreCall::Progress => "another",
        };
        let mut call = self.call.subscribe();
        Box::pin(async move {
            call.wait_for(|call| *call != name).await.unwrap();
            Ok(())
        })
    }
}

/// A create request with a new key is refused while `call` hangs, and succeeds afterwards.
async fn check_new_key(call: &'static str) {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let hanging = HangingStore::over(&engines);
    let limits = payfold_checkout::Limits { calls_per_partner_max: 1, ..Default::default() };
    let made = WorldOptions { limits: Some(limits), ..WorldOptions::default() };
    let world = World::with_options(&engines.with_store(hanging.clone()), &partner.url, made).await;
    hanging.set_hanging(call);
    let (status, body) = world.create("k", &payment_body("cart")).await;
    assert_eq!((status, body["code"].as_str()), (503, Some("storage_unavailable")), "{call}");
    assert_eq!((engines.facts().await.as_str(), partner.request_count()), ("", 0), "{call}");
    hanging.set_hanging("none");
    // Neither the key nor the only permit of the partner is held.
    assert_eq!(world.create("k", &payment_body("cart")).await.0, 201, "{call}");
}

/// Every request that reads the row of a known key fails while rows can't be read.
async fn check_known_key() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let hanging = HangingStore::over(&engines);
    let world = World::new(&engines.with_store(hanging.clone()), &partner).await;
    let _folding = engines.fold();
    let (status, created) = world.create("k", &payment_body("cart")).await;
    assert_eq!(status, 201);
    hanging.set_hanging("load");
    let read = async {
        read_answer(world.get(created["links"]["self"].as_str().unwrap()).send().await.unwrap())
            .await
    };
    let list =
        async { read_answer(world.get("/v1/payments?reference=cart").send().await.unwrap()).await };
    let body = payment_body("cart");
    let answers = tokio::join!(world.create("k", &body), read, list);
    for (status, body) in [answers.0, answers.1, answers.2] {
        assert_eq!((status, body["code"].as_str()), (503, Some("storage_unavailable")), "{body}");
    }
    hanging.set_hanging("none");
    assert_eq!(world.create("k", &payment_body("cart")).await.0, 201);
    assert_eq!(partner.request_count(), 1);
}

#[actix_web::test]
async fn a_request_ends_though_the_store_hangs() {
    let all = async {
        tokio::join!(
            check_new_key("claimed"),
            check_new_key("scan"),
            check_new_key("claim"),
            check_known_key()
        )
    };
    let ended = tokio::time::timeout(Duration::from_secs(25), all).await;
    assert!(ended.is_ok(), "[time] a request waits for the store");
}

/// If the answer of a claim is lost, no request calls the partner for it.
#[actix_web::test]
async fn a_claim_with_a_lost_answer_is_never_called() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let silent = Arc::new(Double(SilentClaims { real: Arc::clone(&engines.store) }));
    let world = World::new(&engines.with_store(silent), &partner).await;
    let _folding = engines.fold();
    let (status, body) = world.create("k", &payment_body("cart")).await;
    assert_eq!((status, body["code"].as_str()), (503, Some("storage_unavailable")), "{body}");
    assert_eq!(world.create("k", &payment_body("cart")).await.0, 202);
    assert_eq!((engines.facts().await.as_str(), partner.request_count()), ("createRequested", 0));
}

/// A store that makes claims and never answers them.
struct SilentClaims {
    real: Arc<dyn OrderStore>,
}

impl StoreDouble for SilentClaims {
    fn real(&self) -> &dyn OrderStore {
        &*self.real
    }

    fn claim(&self, key: ClaimKey, record: Vec<u8>) -> SeamFuture<'_, Claimed, EngineError> {
        Box::pin(async move {
            self.real.claim(key, record).await?;
            std::future::pending().await
        })
    }
}
