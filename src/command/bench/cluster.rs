//! Owns what a bench needs of real servers: topics under a prefix that no other run has, and the
//! brokers' CPU time. The topics are not removed: a bench runs against test servers.

use anyhow::Context;
use payfold_bench::usage::cpu_micros_of;
use payfold_engines::clock::{Clock, SystemClock};

use crate::command::block_on::block_on;
use crate::wiring::DistributedEngines;

/// A log in Kafka for one bench.
pub(crate) struct BenchCluster {
    /// The log's URL, with a prefix of this run.
    pub url: String,
    /// How the log is stored, for the report.
    pub durability: String,
    brokers: Vec<u32>,
}

impl BenchCluster {
    /// Makes the topics. `brokers` are the pids of brokers on this machine; their CPU time counts.
    pub(crate) fn make(url: &str, partitions: u32, brokers: &[u32]) -> anyhow::Result<Self> {
        let url = format!("{url}-bench-{}", SystemClock.now().unix_ms());
        let replication = block_on(DistributedEngines::make_bench_topics(&url, partitions))?;
        let durability = format!(
            "acks=all, idempotent producer, {partitions} partitions, replication {replication}"
        );
        Ok(Self { url, durability, brokers: brokers.to_vec() })
    }

    /// Makes a keyspace with the named one as prefix. Returns its URL.
    pub(crate) fn keyspace(url: &str) -> anyhow::Result<String> {
        let url = format!("{url}_bench_{}", SystemClock.now().unix_ms());
        block_on(DistributedEngines::make_bench_keyspace(&url))?;
        Ok(url)
    }

    /// CPU time the brokers have used so far; `None` if no broker was named.
    pub(crate) fn cpu_micros(&self) -> anyhow::Result<Option<u64>> {
        let of = |pid: &u32| {
            cpu_micros_of(&pid.to_string()).with_context(|| format!("--broker-pid {pid}"))
        };
        let all: Vec<u64> = self.brokers.iter().map(of).collect::<anyhow::Result<_>>()?;
        Ok((!all.is_empty()).then(|| all.iter().sum()))
    }
}
