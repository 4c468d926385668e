//! Owns the choice of the vault by the settings. Commands change a vault that is an age file. A
//! vault that is a directory of key files is read only; its operator changes the files.

use std::path::{Path, PathBuf};

use payfold_partners::document::VaultDocument;
use payfold_partners::vault::{Vault, VaultPlace};
use payfold_schemas::record_keys::RecordKeys;

use crate::data_dir::DataDir;
use crate::error::{Fixable, is_there};
use crate::settings::Settings;

/// Where the vault is. Errors: the setting can't be parsed.
pub(crate) fn place(settings: &Settings) -> anyhow::Result<VaultPlace> {
    let data = DataDir::of(settings);
    match settings.vault.split_once(':') {
        None if settings.vault.is_empty() => {
            Ok(VaultPlace::File { vault: data.vault(), identity: data.identity() })
        }
        Some(("file", path)) if !path.is_empty() => Ok(VaultPlace::file(Path::new(path))),
        Some(("dir", path)) if !path.is_empty() => Ok(VaultPlace::Dir(path.into())),
        _ => Err(Fixable::error(
            format!("vault = \"{}\" is not the address of a vault", settings.vault),
            "write \"file:PATH\" for an age file, \"dir:PATH\" for a directory of key files, or \
                leave it out",
        )),
    }
}

/// Reads the vault. Errors: it does not exist, or can't be opened.
pub(crate) fn read(settings: &Settings) -> anyhow::Result<VaultDocument> {
    if let VaultPlace::File { vault, identity } = place(settings)?
        && !is_there(&vault)?
        && !is_there(&identity)?
    {
        return Err(Fixable::error(
            format!("the vault {} does not exist yet, so there are no accounts", vault.display()),
            "create it with the first key: payfold key add PARTNER --merchant MERCHANT (payfold \
                run creates it, too)",
        ));
    }
    Ok(place(settings)?.read()?)
}

/// The record keys, to check the messages of the log with; none if the vault can't be opened here,
/// as on the machine of a person who only reads.
pub(crate) fn record_keys(settings: &Settings) -> RecordKeys {
    read(settings).map(|document| document.record_keys()).unwrap_or_default()
}

/// What an operator of a directory of key files does instead of a command that changes the vault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instead {
    /// Instead of adding a key.
    AddKeyFile,
    /// Instead of adding keys that seal bodies.
    AddBodyKeyFile,
    /// Instead of adding a record key.
    AddRecordKeyFile,
    /// Instead of retiring a key.
    EndKeyFile,
    /// Instead of changing accounts, shops or tokens.
    ChangePlainFile,
    /// Instead of rotating the identity.
    NoIdentity,
}

impl Instead {
    const fn fix(self) -> &'static str {
        match self {
            Self::AddKeyFile => {
                "add a file PARTNER.MERCHANT.CHANNEL.KEYID with secret = \"text:…\" and \
                    valid_from to the secret that is mounted there, and write valid_until into \
                    the file of the previous key"
            }
            Self::AddBodyKeyFile => {
                "a month ahead, add a file PARTNER.MERCHANT.body.body-2026-12 with secret = \
                    \"hex:…\" (32 random bytes) and valid_from (the first day of its month) to \
                    the secret that is mounted there"
            }
            Self::AddRecordKeyFile => {
                "add a file records.ROLE.KEYID with secret = \"hex:…\" (32 random bytes) and a \
                    later valid_from to the secret that is mounted in every process"
            }
            Self::EndKeyFile => {
                "write valid_until into the key's file in the secret that is mounted there, or \
                    remove the file"
            }
            Self::ChangePlainFile => {
                "change vault.toml in the secret that is mounted there; it holds the SHA-256 of \
                    each token"
            }
            Self::NoIdentity => {
                "rotate the encryption of those files with the tool that manages the secret"
            }
        }
    }
}

/// The paths of the vault's age file and of its identity. Errors: the vault is a directory; the fix
/// says what to do there.
pub(crate) fn files(settings: &Settings, instead: Instead) -> anyhow::Result<(PathBuf, PathBuf)> {
    match place(settings)? {
        VaultPlace::File { vault, identity } => Ok((vault, identity)),
        VaultPlace::Dir(dir) => Err(Fixable::error(
            format!("the vault is the directory {}, which payfold only reads", dir.display()),
            format!("{} (docs/how-to/rotate-keys.md, \"A directory of keys\")", instead.fix()),
        )),
    }
}

/// Opens the vault to change it. Errors: it is a directory, or can't be opened.
pub(crate) fn open(settings: &Settings, instead: Instead) -> anyhow::Result<Vault> {
    let (vault, identity) = files(settings, instead)?;
    Ok(Vault::open(&vault, &identity)?)
}

/// Opens the vault to change it, or creates an empty one. Errors: only one of vault and identity
/// exists.
pub(crate) fn open_or_create(settings: &Settings, instead: Instead) -> anyhow::Result<Vault> {
    let (vault, identity) = files(settings, instead)?;
    if is_there(&vault)? {
        return Ok(Vault::open(&vault, &identity)?);
    }
    if is_there(&identity)? {
        return Err(Fixable::error(
            format!("{} exists and {} does not", identity.display(), vault.display()),
            "restore the vault from its backup; without it every notice would be refused",
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
    fn the_setting_names_a_file_or_a_directory() {
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
