//! Owns the golden fixtures: this program reads for ever what it once wrote, and still writes the
//! same bytes. Fixtures are only ever added. The test prints the text of a missing fixture and
//! never writes a file, so a change of format can't approve itself.

#[path = "golden/envelopes.rs"]
mod envelopes;
#[path = "golden/events.rs"]
mod events;
#[path = "golden/samples.rs"]
mod samples;

use std::fmt::Debug;
use std::path::PathBuf;

use payfold_schemas::event::OrderChanged;
use payfold_schemas::order::Order;
use payfold_schemas::order_money::OrderMoney;
use payfold_schemas::record::{
    IntakeRecord, Parts, Record, decode_fact, decode_intake, encode_fact, encode_parked,
    encode_parking_proposed, encode_switch,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The fixture's text. If the fixture is missing, fails and prints `what`, its expected text.
fn fixture(name: &str, what: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
    let text = std::fs::read_to_string(&path);
    text.unwrap_or_else(|error| panic!("schemas/fixtures/{name}: {error}; it should be\n{what}"))
}

/// The bytes of a hex fixture; line breaks have no meaning.
fn bytes(name: &str, today: &[u8]) -> Vec<u8> {
    let text = fixture(name, &hex::encode(today));
    hex::decode(text.split_whitespace().collect::<String>()).expect("a fixture is hex")
}

#[test]
fn every_kind_of_fact_is_read_and_written_as_ever() {
    for (name, record) in samples::fact_records() {
        let stored = bytes(&format!("{name}.hex"), &record.encode());
        assert_eq!(Record::decode(&stored).as_ref(), Ok(&record), "{name}");
        assert_eq!(hex::encode(record.encode()), hex::encode(&stored), "{name}");
        // The hot paths write and read the same envelope.
        let Parts::Fact(fact) = &record.parts else { panic!("{name} is a fact") };
        assert_eq!(decode_fact(&stored).as_ref(), Ok(fact), "{name}");
        assert_eq!(decode_intake(&stored), Ok(IntakeRecord::Fact(fact.clone())), "{name}");
        if record.raw_key_id.is_none() {
            assert_eq!(encode_fact(fact, &record.raw), stored, "{name}");
        }
    }
}

#[test]
fn a_quarantined_notice_is_read_and_written_as_ever() {
    let record = samples::quarantine_record();
    let stored = bytes("quarantine.hex", &record.encode());
    assert_eq!(Record::decode(&stored).as_ref(), Ok(&record));
    assert_eq!(hex::encode(record.encode()), hex::encode(&stored));
    assert!(decode_fact(&stored).is_err(), "no fact is read out of a quarantined notice");
}

/// A marker as it was once stored; `encoded` is what writes it today.
fn same_marker(name: &str, parts: Parts, encoded: &[u8], read: IntakeRecord) {
    let record = Record { parts, raw_key_id: None, raw: Vec::new() };
    let stored = bytes(name, &record.encode());
    assert_eq!(Record::decode(&stored).as_ref(), Ok(&record));
    assert_eq!(hex::encode(encoded), hex::encode(&stored));
    assert_eq!(decode_intake(&stored), Ok(read));
    assert!(decode_fact(&stored).is_err(), "no fact is read out of a marker");
}

#[test]
fn a_switch_is_read_and_written_as_ever() {
    let switch = samples::switch();
    let encoded = encode_switch(&switch);
    same_marker(
        "switch.hex",
        Parts::Switch(switch.clone()),
        &encoded,
        IntakeRecord::Switch(switch),
    );
}

#[test]
fn a_parking_is_read_and_written_as_ever() {
    for (name, parked) in
        [("parked.hex", samples::parked()), ("parked-by-two.hex", samples::parked_by_two())]
    {
        let encoded = encode_parked(&parked);
        same_marker(name, Parts::Parked(parked.clone()), &encoded, IntakeRecord::Parked(parked));
    }
}

#[test]
fn a_proposal_to_park_is_read_and_written_as_ever() {
    let proposed = samples::parked();
    let encoded = encode_parking_proposed(&proposed);
    let (parts, read) =
        (Parts::ParkingProposed(proposed.clone()), IntakeRecord::ParkingProposed(proposed));
    same_marker("parking-proposed.hex", parts, &encoded, read);
}

#[test]
fn an_order_row_is_read_and_written_as_ever() {
    let mut flooded = samples::order();
    flooded.facts.unconfirmed_left_out = true;
    for (name, order) in [("order.hex", samples::order()), ("order-flooded.hex", flooded)] {
        let today = minicbor::to_vec(&order).expect("encoding into memory can't fail");
        let stored = bytes(name, &today);
        assert_eq!(minicbor::decode::<Order>(&stored).expect("a stored row decodes"), order);
        assert_eq!(hex::encode(today), hex::encode(&stored));
        let money = minicbor::decode::<OrderMoney>(&stored).expect("a part of a row decodes");
        assert_eq!(money, OrderMoney::from(order), "the part is what the whole has");
    }
}

/// An event as it was once published.
fn same<T: Serialize + DeserializeOwned + PartialEq + Debug>(name: &str, event: &T) {
    let today = serde_json::to_string(event).expect("an event is JSON");
    let text = fixture(name, &today);
    let read: T = serde_json::from_str(&text).expect("a published event is read");
    assert_eq!(read, *event, "{name}");
    assert_eq!(today, text.trim_end(), "{name}");
}

#[test]
fn every_event_is_read_and_written_as_ever() {
    same("order-changed.json", &samples::order_changed());
    same("order-changed-unmatched.json", &samples::order_changed_unmatched());
    same("finding-changed.json", &events::finding_changed());
    same("finding-changed-agreed.json", &events::finding_changed_agreed());
    same("finding-changed-silent.json", &events::finding_changed_silent());
    same("finding-changed-flag.json", &events::finding_changed_flag());
    same("finding-changed-contested.json", &events::finding_changed_contested());
    same("finding-changed-reopened.json", &events::finding_changed_reopened());
    same("run-ended.json", &events::run_ended());
    same("run-ended-first.json", &events::run_ended_first());
    same("run-ended-apart.json", &events::run_ended_apart());
    same("run-ended-asked.json", &events::run_ended_asked());
    same("period-closed.json", &events::period_closed());
    same("flag-decided.json", &events::flag_decided());
    same("flag-decided-agreed.json", &events::flag_decided_agreed());
    same("flag-decided-waiting.json", &events::flag_decided_waiting());
    same("flag-decided-withdrawn.json", &events::flag_decided_withdrawn());
    same("notice-decided.json", &events::notice_decided());
    same("notice-decided-agreed.json", &events::notice_decided_agreed());
    same("notice-decided-unread.json", &events::notice_decided_unread());
    same("notice-decided-withdrawn.json", &events::notice_decided_withdrawn());
    same("raw-read.json", &events::raw_read());
    same("token-recorded.json", &events::token_recorded());
}

/// The fixtures of events.
const EVENTS: [&str; 23] = [
    "finding-changed-agreed.json",
    "finding-changed-contested.json",
    "finding-changed-flag.json",
    "finding-changed-reopened.json",
    "finding-changed-silent.json",
    "finding-changed.json",
    "flag-decided-agreed.json",
    "flag-decided-waiting.json",
    "flag-decided-withdrawn.json",
    "flag-decided.json",
    "notice-decided-agreed.json",
    "notice-decided-unread.json",
    "notice-decided-withdrawn.json",
    "notice-decided.json",
    "order-changed-unmatched.json",
    "order-changed.json",
    "period-closed.json",
    "raw-read.json",
    "run-ended-apart.json",
    "run-ended-asked.json",
    "run-ended-first.json",
    "run-ended.json",
    "token-recorded.json",
];

/// An older reader ignores fields that a newer program adds within the major version.
#[test]
fn a_field_from_the_future_is_left_alone() {
    let text = fixture("order-changed.json", "");
    let future = text.replacen('{', "{\"aFieldFromTheFuture\":1,", 1);
    let read: OrderChanged = serde_json::from_str(&future).expect("additive changes are read");
    assert_eq!(read, samples::order_changed());
}

/// Every fixture is read by a test; an unread file would prove nothing.
#[test]
fn no_fixture_is_left_unread() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .expect("the fixtures can be read")
        .map(|entry| {
            entry.expect("the fixtures can be read").file_name().into_string().expect("ASCII")
        })
        .collect();
    let mut read: Vec<_> =
        samples::fact_records().into_iter().map(|(name, _)| format!("{name}.hex")).collect();
    let others = [
        "order-flooded.hex",
        "order.hex",
        "parked-by-two.hex",
        "parked.hex",
        "parking-proposed.hex",
        "quarantine.hex",
        "switch.hex",
    ];
    read.extend(others.into_iter().chain(EVENTS).map(str::to_owned));
    found.sort();
    read.sort();
    assert_eq!(found, read);
}
