//! Owns disks that can be filled and files that can be frozen. Invariant: nothing stays mounted or
//! frozen when its value is gone, also when a test fails.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::system::alone;

/// A small file system in memory.
pub struct Mount {
    at: PathBuf,
}

impl Mount {
    /// Mounts one. Errors: why this system can't.
    pub fn tmpfs(at: &Path, mib: u32) -> Result<Self, String> {
        fs::create_dir(at).expect("the folder is new");
        let size = format!("size={mib}m");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at))?;
        Ok(Self { at: at.to_owned() })
    }

    /// Writes a file until not a byte is left; returns it.
    pub fn fill(&self) -> PathBuf {
        let path = self.at.join("ballast");
        let mut file = File::create(&path).expect("a file can be made");
        for size in [1 << 20, 4_096, 1] {
            let block = vec![0; size];
            loop {
                match file.write_all(&block) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => panic!("the disk can't be filled: {error}"),
                }
            }
        }
        path
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily, for a test that failed may have left files open.
        let _ = alone(|| Command::new("umount").arg("-l").arg(&self.at).status());
    }
}

/// Files that no process may write, not even through an open descriptor.
pub struct Immutable {
    files: Vec<PathBuf>,
}

impl Immutable {
    /// Whether a frozen file refuses writes here. Errors: why not.
    pub fn probe(folder: &Path) -> Result<(), String> {
        let path = folder.join("probe");
        let mut file = File::create(&path).map_err(|error| error.to_string())?;
        chattr("+i", &path)?;
        let written = file.write_all(b"x");
        chattr("-i", &path)?;
        match written {
            Ok(()) => Err("a frozen file takes writes on this file system".to_owned()),
            Err(_) => Ok(()),
        }
    }

    /// Freezes those of a folder's files that are there.
    pub fn of(folder: &Path, names: &[&str]) -> Self {
        let mut frozen = Self { files: Vec::new() };
        for path in names.iter().map(|name| folder.join(name)).filter(|path| path.exists()) {
            frozen.files.push(path.clone());
            chattr("+i", &path).expect("it worked on the probe");
        }
        assert!(!frozen.files.is_empty(), "there is something to freeze");
        frozen
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        for path in &self.files {
            // A test that failed may have frozen only some.
            let _ = chattr("-i", path);
        }
    }
}

fn chattr(flag: &str, path: &Path) -> Result<(), String> {
    run(Command::new("chattr").arg(flag).arg(path))
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    match alone(|| command.output()) {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{name}: {error}")),
    }
}
