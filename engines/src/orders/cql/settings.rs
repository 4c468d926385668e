//! Owns the URL and the settings of a CQL store, and their checks. Invariants: a password is never
//! shown and never accepted in a URL; outside development no consistency is accepted under which a
//! read could miss an acknowledged write, because a fold over a stale row loses facts.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use scylla::statement::{Consistency, SerialConsistency};
use zeroize::Zeroizing;

use crate::EngineError;

const PORT: u16 = 9042;

/// The format of a URL, for messages.
const URL_FORMAT: &str =
    "write it as cql://node1:9042,node2:9042/keyspace, with cql+ssl:// for TLS";

/// The longest name of a keyspace that Cassandra accepts.
const KEYSPACE_CHARS_MAX: usize = 48;

/// A password. No output shows it, and its memory is cleared on drop.
#[derive(Clone)]
pub struct CqlPassword(Zeroizing<String>);

impl CqlPassword {
    /// Wraps a password.
    pub fn new(password: String) -> Self {
        Self(Zeroizing::new(password))
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for CqlPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// TLS to the nodes. Their certificates must name their IP addresses, because the driver finds
/// nodes by address.
#[derive(Clone, Debug, Default)]
pub struct CqlTls {
    /// The trusted certificate authorities, PEM; `None` for the system's.
    pub ca_file: Option<PathBuf>,
}

/// Settings of a CQL store.
#[derive(Clone, Debug)]
pub struct CqlSettings {
    /// Contact points, `host:port`; the driver discovers the other nodes from them.
    pub nodes: Vec<String>,
    /// The keyspace of the tables.
    pub keyspace: String,
    /// The datacenter with the nodes that the driver uses. It is required for a keyspace in several
    /// datacenters with a local consistency, and must then be the same in every process.
    pub datacenter: Option<String>,
    /// Consistency level of reads and writes.
    pub consistency: Consistency,
    /// Serial consistency of claims (lightweight transactions). Must be `Serial` where several
    /// datacenters have replicas.
    pub serial_consistency: SerialConsistency,
    /// The most statements that one call keeps in flight.
    pub concurrency: usize,
    /// The timeout of one statement, retries included, and of connecting.
    pub request_timeout: Duration,
    /// The user to log in as; `None` for a database without users.
    pub username: Option<String>,
    /// The user's password.
    pub password: Option<CqlPassword>,
    /// TLS settings; `None` for plain TCP.
    pub tls: Option<CqlTls>,
    /// The replication of a new keyspace, in CQL; `None` for the default. Other options of the
    /// keyspace may follow it: `{…} AND tablets = {'enabled': false}`.
    pub replication: Option<String>,
    /// Whether a single node is enough, for development: replication and consistency are not
    /// checked.
    pub dev: bool,
}

impl Default for CqlSettings {
    fn default() -> Self {
        Self {
            nodes: vec![format!("127.0.0.1:{PORT}")],
            keyspace: "payfold".to_owned(),
            datacenter: None,
            consistency: Consistency::LocalQuorum,
            serial_consistency: SerialConsistency::LocalSerial,
            concurrency: 256,
            request_timeout: Duration::from_secs(10),
            username: None,
            password: None,
            tls: None,
            replication: None,
            dev: false,
        }
    }
}

impl CqlSettings {
    /// Default settings for the nodes and the keyspace of a URL such as
    /// `cql://n1:9042,n2:9042/keyspace` (`cql+ssl://` for TLS; a port left out is 9042). Errors:
    /// `Invalid` with what is wrong.
    pub fn parse_url(url: &str) -> Result<Self, EngineError> {
        // Checked first, because other messages repeat parts of the URL.
        if url.contains('@') {
            return Err(EngineError::Invalid(format!(
                "a user name or password in the orders URL ends up in logs and process lists: \
                 remove it and set cql.username and cql.password_file; {URL_FORMAT}"
            )));
        }
        let (tls, rest) = match url.split_once("://") {
            Some(("cql", rest)) => (None, rest),
            Some(("cql+ssl", rest)) => (Some(CqlTls::default()), rest),
            _ => return Err(wrong(format!("{url:?} does not begin with cql:// or cql+ssl://"))),
        };
        if rest.contains(['?', '#']) {
            return Err(wrong(format!("{url:?} has options after the keyspace; remove them")));
        }
        let (nodes, keyspace) =
            rest.split_once('/').ok_or_else(|| wrong(format!("{url:?} names no keyspace")))?;
        let nodes = nodes.split(',').map(node).collect::<Result<_, _>>()?;
        check_keyspace(keyspace)?;
        Ok(Self { nodes, keyspace: keyspace.to_owned(), tls, ..Self::default() })
    }

    /// Refuses settings that can't work or would lose facts. Errors: `Invalid`.
    pub(super) fn check(&self) -> Result<(), EngineError> {
        let invalid = |text: &str| Err(EngineError::Invalid(text.to_owned()));
        check_keyspace(&self.keyspace)?;
        if self.nodes.is_empty() {
            return invalid("the order store's URL names no node");
        }
        if self.concurrency == 0 {
            return invalid("cql.concurrency = 0: set it to 1 or more");
        }
        if self.request_timeout.is_zero() {
            return invalid("cql.request_timeout_ms = 0: set it to 1 or more");
        }
        if self.username.is_some() != self.password.is_some() {
            return invalid(
                "the order store's user name and password go together: set both or none",
            );
        }
        match self.consistency {
            Consistency::Quorum
            | Consistency::LocalQuorum
            | Consistency::EachQuorum
            | Consistency::All => Ok(()),
            Consistency::One | Consistency::Two | Consistency::Three | Consistency::LocalOne
                if self.dev =>
            {
                Ok(())
            }
            weak => Err(EngineError::Invalid(format!(
                "cql.consistency = {} lets a read miss acknowledged writes, and a fold over a \
                 stale row loses facts: set LOCAL_QUORUM or QUORUM",
                setting_name(&weak.to_string())
            ))),
        }
    }

    /// The store's address, for messages.
    pub(super) fn address(&self) -> String {
        format!("cql://{}/{}", self.nodes.join(","), self.keyspace)
    }

    pub(super) fn replication(&self) -> String {
        let factor = if self.dev { 1 } else { super::definitions::REPLICATION_MIN };
        self.replication.clone().unwrap_or_else(|| {
            format!("{{'class': 'NetworkTopologyStrategy', 'replication_factor': {factor}}}")
        })
    }
}

/// Parses a consistency level, `LOCAL_QUORUM` or `LocalQuorum`. Errors: `Invalid` with all levels.
pub fn parse_consistency(name: &str) -> Result<Consistency, EngineError> {
    use Consistency::{All, EachQuorum, LocalOne, LocalQuorum, One, Quorum, Three, Two};
    let all = [LocalQuorum, Quorum, EachQuorum, All, LocalOne, One, Two, Three];
    by_name(&all, name, "cql.consistency")
}

/// Parses a serial consistency level, `LOCAL_SERIAL` or `SERIAL`. Errors: `Invalid` with both
/// levels.
pub fn parse_serial_consistency(name: &str) -> Result<SerialConsistency, EngineError> {
    let all = [SerialConsistency::LocalSerial, SerialConsistency::Serial];
    by_name(&all, name, "cql.serial_consistency")
}

fn by_name<T: Copy + fmt::Display>(all: &[T], name: &str, setting: &str) -> Result<T, EngineError> {
    let plain = |text: &str| text.replace(['_', '-'], "").to_ascii_lowercase();
    let found = all.iter().copied().find(|one| plain(&one.to_string()) == plain(name));
    found.ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|one| setting_name(&one.to_string())).collect();
        EngineError::Invalid(format!("{setting} = {name:?} is none of {}", names.join(", ")))
    })
}

