//! Owns the reasons why a change of the vault's document is refused.

use payfold_schemas::ids::{Author, KeyId, MerchantCode, PartnerCode};

use crate::keys::KeyError;

/// Why a change of the vault's document is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// The vault has no such account.
    #[error("no account {partner}/{merchant_code} in the vault; add it first")]
    UnknownAccount {
        /// The partner's code.
        partner: PartnerCode,
        /// The account's merchantCode.
        merchant_code: MerchantCode,
    },
    /// The vault has this account already.
    #[error("account {partner}/{merchant_code} is in the vault already")]
    KnownAccount {
        /// The partner's code.
        partner: PartnerCode,
        /// The account's merchantCode.
        merchant_code: MerchantCode,
    },
    /// The account has no such key.
    #[error("no key {id} in this account; list its keys to see their ids")]
    UnknownKey {
        /// The key's id.
        id: KeyId,
    },
    /// The vault has a token of this name already.
    #[error("a token named {name} is in the vault already; choose another name")]
    KnownToken {
        /// The token's name.
        name: Author,
    },
    /// The overlap is negative.
    #[error("an overlap can't be negative; give 0 to end the old keys at once")]
    Overlap,
    /// The name or the value of a constant has characters that are not allowed, or is too long.
    #[error(
        "constant {name:?}: a name is up to 64 letters, digits, _ - and ., its value up to 256 \
         printable ASCII characters"
    )]
    Constant {
        /// The constant's name.
        name: String,
    },
    /// The serial has characters that are not allowed, or is too long.
    #[error(
        "the serial of key {id} is not up to 128 printable ASCII characters; write it as the \
         partner does"
    )]
    Serial {
        /// The key's id.
        id: KeyId,
    },
    /// The key, or the keys together, can't be used.
    #[error(transparent)]
    Key(#[from] KeyError),
}
