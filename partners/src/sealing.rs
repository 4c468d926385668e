//! Owns the sealing of notices: their bytes are encrypted with a key of their account's month, so
//! that destroying the key destroys the bytes of that month wherever they are stored. The cipher is
//! AES-256-GCM. Each record has its own key, derived from the month's key with HMAC-SHA256.
//!
//! Sealed bytes: a random nonce (12 bytes), the ciphertext, and the tag (16 bytes). The account and
//! the request id are authenticated with them. Invariants: a derived key encrypts only the items of
//! one request, so that random nonces can't collide however many records a month has. No `Debug`
//! shows a key. The error of a failed decryption shows nothing of the content.

use std::fmt;

use aes_gcm::aead::{AeadInPlace, KeyInit};
use aes_gcm::{Aes256Gcm, Nonce, Tag};
use payfold_schemas::ids::KeyId;
use payfold_schemas::month::Month;
use payfold_schemas::notice_source::RecordedRequest;
use payfold_schemas::sealed::{self, Delivery};
use payfold_schemas::time::Time;
use zeroize::Zeroizing;

use crate::document::{AccountEntry, KeyEntry};
use crate::key_window::KeyWindow;
use crate::keys::Channel;
use crate::mac::MacKey;
use crate::secret::Secret;

const NONCE_BYTES: usize = 12;

const TAG_BYTES: usize = 16;

/// Separates derived keys from other uses of the month's key.
const PURPOSE: &[u8] = b"payfold.body.v1\0";

/// The key that seals the notices of one account in one month.
#[derive(Clone)]
pub struct BodyKey {
    id: KeyId,
    window: KeyWindow,
    mac: MacKey,
}

/// The body keys of an account.
#[derive(Clone, Debug, Default)]
pub struct BodyKeys {
    /// The key that began last comes first.
    keys: Vec<BodyKey>,
    erased: Vec<(KeyId, Time)>,
}

/// Why sealed bytes can't be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The key was destroyed.
    #[error("its bytes are gone: the key {id} they were sealed with was erased at {at}")]
    Erased {
        /// The key's id.
        id: KeyId,
        /// When it was destroyed.
        at: Time,
    },
    /// The vault does not have the key.
    #[error(
        "the key {0} its bytes are sealed with is not in the vault: it was erased, or give a vault \
         that holds it"
    )]
    NoKey(KeyId),
    /// The key does not decrypt the bytes.
    #[error("its sealed bytes don't open with key {0}: they were changed after they were stored")]
    NotOpened(KeyId),
    /// The decrypted bytes are not a sealed notice.
    #[error(transparent)]
    Content(#[from] sealed::ContentError),
}

impl BodyKey {
    /// A key with its id and validity.
    pub(crate) fn new(id: KeyId, secret: &Secret, window: KeyWindow) -> Self {
        Self { id, window, mac: MacKey::new(secret.expose()) }
    }

    /// The key's id, which is stored beside the bytes that the key sealed.
    pub fn id(&self) -> &KeyId {
        &self.id
    }

