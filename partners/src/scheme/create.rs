//! Owns the creating of payments in a partner's own scheme: what a profile says of it, and what is sent for one payment:
//! a call, or a signed address that is only built. Pure. `answer` judges what comes back of a call.
//!
//! Invariants: the amount is written exactly, or the payment is not asked for; the expiry that is told to the partner is
//! the one that is kept, to the second or minute the partner can be told.

mod answer;
mod form;

use std::collections::BTreeMap;

use payfold_schemas::ids::{OrderId, ProviderRef};
use payfold_schemas::time::Time;
use serde::Deserialize;

use super::amount::AmountRule;
use super::call::{self, AnswerContent, CallRule, Common, Sent, Uncallable};
use super::clock::Format;
use super::template::{Source, Template};
use super::{Condition, Scheme};
use crate::create::{CreateRequest, Offer, Violation, redirect_url};
use crate::outbound::Reach;

pub(crate) use self::answer::{Asked, NoOffer, judge};
pub use self::form::PaymentForm;

/// What the templates of a create may name besides what those of every call may.
pub(crate) const VALUES: [&str; 10] = [
    "amount",
    "currency",
    "description",
    "return_url",
    "ipn_url",
    "reference",
    "expires",
    "expires_in_s",
    "expires_in_min",
    "payer_ip",
];
/// The numbers of `{amount}` and those behind it.
pub(crate) const AMOUNT: usize = call::COMMON.len();
pub(crate) const CURRENCY: usize = AMOUNT + 1;
const DESCRIPTION: usize = AMOUNT + 2;
const REFERENCE: usize = AMOUNT + 5;
pub(crate) const EXPIRES: usize = AMOUNT + 6;
pub(crate) const EXPIRES_IN_S: usize = AMOUNT + 7;
pub(crate) const EXPIRES_IN_MIN: usize = AMOUNT + 8;
pub(crate) const PAYER_IP: usize = AMOUNT + 9;

/// Where a session's end comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Expiry {
    /// The answer says it.
    Response,
    /// It is what we asked for.
    Request,
    /// The partner's sessions last so long, whatever is asked for.
    Ttl,
}

/// Who goes to the partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// We call it.
    Call,
    /// The payer's browser opens an address.
    SignedUrl,
    /// The payer's browser posts a form, from a page of ours.
    FormPost,
}

/// How a payment is created.
#[derive(Clone, Debug)]
pub(crate) struct SchemeCreate {
    /// Where it stands in the file.
    pub(crate) span: std::ops::Range<usize>,
    pub(crate) kind: Kind,
    pub(crate) rule: CallRule,
    /// What the answer offers; absent where nothing is called, and the address itself is what the payer gets.
    pub(crate) offer: Option<OfferRule>,
    pub(crate) amount: AmountRule,
    /// Our currency => the partner's word; empty: all, by their codes.
    pub(crate) currencies: BTreeMap<String, String>,
    pub(crate) expiry: Expiry,
    pub(crate) ttl_ms: i64,
    /// How `{expires}` is written.
    pub(crate) expires: Format,
    /// The whole call, from connecting to the last byte of the answer, ms.
    pub(crate) timeout_ms: u64,
    pub(crate) bytes_max: usize,
    pub(crate) grace_ms: i64,
    pub(crate) max_session_ms: i64,
}

/// What an answer offers.
#[derive(Clone, Debug)]
pub(crate) struct OfferRule {
    pub(crate) content: AnswerContent,
    /// What must hold, or the partner has said no.
    pub(crate) success: Vec<Condition>,
    /// The partner's code for a no, for our log.
    pub(crate) refusal: Option<Template>,
    /// The transaction; absent where only a notice names it.
    pub(crate) provider_ref: Option<Template>,
    pub(crate) redirect: Option<Template>,
    pub(crate) qr: Option<Template>,
    pub(crate) expires: Option<(Template, ExpiryFormat)>,
}

/// How an answer says when the session ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExpiryFormat {
    At(Format),
    /// So many seconds from now.
    InSeconds,
}

impl SchemeCreate {
    /// Whether the partner can be asked for a page or a QR code, as the shop wants it.
    pub(crate) fn offers_both(&self) -> bool {
        self.offer.as_ref().is_some_and(|offer| offer.redirect.is_some() && offer.qr.is_some())
    }

