//! Disks that take nothing: full, and read-only. The program answers 503 and never 500, loses no
//! 200, stays alive, and goes on by itself once the disk does.
//!
//! A file system can't be remounted read-only while a program has files on it open for writing, so
//! read-only is played with the immutable flag, which refuses writes through open descriptors too.

mod disk;

use std::path::Path;
use std::time::Duration;

use crate::faults::checker;
use crate::faults::child::{Addresses, Child, Program, errors, output_of};
use crate::faults::load::World;
use crate::faults::trial;
use crate::support::needs::{self, Need};
use crate::support::waits::until;
use crate::support::wire::{Answer, Connection, get_request};
use disk::{Immutable, Mount};

/// Room for the log's 16 MiB of write-ahead log and some more.
const DISK_MIB: u32 = 40;
/// How long a program may take to go on once the disk does; its pauses grow to 5 s.
const RESUME_MAX: Duration = Duration::from_secs(30);
/// How the projector's log line about an outage begins.
const RETRYING: &str = "trying again until it works";
/// More notices than the write-ahead log has room for.
const NOTICES_MAX: u64 = 20_000;
const LOG: [&str; 2] = ["log.db", "log.db-wal"];
const ORDERS: [&str; 2] = ["orders.db", "orders.db-wal"];

/// A program, and a partner that posts a new notice each time.
struct Bench {
    child: Child,
    world: World,
    public: Connection,
    addresses: Addresses,
    posted: u64,
}

impl Bench {
    fn over(data: &Path) -> Self {
        let mut child = Child::spawn(Program::Real.command(data), data);
        let addresses = child.ready();
        let world = World::of(data);
        let public = Connection::open(&addresses.public);
        Self { child, world, public, addresses, posted: 0 }
    }

    /// Posts one; it is taken, or refused as it has to be.
    fn post(&mut self) -> Answer {
        self.posted += 1;
        // A full disk breaks no connection.
        let answer = self.world.post_fresh(&mut self.public, self.posted);
        match answer.status {
            200 => assert!(answer.body.is_empty(), "{answer:?}"),
            503 => {
                assert_eq!(answer.code(), "storage_unavailable", "{answer:?}");
                let wait: u32 = answer.header("retry-after").expect("a time").parse().expect("s");
                assert!((1..=60).contains(&wait), "{answer:?}");
            }
            _ => panic!("neither taken nor to be sent again: {answer:?}"),
        }
        answer
    }

    /// Has an order made; it is made, or refused.
    fn open_order(&mut self) {
        let mut admin = Connection::open(&self.addresses.admin);
        self.world.open_order(&mut admin, 5_000).unwrap_or_else(|error| panic!("{error}"));
        let statuses = self.world.seen().statuses.clone();
        assert!(statuses.keys().all(|s| [200, 201, 503].contains(s)), "{statuses:?}");
    }

    fn probe(&self, path: &str) -> Answer {
        Connection::open(&self.addresses.admin).exchange(&get_request(path))
    }

    /// Posts until one is refused; everything before it was taken.
    fn post_until_refused(&mut self) {
        for _ in 0..NOTICES_MAX {
            if self.post().status == 503 {
                return;
            }
        }
        panic!("the disk takes {NOTICES_MAX} notices and is not full");
    }

    /// While the disk takes no writes, notices are refused, and the program is alive and, for 10 s,
    /// ready.
    fn endure(&mut self) {
        for _ in 0..40 {
            self.post();
        }
        self.open_order();
        let probes = ["/livez", "/readyz"].map(|path| self.probe(path).status);
        assert_eq!(probes, [200, 200]);
        self.child.assert_runs();
    }

    /// What `payfold check` says of a disk that takes nothing, and then what readiness does.
    fn assert_reported(&mut self, data: &Path) {
        let checked = output_of(&mut Program::check(data));
        let said = String::from_utf8_lossy(&checked.stdout);
        assert_eq!(checked.status.code(), Some(3), "{said}");
        assert!(said.contains("failed"), "{said}");
        let readiness = until("readiness to name role and cause", RESUME_MAX, || {
            self.post();
            Some(self.probe("/readyz")).filter(|ready| ready.status == 503)
        });
        assert!(readiness.text().starts_with("ingest can't store notices: "), "{readiness:?}");
    }

    /// Waits until a notice is taken again.
    fn resume(&mut self) {
        until("a 200 once the disk takes writes again", RESUME_MAX, || {
            (self.post().status == 200).then_some(())
        });
        self.open_order();
        for _ in 0..40 {
            assert_eq!(self.post().status, 200);
        }
    }

    /// Waits until all is folded, kills the program, and checks what it left: every 200, and the
    /// log as a whole.
    fn finish(mut self, data: &Path) {
        trial::settle(data, RESUME_MAX);
        self.child.assert_runs();
        self.child.kill();
        let report = checker::check(data, &self.world.seen());
        trial::print_line(&format!("{report}; answers {:?}", self.world.seen().statuses));
        report.assert_clean();
        let verified = output_of(&mut Program::verify(data));
        assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    }
}

