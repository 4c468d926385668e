//! Owns judging the answer to a create call. Pure. The contract's rules apply where the profile
//! does not replace them: a page or a QR code that can be shown, a valid transaction, an expiry in
//! the future.

use payfold_schemas::fact::Presentation;
use payfold_schemas::ids::{OrderId, ProviderRef};
use payfold_schemas::time::Time;

use crate::create::{CreateViolation, PresentationKind, SessionOffer, qr_payload, redirect_url};
use crate::directory::account::Account;
use crate::limits::BodyLimits;
use crate::outbound::Reach;
use crate::scheme::compiled::Scheme;
use crate::scheme::create::rule::{ExpiryFormat, OfferRule, ref_of_order};
use crate::scheme::found_value::ValueKind;
use crate::scheme::map::conditions_hold;
use crate::scheme::message::{ParsedMessage, TemplateContext};
use crate::scheme::request::NoticeRequest;
use crate::scheme::template::Template;
use crate::scheme::template_values::TemplateInputs;

/// The longest partner's code that is logged, in characters.
const CODE_CHARS_MAX: usize = 64;

/// The session that was requested. The answer is compared with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedSession {
    /// The session's order.
    pub order_id: OrderId,
    /// The end of the session, as it was sent to the partner, or from the profile's `ttl_s`.
    pub expires_at: Time,
    /// Page or QR code, if the shop chose one.
    pub presentation: Option<PresentationKind>,
}

/// Why a complete answer is no offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfferError {
    /// The partner declined; with its code, empty if it gave none.
    Declined(String),
    /// The answer breaks this rule.
    Violation(CreateViolation),
}

impl Account {
    /// Judges a complete answer with a success status to a create call. Errors: the partner
    /// declined, or the first rule the answer breaks.
    pub fn judge_offer(
        &self,
        asked: &RequestedSession,
        body: &[u8],
        now: Time,
    ) -> Result<SessionOffer, OfferError> {
        let profile = self.profile();
        let create = profile.scheme().create.as_ref().expect("its profile has [create]");
        let offer = create.offer.as_ref().expect("only a call is answered");
        let inputs = (profile.limits(), self.template_inputs());
        judge((profile.scheme(), offer), inputs, asked, body, (Reach::of(profile), now))
    }
}

impl From<CreateViolation> for OfferError {
    fn from(rule: CreateViolation) -> Self {
        Self::Violation(rule)
    }
}

/// Judges a complete answer with a success status. Errors: the partner declined, or the first rule
/// the answer breaks.
fn judge(
    (scheme, offer): (&Scheme, &OfferRule),
    (limits, inputs): (BodyLimits, TemplateInputs<'_>),
    asked: &RequestedSession,
    body: &[u8],
    (reach, now): (Reach, Time),
) -> Result<SessionOffer, OfferError> {
    let document = offer.content.parse(body).ok_or(CreateViolation::NotJson)?;
    if offer.is_strict && !document.is_object() {
        return Err(CreateViolation::NotJson.into());
    }
    let request = NoticeRequest::default();
    let message = ParsedMessage::from_document(scheme, &request, limits, Some(document));
    let context = TemplateContext::without_key(&message, &inputs);
    if !conditions_hold(&offer.success, context).unwrap_or(false) {
        return Err(OfferError::Declined(code(offer, context)));
    }
    let provider_ref = match &offer.provider_ref {
        None => ref_of_order(&asked.order_id),
        Some(place) => {
            let text = offer.text(place, context).ok().flatten();
            text.and_then(|text| ProviderRef::parse(&text).ok())
                .ok_or(CreateViolation::ProviderRef)?
        }
    };
    let presentation = presentation(offer, asked, context, reach)?;
    let expires_at = match &offer.expires {
        None => asked.expires_at,
        Some((place, format)) => {
            let text = offer.text(place, context).ok().flatten();
            let read = text.and_then(|text| expires_at(format, &text, now));
            read.ok_or(CreateViolation::ExpiresAt)?
        }
    };
    if expires_at <= now {
        return Err(CreateViolation::ExpiresAtPast.into());
    }
    Ok(SessionOffer { provider_ref, presentation, expires_at })
}

/// A value of a strict answer is not a JSON string.
struct NotAString;

impl OfferRule {
    /// Reads the text at a place. `None` if it is absent or empty. Errors: in a strict answer the
    /// value is not a string.
    fn text(
        &self,
        place: &Template,
        context: TemplateContext<'_>,
    ) -> Result<Option<String>, NotAString> {
        if !self.is_strict {
            return Ok(context.render_string(place).ok().filter(|text| !text.is_empty()));
        }
        if !context.is_of_kind(place, ValueKind::String) {
            return Err(NotAString);
        }
        let is_there = place.single().is_none_or(|token| {
            context
                .find_value(token)
                .is_ok_and(|value| value.is_some_and(|v| v.kind != ValueKind::Null))
        });
        Ok(context.render_string(place).ok().filter(|_| is_there))
    }
}

/// Chooses the page or the QR code for the payer. If the answer may offer both, the shop's request
/// decides. A strict answer must offer exactly one.
fn presentation(
    offer: &OfferRule,
    asked: &RequestedSession,
    context: TemplateContext<'_>,
    reach: Reach,
) -> Result<Presentation, CreateViolation> {
    let at = |place: &Option<Template>| match place {
        Some(place) => offer.text(place, context),
        None => Ok(None),
    };
    let page = at(&offer.redirect).map_err(|NotAString| CreateViolation::RedirectUrl);
    let code = at(&offer.qr).map_err(|NotAString| CreateViolation::QrPayload);
    let wants_code = match (&offer.redirect, &offer.qr) {
        _ if offer.is_strict => matches!(page, Ok(None)),
        (Some(_), Some(_)) => asked.presentation == Some(PresentationKind::Qr),
        (redirect, _) => redirect.is_none(),
    };
    if offer.is_strict && !matches!((&page, &code), (Ok(None), _) | (_, Ok(None))) {
        return Err(CreateViolation::TwoPresentations);
    }
    let shown = if wants_code { code } else { page }?.ok_or(CreateViolation::NoPresentation)?;
    if wants_code { qr_payload(&shown) } else { redirect_url(&shown, reach) }
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

/// The partner's code, limited to printable ASCII for the log.
fn code(offer: &OfferRule, context: TemplateContext<'_>) -> String {
    let text = offer.refusal.as_ref().and_then(|place| context.render_string(place).ok());
    let printable = |c: &char| matches!(c, ' '..='~');
    text.unwrap_or_default().chars().filter(printable).take(CODE_CHARS_MAX).collect()
}
