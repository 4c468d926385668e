//! Owns the call that lists our accounts at partners, with their keys and without any secret.

use payfold_partners::keys::Channel;
use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};
use payfold_schemas::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::call::{Call, Nothing};

pub const ACCOUNTS: Call<Nothing, Accounts> = Call::get(
    "/v1/accounts",
    "Lists the accounts in force, with their keys and without any secret",
);

/// Accounts at partners.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Accounts {
    /// The accounts.
    pub accounts: Vec<AccountInForce>,
}

/// An account at a partner.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountInForce {
    /// The partner.
    pub partner: PartnerCode,
    /// Our merchant code at the partner.
    pub merchant_code: MerchantCode,
    /// Whether its notices are accepted.
    pub enabled: bool,
    /// The stage of the partner's profile: `draft`, `sandbox`, `frozen` or `live`.
    pub stage: String,
    /// The version of the partner's profile.
    pub profile_version: u32,
    /// The networks that its notices may come from; empty for any.
    pub allow_sources: Vec<String>,
    /// The most signed notices that it may send in a second; null without a limit of its own.
    pub rate_per_s: Option<u32>,
    /// Its keys, those of one channel together.
    pub keys: Vec<KeyInForce>,
}

/// A key of an account.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyInForce {
    /// The key's id.
    pub id: KeyId,
    /// What it is for.
    pub channel: Channel,
    /// When it begins to count.
    pub valid_from: Time,
    /// When it ends; null without an end.
    pub valid_until: Option<Time>,
}

impl KeyInForce {
    /// Whether it counts at this time.
    pub fn counts_at(&self, time: Time) -> bool {
        self.valid_from <= time && self.valid_until.is_none_or(|until| time < until)
    }
}
