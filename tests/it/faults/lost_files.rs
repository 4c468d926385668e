//! Database files that are deleted, replaced or moved away under a running program: nothing that
//! comes after is acknowledged, readiness and the log say so at once, what was acknowledged can be
//! saved by the commands the log names, and the very file that comes back is used on.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::faults::checker;
use crate::faults::child::{Addresses, Child, Program, errors, output_of};
use crate::faults::load::World;
use crate::faults::trial;
use crate::support::waits::until;
use crate::support::wire::{Answer, Connection, get_request, payment_request};

/// Connections that post at the same time.
const CONNECTIONS: u64 = 6;
/// How long a condition is waited for.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Answers that show that a load went on.
const ANSWERS: usize = 200;

/// When a notice was sent, and its answer's status.
type Sent = (Instant, u16);

/// A partner that posts new notices until it is stopped.
struct Load {
    stop: Arc<AtomicBool>,
    posting: Vec<JoinHandle<Vec<Sent>>>,
}

impl Load {
    fn start(world: &Arc<World>, to: &Addresses, next: &Arc<AtomicU64>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let post = |_| {
            let (world, next) = (Arc::clone(world), Arc::clone(next));
            let (stop, public) = (Arc::clone(&stop), to.public.clone());
            thread::spawn(move || {
                let mut public = Connection::open(&public);
                let mut sent = Vec::new();
                while !stop.load(Ordering::SeqCst) {
                    let (begun, number) = (Instant::now(), next.fetch_add(1, Ordering::SeqCst));
                    let answer = world.post_fresh(&mut public, number);
                    sent.push((begun, answer.status));
                }
                sent
            })
        };
        let posting = (0..CONNECTIONS).map(post).collect();
        Self { stop, posting }
    }

    fn finish(self) -> Vec<Sent> {
        self.stop.store(true, Ordering::SeqCst);
        let all = self.posting.into_iter();
        all.flat_map(|one| one.join().expect("a connection ends without a panic")).collect()
    }
}

/// A program under load that loses its files while it runs.
struct Scene {
    folder: tempfile::TempDir,
    child: Child,
    addresses: Addresses,
    world: Arc<World>,
    next: Arc<AtomicU64>,
}

impl Scene {
    fn new() -> Self {
        let folder = trial::folder();
        let data = folder.path().join("data");
        let mut child = Child::spawn(Program::Real.command(&data), &data);
        let addresses = child.ready();
        let world = Arc::new(World::of(&data));
        Self { folder, child, addresses, world, next: Arc::default() }
    }

    fn data(&self) -> std::path::PathBuf {
        self.folder.path().join("data")
    }

    fn get(&self, path: &str) -> Answer {
        Connection::open(&self.addresses.admin).exchange(&get_request(path))
    }

    fn answered(&self, status: u16) -> u64 {
        self.world.seen().statuses.get(&status).copied().unwrap_or_default()
    }

    /// Waits for so many further answers of a status.
    fn wait_for(&self, status: u16) {
        let many = self.answered(status) + u64::try_from(ANSWERS).expect("a count");
        until("further answers", WAIT_MAX, || (self.answered(status) >= many).then_some(()));
    }

    /// Loses a file under load; checks every answer and every report of the loss.
    fn lose(&self, file: &Path, lose: impl FnOnce()) {
        let load = Load::start(&self.world, &self.addresses, &self.next);
        self.wait_for(200);
        lose();
        let lost = Instant::now();
        let ready = self.get("/readyz");
        assert_eq!(ready.status, 503, "{ready:?}");
        assert!(ready.text().contains("ingest can't store notices: "), "{ready:?}");
        assert!(ready.text().contains(&file.display().to_string()), "{ready:?}");
        self.wait_for(503);
        let sent = load.finish();
        let after: Vec<u16> =
            sent.iter().filter(|(at, _)| *at > lost).map(|(_, status)| *status).collect();
        assert!(after.len() >= ANSWERS / 2, "{} answers", after.len());
        assert!(after.iter().all(|status| *status == 503), "acknowledged into nowhere: {after:?}");
        assert_eq!(self.get("/livez").status, 200, "a restart is the last thing that helps");
    }

