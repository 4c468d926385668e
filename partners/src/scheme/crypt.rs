//! Owns the algorithms a notice may be signed with: which key fits one, and whether a signature is of a text.
//! All arithmetic is RustCrypto's or AWS-LC's; what is compared is compared in constant time. `Debug` shows no key.

use std::fmt;

use aws_lc_rs::signature::{
    ED25519, RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
    RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY, RSA_PKCS1_2048_8192_SHA512, UnparsedPublicKey,
    VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use md5::Md5;
use serde::Deserialize;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};
use subtle::{Choice, ConstantTimeEq};
use x509_cert::der::{Decode, DecodePem, Encode, pem};

use crate::keys::{SECRET_BYTES_LEAST, SECRET_BYTES_MIN};
use crate::secret::Secret;

/// How a signature is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Algorithm {
    HmacMd5,
    HmacSha1,
    HmacSha256,
    HmacSha384,
    HmacSha512,
    /// Plain digests; the secret stands in the text.
    Md5,
    Sha1,
    Sha256,
    Sha384,
    Sha512,
    /// PKCS#1 v1.5, the partner's public key.
    RsaSha1,
    RsaSha256,
    RsaSha512,
    Ed25519,
    /// The secret itself is sent along.
    Token,
    /// Nothing is signed.
    None,
}

/// What kind of key an algorithm takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Shared,
    Public,
    Nothing,
}

impl Algorithm {
    /// Those that take a shared secret and sign a text.
    pub(crate) const SHARED: [Algorithm; 10] = [
        Self::HmacSha256,
        Self::HmacSha512,
        Self::HmacSha1,
        Self::HmacMd5,
        Self::HmacSha384,
        Self::Sha256,
        Self::Sha512,
        Self::Md5,
        Self::Sha1,
        Self::Sha384,
    ];

    /// The name in a profile.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::HmacMd5 => "hmac-md5",
            Self::HmacSha1 => "hmac-sha1",
            Self::HmacSha256 => "hmac-sha256",
            Self::HmacSha384 => "hmac-sha384",
            Self::HmacSha512 => "hmac-sha512",
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
            Self::RsaSha1 => "rsa-sha1",
            Self::RsaSha256 => "rsa-sha256",
            Self::RsaSha512 => "rsa-sha512",
            Self::Ed25519 => "ed25519",
            Self::Token => "token",
            Self::None => "none",
        }
    }

    pub(crate) const fn key_kind(self) -> KeyKind {
        match self {
            Self::RsaSha1 | Self::RsaSha256 | Self::RsaSha512 | Self::Ed25519 => KeyKind::Public,
            Self::None => KeyKind::Nothing,
            _ => KeyKind::Shared,
        }
    }

    /// A digest without a key of its own: its text must hold the secret.
    pub(crate) const fn is_plain_digest(self) -> bool {
        matches!(self, Self::Md5 | Self::Sha1 | Self::Sha256 | Self::Sha384 | Self::Sha512)
    }

    /// Whether it is no longer taken for new schemes.
    pub(crate) const fn is_weak(self) -> bool {
        matches!(self, Self::Md5 | Self::Sha1 | Self::HmacMd5 | Self::RsaSha1)
    }

    /// Whether it says anything about what is in the notice.
    pub(crate) const fn signs_the_text(self) -> bool {
        !matches!(self, Self::Token | Self::None)
    }
}

/// How the secret an account has is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum KeyEncoding {
    /// Its bytes as they are.
    #[default]
    Text,
    Hex,
    Base64,
}

/// A key made ready for one algorithm.
#[derive(Clone)]
pub(crate) enum Ready {
    /// The shared secret.
    Shared(Secret),
    /// A DER SubjectPublicKeyInfo, or the 32 bytes of an Ed25519 key.
    Public(Vec<u8>),
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared(_) => "Shared(..)",
            Self::Public(_) => "Public(..)",
        })
    }
}

/// Bytes of a 2048-bit RSA SubjectPublicKeyInfo; anything much shorter is a shorter key.
const RSA_2048_SPKI_BYTES_MIN: usize = 290;

/// A key that can't be used with an algorithm; says why, and shows nothing of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unfit(pub(crate) String);

/// Decodes a secret as the profile says. Errors: it is not written that way.
pub(crate) fn decode_secret(
    secret: &Secret,
    encoding: KeyEncoding,
    prefix: &str,
) -> Result<Secret, Unfit> {
    let bytes = secret.expose();
    let bytes = bytes.strip_prefix(prefix.as_bytes()).unwrap_or(bytes);
    let decoded = match encoding {
        KeyEncoding::Text => Some(bytes.to_vec()),
        KeyEncoding::Hex => hex::decode(bytes).ok(),
        KeyEncoding::Base64 => STANDARD.decode(bytes.trim_ascii()).ok(),
    };
    let decoded = decoded.ok_or_else(|| {
        Unfit(
            format!("is not the {encoding:?} text its profile says it is; add it as text:…")
                .to_lowercase(),
        )
    })?;
    Ok(Secret::from_bytes(decoded))
}

