//! Owns how a client command finds a running system: a run file for each process in the data folder, written at start
//! and removed at the end, and the local admin's token beside them. Processes of one system may share the folder; what
//! is asked for is then the first that has it.

use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::args::Global;
use crate::data_dir::{DataDir, write_private};
use crate::error::{Fixable, unreadable};

/// How long an admin call may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long the sending of a file may take, or an answer that takes a walk over all orders.
const UPLOAD_MAX: Duration = Duration::from_secs(3_600);
/// How long a probe waits for its answer.
const PROBE_MAX: Duration = Duration::from_secs(5);

/// What a running process tells of itself.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RunFile {
    /// Its process id.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// `http://host:port` of the public listener, if it has one.
    pub public_url: Option<String>,
    /// `http://host:port` of the shop listener, if it has one.
    #[serde(default)]
    pub shop_url: Option<String>,
    /// `http://host:port` of the sandbox partner, if it plays one.
    #[serde(default)]
    pub sandbox_url: Option<String>,
    /// `http://host:port` of the admin listener.
    pub admin_url: String,
    /// Whether it is the demo.
    pub demo: bool,
}

impl RunFile {
    /// Writes it into the folder, and takes away what crashes left.
    pub fn write(&self, data: &DataDir) -> anyhow::Result<()> {
        write_private(&data.run_file(self.pid), &serde_json::to_vec_pretty(self)?)?;
        for path in data.run_files()? {
            let left = std::fs::read(&path).ok().and_then(|it| serde_json::from_slice(&it).ok());
            if left.is_some_and(|one: Self| !one.is_alive()) {
                // It is in nobody's way, and another process may be taking it away too.
                let _ = std::fs::remove_file(&path);
            }
        }
        Ok(())
    }

    /// Takes it out of the folder, if it is ours.
    pub fn remove(&self, data: &DataDir) {
        if let Err(error) = std::fs::remove_file(data.run_file(self.pid)) {
            tracing::warn!(%error, "the run file could not be removed");
        }
    }

    /// What the folder's processes that are alive tell together. Errors: there is none.
    pub fn read(data: &DataDir) -> anyhow::Result<Self> {
        let mut all: Option<Self> = None;
        for path in data.run_files()? {
            let content = match std::fs::read(&path) {
                Ok(content) => content,
                // Its process has ended meanwhile.
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

    /// Whether its process is there; a file may be left from a crash.
    fn is_alive(&self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        pid.is_some_and(|pid| {
            !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH))
        })
    }

    /// This process's listeners, and another's where this one has none. Whoever has the shops is asked as admin.
    fn with(self, other: Self) -> Self {
        Self {
            public_url: self.public_url.or(other.public_url),
            shop_url: self.shop_url.or(other.shop_url),
            sandbox_url: self.sandbox_url.or(other.sandbox_url),
            ..self
        }
    }
}

fn nothing_runs(data: &DataDir) -> anyhow::Error {
    Fixable::error(
        format!("nothing is running on {}", data.path().display()),
        "start `payfold run` in another terminal, or name its folder with --data DIR",
    )
}

/// Where the admin listener of the running system is: by `--admin-url`, or through the data folder.
fn admin_url(global: &Global, data: &DataDir) -> anyhow::Result<String> {
    match &global.admin_url {
        Some(url) => Ok(url.trim_end_matches('/').to_owned()),
        None => Ok(RunFile::read(data)?.admin_url),
    }
}

/// An agent that gets every answer, also one that is an error.
fn agent(timeout: Duration) -> ureq::Agent {
    let config = ureq::Agent::config_builder().timeout_global(Some(timeout));
    config.http_status_as_error(false).build().into()
}

fn silent(url: &str, error: &ureq::Error) -> anyhow::Error {
    Fixable::error(
        format!("the admin listener {url} does not answer: {error}"),
        "is `payfold run` still running? its run file may be left from a crash",
    )
}

/// Asks the running process for its readiness, as probes do; returns its admin listener. Errors: it is not ready, or
/// nothing runs.
pub fn assert_ready(global: &Global, data: &DataDir) -> anyhow::Result<String> {
    let url = admin_url(global, data)?;
    let Some(said) = ask_ready(&url)? else { return Ok(url) };
    Err(Fixable::error(
        format!("{url} is not ready: {said}"),
        "its log's last WARN or ERROR line says why; `payfold check --connect` looks at what it needs",
    ))
}

/// Asks the running process whether it lives, as probes do; returns its admin listener. A process that can store nothing
/// lives: it may have the only copy of what it acknowledged. Errors: a role has ended, or nothing runs.
pub fn assert_live(global: &Global, data: &DataDir) -> anyhow::Result<String> {
    let url = admin_url(global, data)?;
    let Some(said) = ask_probe(&url, "/livez")? else { return Ok(url) };
    Err(Fixable::error(
        format!("{url} is not live: {said}"),
        "its log's last ERROR line says which role has ended, and why",
    ))
}

/// What the process behind an admin listener says it is not ready for; none if it is ready. Errors: no answer.
pub fn ask_ready(url: &str) -> anyhow::Result<Option<String>> {
    ask_probe(url, "/readyz")
}

/// What is wrong by the answer to a probe; none if nothing is. Errors: no answer.
fn ask_probe(url: &str, path: &str) -> anyhow::Result<Option<String>> {
    let asked = agent(PROBE_MAX).get(format!("{url}{path}")).call();
    let mut answer = asked.map_err(|error| silent(url, &error))?;
    let said = answer.body_mut().read_to_string().unwrap_or_default();
    let said = said.trim().to_owned();
    Ok((!answer.status().is_success()).then_some(said))
}

/// A client of a running system's admin listener.
pub struct AdminClient {
    url: String,
    token: String,
    agent: ureq::Agent,
}

impl AdminClient {
    /// Finds the running system by `--admin-url` or through the data folder.
    pub fn find(global: &Global, data: &DataDir) -> anyhow::Result<Self> {
        let url = admin_url(global, data)?;
        let path = global.admin_token_file.clone().unwrap_or_else(|| data.admin_token());
        let token = std::fs::read_to_string(&path).map_err(|error| {
            Fixable::error(
                format!("the admin token {} can't be read: {error}", path.display()),
                "run the command as the user that runs payfold, with the same --data DIR, or name your own token's \
                 file with --admin-token-file",
            )
        })?;
        Ok(Self { url, token: token.trim().to_owned(), agent: agent(ANSWER_MAX) })
    }

