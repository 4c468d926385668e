//! Owns the types of a create call: the request, the session that a valid answer offers, and the
//! rules that an invalid answer breaks (contract 2.1, 2.2). No part of an answer is repaired or
//! guessed. `scheme::create` builds the request and judges the answer.

use std::net::IpAddr;

use payfold_schemas::fact::Presentation;
use payfold_schemas::ids::{MerchantCode, OrderId, ProviderRef, Reference};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;

use crate::outbound::{Reach, UrlProblem};

/// The longest content of a QR code, in bytes: version 40 with low error correction.
const QR_BYTES_MAX: usize = 2_953;
/// The longest accepted redirect URL, in bytes. Some browsers and WebViews fail with longer ones.
const URL_BYTES_MAX: usize = 2_048;

/// How the shop shows the payment to the payer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresentationKind {
    /// A hosted page.
    Page,
    /// A QR code.
    Qr,
}

impl PresentationKind {
    /// The value in requests to the partner.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Qr => "qr",
        }
    }
}

/// A request to create a payment at the partner (contract 2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRequest {
    /// Our account at the partner.
    pub merchant_code: MerchantCode,
    /// Our order id, unique per attempt.
    pub order_id: OrderId,
    /// The amount in minor units.
    pub amount: Amount,
    /// The currency, ISO 4217.
    pub currency: Currency,
    /// The text that the payer sees.
    pub description: String,
    /// The URL that the browser returns to.
    pub return_url: String,
    /// The URL that notices are sent to.
    pub ipn_url: String,
    /// The session's end that the shop asks for.
    pub expires_at: Option<Time>,
    /// Page or QR code, for partners that let us choose.
    pub presentation: Option<PresentationKind>,
    /// The shop's reference for the payment, for schemes that send one.
    pub reference: Option<Reference>,
    /// The payer's IP address as the shop sees it, for schemes that send it. It is not stored.
    pub payer_ip: Option<IpAddr>,
}

/// The session that the partner offers (contract 2.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOffer {
    /// The partner's transaction.
    pub provider_ref: ProviderRef,
    /// The page's URL or the QR code's content.
    pub presentation: Presentation,
    /// When the session expires.
    pub expires_at: Time,
}

/// The contract rule that a complete answer breaks. The answer to the shop and the `CreateFailed`
/// fact have it as `contract_violation.<name>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateViolation {
    /// The partner answered with a redirect.
    Redirect,
    /// The body is not a JSON object, or has a key twice.
    NotJson,
    /// providerRef is missing or can't be used.
    ProviderRef,
    /// There is neither redirectUrl nor qrPayload.
    NoPresentation,
    /// There are both redirectUrl and qrPayload.
    TwoPresentations,
    /// redirectUrl is not an absolute URL, or is too long.
    RedirectUrl,
    /// redirectUrl is not https.
    RedirectUrlNotHttps,
    /// redirectUrl contains a user name or password.
    RedirectUrlUserinfo,
    /// redirectUrl names this machine or a private network.
    RedirectUrlPrivate,
    /// qrPayload is not a text that a QR code can hold.
    QrPayload,
    /// expiresAt is missing, or is not RFC 3339 with a zone.
    ExpiresAt,
    /// expiresAt is not in the future.
    ExpiresAtPast,
}

impl CreateViolation {
    /// Every rule.
    pub const ALL: [CreateViolation; 12] = [
        Self::Redirect,
        Self::NotJson,
        Self::ProviderRef,
        Self::NoPresentation,
        Self::TwoPresentations,
        Self::RedirectUrl,
        Self::RedirectUrlNotHttps,
        Self::RedirectUrlUserinfo,
        Self::RedirectUrlPrivate,
        Self::QrPayload,
        Self::ExpiresAt,
        Self::ExpiresAtPast,
    ];

    /// The rule's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redirect => "redirect",
            Self::NotJson => "not_json",
            Self::ProviderRef => "provider_ref",
            Self::NoPresentation => "no_presentation",
            Self::TwoPresentations => "two_presentations",
            Self::RedirectUrl => "redirect_url",
            Self::RedirectUrlNotHttps => "redirect_url_not_https",
            Self::RedirectUrlUserinfo => "redirect_url_userinfo",
            Self::RedirectUrlPrivate => "redirect_url_private",
            Self::QrPayload => "qr_payload",
            Self::ExpiresAt => "expires_at",
            Self::ExpiresAtPast => "expires_at_past",
        }
    }

    /// `contract_violation.<name>`.
    pub fn code(self) -> String {
        format!("contract_violation.{}", self.name())
    }
}

/// The content of a QR code. Errors: a QR code can't hold the text.
pub(crate) fn qr_payload(text: &str) -> Result<Presentation, CreateViolation> {
    let is_carried = (1..=QR_BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control);
    is_carried.then(|| Presentation::QrPayload(text.to_owned())).ok_or(CreateViolation::QrPayload)
}

/// A page that a payer may be sent to. Errors: the rule that its URL breaks.
pub(crate) fn redirect_url(url: &str, reach: Reach) -> Result<Presentation, CreateViolation> {
    if url.len() > URL_BYTES_MAX {
        return Err(CreateViolation::RedirectUrl);
    }
    match reach.check(url) {
        // Hands on the parsed and normalised URL, so that the checks apply to the very URL that a
        // browser opens.
        Ok(url) => Ok(Presentation::RedirectUrl(url.into())),
        Err(UrlProblem::NotAbsolute) => Err(CreateViolation::RedirectUrl),
        Err(UrlProblem::UserInfo) => Err(CreateViolation::RedirectUrlUserinfo),
        Err(UrlProblem::NotHttps) => Err(CreateViolation::RedirectUrlNotHttps),
        Err(UrlProblem::PrivateHost) => Err(CreateViolation::RedirectUrlPrivate),
    }
}
