//! Owns the examples other teams start from (`examples/consumers`): on the real broker, killed in
//! the middle and started again, they end with what the order store has.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;

use crate::latest::{forget_orders, latest};
use crate::rebuild::{wait_for_state, with_reason};
use crate::support::fetched::{made, run};
use crate::support::needs::{self, Need};
use crate::support::pair::Pair;
use crate::support::stack::root;
use crate::support::system::{Done, Home, Process, alone};
use crate::support::waits::{until, until_seen};

/// A killed member's partitions are given away when its session has ended; a rebalance, and a slow
/// machine.
const WAIT_MAX: Duration = Duration::from_secs(120);
const ORDERS: &str = "80";

/// What is kept of an order.
#[derive(Debug, PartialEq, Eq)]
struct Kept {
    version: u64,
    state: String,
    fulfil: bool,
}

type Orders = BTreeMap<String, Kept>;

fn kept(order: &Value) -> Kept {
    Kept {
        version: order["version"].as_u64().expect("a number"),
        state: order["state"].as_str().expect("a text").to_owned(),
        fulfil: order["fulfil"].as_bool().expect("yes or no"),
    }
}

/// One of the examples, ready to be started.
struct Reader {
    name: &'static str,
    program: PathBuf,
    /// What comes before its options: a script, say.
    first: Vec<OsString>,
    home: Rc<Home>,
}

impl Reader {
    /// In a virtual environment with what its requirements name.
    fn python(home: &Rc<Home>) -> Self {
        let source = root().join("examples/consumers/python");
        let place = made("python", &source.join("requirements.txt"), |place| {
            run(Command::new("python3").args(["-m", "venv"]).arg(place));
            let mut pip = Command::new(place.join("bin/pip"));
            run(pip
                .args(["install", "--quiet", "--requirement"])
                .arg(source.join("requirements.txt")));
        });
        let (program, script) = (place.join("bin/python"), source.join("orders.py"));
        Self { name: "python", program, first: vec![script.into()], home: Rc::clone(home) }
    }

    /// The same reader, new: it begins with the last event of every order.
    fn newcomer(home: &Rc<Home>) -> Self {
        let mut reader = Self { name: "newcomer", ..Self::python(home) };
        reader.first.push("--latest".into());
        reader
    }

    /// Compiled from a copy, with what its lock names.
    fn typescript(home: &Rc<Home>) -> Self {
        let source = root().join("examples/consumers/typescript");
        let place = made("typescript", &source.join("package-lock.json"), |place| {
            for file in ["package.json", "package-lock.json", "tsconfig.json"] {
                std::fs::copy(source.join(file), place.join(file)).expect("it can be copied");
            }
            run(Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(place));
        });
        // Its own lines are compiled each time.
        let _ = std::fs::create_dir_all(place.join("src"));
        for file in ["kept.ts", "orders.ts"] {
            let copied = std::fs::copy(source.join("src").join(file), place.join("src").join(file));
            copied.expect("it can be copied");
        }
        run(Command::new("npm").args(["run", "--silent", "build"]).current_dir(&place));
        let script = place.join("dist/orders.js");
        let (program, home) = ("node".into(), Rc::clone(home));
        Self { name: "typescript", program, first: vec![script.into()], home }
    }

    /// Compiled from a copy, with what its project file names.
    fn java(home: &Rc<Home>) -> Self {
        let source = root().join("examples/consumers/java");
        let place = made("java", &source.join("pom.xml"), |place| {
            std::fs::copy(source.join("pom.xml"), place.join("pom.xml")).expect("it can be copied");
            let libraries = "-DoutputDirectory=target/libs";
            run(maven(place).args(["dependency:copy-dependencies", libraries]));
        });
        // Its own lines are compiled each time.
        let classes = "src/main/java/example";
        std::fs::create_dir_all(place.join(classes)).expect("a folder can be made");
        for file in ["Kept.java", "Orders.java"] {
            let file = Path::new(classes).join(file);
            std::fs::copy(source.join(&file), place.join(&file)).expect("it can be copied");
        }
        run(maven(&place).arg("compile"));
        let mut path = place.join("target/classes").into_os_string();
        path.push(":");
        path.push(place.join("target/libs/*"));
        let first = vec!["-cp".into(), path, "example.Orders".into()];
        Self { name: "java", program: "java".into(), first, home: Rc::clone(home) }
    }

    /// As `cargo test` builds it beside the program.
    fn rust(home: &Rc<Home>) -> Self {
        let programs = Path::new(env!("CARGO_BIN_EXE_payfold")).parent().expect("a folder");
        let program = programs.join("examples/orders-reader");
        assert!(
            program.exists(),
            "{} is not there: cargo test --workspace builds it, \
             or cargo build --workspace --examples",
            program.display()
        );
        Self { name: "rust", program, first: Vec::new(), home: Rc::clone(home) }
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.home.path().join(format!("{}.{kind}", self.name))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.first).arg("--state").arg(self.file("state"));
        command.current_dir(self.home.path()).stdin(Stdio::null());
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// Starts it on the topics of this log.
    fn start(&self, log: &str) -> Process {
        let (brokers, prefix) =
            log.strip_prefix("kafka://").and_then(|log| log.split_once('/')).expect("a URL");
        let append = |kind: &str| {
            let options = File::options().create(true).append(true).open(self.file(kind));
            Stdio::from(options.expect("a log file can be opened"))
        };
        let mut command = self.command();
        command.args(["--brokers", brokers, "--prefix", prefix]);
        command.args(["--group", &format!("{prefix}.{}", self.name)]);
        command.stdout(append("out")).stderr(append("err"));
        Process(alone(|| command.spawn()).expect("it can be started"))
    }

