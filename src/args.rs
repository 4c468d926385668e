//! Owns the command line: every command, flag and help text, as clap derives them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

mod bench;
mod certify;
mod demo;
mod keys;
mod log;
mod partner;
mod quarantine;
mod rebuild;
mod reconcile;
mod retention;

pub use bench::{
    BenchCommand, BenchE2eArgs, BenchIngestArgs, BenchProjectorArgs, BenchRebuildArgs,
    BenchReconcileArgs, BenchServerArgs,
};
pub use certify::CertifyArgs;
pub use demo::{DemoCommand, DemoIpnArgs, DemoPayArgs};
pub use keys::{
    AccountCommand, AccountSetArgs, KeyAddArgs, KeyChannel, KeyCommand, ShopAddArgs, ShopCommand,
};
pub use log::{AcceptLostClaimsArgs, ChainArgs, LogCommand, ParkArgs, VerifyArgs};
pub use partner::{
    DraftArgs, ExplainArgs, Fate, NewPartnerArgs, PartnerCommand, ProfileArgs, PromoteTo,
    RecordsArgs, VectorsArgs,
};
pub use quarantine::{
    DismissArgs, NoticesArgs, QuarantineCommand, QuarantineListArgs, ReleaseArgs,
    WithdrawNoticesArgs,
};
pub use rebuild::{DiffArgs, MoveArgs, PlanArgs, RebuildCommand, StartArgs, StatusArgs, WhyArgs};
pub use reconcile::{
    DayArgs, DecideArgs, FindingsArgs, ReconcileCommand, ReportArgs, RunBooksArgs, TokenCommand,
    WithdrawArgs,
};
pub use retention::{RetentionAccounts, RetentionCommand, RetentionEraseArgs};

/// Takes payment notifications, answers 200 only when they are durable, folds them into order state.
#[derive(Debug, Parser)]
#[command(name = "payfold", version, propagate_version = true, arg_required_else_help = true)]
pub struct Arguments {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Flags every command takes.
#[derive(Debug, Args)]
pub struct Global {
    /// Configuration file [default: payfold.toml, if it is there]
    #[arg(long, global = true, value_name = "FILE", env = "PAYFOLD_CONFIG")]
    pub config: Option<PathBuf>,
    /// Data folder [default: payfold-data]
    #[arg(long, global = true, value_name = "DIR", env = "PAYFOLD_DATA")]
    pub data: Option<PathBuf>,
    /// Admin listener of a running system [default: the one the data folder names]
    #[arg(long, global = true, value_name = "URL", env = "PAYFOLD_ADMIN_URL")]
    pub admin_url: Option<String>,
    /// File with the token changes are made with: its name is their author [default: the data folder's own]
    #[arg(long, global = true, value_name = "FILE", env = "PAYFOLD_ADMIN_TOKEN_FILE")]
    pub admin_token_file: Option<PathBuf>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the system: take notices, fold them, serve metrics
    Run(RunArgs),
    /// Try a running system: sign and post notices as a partner would
    #[command(subcommand)]
    Demo(DemoCommand),
    /// Check configuration, vault, disk, clock and stores; says how to mend what is wrong
    Check(CheckArgs),
    /// Print a commented payfold.toml
    Init,
    /// Orders and their facts
    #[command(subcommand)]
    Order(OrderCommand),
    /// Everything the log has about a request, a partner's ref or an order
    Trace(TraceArgs),
    /// Print a topic's messages as they come
    Tail(TailArgs),
    /// Partners: write, check, explain, freeze and certify their profiles
    #[command(subcommand)]
    Partner(PartnerCommand),
    /// Keys of partner accounts
    #[command(subcommand)]
    Key(KeyCommand),
    /// Our accounts at partners: on or off, where from, how many a second
    #[command(subcommand)]
    Account(AccountCommand),
    /// Shops that may call the shop listener, and their tokens
    #[command(subcommand)]
    Shop(ShopCommand),
    /// People who may change things on the admin listener, each with a token
    #[command(subcommand)]
    Token(TokenCommand),
    /// Compare orders with partners' own records, decide differences, close days
    #[command(subcommand)]
    Reconcile(ReconcileCommand),
    /// Fold the log anew beside live traffic, compare, switch, go back
    #[command(subcommand)]
    Rebuild(RebuildCommand),
    /// Signed notices that could not be admitted
    #[command(subcommand)]
    Quarantine(QuarantineCommand),
    /// The event log itself
    #[command(subcommand)]
    Log(LogCommand),
    /// Bytes of notices: seal them by the month, and destroy a month of them
    #[command(subcommand)]
    Retention(RetentionCommand),
    /// The log's topics in Kafka
    #[command(subcommand)]
    Topics(ApplyCommand),
    /// The order store's tables in the CQL database, and the schemas of events
    #[command(subcommand)]
    Schema(SchemaCommand),
    /// Measure this program on this machine
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Print shell completions
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write man pages into a folder
    Man {
        /// The folder; made if it is missing
        dir: PathBuf,
    },
}

/// Roles one process may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Every role; the sandbox among them in the demo only
    All,
    /// Takes notices over HTTP
    Ingest,
    /// Folds them into orders
    Projector,
    /// Serves shops: creates payments, shows and follows them
    Checkout,
    /// Watches deadlines and shared refs
    Reconciler,
    /// Plays a partner that can misbehave; for accounts of sandbox profiles only
    Sandbox,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Roles of this process
    #[arg(long, value_delimiter = ',', default_value = "all")]
    pub roles: Vec<Role>,
    /// Address partners post to [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    pub listen_public: Option<String>,
    /// Address shops call [default: 127.0.0.1:8081]
    #[arg(long, value_name = "ADDR")]
    pub listen_shop: Option<String>,
    /// Address of probes, metrics and admin calls [default: 127.0.0.1:9464]
    #[arg(long, value_name = "ADDR")]
    pub listen_admin: Option<String>,
    /// Address of the sandbox partner [default: 127.0.0.1:8082]
    #[arg(long, value_name = "ADDR")]
    pub listen_sandbox: Option<String>,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Also open the engines and ask them
    #[arg(long)]
    pub connect: bool,
    /// Only ask the running process whether it takes traffic
    #[arg(long, conflicts_with_all = ["connect", "output"])]
    pub ready: bool,
    /// Only ask the running process whether it lives, as a container's health check does
    #[arg(long, conflicts_with_all = ["connect", "output", "ready"])]
    pub live: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What can be done with topics and tables.
#[derive(Debug, Subcommand)]
pub enum ApplyCommand {
    /// Make what is missing; print what differs and leave it as it is
    Apply(ApplyArgs),
}

/// What can be done with tables and with what other teams read.
#[derive(Debug, Subcommand)]
pub enum SchemaCommand {
    /// Make the tables that are missing; print what differs and leave it as it is
    Apply(SchemaApplyArgs),
    /// The events other teams read: their types, the JSON Schema of one, or all of them as files
    Events(EventsArgs),
    /// The AsyncAPI 3 document of the topics other teams read
    Asyncapi,
}

#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Print the JSON Schema of this type's data, such as payfold.order.changed.v1
    pub kind: Option<String>,
    /// Write every schema, and the AsyncAPI document, into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "kind")]
    pub write: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// Only print what would be done
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct SchemaApplyArgs {
    #[command(flatten)]
    pub apply: ApplyArgs,
    /// Say that no process of this keyspace runs and that all its copies are repaired: from now on those copies decide
    /// claims that keyspace and settings name (docs/operations.md, "Several datacenters")
    #[arg(long, conflicts_with = "dry_run")]
    pub copies_repaired: bool,
}

/// Whether bytes are printed as they came.
#[derive(Debug, Args)]
pub struct RawArgs {
    /// Print the bytes as they came; asked of the running system, which tells on `findings` who reads them and why
    #[arg(long, requires = "reason")]
    pub raw: bool,
    /// Why they are read; kept for ever
    #[arg(long, requires = "raw")]
    pub reason: Option<String>,
}

/// How a listing is printed.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Output form
    #[arg(long, value_enum, default_value_t = Form::Table)]
    pub output: Form,
}

