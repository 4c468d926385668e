//! Owns the arguments of `payfold quarantine`: reading what was signed and refused, and deciding what becomes of it.

use clap::{Args, Subcommand, ValueEnum};

use super::{OutputArgs, PageArgs, RawArgs};

#[derive(Debug, Subcommand)]
pub enum QuarantineCommand {
    /// Quarantined notices, oldest first, with what was decided on them
    List(QuarantineListArgs),
    /// One quarantined notice, how it reads today, and who said what of it
    Show {
        /// Its position, such as 0-12
        position: String,
        #[command(flatten)]
        raw: RawArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Admit notices after all: each becomes a fact; what moves money takes a second person with another token
    Release(ReleaseArgs),
    /// Leave notices for good as evidence; what moves money takes a second person with another token
    Dismiss(DismissArgs),
    /// Take back decisions of yours that wait for a second person; they stay in the history
    Withdraw(WithdrawNoticesArgs),
}

/// Which notices.
#[derive(Debug, Args)]
pub struct NoticesArgs {
    /// Only of this partner
    #[arg(long)]
    pub partner: Option<String>,
    /// Only refused with this code, such as timestamp_out_of_window
    #[arg(long)]
    pub code: Option<String>,
    /// Only received since then: a time such as 2026-01-31T10:00:00Z, or an age such as 2h
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only received before then: a time or an age
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
}

#[derive(Debug, Args)]
pub struct QuarantineListArgs {
    /// Only those nobody has decided
    #[arg(long)]
    pub open: bool,
    #[command(flatten)]
    pub notices: NoticesArgs,
    #[command(flatten)]
    pub page: PageArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub struct ReleaseArgs {
    /// Their positions, such as 0-12; none is all that the filters name
    pub positions: Vec<String>,
    /// Which rule no longer speaks against them
    #[arg(long, value_enum)]
    pub because: ReleaseBecause,
    /// Why; kept with the decision for ever
    #[arg(long, required_unless_present = "dry_run")]
    pub reason: Option<String>,
    /// Only tell what would be done
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub notices: NoticesArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub struct DismissArgs {
    /// Their positions, such as 0-12
    #[arg(required = true)]
    pub positions: Vec<String>,
    /// Why; kept with the decision for ever
    #[arg(long)]
    pub reason: String,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub struct WithdrawNoticesArgs {
    /// Their positions, such as 0-12
    #[arg(required = true)]
    pub positions: Vec<String>,
    /// Why; kept for ever
    #[arg(long)]
    pub reason: String,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Which rule no longer speaks against a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReleaseBecause {
    /// A clock was wrong, ours or the partner's: its time is not judged again
    ClockFixed,
    /// The partner sent old bytes again after an outage: its time is not judged again
    LateRetry,
    /// The partner's profile has been mended and takes it now, every rule included
    ProfileFixed,
}

impl From<ReleaseBecause> for payfold_schemas::release::Because {
    fn from(because: ReleaseBecause) -> Self {
        match because {
            ReleaseBecause::ClockFixed => Self::ClockFixed,
            ReleaseBecause::LateRetry => Self::LateRetry,
            ReleaseBecause::ProfileFixed => Self::ProfileFixed,
        }
    }
}
