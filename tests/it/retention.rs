//! Owns the proof of sealed notices: bytes are sealed where that is asked for, only a person that
//! gives a reason reads them, and they are gone for good once the month's key is. Chain, fold and
//! state stay what they are meanwhile.

use std::rc::Rc;
use std::time::Duration;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::Topic;
use payfold_partners::secret::Secret;
use payfold_partners::vault::Vault;
use payfold_schemas::month::Month;
use payfold_schemas::record::Record;
use rusqlite::{Connection, params};
use serde_json::Value;

use crate::support::demo::Demo;
use crate::support::macs::sign_anew;
use crate::support::notice::Notice;
use crate::support::system::{Done, Home, System, alone};
use crate::support::waits::{early_in_hour, until};

const ACCOUNT: &str = "sandbox/DEMO";
const PAYER: &str = "An Nguyen of Hue";
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A month that is over.
pub(crate) fn past() -> Month {
    let now = SystemClock.now();
    let of = |days: i64| Month::of(now.plus_ms(-days * 24 * 3_600_000));
    if of(40).next() == Month::of(now) { of(40) } else { of(25) }
}

/// A demo with an account that has a key of bodies for each of these months.
fn sealed(months: &[Month]) -> Rc<Home> {
    let (home, _) = System::demo().stop();
    add_keys(&home, months);
    home
}

/// Gives the first account a key of bodies for each of these months.
pub(crate) fn add_keys(home: &Home, months: &[Month]) {
    let (vault, identity) = (home.data().join("vault.age"), home.data().join("vault.key"));
    alone(|| {
        let mut vault = Vault::open(&vault, &identity).expect("the demo made it");
        let account = &mut vault.document_mut().accounts[0];
        for (byte, month) in (7..).zip(months) {
            let secret = Secret::from_bytes(vec![byte; 32]);
            account.add_body_key(*month, (month.start(), secret));
        }
        vault.save().expect("no other process has it open");
    });
}

fn notice(order: &str) -> Notice {
    Notice::paid("DEMO", order, order).with_text("payerName", PAYER)
}

/// Posts a notice, and waits until it is folded.
fn take(demo: &Demo, order: &str) {
    demo.take(&notice(order).signed(&demo.secret));
    demo.catch_up();
}

/// Takes new notices until the key of these is this one.
fn take_until_sealed_with(demo: &Demo, key: &str) {
    until(&format!("the running system seals with {key}"), WAIT_MAX, || {
        take(demo, &format!("o-{}", SystemClock.now().unix_nanos()));
        (key_ids(demo.system.home(), "intake").last()? == key).then_some(())
    });
}

/// Every record of a topic.
pub(crate) fn records(home: &Home, topic: &str) -> Vec<(i64, Vec<u8>)> {
    let log = Connection::open(home.data().join("log.db")).expect("a log");
    let sql = format!("SELECT position, value FROM {topic} ORDER BY position");
    let mut rows = log.prepare(&sql).expect("a topic");
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows");
    rows.map(|row| row.expect("a row")).collect()
}

fn key_ids(home: &Home, topic: &str) -> Vec<String> {
    let id = |value: &[u8]| {
        let record = Record::decode(value).expect("it is whole");
        record.raw_key_id.map_or_else(|| "-".to_owned(), |id| id.to_string())
    };
    records(home, topic).iter().map(|(_, value)| id(value)).collect()
}

fn is_anywhere(home: &Home, text: &str) -> bool {
    let holds = |value: &[u8]| value.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    let all = ["intake", "quarantine", "orders", "findings"];
    all.iter().any(|topic| records(home, topic).iter().any(|(_, value)| holds(value)))
}

fn signatures(home: &Home) -> (i32, Vec<String>, String) {
    let done = home.payfold(&["log", "verify", "--signatures", "--output", "json"]);
    let row = |row: &Value| {
        let detail = row["detail"].as_str().expect("a text");
        format!("{} {} {detail}", row["result"].as_str().expect("a word"), row["notices"])
    };
    (done.code(), done.rows().iter().map(row).collect(), done.stderr)
}

fn retention(home: &Home, arguments: &[&str]) -> Done {
    home.payfold(&[&["retention"], arguments].concat())
}

fn state(home: &Home) -> Value {
    home.payfold(&["log", "verify", "--state", "--output", "json"]).json()
}

