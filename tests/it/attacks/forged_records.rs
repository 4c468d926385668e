//! An insider who may write the topics, or the file of the log, and has no record key, appends
//! records: a payment that no partner confirmed, under each disguise.

use std::rc::Rc;
use std::time::Duration;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::{Authenticity, Delivered, EventLog, Message, Topic};
use payfold_schemas::event::{EventAttributes, ORDER_CHANGED_TYPE};
use payfold_schemas::fact::Fact;
use payfold_schemas::finding::FINDING_CHANGED_TYPE;
use payfold_schemas::ids::{OrderKey, ProviderRef};
use payfold_schemas::position::Position;
use payfold_schemas::record::{MARKER_KEY, Parts, QuarantineRecord, Record};
use payfold_schemas::record_mac::{RecordKey, Writer};
use payfold_schemas::time::Time;
use serde_json::json;

use crate::parked::park_by_two;
use crate::support::demo::Demo;
use crate::support::macs::keys_of;
use crate::support::pair::{Inside, Pair, with_log, with_raw_log};
use crate::support::system::Home;
use crate::support::waits::until;

/// How long a role has to have another key before one is retired, and some seconds.
const SETTLED_MAX: Duration = Duration::from_secs(40);

/// An order that a shop opened, and the ref of its payment page.
struct Opened {
    order: String,
    provider_ref: String,
}

impl Opened {
    fn by(demo: &Demo) -> Self {
        let [order, provider_ref] = demo.open_order();
        Self { order, provider_ref }
    }

    fn key(&self) -> [&str; 3] {
        ["sandbox", "DEMO", &self.order]
    }
}

/// A system with a baseline, so that every message needs a MAC.
pub fn based_system(pair: Pair) -> Option<Rc<Home>> {
    let home = pair.home()?;
    if pair == Pair::KafkaAndCql {
        home.boot().stop();
        for said in ["Created a record key for each role", "The baseline is in the vault"] {
            let done = home.payfold(&["log", "baseline", "--yes"]).ok();
            assert!(done.contains(said), "{done}");
        }
    }
    Some(home)
}

/// The stored notice that paid an order.
fn paid_notice(home: &Home, order: &str) -> Delivered {
    let messages = Inside::of(home).messages(Topic::Intake);
    let mut of_order =
        messages.into_iter().rev().filter(|one| one.key.ends_with(&format!("/{order}")));
    of_order.next().expect("a notice")
}

/// The same payment of another order, as a record with a fitting checksum.
fn moved_to(paid: &Delivered, victim: &Opened) -> Message {
    let mut record = Record::decode(&paid.value).expect("it is whole");
    let Parts::Fact(fact) = &mut record.parts else { panic!("a fact") };
    let Fact::Ipn(ipn) = &mut fact.fact else { panic!("a notice") };
    ipn.provider_ref = ProviderRef::parse(&victim.provider_ref).expect("a ref");
    fact.order = OrderKey::parse(&victim.key().join("/")).expect("a key");
    Message { key: fact.order.to_message_key(), event: None, value: record.encode(), mac: None }
}

fn append(home: &Home, message: Message) -> Position {
    let append = async |log: &dyn EventLog| log.append(Topic::Intake, message).await;
    with_raw_log(home, append).expect("it is stored")
}

/// A notice as quarantine has it.
fn quarantined(paid: &Delivered) -> Message {
    let mut record = Record::decode(&paid.value).expect("it is whole");
    let Parts::Fact(fact) = record.parts else { panic!("a fact") };
    record.parts = Parts::Quarantine(QuarantineRecord {
        account: "sandbox/DEMO".to_owned(),
        code: "stale".to_owned(),
        detail: "old".to_owned(),
        request_id: fact.request_id,
        received_at: fact.received_at,
        source: fact.source.expect("a partner sent it"),
    });
    Message { key: paid.key.clone(), event: None, value: record.encode(), mac: None }
}

