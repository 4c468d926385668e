//! Owns the real servers that tests run against: Kafka and a CQL database. They are found in this
//! order: the addresses in `PAYFOLD_TEST_KAFKA` and `PAYFOLD_TEST_CQL`; Docker Compose; jars.
//! `deploy/dev-stack` chooses between the last two. It is started once per test binary and ends
//! with it, also if the binary is killed, because its standard input closes. The database is
//! ScyllaDB in containers and Cassandra from jars. Without servers, and with
//! `PAYFOLD_TEST_ENGINES=embedded`, tests that need them are listed as not run; under CI they fail.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock};

use serde_json::Value;

use crate::knobs;
use crate::needs::{self, Need};

/// Running servers.
pub struct Stack {
    /// The addresses of the brokers, `host:port`.
    pub kafka: Vec<String>,
    /// The advertised addresses of the brokers with `--detour`, at which a test puts a proxy; empty
    /// without it.
    pub kafka_detour: Vec<String>,
    /// The addresses of the database nodes, `host:port`.
    pub cql: Vec<String>,
    /// The dev stack's JSON description of itself; with `--secure` it has users, passwords and
    /// trusted certificates.
    pub description: Value,
    /// `None` if the servers are not run by this test binary.
    control: Option<Mutex<DevStackProcess>>,
}

/// The dev stack's process with its input and output.
struct DevStackProcess {
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    _child: Child,
}

/// Whether real servers are available. If not, notes the test as not run. Panics under CI.
pub fn is_available() -> bool {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    needs::require(Need::Servers, FOUND.get_or_init(find_servers).clone()).is_some()
}

/// Checks whether there are servers to test with. Errors: why there are none.
fn find_servers() -> Result<(), String> {
    if knobs::embedded_only() {
        return Err("PAYFOLD_TEST_ENGINES=embedded leaves them out".to_owned());
    }
    if knobs::test_kafka().is_some() {
        return Ok(());
    }
    let doctor = Command::new(script_path()).arg("doctor").stdin(Stdio::null()).output();
    match doctor {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let (report, errors) =
                (String::from_utf8_lossy(&output.stdout).into_owned(), output.stderr);
            let missing = report.lines().filter(|line| line.contains("MISSING"));
            let missing: Vec<_> =
                missing.filter_map(|line| line.split_whitespace().next()).collect();
            if missing.is_empty() {
                // The script did not start, because Python is missing.
                return Err(String::from_utf8_lossy(&errors).trim().to_owned());
            }
            let all = missing.join(", ");
            Err(format!(
                "missing: {all} (deploy/dev-stack/dev-stack doctor says how to install it)"
            ))
        }
        Err(error) => Err(format!("{} does not start: {error}", script_path().display())),
    }
}

fn script_path() -> PathBuf {
    root().join("deploy/dev-stack/dev-stack")
}

/// One broker and one database node, shared by all tests of this binary.
pub fn shared() -> &'static Stack {
    static STACK: OnceLock<Stack> = OnceLock::new();
    STACK.get_or_init(|| {
        servers_from_environment().unwrap_or_else(|| {
            Stack::start(&["--brokers", "1", "--cassandra", "1", "--cassandra-sync", "batch"])
        })
    })
}

/// The address of one broker, for tests that need only a broker.
pub fn broker() -> String {
    static STACK: OnceLock<Stack> = OnceLock::new();
    let stack = STACK.get_or_init(|| match knobs::test_kafka() {
        Some(kafka) => Stack {
            kafka: vec![kafka],
            kafka_detour: Vec::new(),
            cql: Vec::new(),
            description: Value::Null,
            control: None,
        },
        None => Stack::start(&["--brokers", "1", "--cassandra", "0"]),
    });
    stack.kafka[0].clone()
}

/// The servers named in the environment.
fn servers_from_environment() -> Option<Stack> {
    let list = |text: String| text.split(',').map(str::to_owned).collect();
    let (kafka, cql) = (knobs::test_kafka()?, knobs::test_cql()?);
    let (kafka, cql) = (list(kafka), list(cql));
    Some(Stack { kafka, kafka_detour: Vec::new(), cql, description: Value::Null, control: None })
}

impl Stack {
    /// Starts a separate dev stack.
    pub fn start(flags: &[&str]) -> Self {
        let script = script_path();
        let mut child = Command::new(&script)
            .arg("up")
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", script.display()));
        let commands = child.stdin.take().expect("it was piped");
        let mut answers = BufReader::new(child.stdout.take().expect("it was piped"));
        let mut line = String::new();
        answers.read_line(&mut line).expect("the dev stack's output can be read");
        assert!(
            !line.is_empty(),
            "the dev stack did not start, although its doctor found everything it needs; its \
             output is above. PAYFOLD_TEST_ENGINES=embedded leaves out the tests that need it"
        );
        let up: Value = serde_json::from_str(&line).expect("one JSON object");
        let list = |name: &str| {
            let all = up[name].as_array().cloned().unwrap_or_default();
            all.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
        };
        let control = DevStackProcess { commands, answers, _child: child };
        let (kafka, kafka_detour, cql) = (list("kafka"), list("kafkaDetour"), list("cql"));
        let control = Some(Mutex::new(control));
        Self { kafka, kafka_detour, cql, description: up, control }
    }

    /// Sends a command to the dev stack: kill, stop, start, pause or resume a server. Returns once
    /// it is done.
    pub fn send_command(&self, command: &str) {
        let control =
            self.control.as_ref().expect("commands need a dev stack that the tests started");
        let mut control = control.lock().expect("no test panics while it holds the lock");
        writeln!(control.commands, "{command}").expect("the dev stack reads commands");
        let mut line = String::new();
        control.answers.read_line(&mut line).expect("the dev stack answers");
        let answer: Value = serde_json::from_str(&line).expect("one JSON object");
        assert_eq!(answer["ok"], Value::Bool(true), "{command}: {answer}");
    }
}

/// The repository's root.
pub fn root() -> PathBuf {
    let mut folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    while !folder.join("deploy").is_dir() {
        assert!(folder.pop(), "the tests run inside the repository");
    }
    folder
}
