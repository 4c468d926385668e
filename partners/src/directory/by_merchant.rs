//! Owns which partners with a scheme of their own are found on the shared route: those whose notices say whose they are,
//! and can't pass without a signature. What is found there is judged as on the partner's own route; nothing else is.

use std::collections::HashMap;

use super::{Directory, Route};

/// How many such partners a notice on the shared route is tried against, by code: each costs a parse.
pub const SHARED_SCHEMES_MAX: usize = 16;

/// Their codes.
pub(super) fn found(partners: &HashMap<Box<str>, Route>) -> Vec<Box<str>> {
    let named = partners.iter().filter(|(_, route)| {
        let scheme = route.profile.as_ref().and_then(|profile| profile.scheme());
        !route.all.is_empty() && scheme.is_some_and(|scheme| scheme.is_found_by_merchant())
    });
    let mut codes: Vec<_> = named.map(|(code, _)| code.clone()).collect();
    codes.sort_unstable();
    codes.truncate(SHARED_SCHEMES_MAX);
    codes
}

impl Directory {
    /// The partners with a scheme of their own that a notice on the shared route may be from, in the order they are tried.
    pub fn found_by_merchant(&self) -> impl Iterator<Item = &str> {
        self.shared_schemes.iter().map(AsRef::as_ref)
    }
}
