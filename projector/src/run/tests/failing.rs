//! A log and an order store that fail on purpose. Other calls go to real engines.

use std::collections::HashMap;
use std::future::ready;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use payfold_doubles::{Double, LogCall, LogDouble, StoreCall, StoreDouble};
use payfold_engines::log::EventLog;
use payfold_engines::log::sqlite::SqliteLog;
use payfold_engines::orders::sqlite::SqliteOrders;
use payfold_engines::orders::{Commit, OrderStore, Progress};
use payfold_engines::{EngineError, SeamFuture};
use payfold_schemas::digest::Digest;
use tokio::sync::watch;

use super::World;

/// The fault of an engine.
#[derive(Clone, Copy)]
pub(super) enum Fault {
    /// The process dies in place of this commit, counted from 1.
    Crash { commit: u32 },
    /// The first calls of each method fail, this many.
    Unavailable { times: u32 },
    /// The store returns no progress, as a new store does.
    ForgetProgress,
    /// The store returns this offset as its progress, with the digest of the last record or another
    /// digest.
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
    pub(super) fn new(world: &World, fault: Fault) -> Arc<Double<Self>> {
        let (log, store) = (world.log.clone(), world.store.clone());
        let (failures, committed, commits) = Default::default();
        Arc::new(Double(Self { log, store, fault, failures, committed, commits }))
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

    /// Waits until some method has failed this many times.
    pub(super) async fn failed(&self, times: u32) {
        let mut failures = self.failures.subscribe();
        failures.wait_for(|all| all.values().any(|count| *count >= times)).await.unwrap();
    }
}

impl StoreDouble for Failing {
    fn real(&self) -> &dyn OrderStore {
        &*self.store
    }

    fn before(&self, call: StoreCall<'_>) -> SeamFuture<'static, (), EngineError> {
        Box::pin(ready(match call {
            StoreCall::Load => self.check("load"),
            StoreCall::Commit => self.check("commit"),
            StoreCall::Progress => self.check("progress"),
            StoreCall::Scan(_) | StoreCall::Claim | StoreCall::Claimed => Ok(()),
        }))
    }

    fn commit(&self, commit: Commit) -> SeamFuture<'_, (), EngineError> {
        let count = self.committed.fetch_add(1, Ordering::SeqCst) + 1;
        if matches!(self.fault, Fault::Crash { commit } if commit == count) {
            return Box::pin(ready(Err(EngineError::Corrupt("the process died".into()))));
        }
        self.commits.lock().unwrap().push(commit.clone());
        self.store.commit(commit)
    }

    fn progress(&self) -> SeamFuture<'_, Option<Progress>, EngineError> {
        Box::pin(async move {
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

impl LogDouble for Failing {
    fn real(&self) -> &dyn EventLog {
        &*self.log
    }

    fn before(&self, call: LogCall<'_>) -> Result<(), EngineError> {
        match call {
            LogCall::AppendAll => self.check("append_all"),
            LogCall::JoinGroup => self.check("join_group"),
            _ => Ok(()),
        }
    }
}