    /// Posts JSON to an admin path and reads the JSON answer. Errors: the answer's title, or that nothing answers.
    pub fn post(&self, path: &str, body: &serde_json::Value) -> anyhow::Result<serde_json::Value> {
        let sent = self
            .agent
            .post(format!("{}{path}", self.url))
            .header("authorization", format!("Bearer {}", self.token))
            .send_json(body);
        self.answer(sent)
    }

    /// The same, of something that reads every order before it answers.
    pub fn post_patiently(
        &self,
        path: &str,
        body: &serde_json::Value,
    ) -> anyhow::Result<serde_json::Value> {
        let sent = agent(UPLOAD_MAX)
            .post(format!("{}{path}", self.url))
            .header("authorization", format!("Bearer {}", self.token))
            .send_json(body);
        self.answer(sent)
    }

    /// Reads JSON from an admin path. Errors: as of `post`.
    pub fn get(&self, path: &str) -> anyhow::Result<serde_json::Value> {
        let sent = self
            .agent
            .get(format!("{}{path}", self.url))
            .header("authorization", format!("Bearer {}", self.token))
            .call();
        self.answer(sent)
    }

    /// Sends a file to an admin path, with these names and values in its query. Errors: as of `post`.
    pub fn send_file(
        &self,
        path: &str,
        query: &[(&str, &str)],
        file: std::fs::File,
    ) -> anyhow::Result<serde_json::Value> {
        let mut request = agent(UPLOAD_MAX)
            .post(format!("{}{path}", self.url))
            .header("authorization", format!("Bearer {}", self.token))
            .content_type("application/octet-stream");
        for (name, value) in query {
            request = request.query(name, value);
        }
        self.answer(request.send(file))
    }

    fn answer(
        &self,
        sent: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> anyhow::Result<serde_json::Value> {
        let mut answer = sent.map_err(|error| silent(&self.url, &error))?;
        let status = answer.status();
        let value: serde_json::Value = answer.body_mut().read_json().unwrap_or_default();
        if status.is_success() {
            return Ok(value);
        }
        let title =
            value["detail"].as_str().or(value["title"].as_str()).unwrap_or("no reason given");
        if status == 401 {
            return Err(Fixable::error(
                "the admin listener does not know this token",
                "it was made for another system, was retired, or is so new that it does not count yet (wait two seconds); `payfold token add NAME` makes a new one",
            ));
        }
        anyhow::bail!("{title}")
    }
}
