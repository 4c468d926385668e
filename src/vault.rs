//! Owns which vault the settings name, and who may change it: an age file is changed by commands, a directory of key
//! files by whoever fills it.

use std::path::{Path, PathBuf};

use payfold_partners::document::VaultDocument;
use payfold_partners::vault::{Vault, VaultPlace};

use crate::data_dir::DataDir;
use crate::error::{Fixable, is_there};
use crate::settings::Settings;

/// Where the vault is. Errors: the setting names none.
pub fn place(settings: &Settings) -> anyhow::Result<VaultPlace> {
    let data = DataDir::of(settings);
    match settings.vault.split_once(':') {
        None if settings.vault.is_empty() => {
            Ok(VaultPlace::File { vault: data.vault(), identity: data.identity() })
        }
        Some(("file", path)) if !path.is_empty() => Ok(VaultPlace::file(Path::new(path))),
        Some(("dir", path)) if !path.is_empty() => Ok(VaultPlace::Dir(path.into())),
        _ => Err(Fixable::error(
            format!("vault = \"{}\" names no vault", settings.vault),
            "write \"file:PATH\" of an age file, \"dir:PATH\" of a directory of key files, or leave it out",
        )),
    }
}

/// What the vault holds. Errors: there is none, or it can't be opened.
pub fn read(settings: &Settings) -> anyhow::Result<VaultDocument> {
    if let VaultPlace::File { vault, identity } = place(settings)?
        && !is_there(&vault)?
        && !is_there(&identity)?
    {
        return Err(Fixable::error(
            format!("there is no vault {} yet, so there are no accounts", vault.display()),
            "the first payfold key add makes it, payfold run too",
        ));
    }
    Ok(place(settings)?.read()?)
}

/// What is done on a directory of key files in the place of a command that changes a vault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    /// Of adding a key.
    AddKeyFile,
    /// Of adding keys of bodies.
    AddBodyKeyFile,
    /// Of ending one.
    EndKeyFile,
    /// Of changing anything that is no key.
    ChangePlainFile,
    /// Of a new identity.
    NoIdentity,
}

impl Instead {
    const fn fix(self) -> &'static str {
        match self {
            Self::AddKeyFile => {
                "put a file PARTNER.MERCHANT.CHANNEL.KEYID with secret = \"text:…\" and valid_from into the secret that is \
                 mounted there, and valid_until into the file of the key before it"
            }
            Self::AddBodyKeyFile => {
                "put a file PARTNER.MERCHANT.body.body-2026-12 with secret = \"hex:…\" (32 random bytes) and valid_from, the \
                 first of its month, into the secret that is mounted there; a month ahead"
            }
            Self::EndKeyFile => {
                "write valid_until into its file in the secret that is mounted there, or take the file out"
            }
            Self::ChangePlainFile => {
                "change vault.toml in the secret that is mounted there; of a token it holds the SHA-256"
            }
            Self::NoIdentity => {
                "what encrypts those files is the business of whoever keeps the secret"
            }
        }
    }
}

/// The age file of the vault and its identity. Errors: the vault is a directory, with what to do there.
pub fn files(settings: &Settings, instead: Instead) -> anyhow::Result<(PathBuf, PathBuf)> {
    match place(settings)? {
        VaultPlace::File { vault, identity } => Ok((vault, identity)),
        VaultPlace::Dir(dir) => Err(Fixable::error(
            format!("the vault is the directory {}, which payfold only reads", dir.display()),
            format!("{} (docs/operations.md, \"A directory of keys\")", instead.fix()),
        )),
    }
}

/// Opens the vault to change it. Errors: it is a directory, or can't be opened.
pub fn open(settings: &Settings, instead: Instead) -> anyhow::Result<Vault> {
    let (vault, identity) = files(settings, instead)?;
    Ok(Vault::open(&vault, &identity)?)
}

/// Opens the vault to change it, or makes an empty one.
pub fn open_or_create(settings: &Settings, instead: Instead) -> anyhow::Result<Vault> {
    let (vault, identity) = files(settings, instead)?;
    if is_there(&vault)? {
        return Ok(Vault::open(&vault, &identity)?);
    }
    if is_there(&identity)? {
        return Err(Fixable::error(
            format!("{} is there and {} is not", identity.display(), vault.display()),
            "put the vault back from its backup; only to begin with no keys at all, move the identity aside too and keep it",
        ));
    }
    DataDir::of(settings).create()?;
    Ok(Vault::create_at(vault, &identity)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(vault: &str) -> Settings {
        Settings { vault: vault.to_owned(), data: "data".into(), ..Settings::default() }
    }

    #[test]
    fn a_vault_is_named_by_url() {
        let [vault, identity] = ["data/vault.age", "data/vault.key"].map(PathBuf::from);
        assert_eq!(place(&of("")).unwrap(), VaultPlace::File { vault, identity });
        let [vault, identity] = ["/keys/a.age", "/keys/a.key"].map(PathBuf::from);
        assert_eq!(place(&of("file:/keys/a.age")).unwrap(), VaultPlace::File { vault, identity });
        assert_eq!(place(&of("dir:/keys")).unwrap(), VaultPlace::Dir("/keys".into()));
        for wrong in ["/keys", "dir:", "file:", "vault:x"] {
            let error = place(&of(wrong)).unwrap_err().to_string();
            assert!(error.contains(wrong) && error.contains("fix:"), "{error}");
        }
        let error = open(&of("dir:/keys"), Instead::EndKeyFile).unwrap_err().to_string();
        assert!(error.contains("/keys") && error.contains("valid_until"), "{error}");
    }
}
