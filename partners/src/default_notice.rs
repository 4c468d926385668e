//! Owns the notices of the default scheme (contract 2.3 and 5): finds the key that signed a body
//! and reads its content as a `VerifiedNotice`, or returns a `Rejection`. Pure.
//!
//! A body that can't be parsed gets a 400 code. Every other body without a valid signature gets
//! `unauthenticated` after the same number of HMACs: for an unknown merchant, a disabled account,
//! an unknown partner, a wrong key and a malformed signature. Neither the answer nor its time
//! reveals the reason.
//!
//! Tried are the accounts with the notice's merchantCode, or the route's first if it names none
//! (`Directory::candidates`), with their keys that are valid now, and then with those that are not
//! valid yet. An absent field is signed as an empty text.
//!
//! The content of a signed notice is strict. Fields are checked in the order of the contract's
//! table, and the first fault is returned. Ingest checks the time, the fold checks the order.

use std::sync::Arc;

use payfold_schemas::ids::{Nonce, OrderId, ProviderRef};
use payfold_schemas::ipn::{MoneyContent, Status};
use payfold_schemas::money::{Amount, AmountError, Currency};
use payfold_schemas::text::{Text, TextRule};
use payfold_schemas::time::Time;

use crate::directory::Directory;
use crate::field::Field;
use crate::key_window::tried_at;
use crate::keys::Key;
use crate::mac::{MacKey, SIGNATURE_BYTES};
use crate::notice::{Notice, Scalar, ScalarKind};
use crate::notice_content::{ContentFault, FaultKind, NoticeContent, PaymentEvent, fault};
use crate::profile::Profile;
use crate::profile::rules::{NonceRule, UnknownFields};
use crate::profile::time::TimeRule;
use crate::rejection::{RejectCode, Rejection};
use crate::signed_content::SignedContent;
use crate::signing::signing_text;
use crate::verified::VerifiedNotice;

impl Directory {
    /// Verifies a body and reads it. `route_partner` is the partner in the path, or `None` on the
    /// shared route. Errors: a `Rejection`; it does not reveal which accounts exist.
    pub(crate) fn verify_default_scheme(
        &self,
        route_partner: Option<&str>,
        body: &[u8],
        now: Time,
    ) -> Result<VerifiedNotice, Rejection> {
        let notice = Notice::parse(body, self.limits(route_partner))?;
        let candidates = self.candidates(route_partner, &notice, now);
        let mut text = Vec::with_capacity(body.len());
        let mut tried = 0;
        for account in candidates.accounts {
            let profile = account.profile();
            let claim = ClaimedSignature::read(profile, &notice, &mut text);
            let signer = tried_at(account.keys().keys(), Key::window, now).find(|key| {
                tried += 1;
                key.has_signed(&text, &claim.signature)
            });
            if let (Some(key), true) = (signer, claim.is_well_formed) {
                return Ok(VerifiedNotice {
                    account: Arc::clone(account),
                    key_id: key.id().clone(),
                    key_begins: key.window().is_early_at(now).then(|| key.valid_from()),
                    sign: None,
                    is_unsigned: false,
                    signed: SignedContent::by(claim.signature),
                    covers_all: true,
                    covers_time: true,
                    shares_signature: false,
                    item: None,
                    content: read_content(profile, &notice, claim.ambiguous),
                    answer_bodies: Vec::new(),
                    unknown_fields: notice.unknown_fields(),
                });
            }
        }
        if candidates.accounts.is_empty() {
            ClaimedSignature::read(self.default_profile(), &notice, &mut text);
        }
        spend_hmacs(self.dummy_key(), &text, candidates.hmacs_min.saturating_sub(tried));
        Err(Rejection::new(RejectCode::Unauthenticated))
    }
}

/// The signature that a notice claims to have, read as one profile writes it.
struct ClaimedSignature {
    signature: [u8; SIGNATURE_BYTES],
    /// Whether the signature has the profile's format and every signed field has a text. If not,
    /// the notice is refused, after as many HMACs as a well-formed signature costs.
    is_well_formed: bool,
    /// The first signed field that contains the separator. The signing text is then ambiguous, and
    /// even a valid signature proves nothing.
    ambiguous: Option<Field>,
}

