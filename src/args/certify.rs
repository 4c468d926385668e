//! Owns the arguments of `payfold partner certify`.

use std::path::PathBuf;

use clap::Args;

use super::OutputArgs;

#[derive(Debug, Args)]
pub struct CertifyArgs {
    /// Partner code
    #[arg(required_unless_present = "verify")]
    pub partner: Option<String>,
    /// API address of the partner's sandbox [default: the partner's api_url; in the demo the sandbox that runs]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Where the signed report goes; a page for people goes beside it, with the ending .html
    #[arg(long, value_name = "FILE", required_unless_present = "verify")]
    pub report: Option<PathBuf>,
    /// Check a report instead of making one: that nothing was changed, and who signed it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["partner", "url", "report"])]
    pub verify: Option<PathBuf>,
    /// With --verify: public key of who must have signed it, 64 hex digits [default: this vault's]
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
    /// Where IPNs and returns are taken while it runs
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub listen: String,
    /// How the partner and browsers reach that [default: the address itself]
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    /// Origin whose frames the hosted page must stand in, once for each [default: checkout.shop_url, or --public-url]
    #[arg(long, value_name = "URL")]
    pub platform: Vec<String>,
    /// Leave every page to a person, also one with buttons that are known
    #[arg(long)]
    pub by_hand: bool,
    /// What a person has looked at: width=NAME, webview=NAME, cookies=NAME
    #[arg(long, value_name = "ITEM=NAME")]
    pub attest: Vec<String>,
    /// How long a person may take at a page
    #[arg(long, value_name = "AGE", default_value = "10m")]
    pub wait: String,
    /// How long the first IPN of a payment that has ended may take
    #[arg(long, value_name = "AGE", default_value = "2m")]
    pub ipn_wait: String,
    /// How long an IPN that was not acknowledged may take to come again
    #[arg(long, value_name = "AGE", default_value = "15m")]
    pub retry_wait: String,
    /// How long a browser may take to come back from a payment that has ended
    #[arg(long, value_name = "AGE", default_value = "1m")]
    pub return_wait: String,
    /// How long to watch for what should not come any more
    #[arg(long, value_name = "AGE", default_value = "10s")]
    pub quiet: String,
    /// How long an IPN is left without an answer; more than the partner's own time-out
    #[arg(long, value_name = "AGE", default_value = "60s")]
    pub hang: String,
    /// Identity whose key signs the report [default: vault.key of the data folder]
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// Words of trouble, for a partner that is our sandbox
    #[arg(long, hide = true)]
    pub trouble: Option<String>,
    #[command(flatten)]
    pub output: OutputArgs,
}
