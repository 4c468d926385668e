//! Owns the types of a status query: the payment that is asked for, the status a valid answer
//! gives, and the rules an invalid answer breaks. No part of an answer is repaired or guessed.
//! `scheme::query` builds the request and judges the answer.

use payfold_schemas::fact::QueryAnswer;
use payfold_schemas::ids::{MerchantCode, OrderId, ProviderRef};

/// A status query for one payment of one of our accounts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PaymentQuery {
    /// Our account at the partner.
    pub merchant_code: MerchantCode,
    /// The order. The answer must name it.
    pub order_id: OrderId,
    /// The partner's transaction. `None` if it is not known yet; the query then names the order.
    pub provider_ref: Option<ProviderRef>,
}

/// The status of a payment, as a valid answer gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaymentStatus {
    /// The payment is not decided yet.
    Pending,
    /// The partner knows no such payment.
    Unknown,
    /// The payment has reached a terminal status.
    Terminal(QueryAnswer),
}

/// The rule that a complete answer breaks: it is about another payment, or a value in it can't be
/// used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryViolation {
    /// The partner answered with a redirect.
    Redirect,
    /// The body is not a JSON object, or has a key twice.
    NotJson,
    /// merchantCode differs from the one in the query.
    MerchantCode,
    /// orderId differs from the one in the query.
    OrderId,
    /// providerRef can't be used, or differs from the one in the query.
    ProviderRef,
    /// The profile does not list this status.
    Status,
    /// amount is not plain digits of minor units.
    Amount,
    /// currency is not an ISO 4217 code with minor units.
    Currency,
}

impl QueryViolation {
    /// Every rule, in the order in which they are checked.
    pub const ALL: [QueryViolation; 8] = [
        Self::Redirect,
        Self::NotJson,
        Self::MerchantCode,
        Self::OrderId,
        Self::Status,
        Self::ProviderRef,
        Self::Amount,
        Self::Currency,
    ];

    /// The rule's name in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redirect => "redirect",
            Self::NotJson => "not_json",
            Self::MerchantCode => "merchant_code",
            Self::OrderId => "order_id",
            Self::ProviderRef => "provider_ref",
            Self::Status => "status",
            Self::Amount => "amount",
            Self::Currency => "currency",
        }
    }
}
