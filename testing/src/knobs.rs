//! Owns what the environment tells the tests; no code under test sees any of it.

/// How often the program is killed: 10 times, or `PAYFOLD_KILLS`.
#[expect(clippy::disallowed_methods, reason = "a test's own knob; no code under test sees it")]
pub fn kills() -> u32 {
    std::env::var("PAYFOLD_KILLS")
        .map_or(10, |count| count.parse().expect("PAYFOLD_KILLS is a number of kills"))
}

/// The seed of the load and of the moments of the kills: `PAYFOLD_SEED` to repeat a run's choices.
#[expect(clippy::disallowed_methods, reason = "a test's own knob; no code under test sees it")]
pub fn seed() -> Option<u64> {
    std::env::var("PAYFOLD_SEED").ok().map(|seed| seed.parse().expect("PAYFOLD_SEED is a number"))
}

/// How many faults strike a cluster: each kind once, or `PAYFOLD_CLUSTER_FAULTS`.
#[expect(clippy::disallowed_methods, reason = "a test's own knob; no code under test sees it")]
pub fn cluster_faults() -> Option<usize> {
    let faults = std::env::var("PAYFOLD_CLUSTER_FAULTS").ok();
    faults.map(|count| count.parse().expect("PAYFOLD_CLUSTER_FAULTS is a number of faults"))
}

/// The only kinds of faults that strike a cluster, for whoever looks for a bug: `PAYFOLD_CLUSTER_ONLY`, by their names
/// with commas between.
#[expect(clippy::disallowed_methods, reason = "a test's own knob; no code under test sees it")]
pub fn cluster_only() -> Option<Vec<String>> {
    let names = std::env::var("PAYFOLD_CLUSTER_ONLY").ok()?;
    Some(names.split(',').map(|name| name.trim().to_owned()).collect())
}

/// Tells a test binary that was started by itself what to be.
pub const CHILD: &str = "PAYFOLD_FAULTS_CHILD";

/// What this process was started to be, if it was started by a test.
#[expect(clippy::disallowed_methods, reason = "how a test talks to the process it starts")]
pub fn child() -> Option<String> {
    std::env::var(CHILD).ok()
}

/// Whether this is CI, where nothing may be skipped.
#[expect(clippy::disallowed_methods, reason = "a test's own knob; no code under test sees it")]
pub fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| !ci.is_empty() && ci != "false")
}

/// Whether what needs real servers is to be left out.
#[expect(clippy::disallowed_methods, reason = "a test's own knob; no code under test sees it")]
pub fn embedded_only() -> bool {
    std::env::var("PAYFOLD_TEST_ENGINES").is_ok_and(|engines| engines == "embedded")
}

/// Brokers somebody runs for the tests.
#[expect(clippy::disallowed_methods, reason = "a test's own knob; no code under test sees it")]
pub fn test_kafka() -> Option<String> {
    std::env::var("PAYFOLD_TEST_KAFKA").ok()
}

/// Database nodes somebody runs for the tests.
#[expect(clippy::disallowed_methods, reason = "a test's own knob; no code under test sees it")]
pub fn test_cql() -> Option<String> {
    std::env::var("PAYFOLD_TEST_CQL").ok()
}
