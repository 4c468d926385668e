//! Owns the arguments of `payfold retention`: how long the bytes of notices can be read.

use clap::{Args, Subcommand};

use super::OutputArgs;

#[derive(Debug, Subcommand)]
pub enum RetentionCommand {
    /// Seal the bytes of notices from now on, with a key for each account and month; a running system makes the later ones
    Start(RetentionAccounts),
    /// Store the bytes of notices in the clear again from now on; what is sealed stays so
    Stop(RetentionAccounts),
    /// Accounts, their months and keys; what was erased, by whom and why
    List {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Destroy a month's key, and with it every byte it sealed; without --yes only tells what that would be
    Erase(RetentionEraseArgs),
}

/// Which accounts.
#[derive(Debug, Args)]
#[group(required = true)]
pub struct RetentionAccounts {
    /// An account, once for each
    #[arg(long, value_name = "PARTNER/MERCHANT")]
    pub account: Vec<String>,
    /// Every account there is
    #[arg(long, conflicts_with = "account")]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct RetentionEraseArgs {
    /// The account
    #[arg(long, value_name = "PARTNER/MERCHANT")]
    pub account: String,
    /// The month, in UTC, such as 2026-11; it must be over
    #[arg(long, value_name = "MONTH")]
    pub month: String,
    /// Why; kept in the vault with your name, which is that of your token
    #[arg(long, required_unless_present = "dry_run")]
    pub reason: Option<String>,
    /// Only tell what would be erased, as without --yes
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Do it. Nobody can take it back
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}
