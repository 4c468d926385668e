//! Owns the statements of one build's tables.

use std::sync::Arc;

use super::link::Link;
use super::{buckets, heads, progress, rows, scan, views};
use crate::EngineError;

/// The prepared statements of one build's tables.
pub(super) struct Tables {
    pub(super) rows: rows::Rows,
    pub(super) progress: progress::Advance,
    pub(super) heads: heads::Heads,
    pub(super) buckets: buckets::Buckets,
    pub(super) views: views::Views,
    pub(super) scans: scan::Scans,
}

impl Tables {
    /// Prepares all statements. Errors: the database's.
    pub(super) async fn prepare(link: &Link, build: u32) -> Result<Arc<Self>, EngineError> {
        Ok(Arc::new(Self {
            rows: rows::Rows::prepare(link, build).await?,
            progress: progress::Advance::prepare(link, build).await?,
            heads: heads::Heads::prepare(link, build).await?,
            buckets: buckets::Buckets::prepare(link, build).await?,
            views: views::Views::prepare(link, build).await?,
            scans: scan::Scans::prepare(link, build).await?,
        }))
    }
}
