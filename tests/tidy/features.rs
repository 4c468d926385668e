//! Owns the rule that what is tested is what ships: a test's dependency may not turn on a feature,
//! in a crate that the program names, that the program is built without.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use toml::Value;

/// The features of each crate, by name and version, as `cargo tree` has them.
type Features = BTreeMap<String, BTreeSet<String>>;

#[test]
fn a_crate_has_the_same_features_in_the_program_and_in_tests() {
    let manifest = include_str!("../../Cargo.toml");
    let manifest: Value = toml::from_str(manifest).expect("a manifest is TOML");
    let named = manifest["workspace"]["dependencies"].as_table().expect("a table");
    let shipped = features(&["--edges", "normal"]);
    let tested = features(&["--workspace", "--edges", "normal,dev"]);
    assert!(shipped.len() > 100, "cargo tree lists the dependencies: {shipped:?}");
    let only_tested = more_in_tests(&shipped, &tested, |name| named.contains_key(name));
    assert!(
        only_tested.is_empty(),
        "the tests have features that the program lacks; add them in Cargo.toml: {only_tested:?}"
    );
}

#[test]
fn a_feature_that_only_tests_have_is_found() {
    let crates = |text: &str| read_tree(&format!("a v1.0.0|std\n{text}\n"));
    let (shipped, tested) = (crates("b v2.0.0|x,y"), crates("b v2.0.0|z (*)\nb v2.0.0|x"));
    let found = more_in_tests(&shipped, &tested, |_| true);
    assert_eq!(found, crates("b v2.0.0|z").split_off("b v2.0.0"));
    assert!(more_in_tests(&shipped, &tested, |name| name != "b").is_empty());
}

/// What `tested` has and `shipped` lacks, of the crates that are in both and `concern` the program.
fn more_in_tests(
    shipped: &Features,
    tested: &Features,
    concern: impl Fn(&str) -> bool,
) -> Features {
    let more = |(package, of_tests): (&String, &BTreeSet<String>)| {
        let name = package.split(' ').next().unwrap_or_default();
        let more: BTreeSet<_> = of_tests.difference(shipped.get(package)?).cloned().collect();
        (concern(name) && !more.is_empty()).then(|| (package.clone(), more))
    };
    tested.iter().filter_map(more).collect()
}

fn features(selection: &[&str]) -> Features {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--prefix", "none", "--format", "{p}|{f}"])
        .args(selection)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    read_tree(&String::from_utf8(tree.stdout).expect("cargo tree prints UTF-8"))
}

fn read_tree(tree: &str) -> Features {
    let mut features = Features::new();
    for line in tree.lines() {
        let Some((package, listed)) = line.trim_end_matches(" (*)").split_once('|') else {
            continue;
        };
        // Without the folder of a crate of this workspace, or what kind of crate it is.
        let package = package.split(" (").next().unwrap_or_default();
        let listed = listed.split(',').filter(|name| !name.is_empty()).map(str::to_owned);
        features.entry(package.to_owned()).or_default().extend(listed);
    }
    features
}
