//! Owns the data folder: the paths of its files, and the modes of files that hold secrets.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{Fixable, unreadable};
use crate::settings::Settings;

/// The data folder of a system.
#[derive(Clone, Debug)]
pub struct DataDir {
    root: PathBuf,
}

impl DataDir {
    /// The folder that the settings name; it may not exist yet.
    pub fn of(settings: &Settings) -> Self {
        Self { root: settings.data.clone() }
    }

    /// Creates the folder, readable by this user only, if it is missing. Returns whether it was
    /// created.
    pub fn create(&self) -> anyhow::Result<bool> {
        use std::os::unix::fs::DirBuilderExt;
        if self.root.is_dir() {
            return Ok(false);
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.root).map_err(|error| {
            Fixable::error(
                format!("the data folder {} can't be created: {error}", self.root.display()),
                "create it, or give another with --data DIR or PAYFOLD_DATA",
            )
        })?;
        Ok(true)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The encrypted vault.
    pub fn vault(&self) -> PathBuf {
        self.root.join("vault.age")
    }

    /// The age identity that opens the vault.
    pub fn identity(&self) -> PathBuf {
        self.root.join("vault.key")
    }

    /// The HMAC key of the sandbox account (demo only), for use with other tools.
    pub fn sandbox_key(&self) -> PathBuf {
        self.root.join("sandbox.key")
    }

    /// The key that seals the console's sessions.
    pub fn console_key(&self) -> PathBuf {
        self.root.join("console.key")
    }

    /// Token of the demo's shop (demo only).
    pub fn shop_token(&self) -> PathBuf {
        self.root.join("demo.key")
    }

    /// Token of the local admin.
    pub fn admin_token(&self) -> PathBuf {
        self.root.join("admin.token")
    }

    /// The run file of a process.
    pub fn run_file(&self, pid: u32) -> PathBuf {
        self.root.join(format!("run-{pid}.json"))
    }

    /// The run files in the folder, oldest first; some may be left from a crash. Errors: the folder
    /// exists and can't be read.
    pub fn run_files(&self) -> anyhow::Result<Vec<PathBuf>> {
        let is_one = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with("run-") && name.ends_with(".json")
        };
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(&self.root, &error)),
        };
        let entries = entries.flatten();
        let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(is_one).collect();
        files.sort_by_key(|path| fs::metadata(path).and_then(|found| found.modified()).ok());
        Ok(files)
    }

    /// The path of a file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

/// Writes a file that only this user may read, replacing an old one atomically. Errors name the
/// file.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let temporary = path.with_extension("new");
    let write = || {
        let mut options = fs::OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|error: std::io::Error| {
        Fixable::error(
            format!("{} can't be written: {error}", path.display()),
            "free space on its disk and make the folder writable for this user, then try again",
        )
    })
}

/// Free bytes for this user on the file system of `path`.
pub(crate) fn disk_free_bytes(path: &Path) -> std::io::Result<u64> {
    let found =
        rustix::fs::statvfs(if path.as_os_str().is_empty() { Path::new(".") } else { path })?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}
