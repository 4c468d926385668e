//! Owns the paths of a database and of the files beside it.

use std::path::{Path, PathBuf};

/// The most symlinks that are followed, as many as Linux follows.
const LINKS_MAX: usize = 40;

/// The path at which SQLite opens a database: the end of the path's symlinks, whether a file exists
/// there or not. SQLite puts the files beside it (`-wal`) there, too, and not beside a symlink.
pub fn follow_links(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = std::fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    path
}

/// The path of the file with this suffix beside a database.
pub(crate) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}
