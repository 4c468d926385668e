//! Owns the settings of the Kafka log and of its librdkafka clients. Invariants, whatever a person
//! sets: a producer is idempotent and waits for all in-sync replicas; a consumer never commits
//! offsets or resets its position by itself; the password appears in no `Debug` output and no
//! error.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use rdkafka::ClientConfig;
use zeroize::Zeroizing;

use super::layout::Layout;
use super::rejoin::CHECK_MS;
use crate::EngineError;
use crate::log::epoch::EPOCHS;

/// The longest message of the producer and of the topics, bytes: the longest value an append
/// accepts, with room for key, headers and framing.
pub(super) const MESSAGE_BYTES_MAX: u32 = 20_000_000;

/// How a group assigns partitions to its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupProtocol {
    /// The broker assigns (KIP-848). Kafka 4.0 and later.
    Consumer,
    /// A member assigns, with cooperative rebalances. For older brokers.
    Classic,
}

/// Payfold's SASL login to the cluster.
#[derive(Clone)]
pub struct KafkaLogin {
    /// `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`.
    pub mechanism: String,
    /// The user's name.
    pub username: String,
    /// The password.
    pub password: Zeroizing<String>,
}

impl fmt::Debug for KafkaLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mechanism, username) = (&self.mechanism, &self.username);
        write!(f, "KafkaLogin {{ mechanism: {mechanism:?}, username: {username:?} }}")
    }
}

/// Settings of a log in Kafka.
#[derive(Clone, Debug)]
pub struct KafkaSettings {
    /// `host:port` of some brokers; clients discover the others through them.
    pub brokers: Vec<String>,
    /// The prefix of the log's topic names.
    pub prefix: String,
    /// Intake's log epoch: how often it was continued in a topic with more partitions.
    pub epoch: u32,
    /// How many messages may wait for durability before `append` refuses more.
    pub queue_max: usize,
    /// How long a message waits for others to share its batch.
    pub linger: Duration,
    /// How long a message may take to become durable before its append fails.
    pub delivery_timeout: Duration,
    /// Whether `orders` has a compacted copy, the topic `orders.latest`.
    pub orders_latest: bool,
    /// The rebalance protocol of groups.
    pub group_protocol: GroupProtocol,
    /// Under the classic protocol, how long a member may miss heartbeats before the group removes
    /// it.
    pub session_timeout: Duration,
    /// Whether connections to the brokers use TLS.
    pub tls: bool,
    /// The certificate authorities that the brokers' certificates are checked against; `None` for
    /// the system's.
    pub ca_file: Option<PathBuf>,
    /// The SASL login; `None` for a cluster without authentication.
    pub login: Option<KafkaLogin>,
    /// More librdkafka settings by their names. They override the defaults here; `check` refuses
    /// those in `FIXED` and `WITH_OWN_SETTING`.
    pub client: Vec<(String, String)>,
}

/// librdkafka settings that have a payfold setting, and which. Setting them here would bypass the
/// checks of that setting.
const WITH_OWN_SETTING: [(&str, &str); 8] = [
    ("queue.buffering.max.messages", "ingest.queue_max"),
    ("delivery.timeout.ms", "kafka.delivery_timeout_ms"),
    ("message.timeout.ms", "kafka.delivery_timeout_ms"),
    ("linger.ms", "kafka.linger_ms"),
    ("queue.buffering.max.ms", "kafka.linger_ms"),
    ("group.protocol", "kafka.group_protocol"),
    ("session.timeout.ms", "kafka.session_timeout_ms"),
    ("sasl.password", "kafka.password_file"),
];

/// librdkafka settings of the check of the brokers' certificates, which can't be switched off.
const CERTIFICATE_CHECKS: [&str; 2] =
    ["enable.ssl.certificate.verification", "ssl.endpoint.identification.algorithm"];

/// librdkafka settings that can't be set, because a guarantee of the log depends on each of them.
const FIXED: [&str; 16] = [
    "bootstrap.servers",
    "metadata.broker.list",
    "message.max.bytes",
    "check.crcs",
    "isolation.level",
    "partition.assignment.strategy",
    "delivery.report.only.error",
    "acks",
    "request.required.acks",
    "enable.idempotence",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "auto.offset.reset",
    "partitioner",
    "transactional.id",
    "group.id",
];

