//! Owns the signature algorithms: which key fits an algorithm, and whether a signature is of a
//! text. All arithmetic is RustCrypto's or AWS-LC's. Invariants: secrets and MACs are compared in
//! constant time; `Debug` shows no key.

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
use schemars::JsonSchema;
use serde::Deserialize;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};
use subtle::{Choice, ConstantTimeEq};
use x509_cert::der::{Decode, DecodePem, Encode, pem};

use crate::mac::MacKey;
use crate::secret::{SECRET_BYTES_LEAST, SECRET_BYTES_MIN, Secret};

/// A signature algorithm, as a profile names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SignAlgorithm {
    HmacMd5,
    HmacSha1,
    HmacSha256,
    HmacSha384,
    HmacSha512,
    // Plain digests: the signed text holds the secret.
    Md5,
    Sha1,
    Sha256,
    Sha384,
    Sha512,
    // Public keys of the partner; RSA with PKCS#1 v1.5.
    RsaSha1,
    RsaSha256,
    RsaSha512,
    Ed25519,
    // The partner sends the secret itself.
    Token,
    // Nothing is signed.
    None,
}

/// The kind of key an algorithm takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Shared,
    Public,
    Nothing,
}

impl SignAlgorithm {
    /// The algorithms that sign a text with a shared secret, the most usual first.
    pub(crate) const SHARED: [SignAlgorithm; 10] = [
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

    /// Whether it is a digest without a key, so that the signed text must hold the secret.
    pub(crate) const fn is_plain_digest(self) -> bool {
        matches!(self, Self::Md5 | Self::Sha1 | Self::Sha256 | Self::Sha384 | Self::Sha512)
    }

    /// Whether it is broken or near it; a profile needs the exception `weak_algorithm`.
    pub(crate) const fn is_weak(self) -> bool {
        matches!(self, Self::Md5 | Self::Sha1 | Self::HmacMd5 | Self::RsaSha1)
    }

    /// Whether it signs the notice's content. `token` and `none` don't.
    pub(crate) const fn signs_the_text(self) -> bool {
        !matches!(self, Self::Token | Self::None)
    }
}

/// The encoding of an account's secret, as the partner shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum KeyEncoding {
    /// The bytes as they are.
    #[default]
    Text,
    /// Upper or lower case.
    Hex,
    /// The alphabet with `+` and `/`, padded.
    Base64,
}

/// A decoded key, checked and prepared for one algorithm.
#[derive(Clone)]
pub(crate) enum ReadyKey {
    /// The key of HMAC-SHA256, and its secret, which a signed text may contain.
    HmacSha256(MacKey, Secret),
    /// The secret of another algorithm, and how it signs a text; `None` where nothing is signed.
    Shared(Secret, Option<SignText>),
    /// A DER SubjectPublicKeyInfo, or the 32 bytes of an Ed25519 key, and how it checks a
    /// signature.
    Public(Vec<u8>, &'static dyn VerificationAlgorithm),
}

/// Computes the signature of a text from a secret and the text.
pub(crate) type SignText = fn(&[u8], &[u8]) -> Vec<u8>;

impl fmt::Debug for ReadyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HmacSha256(..) | Self::Shared(..) => "Shared(..)",
            Self::Public(..) => "Public(..)",
        })
    }
}

/// The size of a 2048-bit RSA SubjectPublicKeyInfo, in bytes. A key that is more than 30 bytes
/// smaller has a shorter modulus.
const RSA_2048_SPKI_BYTES_MIN: usize = 290;

/// Why a key can't be used with an algorithm. It shows nothing of the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UnfitKey(pub(crate) String);

/// Decodes a secret as `[key]` says. Errors: it is not written that way.
pub(crate) fn decode_secret(
    secret: &Secret,
    encoding: KeyEncoding,
    prefix: &str,
) -> Result<Secret, UnfitKey> {
    let bytes = secret.expose();
    let bytes = bytes.strip_prefix(prefix.as_bytes()).unwrap_or(bytes);
    let decoded = match encoding {
        KeyEncoding::Text => Some(bytes.to_vec()),
        KeyEncoding::Hex => hex::decode(bytes).ok(),
        KeyEncoding::Base64 => STANDARD.decode(bytes.trim_ascii()).ok(),
    };
    let decoded = decoded.ok_or_else(|| {
        UnfitKey(
            format!("is not the {encoding:?} text its profile says it is; add it as text:…")
                .to_lowercase(),
        )
    })?;
    Ok(Secret::from_bytes(decoded))
}

