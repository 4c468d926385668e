//! Owns the bound on a partner's accounts if its notices don't name their account. Each such notice
//! is tried against all accounts, so every account makes a forged notice more expensive.

use std::collections::HashMap;

use crate::directory::problem::DirectoryProblem;
use crate::directory::route::{Route, UNNAMED_TRIED_MAX};

/// Finds partners with a custom scheme and more accounts than their notices are tried against.
pub(super) fn accounts(partners: &HashMap<Box<str>, Route>) -> Vec<DirectoryProblem> {
    let unnamed = partners.iter().filter(|(_, route)| {
        let scheme = route.profile.as_ref().map(|profile| profile.scheme());
        scheme.is_some_and(|scheme| !scheme.open.names_account)
    });
    let mut found: Vec<_> =
        unnamed.filter(|(_, route)| route.all.len() > UNNAMED_TRIED_MAX).collect();
    found.sort_by_key(|(partner, _)| *partner);
    found.into_iter().map(|(partner, route)| problem(partner, route)).collect()
}

fn problem(partner: &str, route: &Route) -> DirectoryProblem {
    DirectoryProblem(format!(
        "partner {partner} has {} enabled accounts, and its profile reads no merchant before a key \
         is tried, so that only the first {UNNAMED_TRIED_MAX} are tried: the notices of the others \
         would get 401; map merchant to a place of the notice that is not encrypted and needs no \
         constant, or put the other accounts under a second partner with the same profile \
         ([partners.{partner}-2])",
        route.all.len()
    ))
}
