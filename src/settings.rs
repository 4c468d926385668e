//! Owns the settings: defaults, overridden by `payfold.toml`, then by `PAYFOLD_*` variables, then
//! by flags. No other file reads the environment. An unknown setting is an error that names it.

mod distributed;
mod partner;
mod reconciler;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use anyhow::Context;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

#[cfg(feature = "cluster")]
pub(crate) use self::distributed::GroupProtocolName;
pub(crate) use self::distributed::{CqlSection, KafkaSection};
pub(crate) use self::partner::{PartnerSettings, RecordsBy};
pub(crate) use self::reconciler::ReconcilerSettings;
use crate::args::{Global, RunArgs};
use crate::error::{Fixable, is_there};

/// The configuration file that is read when `--config` names none.
pub(crate) const FILE_NAME: &str = "payfold.toml";

/// The commented file that `payfold init` prints.
pub(crate) const TEMPLATE: &str = include_str!("payfold.toml");

/// All settings.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Folder of the embedded engines, the vault and the run file.
    pub data: PathBuf,
    /// The vault by URL, `file:` or `dir:`; empty: `vault.age` in the data folder.
    pub vault: String,
    /// Whether core files of this process may be written and other processes of its user may attach
    /// to it. Its memory holds keys.
    pub debuggable: bool,
    /// Event log by URL, `sqlite:` or `kafka:`; empty: `sqlite:` in the data folder.
    pub log: String,
    /// Order store by URL, `sqlite:` or `cql:`; empty: `sqlite:` in the data folder.
    pub orders: String,
    /// Whether one broker and one database node suffice: replication is not checked. Not for real
    /// money.
    pub dev: bool,
    /// Address partners post to.
    pub listen_public: String,
    /// Address shops call.
    pub listen_shop: String,
    /// Address of probes, metrics and admin calls.
    pub listen_admin: String,
    /// Address of probes and metrics alone; empty: they are only on the admin listener.
    pub listen_probes: String,
    /// Names by which both are called, besides addresses and names that public DNS does not know.
    pub admin_hosts: Vec<String>,
    /// Address of the console.
    pub listen_console: String,
    /// Address of the sandbox partner; only the demo has one.
    pub listen_sandbox: String,
    /// Base address partners and browsers reach the public listener at; empty: the listener's own.
    pub public_url: String,
    /// Format of log lines: auto (human on a terminal, else JSON), human or json.
    pub log_format: LogFormat,
    /// Which log lines are written: a level, or tracing directives.
    pub log_filter: String,
    /// The ingest role.
    pub ingest: IngestSettings,
    /// The projector role.
    pub projector: ProjectorSettings,
    /// The checkout role.
    pub checkout: CheckoutSettings,
    /// The reconciler role.
    pub reconciler: ReconcilerSettings,
    /// The console role.
    pub console: ConsoleSection,
    /// The SQLite engines.
    pub sqlite: SqliteSettings,
    /// The log in Kafka.
    pub kafka: KafkaSection,
    /// The orders in a CQL database.
    pub cql: CqlSection,
    /// Partners by code.
    pub partners: BTreeMap<String, PartnerSettings>,
}

/// Formats of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Human on a terminal, JSON otherwise.
    Auto,
    /// Lines for people.
    Human,
    /// One JSON object a line.
    Json,
}

/// The ingest role.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct IngestSettings {
    /// Worker threads; 0 is one per core. On Kafka 0 leaves one core to its client, but starts at
    /// least one worker.
    pub workers: usize,
    /// Open connections at most, over all workers.
    pub connections_max: usize,
    /// Milliseconds within which a request's head must arrive.
    pub head_timeout_ms: u64,
    /// Milliseconds within which a request's body must arrive.
    pub body_timeout_ms: u64,
    /// Milliseconds after which an idle connection is closed.
    pub idle_timeout_ms: u64,
    /// Maximum of appends that wait for durability; further notices are answered 503.
    pub queue_max: usize,
    /// Maximum of requests a second from one source address; 0 is no limit.
    pub address_rate_per_s: u32,
    /// Networks of the proxies that may set X-Forwarded-For.
    pub trusted_proxies: Vec<IpNet>,
    /// Maximum of bytes of one account that are quarantined in an hour.
    pub quarantine_bytes_per_hour: u64,
}

/// The console role.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConsoleSection {
    /// The address that browsers reach the console at; empty: the listener's own, on this machine.
    pub url: String,
    /// The admin listeners that it asks; empty: this process's own.
    pub admin_urls: Vec<String>,
    /// The file with the key that seals sessions; empty: `console.key` in the data folder.
    pub session_key_file: String,
}

/// The projector role.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProjectorSettings {
    /// Maximum of records that are folded and committed together.
    pub batch_records: usize,
}

