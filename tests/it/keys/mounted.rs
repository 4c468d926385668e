//! Owns a directory of keys as kubelet mounts a secret: the files in a folder of their time,
//! `..data` that points to it and is swapped in one step, and a link beside it for each name.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::ACME;
use crate::support::system::Home;

/// A mounted secret.
pub struct Mounted {
    dir: PathBuf,
    swaps: u32,
}

impl Mounted {
    /// A folder for a system on a directory of keys, which holds these.
    pub fn home(files: &[(String, String)]) -> (Rc<Home>, Self) {
        let home = Home::new();
        let dir = home.path().join("keys");
        home.write("payfold.toml", &format!("vault = \"dir:{}\"\n{ACME}", dir.display()));
        std::fs::create_dir(&dir).expect("it can be made");
        let mut mounted = Self { dir, swaps: 0 };
        mounted.swap(files);
        (home, mounted)
    }

    /// Puts these files in the place of those before, in one step.
    pub fn swap(&mut self, files: &[(String, String)]) {
        self.swaps += 1;
        let folder = format!("..2026_01_31_{}", self.swaps);
        std::fs::create_dir(self.dir.join(&folder)).expect("it can be made");
        for (name, content) in files {
            let path = self.dir.join(&folder).join(name);
            std::fs::write(&path, content).expect("it can be written");
            let mode = std::fs::Permissions::from_mode(0o440);
            std::fs::set_permissions(&path, mode).expect("it is ours");
            let link = self.dir.join(name);
            if std::fs::symlink_metadata(&link).is_err() {
                symlink(Path::new("..data").join(name), link).expect("a link can be made");
            }
        }
        let old = std::fs::read_link(self.dir.join("..data")).ok();
        let new = self.dir.join("..data_tmp");
        symlink(&folder, &new).expect("a link can be made");
        std::fs::rename(new, self.dir.join("..data")).expect("it can be swapped");
        if let Some(old) = old {
            std::fs::remove_dir_all(self.dir.join(old)).expect("it is there");
        }
    }
}

/// A file of this name and content.
pub fn file(name: &str, content: impl Into<String>) -> (String, String) {
    (name.to_owned(), content.into())
}
