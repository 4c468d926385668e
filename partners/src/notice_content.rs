//! Owns the content of a verified notice in the contract's terms, and the faults that content may
//! have. Default and custom schemes both use it.

use payfold_schemas::ids::{Nonce, OrderId, ProviderRef};
use payfold_schemas::ipn::{IpnPolicy, MoneyContent, Status};
use payfold_schemas::text::TextError;
use payfold_schemas::time::Time;

use crate::scheme::template_values::TemplateValueError;

/// The event of a payment that a notice reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentEvent {
    /// Our order.
    pub order_id: OrderId,
    /// The partner's transaction.
    pub provider_ref: ProviderRef,
    /// The payment's new status.
    pub status: Status,
    /// Amount, currency and time of payment.
    pub money: MoneyContent,
    /// The notice's own time, if the profile has one.
    pub timestamp: Option<Time>,
    /// The nonce of this delivery.
    pub nonce: Option<Nonce>,
    /// The properties of the profile that the fold needs.
    pub policy: IpnPolicy,
}

/// The content of an authenticated notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeContent {
    /// An event of a payment.
    Event(Box<PaymentEvent>),
    /// A kind of notice that the profile acknowledges and ignores.
    Ignored,
    /// A kind of notice that the profile acknowledges and keeps in quarantine: it is about money
    /// and names no known order.
    NoOrder,
}

/// The kind of a fault in an authenticated notice. Each has the name of its refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// `missing_field`
    Missing,
    /// `empty_field`
    Empty,
    /// `wrong_type`
    WrongType,
    /// `unknown_status`: the profile refuses this kind of event.
    UnknownStatus,
    /// `amount_not_integer`
    AmountNotInteger,
    /// `amount_out_of_range`
    AmountOutOfRange,
    /// `unknown_currency`
    UnknownCurrency,
    /// `field_too_long`
    TooLong,
    /// `illegal_character`
    IllegalCharacter,
    /// `bad_timestamp`
    BadTimestamp,
    /// `duplicate_field`
    Repeated,
    /// `invalid_encoding`: a value that is read is not UTF-8.
    NotText,
    /// `separator_in_field`: the signed text can be read in more than one way.
    Ambiguous,
    /// `unknown_field`: the profile accepts no fields beyond the contract's.
    UnknownField,
}

impl FaultKind {
    /// The message of a fault without a detail.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Missing => "a value is missing",
            Self::Empty => "a value is empty",
            Self::WrongType => "a value has the wrong type",
            Self::UnknownStatus => "the status is not one of the contract's",
            Self::AmountNotInteger => "the amount is not an integer in minor units",
            Self::AmountOutOfRange => "the amount is out of range",
            Self::UnknownCurrency => "the currency is not an ISO 4217 code with minor units",
            Self::TooLong => "a value is too long",
            Self::IllegalCharacter => "a value has a character that is not allowed",
            Self::BadTimestamp => "a time is not in the profile's format",
            Self::Repeated => "a value is there more than once",
            Self::NotText => "a value is not UTF-8",
            Self::Ambiguous => "the signed text can be read in more than one way",
            Self::UnknownField => "there is a field that the profile does not know",
        }
    }
}

/// Why an authenticated notice can't be admitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", detail.as_deref().unwrap_or(kind.title()))]
pub struct ContentFault {
    /// The kind of fault.
    pub kind: FaultKind,
    /// The place in the notice and the fault, never a value. `None` if the kind is enough.
    pub detail: Option<String>,
}

pub(crate) fn fault<T>(kind: FaultKind, detail: impl Into<String>) -> Result<T, ContentFault> {
    Err(ContentFault { kind, detail: Some(detail.into()) })
}

impl From<TextError> for ContentFault {
    fn from(error: TextError) -> Self {
        let kind = match error {
            TextError::Empty { .. } => FaultKind::Empty,
            TextError::TooLong { .. } => FaultKind::TooLong,
            TextError::IllegalCharacter { .. } => FaultKind::IllegalCharacter,
        };
        Self { kind, detail: Some(error.to_string()) }
    }
}

impl From<TemplateValueError> for ContentFault {
    fn from(unusable: TemplateValueError) -> Self {
        let kind = match &unusable {
            TemplateValueError::Repeated(_) => FaultKind::Repeated,
            TemplateValueError::Composite(_) => FaultKind::WrongType,
            TemplateValueError::NotText(_) => FaultKind::NotText,
            TemplateValueError::NoConstant(_) | TemplateValueError::NoSecret(_) => {
                FaultKind::Missing
            }
        };
        Self { kind, detail: Some(unusable.to_string()) }
    }
}
