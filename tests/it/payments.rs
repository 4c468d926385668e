//! Owns whole payments on the real binary: driven through checkout and the sandbox partner as `payfold demo pay` does.

use crate::support::system::System;

/// Every trouble the sandbox knows comes to what it must, every acknowledged notice is in the log, and the same seed
/// says the same again.
#[test]
fn every_trouble_ends_as_it_must() {
    let system = System::demo();
    let pay = ["demo", "pay", "--count", "90", "--trouble", "all", "--seed", "11"];
    let first = system.payfold(&pay);
    assert_eq!(first.code(), 0, "{}", first.stdout);
    assert!(first.stdout.contains("seed 11") && first.stdout.contains(" 0 not as expected"));
    assert!(first.stdout.contains(" 0 of them not in the log"), "{}", first.stdout);
    let second = system.payfold(&pay);
    assert_eq!(second.code(), 0, "{}", second.stdout);
    assert_eq!(table(&first.stdout), table(&second.stdout));
    // Words that go together, with another seed.
    let some = "late+wrong-key,duplicates+disorder+refund-parts,second-ref+stale";
    let some = ["demo", "pay", "--count", "6", "--trouble", some, "--seed", "12"];
    let mixed = system.payfold(&some);
    assert_eq!(mixed.code(), 0, "{}", mixed.stdout);
}

/// The rows of troubles, without the times around them.
fn table(printed: &str) -> Vec<&str> {
    printed.lines().filter(|line| line.ends_with("  ok")).collect()
}

#[test]
fn a_word_nobody_knows_is_named() {
    let system = System::demo();
    let refused = system.payfold(&["demo", "pay", "--trouble", "rain"]);
    assert_eq!(refused.code(), 1);
    assert!(
        refused.stderr.contains("#rain") && refused.stderr.contains("fix:"),
        "{}",
        refused.stderr
    );
}
