//! Owns the connection settings of Kafka and the CQL database. Invariant: passwords are read from
//! files and passed to the engines' settings only.

use std::path::Path;
use std::time::Duration;

use payfold_engines::EngineError;
use payfold_engines::log::kafka::topics::{self, Footing, Severity};
use payfold_engines::log::kafka::{GroupProtocol, KafkaLogin, KafkaSettings};
use payfold_engines::orders::cql::{
    CqlPassword, CqlSettings, CqlTls, parse_consistency, parse_serial_consistency,
};
use zeroize::Zeroizing;

use crate::error::Fixable;
use crate::settings::{GroupProtocolName, Settings};
use crate::wiring::explain::explain;

/// How long a start waits for unavailable engines.
const START_MAX: Duration = Duration::from_secs(15);
const START_PAUSE: Duration = Duration::from_millis(500);

/// The engines of a system at scale.
#[derive(Clone, Debug)]
pub(crate) struct DistributedEngines {
    pub(super) kafka: KafkaSettings,
    cql: Option<CqlSettings>,
    pub(super) footing: Footing,
}

impl DistributedEngines {
    /// Parses the settings. Errors: a URL or setting that can't be used; a password file that can't
    /// be read.
    pub(crate) fn of(settings: &Settings) -> anyhow::Result<Self> {
        let cql = match settings.orders.as_str() {
            "" => None,
            url => Some(cql(settings, url)?),
        };
        let footing = if settings.dev { Footing::Dev } else { Footing::Production };
        Ok(Self { kafka: kafka(settings)?, cql, footing })
    }

    /// The settings of the database. Errors: the settings name no database.
    pub(super) fn cql(&self) -> anyhow::Result<&CqlSettings> {
        self.cql.as_ref().ok_or_else(|| {
            Fixable::error(
                "log is in Kafka, and orders names no database",
                "set orders = \"cql://HOST:PORT,HOST:PORT/KEYSPACE\"; only ingest runs without it",
            )
        })
    }

    /// Refuses topics with settings that could lose records. The error lists all of them, with the
    /// fix of the first.
    pub(super) async fn refuse_unsafe(&self) -> anyhow::Result<()> {
        let ask = async || topics::check(&self.kafka, self.footing).await;
        let findings = retry_while_unavailable("check the topics", ask).await?;
        let refused: Vec<_> =
            findings.iter().filter(|finding| finding.severity == Severity::Refuse).collect();
        let Some(first) = refused.first() else { return Ok(()) };
        let all: Vec<String> = refused
            .iter()
            .map(|finding| format!("{}: {}", finding.subject, finding.what))
            .collect();
        Err(Fixable::error(
            format!("topics have settings that could lose records: {}", all.join("; ")),
            format!("{}; `payfold check --connect` lists all with their fixes", first.fix),
        ))
    }
}

/// Repeats a request while the engine is unavailable, for up to 15 s. A start should not fail
/// because a partition leader is moving or a database is starting.
pub(super) async fn retry_while_unavailable<T>(
    what: &'static str,
    ask: impl AsyncFn() -> Result<T, EngineError>,
) -> anyhow::Result<T> {
    let until = tokio::time::Instant::now() + START_MAX;
    let mut is_logged = false;
    loop {
        match ask().await {
            Err(error @ EngineError::Unavailable(_)) if tokio::time::Instant::now() < until => {
                if !std::mem::replace(&mut is_logged, true) {
                    let limit = START_MAX.as_secs();
                    tracing::warn!(%error, "can't {what} yet; trying again for {limit} s");
                }
                tokio::time::sleep(START_PAUSE).await;
            }
            asked => return asked.map_err(explain),
        }
    }
}

fn kafka(settings: &Settings) -> anyhow::Result<KafkaSettings> {
    let section = &settings.kafka;
    let mut kafka = KafkaSettings::parse_url(&settings.log).map_err(explain)?;
    if !(0.0..=1_000.0).contains(&section.linger_ms) {
        return Err(Fixable::error(
            format!("kafka.linger_ms = {} is not within 0 to 1000", section.linger_ms),
            "leave it out; 0 suits most systems",
        ));
    }
    kafka.epoch = section.epoch;
    kafka.orders_latest = section.orders_latest;
    kafka.queue_max = settings.ingest.queue_max;
    kafka.linger = Duration::from_secs_f64(section.linger_ms / 1_000.0);
    kafka.delivery_timeout = Duration::from_millis(section.delivery_timeout_ms);
    kafka.group_protocol = match section.group_protocol {
        GroupProtocolName::Consumer => GroupProtocol::Consumer,
        GroupProtocolName::Classic => GroupProtocol::Classic,
    };
    kafka.session_timeout = Duration::from_millis(section.session_timeout_ms);
    kafka.ca_file = named(&section.ca_file);
    kafka.client = section.client.clone().into_iter().collect();
    if !section.username.is_empty() {
        let password = password("kafka.password_file", &section.password_file)?;
        let (mechanism, username) = (section.sasl_mechanism.clone(), section.username.clone());
        kafka.login = Some(KafkaLogin { mechanism, username, password });
    } else {
        refuse_password_without_user("kafka", &section.password_file)?;
    }
    kafka.check().map_err(explain)?;
    if !kafka.is_encrypted() {
        refuse_unused_authorities("kafka", &section.ca_file)?;
        if kafka.login.is_some() && !settings.dev {
            return Err(open_password("kafka"));
        }
    }
    Ok(kafka)
}

