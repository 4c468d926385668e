//! Owns creating payments as a scheme says: the values of the request, the expiry, and the
//! offer of an address that is only built. `rule` holds the compiled section, `answer` judges the
//! answer to a call, `post_target` has the address and field names of a `form_post`. Pure.
//!
//! Invariants: the amount is written exactly, or no request is built; the expiry that is sent to
//! the partner and the expiry that is stored are equal, rounded down to the partner's unit.

mod answer;
mod post_target;
pub(crate) mod rule;

use payfold_schemas::time::Time;

use super::call::{CallBuildError, CallRequest, CommonValues};
use super::template::{Template, TokenSource};
use crate::create::{CreateRequest, CreateViolation, PresentationKind, SessionOffer, redirect_url};
use crate::outbound::Reach;
use crate::scheme::compiled::Scheme;
use crate::scheme::create::rule::{
    CreateKind, DESCRIPTION, EXPIRES, EXPIRES_IN_MIN, EXPIRES_IN_S, ExpirySource, OfferRule,
    PAYER_IP, PRESENTATION, REFERENCE, SchemeCreate, ref_of_order,
};

pub use self::answer::{OfferError, RequestedSession};
pub use self::post_target::PostTarget;

impl SchemeCreate {
    /// Whether the shop can choose between a page and a QR code: the choice is sent to the partner,
    /// or the answer offers both.
    pub(crate) fn asks_presentation(&self) -> bool {
        let offers_both =
            |offer: &OfferRule| !offer.is_strict && offer.redirect.is_some() && offer.qr.is_some();
        self.rule.names(PRESENTATION) || self.offer.as_ref().is_some_and(offers_both)
    }

    /// The values that the templates may name for a payment, and the requested session, which the
    /// answer is compared with. `scheme` is the scheme of this create. Errors: `CallBuildError`.
    pub(crate) fn values(
        &self,
        scheme: &Scheme,
        request: &CreateRequest,
        now: Time,
    ) -> Result<(Vec<String>, RequestedSession), CallBuildError> {
        let expires_at = self.expires_at(request, now)?;
        if request.payer_ip.is_none() && self.needs_payer_ip() {
            return Err(CallBuildError::PayerIp);
        }
        let payer_ip = request.payer_ip.map(|address| address.to_canonical().to_string());
        let subject = request.order_id.as_str();
        let mut values = CommonValues { subject, format: &self.rule.now, now }.values();
        let currency = self.currency(request).ok_or(CallBuildError::Currency)?;
        let amount = self.amount.write_amount(request.amount, request.currency);
        let seconds = expires_at.unix_ms().saturating_sub(now.unix_ms()).div_euclid(1_000);
        let reference = request.reference.as_ref().map_or("", |reference| reference.as_str());
        let marks = self.rule.marks_signed_with(&[DESCRIPTION, REFERENCE], &scheme.notice_marks());
        let unmarked = |text: &str| text.replace(|c| marks.contains(&c), " ");
        values.extend([
            amount.ok_or(CallBuildError::Amount)?,
            currency.to_owned(),
            unmarked(&request.description),
            request.return_url.clone(),
            request.ipn_url.clone(),
            unmarked(reference),
            self.expires.write(expires_at),
            seconds.to_string(),
            seconds.div_euclid(60).to_string(),
            payer_ip.unwrap_or_default(),
            request.expires_at.map(|asked| self.expires.write(asked)).unwrap_or_default(),
            request.presentation.map_or("", PresentationKind::name).to_owned(),
        ]);
        let order_id = request.order_id.clone();
        Ok((values, RequestedSession { order_id, expires_at, presentation: request.presentation }))
    }

    /// Whether the payer's address is required: a template names it outside of `[…]`.
    pub(crate) fn needs_payer_ip(&self) -> bool {
        let needs = |template: &&Template| template.needs(&TokenSource::Value(PAYER_IP));
        self.rule.templates().iter().any(needs)
    }

