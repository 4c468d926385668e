//! Owns the command line: every command, flag and help text, as clap derives them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

mod bench;
mod certify;
mod common;
mod demo;
mod keys;
mod log;
mod partner;
mod quarantine;
mod rebuild;
mod reconcile;
mod retention;

pub(crate) use bench::{
    BenchCommand, BenchE2eArgs, BenchIngestArgs, BenchProjectorArgs, BenchRebuildArgs,
    BenchReconcileArgs, BenchServerArgs,
};
pub(crate) use certify::CertifyArgs;
pub(crate) use common::{Global, OutputArgs, OutputFormat, PageArgs, RawArgs};
pub(crate) use demo::{DemoCommand, DemoIpnArgs, DemoPayArgs};
pub(crate) use keys::{
    AccountCommand, AccountSetArgs, KeyAddArgs, KeyCommand, KeyRetireArgs, ShopAddArgs, ShopCommand,
};
pub(crate) use log::{
    AcceptLostClaimsArgs, BaselineArgs, ChainArgs, LogCommand, ParkArgs, RecordKeyAddArgs,
    RecordKeyCommand, RecordKeyRetireArgs, VerifyArgs,
};
pub(crate) use partner::{
    DraftArgs, ExplainArgs, NewPartnerArgs, PartnerCommand, ProfileArgs, PromoteTo, RecordLineKind,
    RecordsArgs, VectorsArgs,
};
pub(crate) use quarantine::{
    DismissArgs, NoticesArgs, QuarantineCommand, QuarantineListArgs, ReleaseArgs,
    WithdrawNoticesArgs,
};
pub(crate) use rebuild::{
    DiffArgs, MoveArgs, PlanArgs, ReasonArgs, RebuildCommand, StartArgs, StatusArgs,
};
pub(crate) use reconcile::{
    ChosenFindings, DayArgs, DecideArgs, DecisionsArgs, FindingsArgs, ReconcileCommand,
    ReconcileRunArgs, ReportArgs, TokenCommand, WithdrawArgs,
};
pub(crate) use retention::{RetentionAccounts, RetentionCommand, RetentionEraseArgs};

/// Receives payment notifications, answers 200 only once they are durable, and folds them into
/// order state.
#[derive(Debug, Parser)]
#[command(name = "payfold", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the system: receive notices, fold them into orders, serve shops and metrics
    #[command(after_help = "Example: payfold run --roles ingest,projector")]
    Run(RunArgs),
    /// Try a running demo: create payments and post signed notices as a partner would
    #[command(subcommand)]
    Demo(DemoCommand),
    /// Check configuration, vault, disk, clock and stores; each failed row has its fix
    #[command(after_help = "Example: payfold check --connect")]
    Check(CheckArgs),
    /// Print a payfold.toml that explains every setting and its default
    #[command(after_help = "Example: payfold init > payfold.toml")]
    Init,
    /// Show and list orders, and the facts they were folded from
    #[command(subcommand)]
    Order(OrderCommand),
    /// Show everything the log has about a request, a partner's reference or an order
    #[command(after_help = "Example: payfold trace acme/SHOP-1/ord-0193b1c7")]
    Trace(TraceArgs),
    /// Print a topic's messages as they arrive
    #[command(after_help = "Example: payfold tail orders --since 10m --partner acme")]
    Tail(TailArgs),
    /// Write, check, explain, freeze and certify the profiles of partners
    #[command(subcommand)]
    Partner(PartnerCommand),
    /// Add, list and retire the keys of partner accounts
    #[command(subcommand)]
    Key(KeyCommand),
    /// Enable or disable our accounts at partners; limit their source addresses and rates
    #[command(subcommand)]
    Account(AccountCommand),
    /// Add, list and retire the tokens of shops that call the shop listener
    #[command(subcommand)]
    Shop(ShopCommand),
    /// Add, list and retire the tokens of people who change things on the admin listener
    #[command(subcommand)]
    Token(TokenCommand),
    /// Compare orders with partners' records, decide differences, close days
    #[command(subcommand)]
    Reconcile(ReconcileCommand),
    /// Fold the log into a new build beside live traffic; compare, switch, roll back
    #[command(subcommand)]
    Rebuild(RebuildCommand),
    /// List and decide notices that have a valid signature and could not be admitted
    #[command(subcommand)]
    Quarantine(QuarantineCommand),
    /// Inspect, verify, back up and restore the event log
    #[command(subcommand)]
    Log(LogCommand),
    /// Seal the bytes of notices with a key a month, and destroy the key of a month
    #[command(subcommand)]
    Retention(RetentionCommand),
    /// Create the log's topics in Kafka; print the ACLs that the roles need
    #[command(subcommand)]
    Topics(TopicsCommand),
    /// Create the order store's tables in the CQL database; print the schemas of events
    #[command(subcommand)]
    Schema(SchemaCommand),
    /// Measure the performance of this program on this machine
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Print shell completions
    #[command(after_help = "Example: payfold completions bash > /etc/bash_completion.d/payfold")]
    Completions {
        /// The shell to print completions for
        shell: clap_complete::Shell,
    },
    /// Write man pages into a folder
    #[command(after_help = "Example: payfold man /usr/local/share/man/man1")]
    Man {
        /// The folder; it is created if it is missing
        dir: PathBuf,
    },
}

