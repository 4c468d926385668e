//! Owns the arguments of `payfold partner certify`.

use std::path::PathBuf;

use clap::Args;

use super::common::OutputArgs;

#[derive(Debug, Args)]
pub(crate) struct CertifyArgs {
    /// Partner code
    #[arg(required_unless_present = "verify")]
    pub partner: Option<String>,
    /// API address of the partner's sandbox [default: the partner's api_url; in the demo the
    /// running sandbox partner]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// File for the signed report; an HTML page for people is written beside it, ending in .html
    #[arg(long, value_name = "FILE", required_unless_present = "verify")]
    pub report: Option<PathBuf>,
    /// Check a report instead of writing one: that it is unchanged, and who signed it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["partner", "url", "report"])]
    pub verify: Option<PathBuf>,
    /// With --verify: the public key that must have signed the report, 64 hex digits [default: this
    /// vault's]
    #[arg(long, value_name = "KEY", requires = "verify")]
    pub signer: Option<String>,
    /// Merchant code [default: the partner's only account]
    #[arg(long)]
    pub merchant: Option<String>,
    /// Amount of each payment in minor units
    #[arg(long, default_value_t = 100_000)]
    pub amount: i64,
    /// ISO 4217 currency of each payment
    #[arg(long, default_value = "VND")]
    pub currency: String,
    /// Address that receives IPNs and returns while the certification runs
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub listen: String,
    /// Base URL at which the partner and browsers reach --listen [default: the address itself]
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    /// Origin that must be able to show the hosted page in a frame; repeat for several [default:
    /// checkout.shop_url, or --public-url]
    #[arg(long, value_name = "URL")]
    pub platform: Vec<String>,
    /// Leave every page to a person, even pages with buttons that the program knows
    #[arg(long)]
    pub by_hand: bool,
    /// What a person has checked, with their name: width=NAME, webview=NAME, cookies=NAME
    #[arg(long, value_name = "ITEM=NAME")]
    pub attest: Vec<String>,
    /// Longest wait for a person at a page
    #[arg(long, value_name = "AGE", default_value = "10m")]
    pub wait: String,
    /// Longest wait for the first IPN of a payment that has ended
    #[arg(long, value_name = "AGE", default_value = "2m")]
    pub ipn_wait: String,
    /// Longest wait for an unacknowledged IPN to be sent again
    #[arg(long, value_name = "AGE", default_value = "15m")]
    pub retry_wait: String,
    /// Longest wait for the browser to return from a payment that has ended
    #[arg(long, value_name = "AGE", default_value = "1m")]
    pub return_wait: String,
    /// How long to watch for requests that should no longer come
    #[arg(long, value_name = "AGE", default_value = "10s")]
    pub quiet: String,
    /// How long an IPN is left unanswered; choose more than the partner's own timeout
    #[arg(long, value_name = "AGE", default_value = "60s")]
    pub hang: String,
    /// age identity; a key derived from it signs the report [default: vault.key of the data folder]
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// Troubles to play, for a partner that is our sandbox
    #[arg(long, hide = true)]
    pub trouble: Option<String>,
    #[command(flatten)]
    pub output: OutputArgs,
}
