//! A log and an order store that fail on purpose and count what they are asked, and pass on to real ones.

use std::collections::HashMap;
use std::sync::Arc;

use payfold_engines::log::sqlite::SqliteLog;
use payfold_engines::log::{
    Delivered, EventLog, Extent, Message, Share, Start, Subscription, Topic,
};
use payfold_engines::orders::sqlite::SqliteOrders;
use payfold_engines::orders::{
    ClaimKey, Claimed, Commit, Cursor, OrderStore, Page, Progress, Scan,
};
use payfold_engines::{EngineError, SeamFuture};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use payfold_schemas::record::Position;
use tokio::sync::watch;

use super::world::World;

/// What goes wrong.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Fault {
    None,
    /// Every method fails so many times first.
    Unavailable {
        times: u32,
    },
    /// This method finds nonsense.
    Corrupt(&'static str),
    /// Readers of the log get nothing.
    Deaf,
    /// The store says it was folded from another log.
    OtherLog,
    /// The first append is stored, and its answer lost.
    Unheard,
}

pub(super) struct Failing {
    log: Arc<SqliteLog>,
    store: Arc<SqliteOrders>,
    fault: Fault,
    /// Calls by method, failed ones included.
    calls: watch::Sender<HashMap<&'static str, u32>>,
}

impl Failing {
    pub(super) fn new(world: &World, fault: Fault) -> Arc<Self> {
        let (log, store) = (world.log.clone(), world.store.clone());
        Arc::new(Self { log, store, fault, calls: watch::Sender::default() })
    }

    fn check(&self, method: &'static str) -> Result<(), EngineError> {
        let mut count = 0;
        self.calls.send_modify(|calls| {
            let calls = calls.entry(method).or_default();
            *calls += 1;
            count = *calls;
        });
        match self.fault {
            Fault::Unavailable { times } if count <= times => {
                Err(EngineError::Unavailable("away".into()))
            }
            Fault::Corrupt(broken) if broken == method => {
                Err(EngineError::Corrupt("nonsense".into()))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn calls(&self, method: &str) -> u32 {
        self.calls.borrow().get(method).copied().unwrap_or(0)
    }

    /// Waits for so many more calls of a method.
    pub(super) async fn called(&self, method: &str, more: u32) {
        self.called_in_all(method, self.calls(method) + more).await;
    }

    /// Waits until a method was called so often since the start.
    pub(super) async fn called_in_all(&self, method: &str, times: u32) {
        let mut calls = self.calls.subscribe();
        let reached = |calls: &HashMap<&'static str, u32>| {
            calls.get(method).is_some_and(|count| *count >= times)
        };
        calls.wait_for(reached).await.unwrap();
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
        self.store.commit(commit)
    }

    fn scan(
        &self,
        scan: Scan,
        after: Option<Cursor>,
        limit: usize,
    ) -> SeamFuture<'_, Page, EngineError> {
        Box::pin(async move {
            let by_ref = matches!(scan, Scan::ProviderRef(..));
            self.check(if by_ref { "scan refs" } else { "scan deadlines" })?;
            self.store.scan(scan, after, limit).await
        })
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
            let progress = self.store.progress().await?;
            Ok(progress.map(|progress| match self.fault {
                Fault::OtherLog => Progress { log_id: [7; 16], ..progress },
                _ => progress,
            }))
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
        if let Err(error) = self.check("append_all") {
            return Box::pin(async move { Err(error) });
        }
        let appended = self.log.append_all(topic, messages);
        if self.fault != Fault::Unheard || self.calls("append_all") > 1 {
            return appended;
        }
        Box::pin(async move {
            appended.await?;
            Err(EngineError::Unavailable("the answer was lost".into()))
        })
    }

    fn subscribe(
        &self,
        topic: Topic,
        group: &str,
        start: Start,
    ) -> SeamFuture<'_, Box<dyn Subscription>, EngineError> {
        let group = group.to_owned();
        Box::pin(async move {
            self.check("subscribe")?;
            if self.fault == Fault::Deaf {
                return Ok(Box::new(Deaf) as Box<dyn Subscription>);
            }
            self.log.subscribe(topic, &group, start).await
        })
    }

    fn share(&self, topic: Topic, group: &str) -> SeamFuture<'_, Box<dyn Share>, EngineError> {
        self.log.share(topic, group)
    }

    fn read_after(
        &self,
        topic: Topic,
        after: Position,
        limit: usize,
    ) -> SeamFuture<'_, Vec<Delivered>, EngineError> {
        Box::pin(async move {
            self.check("read_after")?;
            self.log.read_after(topic, after, limit).await
        })
    }

    fn extent(&self, topic: Topic) -> SeamFuture<'_, Vec<Extent>, EngineError> {
        Box::pin(async move {
            self.check("extent")?;
            self.log.extent(topic).await
        })
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

/// A reader that is told nothing.
struct Deaf;

impl Subscription for Deaf {
    fn next_batch(&mut self, _: usize) -> SeamFuture<'_, Vec<Delivered>, EngineError> {
        Box::pin(std::future::pending())
    }

    fn ack(&mut self, _: Vec<Position>) -> SeamFuture<'_, (), EngineError> {
        Box::pin(async { Ok(()) })
    }
}
