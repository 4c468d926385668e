//! A store on a disk that hangs: every request ends all the same, and holds nothing afterwards.

use std::sync::Arc;
use std::time::Duration;

use payfold_engines::orders::{
    ClaimKey, Claimed, Commit, Cursor, OrderStore, Page, Progress, Scan,
};
use payfold_engines::{EngineError, SeamFuture};
use payfold_schemas::order::Order;
use tokio::sync::watch;

use crate::partner::Partner;
use crate::world::{Engines, Made, World, asked, told};

/// A store one of whose calls does not end for now.
struct Hung {
    real: Arc<dyn OrderStore>,
    call: watch::Sender<&'static str>,
}

impl Hung {
    fn over(engines: &Engines) -> Arc<Self> {
        Arc::new(Self { real: Arc::clone(&engines.store), call: watch::Sender::new("none") })
    }

    fn hangs(&self, call: &'static str) {
        self.call.send_replace(call);
    }

    /// Ends once calls of this name do.
    fn turn(&self, name: &'static str) -> impl Future<Output = ()> + Send + 'static {
        let mut call = self.call.subscribe();
        async move {
            call.wait_for(|call| *call != name).await.unwrap();
        }
    }
}

impl OrderStore for Hung {
    fn load(
        &self,
        keys: Vec<payfold_schemas::ids::OrderKey>,
    ) -> SeamFuture<'_, Vec<Option<Order>>, EngineError> {
        Box::pin(async move {
            self.turn("load").await;
            self.real.load(keys).await
        })
    }

    fn commit(&self, commit: Commit) -> SeamFuture<'_, (), EngineError> {
        self.real.commit(commit)
    }

    fn scan(
        &self,
        scan: Scan,
        after: Option<Cursor>,
        limit: usize,
    ) -> SeamFuture<'_, Page, EngineError> {
        Box::pin(async move {
            self.turn("scan").await;
            self.real.scan(scan, after, limit).await
        })
    }

    fn claim(&self, key: ClaimKey, record: Vec<u8>) -> SeamFuture<'_, Claimed, EngineError> {
        Box::pin(async move {
            self.turn("claim").await;
            self.real.claim(key, record).await
        })
    }

    fn claimed(&self, key: ClaimKey) -> SeamFuture<'_, Option<Vec<u8>>, EngineError> {
        Box::pin(async move {
            self.turn("claimed").await;
            self.real.claimed(key).await
        })
    }

    fn progress(&self) -> SeamFuture<'_, Option<Progress>, EngineError> {
        self.real.progress()
    }
}

/// A create request under a new key while `call` hangs, and again after.
async fn a_new_key(call: &'static str) {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let hung = Hung::over(&engines);
    let limits = payfold_checkout::Limits { calls_per_partner_max: 1, ..Default::default() };
    let made = Made { limits: Some(limits), ..Made::default() };
    let world = World::made(&engines.with_store(hung.clone()), &partner.url, made).await;
    hung.hangs(call);
    let (status, body) = world.create("k", &asked("cart")).await;
    assert_eq!((status, body["code"].as_str()), (503, Some("storage_unavailable")), "{call}");
    assert_eq!((engines.facts().await.as_str(), partner.count()), ("", 0), "{call}");
    hung.hangs("none");
    // Neither the key nor the only place at the partner is held.
    assert_eq!(world.create("k", &asked("cart")).await.0, 201, "{call}");
}

/// What reads the row of a known key while no row can be read.
async fn a_known_key() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let hung = Hung::over(&engines);
    let world = World::new(&engines.with_store(hung.clone()), &partner).await;
    let _folding = engines.fold();
    let (status, created) = world.create("k", &asked("cart")).await;
    assert_eq!(status, 201);
    hung.hangs("load");
    let read = async {
        told(world.get(created["links"]["self"].as_str().unwrap()).send().await.unwrap()).await
    };
    let list = async { told(world.get("/v1/payments?reference=cart").send().await.unwrap()).await };
    let body = asked("cart");
    let answers = tokio::join!(world.create("k", &body), read, list);
    for (status, body) in [answers.0, answers.1, answers.2] {
        assert_eq!((status, body["code"].as_str()), (503, Some("storage_unavailable")), "{body}");
    }
    hung.hangs("none");
    assert_eq!(world.create("k", &asked("cart")).await.0, 201);
    assert_eq!(partner.count(), 1);
}

#[actix_web::test]
async fn a_request_ends_though_the_store_hangs() {
    let all = async {
        tokio::join!(a_new_key("claimed"), a_new_key("scan"), a_new_key("claim"), a_known_key())
    };
    let ended = tokio::time::timeout(Duration::from_secs(25), all).await;
    assert!(ended.is_ok(), "[time] a request waits for the store");
}

/// A claim that came through unheard is never called, whoever asks again.
#[actix_web::test]
async fn a_claim_nobody_heard_of_is_never_called() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let late = Arc::new(Late { real: Hung::over(&engines) });
    let world = World::new(&engines.with_store(late), &partner).await;
    let _folding = engines.fold();
    let (status, body) = world.create("k", &asked("cart")).await;
    assert_eq!((status, body["code"].as_str()), (503, Some("storage_unavailable")), "{body}");
    assert_eq!(world.create("k", &asked("cart")).await.0, 202);
    assert_eq!((engines.facts().await.as_str(), partner.count()), ("C", 0));
}

/// A store whose claims are made and never answered.
struct Late {
    real: Arc<Hung>,
}

impl OrderStore for Late {
    fn load(
        &self,
        keys: Vec<payfold_schemas::ids::OrderKey>,
    ) -> SeamFuture<'_, Vec<Option<Order>>, EngineError> {
        self.real.load(keys)
    }

    fn commit(&self, commit: Commit) -> SeamFuture<'_, (), EngineError> {
        self.real.commit(commit)
    }

    fn scan(
        &self,
        scan: Scan,
        after: Option<Cursor>,
        limit: usize,
    ) -> SeamFuture<'_, Page, EngineError> {
        self.real.scan(scan, after, limit)
    }

    fn claim(&self, key: ClaimKey, record: Vec<u8>) -> SeamFuture<'_, Claimed, EngineError> {
        Box::pin(async move {
            self.real.claim(key, record).await?;
            std::future::pending().await
        })
    }

    fn claimed(&self, key: ClaimKey) -> SeamFuture<'_, Option<Vec<u8>>, EngineError> {
        self.real.claimed(key)
    }

    fn progress(&self) -> SeamFuture<'_, Option<Progress>, EngineError> {
        self.real.progress()
    }
}
