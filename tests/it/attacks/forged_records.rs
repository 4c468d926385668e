//! An insider who may write the topics, or the file of the log, and has no record key, appends
//! records: a payment that no partner confirmed, under each disguise.

use std::rc::Rc;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::{Authenticity, Delivered, EventLog, Message, Topic};
use payfold_schemas::event::EventAttributes;
use payfold_schemas::fact::Fact;
use payfold_schemas::finding::FINDING_CHANGED_TYPE;
use payfold_schemas::ids::{OrderKey, ProviderRef};
use payfold_schemas::position::Position;
use payfold_schemas::record::{MARKER_KEY, Parts, Record};
use payfold_schemas::record_mac::{RecordKey, Writer};
use serde_json::json;

use crate::support::demo::Demo;
use crate::support::macs::keys_of;
use crate::support::pair::{Inside, Pair, with_log, with_raw_log};
use crate::support::system::Home;

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
fn based_system(pair: Pair) -> Option<Rc<Home>> {
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

/// Gives a role a new record key, and retires the one it had, which is returned.
fn replaced_key(home: &Home, writer: Writer) -> RecordKey {
    let keys = keys_of(home);
    let key = keys.writes_with(writer, SystemClock.now()).expect("it has one").clone();
    let (role, id) = (writer.name(), key.id().to_string());
    let retire = ["log", "key", "retire", &id, "--yes"];
    home.payfold(&retire).fails(&["has no other record key that is valid now"]);
    home.payfold(&["log", "key", "add", role, "--after", "0s"]).ok();
    assert!(home.payfold(&retire).ok().contains("The key is retired."));
    let listed = home.payfold(&["log", "key", "list", "--output", "json"]).rows();
    let retired: Vec<_> = listed.iter().filter(|row| !row["retiredAt"].is_null()).collect();
    assert!(retired.len() == 1 && retired[0]["key"] == *id, "{listed:?}");
    key
}

/// What becomes of the record at `forged`: no order is paid by it, its partition stops and says
/// why, and a person can park it.
fn is_refused(home: &Rc<Home>, victim: &Opened, forged: Position, why: &str) {
    let system = home.boot();
    system.metric_when("payfold_projector_partitions_halted", 1.0);
    let order = system.order_when(victim.key(), |_| true);
    assert_eq!((&order["state"], &order["fulfil"]), (&json!("PENDING"), &json!(false)));
    system.stop();
    let (log, place) = (home.log(), forged.to_string());
    assert!(log.contains(why) && log.contains(&format!("payfold log park {place}")), "{log}");
    let verified = home.payfold(&["log", "verify"]);
    assert_eq!(verified.code(), 3, "{verified:?}");
    assert!(verified.stdout.contains(&place) && verified.stdout.contains(why), "{verified:?}");
    let parked = ["log", "park", &place, "--reason", "forged", "--by", "mai", "--yes"];
    assert!(home.payfold(&parked).ok().contains("The record is parked"));
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
    // No record at all, under the key of markers: a person can park it, too.
    let (key, value) = (MARKER_KEY.to_owned(), b"\x01no record".to_vec());
    refused(Message { key, value, ..without_mac.clone() }, "record fails its checksum");
    // A version that no program writes yet, under the key of markers: a person can park it, too.
    let (key, mut value) = (MARKER_KEY.to_owned(), paid.value.clone());
    value[0] = 9;
    refused(Message { key, value, ..without_mac.clone() }, "it has no MAC");

    // An insider with the key of another role.
    let forge = async |log: &dyn EventLog| log.append(Topic::Intake, without_mac.clone()).await;
    let forged = with_log(&home, Writer::Checkout, forge).expect("it is stored");
    is_refused(&home, &victim, forged, "the record key of checkout, a role that never writes");
    // One with the key of ingest, once a person has retired it.
    let leaked = replaced_key(&home, Writer::Ingest);
    refused(without_mac.with_mac(Topic::Intake, &leaked), "which a person ended");

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
