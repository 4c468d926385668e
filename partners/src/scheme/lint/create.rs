//! Owns what makes `[create]` and the notices of its payments fit: a notice has to lead back to the order that was sent,
//! and a ref that must be the session's has to be one the session can have.

use super::facts;
use crate::profile::Common;
use crate::profile::file::Wrong;
use crate::scheme::Scheme;
use crate::scheme::call::{CallRule, ORDER};
use crate::scheme::create::SchemeCreate;
use crate::scheme::template::{Piece, Source, Template};

pub(super) fn creates(scheme: &Scheme, common: &Common, problems: &mut Vec<Wrong>) {
    let Some(create) = &scheme.create else { return };
    let mut wrong = |problem: &str| {
        problems.push(Wrong { span: create.span.clone(), problem: problem.to_owned() });
    };
    if common.ref_is_session && !names_a_session(scheme, create) {
        wrong(
            "ref_is_session = true, but the transaction of a session is named \"later\": no notice's ref could ever be it; \
             write ref_is_session = false, or the place of the ref in the answer",
        );
    }
    let sent_otherwise = !sends_order_as_it_is(&create.rule);
    let read_as_it_is = |place: &Option<Template>| place.as_ref().is_some_and(is_one_plain_place);
    let mut places = facts(scheme).map(|(_, event)| &event.places.order);
    let all_plain = read_as_it_is(&scheme.map.places.order)
        && places.all(|own| own.is_none() || read_as_it_is(own));
    if sent_otherwise && all_plain {
        wrong(
            "the order is sent in another form than notices are read by: [map] order would name another one; write the \
             way back there, such as \"[ord-{f.order|after:_|uuid}]\"",
        );
    }
}

/// Whether the ref of a notice can be that of the session: named by the answer, or the order on both sides.
fn names_a_session(scheme: &Scheme, create: &SchemeCreate) -> bool {
    let of_answer = create.offer.as_ref().is_some_and(|offer| offer.provider_ref.is_some());
    let map = &scheme.map.places;
    of_answer || (map.provider_ref.is_some() && map.provider_ref == map.order)
}

/// Whether some place has the order without anything left out of it.
fn sends_order_as_it_is(rule: &CallRule) -> bool {
    let tokens = rule.sent().into_iter().flat_map(Template::tokens);
    let mut orders = tokens.filter(|token| token.source == Source::Value(ORDER));
    orders.any(|token| !token.filters.iter().any(|filter| filter.loses()))
}

fn is_one_plain_place(template: &Template) -> bool {
    matches!(template.pieces.as_slice(), [Piece::Token(token)] if token.filters.is_empty())
}
