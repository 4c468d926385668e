//! Owns the reading of a notice of the default scheme (contract 2.3). Pure. The shape is strict;
//! fields are checked in the order of the contract's table, and the first fault is returned. Ingest
//! checks the time, the fold checks the order.

use payfold_schemas::ids::{Nonce, OrderId, ProviderRef};
use payfold_schemas::ipn::{MoneyContent, Status};
use payfold_schemas::money::{Amount, AmountError, Currency};
use payfold_schemas::text::{Text, TextRule};
use payfold_schemas::time::Time;

use crate::field::Field;
use crate::notice::{Scalar, ScalarKind};
use crate::notice_content::{ContentFault, FaultKind, NoticeContent, PaymentEvent, fault};
use crate::profile::Profile;
use crate::profile::rules::{NonceRule, UnknownFields};
use crate::profile::time::TimeRule;
use crate::signed_content::SignedContent;
use crate::verified::VerifiedNotice;
use crate::verify::VerifiedIpn;

impl VerifiedNotice {
    /// Reads a verified notice of the default scheme.
    pub(crate) fn of_contract(verified: &VerifiedIpn<'_>) -> Self {
        Self {
            account: verified.account().clone(),
            key_id: verified.key_id().clone(),
            sign: None,
            is_unsigned: false,
            signed: SignedContent::by(*verified.signature()),
            covers_all: true,
            covers_time: true,
            shares_signature: false,
            item: None,
            content: read_content(verified),
            answers: Vec::new(),
            unknown_fields: verified.unknown_fields(),
        }
    }
}

fn read_content(verified: &VerifiedIpn<'_>) -> Result<NoticeContent, ContentFault> {
    let profile = verified.profile();
    if profile.unknown_fields() == UnknownFields::Refuse && verified.unknown_fields() > 0 {
        return fault(FaultKind::UnknownField, "this partner's profile accepts no unknown fields");
    }
    if let Some(field) = verified.separator_in_signed_value() {
        return fault(FaultKind::Ambiguous, format!("in {}", field.name()));
    }
    text(verified, Field::MerchantCode)?;
    let order_id: OrderId = id(verified, Field::OrderId)?;
    let provider_ref: ProviderRef = id(verified, Field::ProviderRef)?;
    let status = text(verified, Field::Status)?;
    let status = Status::parse(status).ok_or_else(|| plain(FaultKind::UnknownStatus))?;
    let amount = amount(verified)?;
    let currency = text(verified, Field::Currency)?;
    let currency = Currency::parse(currency).map_err(|_| plain(FaultKind::UnknownCurrency))?;
    let paid_at = optional_time(verified, Field::PaidAt)?;
    if status == Status::Success && paid_at.is_none() {
        return Err(missing(Field::PaidAt));
    }
    let timestamp = timestamp(verified, profile.time())?;
    let nonce = nonce(verified, profile)?;
    let money = MoneyContent { amount, currency, paid_at, event_ref: None };
    let policy = profile.policy(provider_ref.as_str());
    Ok(NoticeContent::Event(Box::new(PaymentEvent {
        order_id,
        provider_ref,
        status,
        money,
        timestamp,
        nonce,
        policy,
    })))
}

/// The notice's own time, if the profile has one.
fn timestamp(verified: &VerifiedIpn<'_>, rule: &TimeRule) -> Result<Option<Time>, ContentFault> {
    let Some(field) = rule.field else { return optional_time(verified, Field::Timestamp) };
    optional_time(verified, field)?.map(Some).ok_or_else(|| missing(field))
}

fn amount(verified: &VerifiedIpn<'_>) -> Result<Amount, ContentFault> {
    let scalar = present(verified, Field::Amount)?;
    if scalar.kind != ScalarKind::Number {
        return Err(wrong_type(Field::Amount));
    }
    Amount::parse(scalar.text).map_err(|error| {
        plain(match error {
            AmountError::NotInteger => FaultKind::AmountNotInteger,
            AmountError::OutOfRange => FaultKind::AmountOutOfRange,
        })
    })
}

fn nonce(verified: &VerifiedIpn<'_>, profile: &Profile) -> Result<Option<Nonce>, ContentFault> {
    match (verified.field(Field::Nonce), profile.nonce()) {
        (None, NonceRule::Required) => Err(missing(Field::Nonce)),
        (_, NonceRule::Unused) | (None, NonceRule::Optional) => Ok(None),
        (Some(_), NonceRule::Required | NonceRule::Optional) => {
            id(verified, Field::Nonce).map(Some)
        }
    }
}

fn optional_time(verified: &VerifiedIpn<'_>, field: Field) -> Result<Option<Time>, ContentFault> {
    if verified.field(field).is_none() {
        return Ok(None);
    }
    let bad = || {
        let detail =
            format!("{} must be RFC 3339 with a zone, in the years 1678 to 2261", field.name());
        detailed(FaultKind::BadTimestamp, detail)
    };
    // A number may be a time in Unix seconds, so it is a bad timestamp and not a wrong type.
    if present(verified, field)?.kind == ScalarKind::Number {
        return Err(bad());
    }
    Time::parse(text(verified, field)?).map(Some).map_err(|_| bad())
}

fn id<R: TextRule>(verified: &VerifiedIpn<'_>, field: Field) -> Result<Text<R>, ContentFault> {
    Ok(Text::parse(text(verified, field)?)?)
}

/// A required string that is not blank.
fn text<'a>(verified: &'a VerifiedIpn<'_>, field: Field) -> Result<&'a str, ContentFault> {
    let scalar = present(verified, field)?;
    if scalar.kind != ScalarKind::String {
        return Err(wrong_type(field));
    }
    let text = scalar.text;
    if text.trim().is_empty() {
        return fault(FaultKind::Empty, format!("{} is empty", field.name()));
    }
    Ok(text)
}

fn present<'a>(verified: &'a VerifiedIpn<'_>, field: Field) -> Result<Scalar<'a>, ContentFault> {
    verified.field(field).ok_or_else(|| missing(field))
}

fn missing(field: Field) -> ContentFault {
    detailed(FaultKind::Missing, format!("{} is required", field.name()))
}

fn wrong_type(field: Field) -> ContentFault {
    let wanted = if field == Field::Amount { "a JSON number" } else { "a JSON string" };
    detailed(FaultKind::WrongType, format!("{} must be {wanted}", field.name()))
}

fn detailed(kind: FaultKind, detail: String) -> ContentFault {
    ContentFault { kind, detail: Some(detail) }
}

fn plain(kind: FaultKind) -> ContentFault {
    ContentFault { kind, detail: None }
}
