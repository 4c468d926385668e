//! Owns the proof that `orders.latest` ends with the order store's content, whatever happens to the
//! projectors that copy it and whatever comes late to `orders`.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;

use payfold_engines::log::kafka::KafkaSettings;
use payfold_engines::log::{Delivered, EventLog, Message, Topic};
use payfold_schemas::event::{EventAttributes, ORDER_CHANGED_TYPE};
use payfold_schemas::record_mac::Writer;
use payfold_schemas::time::Time;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Headers, Message as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rustix::process::Signal;
use serde_json::Value;

use crate::readers::stored;
use crate::support::pair::{Inside, Pair, runtime, with_log};
use crate::support::system::{Home, System, send_signal};
use crate::support::waits::until;

const WAIT_MAX: Duration = Duration::from_secs(90);
/// A member without a heartbeat for six seconds is removed from the group; under the other protocol
/// the broker waits longer.
const SOON_OUT: &[(&str, &str)] =
    &[("PAYFOLD_KAFKA__GROUP_PROTOCOL", "classic"), ("PAYFOLD_KAFKA__SESSION_TIMEOUT_MS", "6000")];

/// Epoch and version of each order.
pub(crate) type Numbers = BTreeMap<String, (u64, u64)>;

fn number(data: &Value, name: &str) -> u64 {
    data[name].as_u64().expect("a number")
}

/// The last record under each key of `orders.latest`, as a reader without any other rule sees it.
pub(crate) fn latest(log: &str) -> Numbers {
    let kafka = KafkaSettings::parse_url(log).expect("it is a URL");
    let name = kafka.layout().latest();
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka.brokers.join(",")).set("group.id", format!("{name}.new"));
    config.set("isolation.level", "read_committed").set("enable.partition.eof", "true");
    let consumer: BaseConsumer = config.create().expect("a client");
    let seen = consumer.fetch_metadata(Some(&name), WAIT_MAX).expect("the broker answers");
    let mut list = TopicPartitionList::new();
    for partition in seen.topics()[0].partitions() {
        list.add_partition_offset(&name, partition.id(), Offset::Beginning).expect("an offset");
    }
    consumer.assign(&list).expect("assigned");
    let (mut found, mut ended) = (Numbers::new(), 0);
    while ended < list.count() {
        match consumer.poll(WAIT_MAX).expect("something comes") {
            Ok(message) => {
                let headers = message.headers().expect("a CloudEvent has headers");
                let kind = headers.iter().find(|header| header.key == "ce_type");
                let kind = kind.and_then(|header| header.value).unwrap_or_default();
                assert_eq!(kind, ORDER_CHANGED_TYPE.as_bytes());
                let key = std::str::from_utf8(message.key().expect("a key")).expect("text");
                let data = serde_json::from_slice(message.payload().expect("a value"));
                let data: Value = data.expect("JSON");
                let newest = (number(&data, "epoch"), number(&data, "version"));
                found.insert(key.to_owned(), newest);
            }
            Err(KafkaError::PartitionEOF(_)) => ended += 1,
            Err(error) => panic!("{error}"),
        }
    }
    found
}

/// Waits until both say the same; returns it.
fn agree(home: &Home, log: &str, when: &str) -> Numbers {
    until(&format!("orders.latest is what the store has, {when}"), WAIT_MAX, || {
        // All of the first epoch.
        let stored = stored(home, |order| (1, number(order, "version")));
        (latest(log) == stored).then_some(stored)
    })
}

/// Takes away all that `orders` holds, as time does.
pub(crate) fn forget_orders(log: &str) {
    let kafka = KafkaSettings::parse_url(log).expect("it is a URL");
    let name = kafka.layout().current(Topic::Orders);
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka.brokers.join(","));
    let admin: AdminClient<DefaultClientContext> = config.create().expect("a client");
    let seen = admin.inner().fetch_metadata(Some(&name), WAIT_MAX).expect("the broker answers");
    let mut list = TopicPartitionList::new();
    for partition in seen.topics()[0].partitions() {
        list.add_partition_offset(&name, partition.id(), Offset::End).expect("an offset");
    }
    let options = AdminOptions::new().request_timeout(Some(WAIT_MAX));
    let removed = runtime().block_on(admin.delete_records(&list, &options));
    assert!(removed.expect("the broker answers").elements().iter().all(|one| one.error().is_ok()));
}

