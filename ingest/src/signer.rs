//! Owns the identity of a notice's signer: an account and one of its keys.

use std::sync::Arc;

use payfold_partners::directory::Account;
use payfold_schemas::ids::KeyId;

/// An account, and the key of that account that signed a notice.
pub(crate) struct Signer {
    /// The account that the notice belongs to.
    pub(crate) account: Arc<Account>,
    /// The id of the key that verified the signature.
    pub(crate) key_id: KeyId,
}
