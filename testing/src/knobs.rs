//! Owns the test settings from the environment. Code under test reads none of them.

/// At least how often the program is killed: `PAYFOLD_KILLS`, or 10.
#[expect(
    clippy::disallowed_methods,
    reason = "a setting of tests; code under test does not read it"
)]
pub fn kills() -> u32 {
    std::env::var("PAYFOLD_KILLS")
        .map_or(10, |count| count.parse().expect("PAYFOLD_KILLS is a number of kills"))
}

/// The seed of a test's random choices: `PAYFOLD_SEED`, to repeat those of a run. `None` leaves it
/// to the test.
#[expect(
    clippy::disallowed_methods,
    reason = "a setting of tests; code under test does not read it"
)]
pub fn seed() -> Option<u64> {
    std::env::var("PAYFOLD_SEED").ok().map(|seed| seed.parse().expect("PAYFOLD_SEED is a number"))
}

/// How many faults a cluster test makes: `PAYFOLD_CLUSTER_FAULTS`. With `None` each kind strikes
/// once.
#[expect(
    clippy::disallowed_methods,
    reason = "a setting of tests; code under test does not read it"
)]
pub fn cluster_faults() -> Option<usize> {
    let faults = std::env::var("PAYFOLD_CLUSTER_FAULTS").ok();
    faults.map(|count| count.parse().expect("PAYFOLD_CLUSTER_FAULTS is a number of faults"))
}

/// The only kinds of faults that a cluster test makes, to search for a bug: `PAYFOLD_CLUSTER_ONLY`,
/// a comma-separated list of names.
#[expect(
    clippy::disallowed_methods,
    reason = "a setting of tests; code under test does not read it"
)]
pub fn cluster_only() -> Option<Vec<String>> {
    let names = std::env::var("PAYFOLD_CLUSTER_ONLY").ok()?;
    Some(names.split(',').map(|name| name.trim().to_owned()).collect())
}

/// The variable with which a test starts this test binary as payfold with a planted bug:
/// `BUG@FOLDER`.
pub const CHILD: &str = "PAYFOLD_FAULTS_CHILD";

/// The value of `CHILD`, if a test started this process.
#[expect(clippy::disallowed_methods, reason = "how a test configures the process it starts")]
pub fn child() -> Option<String> {
    std::env::var(CHILD).ok()
}

/// Whether this is CI, where no test may be left out.
#[expect(
    clippy::disallowed_methods,
    reason = "a setting of tests; code under test does not read it"
)]
pub fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| !ci.is_empty() && ci != "false")
}

/// Whether tests that need real servers are left out: `PAYFOLD_TEST_ENGINES=embedded`. Under CI
/// such a test fails instead.
#[expect(
    clippy::disallowed_methods,
    reason = "a setting of tests; code under test does not read it"
)]
pub fn embedded_only() -> bool {
    std::env::var("PAYFOLD_TEST_ENGINES").is_ok_and(|engines| engines == "embedded")
}

/// The addresses of running Kafka brokers: `PAYFOLD_TEST_KAFKA`.
#[expect(
    clippy::disallowed_methods,
    reason = "a setting of tests; code under test does not read it"
)]
pub fn test_kafka() -> Option<String> {
    std::env::var("PAYFOLD_TEST_KAFKA").ok()
}

/// The addresses of running database nodes: `PAYFOLD_TEST_CQL`.
#[expect(
    clippy::disallowed_methods,
    reason = "a setting of tests; code under test does not read it"
)]
pub fn test_cql() -> Option<String> {
    std::env::var("PAYFOLD_TEST_CQL").ok()
}