fn signal(system: &System, signal: Signal) {
    send_signal(system.pid(), signal).expect("our child takes signals");
}

/// Waits until a projector has partitions.
fn has_partitions(projector: &System) {
    let owned = || projector.metric("payfold_projector_partitions");
    until("it has partitions", WAIT_MAX, || (owned() > Some(0.0)).then_some(()));
}

#[test]
#[ignore = "nightly: servers"]
fn the_last_event_of_each_order_is_the_stores_whatever_becomes_of_projectors() {
    let Some(home) = Pair::KafkaAndCql.home_of(4) else { return };
    let log = home.variable("PAYFOLD_LOG").expect("it has a log").to_owned();
    let beside = || {
        let names = ["PAYFOLD_LOG", "PAYFOLD_ORDERS", "PAYFOLD_DEV"];
        let of = |name| (name, home.variable(name).expect("it has one").to_owned());
        Home::within(names.map(of).to_vec(), None)
    };
    let _front = home.boot_as("all", SOON_OUT);
    let mut dying = beside().boot_as("ingest,projector", SOON_OUT);
    let frozen = beside().boot_as("ingest,projector", SOON_OUT);
    let pay = ["demo", "pay", "--count", "150", "--trouble", "all", "--seed", "7"];
    let paying = home.spawn(&pay, &[], Stdio::piped);
    let has_copied = |orders: usize| {
        let what = format!("{orders} orders are in orders.latest");
        until(&what, WAIT_MAX, || (latest(&log).len() >= orders).then_some(()));
    };
    has_copied(10);
    has_partitions(&frozen);
    signal(&frozen, Signal::STOP);
    for orders in [20, 40, 60] {
        has_copied(orders);
        dying = Rc::clone(&dying.kill()).boot_as("ingest,projector", SOON_OUT);
    }
    let paid = paying.wait_with_output().expect("it ends");
    let printed = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(paid.status.success(), "{}{}", printed(&paid.stdout), printed(&paid.stderr));
    let orders = agree(&home, &log, "while one is frozen");
    assert!(orders.len() >= 150 && orders.values().any(|(_, version)| *version > 2));
    signal(&frozen, Signal::CONT);
    has_partitions(&frozen);
    let orders = onward(orders, agree(&home, &log, "and after it woke"));

    late(&home, &orders);
    home.payfold(&["demo", "pay", "--count", "8"]).ok();
    let before = orders.len();
    let more = onward(orders, agree(&home, &log, "after old events came late"));
    assert!(more.len() >= before + 8);
    drop(dying);
}

/// The later numbers; none of them may be behind the earlier ones. They may be ahead: some payments
/// are still open when `demo pay` ends, and their partner is queried some seconds later.
fn onward(before: Numbers, after: Numbers) -> Numbers {
    let back: Vec<_> =
        before.iter().filter(|one| after.get(one.0) < Some(one.1)).map(|one| one.0).collect();
    assert!(back.is_empty(), "these went back: {back:?}");
    after
}

/// Appends the first event of each order that has more of them once more, as a projector that was
/// frozen would.
fn late(home: &Home, orders: &Numbers) {
    let published = Inside::of(home).messages(Topic::Orders);
    let first = |message: &&Delivered| {
        let data: Value = serde_json::from_slice(&message.value).expect("JSON");
        number(&data, "version") == 1 && orders[&message.key].1 > 1
    };
    let again = |message: &Delivered| {
        let event = message.event.as_ref().expect("it is an event");
        let time = Time::parse(&event.time).expect("a time");
        let event = EventAttributes { id: event.id.clone(), kind: ORDER_CHANGED_TYPE, time };
        Message {
            key: message.key.clone(),
            event: Some(event),
            value: message.value.clone(),
            mac: None,
        }
    };
    let old: Vec<Message> = published.iter().filter(first).map(again).collect();
    assert!(old.len() > 100, "{}", old.len());
    with_log(home, Writer::Projector, async |log: &dyn EventLog| {
        log.append_all(Topic::Orders, old).await.expect("appended");
    });
}
