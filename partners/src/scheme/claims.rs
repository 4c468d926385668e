//! Owns the signatures a request claims to have: where they stand, and how many of them are compared. A partner sends
//! one for each key it signs with; each claim of a public-key scheme costs a check, so more than `CLAIMS_MAX` are
//! refused unread. Pure.

use super::SignRule;
use super::reading::Context;

/// The most signatures of one `[[sign]]` that a request may have. A partner that changes its key sends two.
pub(crate) const CLAIMS_MAX: usize = 8;

/// The signatures that were sent, without their prefixes; at most one more than may be. A value without the prefix is
/// no signature.
pub(crate) fn claimed(sign: &SignRule, context: Context<'_>) -> Vec<String> {
    let Some(token) = &sign.signature else { return Vec::new() };
    let values = context.every(token);
    let split = values.iter().flat_map(|value| match &sign.split {
        Some(separator) => value.split(separator.as_str()).map(str::trim).collect::<Vec<_>>(),
        None => vec![value.as_str()],
    });
    let bare = split.filter_map(|value| value.strip_prefix(sign.prefix.as_str()));
    bare.take(CLAIMS_MAX + 1).map(str::to_owned).collect()
}

/// Whether these are more signatures than a request may have.
pub(crate) fn are_too_many(claimed: &[String]) -> bool {
    claimed.len() > CLAIMS_MAX
}

/// The bytes of the signatures that are written as the profile says; none if a request has too many.
pub(crate) fn read_claims(sign: &SignRule, claimed: &[String]) -> Vec<Vec<u8>> {
    if are_too_many(claimed) {
        return Vec::new();
    }
    claimed.iter().filter_map(|text| sign.output.read(text)).collect()
}
