//! Owns the arguments of `payfold retention`: sealing the bytes of notices, and destroying the keys
//! that open them.

use clap::{Args, Subcommand};

use super::common::OutputArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum RetentionCommand {
    /// Seal the bytes of notices from now on, with a key for each account and month; a running
    /// system adds the keys of later months
    #[command(after_help = "Example: payfold retention start --account acme/SHOP-1")]
    Start(RetentionAccounts),
    /// Store the bytes of new notices unsealed again; sealed bytes stay sealed
    #[command(after_help = "Example: payfold retention stop --account acme/SHOP-1")]
    Stop(RetentionAccounts),
    /// List the keys of accounts by month; of erased keys, who erased them and why
    #[command(after_help = "Example: payfold retention list")]
    List {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Destroy the key of a month, and with it all bytes that it seals; without --yes only show
    /// what they are
    #[command(
        after_help = "Example: payfold retention erase --account acme/S1 --month 2026-01 --dry-run"
    )]
    Erase(RetentionEraseArgs),
}

/// The accounts to change.
#[derive(Debug, Args)]
#[group(required = true)]
pub(crate) struct RetentionAccounts {
    /// An account; repeat for several
    #[arg(long, value_name = "PARTNER/MERCHANT")]
    pub account: Vec<String>,
    /// Every account of the vault
    #[arg(long, conflicts_with = "account")]
    pub all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RetentionEraseArgs {
    /// Destroy the key of this account
    #[arg(long, value_name = "PARTNER/MERCHANT")]
    pub account: String,
    /// The month in UTC, such as 2026-11; it must be over
    #[arg(long, value_name = "MONTH")]
    pub month: String,
    /// Reason of the erasure; kept in the vault with the names of both people
    #[arg(long, required_unless_present_any = ["dry_run", "withdraw"])]
    pub reason: Option<String>,
    /// Only show what would be erased, as without --yes
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Propose to destroy the key, or destroy it if another person has proposed that. This can't be
    /// undone
    #[arg(long)]
    pub yes: bool,
    /// Withdraw the proposal
    #[arg(long, conflicts_with_all = ["yes", "dry_run"])]
    pub withdraw: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}
