//! Owns what a bench needs of real servers: topics of its own behind a prefix nobody else has, and the brokers' CPU
//! time. Nothing it makes is removed: a bench runs against servers that are for trying things out.

use anyhow::Context;
use payfold_engines::clock::{Clock, SystemClock};

use super::process::cpu_micros_of;
use crate::command::block_on;
use crate::wiring::Distributed;

/// A log in Kafka for one bench.
pub struct Cluster {
    /// The log's URL, with a prefix of this run.
    pub url: String,
    /// How it is kept, for the report.
    pub durability: String,
    brokers: Vec<u32>,
}

impl Cluster {
    /// Makes the topics. `brokers` are the processes whose CPU time counts, where they run here.
    pub fn make(url: &str, partitions: u32, brokers: &[u32]) -> anyhow::Result<Self> {
        let url = format!("{url}-bench-{}", SystemClock.now().unix_ms());
        let replication = block_on(Distributed::make_bench_topics(&url, partitions))?;
        let durability = format!(
            "acks=all, idempotent producer, {partitions} partitions, replication {replication}"
        );
        Ok(Self { url, durability, brokers: brokers.to_vec() })
    }

    /// Makes a keyspace of its own behind the one that is named; its URL.
    pub fn keyspace(url: &str) -> anyhow::Result<String> {
        let url = format!("{url}_bench_{}", SystemClock.now().unix_ms());
        block_on(Distributed::make_bench_keyspace(&url))?;
        Ok(url)
    }

    /// CPU time the brokers have used so far; none where none was named.
    pub fn cpu_micros(&self) -> anyhow::Result<Option<u64>> {
        let of = |pid: &u32| {
            cpu_micros_of(&pid.to_string()).with_context(|| format!("--broker-pid {pid}"))
        };
        let all: Vec<u64> = self.brokers.iter().map(of).collect::<anyhow::Result<_>>()?;
        Ok((!all.is_empty()).then(|| all.iter().sum()))
    }
}
