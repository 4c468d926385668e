//! Owns how a command calls the admin listener of a running system. It finds the listener by
//! `--admin-url` or in a run file, and the local admin token in the data folder.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use crate::args::Global;
use crate::data_dir::DataDir;
use crate::error::{Fixable, unreadable};
use crate::run_file::RunFile;
use crate::settings;
use payfold_api::call::{Call, CallMethod, Problem, query_of};

/// Timeout of an admin call: longer than a busy database takes for a claim.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Timeout of a call that uploads a file, or that reads all orders before it answers.
const UPLOAD_MAX: Duration = Duration::from_secs(3_600);
/// The largest answer: a page of findings with all their lines.
const ANSWER_BYTES_MAX: u64 = 1 << 30;
/// Timeout of a probe.
const PROBE_MAX: Duration = Duration::from_secs(5);

/// An admin listener: where it is, and who may have signed its certificate.
pub(crate) struct AdminListener {
    url: String,
    tls: TlsConfig,
}

impl AdminListener {
    /// The listener of `--admin-url`, or the one in the run file. Errors: nothing runs, or the file
    /// of authorities has none.
    fn find(global: &Global, data: &DataDir) -> anyhow::Result<Self> {
        let url = match &global.admin_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => RunFile::read(data)?.admin_url,
        };
        let roots = match &global.admin_ca_file {
            Some(path) => authorities(path)?,
            None => RootCerts::PlatformVerifier,
        };
        Ok(Self::new(url, roots))
    }

    /// The listener in a run file.
    pub(crate) fn of_run_file(file: &RunFile) -> Self {
        Self::new(file.admin_url.clone(), RootCerts::PlatformVerifier)
    }

    fn new(url: String, roots: RootCerts) -> Self {
        payfold_partners::remote::install_tls();
        Self { url, tls: TlsConfig::builder().root_certs(roots).build() }
    }

    /// Where it is.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// An HTTP agent that returns answers with an error status, too. Tokens go to the listener
    /// alone: through no proxy, and to no address that an answer names.
    fn agent(&self, timeout: Duration) -> ureq::Agent {
        let config = ureq::Agent::config_builder().timeout_global(Some(timeout));
        let config = config.http_status_as_error(false).max_redirects(0).proxy(None);
        config.tls_config(self.tls.clone()).build().into()
    }

    /// Why its process is not ready; `None` if it is. Errors: no answer.
    pub(crate) fn ask_ready(&self) -> anyhow::Result<Option<String>> {
        self.ask_probe("/readyz")
    }

    /// The metrics of its process. Errors: no answer.
    pub(crate) fn read_metrics(&self) -> anyhow::Result<String> {
        match self.get("/metrics")? {
            (200, metrics) => Ok(metrics),
            (status, body) => Err(self.no_page("/metrics", (status, &body))),
        }
    }

    /// What a probe reports as wrong; `None` if it succeeds. Errors: no answer, or not a probe's.
    fn ask_probe(&self, path: &str) -> anyhow::Result<Option<String>> {
        let (status, body) = self.get(path)?;
        match status {
            200 => Ok(None),
            503 => Ok(Some(body.trim().to_owned())),
            other => Err(self.no_page(path, (other, &body))),
        }
    }

    /// The status and body of a page that needs no token. Errors: no answer.
    fn get(&self, path: &str) -> anyhow::Result<(u16, String)> {
        let answered = self.agent(PROBE_MAX).get(format!("{}{path}", self.url)).call();
        let mut answer = answered.map_err(|error| self.no_answer(&error, PROBE_MAX))?;
        Ok((answer.status().as_u16(), answer.body_mut().read_to_string()?))
    }

    /// The error for a page that an admin listener answers otherwise.
    fn no_page(&self, path: &str, (status, body): (u16, &str)) -> anyhow::Error {
        let problem = serde_json::from_str::<Problem>(body);
        let why = problem.map_or_else(|_| "it may be no admin listener".to_owned(), |it| it.detail);
        Fixable::error(
            format!("the admin listener {}{path} answered {status}: {why}", self.url),
            "check --admin-url, and what stands before the listener",
        )
    }

    /// The error for a call without an answer. After a timeout the process may still carry out the
    /// request.
    fn no_answer(&self, error: &ureq::Error, limit: Duration) -> anyhow::Error {
        let url = &self.url;
        if matches!(error, ureq::Error::Timeout(ureq::Timeout::Global)) {
            return Fixable::error(
                format!("the admin listener {url} did not answer within {} s", limit.as_secs()),
                "look in its log whether its storage is slow or unavailable; the request may still \
                 be carried out, so check the result before you repeat it",
            );
        }
        match tls_error(error) {
            Some(rustls::Error::InvalidCertificate(_)) => Fixable::error(
                format!("the certificate of {url} is refused: {error}"),
                "compare it; if an authority of your own signed it, give that authority's PEM \
                 file with --admin-ca-file",
            ),
            Some(_) => Fixable::error(
                format!("{url} does not speak TLS as it should: {error}"),
                "payfold itself speaks plain HTTP: write it with http, or write the address of \
                 what has TLS in front of it",
            ),
            None => Fixable::error(
                format!("the admin listener {url} does not answer: {error}"),
                "check that `payfold run` is still running; its run file may be left from a crash",
            ),
        }
    }
}

