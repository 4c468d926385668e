//! Owns the manifest of a backup, `backup.json`. It is written after all other files are durable. A
//! folder without it is no backup, and a file that does not match it is not restored.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::Context;
use payfold_schemas::digest::Digest;
use payfold_schemas::time::Time;
use serde::{Deserialize, Serialize};

use crate::error::Fixable;

const NAME: &str = "backup.json";
const FORMAT: u32 = 1;

/// File names in a backup.
pub(crate) const ORDERS: &str = "orders.db";
pub(crate) const LOG: &str = "log.db";
pub(crate) const CLAIMS: &str = "orders.claims.db";
pub(crate) const VAULT: &str = "vault.age";

/// The content of a backup.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    /// The format version of the manifest.
    format: u32,
    /// The version of the program that wrote the backup.
    pub version: String,
    /// When the backup was begun, RFC 3339.
    pub made_at: Time,
    /// The last position of the log in the backup, such as 0-1234.
    pub log_end: String,
    /// The files of the backup.
    files: Vec<BackupFile>,
}

/// A file of a backup.
#[derive(Debug, Deserialize, Serialize)]
struct BackupFile {
    name: String,
    bytes: u64,
    sha256: String,
}

impl Manifest {
    /// Makes the manifest of the files in a folder. Errors: a file can't be read.
    pub(crate) fn of(folder: &Path, made_at: Time, log_end: String) -> anyhow::Result<Self> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if is_of_a_backup(&name) {
                let (bytes, sha256) = digest(&folder.join(&name))?;
                files.push(BackupFile { name, bytes, sha256 });
            }
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(Self { format: FORMAT, version, made_at, log_end, files })
    }

    /// Writes the manifest into the folder, durably.
    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        crate::data_dir::write_private(&folder.join(NAME), &text)?;
        File::open(folder)?.sync_all()?;
        Ok(())
    }

    /// The size of all files together, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Reads the manifest of a folder. Errors: it is missing, can't be parsed, or has another
    /// format.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(NAME);
        let text = std::fs::read(&path).map_err(|error| {
            Fixable::error(
                format!("{} is no backup: its {NAME} can't be read: {error}", folder.display()),
                "give a folder that `payfold log backup` has completed",
            )
        })?;
        let read: Self = serde_json::from_slice(&text).with_context(|| {
            format!("{} was not written by `payfold log backup`", path.display())
        })?;
        if read.format != FORMAT {
            return Err(Fixable::error(
                format!(
                    "{} has format {}, this program reads {FORMAT}",
                    path.display(),
                    read.format
                ),
                format!("restore it with payfold {}", read.version),
            ));
        }
        Ok(read)
    }

    /// The names and paths of its files, after checking size and digest of each. Errors: a file is
    /// missing or was changed.
    pub(crate) fn whole(&self, folder: &Path) -> anyhow::Result<Vec<(String, PathBuf)>> {
        let mut found = Vec::new();
        for file in &self.files {
            if !is_of_a_backup(&file.name) {
                anyhow::bail!("{NAME} lists {:?}, which is no file of a backup", file.name);
            }
            let path = folder.join(&file.name);
            if digest(&path)? != (file.bytes, file.sha256.clone()) {
                return Err(Fixable::error(
                    format!("{} is not the file that was written into this backup", path.display()),
                    "restore another backup; this one was changed, or its disk is failing",
                ));
            }
            found.push((file.name.clone(), path));
        }
        Ok(found)
    }
}

/// Whether a backup can hold a file of this name. The file of a further build is `orders.g2.db`.
fn is_of_a_backup(name: &str) -> bool {
    let number = name.strip_prefix("orders.g").and_then(|rest| rest.strip_suffix(".db"));
    [ORDERS, LOG, CLAIMS, VAULT].contains(&name)
        || number.is_some_and(|number| number.parse::<u32>().is_ok())
}

fn digest(path: &Path) -> anyhow::Result<(u64, String)> {
    let read = File::open(path).and_then(|mut file| Digest::of_reader(&mut file));
    let (digest, bytes) = read.with_context(|| format!("{} can't be read", path.display()))?;
    Ok((bytes, digest.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backup() -> (tempfile::TempDir, Manifest) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(LOG), b"a log").unwrap();
        std::fs::write(folder.path().join(CLAIMS), b"claims").unwrap();
        std::fs::write(folder.path().join("orders.g2.db"), b"more").unwrap();
        std::fs::write(folder.path().join("orders.g2.db-wal"), b"none of it").unwrap();
        let manifest =
            Manifest::of(folder.path(), Time::from_unix_ms(0), "0-7".to_owned()).unwrap();
        manifest.write(folder.path()).unwrap();
        (folder, manifest)
    }

    #[test]
    fn a_written_manifest_is_read_back() {
        let (folder, manifest) = backup();
        let read = Manifest::read(folder.path()).unwrap();
        assert_eq!((read.bytes(), read.log_end.as_str()), (15, "0-7"));
        assert_eq!(manifest.bytes(), 15);
        let names: Vec<_> =
            read.whole(folder.path()).unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [LOG, CLAIMS, "orders.g2.db"]);
    }

    #[test]
    fn a_changed_or_missing_file_a_strange_name_and_another_format_are_refused() {
        let (folder, _) = backup();
        std::fs::write(folder.path().join(LOG), b"a lag").unwrap();
        let error = Manifest::read(folder.path()).unwrap().whole(folder.path()).unwrap_err();
        assert!(error.to_string().contains("not the file that was written"), "{error}");
        std::fs::remove_file(folder.path().join(LOG)).unwrap();
        let error = Manifest::read(folder.path()).unwrap().whole(folder.path()).unwrap_err();
        assert!(error.to_string().contains("log.db can't be read"), "{error}");
        let text = std::fs::read_to_string(folder.path().join(NAME)).unwrap();
        std::fs::write(folder.path().join(NAME), text.replace("log.db", "../x")).unwrap();
        let error = Manifest::read(folder.path()).unwrap().whole(folder.path()).unwrap_err();
        assert!(error.to_string().contains("which is no file of a backup"), "{error}");
        std::fs::write(folder.path().join(NAME), text.replace("\"format\": 1", "\"format\": 2"))
            .unwrap();
        let error = Manifest::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("format 2") && error.contains("fix:"), "{error}");
        let empty = tempfile::tempdir().unwrap();
        let error = Manifest::read(empty.path()).unwrap_err().to_string();
        assert!(error.contains("is no backup"), "{error}");
    }
}
