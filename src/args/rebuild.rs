//! Owns the arguments of `payfold rebuild`: a new fold of the log beside the one that is told.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{OutputArgs, PageArgs};

#[derive(Debug, Subcommand)]
pub enum RebuildCommand {
    /// What a rebuild would read, write and take
    Plan(PlanArgs),
    /// Fold the log into new tables, beside live traffic; nothing of it is told
    Start(StartArgs),
    /// How far each generation is
    Status(StatusArgs),
    /// Let the generation in the making stand still
    Pause {
        #[command(flatten)]
        why: WhyArgs,
    },
    /// Let it go on
    Resume {
        /// Facts a second at most from now on [default: as before]
        #[arg(long, value_name = "FACTS_PER_S")]
        throttle: Option<u32>,
        #[command(flatten)]
        why: WhyArgs,
    },
    /// In what two generations differ, order by order; exit 3 if they do
    Diff(DiffArgs),
    /// Tell and read another generation from now on; orders it sees in another way are told of once
    Switch(MoveArgs),
    /// Take the last switch back: what was told before is told again
    Rollback(MoveArgs),
    /// Throw the tables of a generation away
    Drop {
        /// Which
        generation: u32,
        /// They are really to go
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        why: WhyArgs,
    },
}

#[derive(Debug, Args)]
pub struct WhyArgs {
    /// Why; kept with what is decided
    #[arg(long)]
    pub reason: String,
}

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The rate the time is estimated with, facts a second
    #[arg(long, default_value_t = 50_000)]
    pub rate: u32,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub struct StartArgs {
    /// Facts a second at most, to leave the machine to live traffic
    #[arg(long, value_name = "FACTS_PER_S")]
    pub throttle: Option<u32>,
    /// In the demo only: break one rule of the fold on purpose (what went back in full stays PAID), to see what a rebuild
    /// shows
    #[arg(long)]
    pub drill: bool,
    #[command(flatten)]
    pub why: WhyArgs,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Go on until the generation in the making is ready
    #[arg(long)]
    pub watch: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub struct MoveArgs {
    /// Which generation [default: the one in the making; of a rollback the one before]
    #[arg(long)]
    pub generation: Option<u32>,
    /// Also if orders that are told now are missing in it
    #[arg(long)]
    pub force: bool,
    /// How long to wait until every partition has passed it
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = humantime::parse_duration)]
    pub wait: Duration,
    #[command(flatten)]
    pub why: WhyArgs,
}

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Which generation is compared with the one that is told [default: the one in the making]
    #[arg(long)]
    pub generation: Option<u32>,
    /// Fold this order from the log by the rules of this program, and compare that
    #[arg(long, value_name = "PARTNER/MERCHANT/ORDER", conflicts_with_all = ["merchant", "generation"])]
    pub order: Option<String>,
    /// The same of all orders of an account
    #[arg(long, value_name = "PARTNER/MERCHANT", conflicts_with = "generation")]
    pub merchant: Option<String>,
    #[command(flatten)]
    pub page: PageArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}
