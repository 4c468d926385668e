//! Owns the proof that today's program folds yesterday's log to the byte. Each log of an earlier
//! build is folded anew here, and must give the state digest of that time and publish the same
//! events, and the notices in it are verified as its build verified them. Fixtures are only added:
//! `tests/fixtures/logs/VERSION-N/log.db` as its build left it, with its claims, and what its
//! `payfold log verify --state` said; where a decision has changed a rule since, what a rebuild
//! says today is in `rebuilt.txt`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use payfold_engines::log::Topic;
use payfold_schemas::record::{ENVELOPE_VERSION, Record};
use rusqlite::{Connection, params};

use crate::support::macs::sign_anew;
use crate::support::pair::Inside;
use crate::support::system::{Home, System};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/logs").join(name)
}

fn fixtures() -> Vec<PathBuf> {
    let found = std::fs::read_dir(fixture("")).expect("the fixtures are there");
    let mut found: Vec<_> = found.map(|entry| entry.expect("it can be read").path()).collect();
    found.sort();
    found
}

/// A folder with the log of a fixture, and its claims if it had any.
fn home_of(fixture: &Path) -> Rc<Home> {
    let home = Home::new();
    std::fs::create_dir(home.data()).expect("it is new");
    for name in
        ["log.db", "orders.claims.db"].into_iter().filter(|name| fixture.join(name).exists())
    {
        std::fs::copy(fixture.join(name), home.data().join(name)).expect("a file");
    }
    home
}

/// Members of events that were renamed before the first release, as JSON: the name in a fixture,
/// and the name today.
const RENAMED: [(&str, &str); 1] = [("\"generation\":", "\"epoch\":")];

/// Key, id, time and value of an event: all but its position.
type PublishedEvent = (String, String, String, Vec<u8>);

fn published_events(home: &Home) -> Vec<PublishedEvent> {
    let log = Connection::open(home.data().join("log.db")).expect("a log");
    let sql = "SELECT key, id, time, value FROM orders ORDER BY position";
    let mut rows = log.prepare(sql).expect("the topic");
    let rows = rows
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .expect("rows");
    rows.map(|row| row.expect("a row")).collect()
}

/// An event of a fixture with the member names of today.
fn with_renamed_members((key, id, time, value): PublishedEvent) -> PublishedEvent {
    let text = String::from_utf8(value).expect("an event is JSON");
    let text = RENAMED.iter().fold(text, |text, (old, new)| text.replace(old, new));
    (key, id, time, text.into_bytes())
}

#[test]
fn every_log_of_an_earlier_build_is_folded_to_the_byte() {
    let all = fixtures();
    assert!(!all.is_empty(), "there is a log of an earlier build");
    for fixture in all {
        let home = home_of(&fixture);
        let before = published_events(&home);
        let system = home.boot_as("ingest,projector", &[]);
        Inside::of(&home).settle();
        drop(system);
        assert!(home.log().contains("created the keys with which roles prove"), "{}", home.log());
        let shown = home.payfold(&["log", "verify", "--state"]).ok();
        let known = ["rebuilt.txt", "state.txt"].map(|name| fixture.join(name));
        let known = known.iter().find(|path| path.exists()).expect("a state");
        let known = std::fs::read_to_string(known).expect("it can be read");
        let of = |text: &str| -> BTreeMap<String, String> {
            let lines = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
            lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
        };
        let (shown, known) = (of(&shown), of(&known));
        for name in ["stateDigest", "orders"] {
            assert_eq!(shown[name], known[name], "{name} of {}", fixture.display());
        }
        // Folded from the first record, everything was published once more: the same events, to the
        // byte.
        let after = published_events(&home);
        assert_eq!(after[..before.len()], before[..], "published events are not touched");
        let expected: Vec<_> = before.into_iter().map(with_renamed_members).collect();
        assert_eq!(after[expected.len()..], expected[..], "{}", fixture.display());
    }
}

/// The partners of fixture 0.1.0-2, one for each profile that its build shipped, and the arguments
/// of `key add` that name their accounts' constants.
const SIGNERS: [(&str, &[&str]); 7] = [
    ("acme", &[]),
    ("sandbox", &[]),
    ("momo", &["--constant", "accessKey=F8BBA842ECF85"]),
    ("zalopay", &[]),
    ("midtrans", &[]),
    ("square", &["--constant", "notification_url=https://example.com/webhook"]),
    ("razorpay", &[]),
];

#[test]
fn notices_that_an_earlier_build_stored_are_verified_by_its_profiles() {
    let home = home_of(&fixture("0.1.0-2"));
    let profile = |partner: &str| match partner {
        "acme" => "[partners.acme]\nprofile = \"default\"\n".to_owned(),
        _ => format!("[partners.{partner}]\nprofile = \"{partner}\"\n"),
    };
    let settings: String = SIGNERS.iter().map(|(partner, _)| profile(partner)).collect();
    home.write("payfold.toml", &settings);
    for (partner, constants) in SIGNERS {
        let secret = format!("a published test key of {partner}, worth nothing");
        let from = "2026-11-01T00:00:00Z";
        let key = ["--merchant", "SHOP", "--key-id", "k1", "--valid-from", from];
        home.add_key(partner, &secret, &[&key[..], constants].concat());
    }
    drop(home.boot_as("ingest,projector", &[]));
    let verified = home.payfold(&["log", "verify", "--signatures"]);
    assert_eq!(verified.code(), 0, "{verified:?}");
    assert!(verified.stderr.starts_with("26 notices: 26 verified, 0 of"), "{verified:?}");
}

#[test]
fn a_record_of_a_newer_program_stops_its_readers_and_the_error_names_it() {
    let system = System::demo();
    let (home, _) = system.stop();
    let of_fixture = Connection::open(fixture("0.1.0-1").join("log.db")).expect("a log");
    let sql = "SELECT key, value FROM intake WHERE position = 1";
    let (key, mut record): (String, Vec<u8>) =
        of_fixture.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("a record");
    Record::decode(&record).expect("this program reads it");
    record[0] = ENVELOPE_VERSION + 1;
    let log = Connection::open(home.data().join("log.db")).expect("a log");
    log.execute("INSERT INTO intake (key, value) VALUES (?, ?)", params![key, record])
        .expect("ours");
    drop(log);
    sign_anew(&home, Topic::Intake);
    let done = home.ends(&["run"], &[], std::time::Duration::from_secs(30));
    done.fails(&["0-1", "version 2", "reads up to 1", "upgrade readers before writers"]);
    let checked = home.payfold(&["check", "--connect"]);
    assert_eq!(checked.code(), 1, "{checked:?}");
    assert!(checked.stdout.contains("upgrade readers before writers"), "{checked:?}");
}
