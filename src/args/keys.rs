//! Owns the arguments of `payfold key` and `payfold shop`: who signs, and who may call.

use std::path::PathBuf;

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
    /// How long the keys before it still count from then on
    #[arg(long, value_name = "AGE", default_value = "24h")]
    pub overlap: String,
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
}

impl From<KeyChannel> for payfold_partners::keys::Channel {
    fn from(channel: KeyChannel) -> Self {
        match channel {
            KeyChannel::Ipn => Self::Ipn,
            KeyChannel::Create => Self::Create,
            KeyChannel::Return => Self::Return,
        }
    }
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
