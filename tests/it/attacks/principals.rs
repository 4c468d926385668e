//! An insider with the password of one role, on a cluster that checks permissions: each role is
//! allowed what it does, by the ACLs that `payfold topics acls` prints, and no more.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use payfold_engines::log::kafka::{KafkaLog, KafkaLogin, KafkaSettings, Observers};
use payfold_engines::log::walk::Walk;
use payfold_engines::log::{Authenticity, EventLog, Message, Topic};
use payfold_schemas::record_mac::Writer;
use serde_json::Value;

use crate::latest::latest;
use crate::support::demo::Demo;
use crate::support::macs::as_role;
use crate::support::notice::Notice;
use crate::support::pair::runtime;
use crate::support::stack::{self, Stack};
use crate::support::system::{Home, System};
use crate::support::waits::until;

const WAIT_MAX: Duration = Duration::from_secs(60);
const NAME: &str = "allowed";

/// The topics that each role may write.
const WRITES: [(&str, &[Topic]); 4] = [
    ("ingest", &[Topic::Intake, Topic::Quarantine]),
    ("checkout", &[Topic::Intake, Topic::Findings]),
    ("projector", &[Topic::Intake, Topic::Orders, Topic::Findings]),
    ("reconciler", &[Topic::Intake, Topic::Findings]),
];

/// Servers that check who may do what, and a folder with commands of the operator.
struct Cluster {
    stack: Stack,
    home: Rc<Home>,
}

impl Cluster {
    fn start() -> Self {
        let flags = ["--brokers", "1", "--cassandra", "1", "--cassandra-sync", "batch", "--secure"];
        let stack = Stack::start(&flags);
        let said = |name: &str| text(&stack.description[name]).to_owned();
        let home = Home::new();
        for (file, name) in [("kafka.password", "password"), ("cql.password", "cqlPassword")] {
            home.write(file, &said(name));
            let only_ours = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(home.path().join(file), only_ours).expect("it is ours");
        }
        let orders = format!("cql+ssl://{}/{NAME}", stack.cql[0]);
        let environment = vec![
            ("PAYFOLD_LOG", format!("kafka+ssl://{}/{NAME}", said("kafkaSecure"))),
            ("PAYFOLD_ORDERS", orders),
            ("PAYFOLD_DEV", "true".to_owned()),
            ("PAYFOLD_PUBLIC_URL", "http://127.0.0.1:9".to_owned()),
            ("PAYFOLD_KAFKA__PARTITIONS", "2".to_owned()),
            ("PAYFOLD_KAFKA__CA_FILE", said("ca")),
            ("PAYFOLD_KAFKA__USERNAME", principal("operator")),
            ("PAYFOLD_KAFKA__PASSWORD_FILE", home.file("kafka.password")),
            ("PAYFOLD_CQL__CA_FILE", said("ca")),
            ("PAYFOLD_CQL__USERNAME", said("cqlUser")),
            ("PAYFOLD_CQL__PASSWORD_FILE", home.file("cql.password")),
        ];
        Self { stack, home: Home::within(environment, Some(Box::new(home))) }
    }

    /// Runs the commands that payfold prints, with the tool of the servers.
    fn allow(&self) {
        let tool = stack::root().join("deploy/dev-stack/dev-stack");
        let tool = format!("'{}' kafka acls", tool.display());
        let script = self.home.payfold(&["topics", "acls"]).ok().replace("kafka-acls.sh", &tool);
        let mut shell = Command::new("sh")
            .args(["-e", "-s", "--", "--bootstrap-server", &self.stack.kafka[0]])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a shell");
        let mut input = shell.stdin.take().expect("it was piped");
        input.write_all(script.as_bytes()).expect("it reads");
        drop(input);
        assert!(shell.wait().expect("it ends").success(), "{script}");
    }

    fn boot(&self, role: &str) -> System {
        self.home.boot_as(role, &[("PAYFOLD_KAFKA__USERNAME", &principal(role))])
    }

    /// The log, by the other listener, at which these brokers allow everything.
    fn plain_url(&self) -> String {
        format!("kafka://{}/{NAME}", self.stack.kafka[0])
    }

    /// The log as somebody with the password of a role opens it.
    fn as_insider(&self, role: &str) -> KafkaSettings {
        let url = self.home.variable("PAYFOLD_LOG").expect("it has one");
        let login = KafkaLogin {
            mechanism: "SCRAM-SHA-512".to_owned(),
            username: principal(role),
            password: text(&self.stack.description["password"]).to_owned().into(),
        };
        let ca = text(&self.stack.description["ca"]);
        let settings = KafkaSettings::parse_url(url).expect("it is a URL");
        KafkaSettings { ca_file: Some(ca.into()), login: Some(login), ..settings }
    }

    /// Who wrote to which topic.
    fn writers(&self) -> BTreeSet<(Topic, Writer)> {
        runtime().block_on(async {
            let plain = KafkaSettings::parse_url(&self.plain_url()).expect("it is a URL");
            let raw = KafkaLog::open_read_only(&plain).await.expect("it opens");
            let log = as_role(&self.home, Arc::new(raw), Writer::Operator);
            let mut found = BTreeSet::new();
            for topic in Topic::ALL {
                let mut walk = Walk::to_the_end(&*log, topic).await.expect("it can be read");
                while let Some(page) = walk.next(100).await.expect("it can be read") {
                    found.extend(page.iter().filter_map(|one| match one.authenticity {
                        Authenticity::Authentic(writer) => Some((topic, writer)),
                        _ => None,
                    }));
                }
            }
            found
        })
    }
}