/// The checkout role.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckoutSettings {
    /// Worker threads; 0 is one per core.
    pub workers: usize,
    /// Maximum of create calls in flight at one partner; further ones are answered 503.
    pub calls_per_partner_max: usize,
    /// Maximum of streams and long polls open at once.
    pub followers_max: usize,
    /// Where a payer's browser is sent after a payment, unless the payment named another target;
    /// empty: a plain page.
    pub shop_url: String,
    /// Other targets by name (https or app schemes), for `returnTo`.
    pub return_to: BTreeMap<String, String>,
}

/// The SQLite engines.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct SqliteSettings {
    /// Page cache of the order store, MiB.
    pub orders_cache_mib: u32,
}

impl Settings {
    /// Whether the log is in Kafka instead of a file.
    pub fn logs_to_kafka(&self) -> bool {
        self.log.starts_with("kafka")
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            data: "payfold-data".into(),
            vault: String::new(),
            debuggable: false,
            log: String::new(),
            orders: String::new(),
            dev: false,
            listen_public: "127.0.0.1:8080".into(),
            listen_shop: "127.0.0.1:8081".into(),
            listen_admin: "127.0.0.1:9464".into(),
            listen_probes: String::new(),
            admin_hosts: Vec::new(),
            listen_console: "127.0.0.1:8083".into(),
            listen_sandbox: "127.0.0.1:8082".into(),
            public_url: String::new(),
            log_format: LogFormat::Auto,
            log_filter: "info,actix_server=warn,actix_http=off,scylla=off".into(),
            ingest: IngestSettings::default(),
            projector: ProjectorSettings::default(),
            checkout: CheckoutSettings::default(),
            reconciler: ReconcilerSettings::default(),
            console: ConsoleSection::default(),
            sqlite: SqliteSettings::default(),
            kafka: KafkaSection::default(),
            cql: CqlSection::default(),
            partners: BTreeMap::new(),
        }
    }
}

impl Default for IngestSettings {
    fn default() -> Self {
        Self {
            workers: 0,
            connections_max: 25_000,
            head_timeout_ms: 5_000,
            body_timeout_ms: 10_000,
            idle_timeout_ms: 75_000,
            queue_max: 4_096,
            address_rate_per_s: 0,
            trusted_proxies: Vec::new(),
            quarantine_bytes_per_hour: 64 * 1024 * 1024,
        }
    }
}

impl Default for ProjectorSettings {
    fn default() -> Self {
        Self { batch_records: 2_048 }
    }
}

impl Default for CheckoutSettings {
    fn default() -> Self {
        Self {
            workers: 0,
            calls_per_partner_max: 256,
            followers_max: 10_000,
            shop_url: String::new(),
            return_to: BTreeMap::new(),
        }
    }
}

impl Default for SqliteSettings {
    fn default() -> Self {
        Self { orders_cache_mib: 16 }
    }
}

/// Settings, and where they were read from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// The configuration file; `None` in the demo.
    pub file: Option<PathBuf>,
    /// Names of `PAYFOLD_*` variables that match no setting.
    pub ignored_variables: Vec<String>,
}

/// Whether a system is the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// There is no configuration file: a sandbox partner with a generated key, loopback only.
    Demo,
    /// There is a configuration file.
    Configured,
}

/// Loads the settings of a command. Errors name the setting and the file or variable.
pub(crate) fn load(global: &Global) -> anyhow::Result<Loaded> {
    let file = find_file(global)?;
    let (variables, ignored_variables) = known_variables()?;
    let mut builder = config::Config::builder();
    if let Some(path) = &file {
        builder =
            builder.add_source(config::File::from(path.as_path()).format(config::FileFormat::Toml));
    }
    let environment = config::Environment::default()
        .separator("__")
        .try_parsing(true)
        .list_separator(",")
        .with_list_parse_key("admin_hosts")
        .with_list_parse_key("ingest.trusted_proxies")
        .with_list_parse_key("reconciler.query_after")
        .with_list_parse_key("console.admin_urls")
        .source(Some(variables));
    let mut settings: Settings = builder
        .add_source(environment)
        .build()
        .and_then(config::Config::try_deserialize)
        .map_err(|error| explain(&error, file.as_deref()))?;
    if let Some(data) = &global.data {
        settings.data.clone_from(data);
    }
    Ok(Loaded { settings, file, ignored_variables })
}

impl Loaded {
    /// Overrides the settings with the flags of `run`.
    pub fn with_run_flags(mut self, args: &RunArgs) -> Self {
        let settings = &mut self.settings;
        for (setting, flag) in [
            (&mut settings.listen_public, &args.listen_public),
            (&mut settings.listen_shop, &args.listen_shop),
            (&mut settings.listen_admin, &args.listen_admin),
            (&mut settings.listen_probes, &args.listen_probes),
            (&mut settings.listen_console, &args.listen_console),
            (&mut settings.listen_sandbox, &args.listen_sandbox),
        ] {
            if let Some(address) = flag {
                setting.clone_from(address);
            }
        }
        self
    }

