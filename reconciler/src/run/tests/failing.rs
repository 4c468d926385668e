//! A log and an order store that fail on purpose, count their calls, and pass them on to real ones.

use std::collections::HashMap;
use std::future::ready;
use std::sync::Arc;

use payfold_doubles::{Double, LogCall, LogDouble, StoreCall, StoreDouble};
use payfold_engines::log::sqlite::SqliteLog;
use payfold_engines::log::{Delivered, EventLog, Message, Start, Subscription, Topic};
use payfold_engines::orders::sqlite::SqliteOrders;
use payfold_engines::orders::{OrderStore, Progress, Scan};
use payfold_engines::{EngineError, SeamFuture};
use payfold_schemas::position::Position;
use tokio::sync::watch;
use tokio::time::timeout;

use super::world::{NEVER, World};

/// How the engines fail.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Fault {
    None,
    /// The first calls of every method fail.
    Unavailable {
        times: u32,
    },
    /// This method reports corruption.
    Corrupt(&'static str),
    /// Readers of the log get nothing.
    SilentReader,
    /// The store says it was folded from another log.
    OtherLog,
    /// The first append is stored, and its answer is lost.
    LostAnswer,
}

pub(super) struct FailingEngines {
    log: Arc<SqliteLog>,
    store: Arc<SqliteOrders>,
    fault: Fault,
    /// Calls by method, failed ones included.
    calls: watch::Sender<HashMap<&'static str, u32>>,
}

impl FailingEngines {
    pub(super) fn new(world: &World, fault: Fault) -> Arc<Double<Self>> {
        let (log, store) = (world.log.clone(), world.store.clone());
        Arc::new(Double(Self { log, store, fault, calls: watch::Sender::default() }))
    }

    fn count_call(&self, method: &'static str) -> Result<(), EngineError> {
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

    /// Waits for this many more calls of a method.
    pub(super) async fn wait_for_more_calls(&self, method: &str, more: u32) {
        self.wait_for_calls(method, self.calls(method) + more).await;
    }

    /// Waits until a method was called this often since the start.
    pub(super) async fn wait_for_calls(&self, method: &str, times: u32) {
        let mut calls = self.calls.subscribe();
        let reached = |calls: &HashMap<&'static str, u32>| {
            calls.get(method).is_some_and(|count| *count >= times)
        };
        let waiting = timeout(NEVER, calls.wait_for(reached)).await;
        assert!(waiting.is_ok(), "[time] {method} was not called {times} times");
    }
}

impl StoreDouble for FailingEngines {
    fn real(&self) -> &dyn OrderStore {
        &*self.store
    }

    fn before(&self, call: StoreCall<'_>) -> SeamFuture<'static, (), EngineError> {
        Box::pin(ready(match call {
            StoreCall::Load => self.count_call("load"),
            StoreCall::Scan(Scan::ProviderRef(..)) => self.count_call("scan refs"),
            StoreCall::Scan(_) => self.count_call("scan deadlines"),
            StoreCall::Progress => self.count_call("progress"),
            StoreCall::Commit | StoreCall::Claim | StoreCall::Claimed => Ok(()),
        }))
    }

    fn progress(&self) -> SeamFuture<'_, Option<Progress>, EngineError> {
        Box::pin(async move {
            let progress = self.store.progress().await?;
            Ok(progress.map(|progress| match self.fault {
                Fault::OtherLog => Progress { log_id: [7; 16], ..progress },
                _ => progress,
            }))
        })
    }
}

impl LogDouble for FailingEngines {
    fn real(&self) -> &dyn EventLog {
        &*self.log
    }

    fn before(&self, call: LogCall<'_>) -> Result<(), EngineError> {
        match call {
            LogCall::AppendAll => self.count_call("append_all"),
            LogCall::Subscribe => self.count_call("subscribe"),
            LogCall::ReadAfter => self.count_call("read_after"),
            LogCall::Extent => self.count_call("extent"),
            LogCall::Append(_) | LogCall::JoinGroup => Ok(()),
        }
    }

    fn append_all(
        &self,
        topic: Topic,
        messages: Vec<Message>,
    ) -> SeamFuture<'static, Vec<Position>, EngineError> {
        let appended = self.log.append_all(topic, messages);
        if self.fault != Fault::LostAnswer || self.calls("append_all") > 1 {
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
        if self.fault == Fault::SilentReader {
            return Box::pin(ready(Ok(Box::new(SilentReader) as Box<dyn Subscription>)));
        }
        self.log.subscribe(topic, group, start)
    }
}

/// A subscription that never delivers anything.
struct SilentReader;

impl Subscription for SilentReader {
    fn next_batch(&mut self, _: usize) -> SeamFuture<'_, Vec<Delivered>, EngineError> {
        Box::pin(std::future::pending())
    }

    fn ack(&mut self, _: Vec<Position>) -> SeamFuture<'_, (), EngineError> {
        Box::pin(async { Ok(()) })
    }
}