fn cql(settings: &Settings, url: &str) -> anyhow::Result<CqlSettings> {
    let section = &settings.cql;
    let mut cql = CqlSettings::parse_url(url).map_err(explain)?;
    cql.dev = settings.dev;
    cql.datacenter = text(&section.datacenter);
    cql.consistency = parse_consistency(&section.consistency).map_err(explain)?;
    cql.serial_consistency =
        parse_serial_consistency(&section.serial_consistency).map_err(explain)?;
    cql.concurrency = section.concurrency;
    cql.request_timeout = Duration::from_millis(section.request_timeout_ms);
    cql.replication = text(&section.replication);
    match &mut cql.tls {
        Some(tls) => *tls = CqlTls { ca_file: named(&section.ca_file) },
        None => refuse_unused_authorities("cql", &section.ca_file)?,
    }
    if !section.username.is_empty() {
        let password = password("cql.password_file", &section.password_file)?;
        if cql.tls.is_none() && !settings.dev {
            return Err(open_password("cql"));
        }
        cql.username = Some(section.username.clone());
        cql.password = Some(CqlPassword::new(password.as_str().to_owned()));
    } else {
        refuse_password_without_user("cql", &section.password_file)?;
    }
    Ok(cql)
}

/// Refuses certificate authorities for a connection without TLS. They would have no effect, and an
/// operator who sets them relies on TLS.
fn refuse_unused_authorities(engine: &str, ca_file: &Path) -> anyhow::Result<()> {
    if named(ca_file).is_none() {
        return Ok(());
    }
    Err(Fixable::error(
        format!(
            "{engine}.ca_file is set, and {engine}:// has no TLS, so the file would have no effect"
        ),
        format!("write {engine}+ssl:// for TLS, or leave ca_file out"),
    ))
}

/// The refusal to send a password over a connection without TLS, where others could read it.
fn open_password(engine: &str) -> anyhow::Error {
    Fixable::error(
        format!(
            "{engine}.username is set, and {engine}:// has no TLS: others could read the password"
        ),
        format!("write {engine}+ssl:// and name the certificates' authority in {engine}.ca_file"),
    )
}

/// Refuses a password without a user name. It would have no effect, and an operator who sets it
/// relies on a login.
fn refuse_password_without_user(engine: &str, password_file: &Path) -> anyhow::Result<()> {
    if named(password_file).is_none() {
        return Ok(());
    }
    Err(Fixable::error(
        format!(
            "{engine}.password_file is set, and {engine}.username is not, so there would be no \
                login"
        ),
        format!("set {engine}.username, or leave password_file out"),
    ))
}

fn text(setting: &str) -> Option<String> {
    (!setting.is_empty()).then(|| setting.to_owned())
}

fn named(path: &Path) -> Option<std::path::PathBuf> {
    (!path.as_os_str().is_empty()).then(|| path.to_owned())
}

fn password(setting: &str, path: &Path) -> anyhow::Result<Zeroizing<String>> {
    let read = std::fs::read_to_string(path).map(Zeroizing::new);
    let content = read.map_err(|error| {
        Fixable::error(
            format!("{setting} = \"{}\" can't be read: {error}", path.display()),
            "give a file that holds only the password and that this user can read",
        )
    })?;
    Ok(Zeroizing::new(content.trim_end_matches(['\r', '\n']).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error for these settings; empty if there is none.
    fn error_of(log: &str, text: &str) -> String {
        let mut settings: Settings = toml::from_str(text).expect("settings");
        settings.log = log.to_owned();
        kafka(&settings)
            .and_then(|_| cql(&settings, &log.replace("kafka", "cql")))
            .map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn settings_without_effect_are_refused() {
        let (plain, tls) = ("kafka://127.0.0.1:9/pay", "kafka+ssl://127.0.0.1:9/pay");
        for (log, text, says) in [
            (plain, "[kafka]\nca_file = \"ca.pem\"", "kafka.ca_file is set, and kafka://"),
            (plain, "[cql]\nca_file = \"ca.pem\"", "cql.ca_file is set, and cql://"),
            (plain, "[kafka]\npassword_file = \"p\"", "kafka.username is not"),
            (tls, "[cql]\npassword_file = \"p\"", "cql.username is not"),
            (
                plain,
                "[kafka]\nusername = \"me\"\npassword_file = \"/dev/null\"",
                "kafka:// has no TLS",
            ),
            (plain, "[cql]\nusername = \"me\"\npassword_file = \"/dev/null\"", "cql:// has no TLS"),
        ] {
            let error = error_of(log, text);
            assert!(error.contains(says), "{text}: {error}");
        }
        let by_client = "[kafka]\nca_file = \"ca.pem\"\nclient = {\"security.protocol\" = \"ssl\"}";
        let both = "[kafka]\nca_file = \"ca.pem\"\n[cql]\nca_file = \"ca.pem\"";
        let in_dev = "dev = true\n[kafka]\nusername = \"me\"\npassword_file = \"/dev/null\"";
        for (log, text) in [(plain, ""), (plain, by_client), (tls, both), (plain, in_dev)] {
            assert_eq!(error_of(log, text), "", "{text}");
        }
    }
}
