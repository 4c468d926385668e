//! Owns engines with planted bugs: real ones behind wrappers that do one thing wrong and everything
//! else right.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use payfold_doubles::{Double, LogDouble, StoreDouble};
use payfold_engines::log::{AssignedReader, EventLog, Message, ReaderOutput, Topic};
use payfold_engines::orders::{Commit, OrderStore};
use payfold_engines::{EngineError, SeamFuture};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::{KnownFacts, Order};
use payfold_schemas::position::Position;

use super::Bug;

/// How late the late half of a bug comes: long enough that a kill falls into it.
const LATE: Duration = Duration::from_millis(40);

/// A log with a bug.
pub struct BentLog {
    real: Arc<dyn EventLog>,
    bug: Bug,
}

impl BentLog {
    pub fn new(real: Arc<dyn EventLog>, bug: Bug) -> Double<Self> {
        Double(Self { real, bug })
    }
}

impl LogDouble for BentLog {
    fn real(&self) -> &dyn EventLog {
        &*self.real
    }

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

    fn join_group(
        &self,
        topic: Topic,
        group: &str,
    ) -> SeamFuture<'_, Box<dyn AssignedReader>, EngineError> {
        let (group, bug) = (group.to_owned(), self.bug);
        Box::pin(async move {
            let real = self.real.join_group(topic, &group).await?;
            Ok(Box::new(BentReader { real, bug }) as Box<dyn AssignedReader>)
        })
    }
}

struct BentReader {
    real: Box<dyn AssignedReader>,
    bug: Bug,
}

impl AssignedReader for BentReader {
    fn next(&mut self, limit: usize) -> SeamFuture<'_, ReaderOutput, EngineError> {
        Box::pin(async move {
            let mut output = self.real.next(limit).await?;
            // A batch is never empty, not even a bent one.
            if let (Bug::LostTail, ReaderOutput::Messages(batch)) = (self.bug, &mut output)
                && batch.len() > 1
            {
                batch.pop();
            }
            Ok(output)
        })
    }

    fn start_after(&mut self, after: Vec<Position>) -> SeamFuture<'_, (), EngineError> {
        self.real.start_after(after)
    }

    fn release_revoked(&mut self) -> SeamFuture<'_, (), EngineError> {
        self.real.release_revoked()
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
    pub fn new(real: Arc<dyn OrderStore>, bug: Bug) -> Double<Self> {
        Double(Self { real, bug })
    }
}

impl StoreDouble for BentStore {
    fn real(&self) -> &dyn OrderStore {
        &*self.real
    }

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
}