    fn text(&self, kind: &str) -> String {
        std::fs::read_to_string(self.file(kind)).unwrap_or_default()
    }

    /// What it keeps, beside itself or without.
    fn kept(&self) -> Orders {
        let mut command = self.command();
        let output = alone(|| command.arg("--show").output()).expect("it can be started");
        let text = String::from_utf8(output.stdout).expect("text");
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.map(|line| (line["order"].as_str().expect("a key").to_owned(), kept(&line))).collect()
    }

    /// Waits until it has printed so many changes.
    fn wait_for_changes(&self, changes: usize) {
        let what = format!("{} prints {changes} changes: {}", self.name, self.text("err"));
        until(&what, WAIT_MAX, || (self.text("out").lines().count() >= changes).then_some(()));
    }
}

fn maven(place: &Path) -> Command {
    let mut command = Command::new("mvn");
    command.args(["--quiet", "--batch-mode"]).current_dir(place);
    command
}

/// Of every order as the store has it what counts, by key.
pub(crate) fn stored<T>(home: &Home, counts: impl Fn(&Value) -> T) -> BTreeMap<String, T> {
    let list = ["order", "list", "--limit", "10000", "--output", "json"];
    let orders = home.payfold(&list).json();
    let key = |order: &Value| {
        let parts = ["partner", "merchantCode", "orderId"];
        parts.map(|part| order[part].as_str().expect("a text").to_owned()).join("/")
    };
    let orders = orders.as_array().expect("a list").iter();
    orders.map(|order| (key(order), counts(order))).collect()
}

/// Checks that all four languages are installed. Errors: the first that is missing.
fn languages() -> Result<(), String> {
    let wanted = [
        ("python3", &["-c", "import ensurepip, venv"][..]),
        ("node", &["--version"]),
        ("npm", &["--version"]),
        ("javac", &["-version"]),
        ("mvn", &["--version"]),
    ];
    for (program, arguments) in wanted {
        let asked = alone(|| Command::new(program).args(arguments).output());
        if !asked.is_ok_and(|output| output.status.success()) {
            return Err(format!("{program} {} fails", arguments.join(" ")));
        }
    }
    Ok(())
}

#[test]
#[ignore = "nightly: servers"]
fn readers_that_are_killed_during_a_rebuild_end_as_the_store_does() {
    let Some(home) = Pair::KafkaAndCql.home() else { return };
    if needs::require(Need::Languages, languages()).is_none() {
        return;
    }
    let readers = [Reader::python, Reader::typescript, Reader::java, Reader::rust];
    let readers = readers.map(|reader| reader(&home));
    let log = home.variable("PAYFOLD_LOG").expect("it has a log").to_owned();
    let _system = home.boot();
    let mut running: Vec<Process> = readers.iter().map(|reader| reader.start(&log)).collect();
    let mut kill_all = |changes: usize| {
        for (reader, running) in readers.iter().zip(&mut running) {
            reader.wait_for_changes(changes);
            running.kill();
            *running = reader.start(&log);
        }
    };
    let pay = ["demo", "pay", "--count", ORDERS, "--trouble", "all", "--seed", "11"];
    let mut paying = Process(home.spawn(&pay, &[], Stdio::null));
    kill_all(20);
    // Orders that are refunded in full stay PAID by the rule that is broken on purpose, so orders
    // change with the switch.
    with_reason(&home, &["start", "--drill"]).ok();
    kill_all(60);
    assert!(paying.0.wait().expect("it ends").success());
    let before = stored(&home, kept);
    assert!(before.len() >= 80, "{}", before.len());
    until_seen("the switch is let through", WAIT_MAX, || {
        let Done { status, stderr, .. } = with_reason(&home, &["switch"]);
        // Decided by a call before this one that ended at its timeout.
        let is_decided = |says: &&str| stderr.contains(*says);
        let decided = ["there is no new build", "is not complete in every partition yet"];
        let is_done = status.success() || decided.iter().any(is_decided);
        if is_done { Ok(()) } else { Err(stderr) }
    });
    kill_all(60);
    wait_for_state(&home, 2, "live");
    let end_as_the_store_does = |readers: &[Reader]| {
        for reader in readers {
            let what = format!("{} has what the store has", reader.name);
            until(&what, WAIT_MAX, || (reader.kept() == stored(&home, kept)).then_some(()));
            assert!(!reader.text("err").contains("gap:"), "{}", reader.text("err"));
        }
    };
    end_as_the_store_does(&readers);
    let after = stored(&home, kept);
    assert!(
        after.iter().any(|(key, order)| order.state == "PAID" && before[key].state == "REFUNDED")
    );
    with_reason(&home, &["rollback"]).ok();
    kill_all(60);
    wait_for_state(&home, 1, "live");
    end_as_the_store_does(&readers);
    assert_eq!(stored(&home, kept), before);

    until("the last event of every order is copied", WAIT_MAX, || {
        let latest = latest(&log);
        before
            .iter()
            .all(|(key, order)| Some(order.version) == latest.get(key).map(|one| one.1))
            .then_some(())
    });
    forget_orders(&log);
    let newcomer = [Reader::newcomer(&home)];
    let _new = newcomer[0].start(&log);
    end_as_the_store_does(&newcomer);
}
