//! Owns admission: is a verified notice what the contract says (2.3, 7)? Pure; `now` is passed in.
//! Strict shape first, in the order of the contract's table, then the clock. What the fold can judge
//! (amount against the create request, unknown order, contradictions) is not judged here.

use payfold_partners::notice::{Scalar, ScalarKind};
use payfold_partners::profile::{Field, NonceRule, Profile, TimeKind, TimeRule, UnknownFields};
use payfold_partners::verify::VerifiedIpn;
use payfold_schemas::ids::{Nonce, OrderId, OrderKey, ProviderRef};
use payfold_schemas::ipn::{Ipn, MoneyContent, Status};
use payfold_schemas::money::{Amount, AmountError, Currency};
use payfold_schemas::record::{NoticeRequest, NoticeSource};
use payfold_schemas::text::{Text, TextError, TextRule};
use payfold_schemas::time::Time;

use crate::intake;
use crate::refusal::{Code, Refusal};

/// A notice that is what the contract says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The order it names.
    pub order: OrderKey,
    /// The notice, normalised.
    pub ipn: Ipn,
}

impl Admitted {
    /// Puts where it came from beside it.
    pub fn with_source(
        self,
        verified: &VerifiedIpn<'_>,
        request: NoticeRequest,
    ) -> intake::Admitted {
        intake::Admitted { order: self.order, ipn: self.ipn, source: source(verified, request) }
    }
}

/// Where a verified notice came from: profile, key and request.
pub fn source(verified: &VerifiedIpn<'_>, request: NoticeRequest) -> NoticeSource {
    NoticeSource {
        profile: verified.profile().stamp().clone(),
        key_id: verified.key_id().clone(),
        request,
    }
}

/// Judges a verified notice. Errors: a refusal that names the field; the notice then goes to quarantine.
pub fn admit(verified: &VerifiedIpn<'_>, now: Time) -> Result<Admitted, Refusal> {
    let profile = verified.profile();
    if profile.unknown_fields() == UnknownFields::Refuse && verified.unknown_fields() > 0 {
        return Err(Refusal::because(
            Code::UnknownField,
            "this partner's profile takes no fields of its own",
        ));
    }
    if let Some(field) = verified.separator_in_signed_value() {
        return Err(Refusal::because(Code::SeparatorInField, format!("in {}", field.name())));
    }
    text(verified, Field::MerchantCode)?;
    let order_id: OrderId = id(verified, Field::OrderId)?;
    let provider_ref: ProviderRef = id(verified, Field::ProviderRef)?;
    let status = text(verified, Field::Status)?;
    let status = Status::parse(status).ok_or_else(|| Refusal::new(Code::UnknownStatus))?;
    let amount = amount(verified)?;
    let currency = text(verified, Field::Currency)?;
    let currency = Currency::parse(currency).map_err(|_| Refusal::new(Code::UnknownCurrency))?;
    let paid_at = optional_time(verified, Field::PaidAt)?;
    if status == Status::Success && paid_at.is_none() {
        return Err(missing(Field::PaidAt));
    }
    let timestamp = timestamp(verified, profile.time())?;
    let nonce = nonce(verified, profile)?;
    let account = verified.account();
    let order = OrderKey {
        partner: account.partner().clone(),
        merchant_code: account.merchant_code().clone(),
        order_id,
    };
    let money = MoneyContent { amount, currency, paid_at, event_ref: None };
    let policy = profile.policy(provider_ref.as_str());
    let ipn = Ipn { provider_ref, status, money, timestamp, nonce, policy };
    if let Some(timestamp) = timestamp {
        in_window(profile.time(), timestamp, now)?;
    }
    Ok(Admitted { order, ipn })
}

