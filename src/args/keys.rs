//! Owns the arguments of `payfold key`, `payfold account` and `payfold shop`: who signs, what is let pass of whom, and
//! who may call.

use std::path::PathBuf;

use ipnet::IpNet;

use clap::{Args, Subcommand, ValueEnum};

use super::OutputArgs;

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Add a key to an account; the account is made if it is new
    Add(KeyAddArgs),
    /// List keys; never their secrets
    List {
        /// Only of this partner
        partner: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// End a key's validity
    Retire {
        /// Partner code
        partner: String,
        /// Key id
        key_id: String,
        /// Merchant code [default: the partner's only account]
        #[arg(long)]
        merchant: Option<String>,
        /// When, RFC 3339 [default: now]
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
    },
    /// Encrypt the vault to a new identity and put that in the place of the old one
    RotateIdentity,
}

#[derive(Debug, Args)]
pub struct KeyAddArgs {
    /// Partner code
    pub partner: String,
    /// Merchant code [default: the partner's only account]
    #[arg(long)]
    pub merchant: Option<String>,
    /// File that holds the secret as text:…, hex:… or base64:…; - reads standard input
    /// [default: a new random key is made and printed once]
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// Name of the key [default: k- and the time]
    #[arg(long)]
    pub key_id: Option<String>,
    /// From when it counts, RFC 3339 [default: now]
    #[arg(long, value_name = "TIME")]
    pub valid_from: Option<String>,
    /// What it signs: ipn keys sign everything a channel without keys of its own needs
    #[arg(long, value_enum, default_value_t = KeyChannel::Ipn)]
    pub channel: KeyChannel,
    /// How long the keys before it still count from then on; not shorter than the partner sends notices again
    /// (retry_horizon_s of its profile)
    #[arg(long, value_name = "AGE", default_value = "24h")]
    pub overlap: String,
    /// What the partner calls this key, where its notices name the one they were signed with
    #[arg(long)]
    pub serial: Option<String>,
    /// A value the partner gave out for the account, which its profile names; a new account has to have all of them
    #[arg(long, value_name = "NAME=VALUE")]
    pub constant: Vec<String>,
}

/// What a key signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeyChannel {
    /// Notices from server to server
    Ipn,
    /// Our create-payment calls
    Create,
    /// What a payer's browser brings back
    Return,
    /// Nothing: it decrypts what notices are wrapped in
    Unwrap,
    /// Our calls, with a private key (PEM)
    Sign,
    /// Nothing: the certificate and its private key (PEM) that our calls show the partner's TLS
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
pub enum AccountCommand {
    /// Accounts with what is let pass of each; never their keys
    List {
        /// Only of this partner
        partner: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Change what is named and leave the rest; a running system takes it within a second
    Set(AccountSetArgs),
}

#[derive(Debug, Args)]
pub struct AccountSetArgs {
    /// Partner code
    pub partner: String,
    /// Merchant code
    pub merchant: String,
    /// Take its notices
    #[arg(long, conflicts_with = "disabled")]
    pub enabled: bool,
    /// Take nothing of it: it is as unknown as an account that isn't there
    #[arg(long)]
    pub disabled: bool,
    /// Where its notices may come from, such as 203.0.113.0/24; once for each, in the place of those before
    #[arg(long, value_name = "CIDR")]
    pub allow_source: Vec<IpNet>,
    /// Let its notices come from anywhere
    #[arg(long, conflicts_with = "allow_source")]
    pub any_source: bool,
    /// How many signed notices a second it may send
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rate_per_s: Option<u32>,
    /// Let it send as many as it likes
    #[arg(long, conflicts_with = "rate_per_s")]
    pub any_rate: bool,
    /// A value the partner has given out for it, such as an access key's id; not secret. Once for each
    #[arg(long, value_name = "NAME=VALUE")]
    pub constant: Vec<String>,
    /// Forget a constant
    #[arg(long, value_name = "NAME")]
    pub no_constant: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub enum ShopCommand {
    /// Give a shop a new token, shown once; the shop is made if it is new
    Add(ShopAddArgs),
    /// List shops; never their tokens
    List {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// End every token of a shop
    Retire {
        /// The shop's name
        name: String,
        /// When, RFC 3339 [default: now]
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
    },
}

#[derive(Debug, Args)]
pub struct ShopAddArgs {
    /// The shop's name
    pub name: String,
    /// An account it may use and see, once for each; added to those it has
    #[arg(long, value_name = "PARTNER/MERCHANT")]
    pub account: Vec<String>,
    /// How long the tokens before this one still count
    #[arg(long, value_name = "AGE", default_value = "24h")]
    pub overlap: String,
}