/// What a key must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strength {
    /// As in production.
    Full,
    /// The profile has the exception `short_key`: 16 bytes are enough.
    Short,
    /// Published test vectors have short keys.
    Any,
}

impl Ready {
    /// Makes a key ready. Errors: `Unfit`.
    pub(crate) fn new(
        algorithm: Algorithm,
        secret: Secret,
        strength: Strength,
    ) -> Result<Self, Unfit> {
        match algorithm.key_kind() {
            KeyKind::Public => public(algorithm, secret.expose(), strength).map(Self::Public),
            KeyKind::Shared | KeyKind::Nothing => {
                let bytes = secret.expose().len();
                let hmac = !algorithm.is_plain_digest() && algorithm != Algorithm::Token;
                let is_full = hmac && strength == Strength::Full;
                let min = if is_full { SECRET_BYTES_MIN } else { SECRET_BYTES_LEAST };
                if bytes < min && strength != Strength::Any && algorithm != Algorithm::None {
                    let is_near = is_full && bytes >= SECRET_BYTES_LEAST;
                    let hint = if is_near { " (16 with the exception short_key)" } else { "" };
                    return Err(Unfit(format!(
                        "has {bytes} bytes, {min} or more are needed{hint}; ask the partner for a longer one"
                    )));
                }
                Ok(Self::Shared(secret))
            }
        }
    }

    /// The secret that may stand in a text; none for a public key.
    pub(crate) fn secret(&self) -> Option<&[u8]> {
        match self {
            Self::Shared(secret) => Some(secret.expose()),
            Self::Public(_) => None,
        }
    }

    /// The signature over a text where it can be made with the same key; what `explain` shows and vectors compare.
    pub(crate) fn expected(&self, algorithm: Algorithm, text: &[u8]) -> Option<Vec<u8>> {
        let Self::Shared(secret) = self else { return None };
        #[cfg(test)]
        counted::add();
        let key = secret.expose();
        Some(match algorithm {
            Algorithm::HmacMd5 => keyed::<Hmac<Md5>>(key, text),
            Algorithm::HmacSha1 => keyed::<Hmac<Sha1>>(key, text),
            Algorithm::HmacSha256 => keyed::<Hmac<Sha256>>(key, text),
            Algorithm::HmacSha384 => keyed::<Hmac<Sha384>>(key, text),
            Algorithm::HmacSha512 => keyed::<Hmac<Sha512>>(key, text),
            Algorithm::Md5 => Md5::digest(text).to_vec(),
            Algorithm::Sha1 => Sha1::digest(text).to_vec(),
            Algorithm::Sha256 => Sha256::digest(text).to_vec(),
            Algorithm::Sha384 => Sha384::digest(text).to_vec(),
            Algorithm::Sha512 => Sha512::digest(text).to_vec(),
            Algorithm::Token => key.to_vec(),
            Algorithm::None
            | Algorithm::RsaSha1
            | Algorithm::RsaSha256
            | Algorithm::RsaSha512
            | Algorithm::Ed25519 => return None,
        })
    }

    /// Whether one of `claims` is the signature of `text`. A shared secret computes one MAC, however many claims there
    /// are, and compares each in constant time; a public key checks each claim by itself.
    pub(crate) fn verifies_any(
        &self,
        algorithm: Algorithm,
        text: &[u8],
        claims: &[Vec<u8>],
    ) -> bool {
        let Self::Public(key) = self else {
            if claims.is_empty() {
                return false;
            }
            let Some(expected) = self.expected(algorithm, text) else { return false };
            let none = Choice::from(0);
            let any = claims.iter().fold(none, |any, claim| any | expected.ct_eq(claim));
            return bool::from(any);
        };
        let rule: &'static dyn VerificationAlgorithm = match algorithm {
            Algorithm::RsaSha1 => &RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
            Algorithm::RsaSha256 => &RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
            Algorithm::RsaSha512 => &RSA_PKCS1_2048_8192_SHA512,
            Algorithm::Ed25519 => &ED25519,
            _ => return false,
        };
        let verifies = |claim: &Vec<u8>| {
            #[cfg(test)]
            counted::add();
            UnparsedPublicKey::new(rule, key).verify(text, claim).is_ok()
        };
        claims.iter().any(verifies)
    }
}

/// Counts what a request costs: the MACs, digests and public-key checks computed on this thread.
#[cfg(test)]
pub(crate) mod counted {
    use std::cell::Cell;

