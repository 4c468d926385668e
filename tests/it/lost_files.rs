//! Owns the proof that a system never starts on the rest when its log or its claims are lost,
//! replaced or older than the rest. `run` and `check --connect` end with 3, name the file and how
//! to restore it, and make no file.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;

use payfold_schemas::record::{Parts, Record};
use rusqlite::Connection;

use crate::support::pair::Inside;
use crate::support::system::{Home, RUN, System, alone};

const LOG: &str = "log.db";
const ORDERS: &str = "orders.db";
const CLAIMS: &str = "orders.claims.db";
const END_MAX: Duration = Duration::from_secs(20);

/// A demo that a shop has made payments in, stopped.
fn paid(payments: u32) -> Rc<Home> {
    let system = System::demo();
    pay(&system, payments);
    system.stop().0
}

fn pay(system: &System, payments: u32) {
    system.payfold(&["demo", "pay", "--count", &payments.to_string()]).ok();
    // Its create request is made without a shop, and has no claim.
    system.payfold(&["demo", "ipn"]).ok();
    Inside::of(system.home()).settle();
}

/// The files of one database in a folder.
fn files(folder: &Path, name: &str) -> Vec<PathBuf> {
    ["", "-wal", "-shm"].iter().map(|suffix| folder.join(format!("{name}{suffix}"))).collect()
}

/// Takes a database out of the data folder, into a folder beside it.
fn take_out(home: &Home, name: &str, into: &str) -> PathBuf {
    let folder = home.path().join(into);
    std::fs::create_dir_all(&folder).expect("the home can be written");
    for (from, to) in files(&home.data(), name).iter().zip(files(&folder, name)) {
        if from.exists() {
            std::fs::rename(from, to).expect("one file system");
        }
    }
    folder
}

/// Puts a database of another folder into the data folder, in the place of what is there.
fn put(home: &Home, folder: &Path, name: &str) {
    for (from, to) in files(folder, name).iter().zip(files(&home.data(), name)) {
        let _ = std::fs::remove_file(&to);
        if from.exists() {
            std::fs::copy(from, to).expect("the home can be written");
        }
    }
}

fn databases(home: &Home) -> Vec<String> {
    let found = std::fs::read_dir(home.data()).expect("a data folder");
    let names = found.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    let mut names: Vec<_> = names.filter(|name| name.ends_with(".db")).collect();
    names.sort();
    names
}

/// Neither `run` nor `check --connect` accepts the folder. Both say these words, neither advises a
/// step that loses data, and no database is made.
fn refused(home: &Home, words: &[&str]) {
    let before = databases(home);
    let started = home.ends(&RUN, &[], END_MAX);
    let checked = home.payfold(&["check", "--connect"]);
    for (who, done, text) in
        [("run", &started, &started.stderr), ("check", &checked, &checked.stdout)]
    {
        assert_eq!(done.code(), 3, "{who}: {done:?}");
        for word in words {
            assert!(text.contains(word), "{who} does not say {word:?}: {done:?}");
        }
        for advice in ["move the order store away", "it will be rebuilt", "payfold run` once"] {
            assert!(!text.contains(advice), "{who} says {advice:?}: {done:?}");
        }
    }
    assert_eq!(databases(home), before, "nothing is made");
}

/// The folder is accepted, and what was in it is there.
fn accepted(home: &Rc<Home>) {
    let system = home.boot();
    assert!(system.stop().1.success());
    home.payfold(&["check", "--connect"]).ok();
    home.payfold(&["log", "verify"]).ok();
}

#[test]
fn a_missing_log_is_never_made_anew() {
    let home = paid(2);
    let lost = take_out(&home, LOG, "lost");
    let log = home.file("data/log.db");
    let words = [log.as_str(), "restore log.db", "payfold log restore"];
    refused(&home, &words);
    let unconnected = home.payfold(&["check"]);
    assert_eq!(unconnected.code(), 3, "{unconnected:?}");
    assert!(unconnected.stdout.contains(&log), "{unconnected:?}");
    let without_orders = take_out(&home, ORDERS, "orders");
    refused(&home, &words);
    put(&home, &without_orders, ORDERS);
    let without_claims = take_out(&home, CLAIMS, "claims");
    refused(&home, &words);
    put(&home, &without_claims, CLAIMS);
    // An empty file is no log either.
    std::fs::write(home.data().join(LOG), b"").expect("the home can be written");
    refused(&home, &words);

    put(&home, &lost, LOG);
    accepted(&home);
}

