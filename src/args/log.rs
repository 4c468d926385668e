//! Owns the arguments of `payfold log`: how far the topics reach, whether the log is what it was, and copies of it.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::OutputArgs;

/// What can be done with the log.
#[derive(Debug, Subcommand)]
pub enum LogCommand {
    /// First and last position, bytes and lag of every topic
    Stats {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Read every record, check its checksum, and fold everything again to compare with the orders
    Verify(VerifyArgs),
    /// Leave a damaged record of intake out of every fold, for good; without --yes only tell which
    Park(ParkArgs),
    /// Copy log, orders, claims and the encrypted vault beside the running system, and verify the copy
    Backup {
        /// The folder of the copy; it must be new or empty
        #[arg(value_name = "FOLDER")]
        to: PathBuf,
        /// Leave out folding the copy again, which takes as long as `log verify`
        #[arg(long)]
        no_verify: bool,
    },
    /// Go on without claims that no copy holds: an Idempotency-Key of before may then make a second payment. Without --yes
    /// only say what is missing
    AcceptLostClaims(AcceptLostClaimsArgs),
    /// Put a backup into a data folder that holds no log yet
    Restore {
        /// The folder `payfold log backup` wrote
        #[arg(value_name = "FOLDER")]
        from: PathBuf,
        /// The newest claims that are whole (orders.claims.db of the old folder), to be taken in place of the backup's
        #[arg(long, value_name = "FILE")]
        claims: Option<PathBuf>,
        /// The highest generation subscribers or shops have seen, where neither the backup nor the claims know it: what is
        /// told from here on has a later one
        #[arg(long, value_name = "GENERATION", default_value_t = 0)]
        above: u32,
    },
}

/// Which record is left out, and on whose word.
#[derive(Debug, Args)]
pub struct ParkArgs {
    /// Its position, such as 0-1234, as the projector's ERROR line and `payfold log verify` name it
    pub position: String,
    /// Why; kept in the log with the name
    #[arg(long)]
    pub reason: String,
    /// Who says so
    #[arg(long, value_name = "NAME")]
    pub by: String,
    /// Do it. Nobody can take it back
    #[arg(long)]
    pub yes: bool,
}

/// Whether the loss is accepted.
#[derive(Debug, Args)]
pub struct AcceptLostClaimsArgs {
    /// Do it. Before, look for orders.claims.db and its -wal, and put the newest copy there is in place
    #[arg(long)]
    pub yes: bool,
}

/// What is verified.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Tell the state digest instead: one number for the content of all orders, the same on every engine and after
    /// every rebuild
    #[arg(long, conflicts_with_all = ["chain", "signatures"])]
    pub state: bool,
    /// Check instead that the records are those that were folded, byte for byte and in their places
    #[arg(long, conflicts_with = "signatures")]
    pub chain: bool,
    /// Judge the events of this generation and later ones only: another program's rules folded the earlier ones
    #[arg(long, value_name = "GENERATION", conflicts_with_all = ["state", "chain", "signatures"])]
    pub from_generation: Option<u32>,
    #[command(flatten)]
    pub heads: ChainArgs,
    /// Check instead that a partner signed every stored notice, quarantined ones too, with the key and under the profile
    /// that are recorded
    #[arg(long)]
    pub signatures: bool,
    /// A profile of earlier days to judge by, beside those that are configured and their frozen copies; may be given
    /// several times
    #[arg(long, value_name = "FILE", requires = "signatures")]
    pub profile: Vec<PathBuf>,
    /// What is known to be unjudgeable, so that it is no failure: a kind (no-key, no-profile, unusable), or exactly what is
    /// missing, as the last column names it; may be given several times
    #[arg(long, value_name = "WHAT", requires = "signatures")]
    pub accept_unjudged: Vec<String>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Heads of the log's chain that are remembered outside of the system.
#[derive(Debug, Args)]
pub struct ChainArgs {
    /// Write the heads to this file, to be kept where nobody can change both it and the log
    #[arg(long, value_name = "FILE", requires = "chain")]
    pub anchor: Option<PathBuf>,
    /// Check the heads that were written to this file, too
    #[arg(long, value_name = "FILE", requires = "chain")]
    pub against: Option<PathBuf>,
}