    /// The partner's code for the currency of a payment. `None` if the profile creates no payment
    /// in this currency.
    fn currency(&self, request: &CreateRequest) -> Option<&str> {
        let code = request.currency.code();
        if self.currencies.is_empty() {
            return Some(code);
        }
        self.currencies.get(code).map(String::as_str)
    }

    /// When the session ends: what the shop asks for, or the profile's ttl, rounded down to the
    /// unit that is sent. Errors: `Expiry` if that is not after `now`.
    fn expires_at(&self, request: &CreateRequest, now: Time) -> Result<Time, CallBuildError> {
        let asked = request.expires_at.filter(|_| self.expiry != ExpirySource::Ttl);
        let asked = asked.unwrap_or_else(|| now.plus_ms(self.ttl_ms));
        let is_rounded =
            [EXPIRES, EXPIRES_IN_S, EXPIRES_IN_MIN].iter().any(|v| self.rule.names(*v));
        if self.expiry == ExpirySource::Ttl || !is_rounded {
            return Ok(asked);
        }
        let unit_ms = if self.rule.names(EXPIRES_IN_MIN) { 60_000 } else { 1_000 };
        let is_span = self.rule.names(EXPIRES_IN_MIN) || self.rule.names(EXPIRES_IN_S);
        // A duration is counted from now, a time from the epoch. Both are rounded down, so that the
        // session ends no later than the shop asked.
        let from_ms = if is_span { now.unix_ms() } else { 0 };
        let ms = asked.unix_ms().saturating_sub(from_ms);
        let whole = Time::from_unix_ms(from_ms).plus_ms(ms - ms.rem_euclid(unit_ms));
        if whole <= now { Err(CallBuildError::Expiry) } else { Ok(whole) }
    }

    /// The offer of an address that is only built. For a `form_post` it is our page with the form.
    /// The page's address is derived from `ipn_url`. Errors: a browser can't open the address.
    pub(crate) fn offer_of(
        &self,
        (sent, asked): (&CallRequest, &RequestedSession),
        ipn_url: &str,
        reach: Reach,
    ) -> Result<SessionOffer, CreateViolation> {
        let address = match self.kind {
            CreateKind::Call | CreateKind::SignedUrl => format!("{}{}", sent.base, sent.target),
            CreateKind::FormPost => {
                let page = post_target::page_url(ipn_url).ok_or(CreateViolation::RedirectUrl)?;
                format!("{page}?{}", String::from_utf8_lossy(&sent.body))
            }
        };
        let presentation = redirect_url(&address, reach)?;
        let provider_ref = ref_of_order(&asked.order_id);
        Ok(SessionOffer { provider_ref, presentation, expires_at: asked.expires_at })
    }

    /// Describes the create in one line, for people.
    pub(crate) fn describe(&self) -> String {
        let how = match &self.offer {
            None if self.kind == CreateKind::FormPost => "a signed form".to_owned(),
            None => "a signed address".to_owned(),
            Some(offer) => {
                let shown = match (&offer.redirect, &offer.qr) {
                    (Some(_), Some(_)) => "a page or a QR code",
                    (None, Some(_)) => "a QR code",
                    _ => "a page",
                };
                format!("{} for {shown}", self.rule.method.name())
            }
        };
        let transaction = match self.offer.as_ref().and_then(|offer| offer.provider_ref.as_ref()) {
            Some(_) => "named by the answer",
            None => "named by the notice",
        };
        let (expiry, ttl_s) = (self.expiry.name(), self.ttl_ms / 1_000);
        let currencies: Vec<_> = self.currencies.keys().map(String::as_str).collect();
        let currencies =
            if currencies.is_empty() { "any currency".to_owned() } else { currencies.join(" ") };
        format!("{how}, {currencies}; its transaction {transaction}; expiry: {expiry}, {ttl_s} s")
    }
}

#[cfg(test)]
mod tests;
