//! Owns the arguments of `payfold bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Durable IPNs against an empty handler on the same HTTP stack
    Ingest(BenchIngestArgs),
    /// Whole payments: created, paid at the sandbox partner, folded, published
    E2e(BenchE2eArgs),
    /// Facts folded into orders, events published, rows committed
    Projector(BenchProjectorArgs),
    /// A log folded anew into a generation nobody is told of
    Rebuild(BenchRebuildArgs),
    /// A day of orders compared with the partner's file of it
    Reconcile(BenchReconcileArgs),
    /// An empty handler, for `bench ingest` to measure against
    #[command(hide = true)]
    Server(BenchServerArgs),
}

#[derive(Debug, Args)]
pub struct BenchServerArgs {
    /// The log of the ingest it is measured beside, for the same number of workers
    #[arg(long)]
    pub log: Option<String>,
}

#[derive(Debug, Args)]
pub struct BenchE2eArgs {
    /// Seconds of each part: as fast as it goes, and at half of that
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// Connections that create payments
    #[arg(long, default_value_t = 64)]
    pub connections: usize,
    /// Streams that are opened for their cost in memory
    #[arg(long, default_value_t = 2_000)]
    pub streams: usize,
    /// Figures as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct BenchIngestArgs {
    /// Rounds of each kind; medians are reported
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Seconds a round
    #[arg(long, default_value_t = 4)]
    pub seconds: u64,
    /// Keep-alive connections; several are measured in turn
    #[arg(long, value_delimiter = ',', default_value = "64,256")]
    pub connections: Vec<usize>,
    /// Requests a second over all connections, for the cost at a low rate [default: as fast as answers come]
    #[arg(long, value_name = "PER_S", value_parser = rate)]
    pub rate: Option<f64>,
    /// Also measure refused notices (bad signature, stale)
    #[arg(long)]
    pub refusals: bool,
    /// Append to this Kafka log (topics of its own behind the prefix) instead of SQLite
    #[arg(long, value_name = "kafka://…")]
    pub log: Option<String>,
    /// Partitions of its topics
    #[arg(long, default_value_t = 8, requires = "log")]
    pub partitions: u32,
    /// Process ids of brokers on this machine, whose CPU time is shown too
    #[arg(long, value_name = "PID", value_delimiter = ',', requires = "log")]
    pub broker_pid: Vec<u32>,
    /// Figures as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct BenchProjectorArgs {
    /// Facts, a fifth of them duplicates
    #[arg(long, default_value_t = 1_000_000)]
    pub facts: u64,
    /// Orders they are about
    #[arg(long, default_value_t = 200_000)]
    pub orders: u64,
    /// Orders open at once: an order's facts are spread over a window of so many
    #[arg(long, default_value_t = 10_000)]
    pub window: u64,
    /// Read this Kafka log (topics of its own behind the prefix) instead of SQLite
    #[arg(long, value_name = "kafka://…", requires = "orders_at")]
    pub log: Option<String>,
    /// Write into this CQL database (a keyspace of its own behind the name) instead of SQLite
    #[arg(long = "store", value_name = "cql://…", requires = "log")]
    pub orders_at: Option<String>,
    /// Figures as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct BenchRebuildArgs {
    /// Facts, a fifth of them duplicates
    #[arg(long, default_value_t = 5_000_000)]
    pub facts: u64,
    /// Orders they are about
    #[arg(long, default_value_t = 1_000_000)]
    pub orders: u64,
    /// Orders open at once: an order's facts are spread over a window of so many
    #[arg(long, default_value_t = 10_000)]
    pub window: u64,
    /// Read this Kafka log (topics of its own behind the prefix) and fold into memory instead of SQLite into SQLite
    #[arg(long, value_name = "kafka://…")]
    pub log: Option<String>,
    /// Instead measure ingest (SQLite), in turns alone and with a rebuild beside it
    #[arg(long, conflicts_with = "log")]
    pub beside_ingest: bool,
    /// Facts a second of the rebuild beside ingest [default: as fast as it can]
    #[arg(long, value_name = "N", requires = "beside_ingest")]
    pub throttle: Option<u32>,
    /// Rounds of each kind beside ingest; medians are reported
    #[arg(long, default_value_t = 5, requires = "beside_ingest")]
    pub rounds: usize,
    /// Seconds a round
    #[arg(long, default_value_t = 4, requires = "beside_ingest")]
    pub seconds: u64,
    /// Figures as JSON
    #[arg(long)]
    pub json: bool,
}

/// A rate somebody typed.
fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    if (1.0..=1_000_000.0).contains(&rate) {
        Ok(rate)
    } else {
        Err("1 to 1000000 is possible".to_owned())
    }
}

#[derive(Debug, Args)]
pub struct BenchReconcileArgs {
    /// Orders, and lines of the partner's file; a difference of each of eight kinds in every thousand
    #[arg(long, default_value_t = 1_000_000)]
    pub orders: u64,
    /// Rounds; the median is reported
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// A program that compares the same in turns: it is given our file and theirs, and prints seconds, memoryPeakKib
    /// and findings as JSON, such as `python3 benches/duckdb_join.py`
    #[arg(long, value_name = "COMMAND")]
    pub beside: Option<String>,
    /// Figures as JSON
    #[arg(long)]
    pub json: bool,
    /// Only compare what this folder has
    #[arg(long, hide = true, value_name = "DIR")]
    pub compare_only: Option<PathBuf>,
}