    /// The one line that says what is lost and what to do.
    fn report(&self) -> String {
        let log = fs::read_to_string(errors(&self.data())).expect("log lines were written");
        let is_it = |line: &&str| line.contains("\"ERROR\"") && line.contains("nothing is stored");
        let lines: Vec<&str> = log.lines().filter(is_it).collect();
        assert_eq!(lines.len(), 1, "{log}");
        lines[0].to_owned()
    }
}

/// Starts the program again, and checks that it has all that was acknowledged.
fn assert_has_all(data: &Path, world: &World) {
    let mut child = Child::spawn(Program::Real.command(data), data);
    child.ready();
    trial::settle(data, WAIT_MAX);
    child.assert_runs();
    child.kill();
    checker::check(data, &world.seen()).assert_clean();
}

#[test]
fn a_deleted_log_acknowledges_nothing_more_and_can_be_saved() {
    let scene = Scene::new();
    let data = scene.data();
    let log = data.join("log.db");
    scene.lose(&log, || {
        for name in ["log.db", "log.db-wal", "log.db-shm"] {
            fs::remove_file(data.join(name)).expect("it is there");
        }
    });
    assert!(!log.exists(), "a new file would be an empty log");
    let report = scene.report();
    // What a person copies out of the line.
    let commands = report.split("save it first: as root: ").nth(1).expect("how to save it");
    let commands = commands.split("; then prove").next().expect("what comes then");
    let saved = output_of(Command::new("sh").args(["-c", commands]));
    assert!(saved.status.success(), "{commands}: {saved:?}");
    // Before anything is stopped.
    let copy = format!("sqlite:{}", data.join("log.db.saved").display());
    let proven = output_of(Program::verify(&data).env("PAYFOLD_LOG", copy));
    assert!(proven.status.success(), "{proven:?}");
    let Scene { folder, child, world, .. } = scene;
    child.stop();
    assert!(!log.exists());
    for suffix in ["", "-wal"] {
        let saved = data.join(format!("log.db.saved{suffix}"));
        fs::rename(saved, data.join(format!("log.db{suffix}"))).expect("it was saved");
    }
    assert_has_all(&data, &world);
    drop(folder);
}

#[test]
fn a_replaced_log_takes_nothing_and_the_very_file_is_used_on() {
    let scene = Scene::new();
    let data = scene.data();
    let (log, away) = (data.join("log.db"), data.join("away.db"));
    let other = data.join("other.db");
    fs::write(&other, b"").expect("the folder can be written");
    scene.lose(&log, || {
        // In one step: a notice that finds nothing in between would report a deleted file.
        fs::hard_link(&log, &away).expect("it is there");
        fs::rename(&other, &log).expect("the folder can be written");
    });
    let report = scene.report();
    assert!(report.contains("is another file than the one in use"), "{report}");
    assert_eq!(log.metadata().expect("it is there").len(), 0, "nothing of ours goes there");
    let checked = output_of(&mut Program::check(&data));
    let said = String::from_utf8_lossy(&checked.stdout);
    assert_eq!(checked.status.code(), Some(3), "{said}");
    assert!(said.contains("ingest can't store notices"), "{said}");

    fs::rename(&away, &log).expect("it comes back");
    // What is stored ends a time of failures, which counts for a while.
    let mut public = Connection::open(&scene.addresses.public);
    let number = scene.next.fetch_add(1, Ordering::SeqCst);
    let stored = scene.world.post_fresh(&mut public, number);
    assert_eq!(stored.status, 200, "{stored:?}");
    assert_eq!(scene.get("/readyz").status, 200, "at once");
    let load = Load::start(&scene.world, &scene.addresses, &scene.next);
    scene.wait_for(200);
    let sent = load.finish();
    assert!(sent.iter().all(|(_, status)| *status == 200));
    trial::settle(&data, WAIT_MAX);
    let Scene { folder, mut child, world, .. } = scene;
    child.assert_runs();
    child.kill();
    checker::check(&data, &world.seen()).assert_clean();
    drop(folder);
}

