//! Owns a shop as the vault stores it: its accounts, and the digests of its tokens.

use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{MerchantCode, PartnerCode, ShopName};
use payfold_schemas::time::Time;
use serde::{Deserialize, Serialize};

/// One shop, as the vault stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShopEntry {
    /// The shop's name.
    pub name: ShopName,
    /// The accounts it may use and see.
    pub accounts: Vec<ShopAccount>,
    /// Its tokens, the oldest first.
    #[serde(default)]
    pub tokens: Vec<ShopToken>,
}

/// An account that a shop may use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShopAccount {
    /// The partner's code.
    pub partner: PartnerCode,
    /// Our account's code at the partner.
    pub merchant_code: MerchantCode,
}

impl std::fmt::Display for ShopAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.partner, self.merchant_code)
    }
}

/// One token of a shop. The token itself is not stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShopToken {
    /// The SHA-256 of the token.
    pub sha256: Digest,
    /// When the token was created.
    pub created_at: Time,
    /// The end of its validity, exclusive; absent until the token is replaced or retired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<Time>,
}

impl ShopToken {
    /// Whether the token is valid at `now`.
    pub fn is_valid_at(&self, now: Time) -> bool {
        self.valid_until.is_none_or(|until| now < until)
    }

    pub(crate) fn end_at(&mut self, at: Time) {
        self.valid_until = Some(self.valid_until.map_or(at, |until| until.min(at)));
    }
}

impl ShopEntry {
    /// Whether this shop may use and see an account.
    pub fn may_see(&self, partner: &PartnerCode, merchant_code: &MerchantCode) -> bool {
        self.accounts.iter().any(|a| a.partner == *partner && a.merchant_code == *merchant_code)
    }
}
