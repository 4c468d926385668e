//! Owns the settings of a projector: the sizes of batches and of the cache, the pauses between
//! retries, the speed. The batches in flight and the cache make up its memory.

use payfold_kit::Retry;
use payfold_schemas::publication::Publication;
use tokio::sync::watch;

use crate::fold::FoldRules;

/// How fast a build is folded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speed {
    /// Whether folding is paused.
    pub paused: bool,
    /// The most facts a second; `None` for no limit.
    pub facts_per_s: Option<u32>,
}

/// The settings of a projector.
#[derive(Clone, Debug)]
pub struct ProjectorSettings {
    /// The consumer group it reads the log in.
    pub group: String,
    /// The build that the order store is open on.
    pub build: u32,
    /// The rules by which facts are folded.
    pub rules: FoldRules,
    /// The speed, which may change while it runs; `None` for no limit.
    pub speed: Option<watch::Receiver<Speed>>,
    /// The most records of one batch. With eight batches in flight, 4,096 need 10 % less CPU than
    /// 1,024, and some 70 MB more memory.
    pub batch_records_max: usize,
    /// The most batches that are read and not committed. With eight, every stage is at work and one
    /// batch waits before each.
    pub batches_max: usize,
    /// The intended size of a batch's values, bytes. A batch may exceed it: the number of its
    /// records is chosen by the record sizes of the batch before.
    pub batch_bytes: usize,
    /// The size of the cache of recently used orders, bytes. Orders that are not committed yet may
    /// exceed it.
    pub cache_bytes: usize,
    /// The pauses between retries while storage is unavailable.
    pub retry: Retry,
}

impl Default for ProjectorSettings {
    fn default() -> Self {
        Self {
            group: "projector".to_owned(),
            build: Publication::FIRST.build,
            rules: FoldRules::Current,
            speed: None,
            batch_records_max: 2_048,
            batches_max: 8,
            batch_bytes: 8 << 20,
            cache_bytes: 16 << 20,
            retry: Retry { ms_min: 50, ms_max: 5_000 },
        }
    }
}

impl ProjectorSettings {
    /// The settings for folding a whole log. Batches are large, because an order is written once
    /// for all its facts in a batch. The cache is larger, so that fewer orders are loaded again.
    /// Half as many batches are in flight, because nothing is published. The build keeps these
    /// settings after its switch, until its process restarts.
    pub fn for_rebuild(self) -> Self {
        Self {
            batch_records_max: self.batch_records_max.max(24_576),
            batches_max: self.batches_max.min(4),
            batch_bytes: self.batch_bytes.max(24 << 20),
            cache_bytes: self.cache_bytes.max(64 << 20),
            ..self
        }
    }
}