    /// Seals a request and its body, and appends the result to `into`.
    pub fn seal(
        &self,
        delivery: Delivery<'_>,
        (request, body): (&RecordedRequest, &[u8]),
        into: &mut Vec<u8>,
    ) {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).expect("the system has given randomness since the start");
        into.extend_from_slice(&nonce);
        let start = into.len();
        sealed::write(request, body, into);
        let about = about(delivery);
        let tag = self
            .cipher(&about)
            .encrypt_in_place_detached(Nonce::from_slice(&nonce), &about, &mut into[start..])
            .expect("a body is far below the cipher's 64 GiB");
        into.extend_from_slice(&tag);
    }

    fn open(
        &self,
        delivery: Delivery<'_>,
        sealed: &[u8],
    ) -> Result<(RecordedRequest, Vec<u8>), SealError> {
        let not_opened = || SealError::NotOpened(self.id.clone());
        let (nonce, rest) = sealed.split_at_checked(NONCE_BYTES).ok_or_else(not_opened)?;
        let end = rest.len().checked_sub(TAG_BYTES).ok_or_else(not_opened)?;
        let (ciphertext, tag) = rest.split_at(end);
        let mut content = Zeroizing::new(ciphertext.to_vec());
        let about = about(delivery);
        self.cipher(&about)
            .decrypt_in_place_detached(
                Nonce::from_slice(nonce),
                &about,
                &mut content,
                Tag::from_slice(tag),
            )
            .map_err(|_| not_opened())?;
        let (request, body) = sealed::read(&content)?;
        Ok((request, body.to_vec()))
    }

    /// The cipher of one record, with the key derived for it.
    fn cipher(&self, about: &[u8]) -> Aes256Gcm {
        let key = Zeroizing::new(self.mac.sign(about));
        Aes256Gcm::new_from_slice(&*key).expect("an HMAC-SHA256 has the 32 bytes of a key")
    }
}

/// The account and request of a record: its key is derived from them, and its bytes are
/// authenticated with them.
fn about(delivery: Delivery<'_>) -> Vec<u8> {
    let Delivery { partner, merchant_code, request_id } = delivery;
    let request_id = request_id.to_string();
    // Neither code can contain a slash, so different records have different texts.
    [PURPOSE, partner.as_bytes(), b"/", merchant_code.as_bytes(), b"/", request_id.as_bytes()]
        .concat()
}

impl BodyKeys {
    /// The body keys of an account in the vault.
    pub fn of(entry: &AccountEntry) -> Self {
        let of_bodies = entry.keys.iter().filter(|key| key.channel == Channel::Body);
        let read = |key: &KeyEntry| {
            let window = KeyWindow { begins: key.valid_from, ends: key.valid_until };
            BodyKey::new(key.id.clone(), &key.secret, window)
        };
        let mut keys: Vec<_> = of_bodies.map(read).collect();
        keys.sort_by_key(|key| std::cmp::Reverse(key.window.begins));
        let erased = entry.erased.iter().map(|erased| (erased.key_id.clone(), erased.at)).collect();
        Self { keys, erased }
    }

    /// The key that seals notices at `now`: the valid key with the latest beginning. `None` if
    /// notices are stored unsealed.
    pub fn sealing(&self, now: Time) -> Option<&BodyKey> {
        self.keys.iter().find(|key| key.window.is_valid_at(now))
    }

    /// Whether notices are sealed at `now`, and no key that goes on begins in the next month.
    pub fn lacks_next(&self, now: Time) -> bool {
        let next = Month::of(now).next();
        let begins =
            |key: &BodyKey| Month::of(key.window.begins) == next && key.window.is_valid_after(now);
        self.sealing(now).is_some() && !self.keys.iter().any(begins)
    }

    /// Opens bytes that the key of this id sealed. Errors: `SealError`.
    pub fn open(
        &self,
        id: &KeyId,
        delivery: Delivery<'_>,
        sealed: &[u8],
    ) -> Result<(RecordedRequest, Vec<u8>), SealError> {
        match self.keys.iter().find(|key| key.id == *id) {
            Some(key) => key.open(delivery, sealed),
            None => Err(match self.erased.iter().find(|(erased, _)| erased == id) {
                Some((_, at)) => SealError::Erased { id: id.clone(), at: *at },
                None => SealError::NoKey(id.clone()),
            }),
        }
    }
}

/// A notice's request and body as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsealedBody {
    /// The request's method, target and headers.
    pub request: RecordedRequest,
    /// The body's bytes.
    pub raw: Vec<u8>,
}

impl BodyKeys {
    /// The request and body of a record as received, unsealed if necessary. Errors: `SealError`.
    pub fn open_body(
        &self,
        (delivery, request): (Delivery<'_>, &RecordedRequest),
        (key_id, raw): (Option<&KeyId>, &[u8]),
    ) -> Result<UnsealedBody, SealError> {
        match key_id {
            None => Ok(UnsealedBody { request: request.clone(), raw: raw.to_vec() }),
            Some(id) => {
                let (request, raw) = self.open(id, delivery, raw)?;
                Ok(UnsealedBody { request, raw })
            }
        }
    }
}

impl fmt::Debug for BodyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyKey").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use payfold_schemas::ids::RequestId;

