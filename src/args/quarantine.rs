//! Owns the arguments of `payfold quarantine`: listing quarantined notices and deciding them.

use clap::{Args, Subcommand, ValueEnum};

use super::common::{OutputArgs, PageArgs, RawArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum QuarantineCommand {
    /// List quarantined notices, oldest first, with the decision on each
    #[command(after_help = "Example: payfold quarantine list --open --partner acme")]
    List(QuarantineListArgs),
    /// Show one quarantined notice and every decision on it
    #[command(after_help = "Example: payfold quarantine show 0-12")]
    Show {
        /// Position of the notice, such as 0-12
        position: String,
        #[command(flatten)]
        raw: RawArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Admit notices after all; each becomes a fact. A notice that moves money needs a second
    /// person with another token
    #[command(
        after_help = "Example: payfold quarantine release 0-12 --because clock-fixed --reason NTP"
    )]
    Release(ReleaseArgs),
    /// Keep notices as evidence only, for good. A notice that moves money needs a second person
    /// with another token
    #[command(after_help = "Example: payfold quarantine dismiss 0-12 --reason \"test traffic\"")]
    Dismiss(DismissArgs),
    /// Withdraw your decisions that wait for a second person; they stay in the history
    #[command(after_help = "Example: payfold quarantine withdraw 0-12 --reason \"wrong notice\"")]
    Withdraw(WithdrawNoticesArgs),
}

/// Filters of quarantined notices.
#[derive(Debug, Args)]
pub(crate) struct NoticesArgs {
    /// Only notices of this partner
    #[arg(long)]
    pub partner: Option<String>,
    /// Only notices refused with this code, such as timestamp_out_of_window
    #[arg(long)]
    pub code: Option<String>,
    /// Only notices received at or after this time, such as 2026-01-31T10:00:00Z, or age, such as
    /// 2h
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only notices received before this time or age
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct QuarantineListArgs {
    /// Only undecided notices
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
pub(crate) struct ReleaseArgs {
    /// Positions of notices, such as 0-12; without any, all notices that the filters match
    pub positions: Vec<String>,
    /// Why the notices can be admitted now
    #[arg(long, value_enum)]
    pub because: ReleaseBecause,
    /// Reason of the decision; kept with it
    #[arg(long, required_unless_present = "dry_run")]
    pub reason: Option<String>,
    /// Print what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub notices: NoticesArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DismissArgs {
    /// Positions of notices, such as 0-12
    #[arg(required = true)]
    pub positions: Vec<String>,
    /// Reason of the decision; kept with it
    #[arg(long)]
    pub reason: String,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WithdrawNoticesArgs {
    /// Positions of notices, such as 0-12
    #[arg(required = true)]
    pub positions: Vec<String>,
    /// Reason of the withdrawal; kept in the history
    #[arg(long)]
    pub reason: String,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Why a notice can be admitted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReleaseBecause {
    /// Our clock or the partner's was wrong; the notice's time is not checked again
    ClockFixed,
    /// The partner sent old notices again after an outage; the notice's time is not checked again
    LateRetry,
    /// The partner's profile was corrected; every rule is checked again with it
    ProfileFixed,
}

impl From<ReleaseBecause> for payfold_schemas::released::Because {
    fn from(because: ReleaseBecause) -> Self {
        match because {
            ReleaseBecause::ClockFixed => Self::ClockFixed,
            ReleaseBecause::LateRetry => Self::LateRetry,
            ReleaseBecause::ProfileFixed => Self::ProfileFixed,
        }
    }
}