impl KafkaSettings {
    /// Makes settings for these brokers and this prefix, with defaults for everything else.
    pub fn new(brokers: Vec<String>, prefix: &str) -> Self {
        Self {
            brokers,
            prefix: prefix.to_owned(),
            epoch: 0,
            queue_max: 4_096,
            linger: Duration::ZERO,
            delivery_timeout: Duration::from_secs(4),
            orders_latest: true,
            group_protocol: GroupProtocol::Consumer,
            session_timeout: Duration::from_secs(10),
            tls: false,
            ca_file: None,
            login: None,
            client: Vec::new(),
        }
    }

    /// Parses `kafka://b1:9092,b2:9092/prefix`, or `kafka+ssl://…` for TLS. Errors: `Invalid` with
    /// the expected format.
    pub fn parse_url(url: &str) -> Result<Self, EngineError> {
        let bad = |what: &str| {
            EngineError::Invalid(format!(
                "log URL: {what}; write it as kafka://HOST:PORT,HOST:PORT/PREFIX, with \
                 kafka+ssl:// for TLS"
            ))
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| bad("this is no URL"))?;
        let tls = match scheme {
            "kafka" => false,
            "kafka+ssl" => true,
            _ => return Err(bad("the scheme is not kafka")),
        };
        if rest.contains('@') {
            // The message doesn't repeat the URL, which may contain a password.
            return Err(bad(
                "a user name or password can't be in the URL, which is shown in logs and process \
                 lists: set kafka.username and kafka.password_file instead",
            ));
        }
        let (brokers, prefix) = rest.split_once('/').ok_or_else(|| bad("the prefix is missing"))?;
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if prefix.is_empty() || prefix.len() > 100 || !prefix.chars().all(allowed) {
            return Err(bad(
                "the prefix is 1 to 100 letters, digits, '-', '_' or '.', because topic names \
                 start with it",
            ));
        }
        let brokers: Vec<String> = brokers.split(',').map(str::to_owned).collect();
        let has_port = |broker: &String| {
            broker.rsplit_once(':').is_some_and(|(host, port)| {
                !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)
            })
        };
        if !brokers.iter().all(has_port) {
            return Err(bad("a broker is not HOST:PORT"));
        }
        Ok(Self { tls, ..Self::new(brokers, prefix) })
    }

    /// Checks the values that a person may have set. Errors: `Invalid` with the setting.
    pub fn check(&self) -> Result<(), EngineError> {
        let bad = |text: String| Err(EngineError::Invalid(text));
        if self.epoch >= EPOCHS {
            return bad(format!("kafka.epoch = {}: the highest is {}", self.epoch, EPOCHS - 1));
        }
        if let Some((name, _)) = self.client.iter().find(|(name, _)| FIXED.contains(&&**name)) {
            return bad(format!(
                "kafka.client.{name} can't be set, because a guarantee of the log depends on it: \
                 remove it"
            ));
        }
        let is_check = |(name, value): &&(String, String)| {
            let is_on = ["true", "https"].iter().any(|on| value.eq_ignore_ascii_case(on));
            CERTIFICATE_CHECKS.contains(&&**name) && !is_on
        };
        if let Some((name, _)) = self.client.iter().find(is_check) {
            return bad(format!(
                "kafka.client.{name} can't switch the check of certificates off, because another \
                 server could take a broker's place: remove it, and name the authority of the \
                 brokers' certificates in kafka.ca_file"
            ));
        }
        if self.tls && !self.is_encrypted() {
            let text = "kafka.client.security.protocol takes the TLS of kafka+ssl:// away: remove \
                it, or write kafka://";
            return bad(text.to_owned());
        }
        let own =
            |(name, _): &(String, String)| WITH_OWN_SETTING.iter().find(|(other, _)| name == other);
        if let Some((name, setting)) = self.client.iter().find_map(own) {
            return bad(format!("kafka.client.{name} can't be set: set {setting} instead"));
        }
        if self.delivery_timeout.is_zero() {
            // librdkafka takes 0 as no timeout, and the pump would fail every message at once.
            return bad("kafka.delivery_timeout_ms = 0: set it to 1 or more".to_owned());
        }
        if self.group_protocol == GroupProtocol::Classic && self.session_timeout.is_zero() {
            return bad("kafka.session_timeout_ms = 0: set it to 1 or more".to_owned());
        }
        if let Some(login) = &self.login
            && !["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"].contains(&&*login.mechanism)
        {
            let mechanism = &login.mechanism;
            return bad(format!(
                "kafka.sasl_mechanism = \"{mechanism}\" is not PLAIN, SCRAM-SHA-256 or \
                 SCRAM-SHA-512"
            ));
        }
        Ok(())
    }

    /// Whether connections to the brokers use TLS: as the URL says, or `security.protocol` in
    /// `client`.
    pub fn is_encrypted(&self) -> bool {
        let base = self.base();
        let protocol = base.get("security.protocol").unwrap_or_default();
        protocol.to_ascii_uppercase().ends_with("SSL")
    }

    /// The layout of the topics that these settings name.
    pub fn layout(&self) -> Layout {
        Layout::new(&self.prefix, self.epoch)
    }

    /// The settings of every client.
    pub(super) fn base(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", self.brokers.join(","))
            .set("client.id", "payfold")
            .set("socket.nagle.disable", "true")
            .set("socket.keepalive.enable", "true")
            // A connection that is not set up in this time is given up, as Java clients do.
            .set("socket.connection.setup.timeout.ms", "10000")
            .set("reconnect.backoff.ms", "50")
            .set("reconnect.backoff.max.ms", "1000")
            .set("allow.auto.create.topics", "false")
            .set("topic.metadata.refresh.interval.ms", "30000");
        let protocol = match (self.tls, &self.login) {
            (false, None) => "PLAINTEXT",
            (true, None) => "SSL",
            (false, Some(_)) => "SASL_PLAINTEXT",
            (true, Some(_)) => "SASL_SSL",
        };
        config.set("security.protocol", protocol);
        if let Some(ca) = &self.ca_file {
            config.set("ssl.ca.location", ca.to_string_lossy());
        }
        if let Some(login) = &self.login {
            config
                .set("sasl.mechanisms", &login.mechanism)
                .set("sasl.username", &login.username)
                .set("sasl.password", login.password.as_str());
        }
        self.set_client(&mut config);
        config
    }

    /// Sets what the operator has chosen, over the defaults.
    fn set_client(&self, config: &mut ClientConfig) {
        for (name, value) in &self.client {
            config.set(name, value);
        }
    }

    /// The settings of a producer: per key in order, without duplicates, durable on all in-sync
    /// replicas.
    pub(super) fn producer(&self) -> ClientConfig {
        let mut config = self.base();
        let linger_ms = self.linger.as_secs_f64() * 1_000.0;
        config
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("linger.ms", linger_ms.to_string())
            .set("delivery.timeout.ms", self.delivery_timeout.as_millis().to_string())
            .set("queue.buffering.max.messages", "0")
            .set("message.max.bytes", MESSAGE_BYTES_MAX.to_string());
        config
    }

    /// The settings of a consumer that never commits offsets or resets its position by itself.
    pub(super) fn consumer(&self, group: &str) -> ClientConfig {
        let mut config = self.base();
        config
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("check.crcs", "true")
            .set("fetch.wait.max.ms", "100")
            .set("fetch.queue.backoff.ms", "50")
            .set("queued.max.messages.kbytes", "16384")
            .set("queued.min.messages", "10000")
            .set("fetch.message.max.bytes", "4194304")
            .set("isolation.level", "read_uncommitted")
            // Only group members read the statistics.
            .set("statistics.interval.ms", "0");
        self.set_client(&mut config);
        config
    }

    /// The settings of a consumer that is a member of its group.
    pub(super) fn member(&self, group: &str) -> ClientConfig {
        let mut config = self.consumer(group);
        match self.group_protocol {
            // Under KIP-848 the broker sets the timeouts, and librdkafka refuses to have them set.
            GroupProtocol::Consumer => {
                config.set("group.protocol", "consumer").set("statistics.interval.ms", CHECK_MS)
            }
            GroupProtocol::Classic => config
                .set("group.protocol", "classic")
                .set("partition.assignment.strategy", "cooperative-sticky")
                .set("session.timeout.ms", self.session_timeout.as_millis().to_string()),
        };
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_brokers_and_prefix() {
        let settings = KafkaSettings::parse_url("kafka://a:9092,b:9093/pay.live").unwrap();
        assert_eq!(settings.brokers, ["a:9092", "b:9093"]);
        assert_eq!((settings.prefix.as_str(), settings.tls), ("pay.live", false));
        assert!(KafkaSettings::parse_url("kafka+ssl://a:1/p").unwrap().tls);
        for (url, why) in [
            ("a:9092/p", "no URL"),
            ("http://a:9092/p", "scheme"),
            ("kafka://a:9092", "prefix is missing"),
            ("kafka://a:9092/", "prefix is 1 to 100"),
            ("kafka://a:9092/p/q", "prefix is 1 to 100"),
            ("kafka://a/p", "HOST:PORT"),
            ("kafka://a:9092,:1/p", "HOST:PORT"),
            ("kafka://me:hunter2@a:9092/p", "kafka.password_file"),
        ] {
            let error = KafkaSettings::parse_url(url).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("hunter2"), "{url}: {error}");
        }
    }

    #[test]
    fn settings_that_durability_depends_on_can_not_be_set() {
        let mut settings = KafkaSettings::parse_url("kafka://a:1/p").unwrap();
        settings.client = vec![("acks".to_owned(), "1".to_owned())];
        assert!(settings.check().unwrap_err().to_string().contains("kafka.client.acks"));
        settings.client = vec![("message.timeout.ms".to_owned(), "0".to_owned())];
        let refused = settings.check().unwrap_err().to_string();
        assert!(refused.contains("set kafka.delivery_timeout_ms instead"), "{refused}");
        let memory = ("queued.max.messages.kbytes".to_owned(), "1024".to_owned());
        settings.client = vec![memory];
        settings.check().unwrap();
        assert_eq!(settings.member("g").get("queued.max.messages.kbytes"), Some("1024"));
        for name in CERTIFICATE_CHECKS {
            settings.client = vec![(name.to_owned(), "none".to_owned())];
            let refused = settings.check().unwrap_err().to_string();
            assert!(refused.contains("in kafka.ca_file"), "{name}: {refused}");
        }
        for (name, value) in CERTIFICATE_CHECKS.into_iter().zip(["true", "HTTPS"]) {
            settings.client = vec![(name.to_owned(), value.to_owned())];
            assert_eq!(settings.check(), Ok(()), "{name}");
        }
        settings.client = vec![("socket.timeout.ms".to_owned(), "5000".to_owned())];
        assert_eq!(settings.check(), Ok(()));
        assert_eq!(settings.producer().get("acks"), Some("all"));
        assert_eq!(settings.base().get("socket.timeout.ms"), Some("5000"));
    }

    #[test]
    fn tls_is_set_by_the_url_or_the_client() {
        for (url, protocol, is_encrypted) in [
            ("kafka://a:1/p", None, false),
            ("kafka://a:1/p", Some("sasl_plaintext"), false),
            ("kafka://a:1/p", Some("sasl_ssl"), true),
            ("kafka+ssl://a:1/p", None, true),
        ] {
            let mut settings = KafkaSettings::parse_url(url).unwrap();
            let by_client = protocol.map(|name| ("security.protocol".to_owned(), name.to_owned()));
            settings.client = by_client.into_iter().collect();
            assert_eq!(settings.is_encrypted(), is_encrypted, "{url} {protocol:?}");
            assert_eq!(settings.check(), Ok(()), "{url} {protocol:?}");
        }
        let mut settings = KafkaSettings::parse_url("kafka+ssl://a:1/p").unwrap();
        settings.client = vec![("security.protocol".to_owned(), "plaintext".to_owned())];
        let refused = settings.check().unwrap_err().to_string();
        assert!(refused.contains("takes the TLS of kafka+ssl:// away"), "{refused}");
    }

    #[test]
    fn a_password_is_never_shown() {
        let mut settings = KafkaSettings::parse_url("kafka+ssl://a:1/p").unwrap();
        let password = Zeroizing::new("hunter2".to_owned());
        let (mechanism, username) = ("SCRAM-SHA-512".to_owned(), "pay".to_owned());
        settings.login = Some(KafkaLogin { mechanism, username, password });
        assert!(!format!("{settings:?}").contains("hunter2"));
        assert_eq!(settings.base().get("security.protocol"), Some("SASL_SSL"));
    }
}
