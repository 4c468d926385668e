//! Owns what tests fetch from package registries: each folder is made once and kept.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use super::system::alone;

static MAKING: Mutex<()> = Mutex::new(());

/// A folder below `target` that is made once for each content of `by`.
pub fn made(name: &str, by: &Path, make: impl FnOnce(&Path)) -> PathBuf {
    // Tests that run at the same time wait for the one that makes it.
    let _turn = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let wanted = std::fs::read_to_string(by).expect("it is in the repository");
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fetched-{name}"));
    let stamp = place.join("made-by");
    if std::fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        return place;
    }
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).expect("a folder can be made");
    make(&place);
    std::fs::write(stamp, wanted).expect("a stamp can be written");
    place
}

/// Runs a program to its end, which has to be a success.
pub fn run(command: &mut Command) {
    let output = alone(|| command.output());
    let output = output.unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}{said}",
        String::from_utf8_lossy(&output.stdout)
    );
}
