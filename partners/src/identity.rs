//! Owns our credentials for calls: the private key that signs a call, and the client certificate of
//! a TLS connection. Both are read once, when the vault is loaded. Invariant: no `Debug` and no
//! error contains a part of a key.

use std::fmt;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RsaEncoding,
    RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use payfold_schemas::time::Time;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_cert::der::Decode;

use crate::scheme::crypt::{SignAlgorithm, UnfitKey};
use crate::secret::Secret;

/// The shortest accepted RSA key, in bits.
const RSA_BITS_MIN: usize = 2_048;

/// One of our private keys.
pub(crate) enum PrivateKey {
    Rsa(RsaKeyPair),
    Ed25519(Ed25519KeyPair),
    /// For TLS only: no signature algorithm of a profile uses it.
    Ec(EcdsaKeyPair),
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rsa(_) => "Rsa(..)",
            Self::Ed25519(_) => "Ed25519(..)",
            Self::Ec(_) => "Ec(..)",
        })
    }
}

impl PrivateKey {
    /// Reads PEM (PKCS#8, PKCS#1, SEC1), or the base64 of the DER of an RSA key, as the tools of
    /// some partners print it. Errors: the text is not a private key, or the key is too weak.
    pub(crate) fn read(secret: &Secret) -> Result<Self, UnfitKey> {
        let given = secret.expose();
        let text = std::str::from_utf8(given).map(str::trim).unwrap_or_default();
        if text.contains("ENCRYPTED") {
            return unfit(
                "is protected by a passphrase; write it without one (openssl pkcs8 -in KEY -out \
                 FILE) and keep that file as safe",
            );
        }
        if text.contains("-----BEGIN") {
            let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| malformed())?;
            return match &key {
                PrivateKeyDer::Pkcs8(der) => pkcs8(der.secret_pkcs8_der()),
                PrivateKeyDer::Pkcs1(der) => rsa(RsaKeyPair::from_der(der.secret_pkcs1_der())),
                PrivateKeyDer::Sec1(der) => {
                    ec(der.secret_sec1_der(), EcdsaKeyPair::from_private_key_der)
                }
                _ => Err(malformed()),
            };
        }
        let compact: String = text.split_whitespace().collect();
        let der = STANDARD.decode(compact).map(Secret::from_bytes).map_err(|_| malformed())?;
        pkcs8(der.expose()).or_else(|weak| {
            if weak == malformed() { rsa(RsaKeyPair::from_der(der.expose())) } else { Err(weak) }
        })
    }

    /// Whether a profile's algorithm can sign with this key.
    pub(crate) fn fits(&self, algorithm: SignAlgorithm) -> bool {
        match self {
            Self::Rsa(_) => {
                matches!(algorithm, SignAlgorithm::RsaSha256 | SignAlgorithm::RsaSha512)
            }
            Self::Ed25519(_) => algorithm == SignAlgorithm::Ed25519,
            Self::Ec(_) => false,
        }
    }

    /// Signs a text; `None` if the algorithm needs another kind of key.
    pub(crate) fn sign(&self, algorithm: SignAlgorithm, text: &[u8]) -> Option<Vec<u8>> {
        match (self, algorithm) {
            (Self::Rsa(pair), SignAlgorithm::RsaSha256) => pkcs1_v15(pair, &RSA_PKCS1_SHA256, text),
            (Self::Rsa(pair), SignAlgorithm::RsaSha512) => pkcs1_v15(pair, &RSA_PKCS1_SHA512, text),
            (Self::Ed25519(pair), SignAlgorithm::Ed25519) => {
                Some(pair.sign(text).as_ref().to_vec())
            }
            _ => None,
        }
    }

    /// The public key, encoded as in a certificate.
    fn public(&self) -> &[u8] {
        match self {
            Self::Rsa(pair) => pair.public_key().as_ref(),
            Self::Ed25519(pair) => pair.public_key().as_ref(),
            Self::Ec(pair) => pair.public_key().as_ref(),
        }
    }
}

fn pkcs1_v15(
    pair: &RsaKeyPair,
    encoding: &'static dyn RsaEncoding,
    text: &[u8],
) -> Option<Vec<u8>> {
    let mut signature = vec![0; pair.public_modulus_len()];
    pair.sign(encoding, &SystemRandom::new(), text, &mut signature).ok()?;
    Some(signature)
}

