//! Owns what a person reads about a code with which a signed notice was refused: what it usually
//! is, and what to do.

use crate::choice::Choice;

/// The code of the rule on time.
const STALE: &str = "timestamp_out_of_window";
/// What to do if the partner's notices are not as its contract says.
const PARTNER_MENDS: &str = "send the partner the code, the detail and the request id; dismiss \
    this notice when the right one has come";

/// What it usually is.
pub(crate) fn usually(code: &str) -> &'static str {
    match code {
        STALE => {
            "a clock is wrong, an old notice was sent once more as it was, or the key was not \
             valid yet"
        }
        "missing_field" | "empty_field" | "wrong_type" | "bad_timestamp" | "amount_not_integer" => {
            "the partner has changed its software"
        }
        "unknown_status" => "the partner has a status that the contract does not know",
        "illegal_character" | "field_too_long" | "separator_in_field" => {
            "an id is outside the contract"
        }
        "unknown_currency" | "amount_out_of_range" => "it is a test, or a bug of the partner",
        "no_order" => {
            "money that names no order of ours: it was paid elsewhere under this account, or it is \
             a refund or chargeback that the profile has no status for"
        }
        "unknown_field" => "the partner has a new field, and its profile takes known ones only",
        _ => "the partner signed what is not as contract and profile say",
    }
}

/// What to do about it.
pub(crate) fn action(code: &str) -> &'static str {
    match code {
        STALE => "see that the clock is right and the key valid, then release it",
        "no_order" => {
            "find the payment at the partner; book it, or pay it back there; then dismiss it"
        }
        "unknown_field" => {
            "if such fields are harmless, set unknown_fields = \"allow\" in the profile; then \
             release it"
        }
        _ => PARTNER_MENDS,
    }
}

/// What can be chosen about it.
pub(crate) fn choices(code: &str) -> &'static [Choice] {
    if code == STALE { Choice::STALE_NOTICES } else { Choice::UNFIT_NOTICES }
}
