//! Owns the settings of a reconciler: its intervals, bounds and retries.

use std::time::Duration;

use payfold_kit::Retry;

use crate::schedule::Schedule;

/// How a reconciler runs. These settings and constants bound what it holds in memory.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The consumer group that reads intake for shared refs.
    pub group: String,
    /// How often the deadline view is checked.
    pub deadline_poll: Duration,
    /// How much the clocks of the writers may differ from this one, plus how long an append may
    /// take. Deadlines this far before the low watermark are checked again.
    pub clock_margin: Duration,
    /// The most entries of one page of a view, and the most facts of one append.
    pub page_entries: usize,
    /// The most records of one batch of intake.
    pub batch_records_max: usize,
    /// How often the position in intake is acknowledged. A crash repeats what came after it, which
    /// does no harm.
    pub ack_every: Duration,
    /// The pauses between two tries while storage is unavailable.
    pub retry: Retry,
    /// When partners are asked about a stuck order.
    pub query_after: Schedule,
    /// How often stuck orders are searched for.
    pub query_poll: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            group: "reconciler-refs".to_owned(),
            deadline_poll: Duration::from_secs(1),
            clock_margin: Duration::from_secs(60),
            page_entries: 512,
            batch_records_max: 1_024,
            ack_every: Duration::from_secs(1),
            retry: Retry { ms_min: 50, ms_max: 5_000 },
            query_after: Schedule::default(),
            query_poll: Duration::from_secs(1),
        }
    }
}
