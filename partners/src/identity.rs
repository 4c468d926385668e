//! Owns what we prove ourselves with to a partner: the private key our calls are signed with, and the certificate our side
//! of a TLS connection shows. Read once, when the vault is. Nothing here is shown: no `Debug`, and no problem, has a part
//! of a key in it.

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

use crate::scheme::crypt::{Algorithm, Unfit};
use crate::secret::Secret;

/// The shortest RSA key taken, in bits.
const RSA_BITS_MIN: usize = 2_048;

/// A private key of ours.
pub(crate) enum PrivateKey {
    Rsa(RsaKeyPair),
    Ed25519(Ed25519KeyPair),
    /// For TLS only: no partner's scheme is signed with one.
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
    /// Reads PEM (PKCS#8, PKCS#1, SEC1), or the base64 of the DER of an RSA key, as some partners' tools print it. Errors: it is none,
    /// or a weak one.
    pub(crate) fn read(secret: &Secret) -> Result<Self, Unfit> {
        let given = secret.expose();
        let text = std::str::from_utf8(given).map(str::trim).unwrap_or_default();
        if text.contains("ENCRYPTED") {
            return unfit(
                "is protected by a passphrase; write it without one (openssl pkcs8 -in KEY -out FILE) and keep that file as \
                 safe",
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

    /// Whether an algorithm of a profile signs with it.
    pub(crate) fn fits(&self, algorithm: Algorithm) -> bool {
        match self {
            Self::Rsa(_) => matches!(algorithm, Algorithm::RsaSha256 | Algorithm::RsaSha512),
            Self::Ed25519(_) => algorithm == Algorithm::Ed25519,
            Self::Ec(_) => false,
        }
    }

    /// The signature of a text; `None` where the algorithm is another key's.
    pub(crate) fn sign(&self, algorithm: Algorithm, text: &[u8]) -> Option<Vec<u8>> {
        match (self, algorithm) {
            (Self::Rsa(pair), Algorithm::RsaSha256) => pkcs1_v15(pair, &RSA_PKCS1_SHA256, text),
            (Self::Rsa(pair), Algorithm::RsaSha512) => pkcs1_v15(pair, &RSA_PKCS1_SHA512, text),
            (Self::Ed25519(pair), Algorithm::Ed25519) => Some(pair.sign(text).as_ref().to_vec()),
            _ => None,
        }
    }

    /// As a certificate has it.
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

fn unfit<T>(problem: &str) -> Result<T, Unfit> {
    Err(Unfit(problem.to_owned()))
}

fn malformed() -> Unfit {
    Unfit(
        "is no private key: give its PEM (PRIVATE KEY, RSA PRIVATE KEY or EC PRIVATE KEY), or the base64 of an RSA key's DER"
            .to_owned(),
    )
}

fn pkcs8(der: &[u8]) -> Result<PrivateKey, Unfit> {
    if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
        return Ok(PrivateKey::Ed25519(pair));
    }
    ec(der, EcdsaKeyPair::from_pkcs8).or_else(|_| rsa(RsaKeyPair::from_pkcs8(der)))
}

type ReadEc<E> =
    fn(&'static aws_lc_rs::signature::EcdsaSigningAlgorithm, &[u8]) -> Result<EcdsaKeyPair, E>;

fn ec<E>(der: &[u8], read: ReadEc<E>) -> Result<PrivateKey, Unfit> {
    let curves = [
        &ECDSA_P256_SHA256_ASN1_SIGNING,
        &ECDSA_P384_SHA384_ASN1_SIGNING,
        &ECDSA_P521_SHA512_ASN1_SIGNING,
    ];
    let pair = curves.into_iter().find_map(|curve| read(curve, der).ok());
    pair.map(PrivateKey::Ec).ok_or_else(malformed)
}

fn rsa<E: fmt::Display>(read: Result<RsaKeyPair, E>) -> Result<PrivateKey, Unfit> {
    let weak = || {
        unfit(
            "is an RSA key of fewer than 2048 bits, which can be broken; make a longer one and give the partner its public key",
        )
    };
    match read {
        Ok(pair) if pair.public_modulus_len() * 8 < RSA_BITS_MIN => weak(),
        Ok(pair) => Ok(PrivateKey::Rsa(pair)),
        Err(problem) if problem.to_string() == "TooSmall" => weak(),
        Err(_) => Err(malformed()),
    }
}

/// A certificate with the private key it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientCertificate {
    /// From when it counts, as it says itself.
    pub(crate) begins: Time,
    /// Until when.
    pub(crate) ends: Time,
}

impl ClientCertificate {
    /// Reads PEM: the certificate, those that signed it, and the private key, in any order but for the first. Errors: one is missing or
    /// malformed, or they don't belong together.
    pub(crate) fn read(secret: &Secret) -> Result<Self, Unfit> {
        let no_certificate = || {
            Unfit(
                "has no certificate: give one file with the PEM of the certificate, of those that signed it, and of its \
                 private key"
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
                "has a certificate and a private key that don't belong together; the first certificate must be the key's",
            );
        }
        let at = |time: x509_cert::time::Time| {
            let seconds = i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
            Time::from_unix_ms(seconds.saturating_mul(1_000))
        };
        Ok(Self { begins: at(body.validity.not_before), ends: at(body.validity.not_after) })
    }
}

/// Whether TLS takes it: its library knows fewer kinds of keys than sign our calls, and reads the file in its own way.
fn usable_in_tls(pem: &[u8]) -> Result<(), Unfit> {
    let mut keys = PrivateKeyDer::pem_slice_iter(pem);
    let key = keys.next().and_then(Result::ok).ok_or_else(malformed)?;
    if keys.next().is_some() {
        return unfit("has more than one private key; leave only that of its first certificate");
    }
    if rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).is_err() {
        return unfit(
            "has a private key that TLS does not take here: make one on P-256, P-384 or P-521, Ed25519, or RSA of 2048 to 8192 bits",
        );
    }
    if reqwest::Identity::from_pem(pem).is_err() {
        return unfit("has other parts than certificates and a private key; leave them out");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
