//! Owns judging a partner's answer to a query. Pure. Invariants: an answer about another payment is
//! wrong; digits are read as received; nothing is repaired or guessed.

use payfold_schemas::fact::QueryAnswer;
use payfold_schemas::ids::ProviderRef;

use crate::directory::account::Account;
use crate::limits::BodyLimits;
use crate::profile::query::StatusMeaning;
use crate::query::{PaymentQuery, PaymentStatus, QueryViolation};
use crate::scheme::compiled::Scheme;
use crate::scheme::found_value::ValueKind;
use crate::scheme::map::{EventValues, conditions_hold};
use crate::scheme::message::{ParsedMessage, TemplateContext};
use crate::scheme::query::rule::{AnswerEvent, SchemeQuery};
use crate::scheme::request::NoticeRequest;
use crate::scheme::template::Template;
use crate::scheme::template_values::TemplateInputs;

impl Account {
    /// Judges a complete answer with a success status to a query. Errors: the first rule it breaks.
    pub fn judge_answer(
        &self,
        question: &PaymentQuery,
        body: &[u8],
    ) -> Result<PaymentStatus, QueryViolation> {
        let profile = self.profile();
        let query = profile.scheme().query.as_ref().expect("its profile has [query]");
        judge((profile.scheme(), query), (profile.limits(), self.template_inputs()), question, body)
    }
}

fn judge(
    (scheme, query): (&Scheme, &SchemeQuery),
    (limits, inputs): (BodyLimits, TemplateInputs<'_>),
    question: &PaymentQuery,
    body: &[u8],
) -> Result<PaymentStatus, QueryViolation> {
    let document = query.answer.content.parse(body).ok_or(QueryViolation::NotJson)?;
    let is_strict = query.answer.is_strict;
    if is_strict && !document.is_object() {
        return Err(QueryViolation::NotJson);
    }
    let asked_ref = question.provider_ref.as_ref();
    let request = NoticeRequest::default();
    let message = ParsedMessage::from_document(scheme, &request, limits, Some(document));
    let context = TemplateContext::without_key(&message, &inputs);

    let event = find_event(query, context).ok_or(QueryViolation::Status)?;
    if event.meaning == StatusMeaning::Unknown {
        return Ok(PaymentStatus::Unknown);
    }
    let map = &query.answer.map;
    let is_of = |place: Option<&Template>, kind| {
        !is_strict || place.is_none_or(|place| context.is_of_kind(place, kind))
    };
    let chosen = EventValues { map, own: &event.places, context };
    if let Some(merchant) = &map.merchant
        && (context.render_string(merchant).ok().as_deref()
            != Some(question.merchant_code.as_str())
            || !is_of(Some(merchant), ValueKind::String))
    {
        return Err(QueryViolation::MerchantCode);
    }
    if let Some(order) = chosen.place(|places| places.order.as_ref())
        && (context.render_string(order).ok().as_deref() != Some(question.order_id.as_str())
            || !is_of(Some(order), ValueKind::String))
    {
        return Err(QueryViolation::OrderId);
    }
    let Some(status) = event.status() else { return Ok(PaymentStatus::Pending) };
    let provider_ref = chosen.id("ref", |places| places.provider_ref.as_ref());
    let provider_ref: ProviderRef = provider_ref.map_err(|_| QueryViolation::ProviderRef)?;
    // A question by order may be answered with another transaction of that order; a question by
    // transaction may not.
    let place = chosen.place(|places| places.provider_ref.as_ref());
    if query.names_ref() && asked_ref.is_some_and(|asked| *asked != provider_ref)
        || !is_of(place, ValueKind::String)
    {
        return Err(QueryViolation::ProviderRef);
    }
    let currency = chosen.currency().map_err(|_| QueryViolation::Currency)?;
    let amount = chosen.amount(currency).map_err(|_| QueryViolation::Amount)?;
    if !is_of(chosen.place(|places| places.amount.as_ref()), ValueKind::Number) {
        return Err(QueryViolation::Amount);
    }
    Ok(PaymentStatus::Terminal(QueryAnswer { provider_ref, status, amount, currency }))
}

/// The first event with conditions that all hold. `None` if there is none, or if a condition can't
/// be read.
pub(crate) fn find_event<'q>(
    query: &'q SchemeQuery,
    context: TemplateContext<'_>,
) -> Option<&'q AnswerEvent> {
    for event in &query.answer.events {
        if conditions_hold(&event.when, context).ok()? {
            return Some(event);
        }
    }
    None
}