/// How long a key must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyStrength {
    /// The length for production.
    Full,
    /// The profile has the exception `short_key`: 16 bytes are enough.
    Short,
    /// Any length: published test vectors have short keys.
    Any,
}

impl ReadyKey {
    /// Checks a key for an algorithm. Errors: `UnfitKey`.
    pub(crate) fn new(
        algorithm: SignAlgorithm,
        secret: Secret,
        strength: KeyStrength,
    ) -> Result<Self, UnfitKey> {
        let public = |rule: &'static dyn VerificationAlgorithm| {
            let key = parse_public_key(algorithm, secret.expose(), strength)?;
            Ok(Self::Public(key, rule))
        };
        let sign: SignText = match algorithm {
            // The legacy rules take RSA keys from 1024 bits: published vectors and the exception
            // short_key need them. `parse_public_key` refuses short keys for production.
            SignAlgorithm::RsaSha1 => {
                return public(&RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY);
            }
            SignAlgorithm::RsaSha256 => {
                return public(&RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY);
            }
            SignAlgorithm::RsaSha512 => return public(&RSA_PKCS1_2048_8192_SHA512),
            SignAlgorithm::Ed25519 => return public(&ED25519),
            SignAlgorithm::None => return Ok(Self::Shared(secret, None)),
            SignAlgorithm::HmacSha256 => {
                check_length(algorithm, &secret, strength)?;
                return Ok(Self::HmacSha256(MacKey::new(secret.expose()), secret));
            }
            SignAlgorithm::HmacMd5 => compute_hmac::<Hmac<Md5>>,
            SignAlgorithm::HmacSha1 => compute_hmac::<Hmac<Sha1>>,
            SignAlgorithm::HmacSha384 => compute_hmac::<Hmac<Sha384>>,
            SignAlgorithm::HmacSha512 => compute_hmac::<Hmac<Sha512>>,
            SignAlgorithm::Md5 => |_, text| Md5::digest(text).to_vec(),
            SignAlgorithm::Sha1 => |_, text| Sha1::digest(text).to_vec(),
            SignAlgorithm::Sha256 => |_, text| Sha256::digest(text).to_vec(),
            SignAlgorithm::Sha384 => |_, text| Sha384::digest(text).to_vec(),
            SignAlgorithm::Sha512 => |_, text| Sha512::digest(text).to_vec(),
            SignAlgorithm::Token => |secret, _| secret.to_vec(),
        };
        check_length(algorithm, &secret, strength)?;
        Ok(Self::Shared(secret, Some(sign)))
    }

    /// The shared secret. `None` for a public key.
    pub(crate) fn secret(&self) -> Option<&[u8]> {
        match self {
            Self::HmacSha256(_, secret) | Self::Shared(secret, _) => Some(secret.expose()),
            Self::Public(..) => None,
        }
    }

    /// Computes the signature of a text. `None` for a public key, which can't sign, and where
    /// nothing is signed.
    pub(crate) fn compute_signature(&self, text: &[u8]) -> Option<Vec<u8>> {
        let signature = match self {
            Self::HmacSha256(key, _) => key.sign(text).to_vec(),
            Self::Shared(secret, Some(sign)) => sign(secret.expose(), text),
            Self::Shared(_, None) | Self::Public(..) => return None,
        };
        #[cfg(test)]
        counted::add();
        Some(signature)
    }

    /// The signature of `text`, if it is one of `claims`. With a shared secret one MAC is computed,
    /// however many claims there are, and each claim is compared in constant time. With a public
    /// key each claim is checked by itself.
    pub(crate) fn verify_any(&self, text: &[u8], claims: &[Vec<u8>]) -> Option<Vec<u8>> {
        if let Self::Public(key, rule) = self {
            let verifies = |claim: &&Vec<u8>| {
                #[cfg(test)]
                counted::add();
                UnparsedPublicKey::new(*rule, key).verify(text, claim).is_ok()
            };
            return claims.iter().find(verifies).cloned();
        }
        if claims.is_empty() {
            return None;
        }
        let expected = self.compute_signature(text)?;
        // Every claim is compared, without stopping at the first match, so that the time does not
        // reveal which claim matched.
        let none = Choice::from(0);
        let any = claims.iter().fold(none, |any, claim| any | expected.ct_eq(claim));
        bool::from(any).then_some(expected)
    }
}

