//! Owns the rules that make `[create]` fit the notices of its payments: a notice must lead back to
//! the order that was sent, and with ref_is_session the session must have a ref that notices can
//! name.

use crate::profile::common::CommonRules;
use crate::profile::mistake::ProfileMistake;
use crate::scheme::call::rule::{CallRule, ORDER};
use crate::scheme::compiled::Scheme;
use crate::scheme::create::rule::SchemeCreate;
use crate::scheme::lint::facts::fact_events;
use crate::scheme::template::{Template, TemplatePiece, TokenSource};

pub(super) fn check_create(
    scheme: &Scheme,
    common: &CommonRules,
    problems: &mut Vec<ProfileMistake>,
) {
    let Some(create) = &scheme.create else { return };
    let mut wrong = |problem: &str| {
        problems.push(ProfileMistake { span: create.span.clone(), problem: problem.to_owned() });
    };
    if common.ref_is_session && !names_a_session(scheme, create) {
        wrong(
            "ref_is_session = true, but the transaction of a session is named \"later\": no \
             notice's ref could ever be it; write ref_is_session = false, or the place of the ref \
             in the answer",
        );
    }
    let sent_otherwise = !sends_order_as_it_is(&create.rule);
    let read_as_it_is = |place: &Option<Template>| place.as_ref().is_some_and(is_one_plain_place);
    let mut places = fact_events(scheme).map(|(_, event)| &event.places.order);
    let all_plain = read_as_it_is(&scheme.map.places.order)
        && places.all(|own| own.is_none() || read_as_it_is(own));
    if sent_otherwise && all_plain {
        wrong(
            "the order is sent changed, and [map] order reads it unchanged, so a notice would name \
             another order; write the way back there, such as \"[ord-{f.order|after:_|uuid}]\"",
        );
    }
}

/// Whether a notice can name the session's ref: the answer names it, or both sides use the order.
fn names_a_session(scheme: &Scheme, create: &SchemeCreate) -> bool {
    let of_answer = create.offer.as_ref().is_some_and(|offer| offer.provider_ref.is_some());
    let map = &scheme.map.places;
    of_answer || (map.provider_ref.is_some() && map.provider_ref == map.order)
}

/// Whether some place sends the order id without losing a part of it.
fn sends_order_as_it_is(rule: &CallRule) -> bool {
    let tokens = rule.sent_templates().into_iter().flat_map(Template::tokens);
    let mut orders = tokens.filter(|token| token.source == TokenSource::Value(ORDER));
    orders.any(|token| !token.filters.iter().any(|filter| filter.loses()))
}

fn is_one_plain_place(template: &Template) -> bool {
    matches!(template.pieces.as_slice(), [TemplatePiece::Token(token)] if token.filters.is_empty())
}