    thread_local! {
        static COMPUTED: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn add() {
        COMPUTED.set(COMPUTED.get() + 1);
    }

    /// What `work` returns, and how many signatures it computed or checked.
    pub(crate) fn count<T>(work: impl FnOnce() -> T) -> (T, usize) {
        let before = COMPUTED.get();
        let done = work();
        (done, COMPUTED.get() - before)
    }
}

fn keyed<M: Mac + hmac::digest::KeyInit>(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mac = <M as Mac>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.chain_update(text).finalize().into_bytes().to_vec()
}

/// A public key from PEM (a key or a certificate) or the bare base64 of its DER.
fn public(algorithm: Algorithm, given: &[u8], strength: Strength) -> Result<Vec<u8>, Unfit> {
    let malformed = || {
        Unfit(
            "is no public key: give the partner's PEM (PUBLIC KEY or CERTIFICATE) or the base64 of its DER"
                .to_owned(),
        )
    };
    let text = std::str::from_utf8(given).map(str::trim).unwrap_or_default();
    // Some tools write what is in a PEM above it.
    let text = text.find("-----BEGIN").map_or(text, |at| &text[at..]);
    let key = if text.contains("-----BEGIN CERTIFICATE-----") {
        let certificate =
            x509_cert::Certificate::from_pem(text.as_bytes()).map_err(|_| malformed())?;
        let key = certificate.tbs_certificate.subject_public_key_info;
        key.to_der().map_err(|_| malformed())?
    } else if text.starts_with("-----BEGIN") {
        pem::decode_vec(text.as_bytes()).map_err(|_| malformed())?.1
    } else if algorithm == Algorithm::Ed25519 && given.len() == 32 {
        given.to_vec()
    } else {
        let compact: String = text.split_whitespace().collect();
        STANDARD.decode(compact).map_err(|_| malformed())?
    };
    if algorithm == Algorithm::Ed25519 {
        return if key.len() == 32 { Ok(key) } else { ed25519(&key).ok_or_else(malformed) };
    }
    if key.first() != Some(&0x30) {
        return Err(malformed());
    }
    if key.len() < RSA_2048_SPKI_BYTES_MIN - 30 && strength == Strength::Full {
        return Err(Unfit(
            "is an RSA key of fewer than 2048 bits, which can be forged; ask the partner for a longer one"
                .to_owned(),
        ));
    }
    Ok(key)
}

/// The 32 bytes of an Ed25519 key in its SubjectPublicKeyInfo.
fn ed25519(der: &[u8]) -> Option<Vec<u8>> {
    let info = x509_cert::spki::SubjectPublicKeyInfoOwned::from_der(der).ok()?;
    let bytes = info.subject_public_key.as_bytes()?;
    (bytes.len() == 32).then(|| bytes.to_vec())
}

/// Until when a certificate counts, s since 1970; `None` for what is no certificate.
pub(crate) fn certificate_ends_s(given: &[u8]) -> Option<i64> {
    let certificate = x509_cert::Certificate::from_pem(given.trim_ascii()).ok()?;
    let end = certificate.tbs_certificate.validity.not_after.to_unix_duration().as_secs();
    i64::try_from(end).ok()
}

/// How a signature is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Output {
    HexLower,
    HexUpper,
    /// In either case.
    Hex,
    Base64,
    /// With `-` and `_`, padded or not.
    Base64url,
    /// The text itself, for tokens.
    Text,
}

impl Output {
    /// The bytes of a signature that is written this way; `None` for any other text.
    pub(crate) fn read(self, text: &str) -> Option<Vec<u8>> {
        let wrong_case = match self {
            Self::HexLower => Some(b'A'..=b'F'),
            Self::HexUpper => Some(b'a'..=b'f'),
            Self::Hex | Self::Base64 | Self::Base64url | Self::Text => None,
        };
        match self {
            Self::HexLower | Self::HexUpper | Self::Hex => {
                let is_right = !text
                    .bytes()
                    .any(|byte| wrong_case.as_ref().is_some_and(|case| case.contains(&byte)));
                hex::decode(text).ok().filter(|_| is_right)
            }
            Self::Base64 => STANDARD.decode(text).ok(),
            Self::Base64url => {
                let bare = text.trim_end_matches('=');
                base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(bare).ok()
            }
            Self::Text => Some(text.as_bytes().to_vec()),
        }
    }

    pub(crate) fn write(self, signature: &[u8]) -> String {
        match self {
            Self::HexLower | Self::Hex => hex::encode(signature),
            Self::HexUpper => hex::encode_upper(signature),
            Self::Base64 => STANDARD.encode(signature),
            Self::Base64url => base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(signature),
            Self::Text => String::from_utf8_lossy(signature).into_owned(),
        }
    }
}
