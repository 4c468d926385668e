//! Owns the verified notice: account, key, content or fault, and the partner's own responses. It is
//! the same for the default scheme and for custom schemes. Only their verification constructs one.

use std::sync::Arc;

use payfold_schemas::ids::KeyId;
use payfold_schemas::time::Time;

use crate::directory::account::Account;
use crate::notice_content::{ContentFault, NoticeContent};
use crate::profile::Profile;
use crate::scheme::ack::{AckKind, AckResponse};
use crate::scheme::template::Template;
use crate::signed_content::SignedContent;

/// The notices of a request that keys of known accounts have signed, at least one.
#[derive(Debug)]
pub struct VerifiedRequest {
    /// In the order of the request.
    pub notices: Vec<VerifiedNotice>,
    /// The other items of its array, if its profile refuses only those.
    pub unsigned: UnsignedItems,
}

/// Counts items that no key of a known account has signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnsignedItems {
    /// Items that name a merchant of ours, or no merchant that can be read. The merchant's account
    /// may be disabled, or its key not known yet.
    pub ours: usize,
    /// Items that name another merchant.
    pub others: usize,
}

/// A notice, or one item of an array of notices, that a key of a known account has signed, or that
/// belongs to a scheme that signs nothing.
#[derive(Debug)]
pub struct VerifiedNotice {
    pub(crate) account: Arc<Account>,
    pub(crate) key_id: KeyId,
    pub(crate) key_begins: Option<Time>,
    /// The name of the `[[sign]]` that matched; `None` in the default scheme, which has one
    /// signature.
    pub(crate) sign: Option<String>,
    pub(crate) is_unsigned: bool,
    pub(crate) signed: SignedContent,
    pub(crate) covers_all: bool,
    pub(crate) covers_time: bool,
    pub(crate) shares_signature: bool,
    pub(crate) item: Option<u32>,
    pub(crate) content: Result<NoticeContent, ContentFault>,
    /// The bodies of the answers that have values of the notice.
    pub(crate) answer_bodies: Vec<(AckKind, Vec<u8>)>,
    pub(crate) unknown_fields: u32,
}

impl VerifiedNotice {
    /// The account that the notice belongs to.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// The partner's profile.
    pub fn profile(&self) -> &Arc<Profile> {
        self.account.profile()
    }

    /// The key that has signed the notice.
    pub fn key_id(&self) -> &KeyId {
        &self.key_id
    }

    /// The beginning of the key that has signed the notice, if the key is not valid yet. Such a
    /// notice becomes no fact.
    pub fn key_begins(&self) -> Option<Time> {
        self.key_begins
    }

    /// The name of the `[[sign]]` that matched; `None` in the default scheme.
    pub fn sign(&self) -> Option<&str> {
        self.sign.as_deref()
    }

    /// Whether the scheme signs nothing at all.
    pub fn is_unsigned(&self) -> bool {
        self.is_unsigned
    }

    /// Identifies the signed content: the signature, if it is an HMAC-SHA256, or else the SHA-256
    /// of the signed text (of the empty text if nothing is signed). Not for logs: the signed text
    /// may contain the key's secret.
    pub fn signed(&self) -> &[u8; 32] {
        self.signed.as_bytes()
    }

    /// Whether the signature covers every value that decides. If not, notices of different payments
    /// may have the same signed content.
    pub fn covers_all(&self) -> bool {
        self.covers_all
    }

    /// Whether the signature covers the notice's own time.
    pub fn covers_time(&self) -> bool {
        self.covers_time
    }

    /// Whether one signature covers every item of its array.
    pub fn shares_signature(&self) -> bool {
        self.shares_signature
    }

    /// The notice's index in its array, from 0; `None` if it did not come in an array.
    pub fn item(&self) -> Option<u32> {
        self.item
    }

    /// The content. Errors: why the notice can't be admitted.
    pub fn content(&self) -> Result<&NoticeContent, &ContentFault> {
        self.content.as_ref()
    }

    /// The profile's own answer to the partner for an outcome; `None` if the contract's applies. A
    /// profile without an answer for ignored notices answers them as accepted ones.
    pub fn answer(&self, ack: AckKind) -> Option<AckResponse> {
        let body = self.answer_bodies.iter().find(|(other, _)| *other == ack);
        let body = |_: &Template| body.map_or(Vec::new(), |(_, body)| body.clone());
        self.profile().scheme().acks.answer(ack, &body)
    }

    /// The number of top-level fields that the contract does not define; 0 in a custom scheme.
    pub fn unknown_fields(&self) -> u32 {
        self.unknown_fields
    }
}
