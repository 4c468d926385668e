//! Owns the arguments of `payfold demo`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum DemoCommand {
    /// Append a create fact, sign one IPN and post it: PENDING → PAID in one command
    Ipn(DemoIpnArgs),
    /// Create, pay and watch payments at the sandbox partner, with trouble; compares with what must come of each
    Pay(DemoPayArgs),
}

#[derive(Debug, Args)]
pub struct DemoPayArgs {
    /// How many payments
    #[arg(long, default_value_t = 1)]
    pub count: usize,
    /// none, all, or words of the sandbox: , between payments, + within one
    #[arg(long, default_value = "none")]
    pub trouble: String,
    /// What chance starts from: the same seed makes the same trouble [default: by the clock]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Payments on their way at the same time
    #[arg(long, default_value_t = 32)]
    pub at_once: usize,
}

#[derive(Debug, Args)]
pub struct DemoIpnArgs {
    /// Amount in minor units
    #[arg(long, default_value_t = 100_000)]
    pub amount: i64,
    /// ISO 4217 currency
    #[arg(long, default_value = "VND")]
    pub currency: String,
    /// What the notice says: SUCCESS, FAILED, EXPIRED or REFUNDED
    #[arg(long, default_value = "SUCCESS")]
    pub status: String,
    /// Public listener of the running system [default: the one the data folder names]
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
}