    use super::*;

    const ID: &str = "01939b1c-7a00-7000-8000-000000000001";

    fn at(second: i64) -> Time {
        Time::from_unix_ms(second * 1_000)
    }

    fn key(id: &str, from: i64, until: Option<i64>) -> BodyKey {
        let secret = Secret::from_bytes(format!("hush, the secret of the key {id}").into_bytes());
        BodyKey::new(
            KeyId::parse(id).unwrap(),
            &secret,
            KeyWindow { begins: at(from), ends: until.map(at) },
        )
    }

    fn keys() -> BodyKeys {
        let keys = vec![key("c", 30, None), key("b", 20, Some(25)), key("a", 10, None)];
        BodyKeys { keys, erased: vec![(KeyId::parse("z").unwrap(), at(99))] }
    }

    fn delivery(request_id: &str) -> Delivery<'static> {
        let request_id: RequestId = request_id.parse().unwrap();
        Delivery { partner: "acme", merchant_code: "SHOP", request_id }
    }

    fn request() -> RecordedRequest {
        RecordedRequest { target: "/x?payer=An".to_owned(), ..RecordedRequest::default() }
    }

    fn sealed() -> Vec<u8> {
        let mut bytes = Vec::new();
        let keys = keys();
        let key = keys.sealing(at(31)).unwrap();
        key.seal(delivery(ID), (&request(), b"{\"payer\":\"An\"}"), &mut bytes);
        bytes
    }

    #[test]
    fn sealed_bytes_open_for_their_record_only() {
        let id = KeyId::parse("c").unwrap();
        let opened = keys().open(&id, delivery(ID), &sealed());
        assert_eq!(opened, Ok((request(), b"{\"payer\":\"An\"}".to_vec())));
        assert!(!sealed().windows(5).any(|bytes| bytes == b"payer"));
        assert_ne!(sealed(), sealed(), "a nonce is never used again");
        let others = [
            delivery("01939b1c-7a00-7000-8000-000000000002"),
            Delivery { merchant_code: "SHOP2", ..delivery(ID) },
            Delivery { partner: "bolt", ..delivery(ID) },
        ];
        for other in others {
            let opened = keys().open(&id, other, &sealed());
            assert_eq!(opened, Err(SealError::NotOpened(id.clone())), "{other:?}");
        }
    }

    #[test]
    fn every_flipped_byte_and_every_cut_is_detected() {
        let (id, whole) = (KeyId::parse("c").unwrap(), sealed());
        for place in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[place] ^= 1;
            assert!(keys().open(&id, delivery(ID), &flipped).is_err(), "byte {place}");
            assert!(keys().open(&id, delivery(ID), &whole[..place]).is_err(), "cut at {place}");
        }
    }

    #[test]
    fn the_key_that_began_last_seals_and_an_erased_one_opens_nothing() {
        for (now, id) in
            [(5, None), (10, Some("a")), (22, Some("b")), (26, Some("a")), (30, Some("c"))]
        {
            let keys = keys();
            let sealing = keys.sealing(at(now)).map(|key| key.id().as_str());
            assert_eq!(sealing, id, "at {now}");
        }
        let open = |id: &str| keys().open(&KeyId::parse(id).unwrap(), delivery(ID), &sealed());
        assert!(matches!(open("z"), Err(SealError::Erased { .. })));
        assert!(matches!(open("y"), Err(SealError::NoKey(_))));
        assert!(matches!(open("a"), Err(SealError::NotOpened(_))));
        let shown = format!("{:?}", keys());
        assert!(!shown.contains("hush") && shown.contains("\"c\""), "{shown}");
    }
}
