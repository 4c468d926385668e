//! Owns what stands for Kafka and CQL in a program that was built without them (without the feature `cluster`): there
//! are no distributed engines, and whoever names them is told how to get them.

use std::sync::Arc;

use payfold_engines::EngineError;
use payfold_engines::log::EventLog;
use payfold_projector::Metrics;
use prometheus::Registry;
use tokio::sync::watch;

use super::asked::{ClusterLook, Doing, Step};
use super::{Engines, Need};
use crate::error::Fixable;
use crate::settings::Settings;

/// Engines that this program can't have.
#[derive(Clone, Debug)]
pub enum Distributed {}

/// Claims that this program can't have.
pub enum Tables {}

/// A twin of `orders` that this program can't have.
#[derive(Clone)]
pub enum Twin {}

impl Distributed {
    /// Errors: always.
    pub fn of(settings: &Settings) -> anyhow::Result<Self> {
        Err(absent(&settings.log))
    }

    /// Can't be called.
    pub async fn open(&self, _: &Registry, _: Need) -> anyhow::Result<Engines> {
        match *self {}
    }

    /// Can't be called.
    pub async fn open_to_read(&self) -> anyhow::Result<Engines> {
        match *self {}
    }

    /// Can't be called.
    pub async fn apply_topics(&self, _: &Settings, _: Doing) -> anyhow::Result<Vec<Step>> {
        match *self {}
    }

    /// Can't be called.
    pub async fn apply_schema(&self, _: Doing) -> anyhow::Result<Vec<Step>> {
        match *self {}
    }

    /// Can't be called.
    pub async fn note_copies_repaired(&self) -> anyhow::Result<()> {
        match *self {}
    }

    /// Can't be called.
    pub async fn look(&self) -> ClusterLook {
        match *self {}
    }

    /// Errors: always.
    pub async fn make_bench_topics(url: &str, _: u32) -> anyhow::Result<i32> {
        Err(absent(url))
    }

    /// Errors: always.
    pub async fn make_bench_keyspace(url: &str) -> anyhow::Result<()> {
        Err(absent(url))
    }
}

impl Tables {
    /// Can't be called.
    pub async fn check(&self, _: &dyn EventLog) -> Result<(), EngineError> {
        match *self {}
    }
}

impl Twin {
    /// Can't be called.
    pub async fn keep(self, _: Arc<Metrics>, _: watch::Receiver<bool>) {
        match self {}
    }
}

fn absent(url: &str) -> anyhow::Error {
    Fixable::error(
        format!("{url}: this payfold was built without the Kafka and CQL engines"),
        "take a released binary, or build it with them: `cargo build --release` without --no-default-features",
    )
}
