//! Owns the arguments of `payfold key`, `payfold account` and `payfold shop`: keys, limits of
//! accounts, and tokens of shops.

use std::path::PathBuf;

use ipnet::IpNet;

use clap::{Args, Subcommand, ValueEnum};

use super::common::OutputArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Add a key to an account; a new account is created
    #[command(after_help = "Example: payfold key add acme --merchant SHOP-1 --secret-file -")]
    Add(KeyAddArgs),
    /// List keys and when each last signed a notice; never their secrets
    #[command(after_help = "Example: payfold key list acme")]
    List {
        /// Only keys of this partner
        partner: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// End the validity of a key
    #[command(after_help = "Example: payfold key retire acme k-1769853600000")]
    Retire(KeyRetireArgs),
    /// Encrypt the vault to a new age identity, which replaces the old one
    #[command(after_help = "Example: payfold key rotate-identity")]
    RotateIdentity,
}

#[derive(Debug, Args)]
pub(crate) struct KeyRetireArgs {
    /// Partner code
    pub partner: String,
    /// Key id
    pub key_id: String,
    /// Merchant code [default: the partner's only account]
    #[arg(long)]
    pub merchant: Option<String>,
    /// When its validity ends, RFC 3339 [default: now]
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// End it even if it is the last valid key of its account and channel: notices then get 401, or
    /// calls can't be signed
    #[arg(long)]
    pub last: bool,
}

#[derive(Debug, Args)]
pub(crate) struct KeyAddArgs {
    /// Partner code
    pub partner: String,
    /// Merchant code [default: the partner's only account]
    #[arg(long)]
    pub merchant: Option<String>,
    /// File with the secret as text:…, hex:… or base64:…; - reads standard input
    /// [default: a new random key is generated and printed once]
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// Id of the key [default: k- and the time]
    #[arg(long)]
    pub key_id: Option<String>,
    /// When its validity begins, RFC 3339 [default: now]
    #[arg(long, value_name = "TIME")]
    pub valid_from: Option<String>,
    /// What the key is for; ipn keys also serve a channel that has no key of its own
    #[arg(long, value_enum, default_value_t = KeyChannel::Ipn)]
    pub channel: KeyChannel,
    /// How long earlier keys stay valid after the new one begins, or from now on if it began in the
    /// past; at least as long as the partner sends notices again (retry_horizon_s of its profile)
    #[arg(long, value_name = "AGE", default_value = "24h")]
    pub overlap: String,
    /// The partner's name for this key, if its notices name the key that signed them
    #[arg(long)]
    pub serial: Option<String>,
    /// A value that the partner gave out for the account and that its profile names; a new account
    /// needs all of them
    #[arg(long, value_name = "NAME=VALUE")]
    pub constant: Vec<String>,
}

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeyChannel {
    /// Notices from server to server
    Ipn,
    /// Our create-payment calls
    Create,
    /// Returns of payers' browsers
    Return,
    /// Decryption of encrypted notices; it signs nothing
    Unwrap,
    /// Our calls, with a private key (PEM)
    Sign,
    /// TLS of our calls: the client certificate and its private key (PEM); it signs nothing
    Tls,
}

impl From<KeyChannel> for payfold_partners::keys::Channel {
    fn from(channel: KeyChannel) -> Self {
        match channel {
            KeyChannel::Ipn => Self::Ipn,
            KeyChannel::Create => Self::Create,
            KeyChannel::Return => Self::Return,
            KeyChannel::Unwrap => Self::Unwrap,
            KeyChannel::Sign => Self::Sign,
            KeyChannel::Tls => Self::Tls,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum AccountCommand {
    /// List accounts with their limits and constants; never their keys
    #[command(after_help = "Example: payfold account list acme")]
    List {
        /// Only accounts of this partner
        partner: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Change the given settings of an account; a running system applies them within a second
    #[command(after_help = "Example: payfold account set acme SHOP-1 --rate-per-s 200")]
    Set(AccountSetArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AccountSetArgs {
    /// Partner code
    pub partner: String,
    /// Merchant code
    pub merchant: String,
    /// Accept notices of this account
    #[arg(long, conflicts_with = "disabled")]
    pub enabled: bool,
    /// Refuse everything of this account, as if it did not exist
    #[arg(long)]
    pub disabled: bool,
    /// Network that its notices may come from, such as 203.0.113.0/24; repeat for several. The
    /// earlier list is replaced
    #[arg(long, value_name = "CIDR")]
    pub allow_source: Vec<IpNet>,
    /// Accept its notices from any address
    #[arg(long, conflicts_with = "allow_source")]
    pub any_source: bool,
    /// Maximum of new facts a second; what is quarantined has ten times that
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rate_per_s: Option<u32>,
    /// Remove the limit of notices a second
    #[arg(long, conflicts_with = "rate_per_s")]
    pub any_rate: bool,
    /// A value that the partner gave out for the account and that is not secret, such as an access
    /// key's id; repeat for several
    #[arg(long, value_name = "NAME=VALUE")]
    pub constant: Vec<String>,
    /// Remove a constant
    #[arg(long, value_name = "NAME")]
    pub no_constant: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ShopCommand {
    /// Add a token to a shop and print it once; a new shop is created
    #[command(after_help = "Example: payfold shop add tickets --account acme/SHOP-1")]
    Add(ShopAddArgs),
    /// List shops and the hashes of their tokens; never the tokens
    #[command(after_help = "Example: payfold shop list")]
    List {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// End the validity of every token of a shop
    #[command(after_help = "Example: payfold shop retire tickets")]
    Retire {
        /// The shop's name
        name: String,
        /// When their validity ends, RFC 3339 [default: now]
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ShopAddArgs {
    /// The shop's name
    pub name: String,
    /// An account that the shop may use and see; repeat for several. It is added to the shop's
    /// accounts
    #[arg(long, value_name = "PARTNER/MERCHANT")]
    pub account: Vec<String>,
    /// How long earlier tokens stay valid
    #[arg(long, value_name = "AGE", default_value = "24h")]
    pub overlap: String,
}