impl ClaimedSignature {
    fn read(profile: &Profile, notice: &Notice<'_>, text: &mut Vec<u8>) -> Self {
        text.clear();
        let ambiguous = signing_text(profile, |field| notice.signing_value(field), text);
        let written = notice.signing_value(Field::Signature).unwrap_or_default();
        let signature = profile.output().read(written);
        let is_signable = !profile.signed_fields().iter().any(|field| notice.is_composite(*field));
        Self {
            signature: signature.unwrap_or_default(),
            is_well_formed: signature.is_some() && is_signable,
            ambiguous,
        }
    }
}

/// Computes this many HMACs and ignores the results, so that a refusal takes the same time
/// whichever accounts exist.
fn spend_hmacs(key: &MacKey, text: &[u8], hmacs: usize) {
    for _ in 0..hmacs {
        std::hint::black_box(key.verifies(text, &[0; SIGNATURE_BYTES]));
    }
}

fn read_content(
    profile: &Profile,
    notice: &Notice<'_>,
    ambiguous: Option<Field>,
) -> Result<NoticeContent, ContentFault> {
    if profile.unknown_fields() == UnknownFields::Refuse && notice.unknown_fields() > 0 {
        return fault(FaultKind::UnknownField, "this partner's profile accepts no unknown fields");
    }
    if let Some(field) = ambiguous {
        return fault(FaultKind::Ambiguous, format!("in {}", field.name()));
    }
    text(notice, Field::MerchantCode)?;
    let order_id: OrderId = id(notice, Field::OrderId)?;
    let provider_ref: ProviderRef = id(notice, Field::ProviderRef)?;
    let status = text(notice, Field::Status)?;
    let status = Status::parse(status).ok_or_else(|| plain(FaultKind::UnknownStatus))?;
    let amount = amount(notice)?;
    let currency = text(notice, Field::Currency)?;
    let currency = Currency::parse(currency).map_err(|_| plain(FaultKind::UnknownCurrency))?;
    let paid_at = optional_time(notice, Field::PaidAt)?;
    if status == Status::Success && paid_at.is_none() {
        return Err(missing(Field::PaidAt));
    }
    let timestamp = timestamp(notice, profile.time())?;
    let nonce = nonce(notice, profile)?;
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
fn timestamp(notice: &Notice<'_>, rule: &TimeRule) -> Result<Option<Time>, ContentFault> {
    let Some(field) = rule.field else { return optional_time(notice, Field::Timestamp) };
    optional_time(notice, field)?.map(Some).ok_or_else(|| missing(field))
}

fn amount(notice: &Notice<'_>) -> Result<Amount, ContentFault> {
    let scalar = present(notice, Field::Amount)?;
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

fn nonce(notice: &Notice<'_>, profile: &Profile) -> Result<Option<Nonce>, ContentFault> {
    match (notice.present(Field::Nonce), profile.nonce()) {
        (None, NonceRule::Required) => Err(missing(Field::Nonce)),
        (_, NonceRule::Unused) | (None, NonceRule::Optional) => Ok(None),
        (Some(_), NonceRule::Required | NonceRule::Optional) => id(notice, Field::Nonce).map(Some),
    }
}

fn optional_time(notice: &Notice<'_>, field: Field) -> Result<Option<Time>, ContentFault> {
    if notice.present(field).is_none() {
        return Ok(None);
    }
    let bad = || {
        let detail =
            format!("{} must be RFC 3339 with a zone, in the years 1678 to 2261", field.name());
        detailed(FaultKind::BadTimestamp, detail)
    };
    // A number may be a time in Unix seconds, so it is a bad timestamp and not a wrong type.
    if present(notice, field)?.kind == ScalarKind::Number {
        return Err(bad());
    }
    Time::parse(text(notice, field)?).map(Some).map_err(|_| bad())
}

fn id<R: TextRule>(notice: &Notice<'_>, field: Field) -> Result<Text<R>, ContentFault> {
    Ok(Text::parse(text(notice, field)?)?)
}

/// A required string that is not blank.
fn text<'a>(notice: &'a Notice<'_>, field: Field) -> Result<&'a str, ContentFault> {
    let scalar = present(notice, field)?;
    if scalar.kind != ScalarKind::String {
        return Err(wrong_type(field));
    }
    let text = scalar.text;
    if text.trim().is_empty() {
        return fault(FaultKind::Empty, format!("{} is empty", field.name()));
    }
    Ok(text)
}

fn present<'a>(notice: &'a Notice<'_>, field: Field) -> Result<Scalar<'a>, ContentFault> {
    notice.present(field).ok_or_else(|| missing(field))
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

#[cfg(test)]
mod tests;
