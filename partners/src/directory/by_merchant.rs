//! Owns the choice of custom schemes that the shared route tries. It tries a custom scheme if the
//! scheme's notices name their account and can't pass without a signature. It verifies such notices
//! as the partner's own route does.

use std::collections::HashMap;

use crate::directory::route::Route;

/// The most such partners that a notice on the shared route is tried against, in the order of their
/// codes. Each costs a parse of the body.
pub const SHARED_SCHEMES_MAX: usize = 16;

/// The codes of the partners with such a scheme.
pub(super) fn shared_schemes(partners: &HashMap<Box<str>, Route>) -> Vec<Box<str>> {
    let named = partners.iter().filter(|(_, route)| {
        let custom = route.profile.as_ref().filter(|profile| !profile.is_default_scheme());
        let is_found = custom.is_some_and(|profile| profile.scheme().is_found_by_merchant());
        is_found && !route.all.is_empty()
    });
    let mut codes: Vec<_> = named.map(|(code, _)| code.clone()).collect();
    codes.sort_unstable();
    codes
}