/// Gives a role a new record key, and retires the one it had, which is returned. A message that
/// somebody else wrote with it is refused.
fn replaced_key(home: &Home, writer: Writer, forged: Position) -> RecordKey {
    let keys = keys_of(home);
    let key = keys.writes_with(writer, SystemClock.now()).expect("it has one").clone();
    let (role, id) = (writer.name(), key.id().to_string());
    let place = format!("intake {forged}");
    let retire = ["log", "key", "retire", &id, "--refuse", &place, "--yes"];
    let used = format!("{role} writes with record key {id}, or did some seconds ago");
    home.payfold(&retire).fails(&[&used]);
    home.payfold(&["log", "key", "add", role, "--after", "0s"]).ok();
    home.payfold(&retire).fails(&[&used]);
    until("the next key is settled", SETTLED_MAX, || {
        let done = home.payfold(&retire);
        done.stdout.contains("The key is retired.").then_some(())
    });
    let listed = home.payfold(&["log", "key", "list", "--output", "json"]).rows();
    let retired: Vec<_> = listed.iter().filter(|row| !row["retiredAt"].is_null()).collect();
    assert!(retired.len() == 1 && retired[0]["key"] == *id, "{listed:?}");
    key
}

/// What becomes of the record at `forged`: no order is paid by it, its partition stops and says
/// why, and people can park it.
fn is_refused(home: &Rc<Home>, victim: &Opened, forged: Position, why: &str) {
    is_refused_and_parked(home, forged, why);
    let shown = ["order", "show", "sandbox", "DEMO", &victim.order, "--output", "json"];
    let order = home.payfold(&shown).json();
    assert_eq!((&order["state"], &order["fulfil"]), (&json!("PENDING"), &json!(false)));
}

/// The same without an order.
pub fn is_refused_and_parked(home: &Rc<Home>, forged: Position, why: &str) {
    let system = home.boot();
    system.metric_when("payfold_projector_partitions_halted", 1.0);
    system.stop();
    let (log, place) = (home.log(), forged.to_string());
    assert!(log.contains(why) && log.contains(&format!("payfold log park {place}")), "{log}");
    let verified = home.payfold(&["log", "verify"]);
    assert_eq!(verified.code(), 3, "{verified:?}");
    assert!(verified.stdout.contains(&place) && verified.stdout.contains(why), "{verified:?}");
    assert!(park_by_two(home, &place).contains("The record is parked"));
}

pub fn a_forged_payment_is_never_folded(pair: Pair) {
    let Some(home) = based_system(pair) else { return };
    let demo = Demo::of(home.boot());
    let [honest, victim] = [(), ()].map(|()| Opened::by(&demo));
    demo.pay(&honest.order, &honest.provider_ref);
    demo.catch_up();
    demo.system.stop();

    let paid = paid_notice(&home, &honest.order);
    let without_mac = moved_to(&paid, &victim);
    let refused = |message: Message, why: &str| {
        is_refused(&home, &victim, append(&home, message), why);
    };
    refused(without_mac.clone(), "it has no MAC");
    // The MAC of an authentic record on another one.
    let Authenticity::Unchecked(mac) = paid.authenticity else { panic!("{paid:?}") };
    assert!(mac.is_some());
    refused(Message { mac, ..without_mac.clone() }, "its MAC does not match");
    // The whole record under another key: it would be folded in another partition.
    let value = paid.value.clone();
    refused(Message { value, mac, ..without_mac.clone() }, "its MAC does not match");
    // No record at all, under the key of markers: people can park it, too.
    let (key, value) = (MARKER_KEY.to_owned(), b"\x01no record".to_vec());
    refused(Message { key, value, ..without_mac.clone() }, "record fails its checksum");
    // A version that no program writes yet, under the key of markers: people can park it, too.
    let (key, mut value) = (MARKER_KEY.to_owned(), paid.value.clone());
    value[0] = 9;
    refused(Message { key, value, ..without_mac.clone() }, "it has no MAC");

    // An insider with the key of another role.
    let forge = async |log: &dyn EventLog| log.append(Topic::Intake, without_mac.clone()).await;
    let forged = with_log(&home, Writer::Checkout, forge).expect("it is stored");
    is_refused(&home, &victim, forged, "the record key of checkout, a role that never writes");
    // A quarantined notice, which is of another topic.
    let forge = async |log: &dyn EventLog| log.append(Topic::Intake, quarantined(&paid)).await;
    let forged = with_log(&home, Writer::Ingest, forge).expect("it is stored");
    is_refused(&home, &victim, forged, "a quarantined notice is not of this topic");
    // With the key of ingest one of a later version: no role can, and a person refuses it.
    let mut later = without_mac.clone();
    later.value[0] = 9;
    let forge = async |log: &dyn EventLog| log.append(Topic::Intake, later).await;
    let forged = with_log(&home, Writer::Ingest, forge).expect("it is stored");
    let park = ["log", "park", &forged.to_string(), "--reason", "forged"];
    home.payfold(&park).fails(&["is not damaged: record has envelope version 9"]);
    let leaked = replaced_key(&home, Writer::Ingest, forged);
    is_refused(&home, &victim, forged, "which a person ended");
    // One with that key, once a person has retired it.
    let late = without_mac.clone().with_mac(Topic::Intake, &leaked);
    refused(late, "which a person ended");
    // The same once more, which does not begin to count when the key is retired a second time.
    let late = append(&home, without_mac.with_mac(Topic::Intake, &leaked));
    home.payfold(&["log", "key", "retire", &leaked.id().to_string(), "--yes"]).ok();
    is_refused(&home, &victim, late, "which a person ended");

    let demo = Demo::of(home.boot());
    demo.pay(&victim.order, &victim.provider_ref);
    let order = demo.system.order_when(victim.key(), |order| order["state"] == "PAID");
    assert_eq!(order["version"], 3, "what the partner sent counts, and nothing else did");
    demo.system.stop();
    assert_eq!(home.payfold(&["log", "verify"]).code(), 0);
}

