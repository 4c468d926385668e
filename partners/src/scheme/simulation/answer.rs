//! Writes the partner's answers to our calls: the offer of a session, and the status of a payment.

use payfold_schemas::ipn::Status;
use payfold_schemas::time::Time;

use super::draft::{JsonKind, MessageDraft};
use super::error::SimulationError;
use super::notice::{PaymentValues, meet, put_payment};
use crate::directory::account::Account;
use crate::profile::query::StatusMeaning;
use crate::scheme::create::rule::ExpiryFormat;
use crate::scheme::message::{ParsedMessage, TemplateContext};
use crate::scheme::query::find_event;
use crate::scheme::query::rule::AnswerEvent;
use crate::scheme::request::NoticeRequest;

/// What a partner offers in the answer to a create call. What is `None` is left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimulatedOffer<'a> {
    /// The transaction.
    pub provider_ref: Option<&'a str>,
    /// The address of the page.
    pub redirect_url: Option<&'a str>,
    /// The content of the QR code.
    pub qr_payload: Option<&'a str>,
    /// The end of the session.
    pub expires_at: Option<Time>,
}

/// What a partner says of a payment.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedStatus<'a> {
    /// The payment.
    pub payment: PaymentValues<'a>,
    /// How it ended. `None` if it did not end.
    pub status: Option<Status>,
}

impl Account {
    /// Writes the answer to a create call at `now`. A value that the profile reads nowhere is left
    /// out. Errors: `SimulationError`, also if the profile makes no call to create a payment.
    pub fn write_offer(
        &self,
        offer: &SimulatedOffer<'_>,
        now: Time,
    ) -> Result<Vec<u8>, SimulationError> {
        let scheme = self.profile().scheme();
        let rule = scheme.create.as_ref().and_then(|create| create.offer.as_ref());
        let rule = rule.ok_or_else(|| SimulationError::unplayable("[create]", "no call"))?;
        let mut draft = MessageDraft::of_answer(scheme, self.template_inputs(), rule.content);
        let expires = rule.expires.as_ref().zip(offer.expires_at).map(|((place, format), at)| {
            let text = match format {
                ExpiryFormat::At(format) => format.write(at),
                ExpiryFormat::InSeconds => {
                    (at.unix_ms().saturating_sub(now.unix_ms()) / 1_000).to_string()
                }
            };
            (place, text)
        });
        let texts = [
            (rule.provider_ref.as_ref(), offer.provider_ref),
            (rule.redirect.as_ref(), offer.redirect_url),
            (rule.qr.as_ref(), offer.qr_payload),
            (expires.as_ref().map(|(place, _)| *place), expires.as_ref().map(|(_, t)| t.as_str())),
        ];
        for (place, text) in texts {
            if let (Some(place), Some(text)) = (place, text) {
                draft.put(place, text, JsonKind::Text)?;
            }
        }
        meet(&mut draft, &rule.success)?;
        Ok(draft.encode_answer())
    }

    /// Writes the answer to a query about a payment. An end that the profile has no
    /// `[[query.event]]` for is pending, as at a partner that does not say it. Errors:
    /// `SimulationError`, also if the profile has no query.
    pub fn write_status(&self, said: &SimulatedStatus<'_>) -> Result<Vec<u8>, SimulationError> {
        let pending = || self.write_answer(StatusMeaning::Pending, Some(&said.payment));
        let Some(status) = said.status else { return pending() };
        match self.write_answer(StatusMeaning::Terminal(status), Some(&said.payment)) {
            Err(SimulationError::NoEvent(_)) => pending(),
            answer => answer,
        }
    }

    /// Writes the answer to a query about a payment that the partner does not know: an HTTP status
    /// and a body. Errors: as `write_status`.
    pub fn write_unknown(&self) -> Result<(u16, Vec<u8>), SimulationError> {
        let query = self.profile().scheme().query.as_ref();
        let status = query.and_then(|query| query.answer.not_found.first().copied());
        let body = self.write_answer(StatusMeaning::Unknown, None);
        match (body, status) {
            (Ok(body), _) => Ok((200, body)),
            (Err(_), Some(status)) => Ok((status, Vec::new())),
            (Err(error), None) => Err(error),
        }
    }

    fn write_answer(
        &self,
        meaning: StatusMeaning,
        payment: Option<&PaymentValues<'_>>,
    ) -> Result<Vec<u8>, SimulationError> {
        let scheme = self.profile().scheme();
        let query = scheme.query.as_ref();
        let query = query.ok_or_else(|| SimulationError::unplayable("[query]", "there is none"))?;
        let rule = &query.answer;
        let mut refused = None;
        for event in rule.events.iter().filter(|event| event.meaning == meaning) {
            let mut draft = MessageDraft::of_answer(scheme, self.template_inputs(), rule.content);
            let put = payment.map_or(Ok(()), |payment| {
                put_payment(&mut draft, (&rule.map, &event.places), payment)
            });
            match put.and_then(|()| meet(&mut draft, &event.when)) {
                Ok(()) => {
                    let body = draft.encode_answer();
                    if self.is_answer_of(event, &body) {
                        return Ok(body);
                    }
                    let other = || SimulationError::OtherEvent(name(meaning).to_owned());
                    refused = refused.or_else(|| Some(other()));
                }
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or_else(|| SimulationError::NoEvent(name(meaning).to_owned())))
    }

    /// Whether the profile reads an answer to a query as this event.
    fn is_answer_of(&self, event: &AnswerEvent, body: &[u8]) -> bool {
        let (profile, inputs) = (self.profile(), self.template_inputs());
        let query = profile.scheme().query.as_ref();
        let document = query.and_then(|query| query.answer.content.parse(body));
        let request = NoticeRequest::default();
        let (scheme, limits) = (profile.scheme(), profile.limits());
        let message = ParsedMessage::from_document(scheme, &request, limits, document);
        let context = TemplateContext::without_key(&message, &inputs);
        let found = query.and_then(|query| find_event(query, context));
        found.is_some_and(|found| std::ptr::eq(found, event))
    }
}

/// The meaning of an answer, for messages.
fn name(meaning: StatusMeaning) -> &'static str {
    match meaning {
        StatusMeaning::Terminal(status) => status.as_str(),
        StatusMeaning::Pending => "a pending payment",
        StatusMeaning::Unknown => "an unknown payment",
    }
}
