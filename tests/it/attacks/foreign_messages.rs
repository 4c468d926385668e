//! An insider with the right to write the topics of Kafka, and a tool of Kafka's: messages that
//! payfold can't have written, without a key, a value or half of their attributes.

use std::time::Duration;

use payfold_engines::log::Topic;
use payfold_engines::log::kafka::KafkaSettings;
use payfold_schemas::position::Position;
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

use super::forged_records::{based_system, is_refused_and_parked};
use crate::support::demo::Demo;
use crate::support::pair::{Inside, Pair};
use crate::support::system::Home;

const SENT_MAX: Duration = Duration::from_secs(30);

/// Sends one of each to a topic of Kafka.
fn send_foreign(home: &Home, topic: Topic) {
    let url = home.variable("PAYFOLD_LOG").expect("it is Kafka");
    let kafka = KafkaSettings::parse_url(url).expect("it is a URL");
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka.brokers.join(","));
    let producer: BaseProducer = config.create().expect("a client");
    let name = kafka.layout().current(topic);
    let half = Header { key: "ce_id", value: Some("no text: \u{1}") };
    let of = || BaseRecord::<str, [u8]>::to(&name).partition(0);
    for record in [
        of(),
        of().key("k"),
        of().payload(b"{}"),
        of().key("k").payload(b"{}").headers(OwnedHeaders::new().insert(half)),
    ] {
        producer.send(record).map_err(|(error, _)| error).expect("it is queued");
    }
    producer.flush(SENT_MAX).expect("it is sent");
}

#[test]
#[ignore = "nightly: servers"]
fn foreign_messages_stop_no_topic() {
    let Some(home) = based_system(Pair::KafkaAndCql) else { return };
    home.boot().stop();
    for topic in [Topic::Orders, Topic::Findings, Topic::Quarantine] {
        send_foreign(&home, topic);
    }
    // What is not of intake is passed over; listings show it.
    let demo = Demo::of(home.boot());
    let [order, provider_ref] = demo.open_order();
    demo.pay(&order, &provider_ref);
    demo.system.order_when(["sandbox", "DEMO", &order], |order| order["state"] == "PAID");
    for list in [&["reconcile", "findings"][..], &["quarantine", "list"], &["token", "log"]] {
        demo.system.payfold(list).ok();
    }
    demo.system.stop();

    // In intake each stops its partition until two people park it.
    let ends = Inside::of(&home).heads();
    send_foreign(&home, Topic::Intake);
    for more in 1..=4 {
        let place = Position { partition: 0, offset: ends[&0] + more };
        is_refused_and_parked(&home, place, "record is cut short");
    }
    let demo = Demo::of(home.boot());
    demo.pay("x-1", "ref-1");
    demo.catch_up();
}