/// The clock's word: 300 s either way pass, a nanosecond more does not (contract 7.1).
fn in_window(rule: &TimeRule, timestamp: Time, now: Time) -> Result<(), Refusal> {
    let behind_ms_max = match rule.kind {
        TimeKind::Delivery => Some(rule.skew_ms),
        TimeKind::Event => rule.max_age_ms,
        TimeKind::None => None,
    };
    let too_old = behind_ms_max.is_some_and(|max_ms| now > timestamp.plus_ms(max_ms));
    let too_far_ahead = timestamp > now.plus_ms(rule.skew_ms);
    if !too_old && !too_far_ahead {
        return Ok(());
    }
    let direction = if too_old { "old" } else { "ahead" };
    let seconds = now.nanos_since(timestamp).unsigned_abs() / 1_000_000_000;
    Err(Refusal::because(
        Code::TimestampOutOfWindow,
        format!("the timestamp is {seconds} s {direction}"),
    ))
}

/// The notice's own time, where the profile has one.
fn timestamp(verified: &VerifiedIpn<'_>, rule: &TimeRule) -> Result<Option<Time>, Refusal> {
    let Some(field) = rule.field else { return optional_time(verified, Field::Timestamp) };
    optional_time(verified, field)?.map(Some).ok_or_else(|| missing(field))
}

fn amount(verified: &VerifiedIpn<'_>) -> Result<Amount, Refusal> {
    let scalar = present(verified, Field::Amount)?;
    if scalar.kind != ScalarKind::Number {
        return Err(wrong_type(Field::Amount));
    }
    Amount::parse(scalar.text).map_err(|error| {
        Refusal::new(match error {
            AmountError::NotInteger => Code::AmountNotInteger,
            AmountError::OutOfRange => Code::AmountOutOfRange,
        })
    })
}

fn nonce(verified: &VerifiedIpn<'_>, profile: &Profile) -> Result<Option<Nonce>, Refusal> {
    match (verified.field(Field::Nonce), profile.nonce()) {
        (None, NonceRule::Required) => Err(missing(Field::Nonce)),
        (None, NonceRule::Optional | NonceRule::Unused) => Ok(None),
        (Some(_), _) => id(verified, Field::Nonce).map(Some),
    }
}

fn optional_time(verified: &VerifiedIpn<'_>, field: Field) -> Result<Option<Time>, Refusal> {
    if verified.field(field).is_none() {
        return Ok(None);
    }
    let value = text(verified, field)?;
    Time::parse(value).map(Some).map_err(|_| {
        Refusal::because(
            Code::BadTimestamp,
            format!("{} must be RFC 3339 with a zone", field.name()),
        )
    })
}

fn id<R: TextRule>(verified: &VerifiedIpn<'_>, field: Field) -> Result<Text<R>, Refusal> {
    Text::parse(text(verified, field)?).map_err(|error| {
        let code = match error {
            TextError::Empty { .. } => Code::EmptyField,
            TextError::TooLong { .. } => Code::FieldTooLong,
            TextError::IllegalCharacter { .. } => Code::IllegalCharacter,
        };
        Refusal::because(code, error.to_string())
    })
}

/// A required string that is not blank.
fn text<'a>(verified: &'a VerifiedIpn<'_>, field: Field) -> Result<&'a str, Refusal> {
    let scalar = present(verified, field)?;
    if scalar.kind != ScalarKind::String {
        return Err(wrong_type(field));
    }
    let text = scalar.text;
    if text.trim().is_empty() {
        return Err(Refusal::because(Code::EmptyField, format!("{} is empty", field.name())));
    }
    Ok(text)
}

fn present<'a>(verified: &'a VerifiedIpn<'_>, field: Field) -> Result<Scalar<'a>, Refusal> {
    verified.field(field).ok_or_else(|| missing(field))
}

fn missing(field: Field) -> Refusal {
    Refusal::because(Code::MissingField, format!("{} is required", field.name()))
}

fn wrong_type(field: Field) -> Refusal {
    let wanted = if field == Field::Amount { "a JSON number" } else { "a JSON string" };
    Refusal::because(Code::WrongType, format!("{} must be {wanted}", field.name()))
}