/// How a listing is cut into pages.
#[derive(Debug, Args)]
pub struct PageArgs {
    /// Rows at most
    #[arg(long, default_value_t = 100)]
    pub limit: usize,
    /// Go on after this cursor, which the last page printed
    #[arg(long, value_name = "CURSOR")]
    pub after: Option<String>,
}

/// Forms of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Columns for people
    Table,
    /// One array or object
    Json,
    /// One object a line
    Jsonl,
    /// Comma-separated with a head line
    Csv,
}

#[derive(Debug, Subcommand)]
pub enum OrderCommand {
    /// One order, whole
    Show {
        /// Partner code
        partner: String,
        /// Merchant code
        merchant: String,
        /// Order id
        order: String,
        /// List the facts and what each changed
        #[arg(long)]
        facts: bool,
        #[command(flatten)]
        raw: RawArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Orders by creation, newest last
    List {
        /// Only this state
        #[arg(long)]
        state: Option<String>,
        /// Only with this flag open
        #[arg(long)]
        flag: Option<String>,
        /// Only attempts at this reference
        #[arg(long)]
        reference: Option<String>,
        /// Only first seen longer ago than this, such as 15m or 2h
        #[arg(long, value_name = "AGE")]
        older: Option<String>,
        #[command(flatten)]
        page: PageArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Orders a partner is asked about: why, since when, how often it was due, when next
    Stuck {
        /// Only of this partner
        #[arg(long)]
        partner: Option<String>,
        #[command(flatten)]
        page: PageArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
}

#[derive(Debug, Args)]
pub struct TraceArgs {
    /// A request id, a partner's ref, or an order (id, or partner/merchant/id)
    pub what: String,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Topics `tail` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TopicName {
    Intake,
    Orders,
    Findings,
    Quarantine,
}

#[derive(Debug, Args)]
pub struct TailArgs {
    /// Which topic
    pub topic: TopicName,
    /// Start after this position, such as 0-1234
    #[arg(long, value_name = "POS")]
    pub after: Option<String>,
    /// Start with messages so old at most, such as 10m
    #[arg(long, value_name = "AGE", conflicts_with = "after")]
    pub since: Option<String>,
    /// Only of this partner
    #[arg(long)]
    pub partner: Option<String>,
    /// Stop at the end instead of waiting for more
    #[arg(long)]
    pub no_follow: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}