#[test]
fn without_a_key_bytes_are_stored_as_they_came() {
    early_in_hour(Duration::from_secs(60));
    let demo = Demo::of(System::demo().stop().0.boot());
    take(&demo, "o-1");
    let home = demo.system.home();
    assert_eq!(key_ids(home, "intake"), ["-"]);
    assert!(is_anywhere(home, PAYER));
    let printed = retention(home, &["start", "--account", ACCOUNT]).ok();
    let month = Month::of(SystemClock.now());
    assert!(printed.contains(&format!("body-{month} body-{}", month.next())), "{printed}");
    assert!(retention(home, &["start", "--all"]).ok().contains("sealed already"));
    take_until_sealed_with(&demo, &format!("body-{month}"));
    let erase = ["erase", "--account", ACCOUNT, "--month", &month.to_string(), "--dry-run"];
    retention(home, &erase).fails(&["still seals notices"]);
    retention(home, &["stop", "--all"]).ok();
    take_until_sealed_with(&demo, "-");
    let started = retention(home, &["start", "--account", ACCOUNT]).ok();
    assert!(started.contains(&format!("sealed from now on: body-{month}-2")), "{started}");
    take_until_sealed_with(&demo, &format!("body-{month}-2"));
    let (code, rows, said) = signatures(home);
    assert_eq!((code, rows.len()), (0, 0), "{rows:?} {said}");
}

#[test]
fn what_is_sealed_is_read_with_a_reason_and_gone_with_its_key() {
    early_in_hour(Duration::from_secs(60));
    // With the next month's key there, the running system makes none.
    let next = Month::of(SystemClock.now()).next();
    let demo = Demo::of(sealed(&[past(), next]).boot());
    let home = Rc::clone(demo.system.home());
    let old_key = format!("body-{}", past());
    take(&demo, "o-1");
    let failed = notice("o-2").with_text("status", "FAILED").without("paidAt").sent(-3_600);
    let refused = demo.system.post_ipn(&failed.signed(&demo.secret));
    assert_eq!(refused.code(), "timestamp_out_of_window", "{}", refused.text());
    assert_eq!(key_ids(&home, "quarantine"), [old_key.as_str()]);
    assert!(!is_anywhere(&home, PAYER), "it is sealed");

    // Judged again and released as it is, still sealed.
    let release =
        ["quarantine", "release", "0-1", "--because", "late-retry", "--reason", "an outage"];
    home.payfold(&release).ok();
    demo.catch_up();
    assert_eq!(key_ids(&home, "intake"), [old_key.as_str(), old_key.as_str()]);
    assert!(!is_anywhere(&home, PAYER));
    let (code, rows, said) = signatures(&home);
    assert_eq!((code, rows), (0, Vec::new()), "{said}");
    assert!(said.starts_with("3 notices: 3 verified"), "{said}");
    read_with_a_reason(&home);

    retention(&home, &["start", "--account", ACCOUNT]).ok();
    let month = Month::of(SystemClock.now());
    take_until_sealed_with(&demo, &format!("body-{month}"));
    erase(&home, &old_key);

    let reason = ["--raw", "--reason", "a dispute"];
    until("the running system has forgotten the key", WAIT_MAX, || {
        let gone = home.payfold(&[&["quarantine", "show", "0-1"], &reason[..]].concat());
        gone.stderr.contains("was erased at").then_some(())
    });
    take(&demo, "o-after");
    drop(demo);
    a_changed_byte_is_found(&home, month);
}

/// Before the bytes are shown, the reader and the reason are published.
fn read_with_a_reason(home: &Home) {
    let show = ["order", "show", "sandbox", "DEMO", "o-1", "--facts", "--raw"];
    let unsaid = home.payfold(&show);
    assert!(unsaid.code() == 2 && unsaid.stderr.contains("--reason"), "{unsaid:?}");
    let read = home.payfold(&[&show[..], &["--reason", "the payer asked"]].concat()).ok();
    assert!(read.contains(PAYER), "{read}");
    let quarantined = ["quarantine", "show", "0-1", "--raw", "--reason", "the same"];
    assert!(home.payfold(&quarantined).ok().contains(PAYER));
    let events = home.tail("findings");
    let read: Vec<String> = events
        .iter()
        .filter(|event| event["type"] == "payfold.raw.read.v1")
        .map(|event| {
            let data = &event["data"];
            ["topic", "author", "reason"].map(|name| data[name].as_str().expect("a text")).join(" ")
        })
        .collect();
    assert_eq!(read, ["intake local the payer asked", "quarantine local the same"]);
}