    /// The demo if there is no configuration file.
    pub fn origin(&self) -> Origin {
        if self.file.is_some() { Origin::Configured } else { Origin::Demo }
    }

    /// Whether this is the demo.
    pub fn is_demo(&self) -> bool {
        self.origin() == Origin::Demo
    }
}

fn find_file(global: &Global) -> anyhow::Result<Option<PathBuf>> {
    if let Some(path) = &global.config {
        if !is_there(path)? {
            return Err(Fixable::error(
                format!("the configuration file {} does not exist", path.display()),
                format!(
                    "give another with --config, or write one: payfold init > {}",
                    path.display()
                ),
            ));
        }
        return Ok(Some(path.clone()));
    }
    let path = PathBuf::from(FILE_NAME);
    // A file that exists and can't be read must not start a demo in its place.
    Ok(is_there(&path)?.then_some(path))
}

fn explain(error: &config::ConfigError, file: Option<&Path>) -> anyhow::Error {
    let file = file.map_or_else(|| "the environment".to_owned(), |path| path.display().to_string());
    Fixable::error(
        format!("the configuration can't be used: {error} (from {file} or PAYFOLD_* variables)"),
        "correct it; `payfold init` prints every setting with its meaning and default",
    )
}

/// The names of all `PAYFOLD_*` variables. A bench takes them from its child process.
pub(crate) fn variable_names() -> Vec<std::ffi::OsString> {
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(|name| name.to_string_lossy().starts_with("PAYFOLD_")).collect()
}

/// The `PAYFOLD_*` variables that match a setting (names without the prefix), and the names of
/// those that don't. Kubernetes injects such variables for a service named payfold, so an unknown
/// variable is no error. Variables of flags (`PAYFOLD_CONFIG`, …) are in neither list.
#[expect(clippy::disallowed_methods, reason = "this is the file that reads the environment")]
fn known_variables() -> anyhow::Result<(HashMap<String, String>, Vec<String>)> {
    let known = all_names()?;
    let flags = ["config", "data", "admin_url", "admin_token_file", "admin_ca_file"];
    let mut set = HashMap::new();
    let mut ignored = Vec::new();
    for (name, value) in std::env::vars() {
        let Some(setting) = name.strip_prefix("PAYFOLD_").map(str::to_lowercase) else { continue };
        if known.contains(&setting) {
            set.insert(setting, value);
        } else if !flags.contains(&setting.as_str()) {
            ignored.push(name);
        }
    }
    ignored.sort();
    Ok((set, ignored))
}

/// The names of all settings as variables spell them, without the prefix.
fn all_names() -> anyhow::Result<Vec<String>> {
    let defaults = serde_json::to_value(Settings::default()).context("settings serialise")?;
    let mut names = Vec::new();
    setting_names("", &defaults, &mut names);
    Ok(names)
}

fn setting_names(prefix: &str, value: &serde_json::Value, names: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                let path =
                    if prefix.is_empty() { name.clone() } else { format!("{prefix}__{name}") };
                setting_names(&path, value, names);
            }
        }
        _ => names.push(prefix.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_toml_and_mentions_every_setting() {
        let parsed: toml::Value = toml::from_str(TEMPLATE).unwrap();
        assert!(parsed.is_table());
        for name in all_names().unwrap() {
            let last = name.rsplit("__").next().unwrap();
            assert!(TEMPLATE.contains(last), "payfold.toml does not mention {name}");
        }
    }

    #[test]
    fn an_unknown_setting_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("payfold.toml");
        std::fs::write(&path, "[ingest]\nqueue_maxx = 5\n").unwrap();
        let global = Global { config: Some(path), ..Global::default() };
        let error = load(&global).unwrap_err().to_string();
        assert!(error.contains("queue_maxx") && error.contains("fix:"), "{error}");
    }

    #[test]
    fn a_file_overrides_the_defaults_and_a_flag_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("payfold.toml");
        std::fs::write(
            &path,
            "listen_public = \"127.0.0.1:1\"\n[partners.acme]\nprofile = \"default\"\n",
        )
        .unwrap();
        let global =
            Global { config: Some(path), data: Some("elsewhere".into()), ..Global::default() };
        let loaded = load(&global).unwrap();
        assert_eq!(loaded.settings.listen_public, "127.0.0.1:1");
        assert_eq!(loaded.settings.partners["acme"].profile, "default");
        assert_eq!(loaded.settings.data, PathBuf::from("elsewhere"));
        assert!(!loaded.is_demo());
    }
}
