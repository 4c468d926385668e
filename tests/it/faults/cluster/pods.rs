//! Owns the processes of a cluster: each on ports of its own that stay its own over restarts,
//! killed with the test. Invariant: a *life* is even while the pod is to serve and odd while a
//! fault has it down, so that a broken connection is excused only when its pod was killed
//! meanwhile.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::dice::Dice;
use crate::support::system::{Process, alone, send_signal};
use crate::support::waits::{until, within};
use crate::support::wire::{Answer, Connection, get_request};

/// How long a start may take on a busy machine.
const READY_MAX: Duration = Duration::from_secs(60);
/// Between a failed start and the next.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// How long an orderly end may take.
const STOP_MAX: Duration = Duration::from_secs(40);

/// What a pod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Ingest,
    Projector,
    Checkout,
    Reconciler,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Projector => "projector",
            Self::Checkout => "checkout",
            Self::Reconciler => "reconciler",
        }
    }
}

/// The settings that all pods with the same way to the engines share.
#[derive(Clone, Debug)]
pub struct Ways {
    /// Where the configuration is, and the data folder.
    pub folder: PathBuf,
    /// The log's URL.
    pub log: String,
    /// The order store's URL.
    pub orders: String,
}

impl Ways {
    /// A command with these engines, without the test's own environment.
    pub fn command(&self) -> Command {
        let mut command = mortal(env!("CARGO_BIN_EXE_payfold"));
        command.env_clear().current_dir(&self.folder).stdin(Stdio::null());
        command.env("PAYFOLD_LOG", &self.log).env("PAYFOLD_ORDERS", &self.orders);
        command.arg("--config").arg(self.folder.join("payfold.toml"));
        command.arg("--data").arg(self.folder.join("data"));
        command
    }
}

/// One process of the cluster; it may be down.
pub struct Pod {
    pub name: String,
    pub role: Role,
    /// Where partners or shops post.
    pub address: String,
    admin: String,
    ways: Ways,
    life: AtomicU64,
    restarts: AtomicU64,
    served: Mutex<Instant>,
    process: Mutex<Option<Process>>,
}

impl Pod {
    /// One that is down.
    pub fn new(role: Role, number: u32, ways: Ways) -> Self {
        Self {
            name: format!("{}-{number}", role.name()),
            role,
            address: free_address(),
            admin: free_address(),
            ways,
            life: AtomicU64::new(1),
            restarts: AtomicU64::new(0),
            served: Mutex::new(Instant::now()),
            process: Mutex::default(),
        }
    }

    /// Starts it.
    pub fn start(&self) {
        let options = File::options().create(true).append(true).open(self.log_path());
        let errors = options.expect("a log file can be opened");
        let any = "127.0.0.1:0".to_owned();
        let at = |role| if self.role == role { self.address.clone() } else { any.clone() };
        let mut command = self.ways.command();
        command.args(["run", "--roles", self.role.name(), "--listen-admin", &self.admin]);
        command.args(["--listen-public", &at(Role::Ingest), "--listen-shop", &at(Role::Checkout)]);
        command.stdout(Stdio::null()).stderr(errors);
        let child = alone(|| command.spawn()).expect("the program can be started");
        let before = self.process().replace(Process(child));
        assert!(before.is_none(), "{} runs already", self.name);
    }

    /// Waits until it serves; a failure after that is not excused. A start that fails because its
    /// engines are not well yet is repeated, as orchestrators do, and counted.
    pub fn ready(&self) {
        until(&format!("{} to be ready", self.name), READY_MAX, || {
            if self.has_ended().is_some() {
                self.restarts.fetch_add(1, Ordering::SeqCst);
                self.process().take();
                std::thread::sleep(RESTART_PAUSE);
                self.start();
            }
            self.get("/readyz").filter(|answer| answer.status == 200)
        });
        if self.is_down() {
            self.life.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// SIGKILL, at once.
    pub fn kill(&self) {
        self.goes_down();
        self.process().take().expect("it runs").kill();
    }

    /// SIGTERM, and waits until it has ended, well.
    pub fn stop(&self) {
        self.goes_down();
        self.signal(Signal::TERM);
        let mut child = self.process().take().expect("it runs");
        let what = format!("{} to stop", self.name);
        let status = within(&what, STOP_MAX, || child.0.try_wait().expect("it is our child"));
        assert!(status.success(), "{} ended with {status}: {}", self.name, self.last_lines());
    }

    fn goes_down(&self) {
        if !self.is_down() {
            self.life.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// To its process.
    pub fn signal(&self, signal: Signal) {
        let pid = self.pid().expect("it runs");
        send_signal(pid, signal).expect("our child takes signals");
    }

    fn pid(&self) -> Option<u32> {
        self.process().as_ref().map(|child| child.0.id())
    }

    /// Panics, with its last lines, if it ended by itself.
    pub fn assert_runs(&self) {
        if let Some(status) = self.has_ended() {
            panic!("{} ended by itself ({status}): {}", self.name, self.last_lines());
        }
    }

    fn has_ended(&self) -> Option<ExitStatus> {
        let mut process = self.process();
        process.as_mut()?.0.try_wait().expect("a child can be asked")
    }

    /// How often its start failed and was begun again.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::SeqCst)
    }

    /// Which life it is in.
    pub fn life(&self) -> u64 {
        self.life.load(Ordering::SeqCst)
    }

    pub fn is_down(&self) -> bool {
        is_down(self.life())
    }

    /// It did what it is for.
    pub fn has_served(&self) {
        *self.served.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// When it last did what it is for.
    pub fn served_at(&self) -> Instant {
        *self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often its log has a line with this.
    pub fn said(&self, words: &str) -> usize {
        let log = fs::read_to_string(self.log_path()).unwrap_or_default();
        log.lines().filter(|line| line.contains(words)).count()
    }

    /// Its last log lines, newest first.
    pub fn last_lines(&self) -> String {
        let log = fs::read_to_string(self.log_path()).unwrap_or_default();
        log.lines().rev().take(15).collect::<Vec<_>>().join("\n")
    }

    /// The value of one of its metrics without labels; `None` while it does not answer.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.get("/metrics")?.metric(name)
    }

    /// `GET` of its admin listener; `None` while it does not answer.
    fn get(&self, path: &str) -> Option<Answer> {
        Connection::try_open(&self.admin).ok()?.try_exchange(&get_request(path)).ok()
    }

    /// What of its memory is resident, KiB.
    pub fn resident_kib(&self) -> u64 {
        let pid = self.pid().expect("it runs");
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.expect("a process has resident memory").parse().expect("a number")
    }

    fn log_path(&self) -> PathBuf {
        log_path(&self.ways.folder, &self.name)
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A program that ends with the thread that starts it, also when this process is killed: the kernel
/// does it, where util-linux is installed to request it.
fn mortal(program: &str) -> Command {
    let asks = Path::new("/usr/bin/setpriv");
    if !asks.exists() {
        return Command::new(program);
    }
    let mut command = Command::new(asks);
    command.args(["--pdeathsig", "KILL", program]);
    command
}

fn log_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.log"))
}

/// Whether a pod is down in this life.
pub fn is_down(life: u64) -> bool {
    life % 2 == 1
}

/// An address that is free, on a port that neither the kernel gives to outgoing connections nor
/// dev-stack to a server. So it is still free when a pod is killed and started again.
fn free_address() -> String {
    let mut dice = Dice::new(Dice::any_seed(), 1);
    loop {
        let address = format!("127.0.0.1:{}", 10_000 + dice.roll(9_000));
        if TcpListener::bind(&address).is_ok() {
            return address;
        }
    }
}
