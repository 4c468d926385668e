//! Owns the arguments of `payfold reconcile` and `payfold token`: comparing with partners' records, and who decides.

use std::path::PathBuf;

use chrono::NaiveDate;
use clap::{Args, Subcommand, ValueEnum};

use super::{OutputArgs, PageArgs};

#[derive(Debug, Subcommand)]
pub enum ReconcileCommand {
    /// Compare a partner's records of a day with the orders; exit 3 if differences are open
    Run(RunBooksArgs),
    /// Differences: what is known here, what the partner says, what to do
    Findings(FindingsArgs),
    /// Control totals: ours against the partner's, by day, currency and status
    Totals(DayArgs),
    /// The last comparison of each day
    Runs(DayArgs),
    /// The last comparison of a day as one HTML page, to read, print and keep
    Report(ReportArgs),
    /// Decide a finding, or a flag of an order; what is critical takes a second person with another token
    Decide(DecideArgs),
    /// Take back a decision of yours that waits for a second person; it stays in the history
    Withdraw(WithdrawArgs),
    /// Who decided what, on which evidence
    Decisions(DayArgs),
    /// Close a day that is over and whose findings are settled: its totals and findings are sealed by a digest
    Close {
        /// Partner code
        partner: String,
        /// The day in the zone of the partner's records, such as 2026-01-31
        #[arg(long)]
        day: NaiveDate,
    },
}

#[derive(Debug, Args)]
pub struct RunBooksArgs {
    /// Partner code
    pub partner: String,
    /// The day in the zone of the partner's records, such as 2026-01-31 [default: yesterday]
    #[arg(long)]
    pub day: Option<NaiveDate>,
    /// The partner's records of that day, as its profile says they are written
    #[arg(long, value_name = "FILE", required_unless_present = "by", conflicts_with = "by")]
    pub records: Option<PathBuf>,
    /// Ask the partner for each payment of the day instead: for who gives out no files
    #[arg(long)]
    pub by: Option<By>,
    /// These records take the place of the day's others, which were called something else
    #[arg(long)]
    pub replace: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What records are had by, where there is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// By the profile's [query], within its pace; what was answered is kept if it is interrupted
    Query,
}

#[derive(Debug, Args)]
pub struct DayArgs {
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
pub struct FindingsArgs {
    /// Only those that nobody has decided and whose cause is there
    #[arg(long)]
    pub open: bool,
    /// Only of this partner
    #[arg(long)]
    pub partner: Option<String>,
    /// Only those first found on this day's records
    #[arg(long)]
    pub day: Option<NaiveDate>,
    /// Only of this kind, such as MISSING_THERE
    #[arg(long)]
    pub code: Option<String>,
    #[command(flatten)]
    pub page: PageArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Partner code
    pub partner: String,
    /// The day in the zone of the partner's records [default: the last compared]
    #[arg(long)]
    pub day: Option<NaiveDate>,
    /// Where the page is written [default: report-PARTNER-DAY.html]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct DecideArgs {
    /// A finding's id or its first digits; or an order, PARTNER/MERCHANT/ORDER, and then its flag
    pub what: String,
    /// The flag, where an order is named
    pub flag: Option<String>,
    /// Whose record is taken as right
    #[arg(long, value_enum)]
    pub accept: Accept,
    /// Why; kept with the decision for ever
    #[arg(long)]
    pub reason: String,
}

#[derive(Debug, Args)]
pub struct WithdrawArgs {
    /// A finding's id or its first digits; or an order, PARTNER/MERCHANT/ORDER, and then its flag
    pub what: String,
    /// The flag, where an order is named
    pub flag: Option<String>,
    /// Why; kept for ever
    #[arg(long)]
    pub reason: String,
}

/// Whose record is taken as right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Accept {
    /// What this system has stands
    Ours,
    /// What the partner has stands
    Partner,
    /// The difference is written off
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

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token for a person and print it once; what is done with it is done in this name
    Add {
        /// The person's name
        name: String,
    },
    /// Whose tokens there are; never the tokens
    List {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// A token counts no longer
    Retire {
        /// The person's name
        name: String,
    },
}
