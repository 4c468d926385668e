//! Owns the arguments of `payfold demo`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum DemoCommand {
    /// Open an order, sign one IPN and post it: PENDING → PAID in one command
    #[command(after_help = "Example: payfold demo ipn --amount 250000 --status SUCCESS")]
    Ipn(DemoIpnArgs),
    /// Create payments, pay them at the sandbox partner with troubles, and compare the results with
    /// what is expected; exit 3 if any differs
    #[command(
        after_help = "Example: payfold demo pay --count 50 --trouble late+wrong-key,duplicates"
    )]
    Pay(DemoPayArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DemoPayArgs {
    /// Number of payments
    #[arg(long, default_value_t = 1)]
    pub count: usize,
    /// none, all, or troubles of the sandbox by name: a comma separates payments, + combines
    /// troubles of one payment
    #[arg(long, default_value = "none")]
    pub trouble: String,
    /// Seed of the random choices; the same seed makes the same payments [default: from the clock]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Payments in progress at the same time
    #[arg(long, default_value_t = 32)]
    pub at_once: usize,
}

#[derive(Debug, Args)]
pub(crate) struct DemoIpnArgs {
    /// Amount in minor units
    #[arg(long, default_value_t = 100_000)]
    pub amount: i64,
    /// ISO 4217 currency
    #[arg(long, default_value = "VND")]
    pub currency: String,
    /// Status in the notice: SUCCESS, FAILED, EXPIRED or REFUNDED
    #[arg(long, default_value = "SUCCESS")]
    pub status: String,
    /// Public listener of the running system [default: the one in the data folder's run file]
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
}
