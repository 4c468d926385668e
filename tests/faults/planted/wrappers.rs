//! Owns the bent engines: real ones behind wrappers that do one thing wrong and all else right.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use payfold_engines::log::{
    Delivered, EventLog, Extent, Message, Share, Start, Subscription, Topic, Turn,
};
use payfold_engines::orders::{
    ClaimKey, Claimed, Commit, Cursor, OrderStore, Page, Progress, Scan,
};
use payfold_engines::{EngineError, SeamFuture};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::{KnownFacts, Order};
use payfold_schemas::record::Position;

use super::Bug;

/// How late the late half of a bug comes: long enough that a kill falls into it.
const LATE: Duration = Duration::from_millis(40);

/// A log with a bug.
pub struct BentLog {
    real: Arc<dyn EventLog>,
    bug: Bug,
}

impl BentLog {
    pub fn new(real: Arc<dyn EventLog>, bug: Bug) -> Self {
        Self { real, bug }
    }
}

impl EventLog for BentLog {
    fn append(&self, topic: Topic, message: Message) -> SeamFuture<'static, Position, EngineError> {
        if self.bug != Bug::AckEarly {
            return self.real.append(topic, message);
        }
        let real = Arc::clone(&self.real);
        tokio::spawn(async move {
            tokio::time::sleep(LATE).await;
            real.append(topic, message).await
        });
        Box::pin(ready(Ok(Position::default())))
    }

    fn append_all(
        &self,
        topic: Topic,
        mut messages: Vec<Message>,
    ) -> SeamFuture<'static, Vec<Position>, EngineError> {
        if self.bug == Bug::EventsReversed && topic == Topic::Orders {
            messages.reverse();
        }
        self.real.append_all(topic, messages)
    }

    fn subscribe(
        &self,
        topic: Topic,
        group: &str,
        start: Start,
    ) -> SeamFuture<'_, Box<dyn Subscription>, EngineError> {
        self.real.subscribe(topic, group, start)
    }

    fn share(&self, topic: Topic, group: &str) -> SeamFuture<'_, Box<dyn Share>, EngineError> {
        let (group, bug) = (group.to_owned(), self.bug);
        Box::pin(async move {
            let real = self.real.share(topic, &group).await?;
            Ok(Box::new(BentShare { real, bug }) as Box<dyn Share>)
        })
    }

    fn read_after(
        &self,
        topic: Topic,
        after: Position,
        limit: usize,
    ) -> SeamFuture<'_, Vec<Delivered>, EngineError> {
        self.real.read_after(topic, after, limit)
    }

    fn extent(&self, topic: Topic) -> SeamFuture<'_, Vec<Extent>, EngineError> {
        self.real.extent(topic)
    }

    fn id(&self) -> [u8; 16] {
        self.real.id()
    }

    fn queue_depth(&self) -> usize {
        self.real.queue_depth()
    }

    fn close(&self) -> SeamFuture<'_, (), EngineError> {
        self.real.close()
    }
}

struct BentShare {
    real: Box<dyn Share>,
    bug: Bug,
}

impl Share for BentShare {
    fn next(&mut self, limit: usize) -> SeamFuture<'_, Turn, EngineError> {
        Box::pin(async move {
            let mut turn = self.real.next(limit).await?;
            // A batch is never empty, not even a bent one.
            if let (Bug::LostTail, Turn::Messages(batch)) = (self.bug, &mut turn)
                && batch.len() > 1
            {
                batch.pop();
            }
            Ok(turn)
        })
    }

    fn begin(&mut self, after: Vec<Position>) -> SeamFuture<'_, (), EngineError> {
        self.real.begin(after)
    }

    fn release(&mut self) -> SeamFuture<'_, (), EngineError> {
        self.real.release()
    }

    fn ack(&mut self, through: Vec<Position>) -> SeamFuture<'_, (), EngineError> {
        self.real.ack(through)
    }
}

/// An order store with a bug.
pub struct BentStore {
    real: Arc<dyn OrderStore>,
    bug: Bug,
}

impl BentStore {
    pub fn new(real: Arc<dyn OrderStore>, bug: Bug) -> Self {
        Self { real, bug }
    }
}

impl OrderStore for BentStore {
    fn load(&self, keys: Vec<OrderKey>) -> SeamFuture<'_, Vec<Option<Order>>, EngineError> {
        Box::pin(async move {
            let mut rows = self.real.load(keys).await?;
            if self.bug == Bug::NoDedup {
                rows.iter_mut().flatten().for_each(|row| row.facts = KnownFacts::default());
            }
            Ok(rows)
        })
    }

    fn commit(&self, mut commit: Commit) -> SeamFuture<'_, (), EngineError> {
        Box::pin(async move {
            if self.bug == Bug::PositionAhead {
                let rows = std::mem::take(&mut commit.orders);
                self.real.commit(commit.clone()).await?;
                tokio::time::sleep(LATE).await;
                commit.orders = rows;
            }
            self.real.commit(commit).await
        })
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
        self.real.claim(key, record)
    }

    fn claimed(&self, key: ClaimKey) -> SeamFuture<'_, Option<Vec<u8>>, EngineError> {
        self.real.claimed(key)
    }

    fn progress(&self) -> SeamFuture<'_, Option<Progress>, EngineError> {
        self.real.progress()
    }
}
