//! Owns a booted system: the real binary on port 0 in a folder of its own, as a user starts it,
//! killed on drop.

use std::fs::File;
use std::net::SocketAddr;
use std::process::{ExitStatus, Stdio};
use std::rc::Rc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

pub use super::home::{Done, Home, Process, RUN, alone, send_signal};
use super::waits::{until, until_seen, within};
use super::wire::{
    Answer, Connection, bearer, get_request, notice_request, payment_request, post_request, request,
};

const BOOT_MAX: Duration = Duration::from_secs(60);
const STOP_MAX: Duration = Duration::from_secs(25);
/// How long a change may take until it is in force or shown.
const CHANGE_MAX: Duration = Duration::from_secs(40);

impl Home {
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
        // An address in the environment is only read where no flag names one.
        let is_named = environment.iter().any(|(name, _)| *name == "PAYFOLD_LISTEN_SANDBOX");
        let flags = if is_named { &RUN[..RUN.len() - 2] } else { &RUN[..] };
        let mut command = self.command(flags);
        command.args(["--roles", roles]).envs(environment.iter().copied());
        command.stdout(append("stdout")).stderr(append("stderr"));
        let child = alone(|| command.spawn());
        let mut process = Process(child.expect("the program can be started"));
        let run = until("the system boots", BOOT_MAX, || {
            let ended = process.0.try_wait().expect("it is our child");
            assert!(ended.is_none(), "it ended with {ended:?}: {}", self.log());
            self.run_file_of(process.0.id())
        });
        let admin = address(&run, "admin_url");
        let system = System { home: Rc::clone(self), process, admin, run };
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

/// Where a system listens, by the name of the URL in its run file.
fn address(run: &Value, name: &str) -> SocketAddr {
    let url = run[name].as_str().and_then(|url| url.strip_prefix("http://"));
    url.expect("a URL").parse().expect("an address")
}

/// A system that runs.
pub struct System {
    home: Rc<Home>,
    process: Process,
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
    pub fn shop(&self) -> SocketAddr {
        address(&self.run, "shop_url")
    }

    /// Where the console is.
    pub fn console(&self) -> SocketAddr {
        address(&self.run, "console_url")
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
        address(&self.run, "public_url")
    }

    /// Where probes, metrics and admin calls are.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Where probes and metrics alone are.
    pub fn probes(&self) -> SocketAddr {
        address(&self.run, "probes_url")
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
        Connection::open(self.public())
    }

    /// A request to the public listener, on a connection of its own.
    pub fn ask(&self, request: &[u8]) -> Answer {
        self.connect().exchange(request)
    }

    /// `POST /api/payment/ipn`.
    pub fn post_ipn(&self, body: &[u8]) -> Answer {
        self.ask(&notice_request(body))
    }

    /// `POST` of JSON to a path of the public listener.
    pub fn post(&self, path: &str, body: &[u8]) -> Answer {
        self.ask(&post_request(path, body))
    }

    /// Waits until a notice is answered with this status.
    pub fn ipn_when(&self, status: u16, sign: impl Fn() -> Vec<u8>) {
        until_seen(&format!("a notice is answered {status}"), CHANGE_MAX, || {
            let seen = self.post_ipn(&sign()).status;
            if seen == status { Ok(()) } else { Err(seen) }
        });
    }

    /// `POST /v1/payments` of the shop listener.
    pub fn create_payment(&self, token: &str, key: &str, payment: &Value) -> Answer {
        Connection::open(self.shop()).exchange(&payment_request(token, key, payment))
    }

    /// A request to the admin listener.
    pub fn ask_admin(&self, request: &[u8]) -> Answer {
        Connection::open(self.admin).exchange(request)
    }

    /// `GET` of the admin listener.
    pub fn get(&self, path: &str) -> Answer {
        self.ask_admin(&get_request(path))
    }

    /// `POST /v1/demo/orders` with a token.
    pub fn open_order(&self, token: &str, body: &str) -> Answer {
        let body = Some(body.as_bytes());
        self.ask_admin(&request("POST /v1/demo/orders", &bearer(token), body))
    }

    /// The sandbox's records as they are now, and the day of their first line.
    pub fn sandbox_records(&self) -> (String, String) {
        let text = self.home.read("data/sandbox-records.jsonl");
        let first = text.lines().next().expect("a line");
        let first: Value = serde_json::from_str(first).expect("a line is JSON");
        let day = first["at"].as_str().expect("a time")[..10].to_owned();
        (text, day)
    }

    /// The path of a copy of them, and that day.
    pub fn copy_records(&self) -> (String, String) {
        let (text, day) = self.sandbox_records();
        self.home.write("copy.jsonl", &text);
        (self.home.file("copy.jsonl"), day)
    }

    /// The value of a metric, by its name with all its labels.
    pub fn metric(&self, sample: &str) -> Option<f64> {
        self.get("/metrics").metric(sample)
    }

    /// Waits until a metric has this value.
    pub fn metric_when(&self, sample: &str, value: f64) {
        until_seen(&format!("{sample} is {value}"), CHANGE_MAX, || {
            let seen = self.metric(sample);
            if seen == Some(value) { Ok(()) } else { Err(seen) }
        });
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
