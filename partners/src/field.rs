//! Owns the fields of a notice of the default scheme (contract 2.3).

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

/// A field of the IPN payload (contract 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Field {
    /// Our account at the partner.
    MerchantCode,
    /// Our order id.
    OrderId,
    /// The partner's transaction.
    ProviderRef,
    /// SUCCESS, FAILED, EXPIRED or REFUNDED.
    Status,
    /// The amount, an integer in minor units.
    Amount,
    /// The currency, ISO 4217.
    Currency,
    /// When the payer paid.
    PaidAt,
    /// When the notice was sent.
    Timestamp,
    /// A value unique to this delivery, which protects against replay.
    Nonce,
    /// The signature over the other fields.
    Signature,
}

impl Field {
    /// The number of fields.
    pub(crate) const COUNT: usize = 10;

    /// Every field, in the order of the contract's table.
    pub const ALL: [Field; Self::COUNT] = [
        Self::MerchantCode,
        Self::OrderId,
        Self::ProviderRef,
        Self::Status,
        Self::Amount,
        Self::Currency,
        Self::PaidAt,
        Self::Timestamp,
        Self::Nonce,
        Self::Signature,
    ];

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MerchantCode => "merchantCode",
            Self::OrderId => "orderId",
            Self::ProviderRef => "providerRef",
            Self::Status => "status",
            Self::Amount => "amount",
            Self::Currency => "currency",
            Self::PaidAt => "paidAt",
            Self::Timestamp => "timestamp",
            Self::Nonce => "nonce",
            Self::Signature => "signature",
        }
    }

    /// The field of this name; case matters.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == name)
    }

    /// The field's index in an array with one slot for each field.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
