//! Owns HMAC-SHA256 (RFC 2104, contract 5). A key is prepared once, and signatures are compared in
//! constant time. A signature has exactly one accepted encoding.

use std::fmt;

use hmac::{Hmac, Mac};
use schemars::JsonSchema;
use serde::Deserialize;
use sha2::Sha256;

/// The length of a signature, in bytes.
pub const SIGNATURE_BYTES: usize = 32;

/// The encoding of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum HexCase {
    /// 64 hex digits, `a` to `f`.
    #[serde(rename = "hex-lower")]
    Lower,
    /// 64 hex digits, `A` to `F`.
    #[serde(rename = "hex-upper")]
    Upper,
}

impl HexCase {
    /// Encodes a signature.
    pub fn write(self, signature: &[u8; SIGNATURE_BYTES]) -> String {
        match self {
            Self::Lower => hex::encode(signature),
            Self::Upper => hex::encode_upper(signature),
        }
    }

    /// Decodes a signature in exactly this encoding; `None` for any other text. Decoding has no
    /// branch on a digit, because random digits would make the processor mispredict it.
    pub fn read(self, text: &str) -> Option<[u8; SIGNATURE_BYTES]> {
        let digits: &[u8; 2 * SIGNATURE_BYTES] = text.as_bytes().try_into().ok()?;
        let mut signature = [0; SIGNATURE_BYTES];
        let read = match self {
            Self::Lower => base16ct::lower::decode(digits, &mut signature),
            Self::Upper => base16ct::upper::decode(digits, &mut signature),
        };
        read.is_ok().then_some(signature)
    }
}

/// HMAC-SHA256 with a prepared key, for any number of texts. It is as secret as the key.
#[derive(Clone)]
pub struct MacKey(Hmac<Sha256>);

impl MacKey {
    /// Prepares a key of any length.
    pub fn new(key: &[u8]) -> Self {
        Self(Hmac::new_from_slice(key).expect("HMAC takes a key of any length"))
    }

    /// The signature of `text`.
    pub fn sign(&self, text: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.0.clone().chain_update(text).finalize().into_bytes().into()
    }

    /// Whether `claimed` is the signature of `text`, in a time that doesn't depend on where they
    /// differ.
    pub fn verifies(&self, text: &[u8], claimed: &[u8; SIGNATURE_BYTES]) -> bool {
        self.0.clone().chain_update(text).verify_slice(claimed).is_ok()
    }
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MacKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, cases 1 to 4, 6 and 7: key, data, HMAC-SHA256, in hex; `*` repeats a byte.
    const RFC_4231: &str = "
        0b*20    4869205468657265    b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7
        4a656665 7768617420646f2079612077616e7420666f72206e6f7468696e673f 5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843
        aa*20    dd*50               773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe
        0102030405060708090a0b0c0d0e0f10111213141516171819 cd*50 82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b
        aa*131   54657374205573696e67204c6172676572205468616e20426c6f636b2d53697a65204b6579202d2048617368204b6579204669727374 60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54
        aa*131   5468697320697320612074657374207573696e672061206c6172676572207468616e20626c6f636b2d73697a65206b657920616e642061206c6172676572207468616e20626c6f636b2d73697a6520646174612e20546865206b6579206e6565647320746f20626520686173686564206265666f7265206265696e6720757365642062792074686520484d414320616c676f726974686d2e 9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2
    ";

    fn bytes(text: &str) -> Vec<u8> {
        match text.split_once('*') {
            Some((byte, times)) => hex::decode(byte).unwrap().repeat(times.parse().unwrap()),
            None => hex::decode(text).unwrap(),
        }
    }

    #[test]
    fn the_vectors_of_rfc_4231_hold() {
        for case in RFC_4231.lines().filter(|line| !line.trim().is_empty()) {
            let [key, text, expected] =
                case.split_whitespace().map(bytes).collect::<Vec<_>>().try_into().unwrap();
            let key = MacKey::new(&key);
            let signature = key.sign(&text);
            assert_eq!(signature[..], expected, "{case}");
            assert!(key.verifies(&text, &signature));
            for bit in 0..256 {
                let mut other = signature;
                other[bit / 8] ^= 1 << (bit % 8);
                assert!(!key.verifies(&text, &other), "bit {bit} of {case}");
            }
        }
    }

    #[test]
    fn a_signature_has_one_accepted_encoding() {
        let signature = [0xab; 32];
        let (lower, upper) = (HexCase::Lower, HexCase::Upper);
        assert_eq!(lower.read(&lower.write(&signature)), Some(signature));
        assert_eq!(upper.read(&upper.write(&signature)), Some(signature));
        assert_eq!(lower.read(&upper.write(&signature)), None);
        assert_eq!(upper.read(&lower.write(&signature)), None);
        let text = lower.write(&signature);
        for other in [
            "",
            &text[1..],
            &text[..62],
            &format!("{text}0"),
            &format!("{text}00"),
            &format!("0x{}", &text[2..]),
            &format!(" {}", &text[1..]),
            &format!("{}\n", &text[1..]),
            &format!("{}A", &text[1..]),
            &format!("{}g", &text[1..]),
            &format!("{}à", &text[2..]),
        ] {
            assert_eq!(lower.read(other), None, "{other:?}");
        }
        assert_eq!(lower.read(&"0".repeat(64)), Some([0; 32]));
        assert_eq!(upper.read(&"0".repeat(64)), Some([0; 32]));
    }

    #[test]
    fn debug_shows_no_key() {
        assert_eq!(format!("{:?}", MacKey::new(b"hush")), "MacKey(..)");
    }
}
