//! Owns the answers to a create request that is not refused: 201 with what the payer needs, or 202
//! while the partner's answer is unknown.

use actix_web::HttpResponse;
use actix_web::http::header;
use payfold_schemas::fact::Session;

use crate::payment::{AttemptView, Payment};

/// The `Retry-After` of a 202, s: when to read the payment.
const RETRY_AFTER_S: u32 = 2;

/// The answer to a create request that was not refused.
pub(crate) enum CreateAnswer {
    /// 201: the session is open.
    Created(Box<Payment>),
    /// 202: it is not known whether the partner opened a session, or not durable yet.
    Accepted(Box<Payment>),
}

impl CreateAnswer {
    /// The answer for an attempt with a known session.
    pub(crate) fn created(attempt: &AttemptView<'_>, session: &Session) -> Self {
        Self::Created(Box::new(Payment::of_attempt(attempt, Some(session))))
    }

    /// The answer for an attempt with an unknown outcome.
    pub(crate) fn accepted(attempt: &AttemptView<'_>) -> Self {
        Self::Accepted(Box::new(Payment::of_attempt(attempt, None)))
    }

    /// Makes the HTTP response.
    pub(crate) fn respond(&self) -> HttpResponse {
        let (mut response, links) = match self {
            Self::Created(payment) => (HttpResponse::Created(), &payment.links),
            Self::Accepted(payment) => (HttpResponse::Accepted(), &payment.links),
        };
        response.insert_header((header::LOCATION, links.this.as_str())).insert_header(NO_STORE);
        match self {
            Self::Created(payment) => response.json(payment),
            Self::Accepted(payment) => response
                .insert_header((header::RETRY_AFTER, RETRY_AFTER_S.to_string()))
                .json(payment),
        }
    }
}

/// `Cache-Control: no-store`: a cached page or QR code could be paid by somebody else.
pub(crate) const NO_STORE: (header::HeaderName, &str) = (header::CACHE_CONTROL, "no-store");