/// A later version of a finding would close it for everybody.
pub fn a_forged_finding_is_passed_over(pair: Pair) {
    let Some(home) = based_system(pair) else { return };
    home.boot().stop();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/fixtures/finding-changed-agreed.json");
    let value = std::fs::read(path).expect("a finding that was decided");
    let event = EventAttributes {
        id: "3f2a3f2a3f2a3f2a3f2a3f2a3f2a3f2a/2".to_owned(),
        kind: FINDING_CHANGED_TYPE,
        time: SystemClock.now(),
    };
    let forged = Message { key: "default".to_owned(), event: Some(event), value, mac: None };
    let append = async |log: &dyn EventLog| log.append(Topic::Findings, forged.clone()).await;
    with_raw_log(&home, append).expect("it is stored");
    with_log(&home, Writer::Ingest, append).expect("it is stored");

    let list = ["reconcile", "findings", "--output", "json"];
    let listed = home.payfold(&list);
    assert_eq!(listed.rows().len(), 0, "{listed:?}");
    let system = home.boot();
    assert_eq!(system.payfold(&list).rows().len(), 0, "nor does the running system show it");
    system.stop();
    for why in ["it has no MAC", "its MAC is by the record key of ingest"] {
        let said = format!("is passed over: {why}");
        assert!(home.log().contains(&said), "{}", home.log());
    }
}

/// Subscribers of the topic see it; a copy of an event that a role wrote would hide behind it.
pub fn a_forged_event_is_a_difference(pair: Pair) {
    let Some(home) = based_system(pair) else { return };
    let demo = Demo::of(home.boot());
    demo.pay("x-1", "ref-1");
    demo.catch_up();
    demo.system.stop();
    assert_eq!(home.payfold(&["log", "verify"]).code(), 0);
    let event = Inside::of(&home).messages(Topic::Orders).remove(0);
    let attributes = event.event.expect("an event");
    let time = Time::parse(&attributes.time).expect("a time");
    let attributes = EventAttributes { id: attributes.id, kind: ORDER_CHANGED_TYPE, time };
    let copy = Message { key: event.key, event: Some(attributes), value: event.value, mac: None };
    let append = async |log: &dyn EventLog| log.append(Topic::Orders, copy).await;
    let place = with_raw_log(&home, append).expect("it is stored");
    let verified = home.payfold(&["log", "verify"]);
    assert_eq!(verified.code(), 3, "{verified:?}");
    let words = [format!("orders {place}"), "it has no MAC".to_owned()];
    assert!(words.iter().all(|word| verified.stdout.contains(word)), "{verified:?}");
}
