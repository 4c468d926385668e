//! Owns what the concurrent tasks of the reconciler share: log and order store, metrics, settings,
//! and how far intake is checked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use payfold_engines::log::Extent;
use payfold_kit::{Halt, Storage, Watermark};

use crate::metrics::Metrics;
use crate::settings::Settings;

/// What the reconciler's tasks share.
pub(crate) struct ReconcilerContext {
    pub(crate) storage: Storage,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) settings: Settings,
    /// The last offset of each partition of intake that is checked for refs. A partition is missing
    /// until a record of it was read.
    checked: Mutex<BTreeMap<u32, u64>>,
}

impl ReconcilerContext {
    /// A context of which no record of intake is checked yet.
    pub(crate) fn new(storage: Storage, metrics: Arc<Metrics>, settings: Settings) -> Self {
        Self { storage, metrics, settings, checked: Mutex::default() }
    }

    /// Measures how far intake is folded, and sets the metric of unchecked records.
    pub(crate) async fn watermark(&self) -> Result<Watermark, Halt> {
        let watermark = Watermark::measure(&self.storage).await?;
        self.metrics.set_lag(self.count_unchecked(&watermark.extents));
        Ok(watermark)
    }

    /// The last offset of each partition of intake that is checked for refs.
    pub(crate) fn checked(&self) -> MutexGuard<'_, BTreeMap<u32, u64>> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many records of intake are not checked for refs. Partitions of which nothing was read
    /// yet are not counted: another instance may read them.
    fn count_unchecked(&self, extents: &[Extent]) -> u64 {
        let checked = self.checked();
        let unchecked = extents.iter().filter_map(|extent| {
            let checked = checked.get(&extent.partition)?;
            Some(extent.last.saturating_sub(*checked))
        });
        unchecked.fold(0, u64::saturating_add)
    }
}