#[test]
fn another_log_is_refused_and_no_store_is_given_up_for_it() {
    let (home, other) = (paid(2), paid(1));
    let lost = take_out(&home, LOG, "lost");
    put(&home, &other.data(), LOG);
    refused(&home, &["another log", "restore"]);
    take_out(&home, ORDERS, "orders");
    refused(&home, &["another log", "restore"]);

    // With its own log the store that was taken away is folded anew.
    put(&home, &lost, LOG);
    accepted(&home);
}

#[test]
fn lost_claims_are_noticed_until_their_loss_is_accepted() {
    let home = paid(2);
    let lost = take_out(&home, CLAIMS, "lost");
    let claims = home.file("data/orders.claims.db");
    let words = [claims.as_str(), "restore", "second payment"];
    refused(&home, &words);
    // Neither without the order store.
    take_out(&home, ORDERS, "orders");
    refused(&home, &words);
    // An emptied file is not what a first start left.
    std::fs::write(&claims, b"").expect("the home can be written");
    refused(&home, &["emptied", "restore", "second payment"]);
    put(&home, &lost, CLAIMS);
    accepted(&home);

    take_out(&home, CLAIMS, "lost-for-good");
    let printed = home.payfold(&["log", "accept-lost-claims"]).ok();
    assert!(
        printed.contains("2 of the newest") && printed.contains("Nothing was changed"),
        "{printed}"
    );
    refused(&home, &words);
    home.payfold(&["log", "accept-lost-claims", "--yes"]).ok();
    let system = home.boot();
    pay(&system, 1);
    drop(system.stop());
    accepted(&home);
    // What was claimed since is looked for.
    take_out(&home, CLAIMS, "lost-again");
    refused(&home, &words);
}

#[test]
fn an_older_copy_of_the_claims_is_noticed() {
    let system = System::demo();
    pay(&system, 2);
    let home = Rc::clone(system.home());
    let backup = home.file("backup");
    home.payfold(&["log", "backup", &backup]).ok();
    pay(&system, 1);
    drop(system.stop());
    let newest = take_out(&home, CLAIMS, "newest");
    put(&home, Path::new(&backup), CLAIMS);
    refused(&home, &["older copy", "restore", "second payment"]);
    put(&home, &newest, CLAIMS);
    accepted(&home);

    // Claims that are newer than a restored log do no harm. Those that are newer by little may be
    // of requests in flight, the others show that the log has lost its end.
    let restored = Home::with_keys_of(&home);
    let claims = home.file("newest/orders.claims.db");
    restored.payfold(&["log", "restore", &backup, "--claims", &claims]).ok();
    accepted(&restored);
    let lost = "it has lost its end";
    assert!(!restored.log().contains(lost), "{}", restored.log());
    add_later_claim(&restored);
    accepted(&restored);
    assert!(restored.log().contains(lost), "{}", restored.log());
}

/// Copies the claim of a create request, as of a request two minutes later.
fn add_later_claim(home: &Home) {
    let claims = Connection::open(home.data().join(CLAIMS)).expect("a database");
    let mut all = claims.prepare("SELECT record FROM claims").expect("the table is there");
    let mut all = all.query_map([], |row| row.get::<_, Vec<u8>>(0)).expect("it is read");
    let mut record = all.find_map(|one| Record::decode(&one.ok()?).ok()).expect("a create request");
    let Parts::Fact(fact) = &mut record.parts else { unreachable!("a create request") };
    fact.received_at = fact.received_at.plus_ms(120_000);
    let record = record.encode();
    claims.execute("INSERT INTO claims VALUES ('later', ?)", [record]).expect("it is written");
    let sql = "INSERT INTO latest SELECT max(number) + 1, 'later' FROM latest";
    claims.execute(sql, []).expect("it is written");
}

