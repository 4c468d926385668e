//! Owns how a CQL store is named and set: its URL, its settings, and what of them is refused.
//! Invariants: a password is never shown and never comes in a URL; outside development no consistency is
//! taken under which a read could miss what was written, for a fold over a stale row loses facts.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use scylla::statement::{Consistency, SerialConsistency};
use zeroize::Zeroizing;

use crate::EngineError;

const PORT: u16 = 9042;

/// How a URL is written.
const FORM: &str = "write it as cql://node1:9042,node2:9042/keyspace, with cql+ssl:// for TLS";

/// What Cassandra takes for a keyspace's name.
const KEYSPACE_CHARS_MAX: usize = 48;

/// A password that no output shows and whose memory is cleared.
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

/// TLS to the nodes. Their certificates must name their IP addresses: the driver finds nodes by address.
#[derive(Clone, Debug, Default)]
pub struct CqlTls {
    /// The authorities to trust, PEM; none for those of the system.
    pub ca_file: Option<PathBuf>,
}

/// How a store is reached and run.
#[derive(Clone, Debug)]
pub struct CqlSettings {
    /// Nodes to begin with, `host:port`; the others are learnt from them.
    pub nodes: Vec<String>,
    /// The keyspace of the tables.
    pub keyspace: String,
    /// The datacenter whose nodes are asked. Needed for a keyspace in several under a local consistency, and the same in
    /// every process then.
    pub datacenter: Option<String>,
    /// Of reads and writes.
    pub consistency: Consistency,
    /// Serial consistency of claims (lightweight transactions). `Serial` where several datacenters have copies.
    pub serial_consistency: SerialConsistency,
    /// Statements one call keeps in flight.
    pub concurrency: usize,
    /// How long one statement may take, its retries included, and how long connecting may.
    pub request_timeout: Duration,
    /// The user to log in as; none for a database without users.
    pub username: Option<String>,
    /// The user's password.
    pub password: Option<CqlPassword>,
    /// None for plain TCP.
    pub tls: Option<CqlTls>,
    /// What a new keyspace is made with, as CQL writes it; none for the default. Other options of the
    /// keyspace may follow it: `{…} AND tablets = {'enabled': false}`.
    pub replication: Option<String>,
    /// A single node will do: replication and consistency are not judged.
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
    /// Default settings for the nodes and the keyspace of a URL such as `cql://n1:9042,n2:9042/keyspace`
    /// (`cql+ssl://` for TLS; a port left out is 9042). Errors: `Invalid` with what is wrong.
    pub fn parse_url(url: &str) -> Result<Self, EngineError> {
        // Said before anything that would repeat a part of the text.
        if url.contains('@') {
            return Err(EngineError::Invalid(format!(
                "a user name or password in the orders URL ends up in logs and process lists: take it out and set \
                 cql.username and cql.password_file; {FORM}"
            )));
        }
        let (tls, rest) = match url.split_once("://") {
            Some(("cql", rest)) => (None, rest),
            Some(("cql+ssl", rest)) => (Some(CqlTls::default()), rest),
            _ => return Err(wrong(format!("{url:?} does not begin with cql:// or cql+ssl://"))),
        };
        if rest.contains(['?', '#']) {
            return Err(wrong(format!("{url:?} has options behind the keyspace")));
        }
        let (nodes, keyspace) =
            rest.split_once('/').ok_or_else(|| wrong(format!("{url:?} names no keyspace")))?;
        let nodes = nodes.split(',').map(node).collect::<Result<_, _>>()?;
        check_keyspace(keyspace)?;
        Ok(Self { nodes, keyspace: keyspace.to_owned(), tls, ..Self::default() })
    }

