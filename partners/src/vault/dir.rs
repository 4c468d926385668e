//! Owns the vault as a directory of key files, as operators of secrets and CSI drivers mount it: flat, read-only to us,
//! one file a key and `vault.toml` for what is not secret.
//! Invariants: what is read is one state of the directory (kubelet swaps the `..data` link in one step; elsewhere nothing
//! may have moved while it was read), and everything that is wrong in it is told at once, by file.

mod assemble;
mod key_file;
mod plain;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use self::assemble::assemble;
use self::key_file::KeyFile;
use self::plain::PlainFile;
use super::stamp::FileStamp;
use super::{VaultError, file};
use crate::document::VaultDocument;

/// The file with what is not secret.
pub const PLAIN_FILE: &str = "vault.toml";
/// What is swapped in one step where the directory is kubelet's.
const DATA_LINK: &str = "..data";
/// No key and no list of accounts is larger, in bytes.
const FILE_BYTES_MAX: u64 = 256 * 1_024;
/// How often a directory that moves is read again before that is an error.
const READS_MAX: usize = 5;

/// Something in the directory that can't be used, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblem {
    /// The file's name.
    pub file: String,
    /// What is wrong with it and what to do. Never holds a part of its content.
    pub problem: String,
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.problem)
    }
}

/// One state of a directory: which files it has, and what tells each from the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Where the files really are.
    root: PathBuf,
    swapped_whole: bool,
    files: BTreeMap<String, Option<FileStamp>>,
}

impl Seen {
    /// Looks at a directory without reading its files. Errors: it can't be listed.
    pub(super) fn of(dir: &Path) -> io::Result<Self> {
        let link = dir.join(DATA_LINK);
        let swapped_whole = std::fs::symlink_metadata(&link).is_ok();
        let root = if swapped_whole { std::fs::canonicalize(&link)? } else { dir.to_owned() };
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir(&root)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            // Kubelet's own, and what editors and version control leave.
            if !name.starts_with('.') {
                let stamp = FileStamp::of(&root.join(&name));
                files.insert(name, stamp);
            }
        }
        Ok(Self { root, swapped_whole, files })
    }

    /// Whether it comes and goes in one step.
    pub(super) fn is_swapped_whole(&self) -> bool {
        self.swapped_whole
    }
}

/// Reads one state of a directory. Errors: `Io`, `Empty`, `Unusable` with everything that is wrong, and `Changing` if it
/// doesn't keep still.
pub(super) fn read_settled(dir: &Path) -> Result<(Seen, VaultDocument), VaultError> {
    let mut before = Seen::of(dir);
    for _ in 0..READS_MAX {
        let read = before.as_ref().ok().map(read_files);
        let after = Seen::of(dir);
        match (&before, &after, read) {
            (Ok(seen), Ok(same), Some(read)) if seen == same => {
                return judge(dir, read).map(|document| (seen.clone(), document));
            }
            // A folder that was swapped away under the look is looked for again.
            _ => before = after,
        }
    }
    let seen = before.map_err(file::io("read the folder", dir))?;
    Err(VaultError::Changing { path: seen.root })
}

/// What was read of a directory: what can be used, and what can't.
#[derive(Default)]
struct Read {
    keys: Vec<KeyFile>,
    plain: Option<PlainFile>,
    problems: Vec<FileProblem>,
    files: usize,
}

fn read_files(seen: &Seen) -> Read {
    let mut read = Read { files: seen.files.len(), ..Read::default() };
    for name in seen.files.keys() {
        let mut wrong = |problem: String| {
            read.problems.push(FileProblem { file: name.clone(), problem });
        };
        let bytes = match read_file(&seen.root.join(name), name) {
            Ok(bytes) => bytes,
            Err(problem) => {
                wrong(problem);
                continue;
            }
        };
        if name == PLAIN_FILE {
            match plain::parse(&bytes) {
                Ok(plain) => read.plain = Some(plain),
                Err(problem) => wrong(problem),
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

fn read_file(path: &Path, name: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "this process may not read it; mode 0440 and the process's group (fsGroup)".to_owned()
        }
        _ => format!("it can't be read: {error}"),
    };
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err("this is no file; key files lie flat in the directory: take it out".to_owned());
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(format!("it has over {FILE_BYTES_MAX} bytes, which no key has; take it out"));
    }
    if name != PLAIN_FILE {
        check_mode(&metadata)?;
    }
    std::fs::read(path).map(Zeroizing::new).map_err(unreadable)
}

/// Refuses a key file that everybody may read. A group may: mounted secrets are root's, and the group is how a process
/// that is not root comes to read them.
#[cfg(unix)]
fn check_mode(metadata: &std::fs::Metadata) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o007 == 0 {
        return Ok(());
    }
    Err(format!(
        "it has mode {mode:04o} and everybody on this machine may read it; mount it with defaultMode: 0440, or chmod 0440"
    ))
}

/// Elsewhere the folder's access list decides.
#[cfg(not(unix))]
fn check_mode(_: &std::fs::Metadata) -> Result<(), String> {
    Ok(())
}

fn judge(dir: &Path, read: Read) -> Result<VaultDocument, VaultError> {
    if read.files == 0 {
        return Err(VaultError::Empty { path: dir.to_owned() });
    }
    let (document, more) = assemble(read.keys, read.plain);
    let mut problems = read.problems;
    problems.extend(more);
    if problems.is_empty() {
        return Ok(document);
    }
    problems.sort_by(|a, b| a.file.cmp(&b.file));
    Err(VaultError::Unusable { path: dir.to_owned(), problems })
}

#[cfg(test)]
mod tests;
