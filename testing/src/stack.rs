//! Owns the real servers the tests run against: Kafka and a CQL database.
//! Found in this order: addresses in `PAYFOLD_TEST_KAFKA` and `PAYFOLD_TEST_CQL`; Docker compose; jars. The last two
//! are `deploy/dev-stack`'s choice, which is started once per test binary and ends with it, also when it is killed (its
//! standard input closes). The database is ScyllaDB in containers, Cassandra from jars.
//! Where there are none, and with `PAYFOLD_TEST_ENGINES=embedded`, what needs them is not run, and is said to be; never under
//! CI.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock};

use serde_json::Value;

use crate::knobs;
use crate::needs::{self, Need};

/// Servers that are up.
pub struct Stack {
    /// Brokers, `host:port`.
    pub kafka: Vec<String>,
    /// The same behind whatever listens at the ports they were told to advertise; empty without `--detour`.
    pub kafka_detour: Vec<String>,
    /// Database nodes, `host:port`.
    pub cql: Vec<String>,
    /// All that a dev stack said of itself: with `--secure` also users, passwords and whom to trust.
    pub said: Value,
    /// None where somebody else runs them.
    control: Option<Mutex<Control>>,
}

/// The dev stack, and how it is spoken to.
struct Control {
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    _child: Child,
}

/// Whether the tests that need real servers run. Panics under CI if they can't.
pub fn wanted() -> bool {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    needs::met(Need::Servers, FOUND.get_or_init(found).clone()).is_some()
}

/// Errors: why there are no servers to test with.
fn found() -> Result<(), String> {
    if knobs::embedded_only() {
        return Err("PAYFOLD_TEST_ENGINES=embedded leaves them out".to_owned());
    }
    if knobs::test_kafka().is_some() {
        return Ok(());
    }
    let asked = Command::new(script()).arg("doctor").stdin(Stdio::null()).output();
    match asked {
        Ok(said) if said.status.success() => Ok(()),
        Ok(said) => {
            let (said, said_wrong) =
                (String::from_utf8_lossy(&said.stdout).into_owned(), said.stderr);
            let missing = said.lines().filter(|line| line.contains("MISSING"));
            let missing: Vec<_> =
                missing.filter_map(|line| line.split_whitespace().next()).collect();
            if missing.is_empty() {
                // It could not even begin, for want of Python.
                return Err(String::from_utf8_lossy(&said_wrong).trim().to_owned());
            }
            let all = missing.join(", ");
            Err(format!("missing: {all} (deploy/dev-stack/dev-stack doctor says how to mend it)"))
        }
        Err(error) => Err(format!("{} does not start: {error}", script().display())),
    }
}

fn script() -> PathBuf {
    root().join("deploy/dev-stack/dev-stack")
}

/// One broker and one database node, for all tests of this binary.
pub fn shared() -> &'static Stack {
    static STACK: OnceLock<Stack> = OnceLock::new();
    STACK.get_or_init(|| {
        given().unwrap_or_else(|| {
            Stack::start(&["--brokers", "1", "--cassandra", "1", "--cassandra-sync", "batch"])
        })
    })
}

/// One broker, for tests that need nothing else.
pub fn broker() -> String {
    static STACK: OnceLock<Stack> = OnceLock::new();
    let stack = STACK.get_or_init(|| match knobs::test_kafka() {
        Some(kafka) => Stack {
            kafka: vec![kafka],
            kafka_detour: Vec::new(),
            cql: Vec::new(),
            said: Value::Null,
            control: None,
        },
        None => Stack::start(&["--brokers", "1", "--cassandra", "0"]),
    });
    stack.kafka[0].clone()
}

/// What the environment names.
fn given() -> Option<Stack> {
    let list = |text: String| text.split(',').map(str::to_owned).collect();
    let (kafka, cql) = (knobs::test_kafka()?, knobs::test_cql()?);
    let (kafka, cql) = (list(kafka), list(cql));
    Some(Stack { kafka, kafka_detour: Vec::new(), cql, said: Value::Null, control: None })
}

impl Stack {
    /// Starts a dev stack of its own.
    pub fn start(flags: &[&str]) -> Self {
        let script = script();
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
            "the dev stack did not start, and should have, by its own doctor; what it said is above. \
             PAYFOLD_TEST_ENGINES=embedded leaves out the tests that need it"
        );
        let up: Value = serde_json::from_str(&line).expect("one JSON object");
        let list = |name: &str| {
            let all = up[name].as_array().cloned().unwrap_or_default();
            all.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
        };
        let control = Control { commands, answers, _child: child };
        let (kafka, kafka_detour, cql) = (list("kafka"), list("kafkaDetour"), list("cql"));
        let control = Some(Mutex::new(control));
        Self { kafka, kafka_detour, cql, said: up, control }
    }

    /// Tells the dev stack to kill, stop, start, pause or resume a server; returns when it has.
    pub fn tell(&self, command: &str) {
        let control = self.control.as_ref().expect("only a stack of the tests' own is disturbed");
        let mut control = control.lock().expect("no test panics while it speaks");
        writeln!(control.commands, "{command}").expect("the dev stack listens");
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
