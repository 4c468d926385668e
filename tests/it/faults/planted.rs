//! The checker itself is tested: bugs are planted between the roles and the real engines, the
//! program is killed as the real one is, and the checker has to complain of each in the right
//! words.

mod wrappers;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use payfold::{DataDir, Engines, Loaded, Need, OpenedSystem, Roles, RunningSystem, Settings};
use payfold_schemas::record_keys::RecordKeys;

use crate::faults::checker::Report;
use crate::faults::child::Program;
use crate::faults::trial::{self, Plan};
use crate::support::dice::Dice;
use crate::support::knobs;
use wrappers::{BentLog, BentStore};

/// What is wrong with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Nothing: the harness alone.
    None,
    /// An append resolves at once; its COMMIT comes later.
    AckEarly,
    /// Loaded rows have forgotten their facts, so that duplicates count again.
    NoDedup,
    /// The last message of a batch is dropped, those after it are not.
    LostTail,
    /// Events are published in the reverse order.
    EventsReversed,
    /// The position is committed before the rows up to it.
    PositionAhead,
}

impl Bug {
    const ALL: [Self; 6] = [
        Self::None,
        Self::AckEarly,
        Self::NoDedup,
        Self::LostTail,
        Self::EventsReversed,
        Self::PositionAhead,
    ];

    /// Its name, for the process it is planted in.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::AckEarly => "ack-early",
            Self::NoDedup => "no-dedup",
            Self::LostTail => "lost-tail",
            Self::EventsReversed => "events-reversed",
            Self::PositionAhead => "position-ahead",
        }
    }
}

/// The program with a bug, when a test starts this very binary as such; nothing otherwise.
#[test]
fn child() {
    let Some(what) = knobs::child() else { return };
    let (name, data) = what.split_once('@').expect("bug@folder");
    let bug = Bug::ALL.into_iter().find(|bug| bug.name() == name).expect("a bug's name");
    serve(bug, data.into());
}

/// Boots what `main` boots, over bent engines, and serves until it is killed.
fn serve(bug: Bug, data: PathBuf) {
    let loopback = || "127.0.0.1:0".to_owned();
    let settings = Settings {
        data,
        listen_public: loopback(),
        listen_admin: loopback(),
        ..Settings::default()
    };
    let loaded = Loaded { settings, file: None, ignored_variables: Vec::new() };
    actix_web::rt::System::new().block_on(async {
        let registry = payfold::registry().expect("a registry");
        DataDir::of(&loaded.settings).create().expect("the data folder can be made");
        let opened = payfold::open(&loaded.settings, &registry, Need::Both).await;
        let engines = opened.expect("engines open").expect("both");
        let store = Arc::clone(engines.base().expect("both"));
        let bent = Engines::new(
            Arc::new(BentLog::new(engines.log, bug)),
            Some(Arc::new(BentStore::new(store, bug))),
            RecordKeys::default(),
        );
        let opened =
            OpenedSystem::with_engines(&loaded, Some(bent), registry).expect("the keys open");
        let roles = Roles { ingest: true, projector: true, ..Roles::default() };
        let mut started = RunningSystem::start(opened, roles).await.expect("the server starts");
        panic!("a role ended: {:#}", started.role_failed().await);
    });
}

fn trial_of(bug: Bug) -> Report {
    let seed = knobs::seed().unwrap_or_else(Dice::any_seed);
    trial::print_line(&format!("PAYFOLD_SEED={seed} with {bug:?}"));
    // A program that skips records may never fold the last ones: it is not waited for long.
    let settle_max = Duration::from_secs(if bug == Bug::LostTail { 3 } else { 30 });
    // Long enough alive for the bug to show.
    let alive_ms = (150, 400);
    let plan = Plan { program: Program::Planted(bug), kills: 3, seed, alive_ms, settle_max };
    let report = trial::run(&plan);
    trial::print_line(&format!("{bug:?}: {report} {:?}", report.kinds()));
    report
}

/// Asserts that the checker complains of a bug with one of these words at least.
fn assert_caught(bug: Bug, words: &[&str]) {
    let kinds = trial_of(bug).kinds();
    assert!(words.iter().all(|word| kinds.contains_key(word)), "{bug:?} shows as {kinds:?} only");
}

#[test]
#[ignore = "nightly: kills"]
fn without_a_bug_the_checker_has_nothing_to_say() {
    trial_of(Bug::None).assert_clean();
}

#[test]
#[ignore = "nightly: kills"]
fn an_early_ack_is_caught() {
    assert_caught(Bug::AckEarly, &["lost"]);
}

#[test]
#[ignore = "nightly: kills"]
fn a_skipped_dedup_is_caught() {
    assert_caught(Bug::NoDedup, &["applied twice"]);
}

#[test]
#[ignore = "nightly: kills"]
fn a_dropped_tail_is_caught() {
    assert_caught(Bug::LostTail, &["row differs"]);
}

#[test]
#[ignore = "nightly: kills"]
fn events_out_of_order_are_caught() {
    assert_caught(Bug::EventsReversed, &["event order"]);
}

#[test]
#[ignore = "nightly: kills"]
fn a_position_ahead_of_its_rows_is_caught() {
    // The complaint depends on chance: the skipped rows may be an order's first ones or later ones,
    // and a later record of the order may repair the row, but not the events.
    let kinds = trial_of(Bug::PositionAhead).kinds();
    let words = ["row missing", "row differs", "event content", "event order", "event gap"];
    let caught = words.iter().any(|word| kinds.contains_key(word));
    assert!(caught, "a position ahead of its rows shows as {kinds:?} only");
}