    /// What the templates may name for a payment, and what its answer is judged by; `scheme` is the one this is the create
    /// of. Errors: `Uncallable`.
    pub(crate) fn values(
        &self,
        scheme: &Scheme,
        request: &CreateRequest,
        now: Time,
    ) -> Result<(Vec<String>, Asked), Uncallable> {
        let expires_at = self.expires_at(request, now)?;
        if request.payer_ip.is_none() && self.needs_payer_ip() {
            return Err(Uncallable::PayerIp);
        }
        let payer_ip = request.payer_ip.map(|address| address.to_canonical().to_string());
        let about = request.order_id.as_str();
        let mut values = Common { about, format: &self.rule.now, now }.values();
        let currency = self.currency(request).ok_or(Uncallable::Currency)?;
        let amount = self.amount.write(request.amount, request.currency);
        let seconds = expires_at.unix_ms().saturating_sub(now.unix_ms()).div_euclid(1_000);
        let reference = request.reference.as_ref().map_or("", |reference| reference.as_str());
        let marks = self.rule.marks_signed_with(&[DESCRIPTION, REFERENCE], &scheme.notice_marks());
        let unmarked = |text: &str| text.replace(|c| marks.contains(&c), " ");
        values.extend([
            amount.ok_or(Uncallable::Amount)?,
            currency.to_owned(),
            unmarked(&request.description),
            request.return_url.clone(),
            request.ipn_url.clone(),
            unmarked(reference),
            self.expires.write(expires_at),
            seconds.to_string(),
            seconds.div_euclid(60).to_string(),
            payer_ip.unwrap_or_default(),
        ]);
        let order_id = request.order_id.clone();
        Ok((values, Asked { order_id, expires_at, wish: request.wish }))
    }

    /// Whether nothing can be sent without the payer's address: it stands outside of `[…]`.
    pub(crate) fn needs_payer_ip(&self) -> bool {
        let needs = |template: &&Template| template.needs(&Source::Value(PAYER_IP));
        self.rule.templates().iter().any(needs)
    }

    /// The partner's word for the currency of a payment; none for one that is not created there.
    fn currency(&self, request: &CreateRequest) -> Option<&str> {
        let code = request.currency.code();
        if self.currencies.is_empty() {
            return Some(code);
        }
        self.currencies.get(code).map(String::as_str)
    }

    /// When the session is to end: as far as the partner can be told, what the shop asks for.
    fn expires_at(&self, request: &CreateRequest, now: Time) -> Result<Time, Uncallable> {
        let asked = request.expires_at.filter(|_| self.expiry != Expiry::Ttl);
        let asked = asked.unwrap_or_else(|| now.plus_ms(self.ttl_ms));
        if self.expiry == Expiry::Ttl {
            return Ok(asked);
        }
        let unit_ms = if self.rule.names(EXPIRES_IN_MIN) { 60_000 } else { 1_000 };
        let is_span = self.rule.names(EXPIRES_IN_MIN) || self.rule.names(EXPIRES_IN_S);
        // A span is counted from now, a moment is one of the clock; both in whole units that end no later than asked.
        let from_ms = if is_span { now.unix_ms() } else { 0 };
        let ms = asked.unix_ms().saturating_sub(from_ms);
        let whole = Time::from_unix_ms(from_ms).plus_ms(ms - ms.rem_euclid(unit_ms));
        if whole <= now { Err(Uncallable::Expiry) } else { Ok(whole) }
    }

    /// What an address that is only built offers; that of a form is our page with its fields, `ipn_url` says where we are.
    /// Errors: it can't be opened by a browser.
    pub(crate) fn offer_of(
        &self,
        (sent, asked): (&Sent, &Asked),
        ipn_url: &str,
        reach: Reach,
    ) -> Result<Offer, Violation> {
        let address = match self.kind {
            Kind::Call | Kind::SignedUrl => format!("{}{}", sent.base, sent.target),
            Kind::FormPost => {
                let page = form::page_url(ipn_url).ok_or(Violation::RedirectUrl)?;
                format!("{page}?{}", String::from_utf8_lossy(&sent.body))
            }
        };
        let presentation = redirect_url(&address, reach)?;
        let provider_ref = ref_of_order(&asked.order_id);
        Ok(Offer { provider_ref, presentation, expires_at: asked.expires_at })
    }

    /// In one line, for people.
    pub(crate) fn describe(&self) -> String {
        let how = match &self.offer {
            None if self.kind == Kind::FormPost => "a signed form".to_owned(),
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

impl Expiry {
    const fn name(self) -> &'static str {
        match self {
            Self::Response => "response",
            Self::Request => "request",
            Self::Ttl => "ttl",
        }
    }
}

/// What names a session while no transaction is known: the order itself, which both sides have.
pub(crate) fn ref_of_order(order_id: &OrderId) -> ProviderRef {
    ProviderRef::parse(order_id.as_str()).expect("an order id is printable and shorter")
}

#[cfg(test)]
mod tests;
