//! Owns the arguments of `payfold log`: extents of the topics, verification, backup and restore.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use payfold_schemas::record_mac::Writer;

use super::common::OutputArgs;

/// The commands of `payfold log`.
#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Show first and last position, size and lag of every topic
    #[command(after_help = "Example: payfold log stats")]
    Stats {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Read every record, check its checksum, fold all of them again and compare with the orders;
    /// exit 3 if anything differs
    #[command(after_help = "Example: payfold log verify")]
    Verify(VerifyArgs),
    /// Leave a damaged record of intake out of every fold, for good. It takes two people: one
    /// proposes it, another runs the same command. Without --yes only show the record
    #[command(after_help = "Example: payfold log park 0-1234 --reason \"bad disk block\" \
                      --admin-token-file ann.token --yes")]
    Park(ParkArgs),
    /// Make the present end of the log its baseline: each later message needs a MAC by a record key
    /// of the vault, and earlier ones need none. Without --yes only show it
    #[command(after_help = "Example: payfold log baseline --yes")]
    Baseline(BaselineArgs),
    /// Keys with which roles prove what they write to the log
    #[command(subcommand)]
    Key(RecordKeyCommand),
    /// Copy log, orders, claims and the encrypted vault of a running system, and verify the copy
    #[command(after_help = "Example: payfold log backup backup/2026-11-25")]
    Backup {
        /// Folder for the copy; it must be new or empty
        #[arg(value_name = "FOLDER")]
        to: PathBuf,
        /// Skip folding the copy again, which takes as long as `log verify`
        #[arg(long)]
        no_verify: bool,
    },
    /// Start without claims that no copy holds: a request repeated with an earlier Idempotency-Key
    /// may then create a second payment. Without --yes only show what is missing
    #[command(after_help = "Example: payfold log accept-lost-claims --yes")]
    AcceptLostClaims(AcceptLostClaimsArgs),
    /// Restore a backup into a data folder that holds no log
    #[command(after_help = "Example: payfold log restore backup/2026-11-25 --data payfold-data")]
    Restore {
        /// Folder that `payfold log backup` wrote
        #[arg(value_name = "FOLDER")]
        from: PathBuf,
        /// Undamaged claims newer than the backup's (orders.claims.db of the old folder), to
        /// restore in their place
        #[arg(long, value_name = "FILE")]
        claims: Option<PathBuf>,
        /// Highest publication epoch that subscribers or shops have seen, if the backup and the
        /// claims don't know it: events get a later one
        #[arg(long, value_name = "EPOCH", default_value_t = 0)]
        above: u32,
    },
}

/// Whether the baseline is written.
#[derive(Debug, Args)]
pub(crate) struct BaselineArgs {
    /// Write it
    #[arg(long)]
    pub yes: bool,
    /// A message that stays refused, such as `findings 0-12`; may be repeated. Parked records do
    /// anyway
    #[arg(long, value_name = "TOPIC POSITION")]
    pub refuse: Vec<String>,
}

/// The commands of `payfold log key`.
#[derive(Debug, Subcommand)]
pub(crate) enum RecordKeyCommand {
    /// Add a key to a role, which writes with it soon, and print its id
    #[command(after_help = "Example: payfold log key add ingest")]
    Add(RecordKeyAddArgs),
    /// List roles and the ids of their keys; never the secrets
    #[command(after_help = "Example: payfold log key list")]
    List {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// End a key with the present end of the log: no later message by it counts. Without --yes only
    /// show where that is
    #[command(after_help = "Example: payfold log key retire 3f2a90bc --yes")]
    Retire(RecordKeyRetireArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RecordKeyAddArgs {
    /// The role that gets it
    #[arg(value_parser = role_parser())]
    pub role: Writer,
    /// How soon the role writes with it: as long as every process needs to get this vault
    #[arg(long, value_name = "AGE", default_value = "1m",
        value_parser = humantime::parse_duration)]
    pub after: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct RecordKeyRetireArgs {
    /// The key's id, such as 3f2a90bc
    pub key: String,
    /// A message by it that does not count, either, such as `intake 0-12`: somebody else wrote it.
    /// May be repeated, also for a key that is retired
    #[arg(long, value_name = "TOPIC POSITION")]
    pub refuse: Vec<String>,
    /// Retire it. This can't be undone
    #[arg(long)]
    pub yes: bool,
}

fn role_parser() -> impl TypedValueParser<Value = Writer> {
    PossibleValuesParser::new(Writer::ALL.map(Writer::name))
        .map(|name| Writer::from_name(&name).expect("one of the possible values"))
}

/// The record to park, and why.
#[derive(Debug, Args)]
pub(crate) struct ParkArgs {
    /// Position of the record, such as 0-1234, as the projector's ERROR line and `payfold log
    /// verify` name it
    pub position: String,
    /// Why the record is parked; kept in the log with the names of both people
    #[arg(long)]
    pub reason: String,
    /// Propose to park the record, or park it if another person has proposed that. This can't be
    /// undone
    #[arg(long)]
    pub yes: bool,
}

/// Whether the loss is accepted.
#[derive(Debug, Args)]
pub(crate) struct AcceptLostClaimsArgs {
    /// Accept the loss. First look for orders.claims.db and its -wal, and put the newest copy in
    /// place
    #[arg(long)]
    pub yes: bool,
}

/// What `payfold log verify` checks.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Print the state digest instead: one digest of the content of all orders, equal on every
    /// engine and after every rebuild
    #[arg(long, conflicts_with_all = ["chain", "signatures"])]
    pub state: bool,
    /// Check instead that the log holds exactly the records that were folded, byte for byte and in
    /// order
    #[arg(long, conflicts_with = "signatures")]
    pub chain: bool,
    /// Compare only events of this publication epoch and later ones, if another program's rules
    /// folded the earlier ones
    #[arg(long, value_name = "EPOCH", conflicts_with_all = ["state", "chain", "signatures"])]
    pub from_epoch: Option<u32>,
    #[command(flatten)]
    pub heads: ChainArgs,
    /// Check instead that the partner signed every stored notice, quarantined ones too, with the
    /// recorded key under the recorded profile
    #[arg(long)]
    pub signatures: bool,
    /// An earlier profile to verify by, besides the configured ones and their frozen copies; repeat
    /// for several
    #[arg(long, value_name = "FILE", requires = "signatures")]
    pub profile: Vec<PathBuf>,
    /// Notices that are known to be unverifiable and don't count as failures: a kind (no-key,
    /// no-profile, unusable), or the text of the last column; repeat for several
    #[arg(long, value_name = "WHAT", requires = "signatures")]
    pub accept_unjudged: Vec<String>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Files with heads of the log's hash chain, kept outside the system.
#[derive(Debug, Args)]
pub(crate) struct ChainArgs {
    /// Write the chain heads to this file; keep it where no person can change both it and the log
    #[arg(long, value_name = "FILE", requires = "chain")]
    pub anchor: Option<PathBuf>,
    /// Also check against the chain heads in this file, which --anchor wrote
    #[arg(long, value_name = "FILE", requires = "chain")]
    pub against: Option<PathBuf>,
}