fn erase(home: &Home, old_key: &str) {
    let anchor = home.file("heads.json");
    home.payfold(&["log", "verify", "--chain", "--anchor", &anchor]).ok();
    let before = state(home);
    let month = past().to_string();
    let erase = ["erase", "--account", ACCOUNT, "--month", &month, "--reason", "asked to"];
    let dry = retention(home, &[&erase[..], &["--output", "json"]].concat());
    assert!(dry.stderr.contains("nothing was erased"), "{dry:?}");
    let dry = dry.json();
    let sealed = key_ids(home, "intake").iter().filter(|id| *id == old_key).count();
    assert!(sealed >= 2);
    assert_eq!((&dry["intake"], &dry["quarantine"]), (&sealed.into(), &1.into()), "{dry}");
    assert!(signatures(home).1.is_empty(), "nothing was erased");

    let by = |more: &[&str]| retention(home, &[&erase[..], more].concat());
    let [omar, mai] =
        [("omar", "operator"), ("mai", "admin")].map(|(name, role)| home.token_file(name, role));
    by(&["--yes", "--admin-token-file", &omar])
        .fails(&["omar has the role operator, and this takes one of: admin"]);
    let first = || {
        let listed = retention(home, &["list", "--output", "json"]).json();
        let texts = ["key", "state", "proposedBy", "author", "secondedBy", "reason"];
        texts.map(|name| listed[0][name].as_str().unwrap_or_default().to_owned())
    };
    by(&["--yes"]).ok();
    by(&["--yes"]).fails(&["local has proposed this at ", "a second person"]);
    assert_eq!(first(), [old_key, "sealed", "local", "", "", ""]);
    assert!(signatures(home).1.is_empty(), "nothing was erased");
    let withdraw = ["erase", "--account", ACCOUNT, "--month", &month, "--withdraw"];
    let of_another = [&withdraw[..], &["--admin-token-file", &mai]].concat();
    retention(home, &of_another).fails(&["mai has not proposed to erase "]);
    retention(home, &withdraw).ok();
    retention(home, &withdraw).fails(&["local has not proposed to erase "]);
    assert_eq!(first(), [old_key, "sealed", "", "", "", ""]);
    by(&["--yes"]).ok();
    assert!(signatures(home).1.is_empty(), "one person erases nothing, however often");
    by(&["--yes", "--admin-token-file", &mai]).ok();
    by(&["--yes"]).fails(&["no key of"]);
    assert_eq!(first(), [old_key, "erased", "", "local", "mai", "asked to"]);

    assert_eq!(state(home)["stateDigest"], before["stateDigest"]);
    home.payfold(&["log", "verify", "--chain", "--against", &anchor]).ok();
    home.payfold(&["log", "verify"]).ok();
    let (code, rows, said) = signatures(home);
    let erased = format!("erased {} key {old_key} of {ACCOUNT}", sealed + 1);
    assert_eq!((code, rows), (0, vec![erased]), "{said}");
}

/// One byte of sealed bytes, its checksum made to fit.
fn a_changed_byte_is_found(home: &Home, month: Month) {
    let (position, whole) = records(home, "intake").pop().expect("a record");
    let mut record = Record::decode(&whole).expect("it is whole");
    let id = record.raw_key_id.as_ref().map(ToString::to_string);
    assert_eq!(id, Some(format!("body-{month}")));
    let middle = record.raw.len() / 2;
    record.raw[middle] ^= 1;
    let log = Connection::open(home.data().join("log.db")).expect("a log");
    let sql = "UPDATE intake SET value = ? WHERE position = ?";
    log.execute(sql, params![record.encode(), position]).expect("ours");
    sign_anew(home, Topic::Intake);
    let (code, rows, said) = signatures(home);
    assert_eq!(code, 3, "{said}");
    assert!(
        rows.contains(&"fails 1 its sealed bytes are not what was stored".to_owned()),
        "{rows:?}"
    );
}

/// A month ends while the system runs on: the keys of the next are made before it begins.
#[test]
fn a_running_system_makes_the_next_months_key() {
    early_in_hour(Duration::from_secs(60));
    let home = sealed(&[past()]);
    let system = home.boot();
    let next = format!("body-{}", Month::of(SystemClock.now()).next());
    until("the next month's key is there", WAIT_MAX, || {
        let listed = retention(&home, &["list", "--output", "json"]).json();
        let is_next = |key: &Value| key["key"] == next && key["state"] == "next";
        listed.as_array()?.iter().any(is_next).then_some(())
    });
    drop(system);
}
