//! Owns unwrapping a document inside a value: decoding it, and decrypting it with a key of the
//! account. Pure.

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes128Gcm, Aes256Gcm, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use crate::scheme::rules::TextDecoding;

/// Decodes a wrapped text. `None` if it has another encoding.
pub(crate) fn decode(how: TextDecoding, text: Vec<u8>) -> Option<Vec<u8>> {
    match how {
        TextDecoding::None => Some(text),
        TextDecoding::Hex => hex::decode(text).ok(),
        TextDecoding::Base64 => STANDARD.decode(text).ok(),
        TextDecoding::Base64url => {
            let text = String::from_utf8(text).ok()?;
            URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()
        }
    }
}

/// Decrypts AES-GCM with a key of 16 or 32 bytes and a nonce of 12 bytes. The tag follows the text.
/// `None` if the key does not fit or the tag is wrong.
pub(crate) fn open(key: &[u8], nonce: &[u8], (msg, aad): (&[u8], &[u8])) -> Option<Vec<u8>> {
    if nonce.len() != 12 {
        return None;
    }
    let (nonce, payload) = (Nonce::from_slice(nonce), Payload { msg, aad });
    match key.len() {
        16 => Aes128Gcm::new_from_slice(key).ok()?.decrypt(nonce, payload).ok(),
        32 => Aes256Gcm::new_from_slice(key).ok()?.decrypt(nonce, payload).ok(),
        _ => None,
    }
}
