//! Owns which rules of a certification can apply to a scheme: what its partner can report, answer
//! and send back.

use payfold_schemas::ipn::Status;

use crate::create::CreateViolation;
use crate::scheme::call::rule::AnswerContent;
use crate::scheme::compiled::Scheme;
use crate::scheme::create::rule::{CreateKind, RETURN_URL};
use crate::scheme::rules::EventOutcome;

impl Scheme {
    /// Whether the partner reports this status with its notices.
    pub fn reports(&self, status: Status) -> bool {
        self.events.iter().any(|event| event.outcome == EventOutcome::Status(status))
    }

    /// Whether the answer to a create call can break this rule: the value it is about is read.
    pub fn create_can_break(&self, rule: CreateViolation) -> bool {
        let offer = self.create.as_ref().and_then(|create| create.offer.as_ref());
        let Some(offer) = offer else { return false };
        match rule {
            CreateViolation::Redirect | CreateViolation::NoPresentation => true,
            CreateViolation::NotJson => offer.content == AnswerContent::Json,
            CreateViolation::ProviderRef => offer.provider_ref.is_some(),
            CreateViolation::TwoPresentations => offer.is_strict,
            CreateViolation::RedirectUrl
            | CreateViolation::RedirectUrlNotHttps
            | CreateViolation::RedirectUrlUserinfo
            | CreateViolation::RedirectUrlPrivate => offer.redirect.is_some(),
            CreateViolation::QrPayload => offer.qr.is_some(),
            CreateViolation::ExpiresAt | CreateViolation::ExpiresAtPast => offer.expires.is_some(),
        }
    }

    /// Whether a create call names the address that the payer's browser returns to.
    pub fn sends_return_url(&self) -> bool {
        self.create.as_ref().is_some_and(|create| create.rule.sends(RETURN_URL))
    }

    /// Whether the payer's browser posts signed fields from our page (`form_post`), instead of
    /// opening an address that the partner gives.
    pub fn needs_our_page(&self) -> bool {
        self.create.as_ref().is_some_and(|create| create.kind == CreateKind::FormPost)
    }
}
