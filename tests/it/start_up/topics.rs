//! The topics a start refuses: missing, set wrongly, grown, of another epoch or another log.

use std::time::Duration;

use super::broker::Broker;
use super::{Start, Variables, settle};
use crate::latest::latest;
use crate::support::waits::until;

/// In the end the copier checks for missing topics every half minute.
const WAIT_MAX: Duration = Duration::from_secs(60);

const APPLY: &str = "run `payfold topics apply`";
const ALTER: &str = "kafka-configs.sh --bootstrap-server";
const RESTORE: &str = "restore the topic from a mirror or backup";
const MOVE: &str = "delete no topic; restore the topics of the log";

const EPOCH_1: Variables = &[("PAYFOLD_KAFKA__EPOCH", "1")];
const PRODUCTION: Variables = &[("PAYFOLD_DEV", "false")];

/// One broken thing: how it is broken, the settings of the start, and the words of the error.
struct Row(&'static str, fn(&Broker), Variables<'static>, &'static [&'static str]);

/// What is broken in topics that `payfold topics apply` made before.
const ALTERED: [Row; 15] = [
    Row(
        "a topic is gone",
        |broker| broker.delete("orders"),
        &[],
        &[".orders: there is no such topic", APPLY],
    ),
    Row(
        "a topic was made by hand",
        |broker| {
            broker.delete("findings");
            broker.make("findings", &[]);
        },
        &[],
        &[".findings: partitions [0, 1] have no marker", APPLY],
    ),
    Row(
        "intake is kept for a week",
        |broker| broker.set("intake", "retention.ms", "604800000"),
        &[],
        &[".intake: retention.ms is 604800000, must be -1", ALTER, "--add-config retention.ms=-1"],
    ),
    Row(
        "intake is kept up to a size",
        |broker| broker.set("intake", "retention.bytes", "1000000000"),
        &[],
        &[".intake: retention.bytes is 1000000000", ALTER, "--add-config retention.bytes=-1"],
    ),
    Row(
        "intake is compacted",
        |broker| broker.set("intake", "cleanup.policy", "compact"),
        &[],
        &[".intake: cleanup.policy is compact", ALTER, "--add-config cleanup.policy=delete"],
    ),
    Row(
        "orders is compacted too",
        |broker| broker.set("orders", "cleanup.policy", "compact,delete"),
        &[],
        &[".orders: cleanup.policy is compact,delete", ALTER, "--add-config cleanup.policy=delete"],
    ),
    Row(
        "what is new begins with would go after a week",
        |broker| broker.set("orders.latest", "cleanup.policy", "delete"),
        &[],
        &[
            ".orders.latest: cleanup.policy is delete, must be compact",
            ALTER,
            "--add-config cleanup.policy=compact",
        ],
    ),
    Row(
        "any replica may become leader",
        |broker| broker.set("quarantine", "unclean.leader.election.enable", "true"),
        &[],
        &[
            ".quarantine: unclean.leader.election.enable is true",
            ALTER,
            "--add-config unclean.leader.election.enable=false",
        ],
    ),
    Row(
        "a codec we have not",
        |broker| broker.set("findings", "compression.type", "zstd"),
        &[],
        &[".findings: compression.type is zstd", ALTER, "--add-config compression.type=producer"],
    ),
    Row(
        "one copy, for money",
        |_| {},
        PRODUCTION,
        &[
            ".intake: replication is 1, must be 3 or more",
            "kafka-reassign-partitions.sh --bootstrap-server",
            "`dev = true`",
            ".quarantine: min.insync.replicas is 1, must be 2 or more",
        ],
    ),
    Row(
        "the epoch is set and not made",
        |_| {},
        EPOCH_1,
        &[".intake.e1: there is no such topic", APPLY],
    ),
    Row(
        "the marker is of another topic",
        |broker| {
            broker.delete("findings");
            broker.make("findings", &[]);
            broker.mark("findings", (7, "orders", 0));
        },
        &[],
        &[".findings: partition 0 has the marker of orders in log epoch 0", RESTORE],
    ),
    Row(
        "the topic is of another log",
        |broker| {
            broker.delete("quarantine");
            broker.make("quarantine", &[]);
            broker.mark("quarantine", (7, "quarantine", 0));
        },
        &[],
        &[".quarantine: partition 0 belongs to log 0707", MOVE],
    ),
    Row(
        "somebody else wrote first",
        |broker| {
            broker.delete("findings");
            broker.make("findings", &[]);
            broker.write("findings", "somebody.else.s", "{}");
        },
        &[],
        &[
            ".findings: partition 0 does not start with a marker",
            "use another prefix, and do not change that topic",
        ],
    ),
    Row(
        "the beginning was removed",
        |broker| {
            broker.write("intake", "anything", "{}");
            broker.remove_first("intake");
        },
        &[],
        &[".intake: partition 0 has lost its messages before offset 1", RESTORE],
    ),
];

