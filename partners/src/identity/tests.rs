//! Private keys and certificates of every supported kind, made by OpenSSL (`tests/tls/make.sh`),
//! and files that can't be used.

use super::*;
use crate::scheme::crypt::{KeyStrength, ReadyKey};

const RSA: &str = include_str!("../../tests/tls/rsa-2048.pem");
const RSA_PKCS1: &str = include_str!("../../tests/tls/rsa-2048-pkcs1.pem");
const RSA_PUBLIC: &str = include_str!("../../tests/tls/rsa-2048-public.pem");
const RSA_SHORT: &str = include_str!("../../tests/tls/rsa-1024.pem");
const RSA_ENCRYPTED: &str = include_str!("../../tests/tls/rsa-encrypted.pem");
const ED25519_KEY: &str = include_str!("../../tests/tls/ed25519.pem");
const ED25519_PUBLIC: &str = include_str!("../../tests/tls/ed25519-public.pem");
const EC_SEC1: &str = include_str!("../../tests/tls/ec-sec1.pem");
const CLIENT_EC: &str = include_str!("../../tests/tls/client-ec.pem");
const CLIENT_RSA: &str = include_str!("../../tests/tls/client-rsa.pem");
const CLIENT_P521: &str = include_str!("../../tests/tls/client-p521.pem");
const STRANGER: &str = include_str!("../../tests/tls/strangers-client.pem");

fn secret(text: &str) -> Secret {
    Secret::from_bytes(text.as_bytes().to_vec())
}

fn read(text: &str) -> Result<PrivateKey, String> {
    PrivateKey::read(&secret(text)).map_err(|unfit| unfit.0)
}

/// The base64 between the lines of a PEM.
fn base64_of(pem: &str) -> String {
    let inside = pem.lines().filter(|line| !line.starts_with("-----") && !line.contains(' '));
    inside.collect()
}

#[test]
fn the_public_key_verifies_a_signature_of_the_private_key() {
    let ready = |algorithm, public: &str| {
        ReadyKey::new(algorithm, secret(public), KeyStrength::Full)
            .unwrap_or_else(|e| panic!("{e}"))
    };
    for (key, public, algorithms) in [
        (RSA, RSA_PUBLIC, &[SignAlgorithm::RsaSha256, SignAlgorithm::RsaSha512][..]),
        (RSA_PKCS1, RSA_PUBLIC, &[SignAlgorithm::RsaSha256]),
        (&base64_of(RSA), RSA_PUBLIC, &[SignAlgorithm::RsaSha256]),
        (&base64_of(RSA_PKCS1), RSA_PUBLIC, &[SignAlgorithm::RsaSha512]),
        (ED25519_KEY, ED25519_PUBLIC, &[SignAlgorithm::Ed25519]),
    ] {
        let key = read(key).unwrap();
        for algorithm in algorithms {
            assert!(key.fits(*algorithm));
            let signature = key.sign(*algorithm, b"text").unwrap();
            let (ready, claims) = (ready(*algorithm, public), [signature]);
            let verifies = |text| ready.verify_any(text, &claims).is_some();
            assert!(verifies(b"text"), "{algorithm:?}");
            assert!(!verifies(b"Text"), "{algorithm:?}");
        }
        for other in [SignAlgorithm::HmacSha256, SignAlgorithm::RsaSha1, SignAlgorithm::Token] {
            assert!(!key.fits(other) && key.sign(other, b"text").is_none());
        }
    }
    assert!(!read(EC_SEC1).unwrap().fits(SignAlgorithm::RsaSha256));
}

#[test]
fn a_text_that_is_not_a_private_key_is_refused() {
    for (given, expected) in [
        ("", "is not a private key: give its PEM"),
        ("hush", "is not a private key: give its PEM"),
        ("aHVzaA==", "is not a private key: give its PEM"),
        (RSA_PUBLIC, "is not a private key: give its PEM"),
        (&RSA.replace("MII", "MIX"), "is not a private key: give its PEM"),
        (RSA_ENCRYPTED, "is protected by a passphrase"),
        (RSA_SHORT, "of fewer than 2048 bits"),
        (&base64_of(RSA_SHORT), "of fewer than 2048 bits"),
    ] {
        let problem = read(given).map(drop).unwrap_err();
        assert!(problem.contains(expected), "{given:.60}: {problem}");
        assert!(!problem.contains("MII") && !problem.contains("hush"), "{problem}");
    }
}

#[test]
fn a_certificate_must_fit_its_key_and_has_its_validity() {
    let read = |text: &str| ClientCertificate::read(&secret(text)).map_err(|unfit| unfit.0);
    for pem in [CLIENT_EC, CLIENT_P521, CLIENT_RSA, STRANGER] {
        let certificate = read(pem).unwrap();
        let days = (certificate.ends.unix_ms() - certificate.begins.unix_ms()) / 86_400_000;
        assert_eq!(days, 36_500, "{pem:.60}");
    }
    let key_of = |pem: &str| pem.split_once("-----END CERTIFICATE-----").unwrap().1.to_owned();
    let certificate_of = |pem: &str| pem.replace(&key_of(pem), "");
    for (given, expected) in [
        (key_of(CLIENT_EC), "has no certificate"),
        (certificate_of(CLIENT_EC), "is not a private key"),
        (certificate_of(CLIENT_EC) + &key_of(CLIENT_RSA), "don't belong together"),
        (certificate_of(STRANGER) + "\n" + &key_of(CLIENT_EC), "don't belong together"),
        (CLIENT_EC.replace("MIIB", "MIXB"), "has no certificate"),
        ("hush".to_owned(), "has no certificate"),
        (CLIENT_EC.to_owned() + &key_of(CLIENT_RSA), "has more than one private key"),
        (CLIENT_EC.to_owned() + RSA_PUBLIC, "has other parts than certificates"),
    ] {
        let problem = read(&given).map(drop).unwrap_err();
        assert!(problem.contains(expected), "{problem}");
    }
    // The chain may follow the key.
    let whole = format!("{}\n{}", CLIENT_RSA, include_str!("../../tests/tls/ca.pem"));
    assert!(read(&whole).is_ok());
}

#[test]
fn debug_shows_no_key() {
    for (key, shown) in [(RSA, "Rsa(..)"), (ED25519_KEY, "Ed25519(..)"), (EC_SEC1, "Ec(..)")] {
        assert_eq!(format!("{:?}", read(key).unwrap()), shown);
    }
}
