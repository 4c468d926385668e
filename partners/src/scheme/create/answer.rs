//! Owns what the answer to a create call is worth in a partner's own scheme. Pure. The rules of the contract hold where
//! they make sense: a page or a QR code that can be shown, a transaction that is one, an expiry that is to come.

use payfold_schemas::ids::{OrderId, ProviderRef};
use payfold_schemas::time::Time;

use super::{ExpiryFormat, OfferRule, ref_of_order};
use crate::create::{Offer, Violation, Wish, qr_payload, redirect_url};
use crate::outbound::Reach;
use crate::profile::Limits;
use crate::scheme::Scheme;
use crate::scheme::map::holds;
use crate::scheme::reading::{Context, Of, Reading};
use crate::scheme::request::Request;
use crate::scheme::template::Template;

/// Characters of a partner's code that are logged.
const CODE_CHARS_MAX: usize = 64;

/// What was asked for, as far as the answer is judged by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) order_id: OrderId,
    /// What the partner was told, or lasts there.
    pub(crate) expires_at: Time,
    pub(crate) wish: Option<Wish>,
}

/// Why a complete answer is no offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoOffer {
    /// The partner says no; with its code, empty where it says none.
    Declined(String),
    Violation(Violation),
}

impl From<Violation> for NoOffer {
    fn from(rule: Violation) -> Self {
        Self::Violation(rule)
    }
}

/// Judges a complete answer with a success status. Errors: a no, or the first rule it breaks.
pub(crate) fn judge(
    (scheme, offer): (&Scheme, &OfferRule),
    (limits, of): (Limits, Of<'_>),
    asked: &Asked,
    body: &[u8],
    (reach, now): (Reach, Time),
) -> Result<Offer, NoOffer> {
    let document = offer.content.parse(limits, body).ok_or(Violation::NotJson)?;
    let request = Request::default();
    let reading = Reading::of_document(scheme, &request, limits, Some(document));
    let context = Context::bare(&reading, &of);
    if !holds(&offer.success, context).unwrap_or(false) {
        return Err(NoOffer::Declined(code(offer, context)));
    }
    let text = |template: &Template| context.string(template).ok().filter(|text| !text.is_empty());
    let provider_ref = match &offer.provider_ref {
        None => ref_of_order(&asked.order_id),
        Some(place) => {
            let parsed = text(place).and_then(|text| ProviderRef::parse(&text).ok());
            parsed.ok_or(Violation::ProviderRef)?
        }
    };
    let wants_qr = match (&offer.redirect, &offer.qr) {
        (Some(_), Some(_)) => asked.wish == Some(Wish::Qr),
        (redirect, _) => redirect.is_none(),
    };
    let place = if wants_qr { &offer.qr } else { &offer.redirect };
    let shown = place.as_ref().and_then(text).ok_or(Violation::NoPresentation)?;
    let presentation = if wants_qr { qr_payload(&shown) } else { redirect_url(&shown, reach) }?;
    let expires_at = match &offer.expires {
        None => asked.expires_at,
        Some((place, format)) => {
            let read = text(place).and_then(|text| expires_at(format, &text, now));
            read.ok_or(Violation::ExpiresAt)?
        }
    };
    if expires_at <= now {
        return Err(Violation::ExpiresAtPast.into());
    }
    Ok(Offer { provider_ref, presentation, expires_at })
}

fn expires_at(format: &ExpiryFormat, text: &str, now: Time) -> Option<Time> {
    match format {
        ExpiryFormat::At(format) => format.read(text),
        ExpiryFormat::InSeconds => {
            let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let seconds = text.parse::<i64>().ok().filter(|_| is_plain)?;
            Some(now.plus_ms(seconds.checked_mul(1_000)?))
        }
    }
}

/// The partner's code, as far as it can be logged.
fn code(offer: &OfferRule, context: Context<'_>) -> String {
    let text = offer.refusal.as_ref().and_then(|place| context.string(place).ok());
    let printable = |c: &char| matches!(c, ' '..='~');
    text.unwrap_or_default().chars().filter(printable).take(CODE_CHARS_MAX).collect()
}