#[test]
#[ignore = "nightly: servers"]
fn topics_that_are_not_as_they_must_be_are_refused() {
    let mut failures = Vec::new();
    for Row(what, breaks, variables, words) in ALTERED {
        let Some(start) = Start::new() else { return };
        start.make_topics();
        breaks(&Broker::of(&start));
        let of_row = start.is_refused(variables, words);
        failures.extend(of_row.iter().map(|failure| format!("{what}: {failure}")));
    }
    settle(&failures);
}

#[test]
#[ignore = "nightly: servers"]
fn missing_topics_are_refused() {
    let Some(start) = Start::new() else { return };
    let all = ["intake", "orders", "findings", "quarantine"];
    let all = all.map(|topic| format!(".{topic}: there is no such topic"));
    let mut words = vec![APPLY];
    words.extend(all.iter().map(String::as_str));
    settle(&start.is_refused(&[], &words));
}

/// A process of the old epoch would write where no process reads any more.
#[test]
#[ignore = "nightly: servers"]
fn an_epoch_that_is_over_is_refused_and_so_is_one_without_those_before() {
    let Some(start) = Start::new() else { return };
    start.make_topics();
    start.home.ends(&["topics", "apply"], EPOCH_1, super::REFUSED_MAX).ok();
    let mut failures = start
        .is_refused(&[], &["intake continues in this topic of log epoch 1", "set kafka.epoch = 1"]);
    Broker::of(&start).delete("intake");
    let words = [".intake: there is no such topic, but log epoch 1 follows it", RESTORE];
    failures.extend(start.is_refused(EPOCH_1, &words));
    settle(&failures);
}

/// The program can't read a topic that an administrator compresses with zstd: `topics apply`
/// refuses to mark it, and a start is refused.
#[test]
#[ignore = "nightly: servers"]
fn a_topic_in_a_codec_we_have_not_is_refused_before_and_after() {
    let Some(start) = Start::new() else { return };
    start.make_topics();
    let broker = Broker::of(&start);
    broker.delete("findings");
    broker.make("findings", &[("compression.type", "zstd")]);
    let applied = start.home.payfold(&["topics", "apply"]);
    assert_eq!(applied.code(), 1, "{applied:?}");
    let words = [".findings: compression.type is zstd", "--add-config compression.type=producer"];
    let mut failures = super::missing("apply", &applied.stderr, &words);
    broker.mark("findings", (7, "findings", 0));
    let words =
        [".findings: its messages are compressed with a codec", "compression.type=producer"];
    failures.extend(start.is_refused(&[], &words));
    settle(&failures);
}