/// Checks that a shared secret is long enough. Errors: `UnfitKey`.
fn check_length(
    algorithm: SignAlgorithm,
    secret: &Secret,
    strength: KeyStrength,
) -> Result<(), UnfitKey> {
    let bytes = secret.expose().len();
    let hmac = !algorithm.is_plain_digest() && algorithm != SignAlgorithm::Token;
    let is_full = hmac && strength == KeyStrength::Full;
    let min = if is_full { SECRET_BYTES_MIN } else { SECRET_BYTES_LEAST };
    if bytes >= min || strength == KeyStrength::Any {
        return Ok(());
    }
    let is_near = is_full && bytes >= SECRET_BYTES_LEAST;
    let hint = if is_near { " (16 with the exception short_key)" } else { "" };
    Err(UnfitKey(format!(
        "has {bytes} bytes, {min} or more are needed{hint}; ask the partner for a longer one"
    )))
}

fn compute_hmac<M: Mac + hmac::digest::KeyInit>(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mac = <M as Mac>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.chain_update(text).finalize().into_bytes().to_vec()
}

/// Parses a public key from PEM (a key or a certificate) or the bare base64 of its DER.
fn parse_public_key(
    algorithm: SignAlgorithm,
    given: &[u8],
    strength: KeyStrength,
) -> Result<Vec<u8>, UnfitKey> {
    let malformed = || {
        UnfitKey(
            "is no public key: give the partner's PEM (PUBLIC KEY or CERTIFICATE) or the base64 of \
             its DER"
                .to_owned(),
        )
    };
    let text = std::str::from_utf8(given).map(str::trim).unwrap_or_default();
    // Some tools write a description above the PEM.
    let text = text.find("-----BEGIN").map_or(text, |at| &text[at..]);
    let key = if text.contains("-----BEGIN CERTIFICATE-----") {
        let certificate =
            x509_cert::Certificate::from_pem(text.as_bytes()).map_err(|_| malformed())?;
        let key = certificate.tbs_certificate.subject_public_key_info;
        key.to_der().map_err(|_| malformed())?
    } else if text.starts_with("-----BEGIN") {
        pem::decode_vec(text.as_bytes()).map_err(|_| malformed())?.1
    } else if algorithm == SignAlgorithm::Ed25519 && given.len() == 32 {
        given.to_vec()
    } else {
        let compact: String = text.split_whitespace().collect();
        STANDARD.decode(compact).map_err(|_| malformed())?
    };
    if algorithm == SignAlgorithm::Ed25519 {
        return if key.len() == 32 { Ok(key) } else { ed25519_key(&key).ok_or_else(malformed) };
    }
    if key.first() != Some(&0x30) {
        return Err(malformed());
    }
    if key.len() < RSA_2048_SPKI_BYTES_MIN - 30 && strength == KeyStrength::Full {
        return Err(UnfitKey(
            "is an RSA key of fewer than 2048 bits, which can be forged; ask the partner for a \
             longer one"
                .to_owned(),
        ));
    }
    Ok(key)
}

/// The 32 bytes of an Ed25519 key in a DER SubjectPublicKeyInfo.
fn ed25519_key(der: &[u8]) -> Option<Vec<u8>> {
    let info = x509_cert::spki::SubjectPublicKeyInfoOwned::from_der(der).ok()?;
    let bytes = info.subject_public_key.as_bytes()?;
    (bytes.len() == 32).then(|| bytes.to_vec())
}

/// When a certificate ends, in seconds since 1970. `None` if `given` is no certificate.
pub(crate) fn certificate_ends_s(given: &[u8]) -> Option<i64> {
    let certificate = x509_cert::Certificate::from_pem(given.trim_ascii()).ok()?;
    let end = certificate.tbs_certificate.validity.not_after.to_unix_duration().as_secs();
    i64::try_from(end).ok()
}

/// Counts the MACs, digests and public-key checks computed on this thread, for tests of what a
/// request costs.
#[cfg(test)]
pub(crate) mod counted {
    use std::cell::Cell;

    thread_local! {
        static COMPUTED: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn add() {
        COMPUTED.set(COMPUTED.get() + 1);
    }

    /// Returns the result of `work`, and how many signatures it computed or checked.
    pub(crate) fn count<T>(work: impl FnOnce() -> T) -> (T, usize) {
        let before = COMPUTED.get();
        let done = work();
        (done, COMPUTED.get() - before)
    }
}
