//! Owns how an entry about the log gets into the vault: an age file is changed, for a directory the
//! lines of `vault.toml` are printed, because payfold only reads it.

use std::collections::BTreeMap;

use anyhow::Context;
use payfold_partners::document::VaultDocument;
use payfold_partners::vault::{Vault, VaultPlace};
use serde::Serialize;

use crate::output;

/// An entry, and what a command prints about it.
pub(super) struct VaultEntry<T> {
    /// The array of `vault.toml` that it is of.
    pub(super) table: &'static str,
    /// The entry.
    pub(super) entry: T,
    /// Where in `vault.toml` a person adds it.
    pub(super) add_to: &'static str,
    /// What holds once the file is changed.
    pub(super) done: &'static str,
    /// Whether a person has said `--yes`: without it no file is changed.
    pub(super) is_confirmed: bool,
}

impl<T: Serialize> VaultEntry<T> {
    /// Writes it with `change`, or prints it. Errors: the vault's, and those of `change`.
    pub(super) fn put(
        self,
        place: &VaultPlace,
        change: impl FnOnce(&mut VaultDocument, T) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        match place {
            VaultPlace::Dir(dir) => {
                let plain = BTreeMap::from([(self.table, [self.entry])]);
                let toml = toml::to_string(&plain).context("an entry of the vault is TOML")?;
                output::line(&format!(
                    "The vault is the directory {}, which payfold only reads. Add this to {}:\n\n\
                     {toml}",
                    dir.display(),
                    self.add_to
                ));
            }
            VaultPlace::File { .. } if !self.is_confirmed => {
                output::line("Nothing was changed (no --yes).");
            }
            VaultPlace::File { vault, identity } => {
                let mut opened = Vault::open(vault, identity)?;
                change(opened.document_mut(), self.entry)?;
                opened.save()?;
                output::line(self.done);
            }
        }
        Ok(())
    }
}