/// What `payfold topics apply` does not make, by the variables it is asked with.
const UNMADE: [(Variables, &[&str]); 4] = [
    (
        &[("PAYFOLD_DEV", "false"), ("PAYFOLD_KAFKA__REPLICATION", "1")],
        &["kafka.replication = 1 is below 3", "or `dev = true` for development"],
    ),
    (PRODUCTION, &["kafka.replication is higher than the number of brokers"]),
    (&[("PAYFOLD_KAFKA__PARTITIONS", "0")], &["kafka.partitions = 0: set it to 1 to"]),
    (&[("PAYFOLD_KAFKA__RETENTION_HOURS", "0")], &["kafka.retention_hours = 0"]),
];

#[test]
#[ignore = "nightly: servers"]
fn topics_that_could_not_keep_a_promise_are_not_made() {
    let Some(start) = Start::new() else { return };
    let mut failures = Vec::new();
    for (variables, words) in UNMADE {
        let applied = start.home.ends(&["topics", "apply"], variables, super::REFUSED_MAX);
        failures.extend(super::missing("apply", &applied.stderr, words));
        assert_eq!(applied.code(), 1, "{applied:?}");
    }
    settle(&failures);
}

/// After an upgrade the missing topic is reported, can be made, and prevents no start.
#[test]
#[ignore = "nightly: servers"]
fn a_start_goes_on_without_the_compacted_copy_of_orders() {
    let Some(start) = Start::new() else { return };
    start.make_topics();
    start.make_tables();
    let broker = Broker::of(&start);
    broker.delete("orders.latest");
    let warned = |variables| {
        let check = ["check", "--connect", "--output", "json"];
        let rows = start.home.ends(&check, variables, super::REFUSED_MAX).json();
        let rows = rows.as_array().expect("a list").iter();
        let of_copy = rows.filter(|row| row["detail"].to_string().contains(".orders.latest"));
        of_copy.map(|row| format!("{} {}", row["result"], row["fix"])).collect::<Vec<_>>()
    };
    assert_eq!(warned(&[]), [format!("\"warn\" \"{APPLY}\"")]);
    assert_eq!(warned(&[("PAYFOLD_KAFKA__ORDERS_LATEST", "false")]), [""; 0]);
    let system = start.home.boot();
    let says = || start.home.log().contains("orders.latest: there is no such topic").then_some(());
    until("it says that there is none", WAIT_MAX, says);
    start.make_topics();
    system.payfold(&["demo", "pay", "--count", "2"]).ok();
    let log = start.home.variable("PAYFOLD_LOG").expect("it has a log");
    until("both orders are in it", WAIT_MAX, || (latest(log).len() == 2).then_some(()));
    assert!(start.home.log().contains("orders.latest is kept again"));
}

/// No record moves, so the start is not refused; the operator is warned.
#[test]
#[ignore = "nightly: servers"]
fn added_partitions_are_named_and_do_not_keep_a_process_from_starting() {
    let Some(start) = Start::new() else { return };
    start.make_topics();
    start.make_tables();
    let broker = Broker::of(&start);
    for (topic, partitions) in [("intake", 3), ("orders", 4), ("orders.latest", 3)] {
        broker.grow(topic, partitions);
    }
    start.home.payfold(&["topics", "apply"]).ok();
    let check = ["check", "--connect", "--output", "json"];
    let checked = start.home.ends(&check, &[], super::REFUSED_MAX);
    assert_eq!(checked.code(), 0, "{} {}", checked.stdout, checked.stderr);
    let rows = checked.rows();
    let warned = rows.iter().filter(|row| row["check"] == "topics" && row["result"] == "warn");
    let warned: Vec<_> = warned.map(|row| row["detail"].as_str().unwrap_or_default()).collect();
    let said = [
        ".intake: it was made with 2 partitions and has 3: partition 2 is empty",
        ".orders: it was made with 2 partitions and has 4: partitions 2 and 3 are empty",
        ".orders.latest: it has 3 partitions and orders has 2",
    ];
    for words in said {
        assert!(warned.iter().any(|detail| detail.contains(words)), "{words:?}: {warned:?}");
    }
}
