//! Owns flags: contradictions and oddities in an order's facts, the severity of each, and its
//! evidence. A flag is a predicate over the set of facts; a decision closes it while its evidence
//! stays the same.

use minicbor::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// How severe a raised flag is.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Encode,
    Decode,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[cbor(index_only)]
pub enum Severity {
    /// Worth knowing.
    #[n(0)]
    Info,
    /// Unusual; no money is at risk because of it alone.
    #[n(1)]
    Warn,
    /// A person should check it.
    #[n(2)]
    High,
    /// The order must not be fulfilled before a person decides.
    #[n(3)]
    Critical,
}

impl Severity {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

/// A contradiction or oddity in the set of facts; each is a predicate over that set.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Encode,
    Decode,
    JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[cbor(index_only)]
pub enum Flag {
    /// A notice's amount is not the amount of a create request.
    #[n(0)]
    AmountMismatch,
    /// A notice's currency is not the currency of a create request.
    #[n(1)]
    CurrencyMismatch,
    /// One (ref, status) has two money contents; for REFUNDED, one (ref, event reference).
    #[n(2)]
    ContentVariant,
    /// Two refs paid.
    #[n(3)]
    DoublePayment,
    /// A ref of this order is a ref of another order too.
    #[n(4)]
    ProviderRefReused,
    /// Two create requests of different content.
    #[n(5)]
    CreateConflict,
    /// Two sessions of different content.
    #[n(6)]
    SecondSession,
    /// One ref succeeded and failed.
    #[n(7)]
    SuccessAndFailed,
    /// One ref succeeded and expired.
    #[n(8)]
    SuccessAndExpired,
    /// Paid after the session's deadline.
    #[n(9)]
    PaidAfterDeadline,
    /// A refund of a ref that never succeeded.
    #[n(10)]
    RefundWithoutSuccess,
    /// A refund of a ref that failed or expired.
    #[n(11)]
    RefundAndNegative,
    /// A refund below the order's amount.
    #[n(12)]
    PartialRefund,
    /// The order has notices or query answers, and no create request.
    #[n(13)]
    UnknownOrder,
    /// A query's answer contradicts a notice.
    #[n(14)]
    QueryDisagrees,
    /// A notice waits for a query to confirm it.
    #[n(15)]
    Unconfirmed,
    /// Settled by a query's answer; no notice says the same.
    #[n(16)]
    SettledByQuery,
    /// A notice's ref is not the session's, although the profile requires it.
    #[n(17)]
    ProviderRefUnexpected,
    /// More facts than an order keeps.
    #[n(18)]
    FactOverflow,
    /// Two decisions disagree on one evidence.
    #[n(19)]
    DecisionsConflict,
}

impl Flag {
    /// Every flag.
    pub const ALL: [Flag; 20] = [
        Self::AmountMismatch,
        Self::CurrencyMismatch,
        Self::ContentVariant,
        Self::DoublePayment,
        Self::ProviderRefReused,
        Self::CreateConflict,
        Self::SecondSession,
        Self::SuccessAndFailed,
        Self::SuccessAndExpired,
        Self::PaidAfterDeadline,
        Self::RefundWithoutSuccess,
        Self::RefundAndNegative,
        Self::PartialRefund,
        Self::UnknownOrder,
        Self::QueryDisagrees,
        Self::Unconfirmed,
        Self::SettledByQuery,
        Self::ProviderRefUnexpected,
        Self::FactOverflow,
        Self::DecisionsConflict,
    ];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AmountMismatch => "AMOUNT_MISMATCH",
            Self::CurrencyMismatch => "CURRENCY_MISMATCH",
            Self::ContentVariant => "CONTENT_VARIANT",
            Self::DoublePayment => "DOUBLE_PAYMENT",
            Self::ProviderRefReused => "PROVIDER_REF_REUSED",
            Self::CreateConflict => "CREATE_CONFLICT",
            Self::SecondSession => "SECOND_SESSION",
            Self::SuccessAndFailed => "SUCCESS_AND_FAILED",
            Self::SuccessAndExpired => "SUCCESS_AND_EXPIRED",
            Self::PaidAfterDeadline => "PAID_AFTER_DEADLINE",
            Self::RefundWithoutSuccess => "REFUND_WITHOUT_SUCCESS",
            Self::RefundAndNegative => "REFUND_AND_NEGATIVE",
            Self::PartialRefund => "PARTIAL_REFUND",
            Self::UnknownOrder => "UNKNOWN_ORDER",
            Self::QueryDisagrees => "QUERY_DISAGREES",
            Self::Unconfirmed => "UNCONFIRMED",
            Self::SettledByQuery => "SETTLED_BY_QUERY",
            Self::ProviderRefUnexpected => "PROVIDER_REF_UNEXPECTED",
            Self::FactOverflow => "FACT_OVERFLOW",
            Self::DecisionsConflict => "DECISIONS_CONFLICT",
        }
    }

    /// Parses the name on the wire. `None` for any other text.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|flag| flag.as_str() == word)
    }
}

impl std::fmt::Display for Flag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// A flag that holds: its severity, its evidence, and the decision that closed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Encode, Decode, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RaisedFlag {
    /// The flag that holds.
    #[n(0)]
    pub flag: Flag,
    /// How severe it is.
    #[n(1)]
    pub severity: Severity,
    /// The digest of the facts that raise it, without `DeadlinePassed` and `Decided`.
    #[n(2)]
    pub evidence: Digest,
    /// The decision that closed it on exactly this evidence; `None` while it is open.
    #[n(3)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
}

impl RaisedFlag {
    /// Whether a person must look at it: it is open, and high or critical.
    pub fn needs_attention(&self) -> bool {
        self.is_open() && self.severity >= Severity::High
    }

    /// Whether no decision closes it.
    pub fn is_open(&self) -> bool {
        self.decided_by.is_none()
    }
}