    /// Refuses what can't work or would lose facts. Errors: `Invalid`.
    pub(super) fn check(&self) -> Result<(), EngineError> {
        let invalid = |text: &str| Err(EngineError::Invalid(text.to_owned()));
        check_keyspace(&self.keyspace)?;
        if self.nodes.is_empty() {
            return invalid("no node of the order store is named");
        }
        if self.concurrency == 0 {
            return invalid("cql.concurrency = 0: no statement could be sent, it is 1 or more");
        }
        if self.request_timeout.is_zero() {
            return invalid("cql.request_timeout_ms = 0: no statement could be answered in time");
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
                "cql.consistency = {} lets a read miss what was written, and a fold over an old row loses facts: use LOCAL_QUORUM or QUORUM",
                as_set(&weak.to_string())
            ))),
        }
    }

    /// Where the store is, for messages.
    pub(super) fn place(&self) -> String {
        format!("cql://{}/{}", self.nodes.join(","), self.keyspace)
    }

    pub(super) fn replication(&self) -> String {
        let factor = if self.dev { 1 } else { super::schema::REPLICATION_MIN };
        self.replication.clone().unwrap_or_else(|| {
            format!("{{'class': 'NetworkTopologyStrategy', 'replication_factor': {factor}}}")
        })
    }
}

/// Reads a consistency by its name, `LOCAL_QUORUM` or `LocalQuorum`. Errors: `Invalid` naming those there are.
pub fn parse_consistency(name: &str) -> Result<Consistency, EngineError> {
    use Consistency::{All, EachQuorum, LocalOne, LocalQuorum, One, Quorum, Three, Two};
    let all = [LocalQuorum, Quorum, EachQuorum, All, LocalOne, One, Two, Three];
    by_name(&all, name, "cql.consistency")
}

/// Reads a serial consistency, `LOCAL_SERIAL` or `SERIAL`. Errors: `Invalid` naming both.
pub fn parse_serial_consistency(name: &str) -> Result<SerialConsistency, EngineError> {
    let all = [SerialConsistency::LocalSerial, SerialConsistency::Serial];
    by_name(&all, name, "cql.serial_consistency")
}

fn by_name<T: Copy + fmt::Display>(all: &[T], name: &str, setting: &str) -> Result<T, EngineError> {
    let plain = |text: &str| text.replace(['_', '-'], "").to_ascii_lowercase();
    let found = all.iter().copied().find(|one| plain(&one.to_string()) == plain(name));
    found.ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|one| as_set(&one.to_string())).collect();
        EngineError::Invalid(format!("{setting} = {name:?} is none of {}", names.join(", ")))
    })
}

/// `LocalQuorum`, as the driver has it, in the form of settings and of CQL's own tools: `LOCAL_QUORUM`.
fn as_set(name: &str) -> String {
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
    EngineError::Invalid(format!("orders URL: {what}; {FORM}"))
}

/// A node as the driver takes it.
fn node(text: &str) -> Result<String, EngineError> {
    let bad = || wrong(format!("{text:?} is no node: host, host:port or [address]:port"));
    // An IPv6 address has colons of its own and stands in brackets.
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

/// Only names that need no quotes, and mean the same with and without.
fn check_keyspace(name: &str) -> Result<(), EngineError> {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let fits = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(word)
        && name.len() <= KEYSPACE_CHARS_MAX;
    if fits {
        return Ok(());
    }
    Err(wrong(format!(
        "{name:?} is no keyspace: a lower-case letter, then lower-case letters, digits and _, up to {KEYSPACE_CHARS_MAX}"
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
    fn a_wrong_url_is_told_what_is_wrong_and_how_it_is_written() {
        for (url, why) in [
            ("http://n/k", "does not begin with cql://"),
            ("n1:9042/k", "does not begin with cql://"),
            ("cql://n1:9042", "names no keyspace"),
            ("cql://n1:9042/", "\"\" is no keyspace"),
            ("cql://n1/Payfold", "is no keyspace"),
            ("cql://n1/a/b", "is no keyspace"),
            ("cql://n1/k?tls=1", "options"),
            ("cql:///k", "\"\" is no node"),
            ("cql://n1,,n2/k", "\"\" is no node"),
            ("cql://n1:70000/k", "is no node"),
            ("cql://n1:x/k", "is no node"),
            ("cql://::1/k", "is no node"),
            ("cql://n 1/k", "is no node"),
        ] {
            let text = refused(url);
            assert!(text.contains(why) && text.contains(FORM), "{url}: {text}");
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
    fn a_consistency_under_which_facts_get_lost_is_for_development_only() {
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
