//! Owns the bound on accounts whose notices don't say which of them they are for: each such notice is tried against
//! all of them, so that a forged one must not cost more than `UNNAMED_TRIED_MAX` accounts do.

use std::collections::HashMap;

use super::{Problem, Route, UNNAMED_TRIED_MAX};

/// The partners with a custom scheme whose later accounts would never get a notice.
pub(super) fn accounts(partners: &HashMap<Box<str>, Route>) -> Vec<Problem> {
    let unnamed = partners.iter().filter(|(_, route)| {
        let scheme = route.profile.as_ref().and_then(|profile| profile.scheme());
        scheme.is_some_and(|scheme| !scheme.open.names_account)
    });
    let mut found: Vec<_> =
        unnamed.filter(|(_, route)| route.all.len() > UNNAMED_TRIED_MAX).collect();
    found.sort_by_key(|(partner, _)| *partner);
    found.into_iter().map(|(partner, route)| problem(partner, route)).collect()
}

fn problem(partner: &str, route: &Route) -> Problem {
    Problem(format!(
        "partner {partner} has {} enabled accounts, and its profile reads no merchant before a key is tried, which is done \
         with {UNNAMED_TRIED_MAX} accounts at most: the notices of the others would be 401; map merchant to a place of the \
         notice that is not encrypted and needs no constant, or put the other accounts under a second partner with the same \
         profile ([partners.{partner}-2])",
        route.all.len()
    ))
}