#[test]
fn a_replay_is_not_answered_from_memory_once_the_log_is_lost() {
    const A_WEEK_AGO: i64 = -7 * 24 * 3_600;
    for (sent, status) in [(0, 200), (A_WEEK_AGO, 403)] {
        let scene = Scene::new();
        let mut public = Connection::open(&scene.addresses.public);
        let notice = scene.world.sign_fresh(0, sent);
        for _ in 0..2 {
            let answer = scene.world.post(&mut public, &notice);
            assert_eq!(answer.status, status, "{answer:?}");
        }
        for name in ["log.db", "log.db-wal", "log.db-shm"] {
            fs::remove_file(scene.data().join(name)).expect("it is there");
        }
        let answer = scene.world.post(&mut public, &notice);
        assert_eq!(answer.status, 503, "the record it was stored in is lost: {answer:?}");
    }
}

/// Asks for a payment under an Idempotency-Key, as the demo's shop.
fn create(data: &Path, addresses: &Addresses, key: &str) -> Answer {
    let token = fs::read_to_string(data.join("demo.key")).expect("the demo made it");
    let payment = json!({
        "partner": "sandbox", "merchantCode": "DEMO", "reference": key, "amount": 1_000,
        "currency": "VND", "description": "One",
    });
    Connection::open(&addresses.shop).exchange(&payment_request(token.trim(), key, &payment))
}

#[test]
fn lost_claims_refuse_payments_and_no_notice() {
    let scene = Scene::new();
    let data = scene.data();
    let create = |key: &str| create(&data, &scene.addresses, key);
    let first = create("a");
    assert_eq!(first.status, 201, "{first:?}");
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(data.join(format!("orders.claims.db{suffix}"))).expect("it is there");
    }
    for key in ["a", "b"] {
        let refused = create(key);
        assert!(refused.code() == "storage_unavailable" || key == "a", "{refused:?}");
        assert!(refused.status == 503 || key == "a", "{refused:?}");
    }
    let ready = scene.get("/readyz");
    assert_eq!(ready.status, 503, "{ready:?}");
    assert!(ready.text().starts_with("checkout can't store payments: "), "{ready:?}");
    assert_eq!(scene.get("/readyz/checkout").status, 503);
    assert_eq!(scene.get("/readyz/ingest").status, 200, "notices don't need claims");
    let mut public = Connection::open(&scene.addresses.public);
    assert_eq!(scene.world.post_fresh(&mut public, 0).status, 200);
    assert!(!data.join("orders.claims.db").exists(), "in a new file every key would be new");
    assert!(scene.report().contains("orders.claims.db"));
}

#[test]
fn claims_survive_a_stop_after_their_write_ahead_log_is_deleted() {
    let Scene { folder, child, addresses, .. } = Scene::new();
    let data = folder.path().join("data");
    let first = create(&data, &addresses, "a");
    assert_eq!(first.status, 201, "{first:?}");
    fs::remove_file(data.join("orders.claims.db-wal")).expect("it is there");
    // The program does not notice the loss before the end.
    child.stop();
    let mut child = Child::spawn(Program::Real.command(&data), &data);
    let addresses = child.ready();
    let again = create(&data, &addresses, "a");
    let [first, again] = [first, again].map(|answer| answer.json()["orderId"].clone());
    assert!(first.is_string() && first == again, "a second payment: {first} and {again}");
    child.kill();
}

#[test]
fn a_stop_waits_until_a_lost_write_ahead_log_is_written_into_the_log() {
    let scene = Scene::new();
    let data = scene.data();
    let mut public = Connection::open(&scene.addresses.public);
    assert_eq!(scene.world.post_fresh(&mut public, 0).status, 200);
    // A reader of an old snapshot keeps later records from being written into the database.
    let reader = rusqlite::Connection::open(data.join("log.db")).expect("it is there");
    reader.execute_batch("BEGIN; SELECT count(*) FROM intake").expect("it holds a snapshot");
    assert_eq!(scene.world.post_fresh(&mut public, 1).status, 200);
    fs::remove_file(data.join("log.db-wal")).expect("it is there");
    let Scene { folder, mut child, world, .. } = scene;
    child.terminate();
    let said = until("the program to say why it goes on", WAIT_MAX, || {
        child.assert_runs();
        let log = fs::read_to_string(errors(&data)).expect("log lines were written");
        log.lines().find(|line| line.contains("does not end")).map(str::to_owned)
    });
    assert!(said.contains("\"ERROR\"") && said.contains("cp -p /proc/"), "{said}");
    drop(reader);
    child.ended();
    assert_has_all(&data, &world);
    drop(folder);
}
