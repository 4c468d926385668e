//! Owns the trial: a program over one data folder is put under load and killed, again and again,
//! then run once more until everything is folded, killed, and what it left is checked.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use payfold_engines::log::sqlite::SqliteLog;
use payfold_engines::log::{EventLog, Topic};
use payfold_engines::orders::OrderStore;
use payfold_engines::orders::sqlite::SqliteOrders;

use crate::faults::checker::{self, Report};
use crate::faults::child::{Child, Program};
use crate::faults::load::World;
use crate::support::dice::Dice;
use crate::support::pair::runtime;

/// One start in so many is killed before it listens.
const EARLY: u64 = 5;
/// How long folding may take once nothing more comes.
const SETTLE_MAX: Duration = Duration::from_secs(60);

/// What is tried.
pub struct Plan {
    pub program: Program,
    pub kills: u32,
    pub seed: u64,
    /// A kill comes so long after the load began, at least and at most.
    pub alive_ms: (u64, u64),
    /// How long a program that folds nothing any more is waited for.
    pub settle_max: Duration,
}

impl Plan {
    /// A trial of the program that is shipped.
    pub fn real(kills: u32, seed: u64) -> Self {
        Self { program: Program::Real, kills, seed, alive_ms: (0, 1_200), settle_max: SETTLE_MAX }
    }
}

/// Prints a line about a run, also about one that passes: straight to the output, because the
/// harness keeps the rest back.
pub fn print_line(line: &impl Display) {
    // There may be no reader.
    let _ = writeln!(io::stdout(), "{line}");
}

/// A data folder's parent on a real disk.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target folder takes a folder")
}

/// Runs a trial. Panics if the program ends by itself or answers what it must not.
pub fn run(plan: &Plan) -> Report {
    let folder = folder();
    let data = folder.path().join("data");
    let mut dice = Dice::new(plan.seed, 0);
    let (least, most) = plan.alive_ms;
    let mut world = None;
    for kill in 1..=u64::from(plan.kills) {
        let mut child = Child::spawn(plan.program.command(&data), &data);
        if world.is_some() && dice.roll(EARLY) == 0 {
            // The random moment is the experiment; nothing waits for anything here.
            thread::sleep(Duration::from_millis(dice.roll(150)));
            child.kill();
            continue;
        }
        let addresses = child.ready();
        let world = world.get_or_insert_with(|| Arc::new(World::of(&data)));
        let posting = world.press(&addresses, plan.seed.wrapping_add(kill));
        // The random moment is the experiment.
        thread::sleep(Duration::from_millis(least + dice.roll(most - least)));
        child.assert_runs();
        child.kill();
        for connection in posting {
            connection.join().expect("a connection ends without a panic");
        }
    }
    let world = world.expect("the first start of a trial is always ready");
    let mut last = Child::spawn(plan.program.command(&data), &data);
    last.ready();
    settle(&data, plan.settle_max);
    last.assert_runs();
    last.kill();
    let statuses = world.seen().statuses.clone();
    assert!(statuses.keys().all(|status| [200, 201].contains(status)), "answers: {statuses:?}");
    let report = checker::check(&data, &world.seen());
    assert!(report.records > 0, "a trial in which nothing was posted proves nothing");
    report
}

/// Waits until everything in the log is folded, or gives up: the checker complains then.
pub fn settle(data: &Path, settle_max: Duration) {
    let runtime = runtime();
    let begun = Instant::now();
    while begun.elapsed() < settle_max {
        let (folded, head) = runtime
            .block_on(async {
                let log = SqliteLog::open_read_only(data.join("log.db")).ok()?;
                let store = SqliteOrders::open_read_only(data.join("orders.db")).ok()?;
                let folded = store.progress().await.ok()??.folded.first()?.position.offset;
                let head = log.extent(Topic::Intake).await.ok()?.first()?.last;
                Some((folded, head))
            })
            .unwrap_or((0, 1));
        if folded == head {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
}