/// How many log lines hold this.
fn lines(data: &Path, text: &str) -> usize {
    let log = std::fs::read_to_string(errors(data)).expect("log lines were written");
    log.lines().filter(|line| line.contains(text)).count()
}

/// An outage is reported when it begins and when it ends, once by each part that meets it.
fn assert_reported_once(data: &Path) {
    let log = std::fs::read_to_string(errors(data)).expect("log lines were written");
    let (begin, end) = ("the log takes no appends", "the log takes appends again");
    assert_eq!((lines(data, begin), lines(data, end)), (1, 1), "{log}");
    let (begun, ended) = (lines(data, RETRYING), lines(data, "storage is back"));
    assert!((1..=2).contains(&begun) && begun == ended, "begun {begun}, ended {ended}: {log}");
    // Other lines are few, apart from the sample of refusals, which is one line a second at the
    // most.
    let others = log.lines().filter(|line| !line.contains("\"ipn refused\"")).count();
    assert!(others < 12, "{log}");
}

#[test]
#[ignore = "nightly: disks"]
fn a_full_disk_is_answered_503_and_survived() {
    let folder = trial::folder();
    let data = folder.path().join("disk");
    let mount = Mount::tmpfs(&data, DISK_MIB);
    let Some(mount) = needs::require(Need::Root, mount) else { return };
    let mut bench = Bench::over(&data);
    bench.open_order();
    assert_eq!(bench.post().status, 200);
    let ballast = mount.fill();
    bench.post_until_refused();
    bench.endure();
    bench.assert_reported(&data);
    until("the projector to meet the full disk", RESUME_MAX, || {
        (lines(&data, RETRYING) > 0).then_some(())
    });
    std::fs::remove_file(ballast).expect("the ballast can be removed");
    bench.resume();
    trial::settle(&data, RESUME_MAX);
    assert_reported_once(&data);
    bench.finish(&data);
}

/// A kill on a full disk loses no acknowledged notice, and a start on the full disk is refused with
/// a fix.
#[test]
#[ignore = "nightly: disks"]
fn a_kill_on_a_full_disk_loses_nothing() {
    let folder = trial::folder();
    let data = folder.path().join("disk");
    let mount = Mount::tmpfs(&data, DISK_MIB);
    let Some(mount) = needs::require(Need::Root, mount) else { return };
    let mut bench = Bench::over(&data);
    bench.open_order();
    let ballast = mount.fill();
    bench.post_until_refused();
    let Bench { child, world, posted, .. } = bench;
    child.kill();
    let said = Child::spawn(Program::Real.command(&data), &data).refused();
    assert!(said.contains(" can't be written: ") && said.contains("  fix: "), "{said}");
    std::fs::remove_file(ballast).expect("the ballast can be removed");
    let mut bench = Bench { world, posted, ..Bench::over(&data) };
    assert_eq!(bench.post().status, 200);
    bench.finish(&data);
}

#[test]
#[ignore = "nightly: disks"]
fn a_read_only_disk_is_answered_503_and_survived() {
    let folder = trial::folder();
    let data = folder.path().join("data");
    if needs::require(Need::Root, Immutable::probe(folder.path())).is_none() {
        return;
    }
    let mut bench = Bench::over(&data);
    bench.open_order();
    assert_eq!(bench.post().status, 200);
    trial::settle(&data, RESUME_MAX);
    let orders = Immutable::of(&data, &ORDERS);
    assert_eq!(bench.post().status, 200, "the order store is none of ingest's business");
    until("the projector to meet the read-only disk", RESUME_MAX, || {
        (lines(&data, RETRYING) > 0).then_some(())
    });
    let log = Immutable::of(&data, &LOG);
    assert_eq!(bench.post().status, 503);
    bench.endure();
    bench.assert_reported(&data);
    drop((orders, log));
    bench.resume();
    trial::settle(&data, RESUME_MAX);
    assert_reported_once(&data);
    bench.finish(&data);
}

/// It would only refuse everything; and a connection opened for reading would stay so when the disk
/// does not.
#[test]
#[ignore = "nightly: disks"]
fn no_program_starts_on_a_read_only_disk_and_the_error_names_the_cause() {
    let folder = trial::folder();
    let data = folder.path().join("data");
    if needs::require(Need::Root, Immutable::probe(folder.path())).is_none() {
        return;
    }
    let mut first = Bench::over(&data);
    assert_eq!(first.post().status, 200);
    let Bench { child, world, .. } = first;
    child.kill();
    for file in ["log.db", "orders.db"] {
        let immutable = Immutable::of(&data, &[file]);
        let said = Child::spawn(Program::Real.command(&data), &data).refused();
        let named = format!("{file}: the file or its disk is read-only");
        assert!(said.contains(&named) && said.contains("  fix: "), "{said}");
        drop(immutable);
    }
    let mut bench = Bench { world, ..Bench::over(&data) };
    bench.posted = 100;
    assert_eq!(bench.post().status, 200);
    bench.finish(&data);
}
