//! The settings a start refuses, before it asks any server or because of what a server is.

use super::{Start, Variables, settle};

/// Lines of `payfold.toml`, variables, and words of the error. `KAFKA` and `CQL` are the servers'
/// addresses.
struct Row(&'static str, Variables<'static>, &'static [&'static str]);

const BOTH: &str = "write both as sqlite:";
const INIT: &str = "payfold init";

const REFUSED: [Row; 28] = [
    Row(
        "",
        &[("PAYFOLD_ORDERS", "sqlite:o.db")],
        &["log = \"kafka://", "orders = \"sqlite:o.db\"", BOTH],
    ),
    Row(
        "",
        &[("PAYFOLD_LOG", "sqlite:l.db")],
        &["log = \"sqlite:l.db\"", "orders = \"cql://", BOTH],
    ),
    Row("", &[("PAYFOLD_LOG", "")], &["log = \"\"", "orders = \"cql://", BOTH]),
    Row("[kafka]\npartitionz = 2\n", &[], &["partitionz", "kafka", "payfold.toml", INIT]),
    Row("[cql]\nkeyspace = \"pay\"\n", &[], &["keyspace", "cql", "payfold.toml", INIT]),
    Row("[kafka]\ngroup_protocol = \"old\"\n", &[], &["kafka.group_protocol", INIT]),
    Row(
        "",
        &[("PAYFOLD_LOG", "kafka://KAFKA")],
        &["log URL: the prefix is missing", "kafka://HOST:PORT"],
    ),
    Row(
        "",
        &[("PAYFOLD_LOG", "kafka://me:secret@KAFKA/p")],
        &["kafka.username and kafka.password_file"],
    ),
    Row("", &[("PAYFOLD_LOG", "kafka://KAFKA/a b")], &["log URL: the prefix is 1 to 100"]),
    Row(
        "",
        &[("PAYFOLD_ORDERS", "cql://CQL")],
        &["orders URL", "names no keyspace", "cql://node1:9042"],
    ),
    Row(
        "",
        &[("PAYFOLD_ORDERS", "cql://me:secret@CQL/k")],
        &["cql.username and cql.password_file"],
    ),
    Row("", &[("PAYFOLD_ORDERS", "cql://CQL/Pay")], &["\"Pay\" is not a keyspace"]),
    Row("[kafka]\nepoch = 64\n", &[], &["kafka.epoch = 64: the highest is 63"]),
    Row("[kafka]\nlinger_ms = -1\n", &[], &["kafka.linger_ms = -1 is not within 0 to 1000"]),
    Row("[kafka]\ndelivery_timeout_ms = 0\n", &[], &["kafka.delivery_timeout_ms = 0"]),
    Row(
        "[kafka]\ngroup_protocol = \"classic\"\nsession_timeout_ms = 0\n",
        &[],
        &["kafka.session_timeout_ms = 0"],
    ),
    Row("[kafka.client]\nacks = \"1\"\n", &[], &["kafka.client.acks can't be set"]),
    Row(
        "[kafka.client]\n\"auto.offset.reset\" = \"latest\"\n",
        &[],
        &["kafka.client.auto.offset.reset can't be set"],
    ),
    Row(
        "[kafka.client]\n\"message.timeout.ms\" = \"0\"\n",
        &[],
        &["kafka.client.message.timeout.ms", "set kafka.delivery_timeout_ms instead"],
    ),
    Row(
        "[kafka.client]\n\"session.timeout.ms\" = \"6000\"\n",
        &[],
        &["kafka.client.session.timeout.ms", "set kafka.session_timeout_ms instead"],
    ),
    Row(
        "[kafka.client]\n\"no.such.thing\" = \"1\"\n",
        &[],
        &["No such configuration property: \"no.such.thing\""],
    ),
    Row(
        "[kafka.client]\n\"compression.type\" = \"zstd\"\n",
        &[],
        &["Unsupported value \"zstd\"", "compression.type"],
    ),
    Row(
        "[kafka]\nusername = \"me\"\npassword_file = \"none\"\n",
        &[],
        &[
            "kafka.password_file = \"none\" can't be read",
            "give a file that holds only the password",
        ],
    ),
    Row(
        "[cql]\nusername = \"me\"\n",
        &[],
        &["cql.password_file = \"\" can't be read", "give a file that holds only the password"],
    ),
    Row(
        "[cql]\nconsistency = \"MOST\"\n",
        &[],
        &["cql.consistency = \"MOST\" is none of LOCAL_QUORUM, QUORUM"],
    ),
    Row(
        "[cql]\nserial_consistency = \"QUORUM\"\n",
        &[],
        &["cql.serial_consistency = \"QUORUM\" is none of LOCAL_SERIAL, SERIAL"],
    ),
    Row("[cql]\nconcurrency = 0\n", &[], &["cql.concurrency = 0"]),
    Row("[cql]\nrequest_timeout_ms = 0\n", &[], &["cql.request_timeout_ms = 0"]),
];

#[test]
#[ignore = "nightly: servers"]
fn settings_that_can_not_be_are_refused() {
    let Some(start) = Start::new() else { return };
    start.make_topics();
    start.make_tables();
    let mut failures = Vec::new();
    for Row(lines, variables, words) in REFUSED {
        let (kafka, cql) =
            (start.names.kafka().brokers.join(","), start.names.cql().nodes.join(","));
        let set = |value: &str| value.replace("KAFKA", &kafka).replace("CQL", &cql);
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, set(value))).collect();
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, &**value)).collect();
        start.home.write("payfold.toml", lines);
        let of_row = start.is_refused(&variables, words);
        failures.extend(of_row.iter().map(|failure| format!("{lines:?} {variables:?}: {failure}")));
    }
    settle(&failures);
}

/// Who takes notices needs no orders; everybody else does.
#[test]
#[ignore = "nightly: servers"]
fn a_store_that_is_not_named_is_refused_and_only_warned_of() {
    let Some(start) = Start::new() else { return };
    start.make_topics();
    let none = [("PAYFOLD_ORDERS", "")];
    let words = ["orders names no database", "set orders = \"cql://"];
    let mut failures = super::not_refused(&start.run(&none, super::REFUSED_MAX), 1, &words);
    let check = ["check", "--connect", "--output", "jsonl"];
    let checked = start.home.ends(&check, &none, super::REFUSED_MAX).json_lines();
    let tables = checked.iter().find(|row| row["check"] == "tables").expect("they are looked at");
    assert_eq!(tables["result"], "warn", "{tables}");
    let tables = format!("{} {}", tables["detail"], tables["fix"]).replace('\\', "");
    failures.extend(super::missing("check", &tables, &words));
    settle(&failures);
}
