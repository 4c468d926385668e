//! Owns a server process under measurement: started, asked for its CPU time and memory, ended by its pid.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::data_dir::DataDir;
use crate::running::RunFile;
use crate::settings::Settings;

/// How long a server may take to be there.
const START_MAX: Duration = Duration::from_secs(20);
/// Linux counts CPU time of `/proc` in hundredths of a second.
const MICROS_PER_TICK: u64 = 10_000;

/// A running server.
pub struct Process {
    child: Child,
    /// `host:port` of its public listener.
    pub address: String,
    /// `http://host:port` of its admin listener, if it has one.
    pub admin_url: Option<String>,
}

impl Process {
    /// The server that does nothing, with the settings of an ingest over this log.
    pub fn empty(log: Option<&str>) -> anyhow::Result<Self> {
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
        Ok(Self { child, address, admin_url: None })
    }

    /// The real ingest role in a folder of its own, as `payfold run` starts it.
    pub fn ingest(folder: &Path, log: Option<&str>) -> anyhow::Result<Self> {
        Self::run(folder, "ingest", log).map(|(process, _)| process)
    }

    /// What takes notices and folds them, in a folder of its own.
    pub fn ingest_and_fold(folder: &Path) -> anyhow::Result<Self> {
        Self::run(folder, "ingest,projector", None).map(|(process, _)| process)
    }

    /// The whole demo in a folder of its own, and what it tells of itself.
    pub fn demo(folder: &Path) -> anyhow::Result<(Self, RunFile)> {
        Self::run(folder, "all", None)
    }

    /// Over SQLite files in the folder, or over a log somewhere else.
    fn run(folder: &Path, roles: &str, log: Option<&str>) -> anyhow::Result<(Self, RunFile)> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["run", "--roles", roles, "--data", "payfold-data"]);
        for flag in ["--listen-public", "--listen-shop", "--listen-admin", "--listen-sandbox"] {
            command.args([flag, "127.0.0.1:0"]);
        }
        let child = command
            // Stale notices are all to be kept: the figure is that of an append, not of a budget.
            .env("PAYFOLD_INGEST__QUARANTINE_BYTES_PER_HOUR", "1000000000000")
            .env("PAYFOLD_LOG_FILTER", "error")
            .envs(log.map(|log| ("PAYFOLD_LOG", log)))
            .envs(log.map(|_| ("PAYFOLD_DEV", "true")))
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let settings = Settings { data: folder.join("payfold-data"), ..Settings::default() };
        let data = DataDir::of(&settings);
        let begun = Instant::now();
        loop {
            match RunFile::read(&data) {
                Ok(run) => {
                    let url = run.public_url.as_deref().context("a public listener is there")?;
                    let (address, admin_url) = (address_of(url)?, Some(run.admin_url.clone()));
                    return Ok((Self { child, address, admin_url }, run));
                }
                Err(error) => {
                    ensure!(begun.elapsed() < START_MAX, "the server did not start: {error:#}")
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Memory it has now, KiB.
    pub fn memory_kib(&self) -> anyhow::Result<u64> {
        memory_of(&format!("/proc/{}/status", self.child.id()), "VmRSS:")
    }

    /// How often a histogram's observations fell under each bound so far, by bound; the last is all of them.
    pub fn histogram(&self, name: &str) -> anyhow::Result<Vec<(f64, f64)>> {
        let bucket = format!("{name}_bucket{{");
        let of_line = |line: &str| {
            let (_, rest) = line.strip_prefix(&bucket)?.split_once("le=\"")?;
            let (bound, count) = rest.split_once("\"} ")?;
            Some((bound.parse().ok()?, count.parse().ok()?))
        };
        Ok(self.metrics()?.lines().filter_map(of_line).collect())
    }

    fn metrics(&self) -> anyhow::Result<String> {
        let url = self.admin_url.as_ref().context("this server has no metrics")?;
        Ok(ureq::get(format!("{url}/metrics")).call()?.body_mut().read_to_string()?)
    }

    /// CPU time it has used so far, all threads, user and system.
    pub fn cpu_micros(&self) -> anyhow::Result<u64> {
        cpu_micros_of(&self.child.id().to_string())
    }

    /// Greatest memory it ever had, KiB.
    pub fn memory_peak_kib(&self) -> anyhow::Result<u64> {
        memory_peak_kib(&format!("/proc/{}/status", self.child.id()))
    }

    /// One number of its metrics page, summed over labels.
    pub fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let text = self.metrics()?;
        let of_name =
            |line: &&str| line.starts_with(name) && line[name.len()..].starts_with([' ', '{']);
        let value =
            |line: &str| line.rsplit(' ').next().and_then(|number| number.parse::<f64>().ok());
        Ok(text.lines().filter(of_name).filter_map(value).sum())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `host:port` of a URL.
pub fn address_of(url: &str) -> anyhow::Result<String> {
    Ok(url.strip_prefix("http://").with_context(|| format!("{url:?} is no address"))?.to_owned())
}

/// Greatest memory of a process so far, KiB, from its `/proc` status.
pub fn memory_peak_kib(status_path: &str) -> anyhow::Result<u64> {
    memory_of(status_path, "VmHWM:")
}

fn memory_of(status_path: &str, name: &'static str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(status_path).context("memory is read from /proc")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).context(name)?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// CPU time a process has used so far, all threads, user and system.
pub fn cpu_micros_of(pid: &str) -> anyhow::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .context("CPU time is read from /proc, which this system does not have")?;
    // The command's name, in brackets, may hold blanks: count from behind it.
    let (_, fields) = stat.rsplit_once(") ").context("/proc stat has a name in brackets")?;
    let field = |n: usize| fields.split(' ').nth(n).and_then(|text| text.parse::<u64>().ok());
    let (user, system) = (field(11).context("utime")?, field(12).context("stime")?);
    Ok((user + system) * MICROS_PER_TICK)
}
