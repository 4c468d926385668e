//! Owns the rule that a query confirms a payment of the notice's own order. A question by
//! transaction is answered about that transaction, whichever order it paid, so the answer names the
//! order.

use crate::profile::mistake::ProfileMistake;
use crate::scheme::compiled::Scheme;
use crate::scheme::query::rule::{ORDER_WITHOUT_REF, SchemeQuery};

/// Checks every `[[sign]]` with notices that a query confirms.
pub(super) fn check_confirmation(scheme: &Scheme, problems: &mut Vec<ProfileMistake>) {
    let is_by_ref =
        |query: &&SchemeQuery| query.names_ref() || query.question.names(ORDER_WITHOUT_REF);
    let by_ref = scheme.query.as_ref().filter(is_by_ref);
    if by_ref.is_none_or(names_order) {
        return;
    }
    for sign in scheme.signs.iter().filter(|sign| scheme.confirms(sign)) {
        let problem = format!(
            "a query confirms the notices of [[sign]] {}; it asks about a transaction, and the \
             answer does not say of which order that is: the payment of another order would \
             confirm this one; map order in [query.map], or ask by {{order}}",
            sign.name
        );
        problems.push(ProfileMistake { span: sign.span.clone(), problem });
    }
}

/// Whether every answer that ends a payment names its order.
fn names_order(query: &SchemeQuery) -> bool {
    let answer = &query.answer;
    let mut ends = answer.events.iter().filter(|event| event.status().is_some());
    answer.map.places.order.is_some() || ends.all(|event| event.places.order.is_some())
}
