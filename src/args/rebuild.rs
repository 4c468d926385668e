//! Owns the arguments of `payfold rebuild`: projection builds beside the published one.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::common::{OutputArgs, PageArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum RebuildCommand {
    /// Show what a rebuild would read and write, and how long it would take
    #[command(after_help = "Example: payfold rebuild plan")]
    Plan(PlanArgs),
    /// Fold the log into a new build beside live traffic; nothing is published from it
    #[command(after_help = "Example: payfold rebuild start --reason \"new rules\" --throttle 5000")]
    Start(StartArgs),
    /// Show the state and progress of each build
    #[command(after_help = "Example: payfold rebuild status --watch")]
    Status(StatusArgs),
    /// Pause the build in progress
    #[command(after_help = "Example: payfold rebuild pause --reason \"peak hours\"")]
    Pause {
        #[command(flatten)]
        why: ReasonArgs,
    },
    /// Resume the build in progress
    #[command(
        after_help = "Example: payfold rebuild resume --reason \"peak is over\" --throttle 5000"
    )]
    Resume {
        /// New maximum of facts a second [default: as before]
        #[arg(long, value_name = "FACTS_PER_S")]
        throttle: Option<u32>,
        #[command(flatten)]
        why: ReasonArgs,
    },
    /// Compare two builds order by order; exit 3 if they differ
    #[command(after_help = "Example: payfold rebuild diff --build 2")]
    Diff(DiffArgs),
    /// Publish from another build, and read from it; each order that differs gets one event
    #[command(after_help = "Example: payfold rebuild switch --reason \"new rules\"")]
    Switch(MoveArgs),
    /// Revert the last switch: publish from the earlier build again
    #[command(after_help = "Example: payfold rebuild rollback --reason \"wrong totals\"")]
    Rollback(MoveArgs),
    /// Delete the tables of a build
    #[command(after_help = "Example: payfold rebuild drop 2 --reason \"not needed\" --yes")]
    Drop {
        /// Number of the build
        build: u32,
        /// Delete the tables. This can't be undone
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        why: ReasonArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ReasonArgs {
    /// Reason; kept with the decision
    #[arg(long)]
    pub reason: String,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// Assumed facts a second, to estimate the time
    #[arg(long, default_value_t = 50_000)]
    pub rate: u32,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// Maximum of facts a second in each process until the switch, to leave capacity for live
    /// traffic
    #[arg(long, value_name = "FACTS_PER_S")]
    pub throttle: Option<u32>,
    /// In the demo only: break one rule of the fold on purpose (a fully refunded order stays PAID),
    /// to see what `rebuild diff` shows
    #[arg(long)]
    pub drill: bool,
    #[command(flatten)]
    pub why: ReasonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Keep showing progress while a build is in state building
    #[arg(long)]
    pub watch: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct MoveArgs {
    /// Number of the build [default: the build in progress; for a rollback the earlier one]
    #[arg(long)]
    pub build: Option<u32>,
    /// Switch even if the build lacks orders that are published now
    #[arg(long)]
    pub force: bool,
    /// How long to wait until every partition has passed its marker
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1m",
        value_parser = humantime::parse_duration
    )]
    pub wait: Duration,
    #[command(flatten)]
    pub why: ReasonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// Number of the build to compare with the published one [default: the build in progress]
    #[arg(long)]
    pub build: Option<u32>,
    /// Compare this order with a fold of its facts by the rules of this program
    #[arg(long, value_name = "PARTNER/MERCHANT/ORDER", conflicts_with_all = ["merchant", "build"])]
    pub order: Option<String>,
    /// Compare all orders of this account in the same way
    #[arg(long, value_name = "PARTNER/MERCHANT", conflicts_with = "build")]
    pub merchant: Option<String>,
    #[command(flatten)]
    pub page: PageArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}