/// Roles that one process can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Every role; the sandbox only in the demo
    All,
    /// Receives notices over HTTP
    Ingest,
    /// Folds facts into orders and publishes their changes
    Projector,
    /// Serves shops: creates payments, shows them and streams their changes
    Checkout,
    /// Watches deadlines, queries partners, compares orders with their records
    Reconciler,
    /// Shows orders to people in a browser
    Console,
    /// Plays a partner, with faults on request; for accounts with a sandbox profile only
    Sandbox,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Roles of this process, separated by commas
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
    /// Address of probes and metrics alone [default: they are only on the admin listener]
    #[arg(long, value_name = "ADDR")]
    pub listen_probes: Option<String>,
    /// Address of the console [default: 127.0.0.1:8083]
    #[arg(long, value_name = "ADDR")]
    pub listen_console: Option<String>,
    /// Address of the sandbox partner [default: 127.0.0.1:8082]
    #[arg(long, value_name = "ADDR")]
    pub listen_sandbox: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Also open the log and the order store, and check their content
    #[arg(long)]
    pub connect: bool,
    /// Only check whether the running process is ready for traffic
    #[arg(long, conflicts_with_all = ["connect", "output"])]
    pub ready: bool,
    /// Only check whether the running process is alive, for a container's health check
    #[arg(long, conflicts_with_all = ["connect", "output", "ready"])]
    pub live: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The commands of `payfold topics`.
#[derive(Debug, Subcommand)]
pub(crate) enum TopicsCommand {
    /// Create missing topics; print settings that differ and leave them unchanged
    #[command(after_help = "Example: payfold topics apply --dry-run")]
    Apply(ApplyArgs),
    /// Print the commands of kafka-acls.sh that allow each role what it does, and no more
    #[command(after_help = "Example: payfold topics acls > acls.sh && sh -e acls.sh \
                            --bootstrap-server kafka:9093 --command-config admin.properties")]
    Acls {
        /// Name of a role's principal, with {role} for the role: one principal for each
        #[arg(long, value_name = "NAME", default_value = "User:payfold-{role}")]
        principal: String,
    },
}

