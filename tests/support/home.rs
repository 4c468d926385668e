//! Owns the folder a user works in, and what is run there.

use std::any::Any;
use std::io::{Read, read_to_string};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::waits::until;

/// `payfold run` with listeners on ports that are chosen anew each time.
pub const RUN: [&str; 11] = [
    "run",
    "--listen-public",
    "127.0.0.1:0",
    "--listen-shop",
    "127.0.0.1:0",
    "--listen-admin",
    "127.0.0.1:0",
    "--listen-console",
    "127.0.0.1:0",
    "--listen-sandbox",
    "127.0.0.1:0",
];

/// Sends a signal to a process by system call: a machine may have no `kill` program. Errors: the
/// process has ended.
pub fn send_signal(pid: u32, signal: Signal) -> rustix::io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(pid, signal)
}

/// Keeps programs from being started while something is done.
static STARTS: Mutex<()> = Mutex::new(());

/// Runs what takes a lock file or starts a program, one caller at a time. A program that is being
/// started holds the lock files of this process until it replaces itself.
pub fn alone<T>(act: impl FnOnce() -> T) -> T {
    let _alone = STARTS.lock().unwrap_or_else(PoisonError::into_inner);
    act()
}

/// A child that is never left behind.
pub struct Process(pub Child);

impl Process {
    /// SIGKILL; returns when it is gone.
    pub fn kill(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a command did.
#[derive(Debug)]
pub struct Done {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Done {
    /// The exit code.
    pub fn code(&self) -> i32 {
        self.status.code().expect("the command was not killed")
    }

    /// Its output, once it has succeeded.
    pub fn ok(self) -> String {
        let Self { status, stdout, stderr } = &self;
        assert!(status.success(), "{status}\n{stdout}\n{stderr}");
        self.stdout
    }

    /// Asserts that it ended with 1, and said these words.
    #[track_caller]
    pub fn fails(&self, words: &[&str]) {
        assert_eq!(self.code(), 1, "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "{word}: {self:?}");
        }
    }

    /// Its output as JSON.
    pub fn json(self) -> Value {
        serde_json::from_str(&self.ok()).expect("the output is JSON")
    }

    /// Its output as a list in JSON, whatever its exit code.
    pub fn rows(&self) -> Vec<Value> {
        serde_json::from_str(&self.stdout).expect("the output is a list in JSON")
    }

    /// Its output as one JSON value a line.
    pub fn json_lines(self) -> Vec<Value> {
        let text = self.ok();
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }
}

/// A folder a user works in: configuration, data folder, logs. It outlives the processes that run
/// on it.
pub struct Home {
    dir: TempDir,
    environment: Vec<(&'static str, String)>,
    /// What ends with it.
    _guest: Option<Box<dyn Any>>,
}

impl Home {
    /// An empty one: a demo, if it is booted as it is.
    pub fn new() -> Rc<Self> {
        Self::within(Vec::new(), None)
    }

    /// A folder with commands that get these variables; a guest ends with it.
    pub fn within(
        environment: Vec<(&'static str, String)>,
        guest: Option<Box<dyn Any>>,
    ) -> Rc<Self> {
        let dir = TempDir::new().expect("a temporary folder can be made");
        Rc::new(Self { dir, environment, _guest: guest })
    }

    /// One with a `payfold.toml`.
    pub fn configured(payfold_toml: &str) -> Rc<Self> {
        let home = Self::new();
        home.write("payfold.toml", payfold_toml);
        home
    }

    /// One with what opens the vault of a demo, and nothing else.
    pub fn with_keys_of(demo: &Self) -> Rc<Self> {
        let home = Self::new();
        std::fs::create_dir(home.data()).expect("it is new");
        for file in ["vault.key", "sandbox.key", "admin.token", "demo.key"] {
            std::fs::copy(demo.data().join(file), home.data().join(file)).expect("a demo has it");
        }
        home
    }

    /// Puts a file into it.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).expect("the folder can be written");
    }

    /// The text of one of its files.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).expect("it is there")
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The path of one of its files, as an argument.
    pub fn file(&self, name: &str) -> String {
        self.path().join(name).display().to_string()
    }

    /// A variable its commands have.
    pub fn variable(&self, name: &str) -> Option<&str> {
        let mut all = self.environment.iter();
        all.find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// A file of the data folder, without the blanks at its end: a key of a demo, say.
    pub fn data_file(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.data().join(name)).expect("the demo made it");
        text.trim().to_owned()
    }

    /// Takes the order store away; the next start folds the log anew.
    pub fn remove_orders(&self) {
        for file in ["orders.db", "orders.db-wal", "orders.db-shm"] {
            let _ = std::fs::remove_file(self.data().join(file));
        }
    }

    /// What the processes here wrote to standard error.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path().join("stderr")).unwrap_or_default()
    }

    /// The same, once it has these words: a line may be written behind what a test has seen.
    pub fn log_with(&self, words: &str) -> String {
        until(&format!("{words:?} is logged"), Duration::from_secs(10), || {
            Some(self.log()).filter(|log| log.contains(words))
        })
    }

    /// What they printed.
    pub fn printed(&self) -> String {
        std::fs::read_to_string(self.path().join("stdout")).unwrap_or_default()
    }

    /// `payfold …` in this folder, without the test's own environment.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_payfold"));
        command.args(arguments).arg("--data").arg(self.data());
        command.current_dir(self.path()).env_clear().stdin(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts a command with settings in its environment; what it prints goes there.
    pub fn spawn(
        &self,
        arguments: &[&str],
        environment: &[(&str, &str)],
        output: fn() -> Stdio,
    ) -> Child {
        let mut command = self.command(arguments);
        command.envs(environment.iter().copied()).stdout(output()).stderr(output());
        alone(|| command.spawn()).expect("the program can be started")
    }

    /// Runs a command to its end.
    pub fn payfold(&self, arguments: &[&str]) -> Done {
        self.payfold_with(arguments, &[])
    }

    /// The same, with settings in its environment.
    pub fn payfold_with(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Done {
        let output = self.spawn(arguments, environment, Stdio::piped).wait_with_output();
        let output = output.expect("it is our child");
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        Done { status: output.status, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Every message of a topic.
    pub fn tail(&self, topic: &str) -> Vec<Value> {
        self.payfold(&["tail", topic, "--no-follow", "--output", "jsonl"]).json_lines()
    }

    /// Runs a command that has to end by itself, with settings in its environment; it is killed if
    /// it goes on.
    pub fn ends(
        &self,
        arguments: &[&str],
        environment: &[(&str, &str)],
        time_max: Duration,
    ) -> Done {
        let mut process = Process(self.spawn(arguments, environment, Stdio::piped));
        let what = format!("{} {environment:?} ends", arguments.join(" "));
        let status = until(&what, time_max, || process.0.try_wait().expect("it is our child"));
        let (stdout, stderr) = (text(&mut process.0.stdout), text(&mut process.0.stderr));
        Done { status, stdout, stderr }
    }

    /// Gives a partner's account a key with this secret; what the command prints.
    pub fn add_key(&self, partner: &str, secret: &str, more: &[&str]) -> String {
        self.write("secret.txt", &format!("text:{secret}\n"));
        let add = ["key", "add", partner, "--secret-file", "secret.txt"];
        self.payfold(&[&add[..], more].concat()).ok()
    }

    /// The file of a new admin token, which a running system gets to know soon.
    pub fn token_file(&self, name: &str, role: &str) -> String {
        let token = self.payfold(&["token", "add", name, "--role", role]).ok();
        let file = format!("{name}.token");
        self.write(&file, token.trim());
        self.file(&file)
    }

    /// Makes a shop that may use this account; its token.
    pub fn add_shop(&self, account: &str) -> String {
        let printed = self.payfold(&["shop", "add", "web", "--account", account]).ok();
        printed.split_whitespace().last().expect("a token").to_owned()
    }
}

fn text(pipe: &mut Option<impl Read>) -> String {
    read_to_string(pipe.as_mut().expect("it was piped")).expect("output is UTF-8")
}
