//! Owns the run file of a process: it says where the listeners are. Each process writes one into
//! the data folder at its start and removes it at its end. Processes of one system may share the
//! folder: a command then uses the first process that has the needed listener.

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::data_dir::{DataDir, write_private};
use crate::error::{Fixable, unreadable};

/// The run file of a process: where its listeners are.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RunFile {
    /// The process id.
    pub pid: u32,
    /// The version of the program.
    pub version: String,
    /// `http://host:port` of the public listener, if it has one.
    pub public_url: Option<String>,
    /// `http://host:port` of the shop listener, if it has one.
    #[serde(default)]
    pub shop_url: Option<String>,
    /// `http://host:port` of the console, if it serves one.
    #[serde(default)]
    pub console_url: Option<String>,
    /// `http://host:port` of the sandbox partner, if it plays one.
    #[serde(default)]
    pub sandbox_url: Option<String>,
    /// `http://host:port` of the admin listener.
    pub admin_url: String,
    /// `http://host:port` of the listener for probes and metrics alone, if there is one.
    #[serde(default)]
    pub probes_url: Option<String>,
    /// Whether the process runs the demo.
    pub demo: bool,
}

impl RunFile {
    /// Writes the run file into the folder, and removes run files of crashed processes.
    pub fn write(&self, data: &DataDir) -> anyhow::Result<()> {
        write_private(&data.run_file(self.pid), &serde_json::to_vec_pretty(self)?)?;
        for path in data.run_files()? {
            let left = std::fs::read(&path).ok().and_then(|it| serde_json::from_slice(&it).ok());
            if left.is_some_and(|one: Self| !one.is_alive()) {
                // A failure does no harm: readers skip the file, and another process may have
                // removed it.
                let _ = std::fs::remove_file(&path);
            }
        }
        Ok(())
    }

    /// Removes the run file of this process.
    pub fn remove(&self, data: &DataDir) {
        if let Err(error) = std::fs::remove_file(data.run_file(self.pid)) {
            tracing::warn!(%error, "the run file can't be removed; it is ignored once this \
                process has ended");
        }
    }

    /// Reads the run files of live processes and merges them into one. Errors: no process is alive.
    pub fn read(data: &DataDir) -> anyhow::Result<Self> {
        let mut all: Option<Self> = None;
        for path in data.run_files()? {
            let content = match std::fs::read(&path) {
                Ok(content) => content,
                // The process has ended since the folder was read.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(unreadable(&path, &error)),
            };
            let one: Self = serde_json::from_slice(&content)
                .with_context(|| format!("{} is not a run file", path.display()))?;
            if !one.is_alive() {
                continue;
            }
            all = Some(match all {
                None => one,
                Some(first) => first.with(one),
            });
        }
        all.ok_or_else(|| nothing_runs(data))
    }

    /// Whether the process exists; a run file may be left from a crash.
    fn is_alive(&self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        pid.is_some_and(|pid| {
            !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH))
        })
    }

    /// Adds the listeners of another process that this one does not have. The admin listener stays
    /// this one's.
    fn with(self, other: Self) -> Self {
        Self {
            public_url: self.public_url.or(other.public_url),
            shop_url: self.shop_url.or(other.shop_url),
            console_url: self.console_url.or(other.console_url),
            sandbox_url: self.sandbox_url.or(other.sandbox_url),
            ..self
        }
    }
}

fn nothing_runs(data: &DataDir) -> anyhow::Error {
    Fixable::error(
        format!("nothing is running on the data folder {}", data.path().display()),
        "start `payfold run` in another terminal, or give the folder of the running system with \
            --data DIR",
    )
}
