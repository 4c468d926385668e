//! Owns the rule that a query confirms a payment of the notice's own order. A question by
//! transaction is answered about that transaction, whichever order it paid. So the answer names the
//! order, or the notice's signature binds the transaction to it.

use super::coverage::covered_by;
use crate::profile::mistake::ProfileMistake;
use crate::scheme::compiled::Scheme;
use crate::scheme::lint::facts::fact_events;
use crate::scheme::query::rule::{REF, SchemeQuery};
use crate::scheme::rules::SignRule;
use crate::scheme::template::Template;

/// Checks every `[[sign]]` with notices that a query by transaction confirms.
pub(super) fn check_confirmation(scheme: &Scheme, problems: &mut Vec<ProfileMistake>) {
    let by_ref = scheme.query.as_ref().filter(|query| query.question.names(REF));
    if by_ref.is_none_or(names_order) {
        return;
    }
    for sign in &scheme.signs {
        if scheme.confirms(sign) && !binds_ref_to_order(scheme, sign) {
            let problem = format!(
                "[query] asks by {{ref}}, the answer does not say of which order that payment is, \
                 and [[sign]] {} does not sign order and ref: anybody could have an order \
                 confirmed by the payment of another one; map order in [query.map], or ask by \
                 {{order}}",
                sign.name
            );
            problems.push(ProfileMistake { span: sign.span.clone(), problem });
        }
    }
}

/// Whether every answer that ends a payment names its order.
fn names_order(query: &SchemeQuery) -> bool {
    let answer = &query.answer;
    let mut ends = answer.events.iter().filter(|event| event.status().is_some());
    answer.map.places.order.is_some() || ends.all(|event| event.places.order.is_some())
}

/// Whether both places of every event are signed.
fn binds_ref_to_order(scheme: &Scheme, sign: &SignRule) -> bool {
    let all = &scheme.map.places;
    let is_signed = |place: Option<&Template>| {
        place.is_some_and(|place| {
            place.tokens().into_iter().all(|token| covered_by(scheme, sign, token))
        })
    };
    fact_events(scheme).all(|(_, event)| {
        let own = &event.places;
        is_signed(own.order.as_ref().or(all.order.as_ref()))
            && is_signed(own.provider_ref.as_ref().or(all.provider_ref.as_ref()))
    })
}
