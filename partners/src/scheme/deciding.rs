//! Owns which values of a notice decide about money, and whether a query can confirm a value that
//! is not signed.

use crate::profile::rules::NonceRule;
use crate::profile::time::TimeKind;
use crate::scheme::compiled::Scheme;
use crate::scheme::lint::facts::{TimeAndNonce, fact_events};
use crate::scheme::rules::EventOutcome;
use crate::scheme::template::{Template, TemplateToken, TokenSource};

/// What can confirm a deciding value that is not signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnsignedFallback {
    /// The answer to a query confirms it.
    Query,
    /// No query confirms it. The text is the end of the message: the advice.
    None(&'static str),
}

/// A token with a value that decides about money.
pub(crate) struct DecidingToken<'s> {
    pub(crate) what: &'static str,
    pub(crate) token: &'s TemplateToken,
    pub(crate) resort: UnsignedFallback,
}

/// The sources of every deciding value, the time and the merchant included.
pub(crate) fn deciding_sources(scheme: &Scheme) -> Vec<&TokenSource> {
    let places = scheme.events.iter().map(|event| &event.places).chain([&scheme.map.places]);
    let places = places.flat_map(|place| {
        let money = [&place.order, &place.provider_ref, &place.amount, &place.currency];
        money.into_iter().chain([&place.event, &place.paid_at, &place.nonce]).flatten()
    });
    let time = scheme.time.iter().map(|(time, _)| time);
    let required = scheme.require.iter().flat_map(|rule| [&rule.value, &rule.equals]);
    let templates = places.chain(&scheme.map.merchant).chain(time).chain(required);
    let conditions = scheme.events.iter().flat_map(|event| &event.when);
    let tokens = templates.flat_map(Template::tokens);
    tokens.chain(conditions.map(|condition| &condition.value)).map(|token| &token.source).collect()
}

/// The deciding tokens, each with what it decides. A source is listed once for each fallback.
pub(crate) fn deciding_tokens(scheme: &Scheme, with: TimeAndNonce) -> Vec<DecidingToken<'_>> {
    const EVENT: UnsignedFallback = UnsignedFallback::None(
        ": anybody could make several refunds of one, and no query confirms it; map a signed \
         place, or leave event out (then the amount is all that went back so far)",
    );
    const PAID_AT: UnsignedFallback = UnsignedFallback::None(
        ": anybody could change it, and no query confirms it; map a signed place, or leave paid_at \
         out",
    );
    const TIME: UnsignedFallback = UnsignedFallback::None(
        " with time.kind = \"event\": anybody could change it, and no query confirms it; read a \
         signed time, or write kind = \"none\"",
    );
    let mut found: Vec<DecidingToken<'_>> = Vec::new();
    let all = &scheme.map.places;
    for (_, event) in fact_events(scheme) {
        let own = &event.places;
        for (what, place, resort) in [
            ("the order", own.order.as_ref().or(all.order.as_ref()), UnsignedFallback::Query),
            (
                "the ref",
                own.provider_ref.as_ref().or(all.provider_ref.as_ref()),
                UnsignedFallback::Query,
            ),
            ("the amount", own.amount.as_ref().or(all.amount.as_ref()), UnsignedFallback::Query),
            (
                "the currency",
                own.currency.as_ref().or(all.currency.as_ref()),
                UnsignedFallback::Query,
            ),
            ("which event it is", own.event.as_ref().or(all.event.as_ref()), EVENT),
            ("when it was paid", own.paid_at.as_ref().or(all.paid_at.as_ref()), PAID_AT),
        ] {
            let tokens = place.into_iter().flat_map(Template::tokens);
            found.extend(tokens.map(|token| DecidingToken { what, token, resort }));
        }
    }
    let mut also = |what, token, resort| found.push(DecidingToken { what, token, resort });
    for condition in scheme.events.iter().flat_map(|event| &event.when) {
        also("the status", &condition.value, UnsignedFallback::Query);
    }
    for template in scheme.require.iter().flat_map(|rule| [&rule.value, &rule.equals]) {
        for token in template.tokens() {
            also("whether it is ours", token, UnsignedFallback::Query);
        }
    }
    if with.nonce != NonceRule::Unused {
        let places = scheme.events.iter().map(|event| &event.places).chain([all]);
        for token in places.filter_map(|place| place.nonce.as_ref()).flat_map(Template::tokens) {
            also("the nonce", token, UnsignedFallback::Query);
        }
    }
    // With time.kind = "event" the notice's time is used as paid_at if the profile maps none.
    let pays = |(_, event): (usize, &crate::scheme::rules::EventRule)| {
        event.outcome == EventOutcome::Status(payfold_schemas::ipn::Status::Success)
    };
    if with.time == TimeKind::Event && fact_events(scheme).any(pays) {
        for token in scheme.time.iter().flat_map(|(time, _)| time.tokens()) {
            also("when it was paid", token, TIME);
        }
    }
    let mut seen: Vec<(&TokenSource, UnsignedFallback)> = Vec::new();
    found.retain(|one| {
        let key = (&one.token.source, one.resort);
        let is_new = !seen.contains(&key);
        seen.push(key);
        is_new
    });
    found
}
