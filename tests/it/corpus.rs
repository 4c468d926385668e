//! Runs every file of the fuzz corpus as the fuzz targets do, through the public items that they
//! have.

use std::path::{Path, PathBuf};

use self::fuzzed::Depth;

#[path = "../../partners/tests/fuzzed/mod.rs"]
mod fuzzed;

/// The files of a target's corpus.
fn files(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let entries = std::fs::read_dir(folder).expect("the corpus is there");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

/// Runs a check on every file of a target's corpus.
fn each(target: &str, check: fn(&[u8])) {
    let files = files(target);
    assert!(files.len() > 10, "the corpus of {target} is there");
    for file in files {
        let bytes = std::fs::read(&file).expect("a file of the corpus");
        let ran = std::panic::catch_unwind(|| check(&bytes));
        assert!(ran.is_ok(), "{} breaks {target}", file.display());
    }
}

#[test]
fn of_profiles() {
    each("profile", |bytes| fuzzed::profile(bytes, Depth::Explained));
}

#[test]
fn of_notices() {
    each("notice", |bytes| fuzzed::notice(bytes, Depth::Explained));
}

#[test]
fn of_the_contract() {
    each("contract", |bytes| fuzzed::contract(bytes, Depth::Explained));
}

#[test]
fn of_records() {
    each("records", fuzzed::records);
}

/// Broken files of the corpus test something only if the unbroken file is read.
#[test]
fn the_honest_file_of_every_section_has_entries() {
    let honest: Vec<_> = (files("records").iter())
        .filter(|file| file.file_name().unwrap().to_string_lossy().starts_with("known-"))
        .map(|file| fuzzed::fate(&std::fs::read(file).unwrap()))
        .collect();
    assert_eq!(honest, ["2 entries"; 4]);
}

/// Forgeries in the corpus test something only if the honest notice is accepted.
#[test]
fn the_honest_notice_of_every_known_profile_is_accepted() {
    let of_known =
        |file: &PathBuf| file.file_name().unwrap().to_string_lossy().starts_with("known-");
    let verdicts: Vec<_> = (files("notice").iter().filter(|file| of_known(file)))
        .map(|file| fuzzed::verdict(&std::fs::read(file).unwrap()))
        .collect();
    assert!(verdicts.len() > 10);
    let refused: Vec<_> = verdicts.iter().filter(|said| !said.contains("signed: ")).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

/// The fuzzer explains some inputs and not all: an explanation takes far longer than a verdict.
#[test]
fn a_fuzzer_explains_one_input_of_64() {
    let explained = (0..64_000_u32).filter(|n| Depth::of(&n.to_le_bytes()) == Depth::Explained);
    let explained = explained.count();
    assert!((800..1_200).contains(&explained), "{explained}");
}