/// Converts the driver's `LocalQuorum` to `LOCAL_QUORUM`, as settings and CQL's tools write it.
fn setting_name(name: &str) -> String {
    let mut set = String::new();
    for (at, c) in name.char_indices() {
        if at > 0 && c.is_ascii_uppercase() {
            set.push('_');
        }
        set.push(c.to_ascii_uppercase());
    }
    set
}

fn wrong(what: String) -> EngineError {
    EngineError::Invalid(format!("orders URL: {what}; {URL_FORMAT}"))
}

/// Parses a node into the driver's format, with a port.
fn node(text: &str) -> Result<String, EngineError> {
    let bad = || wrong(format!("{text:?} is not a node: write host, host:port or [address]:port"));
    // An IPv6 address contains colons and is written in brackets.
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| bad())?),
        _ => (text, PORT),
    };
    let inside = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let fits = match inside {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c))
        }
    };
    if fits { Ok(format!("{host}:{port}")) } else { Err(bad()) }
}

/// Checks a keyspace's name. Only names that mean the same with and without CQL's quotes are
/// accepted.
fn check_keyspace(name: &str) -> Result<(), EngineError> {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let fits = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(word)
        && name.len() <= KEYSPACE_CHARS_MAX;
    if fits {
        return Ok(());
    }
    Err(wrong(format!(
        "{name:?} is not a keyspace: write a lower-case letter, then lower-case letters, digits \
         and _, up to {KEYSPACE_CHARS_MAX} characters"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        match CqlSettings::parse_url(url) {
            Err(EngineError::Invalid(text)) => text,
            other => panic!("{url}: {other:?}"),
        }
    }

    #[test]
    fn a_url_names_nodes_keyspace_and_tls() {
        let plain =
            CqlSettings::parse_url("cql://n1:9043,n-2.example,[::1],[::1]:7/pay_1").unwrap();
        assert_eq!(plain.nodes, ["n1:9043", "n-2.example:9042", "[::1]:9042", "[::1]:7"]);
        assert_eq!((plain.keyspace.as_str(), plain.tls.is_some()), ("pay_1", false));
        assert!(CqlSettings::parse_url("cql+ssl://n/k").unwrap().tls.is_some());
    }

    #[test]
    fn the_error_of_a_wrong_url_names_the_mistake_and_the_format() {
        for (url, why) in [
            ("http://n/k", "does not begin with cql://"),
            ("n1:9042/k", "does not begin with cql://"),
            ("cql://n1:9042", "names no keyspace"),
            ("cql://n1:9042/", "\"\" is not a keyspace"),
            ("cql://n1/Payfold", "is not a keyspace"),
            ("cql://n1/a/b", "is not a keyspace"),
            ("cql://n1/k?tls=1", "options"),
            ("cql:///k", "\"\" is not a node"),
            ("cql://n1,,n2/k", "\"\" is not a node"),
            ("cql://n1:70000/k", "is not a node"),
            ("cql://n1:x/k", "is not a node"),
            ("cql://::1/k", "is not a node"),
            ("cql://n 1/k", "is not a node"),
        ] {
            let text = refused(url);
            assert!(text.contains(why) && text.contains(URL_FORMAT), "{url}: {text}");
        }
    }

    #[test]
    fn credentials_are_refused_in_a_url_and_shown_nowhere() {
        for url in ["cql://ann:hunter2@n1/k", "cql://ann@n1/k", "hunter2@", "cql://n1/k?p=hunter2@"]
        {
            let text = refused(url);
            assert!(!text.contains("hunter2") && !text.contains("ann:"), "{text}");
            assert!(text.contains("process lists"), "{text}");
        }
        let password = Some(CqlPassword::new("hunter2".to_owned()));
        let settings = CqlSettings { password, ..CqlSettings::default() };
        assert!(!format!("{settings:?} {settings:#?}").contains("hunter2"), "{settings:?}");
    }

    #[test]
    fn a_consistency_that_may_lose_facts_is_for_development_only() {
        for (name, dev, taken) in [
            ("LOCAL_QUORUM", false, true),
            ("quorum", false, true),
            ("EachQuorum", false, true),
            ("all", false, true),
            ("ONE", false, false),
            ("LocalOne", false, false),
            ("ONE", true, true),
        ] {
            let consistency = parse_consistency(name).unwrap();
            let settings = CqlSettings { consistency, dev, ..CqlSettings::default() };
            assert_eq!(settings.check().is_ok(), taken, "{name}");
        }
        let refused = parse_consistency("MOST").unwrap_err().to_string();
        assert!(
            refused.contains("cql.consistency = \"MOST\" is none of LOCAL_QUORUM, QUORUM"),
            "{refused}"
        );
        assert_eq!(parse_serial_consistency("SERIAL"), Ok(SerialConsistency::Serial));
    }

    #[test]
    fn a_user_without_a_password_is_refused() {
        let settings = CqlSettings { username: Some("ann".to_owned()), ..CqlSettings::default() };
        assert!(matches!(settings.check(), Err(EngineError::Invalid(_))));
    }
}