/// What makes a log and claims those of before claims were paired.
const UNPAIRED: &str = "DELETE FROM meta WHERE name = 'claims_since'";
const UNMARKED: &str = "DROP TABLE meta; DROP TABLE latest";

fn change(home: &Home, name: &str, sql: &str) {
    let database = Connection::open(home.data().join(name)).expect("a database");
    database.execute_batch(sql).expect("ours");
}

#[test]
fn a_folder_of_before_claims_were_paired_is_adopted() {
    let home = paid(2);
    change(&home, LOG, UNPAIRED);
    change(&home, CLAIMS, UNMARKED);
    let old = take_out(&home, CLAIMS, "old");
    put(&home, &old, CLAIMS);
    home.payfold(&["check", "--connect"]).ok();
    let system = home.boot();
    pay(&system, 1);
    drop(system.stop());
    accepted(&home);
    put(&home, &old, CLAIMS);
    refused(&home, &["older copy"]);
}

#[test]
fn a_file_that_may_not_be_read_is_not_called_missing() {
    let home = paid(1);
    let data = home.data();
    let stranger = 65_534;
    let allow = |path: &Path, mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("it is ours");
    };
    // The other user has to reach the program and the folder.
    allow(home.path(), 0o755);
    let program = home.path().join("payfold");
    std::fs::copy(env!("CARGO_BIN_EXE_payfold"), &program).expect("it can be copied");
    let ask = |arguments: &[&str]| {
        let mut command = std::process::Command::new(&program);
        command.args(arguments).arg("--data").arg(&data).current_dir("/").env_clear();
        if rustix::process::geteuid().is_root() {
            command.uid(stranger).gid(stranger);
        }
        command.stdin(Stdio::null());
        let done = alone(|| command.output()).expect("the program can be started");
        format!(
            "{}{}",
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        )
    };
    let listings: [&[&str]; 6] = [
        &["order", "list"],
        &["log", "stats"],
        &["log", "verify"],
        &["quarantine", "list"],
        &["key", "list"],
        &["check", "--connect"],
    ];
    let hidden: [(&Path, &Path); 2] = [(&data, &data), (&data, &data.join(LOG))];
    for (folder, closed) in hidden {
        allow(folder, 0o755);
        allow(closed, 0o000);
        for arguments in listings {
            let said = ask(arguments);
            let is_of_keys = arguments[0] == "key" && closed != folder;
            assert!(is_of_keys || said.contains("permission denied"), "{arguments:?}: {said}");
            assert!(!said.contains("does not exist"), "{arguments:?}: {said}");
            assert!(!said.contains("payfold run"), "{arguments:?}: {said}");
        }
        allow(closed, 0o700);
    }
}

#[test]
fn claims_of_before_are_not_paired_with_another_log() {
    let (home, other) = (paid(2), paid(1));
    for home in [&home, &other] {
        change(home, LOG, UNPAIRED);
    }
    change(&home, CLAIMS, UNMARKED);
    let own = take_out(&home, LOG, "own");
    put(&home, &other.data(), LOG);
    refused(&home, &["another log", "restore"]);
    put(&home, &own, LOG);
    accepted(&home);
}

/// The command of the image's health check, from its Dockerfile.
fn health_check() -> Vec<String> {
    let dockerfile = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/Dockerfile");
    let text = std::fs::read_to_string(dockerfile).expect("it is there");
    let line = text.lines().find(|line| line.starts_with("HEALTHCHECK")).expect("it has one");
    let (_, command) = line.split_once(" CMD ").expect("a command");
    serde_json::from_str(command).expect("its exec form is JSON")
}

#[test]
fn a_container_with_a_lost_log_is_not_replaced() {
    let system = System::demo();
    let command = health_check();
    let arguments: Vec<&str> = command.iter().skip(1).map(String::as_str).collect();
    system.payfold(&arguments).ok();
    for file in files(&system.home().data(), LOG) {
        std::fs::remove_file(file).expect("it is there");
    }
    assert_eq!(system.get("/readyz").status, 503, "it can store nothing");
    system.payfold(&arguments).ok();
    assert_eq!(system.payfold(&["check", "--ready"]).code(), 1);
}
