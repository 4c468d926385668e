//! Owns the check of one `[[sign]]` of a notice with one key: the signatures that the request
//! claims to carry, against the text that the scheme says is signed. A partner sends one signature
//! for each key it signs with. With a public key every claimed signature costs one check, so of
//! more than `CLAIMS_MAX` none is checked. Pure.

use super::crypt::{ReadyKey, SignAlgorithm};
use super::message::TemplateContext;
use crate::scheme::rules::SignRule;
use crate::signed_content::SignedContent;

/// The most signatures that a request may carry for one `[[sign]]`. A partner that rotates its key
/// sends two.
pub(crate) const CLAIMS_MAX: usize = 8;

/// The signatures a request carries, without their prefixes; `CLAIMS_MAX` + 1 at most. A value
/// without the prefix is left out.
pub(crate) fn claimed(sign: &SignRule, context: TemplateContext<'_>) -> Vec<String> {
    let Some(token) = &sign.signature else { return Vec::new() };
    let values = context.find_all_values(token);
    let split = values.iter().flat_map(|value| match &sign.split {
        Some(separator) => value.split(separator.as_str()).map(str::trim).collect::<Vec<_>>(),
        None => vec![value.as_str()],
    });
    let bare = split.filter_map(|value| value.strip_prefix(sign.prefix.as_str()));
    // One more than allowed is enough to know that there are too many.
    bare.take(CLAIMS_MAX + 1).map(str::to_owned).collect()
}

/// Whether these are more than `CLAIMS_MAX`.
pub(crate) fn are_too_many(claimed: &[String]) -> bool {
    claimed.len() > CLAIMS_MAX
}

/// Decodes the claimed signatures; those that can't be decoded are dropped. Empty if there are more
/// than `CLAIMS_MAX`.
pub(crate) fn read_claims(sign: &SignRule, claimed: &[String]) -> Vec<Vec<u8>> {
    if are_too_many(claimed) {
        return Vec::new();
    }
    claimed.iter().filter_map(|text| sign.output.decode(text)).collect()
}

/// A signed text that was checked under one key.
pub(crate) struct CheckedText {
    /// The text's identity, if one of the claimed signatures is valid.
    pub(crate) signed: Option<SignedContent>,
    /// The most bytes that the check has hashed: a public key hashes the text for each signature.
    pub(crate) bytes: usize,
}

/// Checks the claimed signatures under one key. `None` if there is nothing to check. Where a scheme
/// has several signatures, a text has one identity for all of them. A MAC is compared in a time
/// that doesn't depend on where the two differ (`ReadyKey::verify_any`).
pub(crate) fn check_signature(
    sign: &SignRule,
    key: &ReadyKey,
    bare: TemplateContext<'_>,
) -> Option<CheckedText> {
    let context = TemplateContext { secret: key.secret(), ..bare };
    let claims = read_claims(sign, &claimed(sign, context));
    if claims.is_empty() {
        return None;
    }
    let text = context.render(&sign.text).ok()?;
    let is_only = bare.message.scheme().signs.len() == 1;
    let identity = |signature: Vec<u8>| match signature.as_slice().try_into() {
        // No two texts have one MAC of this algorithm, so the text needs no second hash.
        Ok(mac) if is_only && sign.algorithm == SignAlgorithm::HmacSha256 => SignedContent::by(mac),
        _ => SignedContent::text(&text),
    };
    let signed = key.verify_any(&text, &claims).map(identity);
    Some(CheckedText { signed, bytes: text.len().saturating_mul(claims.len()) })
}