/// What TLS refused, if it did.
fn tls_error(error: &ureq::Error) -> Option<&rustls::Error> {
    if let ureq::Error::Io(error) = error { error.get_ref()?.downcast_ref() } else { None }
}

/// The authorities in a PEM file. Errors: it can't be read, or has none.
fn authorities(path: &Path) -> anyhow::Result<RootCerts> {
    let pem = std::fs::read(path).map_err(|error| unreadable(path, &error))?;
    let mut authorities = Vec::new();
    for item in parse_pem(&pem) {
        match item {
            Ok(PemItem::Certificate(certificate)) => authorities.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(no_authority(path, &error.to_string())),
        }
    }
    if authorities.is_empty() {
        return Err(no_authority(path, "it has no certificate"));
    }
    Ok(RootCerts::from(authorities))
}

fn no_authority(path: &Path, reason: &str) -> anyhow::Error {
    Fixable::error(
        format!("{} is no file of certificate authorities: {reason}", path.display()),
        "give a PEM file of the authority that signed the certificate of --admin-url",
    )
}

/// Checks that the running process is ready. Returns the URL of its admin listener. Errors: it is
/// not ready, or nothing runs.
pub(crate) fn assert_ready(global: &Global, data: &DataDir) -> anyhow::Result<String> {
    let listener = AdminListener::find(global, data)?;
    let url = &listener.url;
    let Some(reason) = listener.ask_ready()? else { return Ok(listener.url) };
    Err(Fixable::error(
        format!("{url} is not ready: {reason}"),
        "see the last WARN or ERROR line of its log; `payfold check --connect` checks its \
            configuration, disk and engines",
    ))
}

/// Checks that the running process is alive. Returns the URL of its admin listener. A process that
/// can't store anything is still alive: restarting it could lose the only copy of acknowledged
/// notices. Errors: a role has ended, or nothing runs.
pub(crate) fn assert_live(global: &Global, data: &DataDir) -> anyhow::Result<String> {
    let listener = AdminListener::find(global, data)?;
    let url = &listener.url;
    let Some(reason) = listener.ask_probe("/livez")? else { return Ok(listener.url) };
    Err(Fixable::error(
        format!("{url} is not live: {reason}"),
        "see the last ERROR line of its log, which names the role that ended and why; then \
            restart the process",
    ))
}

/// The listener refused a call, or could not make it.
#[derive(Debug, thiserror::Error)]
#[error("{detail}")]
pub(crate) struct RefusedCall {
    status: u16,
    detail: String,
}

impl RefusedCall {
    /// Whether what the call names is as it is, so that the call can't be made; other calls may.
    pub(crate) fn is_of_its_subject(&self) -> bool {
        self.status == 422
    }
}

/// A client of the admin listener of a running system.
pub(crate) struct AdminClient {
    listener: AdminListener,
    token: String,
    agent: ureq::Agent,
}

