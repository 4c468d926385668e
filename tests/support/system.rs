//! Owns a booted system: the real binary on port 0 in a folder of its own, as a user starts it,
//! killed on drop.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::any::Any;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::waits::{until, within};
use super::wire::{Answer, Connection, post_request};

const BOOT_MAX: Duration = Duration::from_secs(60);
const STOP_MAX: Duration = Duration::from_secs(25);

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

/// A folder a user works in: configuration, data folder, logs. It outlives the processes that run
/// on it.
pub struct Home {
    dir: TempDir,
    environment: Vec<(&'static str, String)>,
    /// What ends with it.
    _guest: Option<Box<dyn Any>>,
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

    /// Its output as JSON.
    pub fn json(self) -> Value {
        serde_json::from_str(&self.ok()).expect("the output is JSON")
    }

    /// Its output as one JSON value a line.
    pub fn json_lines(self) -> Vec<Value> {
        let text = self.ok();
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }
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

    /// Puts a file into it.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).expect("the folder can be written");
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
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

    /// Runs a command to its end.
    pub fn payfold(&self, arguments: &[&str]) -> Done {
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = alone(|| command.spawn()).expect("the program can be started");
        let output = child.wait_with_output().expect("it is our child");
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        Done { status: output.status, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Runs a command that has to end by itself, with settings in its environment; it is killed if
    /// it goes on.
    pub fn ends(
        &self,
        arguments: &[&str],
        environment: &[(&str, &str)],
        time_max: Duration,
    ) -> Done {
        let mut command = self.command(arguments);
        command.envs(environment.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = alone(|| command.spawn()).expect("the program can be started");
        let mut process = Process(child);
        let what = format!("{} {environment:?} ends", arguments.join(" "));
        let status = until(&what, time_max, || process.0.try_wait().expect("it is our child"));
        let text = |pipe: Option<&mut dyn Read>| {
            let mut text = String::new();
            pipe.expect("it was piped").read_to_string(&mut text).expect("output is UTF-8");
            text
        };
        let stdout = text(process.0.stdout.as_mut().map(|pipe| pipe as &mut dyn Read));
        let stderr = text(process.0.stderr.as_mut().map(|pipe| pipe as &mut dyn Read));
        Done { status, stdout, stderr }
    }

    /// Boots the system on this folder; its addresses are chosen anew each time.
    pub fn boot(self: &Rc<Self>) -> System {
        self.boot_as("all", &[])
    }

    /// The same with these roles, and settings in its environment.
    pub fn boot_as(self: &Rc<Self>, roles: &str, environment: &[(&str, &str)]) -> System {
        let append = |name: &str| {
            let options = File::options().create(true).append(true).open(self.path().join(name));
            Stdio::from(options.expect("a log file can be opened"))
        };
        let any = "127.0.0.1:0";
        let listen = ["--listen-public", "--listen-shop", "--listen-admin", "--listen-sandbox"];
        let mut command = self.command(&["run", "--roles", roles]);
        command.args(listen.iter().flat_map(|flag| [*flag, any]));
        command.envs(environment.iter().copied());
        command.stdout(append("stdout")).stderr(append("stderr"));
        let child = alone(|| command.spawn());
        let mut process = Process(child.expect("the program can be started"));
        let run = until("the system boots", BOOT_MAX, || {
            let ended = process.0.try_wait().expect("it is our child");
            assert!(ended.is_none(), "it ended with {ended:?}: {}", self.log());
            self.run_file_of(process.0.id())
        });
        let address = |name: &str| {
            let url = run[name].as_str().and_then(|url| url.strip_prefix("http://"));
            url.expect("a URL").parse().expect("an address")
        };
        let (public, admin) = (address("public_url"), address("admin_url"));
        let system = System { home: Rc::clone(self), process, public, admin, run };
        let ready = || Some(()).filter(|()| system.get("/readyz").status == 200);
        until("the system is ready", BOOT_MAX, ready);
        system
    }

    /// The run file, if that process wrote it.
    fn run_file_of(&self, pid: u32) -> Option<Value> {
        let text = std::fs::read(self.data().join(format!("run-{pid}.json"))).ok()?;
        serde_json::from_slice::<Value>(&text).ok()
    }
}

/// A child that is never left behind.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A system that runs.
pub struct System {
    home: Rc<Home>,
    process: Process,
    public: SocketAddr,
    admin: SocketAddr,
    run: Value,
}

impl System {
    /// Boots in a new folder: without a configuration, so as the demo.
    pub fn demo() -> Self {
        Home::new().boot()
    }

    /// The demo with settings in its environment.
    pub fn demo_with(environment: &[(&str, &str)]) -> Self {
        Home::new().boot_as("all", environment)
    }

    /// Where shops call.
    pub fn shop_url(&self) -> String {
        self.run["shop_url"].as_str().expect("it has a shop listener").to_owned()
    }

    /// Where the sandbox partner is.
    pub fn sandbox_url(&self) -> String {
        self.run["sandbox_url"].as_str().expect("it plays a partner").to_owned()
    }

    /// The folder it runs on.
    pub fn home(&self) -> &Rc<Home> {
        &self.home
    }

    /// Where partners post.
    pub fn public(&self) -> SocketAddr {
        self.public
    }

    /// Where probes and metrics are.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// Runs a command beside it.
    pub fn payfold(&self, arguments: &[&str]) -> Done {
        self.home.payfold(arguments)
    }

    /// A connection to the public listener.
    pub fn connect(&self) -> Connection {
        Connection::open(self.public)
    }

    /// `POST /api/payment/ipn` on a connection of its own.
    pub fn post_ipn(&self, body: &[u8]) -> Answer {
        self.post("/api/payment/ipn", body)
    }

    /// `POST` of JSON to a path of the public listener.
    pub fn post(&self, path: &str, body: &[u8]) -> Answer {
        let mut connection = self.connect();
        connection.send(&post_request(path, body));
        connection.answer().expect("an answer")
    }

    /// `GET` of the admin listener.
    pub fn get(&self, path: &str) -> Answer {
        self.ask_admin(&format!("GET {path} HTTP/1.1\r\nhost: admin\r\n\r\n"))
    }

    /// A request to the admin listener, as it stands.
    pub fn ask_admin(&self, request: &str) -> Answer {
        let mut connection = Connection::open(self.admin);
        connection.send(request.as_bytes());
        connection.answer().expect("an answer")
    }

    /// `POST /v1/demo/orders` with a token.
    pub fn open_order(&self, token: &str, body: &str) -> Answer {
        self.ask_admin(&format!(
            "POST /v1/demo/orders HTTP/1.1\r\nhost: admin\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    /// An order as `payfold order show` prints it, once it is as asked.
    pub fn order_when(&self, key: [&str; 3], is: impl Fn(&Value) -> bool) -> Value {
        let [partner, merchant, order] = key;
        let arguments = ["order", "show", partner, merchant, order, "--output", "json"];
        until("the order is as asked", Duration::from_secs(20), || {
            let shown = self.payfold(&arguments);
            shown.status.success().then(|| shown.json()).filter(|order| is(order))
        })
    }

    /// SIGKILL; returns the folder, to be booted again.
    pub fn kill(self) -> Rc<Home> {
        let home = Rc::clone(&self.home);
        drop(self);
        home
    }

    /// SIGTERM; does not wait.
    pub fn terminate(&self) {
        send_signal(self.pid(), Signal::TERM).expect("our child takes signals");
    }

    /// SIGTERM, and waits until it has ended.
    pub fn stop(mut self) -> (Rc<Home>, ExitStatus) {
        self.terminate();
        let status = self.wait();
        (Rc::clone(&self.home), status)
    }

    /// Waits until it has ended.
    pub fn wait(&mut self) -> ExitStatus {
        let process = &mut self.process.0;
        within("the system stops", STOP_MAX, || process.try_wait().expect("it is our child"))
    }
}
