//! Owns the arguments of `payfold bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Compare durable notices with an empty handler on the same HTTP stack
    #[command(after_help = "Example: payfold bench ingest --connections 64 --rounds 3")]
    Ingest(BenchIngestArgs),
    /// Measure whole payments: created, paid at the sandbox partner, folded, published
    #[command(after_help = "Example: payfold bench e2e --seconds 10")]
    E2e(BenchE2eArgs),
    /// Measure the projector: facts folded, events published, rows committed
    #[command(after_help = "Example: payfold bench projector --facts 1000000")]
    Projector(BenchProjectorArgs),
    /// Measure a rebuild: a log folded into a build that publishes nothing
    #[command(after_help = "Example: payfold bench rebuild --facts 1000000")]
    Rebuild(BenchRebuildArgs),
    /// Measure the comparison of a day's orders with the partner's file
    #[command(after_help = "Example: payfold bench reconcile --orders 1000000")]
    Reconcile(BenchReconcileArgs),
    /// Run the empty handler that `bench ingest` compares with
    #[command(hide = true)]
    Server(BenchServerArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BenchServerArgs {
    /// Log URL of the measured ingest; the empty handler gets the same number of workers
    #[arg(long)]
    pub log: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchE2eArgs {
    /// Seconds of each of the two parts: at full rate, and at half of it
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// Connections that create payments
    #[arg(long, default_value_t = 64)]
    pub connections: usize,
    /// Event streams to open, to measure their memory
    #[arg(long, default_value_t = 2_000)]
    pub streams: usize,
    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchIngestArgs {
    /// Rounds of each server; medians are reported
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Seconds of each round
    #[arg(long, default_value_t = 4)]
    pub seconds: u64,
    /// Keep-alive connections; several numbers are measured in turn
    #[arg(long, value_delimiter = ',', default_value = "64,256")]
    pub connections: Vec<usize>,
    /// Requests a second over all connections, to measure the cost at a low rate [default: as fast
    /// as answers come]
    #[arg(long, value_name = "PER_S", value_parser = rate)]
    pub rate: Option<f64>,
    /// Also measure refused notices (bad signature, stale)
    #[arg(long)]
    pub refusals: bool,
    /// Append to this Kafka log instead of SQLite; the bench creates topics of its own with this
    /// prefix
    #[arg(long, value_name = "kafka://…")]
    pub log: Option<String>,
    /// Partitions of its topics
    #[arg(long, default_value_t = 8, requires = "log")]
    pub partitions: u32,
    /// Process ids of brokers on this machine, to show their CPU time, too
    #[arg(long, value_name = "PID", value_delimiter = ',', requires = "log")]
    pub broker_pid: Vec<u32>,
    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchProjectorArgs {
    /// Number of facts; a fifth of them are duplicates
    #[arg(long, default_value_t = 1_000_000)]
    pub facts: u64,
    /// Orders that the facts belong to
    #[arg(long, default_value_t = 200_000)]
    pub orders: u64,
    /// Orders open at once: the facts of this many neighbouring orders are interleaved
    #[arg(long, default_value_t = 10_000)]
    pub window: u64,
    /// Read this Kafka log instead of SQLite; the bench creates topics of its own with this prefix
    #[arg(long, value_name = "kafka://…", requires = "orders_at")]
    pub log: Option<String>,
    /// Write into this CQL database instead of SQLite; the bench creates a keyspace of its own
    #[arg(long = "store", value_name = "cql://…", requires = "log")]
    pub orders_at: Option<String>,
    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchRebuildArgs {
    /// Number of facts; a fifth of them are duplicates
    #[arg(long, default_value_t = 5_000_000)]
    pub facts: u64,
    /// Orders that the facts belong to
    #[arg(long, default_value_t = 1_000_000)]
    pub orders: u64,
    /// Orders open at once: the facts of this many neighbouring orders are interleaved
    #[arg(long, default_value_t = 10_000)]
    pub window: u64,
    /// Read this Kafka log and fold into memory, instead of SQLite into SQLite; the bench creates
    /// topics of its own with this prefix
    #[arg(long, value_name = "kafka://…")]
    pub log: Option<String>,
    /// Measure ingest (SQLite) instead, alternately alone and with a rebuild beside it
    #[arg(long, conflicts_with = "log")]
    pub beside_ingest: bool,
    /// Facts a second that the rebuild beside ingest may fold [default: no limit]
    #[arg(long, value_name = "N", requires = "beside_ingest")]
    pub throttle: Option<u32>,
    /// Rounds of each kind with --beside-ingest; medians are reported
    #[arg(long, default_value_t = 5, requires = "beside_ingest")]
    pub rounds: usize,
    /// Seconds of each round
    #[arg(long, default_value_t = 4, requires = "beside_ingest")]
    pub seconds: u64,
    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
}

/// Parses `--rate`: requests a second, 1 to 1,000,000.
fn rate(text: &str) -> anyhow::Result<f64> {
    let rate: f64 = text.parse().map_err(|_| anyhow::anyhow!("it is not a number"))?;
    anyhow::ensure!((1.0..=1_000_000.0).contains(&rate), "it must be 1 to 1000000");
    Ok(rate)
}

#[derive(Debug, Args)]
pub(crate) struct BenchReconcileArgs {
    /// Number of orders and of lines in the partner's file; every thousand has one difference of
    /// each of eight kinds
    #[arg(long, default_value_t = 1_000_000)]
    pub orders: u64,
    /// Rounds; the median is reported
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Another program that compares the same files in turn; it gets our file and the partner's as
    /// arguments and prints seconds, memoryPeakKib and findings as JSON, such as `python3
    /// benches/duckdb_join.py`
    #[arg(long, value_name = "COMMAND")]
    pub beside: Option<String>,
    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
    /// Only compare the files of this folder
    #[arg(long, hide = true, value_name = "DIR")]
    pub compare_only: Option<PathBuf>,
}
