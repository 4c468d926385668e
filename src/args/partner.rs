//! Owns the arguments of `payfold partner`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{CertifyArgs, OutputArgs, PageArgs};

#[derive(Debug, Subcommand)]
pub enum PartnerCommand {
    /// Write a commented profile and a file of test vectors to begin a new partner with
    New(NewPartnerArgs),
    /// The JSON Schema of profiles, for editors: every key, what it is for and what may stand there
    Schema,
    /// Every configured partner with its profile, stage and accounts
    List {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// One partner's profile: what is signed, how it is answered, which exceptions from the contract were agreed
    Show(ProfileArgs),
    /// Why a request got its answer: every field, the signing text, expected and received, and what would have matched
    Explain(ExplainArgs),
    /// What would be sent to create a payment in a partner's own scheme, with what is signed; nobody is called
    Draft(DraftArgs),
    /// Check a profile against test vectors: signing text and signature of each must come out; exit 3 if one does not
    Vectors(VectorsArgs),
    /// What a partner's file of payments says, line by line, as its profile reads it; exit 1 if a line is bad
    Records(RecordsArgs),
    /// What differs between a profile and its frozen copy, or another file; exit 3 if anything does
    Diff {
        #[command(flatten)]
        profile: ProfileArgs,
        /// The other file [default: the frozen copy of this version]
        #[arg(long, value_name = "FILE")]
        against: Option<PathBuf>,
    },
    /// Set the profile's stage to frozen and keep a copy: from then on a changed profile is refused at start
    Freeze(ProfileArgs),
    /// Move a profile on to the next stage: draft to sandbox, frozen to live
    Promote {
        #[command(flatten)]
        profile: ProfileArgs,
        /// The stage it is for
        #[arg(long, value_enum)]
        to: PromoteTo,
        /// For live, in the contract's scheme: the report of `partner certify` on exactly this frozen profile
        #[arg(long, value_name = "FILE", conflicts_with = "uncertified")]
        report: Option<PathBuf>,
        /// For live without a passed report: why
        #[arg(long, value_name = "REASON")]
        uncertified: Option<String>,
    },
    /// Try a partner's sandbox against every rule of the contract, and write a signed report; exit 3 if a rule fails
    Certify(Box<CertifyArgs>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PromoteTo {
    Sandbox,
    Live,
}

#[derive(Debug, Args)]
pub struct ProfileArgs {
    /// Partner code, or the name of a shipped profile
    pub partner: String,
    /// A profile that is not configured yet
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct NewPartnerArgs {
    /// Partner code: lower-case letters, digits and -
    pub partner: String,
    /// What to begin with: contract, hmac-body, hmac-fields, sorted-pairs, structured-header, rsa, or a shipped profile
    #[arg(long, default_value = "contract", value_name = "NAME")]
    pub from: String,
    /// Folder for the files
    #[arg(long, default_value = ".", value_name = "DIR")]
    pub dir: PathBuf,
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    pub profile: ProfileArgs,
    /// The request: JSON with method, url, headers and body, or the HTTP message as it came (- is standard input)
    #[arg(long, value_name = "FILE")]
    pub request: PathBuf,
    /// When it came [default: now]
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// Our address as the partner has it registered, where the URL is signed [default: public_url, or the request's]
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub struct DraftArgs {
    #[command(flatten)]
    pub profile: ProfileArgs,
    /// Minor units of the currency
    #[arg(long)]
    pub amount: i64,
    /// ISO 4217
    #[arg(long)]
    pub currency: String,
    /// The account there [default: the only one]
    #[arg(long, value_name = "CODE")]
    pub merchant: Option<String>,
    /// Shown to the payer
    #[arg(long, default_value = "Two tickets")]
    pub description: String,
    /// When the shop wants it to end
    #[arg(long, value_name = "TIME")]
    pub expires_at: Option<String>,
    /// Ask for a QR code, where the partner can be asked
    #[arg(long)]
    pub qr: bool,
    /// The payer's address, where the partner is told
    #[arg(long, value_name = "ADDRESS", default_value = "203.0.113.7")]
    pub payer_ip: IpAddr,
    /// The partner's address [default: its api_url]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub struct VectorsArgs {
    #[command(flatten)]
    pub profile: ProfileArgs,
    /// File of vectors [default: those of the shipped profile, or NAME.vectors.json beside it]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
pub struct RecordsArgs {
    #[command(flatten)]
    pub profile: ProfileArgs,
    /// The partner's file, plain or gzip (- is standard input)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Only lines of this fate
    #[arg(long, value_enum)]
    pub only: Option<Fate>,
    #[command(flatten)]
    pub page: PageArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fate {
    Entry,
    Ignored,
    Bad,
}
