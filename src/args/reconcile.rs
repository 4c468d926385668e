//! Owns the arguments of `payfold reconcile` and `payfold token`: comparing orders with partners'
//! records, and the tokens of people who decide.

use std::path::PathBuf;

use chrono::NaiveDate;
use clap::{Args, Subcommand, ValueEnum};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::token::TokenRole;

use super::common::{OutputArgs, PageArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum ReconcileCommand {
    /// Compare a partner's records of a day with the orders; exit 3 if findings are open
    #[command(after_help = "Example: payfold reconcile run acme --records acme-2026-11-24.csv")]
    Run(ReconcileRunArgs),
    /// List differences: our value, the partner's value, and the recommended action
    #[command(after_help = "Example: payfold reconcile findings --open --partner acme")]
    Findings(FindingsArgs),
    /// Show control totals, ours and the partner's, by day, currency and status
    #[command(after_help = "Example: payfold reconcile totals --partner acme --day 2026-11-24")]
    Totals(DayArgs),
    /// List the last run of each day
    #[command(after_help = "Example: payfold reconcile runs --partner acme")]
    Runs(DayArgs),
    /// Write the last run of a day as one HTML page
    #[command(after_help = "Example: payfold reconcile report acme --day 2026-11-24")]
    Report(ReportArgs),
    /// Decide findings, with one reason, or a flag of an order; a critical one needs a second
    /// person with another token
    #[command(
        after_help = "Example: payfold reconcile decide 3f9a21 --accept ours --reason \"checked\""
    )]
    Decide(DecideArgs),
    /// Withdraw your decisions that wait for a second person; they stay in the history
    #[command(after_help = "Example: payfold reconcile withdraw 3f9a21 --reason \"wrong finding\"")]
    Withdraw(WithdrawArgs),
    /// List decisions: who decided what, when and on which evidence
    #[command(after_help = "Example: payfold reconcile decisions --partner acme")]
    Decisions(DecisionsArgs),
    /// Close a past day without open findings; a digest seals its totals and findings
    #[command(after_help = "Example: payfold reconcile close acme --day 2026-11-24")]
    Close {
        /// Partner code
        partner: String,
        /// The day in the zone of the partner's records, such as 2026-01-31
        #[arg(long)]
        day: NaiveDate,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ReconcileRunArgs {
    /// Partner code
    pub partner: String,
    /// The day in the zone of the partner's records, such as 2026-01-31 [default: yesterday]
    #[arg(long)]
    pub day: Option<NaiveDate>,
    /// File with the partner's records of that day, in the format of its profile
    #[arg(long, value_name = "FILE", required_unless_present = "by", conflicts_with = "by")]
    pub records: Option<PathBuf>,
    /// Query the partner for each payment of the day instead, if it provides no files
    #[arg(long)]
    pub by: Option<RecordsOrigin>,
    /// Replace the day's earlier records, which had another name
    #[arg(long)]
    pub replace: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// How records are obtained without a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RecordsOrigin {
    /// By queries as [query] of the profile defines them, within its rate; an interrupted run keeps
    /// the answers it has
    Query,
}

#[derive(Debug, Args)]
pub(crate) struct DayArgs {
    /// Only of this partner
    #[arg(long)]
    pub partner: Option<String>,
    /// Only of this day
    #[arg(long)]
    pub day: Option<NaiveDate>,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DecisionsArgs {
    /// Only on the flags and uncleared findings of this order
    #[arg(long, value_name = "PARTNER/MERCHANT/ORDER", value_parser = OrderKey::parse)]
    pub order: Option<OrderKey>,
    #[command(flatten)]
    pub of: DayArgs,
}

#[derive(Debug, Args)]
pub(crate) struct FindingsArgs {
    /// Only findings that are undecided and still have their cause
    #[arg(long)]
    pub open: bool,
    /// Only of this partner
    #[arg(long)]
    pub partner: Option<String>,
    /// Only findings first found in the records of this day
    #[arg(long)]
    pub day: Option<NaiveDate>,
    /// Only findings with this code, such as MISSING_THERE
    #[arg(long)]
    pub code: Option<String>,
    /// Only uncleared findings of this order
    #[arg(long, value_name = "PARTNER/MERCHANT/ORDER", value_parser = OrderKey::parse)]
    pub order: Option<OrderKey>,
    #[command(flatten)]
    pub page: PageArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Partner code
    pub partner: String,
    /// The day in the zone of the partner's records [default: the last day that was compared]
    #[arg(long)]
    pub day: Option<NaiveDate>,
    /// File for the page [default: report-PARTNER-DAY.html]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// The findings, or the flag of an order, that a decision is on.
#[derive(Debug, Args)]
pub(crate) struct ChosenFindings {
    /// Ids of findings or their first digits; or an order as PARTNER/MERCHANT/ORDER, followed by
    /// its flag
    #[arg(required_unless_present = "from", value_name = "FINDING|ORDER FLAG")]
    pub what: Vec<String>,
    /// File with the findings, as `reconcile findings --output jsonl` prints them or an id on each
    /// line; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "what")]
    pub from: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DecideArgs {
    #[command(flatten)]
    pub chosen: ChosenFindings,
    /// The side with the correct record
    #[arg(long, value_enum)]
    pub accept: Accept,
    /// Reason of the decision; kept with it
    #[arg(long)]
    pub reason: String,
}

#[derive(Debug, Args)]
pub(crate) struct WithdrawArgs {
    #[command(flatten)]
    pub chosen: ChosenFindings,
    /// Reason of the withdrawal; kept in the history
    #[arg(long)]
    pub reason: String,
}

/// The side with the correct record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Accept {
    /// Our record
    Ours,
    /// The partner's record
    Partner,
    /// Neither: the difference is written off
    WriteOff,
}

impl From<Accept> for payfold_schemas::fact::Verdict {
    fn from(accept: Accept) -> Self {
        match accept {
            Accept::Ours => Self::Ours,
            Accept::Partner => Self::Partner,
            Accept::WriteOff => Self::WriteOff,
        }
    }
}

/// What a person may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PersonRole {
    /// Read, except the bytes of notices
    Viewer,
    /// Read, compare records, decide findings, flags and quarantined notices, close days
    Finance,
    /// Read, decide quarantined notices, rebuild
    Operator,
    /// Do everything, erase the bytes of a month too
    Admin,
}

impl From<PersonRole> for TokenRole {
    fn from(role: PersonRole) -> Self {
        match role {
            PersonRole::Viewer => Self::Viewer,
            PersonRole::Finance => Self::Finance,
            PersonRole::Operator => Self::Operator,
            PersonRole::Admin => Self::Admin,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Add a token for a person and print it once; changes made with it carry this name
    #[command(after_help = "Example: payfold token add ann --role finance > ann.token")]
    Add {
        /// The person's name
        name: String,
        /// What the person may do
        #[arg(long, value_enum)]
        role: PersonRole,
    },
    /// List the owners of tokens and their roles, as the vault has them; with --admin-url as a
    /// running system knows them, with the last action of each
    #[command(after_help = "Example: payfold token list")]
    List {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List what people did, the newest first: decisions, comparisons, closed days, bytes that were
    /// read, tokens and builds
    #[command(after_help = "Example: payfold token log --by ann")]
    Log {
        /// Only what this person did
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
        #[command(flatten)]
        page: PageArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Remove a person's token
    #[command(after_help = "Example: payfold token retire ann")]
    Retire {
        /// The person's name
        name: String,
    },
}
