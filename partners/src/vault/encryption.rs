//! Owns the encryption of the vault file with age, and the reading of identities and of the
//! document.

use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use age::x25519::{Identity, Recipient};
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::document::{DOCUMENT_VERSION, VaultDocument};
use crate::secret::Secret;
use crate::vault::error::VaultError;
use crate::vault::file;

/// The length of a generated secret, in bytes.
pub const RANDOM_SECRET_BYTES: usize = 32;

/// Generates a secret. Errors: `Random`.
pub fn random_secret() -> Result<Secret, VaultError> {
    let mut bytes = vec![0; RANDOM_SECRET_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| VaultError::Random(error.to_string()))?;
    Ok(Secret::from_bytes(bytes))
}

pub(crate) fn recipients(identities: &[Identity]) -> Vec<Recipient> {
    identities.iter().map(Identity::to_public).collect()
}

/// The identities in a file. During a rotation the new identity comes first, then the old ones.
/// Errors: `IdentityMissing`, `NoIdentity`, `Exposed`, `Io`.
pub(crate) fn read_identities(path: &Path) -> Result<Vec<Identity>, VaultError> {
    file::check_private(path).map_err(|error| match error {
        VaultError::Io { path, why, .. } if why.kind() == std::io::ErrorKind::NotFound => {
            VaultError::IdentityMissing { path }
        }
        error => error,
    })?;
    let text = std::fs::read_to_string(path).map_err(file::io("read", path))?;
    let text = Zeroizing::new(text);
    // age-keygen writes comments above an identity.
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let identities: Result<Vec<_>, _> = lines.map(Identity::from_str).collect();
    let identities = identities.ok().filter(|identities| !identities.is_empty());
    identities.ok_or_else(|| VaultError::NoIdentity { path: path.to_owned() })
}

pub(crate) fn decrypt(
    identities: &[Identity],
    sealed: &[u8],
    path: &Path,
) -> Result<Zeroizing<Vec<u8>>, VaultError> {
    let sealed_to_others = || VaultError::Sealed { path: path.to_owned() };
    let decryptor = age::Decryptor::new_buffered(sealed).map_err(|_| sealed_to_others())?;
    let identities = identities.iter().map(|identity| identity as &dyn age::Identity);
    let mut reader = decryptor.decrypt(identities).map_err(|_| sealed_to_others())?;
    let mut plain = Zeroizing::new(Vec::with_capacity(sealed.len()));
    reader.read_to_end(&mut plain).map_err(|_| sealed_to_others())?;
    Ok(plain)
}

pub(crate) fn encrypt(recipients: &[Recipient], plain: &[u8]) -> Vec<u8> {
    const WHY: &str = "there is a recipient, and writing to memory does not fail";
    let recipients = recipients.iter().map(|recipient| recipient as &dyn age::Recipient);
    let mut sealed = Vec::with_capacity(plain.len() + 512);
    let encryptor = age::Encryptor::with_recipients(recipients).expect(WHY);
    let mut writer = encryptor.wrap_output(&mut sealed).expect(WHY);
    std::io::Write::write_all(&mut writer, plain).expect(WHY);
    writer.finish().expect(WHY);
    sealed
}

/// Parses the decrypted document. Errors name only the line, because the parser's message may quote
/// a secret.
pub(crate) fn read_document(path: &Path, plain: &[u8]) -> Result<VaultDocument, VaultError> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let content = |line| VaultError::Content { path: path.to_owned(), line };
    let text = std::str::from_utf8(plain).map_err(|_| content(1))?;
    let at = |error: toml::de::Error| {
        let start = error.span().map_or(0, |span| span.start);
        content(text.get(..start).unwrap_or(text).matches('\n').count() + 1)
    };
    let Versioned { version } = toml::from_str(text).map_err(at)?;
    if version != DOCUMENT_VERSION {
        return Err(VaultError::Version { path: path.to_owned(), version });
    }
    toml::from_str(text).map_err(at)
}
