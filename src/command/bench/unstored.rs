//! Owns the order store that stores nothing: what a projector does without a database, for that line of the bench alone.
//! Invariant: rows are encoded as they would be stored, and dropped; only how far the folding came is kept.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

use payfold_engines::orders::{
    Claimed, Commit, Cursor, Folded, OrderStore, Page, Progress, Scan, row,
};
use payfold_engines::{EngineError, SeamFuture};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;

/// The store.
#[derive(Debug, Default)]
pub struct Unstored {
    folded: Mutex<([u8; 16], BTreeMap<u32, Folded>)>,
}

impl Unstored {
    fn drop_rows(commit: &Commit) {
        let mut bytes = Vec::new();
        for order in &commit.orders {
            row::encode(order, &mut bytes);
            black_box((order.key.to_string(), &bytes));
        }
    }
}

impl OrderStore for Unstored {
    fn load(&self, keys: Vec<OrderKey>) -> SeamFuture<'_, Vec<Option<Order>>, EngineError> {
        Box::pin(async move { Ok(keys.iter().map(|_| None).collect()) })
    }

    fn commit(&self, commit: Commit) -> SeamFuture<'_, (), EngineError> {
        Box::pin(async move {
            Self::drop_rows(&commit);
            let mut known = self.folded.lock().unwrap_or_else(PoisonError::into_inner);
            known.0 = commit.log_id;
            known.1.extend(commit.folded.iter().map(|one| (one.position.partition, *one)));
            Ok(())
        })
    }

    fn progress(&self) -> SeamFuture<'_, Option<Progress>, EngineError> {
        Box::pin(async move {
            let known = self.folded.lock().unwrap_or_else(PoisonError::into_inner);
            let folded: Vec<_> = known.1.values().copied().collect();
            Ok((!folded.is_empty()).then_some(Progress { log_id: known.0, folded }))
        })
    }

    fn scan(
        &self,
        _scan: Scan,
        _after: Option<Cursor>,
        _limit: usize,
    ) -> SeamFuture<'_, Page, EngineError> {
        Box::pin(async { Err(nothing_stored()) })
    }

    fn claim(&self, _key: String, _record: Vec<u8>) -> SeamFuture<'_, Claimed, EngineError> {
        Box::pin(async { Err(nothing_stored()) })
    }

    fn claimed(&self, _key: String) -> SeamFuture<'_, Option<Vec<u8>>, EngineError> {
        Box::pin(async { Err(nothing_stored()) })
    }
}

fn nothing_stored() -> EngineError {
    EngineError::Invalid(
        "a bench's store that stores nothing was asked for what is stored".to_owned(),
    )
}