/// The commands of `payfold schema`.
#[derive(Debug, Subcommand)]
pub(crate) enum SchemaCommand {
    /// Create missing tables; print tables that differ and leave them unchanged
    #[command(after_help = "Example: payfold schema apply --dry-run")]
    Apply(SchemaApplyArgs),
    /// List the published event types, print the JSON Schema of one, or write all as files
    #[command(after_help = "Example: payfold schema events payfold.order.changed.v1")]
    Events(EventsArgs),
    /// Print the AsyncAPI 3 document of the topics that other teams read
    #[command(after_help = "Example: payfold schema asyncapi > asyncapi.json")]
    Asyncapi,
}

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// Print the JSON Schema of this event type, such as payfold.order.changed.v1
    pub kind: Option<String>,
    /// Write every schema and the AsyncAPI document into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "kind")]
    pub write: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// Print what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SchemaApplyArgs {
    #[command(flatten)]
    pub apply: ApplyArgs,
    /// Confirm that no process runs on this keyspace and that its replicas are repaired. Claims are
    /// then decided by the replicas that the keyspace and the settings name
    /// (docs/how-to/run-at-scale.md, "Several datacenters")
    #[arg(long, conflicts_with = "dry_run")]
    pub copies_repaired: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OrderCommand {
    /// Show one order
    #[command(after_help = "Example: payfold order show acme/SHOP-1/ord-0193b1c7 --facts")]
    Show {
        /// The order as PARTNER/MERCHANT/ORDER, or as three words
        #[arg(required = true, num_args = 1..=3)]
        order: Vec<String>,
        /// List the facts of the order and what each changed
        #[arg(long)]
        facts: bool,
        #[command(flatten)]
        raw: RawArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Find orders by the order's id, the shop's reference or the partner's
    #[command(after_help = "Example: payfold order find cart-1001")]
    Find {
        /// The id or PARTNER/MERCHANT/ORDER, the shop's reference, or the partner's: whole
        what: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List orders by creation, newest last
    #[command(after_help = "Example: payfold order list --newest --state PENDING --older 15m")]
    List {
        /// Only orders in this state
        #[arg(long)]
        state: Option<String>,
        /// Only orders with this flag open
        #[arg(long)]
        flag: Option<String>,
        /// Only orders with this reference of the shop
        #[arg(long)]
        reference: Option<String>,
        /// Only orders first seen longer ago than this, such as 15m or 2h
        #[arg(long, value_name = "AGE")]
        older: Option<String>,
        /// List the newest first
        #[arg(long)]
        newest: bool,
        #[command(flatten)]
        page: PageArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List orders with an outcome that partners are queried for: why, since when, how many queries
    /// are due, when next
    #[command(after_help = "Example: payfold order stuck --partner acme")]
    Stuck {
        /// Only orders of this partner
        #[arg(long)]
        partner: Option<String>,
        #[command(flatten)]
        page: PageArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// A request id, a partner's reference, or an order (its id, or partner/merchant/id)
    pub what: String,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Topics that `tail` can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopicName {
    Intake,
    Orders,
    Findings,
    Quarantine,
}

#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// The topic to print
    pub topic: TopicName,
    /// Start after this position, such as 0-1234: with what comes from now on in partitions before
    /// it, and at the beginning of those behind it
    #[arg(long, value_name = "POS")]
    pub after: Option<String>,
    /// Start with messages at most this old, such as 10m
    #[arg(long, value_name = "AGE", conflicts_with = "after")]
    pub since: Option<String>,
    /// Only messages of this partner
    #[arg(long)]
    pub partner: Option<String>,
    /// Stop at the end of the topic instead of waiting for more
    #[arg(long)]
    pub no_follow: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// The arguments of an example, up to a redirection or pipe. Quoted words are one argument.
    fn arguments_of(example: &str) -> Vec<String> {
        let end = example.find(" > ").or_else(|| example.find(" | ")).unwrap_or(example.len());
        let mut arguments = Vec::new();
        for (n, part) in example[..end].split('"').enumerate() {
            if n % 2 == 1 {
                arguments.push(part.to_owned());
            } else {
                arguments.extend(part.split_whitespace().map(str::to_owned));
            }
        }
        arguments
    }

    /// Asserts for each command without subcommands below `command` that its help has an example
    /// of this very command, which parses.
    fn assert_examples(command: &clap::Command, path: &str) {
        for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            let path = format!("{path} {}", command.get_name());
            if command.has_subcommands() {
                assert_examples(command, &path);
                continue;
            }
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = help.lines().filter_map(|line| line.strip_prefix("Example: "));
            let own: Vec<_> = examples.filter(|example| example.starts_with(&path)).collect();
            assert!(!own.is_empty(), "the help of {path} has no line \"Example: {path} …\"");
            for example in own {
                let parsed = Arguments::try_parse_from(arguments_of(example));
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn the_help_of_every_command_has_an_example_that_parses() {
        assert_examples(&Arguments::command(), "payfold");
    }
}