fn unfit<T>(problem: &str) -> Result<T, UnfitKey> {
    Err(UnfitKey(problem.to_owned()))
}

fn malformed() -> UnfitKey {
    UnfitKey(
        "is not a private key: give its PEM (PRIVATE KEY, RSA PRIVATE KEY or EC PRIVATE KEY), or \
         the base64 of an RSA key's DER"
            .to_owned(),
    )
}

fn pkcs8(der: &[u8]) -> Result<PrivateKey, UnfitKey> {
    if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
        return Ok(PrivateKey::Ed25519(pair));
    }
    ec(der, EcdsaKeyPair::from_pkcs8).or_else(|_| rsa(RsaKeyPair::from_pkcs8(der)))
}

type ReadEc<E> =
    fn(&'static aws_lc_rs::signature::EcdsaSigningAlgorithm, &[u8]) -> Result<EcdsaKeyPair, E>;

fn ec<E>(der: &[u8], read: ReadEc<E>) -> Result<PrivateKey, UnfitKey> {
    let curves = [
        &ECDSA_P256_SHA256_ASN1_SIGNING,
        &ECDSA_P384_SHA384_ASN1_SIGNING,
        &ECDSA_P521_SHA512_ASN1_SIGNING,
    ];
    let pair = curves.into_iter().find_map(|curve| read(curve, der).ok());
    pair.map(PrivateKey::Ec).ok_or_else(malformed)
}

fn rsa<E: fmt::Display>(read: Result<RsaKeyPair, E>) -> Result<PrivateKey, UnfitKey> {
    let weak = || {
        unfit(
            "is an RSA key of fewer than 2048 bits, which can be broken; make a longer one and \
             give the partner its public key",
        )
    };
    match read {
        Ok(pair) if pair.public_modulus_len() * 8 < RSA_BITS_MIN => weak(),
        Ok(pair) => Ok(PrivateKey::Rsa(pair)),
        Err(problem) if problem.to_string() == "TooSmall" => weak(),
        Err(_) => Err(malformed()),
    }
}

/// A client certificate that fits its private key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientCertificate {
    /// The beginning of the certificate's validity.
    pub(crate) begins: Time,
    /// The end of the certificate's validity.
    pub(crate) ends: Time,
}

impl ClientCertificate {
    /// Reads PEM: the certificate first, then its chain and the private key in any order. Errors: a
    /// part is missing or malformed, or the certificate does not fit the key.
    pub(crate) fn read(secret: &Secret) -> Result<Self, UnfitKey> {
        let no_certificate = || {
            UnfitKey(
                "has no certificate: give one file with the PEM of the certificate, of its chain, \
                 and of its private key"
                    .to_owned(),
            )
        };
        let mut chain = CertificateDer::pem_slice_iter(secret.expose());
        let leaf = chain.next().and_then(Result::ok).ok_or_else(no_certificate)?;
        if chain.any(|other| other.is_err()) {
            return Err(no_certificate());
        }
        let leaf = x509_cert::Certificate::from_der(leaf.as_ref()).map_err(|_| no_certificate())?;
        let body = leaf.tbs_certificate;
        let key = PrivateKey::read(secret)?;
        usable_in_tls(secret.expose())?;
        if body.subject_public_key_info.subject_public_key.as_bytes() != Some(key.public()) {
            return unfit(
                "has a certificate and a private key that don't belong together; the first \
                 certificate must be the key's",
            );
        }
        let at = |time: x509_cert::time::Time| {
            let seconds = i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
            Time::from_unix_ms(seconds.saturating_mul(1_000))
        };
        Ok(Self { begins: at(body.validity.not_before), ends: at(body.validity.not_after) })
    }
}

/// Checks that the TLS library accepts the file. It supports other kinds of keys than signatures
/// do, and parses the file itself.
fn usable_in_tls(pem: &[u8]) -> Result<(), UnfitKey> {
    let mut keys = PrivateKeyDer::pem_slice_iter(pem);
    let key = keys.next().and_then(Result::ok).ok_or_else(malformed)?;
    if keys.next().is_some() {
        return unfit("has more than one private key; leave only that of its first certificate");
    }
    if rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).is_err() {
        return unfit(
            "has a private key that our TLS library does not support: make one on P-256, P-384 or \
             P-521, Ed25519, or RSA of 2048 to 8192 bits",
        );
    }
    if reqwest::Identity::from_pem(pem).is_err() {
        return unfit("has other parts than certificates and a private key; leave them out");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