fn principal(role: &str) -> String {
    format!("payfold-{role}")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

#[test]
fn the_commands_are_printed_without_a_cluster() {
    let home = Home::new();
    home.payfold(&["topics", "acls"]).fails(&["the engines are SQLite files"]);
    let home = Home::within(vec![("PAYFOLD_LOG", "kafka://127.0.0.1:9/p".to_owned())], None);
    let acls = |principal| home.payfold(&["topics", "acls", "--principal", principal]);
    for wrong in ["User:payfold", "User:{role}'"] {
        acls(wrong).fails(&["is not the name of a principal for each role"]);
    }
    let script = acls("User:CN={role}").ok();
    let writes = |line: &&str| line.contains("'Write'") && line.contains("'p.quarantine'");
    let lines: Vec<&str> = script.lines().filter(writes).collect();
    assert!(lines.len() == 2 && lines[0].contains("'User:CN=ingest'"), "{script}");
    assert!(lines[1].contains("'User:CN=operator'") && !script.contains("payfold-"), "{script}");
}

#[test]
#[ignore = "nightly: servers"]
fn each_role_is_allowed_what_it_does_and_no_more() {
    if !stack::is_available() {
        return;
    }
    let cluster = Cluster::start();
    let home = &cluster.home;
    home.payfold(&["topics", "apply"]).fails(&["Topic authorization failed"]);
    cluster.allow();
    for command in [&["topics", "apply"][..], &["schema", "apply"], &["log", "verify"]] {
        home.payfold(command).ok();
    }
    let [ingest, checkout] = ["ingest", "checkout"].map(|role| Demo::of(cluster.boot(role)));
    for _ in ["keys", "baseline"] {
        home.payfold(&["log", "baseline", "--yes"]).ok();
    }
    let [projector, reconciler] = ["projector", "reconciler"].map(|role| cluster.boot(role));
    everything_is_done((&ingest, &checkout), (&projector, &reconciler));
    until("the newest events are copied", WAIT_MAX, || {
        (latest(&cluster.plain_url()).len() == 3).then_some(())
    });
    for system in [ingest.system, checkout.system, projector, reconciler] {
        let (_, status) = system.stop();
        assert!(status.success(), "{}", home.log());
    }
    let log = home.log().to_lowercase();
    assert!(!log.contains("authoriz"), "{}", home.log());
    home.payfold(&["log", "verify"]).ok();
    let wanted = [
        (Topic::Intake, Writer::Checkout),
        (Topic::Intake, Writer::Ingest),
        (Topic::Intake, Writer::Projector),
        (Topic::Intake, Writer::Reconciler),
        (Topic::Orders, Writer::Projector),
        (Topic::Findings, Writer::Reconciler),
        (Topic::Findings, Writer::Operator),
        (Topic::Quarantine, Writer::Ingest),
    ];
    assert_eq!(cluster.writers(), wanted.into());
    for (role, topics) in WRITES {
        writes_only(&cluster.as_insider(role), role, topics);
    }
}

/// Each role does what it writes to the log for.
fn everything_is_done(
    (ingest, checkout): (&Demo, &Demo),
    (projector, reconciler): (&System, &System),
) {
    let [order, provider_ref] = checkout.open_order();
    let key = ["sandbox", "DEMO", &order];
    ingest.pay(&order, &provider_ref);
    let stale = Notice::paid("DEMO", &order, &provider_ref).sent(-100_000).signed(&ingest.secret);
    assert_eq!(ingest.system.post_ipn(&stale).status, 403);
    // The reconciler finds that both have one ref.
    for order in ["x-1", "x-2"] {
        ingest.pay(order, "shared");
    }
    let at = |system: &System, arguments: &[&str]| {
        let url = format!("http://{}", system.admin());
        system.payfold(&[&["--admin-url", &url][..], arguments].concat())
    };
    let order_when = |key: [&str; 3], is: &dyn Fn(&Value) -> bool| {
        until("an order is as it must be", WAIT_MAX, || {
            let show = [&["order", "show"][..], &key, &["--output", "json"]].concat();
            let shown = at(projector, &show);
            (shown.status.success() && is(&shown.json())).then_some(())
        });
    };
    order_when(key, &|order| order["state"] == "PAID");
    order_when(["sandbox", "DEMO", "x-1"], &|order| order["flags"].to_string().contains("REF"));
    let show = [&["order", "show"][..], &key, &["--facts", "--raw", "--reason", "to see"]].concat();
    at(reconciler, &show).ok();
    reconciler.payfold(&["token", "add", "ann", "--role", "finance"]).ok();
    until("the token is recorded", WAIT_MAX, || {
        let rows = at(reconciler, &["token", "list", "--output", "json"]).rows();
        rows.iter().any(|row| row["name"] == "ann" && row["recordedAt"].is_string()).then_some(())
    });
    at(projector, &["rebuild", "start", "--reason", "to try"]).ok();
    for (state, next) in [("ready", Some("switch")), ("live", None)] {
        until(&format!("build 2 is {state}"), WAIT_MAX, || {
            let rows = at(projector, &["rebuild", "status", "--output", "json"]).rows();
            rows.iter().any(|row| row["build"] == 2 && row["state"] == state).then_some(())
        });
        if let Some(next) = next {
            at(projector, &["rebuild", next, "--reason", "to try"]).ok();
        }
    }
}

/// With the password of a role these topics can be written, and no other.
fn writes_only(settings: &KafkaSettings, role: &str, topics: &[Topic]) {
    runtime().block_on(async {
        let log = KafkaLog::open(settings, Observers::default()).await.expect("it opens");
        for topic in Topic::ALL {
            let junk =
                Message { key: "k".to_owned(), event: None, value: b"junk".to_vec(), mac: None };
            let written = log.append(topic, junk).await;
            assert_eq!(written.is_ok(), topics.contains(&topic), "{role} {topic:?}: {written:?}");
        }
        log.close().await.expect("it closes");
    });
}
