//! Owns the arguments of `payfold partner`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::certify::CertifyArgs;
use super::common::{OutputArgs, PageArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum PartnerCommand {
    /// Write a commented profile and a file of test vectors for a new partner
    #[command(after_help = "Example: payfold partner new acme --from hmac-body --dir partners")]
    New(NewPartnerArgs),
    /// Print the JSON Schema of profiles for editors: every key with its meaning and values
    #[command(after_help = "Example: payfold partner schema > profile.schema.json")]
    Schema,
    /// List the configured partners with profile, stage and accounts
    #[command(after_help = "Example: payfold partner list")]
    List {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show one partner's profile: signatures, answers, and the agreed exceptions from the contract
    #[command(after_help = "Example: payfold partner show acme")]
    Show(ProfileArgs),
    /// Explain the answer to a request: every field, the signing text, the expected and the
    /// received signature, and what would have matched
    #[command(after_help = "Example: payfold partner explain acme --request notice.http")]
    Explain(ExplainArgs),
    /// Show the request that would create a payment in a partner's custom scheme, and its signing
    /// text; nothing is sent
    #[command(after_help = "Example: payfold partner draft momo --amount 100000 --currency VND")]
    Draft(DraftArgs),
    /// Check a profile against test vectors: the signing text and signature of each must match;
    /// exit 3 if any differs
    #[command(after_help = "Example: payfold partner vectors acme --profile partners/acme.toml")]
    Vectors(VectorsArgs),
    /// Show a partner's records file line by line, as its profile reads it; exit 1 if a line can't
    /// be read
    #[command(after_help = "Example: payfold partner records acme acme-2026-11-24.csv --only bad")]
    Records(RecordsArgs),
    /// Show what differs between a profile and its frozen copy, or another file; exit 3 if anything
    /// does
    #[command(after_help = "Example: payfold partner diff acme")]
    Diff {
        #[command(flatten)]
        profile: ProfileArgs,
        /// The other file [default: the frozen copy of this version]
        #[arg(long, value_name = "FILE")]
        against: Option<PathBuf>,
    },
    /// Set the profile's stage to frozen and keep a copy; a start then refuses a changed profile
    #[command(after_help = "Example: payfold partner freeze acme")]
    Freeze(ProfileArgs),
    /// Move a profile to the next stage: draft to sandbox, or frozen to live
    #[command(after_help = "Example: payfold partner promote acme --to live --report acme.json")]
    Promote {
        #[command(flatten)]
        profile: ProfileArgs,
        /// The next stage
        #[arg(long, value_enum)]
        to: PromoteTo,
        /// For live: the report of `partner certify` on exactly this frozen profile
        #[arg(long, value_name = "FILE", conflicts_with = "uncertified")]
        report: Option<PathBuf>,
        /// For live without a passed report: why it goes live all the same
        #[arg(long, value_name = "REASON")]
        uncertified: Option<String>,
    },
    /// Test a partner's sandbox against its profile and the contract and write a signed report;
    /// exit 3 if a rule fails
    #[command(after_help = "Example: payfold partner certify acme --report acme.json")]
    Certify(Box<CertifyArgs>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PromoteTo {
    Sandbox,
    Live,
}

#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// Partner code, or the name of a shipped profile
    pub partner: String,
    /// Profile file to use instead of the configured one
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct NewPartnerArgs {
    /// Partner code: lower-case letters, digits and hyphens
    pub partner: String,
    /// What to start from: contract, hmac-body, hmac-fields, sorted-pairs, structured-header, rsa,
    /// or a shipped profile
    #[arg(long, default_value = "contract", value_name = "NAME")]
    pub from: String,
    /// Folder to write the files to
    #[arg(long, default_value = ".", value_name = "DIR")]
    pub dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub profile: ProfileArgs,
    /// File with the request: JSON with method, url, headers and body, or the HTTP message as
    /// received (- reads standard input)
    #[arg(long, value_name = "FILE")]
    pub request: PathBuf,
    /// When the request was received, RFC 3339 [default: now]
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// Our base URL as the partner has registered it, for schemes that sign it [default:
    /// public_url, or the request's]
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DraftArgs {
    #[command(flatten)]
    pub profile: ProfileArgs,
    /// Amount in minor units of the currency
    #[arg(long)]
    pub amount: i64,
    /// ISO 4217 currency
    #[arg(long)]
    pub currency: String,
    /// Merchant code [default: the partner's only account]
    #[arg(long, value_name = "CODE")]
    pub merchant: Option<String>,
    /// Description that the payer sees
    #[arg(long, default_value = "Two tickets")]
    pub description: String,
    /// When the shop wants the session to end, RFC 3339
    #[arg(long, value_name = "TIME")]
    pub expires_at: Option<String>,
    /// Request a QR code, if the profile supports it
    #[arg(long)]
    pub qr: bool,
    /// The payer's IP address, for schemes that send it
    #[arg(long, value_name = "ADDRESS", default_value = "203.0.113.7")]
    pub payer_ip: IpAddr,
    /// The partner's API address [default: its api_url]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct VectorsArgs {
    #[command(flatten)]
    pub profile: ProfileArgs,
    /// File with test vectors [default: those of the shipped profile, or NAME.vectors.json beside
    /// the profile]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RecordsArgs {
    #[command(flatten)]
    pub profile: ProfileArgs,
    /// The partner's records file, plain or gzip (- reads standard input)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Only lines of this kind
    #[arg(long, value_enum)]
    pub only: Option<RecordLineKind>,
    #[command(flatten)]
    pub page: PageArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// How a profile reads a line of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RecordLineKind {
    Entry,
    Ignored,
    Bad,
}
