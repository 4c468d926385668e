//! Owns the vault as a directory of key files, as secret operators and CSI drivers mount it: flat,
//! read-only, one file for each key, and `vault.toml` for settings that are not secret.
//!
//! Invariants: a document is read from one state of the directory. Kubelet swaps the `..data` link
//! in one step; in any other directory no file may have changed while it was read. All problems are
//! reported at once, by file.

mod assemble;
mod key_file;
mod plain;
pub(super) mod problem;
mod record_key_file;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use self::assemble::assemble;
use self::key_file::VaultKeyFile;
use self::plain::PlainFile;
use super::file;
use super::stamp::FileStamp;
use crate::document::VaultDocument;
use crate::record_key::RecordKeyEntry;
use crate::vault::dir::problem::{BadFile, FileProblem, PLAIN_FILE};
use crate::vault::error::VaultError;

/// The link that kubelet swaps in one step to replace all files of a mounted secret.
const DATA_LINK: &str = "..data";

/// The largest accepted file, in bytes. No key and no `vault.toml` is larger.
const FILE_BYTES_MAX: u64 = 256 * 1_024;

/// How often a directory that is being changed is read before that is an error.
const READS_MAX: usize = 5;

/// One state of a directory: its files, with a stamp that changes when a file is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DirSnapshot {
    /// The folder with the files, links followed.
    root: PathBuf,
    /// Whether all files are replaced in one step.
    swapped_whole: bool,
    files: BTreeMap<String, Option<FileStamp>>,
}

impl DirSnapshot {
    /// Lists a directory without reading its files. Errors: it can't be listed.
    pub(super) fn of(dir: &Path) -> io::Result<Self> {
        let link = dir.join(DATA_LINK);
        let swapped_whole = std::fs::symlink_metadata(&link).is_ok();
        let root = if swapped_whole { std::fs::canonicalize(&link)? } else { dir.to_owned() };
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir(&root)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            // Hidden files are kubelet's own, or left by editors and version control.
            if !name.starts_with('.') {
                let stamp = FileStamp::of(&root.join(&name));
                files.insert(name, stamp);
            }
        }
        Ok(Self { root, swapped_whole, files })
    }

    /// Whether all files are replaced in one step.
    pub(super) fn is_swapped_whole(&self) -> bool {
        self.swapped_whole
    }
}

/// Reads one state of a directory. Errors: `Io`, `Empty`, `Unusable` with all problems, and
/// `Changing` if the directory changes during every attempt.
pub(super) fn read_settled(dir: &Path) -> Result<(DirSnapshot, VaultDocument), VaultError> {
    let mut before = DirSnapshot::of(dir);
    for _ in 0..READS_MAX {
        let read = before.as_ref().ok().map(read_files);
        let after = DirSnapshot::of(dir);
        match (&before, &after, read) {
            (Ok(seen), Ok(same), Some(read)) if seen == same => {
                return judge(dir, read).map(|document| (seen.clone(), document));
            }
            // The directory changed, or was swapped away, while it was read: it is read again.
            _ => before = after,
        }
    }
    let seen = before.map_err(file::io("read the folder", dir))?;
    Err(VaultError::Changing { path: seen.root })
}

/// The content of a directory: the files that can be used, and the problems of the others.
#[derive(Default)]
struct DirContent {
    keys: Vec<VaultKeyFile>,
    /// Each with the name of its file.
    record_keys: Vec<(String, RecordKeyEntry)>,
    plain: Option<PlainFile>,
    problems: Vec<FileProblem>,
    files: usize,
}

fn read_files(seen: &DirSnapshot) -> DirContent {
    let mut read = DirContent { files: seen.files.len(), ..DirContent::default() };
    for name in seen.files.keys() {
        let mut wrong = |problem: String| {
            read.problems.push(FileProblem { file: name.clone(), problem });
        };
        let bytes = match read_file(&seen.root.join(name), name) {
            Ok(bytes) => bytes,
            Err(BadFile(problem)) => {
                wrong(problem);
                continue;
            }
        };
        if name == PLAIN_FILE {
            match plain::parse(&bytes) {
                Ok(plain) => read.plain = Some(plain),
                Err(BadFile(problem)) => wrong(problem),
            }
        } else if let Some(writer) = record_key_file::writer_of(name) {
            match record_key_file::parse(writer, &bytes) {
                Ok(key) => read.record_keys.push((name.clone(), key)),
                Err(problems) => problems.into_iter().for_each(wrong),
            }
        } else {
            match key_file::parse(name, &bytes) {
                Ok(key) => read.keys.push(key),
                Err(problems) => problems.into_iter().for_each(wrong),
            }
        }
    }
    read
}

fn read_file(path: &Path, name: &str) -> Result<Zeroizing<Vec<u8>>, BadFile> {
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::PermissionDenied => BadFile(
            "this process may not read it; give it mode 0440 and the process's group (fsGroup)"
                .to_owned(),
        ),
        _ => BadFile(format!("it can't be read: {error}")),
    };
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return BadFile::err(
            "it is not a regular file; put key files directly into the directory, and remove this",
        );
    }
    if metadata.len() > FILE_BYTES_MAX {
        return BadFile::err(format!(
            "it has more than {FILE_BYTES_MAX} bytes and can't be a key; remove it"
        ));
    }
    if name != PLAIN_FILE {
        check_mode(&metadata)?;
    }
    std::fs::read(path).map(Zeroizing::new).map_err(unreadable)
}

/// Refuses a key file that every user may read. The group may read it: mounted secrets belong to
/// root, and a process of another user reads them through the group.
#[cfg(unix)]
fn check_mode(metadata: &std::fs::Metadata) -> Result<(), BadFile> {
    use std::os::unix::fs::PermissionsExt;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o007 == 0 {
        return Ok(());
    }
    BadFile::err(format!(
        "it has mode {mode:04o}, so every user of this machine may read it; mount it with \
         defaultMode: 0440, or run chmod 0440"
    ))
}

/// On other systems the folder's access list protects the files.
#[cfg(not(unix))]
fn check_mode(_: &std::fs::Metadata) -> Result<(), BadFile> {
    Ok(())
}

fn judge(dir: &Path, read: DirContent) -> Result<VaultDocument, VaultError> {
    if read.files == 0 {
        return Err(VaultError::Empty { path: dir.to_owned() });
    }
    let (mut document, more) = assemble(read.keys, read.plain);
    let mut problems = read.problems;
    problems.extend(more);
    problems.extend(record_key_file::conflicts(&read.record_keys));
    document.record_keys = read.record_keys.into_iter().map(|(_, key)| key).collect();
    if problems.is_empty() {
        return Ok(document);
    }
    problems.sort_by(|a, b| a.file.cmp(&b.file));
    Err(VaultError::Unusable { path: dir.to_owned(), problems })
}

#[cfg(test)]
mod tests;
