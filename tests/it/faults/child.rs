//! Owns the program as its own process: how it is started, found, killed and waited for. Invariant:
//! no process outlives the value that started it, whatever the test does.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Output, Stdio};
use std::time::Duration;

use payfold::DataDir;
use payfold::RunFile;
use payfold::Settings;
use rustix::process::Signal;

use crate::faults::planted::Bug;
use crate::support::knobs;
use crate::support::system::{RUN, alone, send_signal};
use crate::support::waits::until;

/// Start-up includes making a vault and folding the records that a kill left; machines may be busy.
const READY_MAX: Duration = Duration::from_secs(30);

/// What is started.
#[derive(Clone, Copy, Debug)]
pub enum Program {
    /// The binary that is shipped.
    Real,
    /// Its ingest role alone: nothing but notices writes the log.
    RealIngest,
    /// What `main` boots, over engines with a bug.
    Planted(Bug),
}

impl Program {
    /// The command that runs it over a data folder, on its own ports.
    pub fn command(self, data: &Path) -> Command {
        let mut command = match self {
            Self::Real | Self::RealIngest => Command::new(env!("CARGO_BIN_EXE_payfold")),
            Self::Planted(_) => Command::new(std::env::current_exe().expect("tests have a file")),
        };
        // There is no payfold.toml, and the PAYFOLD_* variables of the test run are not passed on.
        command.env_clear().current_dir(env!("CARGO_TARGET_TMPDIR"));
        match self {
            Self::Real => command.arg("--data").arg(data).args(RUN),
            Self::RealIngest => {
                command.arg("--data").arg(data).args(RUN).args(["--roles", "ingest"])
            }
            Self::Planted(bug) => command
                .args(["faults::planted::child", "--exact", "--nocapture"])
                .env(knobs::CHILD, format!("{}@{}", bug.name(), data.display())),
        };
        command
    }

    /// `payfold log verify` of a data folder.
    pub fn verify(data: &Path) -> Command {
        Self::ask(data, &["log", "verify"])
    }

    /// `payfold check` of a data folder.
    pub fn check(data: &Path) -> Command {
        Self::ask(data, &["check"])
    }

    fn ask(data: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_payfold"));
        command.env_clear().current_dir(env!("CARGO_TARGET_TMPDIR"));
        command.arg("--data").arg(data).args(words);
        command
    }
}

/// Runs a command to its end; other programs may be started meanwhile.
pub fn output_of(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = alone(|| command.spawn()).expect("the program can be started");
    child.wait_with_output().expect("it is our child")
}

/// A process that runs the program, or is on its way to.
pub struct Child {
    process: process::Child,
    data: PathBuf,
    /// The program's own id, which is not the process's under a tracer.
    pid: Option<u32>,
}

/// Where a running program listens, `host:port`.
#[derive(Clone, Debug)]
pub struct Addresses {
    pub public: String,
    pub shop: String,
    pub admin: String,
}

impl Child {
    /// Starts a command over a data folder; its log lines go to `<data>.err`.
    pub fn spawn(mut command: Command, data: &Path) -> Self {
        let errors = File::options().append(true).create(true).open(errors(data));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(errors.expect("a file beside the data can be made"));
        let process = alone(|| command.spawn()).expect("the program can be started");
        Self { process, data: data.to_owned(), pid: None }
    }

    /// Waits until it listens.
    pub fn ready(&mut self) -> Addresses {
        let settings = Settings { data: self.data.clone(), ..Settings::default() };
        let data = DataDir::of(&settings);
        let run: RunFile = until("the program to listen", READY_MAX, || {
            self.assert_runs();
            RunFile::read(&data).ok()
        });
        self.pid = Some(run.pid);
        let address = |url: &str| url.trim_start_matches("http://").to_owned();
        let public = run.public_url.as_deref().map(address).unwrap_or_default();
        let shop = run.shop_url.as_deref().map(address).unwrap_or_default();
        Addresses { public, shop, admin: address(&run.admin_url) }
    }

    /// Panics, with the last log lines, if it ended by itself.
    pub fn assert_runs(&mut self) {
        if let Some(status) = self.process.try_wait().expect("a child can be asked") {
            let lines = fs::read_to_string(errors(&self.data)).unwrap_or_default();
            let tail: Vec<_> = lines.lines().rev().take(20).collect();
            panic!(
                "the program ended by itself ({status}); its last lines, newest first: {tail:#?}"
            );
        }
    }

    /// Waits until it has refused to run; what it said of that.
    pub fn refused(mut self) -> String {
        let status = until("the program to refuse", READY_MAX, || {
            self.process.try_wait().expect("a child can be asked")
        });
        let text = fs::read_to_string(errors(&self.data)).unwrap_or_default();
        assert!(!status.success(), "{text}");
        text
    }

    /// SIGTERM, and waits until it has ended.
    pub fn stop(self) {
        self.terminate();
        self.ended();
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        let pid = self.pid.expect("it was ready");
        send_signal(pid, Signal::TERM).expect("our child takes signals");
    }

    /// Waits until it has ended.
    pub fn ended(mut self) {
        until("the program to end", READY_MAX, || {
            self.process.try_wait().expect("a child can be asked")
        });
    }

    /// SIGKILL, at once: it gets no chance to finish anything.
    pub fn kill(self) {
        drop(self);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        match self.pid {
            // A tracer ends by itself when what it traces has.
            Some(pid) if pid != self.process.id() => {
                let _ = send_signal(pid, Signal::KILL);
            }
            _ => {
                let _ = self.process.kill();
            }
        }
        let _ = self.process.wait();
    }
}

/// Where a program's log lines go: beside the folder, never in it.
pub fn errors(data: &Path) -> PathBuf {
    data.with_extension("err")
}