impl AdminClient {
    /// Finds the running system by `--admin-url` or through the data folder.
    pub(crate) fn find(global: &Global, data: &DataDir) -> anyhow::Result<Self> {
        let listener = AdminListener::find(global, data)?;
        let path = global.admin_token_file.clone().unwrap_or_else(|| data.admin_token());
        let token = std::fs::read_to_string(&path).map_err(|error| {
            Fixable::error(
                format!("the admin token {} can't be read: {error}", path.display()),
                "run the command as the user that runs payfold, with the same --data DIR, or \
                    give the file of your own token with --admin-token-file",
            )
        })?;
        let agent = listener.agent(ANSWER_MAX);
        Ok(Self { listener, token: token.trim().to_owned(), agent })
    }

    /// Loads the settings and finds the running system with their data folder. Errors: as
    /// `settings::load` and `find`.
    pub(crate) fn find_for_command(global: &Global) -> anyhow::Result<Self> {
        let settings = settings::load(global)?.settings;
        Self::find(global, &DataDir::of(&settings))
    }

    /// Makes a call, with these names in its path. Errors: the call was refused, or nothing
    /// answers.
    pub(crate) fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        call: &Call<Q, A>,
        names: &[&str],
        request: &Q,
    ) -> anyhow::Result<A> {
        self.send(call, names, request, None)
    }

    /// Makes a call that uploads a file. Errors: as `call`.
    pub(crate) fn upload<Q: Serialize, A: DeserializeOwned>(
        &self,
        call: &Call<Q, A>,
        names: &[&str],
        request: &Q,
        file: File,
    ) -> anyhow::Result<A> {
        self.send(call, names, request, Some(file))
    }

    fn send<Q: Serialize, A: DeserializeOwned>(
        &self,
        call: &Call<Q, A>,
        names: &[&str],
        request: &Q,
        file: Option<File>,
    ) -> anyhow::Result<A> {
        let is_short = file.is_none() && !call.is_slow;
        let limit = if is_short { ANSWER_MAX } else { UPLOAD_MAX };
        let agent = if is_short { &self.agent } else { &self.listener.agent(UPLOAD_MAX) };
        let path = call.path_of(names).ok_or_else(|| {
            let names = names.join(" ");
            Fixable::error(format!("{names} names nothing"), "write it as a listing prints it")
        })?;
        let url = format!("{}{path}", self.listener.url);
        let query = if call.method == CallMethod::Post { Vec::new() } else { query_of(request) };
        let bearer = format!("Bearer {}", self.token);
        let sent = match (call.method, file) {
            (CallMethod::Get, _) => {
                agent.get(url).query_pairs(query).header("authorization", bearer).call()
            }
            (CallMethod::Post, _) => {
                agent.post(url).header("authorization", bearer).send_json(request)
            }
            (CallMethod::PostQuery | CallMethod::Upload, file) => {
                let post = agent.post(url).query_pairs(query).header("authorization", bearer);
                match file {
                    Some(file) => post.content_type("application/octet-stream").send(file),
                    None => post.send_empty(),
                }
            }
        };
        self.answer(sent, limit)
    }

    fn answer<A: DeserializeOwned>(
        &self,
        sent: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
        limit: Duration,
    ) -> anyhow::Result<A> {
        let mut answer = sent.map_err(|error| self.listener.no_answer(&error, limit))?;
        let status = answer.status();
        if status.is_success() {
            let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
            return body.read_json().context("the admin listener's answer");
        }
        if status == 401 {
            return Err(Fixable::error(
                "the admin listener does not know this token",
                "if you added it just now, wait two seconds and repeat the command; else it was \
                    retired or belongs to another system: `payfold token add NAME \
                    --role ROLE` makes a new one",
            ));
        }
        let problem = answer.body_mut().read_json::<Problem>();
        let detail = problem
            .map_or_else(|_| format!("the admin listener answered {status}"), |it| it.detail);
        if status == 403 {
            return Err(Fixable::error(
                detail,
                "ask a person with such a role to do it, with their own --admin-token-file",
            ));
        }
        Err(anyhow::Error::new(RefusedCall { status: status.as_u16(), detail }))
    }
}
