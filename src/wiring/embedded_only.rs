//! Owns the placeholder for Kafka and CQL in a program that was built without the feature
//! `cluster`. Settings that name them are refused; the error says how to get them.

use payfold_schemas::record_keys::RecordKeys;
use prometheus::Registry;

use super::cluster_state::{ApplyMode, ApplyStep, ClusterCheck};
use super::engines::{Engines, Need};
use crate::error::Fixable;
use crate::settings::Settings;

/// Distributed engines, which this program does not have.
#[derive(Clone, Debug)]
pub(crate) enum AbsentEngines {}

/// The name by which callers know the engines in either build.
pub(crate) type DistributedEngines = AbsentEngines;

impl AbsentEngines {
    /// Errors: always.
    pub(crate) fn of(settings: &Settings) -> anyhow::Result<Self> {
        Err(absent(&settings.log))
    }

    /// Can't be called.
    pub(crate) async fn open(
        &self,
        _: &Registry,
        _: Need,
        _: RecordKeys,
    ) -> anyhow::Result<Engines> {
        match *self {}
    }

    /// Can't be called.
    pub(crate) async fn open_to_read(&self, _: RecordKeys) -> anyhow::Result<Engines> {
        match *self {}
    }

    /// Can't be called.
    pub(crate) fn acls(&self, _: &str) -> String {
        match *self {}
    }

    /// Can't be called.
    pub(crate) async fn apply_topics(
        &self,
        _: &Settings,
        _: ApplyMode,
    ) -> anyhow::Result<Vec<ApplyStep>> {
        match *self {}
    }

    /// Can't be called.
    pub(crate) async fn apply_schema(&self, _: ApplyMode) -> anyhow::Result<Vec<ApplyStep>> {
        match *self {}
    }

    /// Can't be called.
    pub(crate) async fn note_copies_repaired(&self) -> anyhow::Result<()> {
        match *self {}
    }

    /// Can't be called.
    pub(crate) async fn check(&self) -> ClusterCheck {
        match *self {}
    }

    /// Errors: always.
    pub(crate) async fn make_bench_topics(url: &str, _: u32) -> anyhow::Result<i32> {
        Err(absent(url))
    }

    /// Errors: always.
    pub(crate) async fn make_bench_keyspace(url: &str) -> anyhow::Result<()> {
        Err(absent(url))
    }
}

fn absent(url: &str) -> anyhow::Error {
    Fixable::error(
        format!("{url}: this payfold was built without the Kafka and CQL engines"),
        "use a released binary, or build with them: `cargo build --release` without \
            --no-default-features",
    )
}

/// Placeholders for the types of `distributed/compacted_copy.rs`.
pub(super) mod compacted_copy {
    use std::sync::Arc;

    use payfold_engines::EngineError;
    use payfold_engines::log::EventLog;
    use payfold_projector::ProjectorMetrics;
    use tokio::sync::watch;

    /// Claims in a database, which this program does not have.
    pub(crate) enum AbsentClaims {}

    /// The name by which callers know the claims in either build.
    pub(crate) type ClaimsTable = AbsentClaims;

    /// A compacted copy of `orders`, which this program does not have.
    #[derive(Clone)]
    pub(crate) enum AbsentCopy {}

    /// The name by which callers know the copy in either build.
    pub(crate) type CompactedCopy = AbsentCopy;

    impl AbsentClaims {
        /// Can't be called.
        pub(crate) async fn check(&self, _: &dyn EventLog) -> Result<(), EngineError> {
            match *self {}
        }
    }

    impl AbsentCopy {
        /// Can't be called.
        pub(crate) async fn run(self, _: Arc<ProjectorMetrics>, _: watch::Receiver<bool>) {
            match self {}
        }
    }
}
