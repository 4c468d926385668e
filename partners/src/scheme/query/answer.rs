//! Owns what a partner's answer is worth in its own scheme. Pure. As in the contract's: an answer is about the payment
//! that was asked for, or it is wrong; its digits are read as they were sent; nothing of it is repaired or guessed.

use payfold_schemas::fact::QueryAnswer;
use payfold_schemas::ids::ProviderRef;

use super::{AnswerEvent, SchemeQuery};
use crate::profile::{Limits, Word};
use crate::query::{Question, Told, WrongAnswer};
use crate::scheme::Scheme;
use crate::scheme::map::{Chosen, holds};
use crate::scheme::reading::{Context, Of, Reading};
use crate::scheme::request::Request;

/// Judges a complete answer with a success status. Errors: the first rule it breaks.
pub(crate) fn judge(
    (scheme, query): (&Scheme, &SchemeQuery),
    (limits, of): (Limits, Of<'_>),
    question: &Question,
    body: &[u8],
) -> Result<Told, WrongAnswer> {
    let document = query.answer.content.parse(limits, body).ok_or(WrongAnswer::NotJson)?;
    let asked_ref = question.provider_ref.as_ref();
    let request = Request::default();
    let reading = Reading::of_document(scheme, &request, limits, Some(document));
    let context = Context::bare(&reading, &of);

    let event = event(query, context).ok_or(WrongAnswer::Status)?;
    if event.word == Word::Unknown {
        return Ok(Told::Unknown);
    }
    let map = &query.answer.map;
    let chosen = Chosen { map, own: &event.places, context };
    if let Some(merchant) = &map.merchant
        && context.string(merchant).ok().as_deref() != Some(question.merchant_code.as_str())
    {
        return Err(WrongAnswer::MerchantCode);
    }
    if let Some(order) = event.places.order.as_ref().or(map.places.order.as_ref())
        && context.string(order).ok().as_deref() != Some(question.order_id.as_str())
    {
        return Err(WrongAnswer::OrderId);
    }
    let Some(status) = event.status() else { return Ok(Told::Pending) };
    let provider_ref = chosen.id("ref", |places| places.provider_ref.as_ref());
    let provider_ref: ProviderRef = provider_ref.map_err(|_| WrongAnswer::ProviderRef)?;
    // Who was asked for the order may tell of another transaction of it.
    if query.names_ref() && asked_ref.is_some_and(|asked| *asked != provider_ref) {
        return Err(WrongAnswer::ProviderRef);
    }
    let currency = chosen.currency().map_err(|_| WrongAnswer::Currency)?;
    let amount = chosen.amount(currency).map_err(|_| WrongAnswer::Amount)?;
    Ok(Told::Ended(QueryAnswer { provider_ref, status, amount, currency }))
}

/// The first kind whose conditions all hold; none where a place it looks at can't be read.
fn event<'q>(query: &'q SchemeQuery, context: Context<'_>) -> Option<&'q AnswerEvent> {
    for event in &query.answer.events {
        if holds(&event.when, context).ok()? {
            return Some(event);
        }
    }
    None
}
