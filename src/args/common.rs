//! Owns the arguments that many commands take.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Flags that every command accepts.
#[derive(Debug, Default, Args)]
pub(crate) struct Global {
    /// Configuration file [default: payfold.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE", env = "PAYFOLD_CONFIG")]
    pub config: Option<PathBuf>,
    /// Data folder [default: payfold-data]
    #[arg(long, global = true, value_name = "DIR", env = "PAYFOLD_DATA")]
    pub data: Option<PathBuf>,
    /// Admin listener of a running system. If it is given, orders, findings, decisions, compared
    /// days, quarantine, traces, topics, accounts and keys are read through it, too [default: the
    /// one in the data folder's run file]
    #[arg(long, global = true, value_name = "URL", env = "PAYFOLD_ADMIN_URL")]
    pub admin_url: Option<String>,
    /// File with your admin token; the token's name is recorded as the author of a change [default:
    /// the data folder's admin.token]
    #[arg(long, global = true, value_name = "FILE", env = "PAYFOLD_ADMIN_TOKEN_FILE")]
    pub admin_token_file: Option<PathBuf>,
    /// PEM file of the only authorities that may have signed the certificate of an https
    /// --admin-url [default: the system's]
    #[arg(long, global = true, value_name = "FILE", env = "PAYFOLD_ADMIN_CA_FILE")]
    pub admin_ca_file: Option<PathBuf>,
}

/// Whether the received bytes are printed.
#[derive(Debug, Args)]
pub(crate) struct RawArgs {
    /// Print the bytes as they were received. The running system first publishes on `findings` who
    /// reads them and why
    #[arg(long, requires = "reason")]
    pub raw: bool,
    /// Why you read the bytes; published with your name and kept
    #[arg(long, requires = "raw")]
    pub reason: Option<String>,
}

/// How a listing is printed.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub output: OutputFormat,
}

/// The page of a listing to print.
#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    /// Maximum number of rows
    #[arg(long, default_value_t = 100)]
    pub limit: usize,
    /// Continue after this cursor, as the previous page printed it
    #[arg(long, value_name = "CURSOR")]
    pub after: Option<String>,
}

/// Output formats of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Columns for people
    Table,
    /// One JSON array or object
    Json,
    /// One JSON object a line
    Jsonl,
    /// Comma-separated values with a header line
    Csv,
}
