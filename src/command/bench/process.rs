//! Owns a server process under measurement: its start, its CPU time and memory, and its end.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use payfold_bench::usage::{cpu_micros_of, memory_kib, memory_peak_kib};

use crate::admin_client::AdminListener;
use crate::data_dir::DataDir;
use crate::run_file::RunFile;
use crate::settings::{self, Settings};

/// How long a server may take to start.
const START_MAX: Duration = Duration::from_secs(20);

/// A running server.
pub(crate) struct ServerProcess {
    child: Child,
    /// `host:port` of its public listener.
    pub address: String,
    /// Its admin listener, if it has one.
    pub admin: Option<AdminListener>,
}

impl ServerProcess {
    /// Starts the server with the empty handler and the settings of an ingest over this log.
    pub(crate) fn empty(log: Option<&str>) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["bench", "server"])
            .args(log.into_iter().flat_map(|log| ["--log", log]))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().context("the server's output is piped")?;
        let mut url = String::new();
        BufReader::new(stdout).read_line(&mut url)?;
        let address = address_of(url.trim())?;
        Ok(Self { child, address, admin: None })
    }

    /// Starts the real ingest role in this folder, as `payfold run` does.
    pub(crate) fn ingest(folder: &Path, log: Option<&str>) -> anyhow::Result<Self> {
        Self::run(folder, "ingest", log).map(|(process, _)| process)
    }

    /// Starts the roles that receive notices and fold them, in this folder.
    pub(crate) fn ingest_and_fold(folder: &Path) -> anyhow::Result<Self> {
        Self::run(folder, "ingest,projector", None).map(|(process, _)| process)
    }

    /// Starts the whole demo in this folder. Returns its run file, too.
    pub(crate) fn demo(folder: &Path) -> anyhow::Result<(Self, RunFile)> {
        Self::run(folder, "all", None)
    }

    /// Runs roles over SQLite files in the folder, or over the given log.
    fn run(folder: &Path, roles: &str, log: Option<&str>) -> anyhow::Result<(Self, RunFile)> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["run", "--roles", roles, "--data", "payfold-data"]);
        for flag in [
            "--listen-public",
            "--listen-shop",
            "--listen-admin",
            "--listen-console",
            "--listen-sandbox",
        ] {
            command.args([flag, "127.0.0.1:0"]);
        }
        // What is measured hangs on the arguments alone, and a cluster that the shell's settings
        // name is not joined.
        for name in settings::variable_names() {
            command.env_remove(name);
        }
        let child = command
            // The budget of quarantine must not end: the bench measures appends of stale notices.
            .env("PAYFOLD_INGEST__QUARANTINE_BYTES_PER_HOUR", "1000000000000")
            .env("PAYFOLD_LOG_FILTER", "error")
            .envs(log.map(|log| ("PAYFOLD_LOG", log)))
            .envs(log.map(|_| ("PAYFOLD_DEV", "true")))
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let of_child = Settings { data: folder.join("payfold-data"), ..Settings::default() };
        let data = DataDir::of(&of_child);
        let begun = Instant::now();
        loop {
            match RunFile::read(&data) {
                Ok(run) => {
                    let url = run.public_url.as_deref().context("a public listener is there")?;
                    let address = address_of(url)?;
                    let admin = Some(AdminListener::of_run_file(&run));
                    return Ok((Self { child, address, admin }, run));
                }
                Err(error) => {
                    ensure!(begun.elapsed() < START_MAX, "the server did not start: {error:#}")
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Memory that the process uses now, KiB.
    pub(crate) fn memory_kib(&self) -> anyhow::Result<u64> {
        Ok(memory_kib(&format!("/proc/{}/status", self.child.id()))?)
    }

    /// A histogram's buckets: each bound with the number of observations under it. The last bucket
    /// counts all.
    pub(crate) fn histogram(&self, name: &str) -> anyhow::Result<Vec<(f64, f64)>> {
        let bucket = format!("{name}_bucket{{");
        let of_line = |line: &str| {
            let (_, rest) = line.strip_prefix(&bucket)?.split_once("le=\"")?;
            let (bound, count) = rest.split_once("\"} ")?;
            Some((bound.parse().ok()?, count.parse().ok()?))
        };
        Ok(self.metrics()?.lines().filter_map(of_line).collect())
    }

    fn metrics(&self) -> anyhow::Result<String> {
        self.admin.as_ref().context("this server has no metrics")?.read_metrics()
    }

    /// CPU time used so far: all threads, user and system.
    pub(crate) fn cpu_micros(&self) -> anyhow::Result<u64> {
        Ok(cpu_micros_of(&self.child.id().to_string())?)
    }

    /// Peak memory so far, KiB.
    pub(crate) fn memory_peak_kib(&self) -> anyhow::Result<u64> {
        Ok(memory_peak_kib(&format!("/proc/{}/status", self.child.id()))?)
    }

    /// A metric's value, summed over its labels.
    pub(crate) fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let text = self.metrics()?;
        let of_name =
            |line: &&str| line.starts_with(name) && line[name.len()..].starts_with([' ', '{']);
        let value =
            |line: &str| line.rsplit(' ').next().and_then(|number| number.parse::<f64>().ok());
        Ok(text.lines().filter(of_name).filter_map(value).sum())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The process may have ended by itself; then both calls fail.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `host:port` of a URL.
pub(crate) fn address_of(url: &str) -> anyhow::Result<String> {
    Ok(url.strip_prefix("http://").with_context(|| format!("{url:?} is no address"))?.to_owned())
}
