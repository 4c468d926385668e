//! A log and an order store that fail on purpose, and pass on to real ones otherwise.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use payfold_engines::log::sqlite::SqliteLog;
use payfold_engines::log::{
    Delivered, EventLog, Extent, Message, Share, Start, Subscription, Topic,
};
use payfold_engines::orders::sqlite::SqliteOrders;
use payfold_engines::orders::{
    ClaimKey, Claimed, Commit, Cursor, OrderStore, Page, Progress, Scan,
};
use payfold_engines::{EngineError, SeamFuture};
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use payfold_schemas::record::Position;

use tokio::sync::watch;

use super::World;

/// What goes wrong.
#[derive(Clone, Copy)]
pub(super) enum Fault {
    /// The process dies in place of this commit, counted from 1.
    Crash { commit: u32 },
    /// Every method fails so many times first.
    Unavailable { times: u32 },
    /// The store says it is new.
    ForgetProgress,
    /// The store says it has folded this far, with the digest of the last record or another one.
    Progress { offset: u64, same_digest: bool },
}

pub(super) struct Failing {
    log: Arc<SqliteLog>,
    store: Arc<SqliteOrders>,
    fault: Fault,
    /// Failures by method.
    failures: watch::Sender<HashMap<&'static str, u32>>,
    committed: AtomicU32,
    commits: Mutex<Vec<Commit>>,
}

impl Failing {
    pub(super) fn new(world: &World, fault: Fault) -> Arc<Self> {
        let (log, store) = (world.log.clone(), world.store.clone());
        let (failures, committed, commits) = Default::default();
        Arc::new(Self { log, store, fault, failures, committed, commits })
    }

    pub(super) fn commits(&self) -> Vec<Commit> {
        self.commits.lock().unwrap().clone()
    }

    /// Fails the first calls of each method under `Unavailable`.
    fn check(&self, method: &'static str) -> Result<(), EngineError> {
        let Fault::Unavailable { times } = self.fault else { return Ok(()) };
        let fails = self.failures.send_if_modified(|failures| {
            let count = failures.entry(method).or_default();
            let fails = *count < times;
            *count += u32::from(fails);
            fails
        });
        if fails { Err(EngineError::Unavailable("away".into())) } else { Ok(()) }
    }

    /// Waits until some method has failed so often.
    pub(super) async fn failed(&self, times: u32) {
        let mut failures = self.failures.subscribe();
        failures.wait_for(|all| all.values().any(|count| *count >= times)).await.unwrap();
    }
}

impl OrderStore for Failing {
    fn load(&self, keys: Vec<OrderKey>) -> SeamFuture<'_, Vec<Option<Order>>, EngineError> {
        Box::pin(async move {
            self.check("load")?;
            self.store.load(keys).await
        })
    }

    fn commit(&self, commit: Commit) -> SeamFuture<'_, (), EngineError> {
        Box::pin(async move {
            self.check("commit")?;
            let count = self.committed.fetch_add(1, Ordering::SeqCst) + 1;
            if matches!(self.fault, Fault::Crash { commit } if commit == count) {
                return Err(EngineError::Corrupt("the process died".into()));
            }
            self.commits.lock().unwrap().push(commit.clone());
            self.store.commit(commit).await
        })
    }

    fn scan(
        &self,
        scan: Scan,
        after: Option<Cursor>,
        limit: usize,
    ) -> SeamFuture<'_, Page, EngineError> {
        self.store.scan(scan, after, limit)
    }

    fn claim(&self, key: ClaimKey, record: Vec<u8>) -> SeamFuture<'_, Claimed, EngineError> {
        self.store.claim(key, record)
    }

    fn claimed(&self, key: ClaimKey) -> SeamFuture<'_, Option<Vec<u8>>, EngineError> {
        self.store.claimed(key)
    }

    fn progress(&self) -> SeamFuture<'_, Option<Progress>, EngineError> {
        Box::pin(async move {
            self.check("progress")?;
            let mut progress = self.store.progress().await?;
            match (self.fault, &mut progress) {
                (Fault::ForgetProgress, _) => progress = None,
                (Fault::Progress { offset, same_digest }, Some(progress)) => {
                    progress.folded[0].position.offset = offset;
                    if !same_digest {
                        progress.folded[0].digest = Digest::of_bytes(b"another");
                    }
                }
                _ => {}
            }
            Ok(progress)
        })
    }
}

impl EventLog for Failing {
    fn append(&self, topic: Topic, message: Message) -> SeamFuture<'static, Position, EngineError> {
        self.log.append(topic, message)
    }

    fn append_all(
        &self,
        topic: Topic,
        messages: Vec<Message>,
    ) -> SeamFuture<'static, Vec<Position>, EngineError> {
        match self.check("append_all") {
            Ok(()) => self.log.append_all(topic, messages),
            Err(error) => Box::pin(async move { Err(error) }),
        }
    }

    fn subscribe(
        &self,
        topic: Topic,
        group: &str,
        start: Start,
    ) -> SeamFuture<'_, Box<dyn Subscription>, EngineError> {
        self.log.subscribe(topic, group, start)
    }

    fn share(&self, topic: Topic, group: &str) -> SeamFuture<'_, Box<dyn Share>, EngineError> {
        let group = group.to_owned();
        Box::pin(async move {
            self.check("share")?;
            self.log.share(topic, &group).await
        })
    }

    fn read_after(
        &self,
        topic: Topic,
        after: Position,
        limit: usize,
    ) -> SeamFuture<'_, Vec<Delivered>, EngineError> {
        self.log.read_after(topic, after, limit)
    }

    fn extent(&self, topic: Topic) -> SeamFuture<'_, Vec<Extent>, EngineError> {
        self.log.extent(topic)
    }

    fn id(&self) -> [u8; 16] {
        self.log.id()
    }

    fn queue_depth(&self) -> usize {
        self.log.queue_depth()
    }

    fn close(&self) -> SeamFuture<'_, (), EngineError> {
        self.log.close()
    }
}
