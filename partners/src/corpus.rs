//! Every file of the fuzz targets' corpus, run as the targets run it.

use std::path::Path;

use crate::fuzzed;

/// Runs a check on every file of a target's corpus.
fn each(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 10, "the corpus of {target} is there");
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        let ran = std::panic::catch_unwind(|| check(&bytes));
        assert!(ran.is_ok(), "{} breaks {target}", file.display());
    }
}

#[test]
fn of_profiles() {
    each("profile", fuzzed::profile);
}

#[test]
fn of_notices() {
    each("notice", fuzzed::notice);
}

#[test]
fn of_the_contract() {
    each("contract", fuzzed::contract);
}

#[test]
fn of_one_signature_for_two() {
    each("slide", fuzzed::slide);
}
