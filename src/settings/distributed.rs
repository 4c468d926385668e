//! Owns the settings of the distributed engines: how Kafka and the CQL database are reached, and what `topics apply`
//! and `schema apply` make.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The log in Kafka.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct KafkaSection {
    /// How often intake was replaced by a topic with more partitions.
    pub epoch: u32,
    /// Milliseconds a message waits for company in its batch.
    pub linger_ms: f64,
    /// Milliseconds until an append that is not durable fails.
    pub delivery_timeout_ms: u64,
    /// How groups are formed: consumer (KIP-848, Kafka 4) or classic.
    pub group_protocol: GroupProtocolName,
    /// Under classic: milliseconds until a silent member is out.
    pub session_timeout_ms: u64,
    /// Who we are; empty: nobody asks.
    pub username: String,
    /// The file that holds the password.
    pub password_file: PathBuf,
    /// PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
    pub sasl_mechanism: String,
    /// The authorities of the brokers' certificates, PEM; empty: the system's.
    pub ca_file: PathBuf,
    /// Partitions that `topics apply` makes topics with.
    pub partitions: u32,
    /// Replicas that `topics apply` makes topics with; 0 is three (one with dev).
    pub replication: u16,
    /// Hours that `topics apply` lets orders and findings be kept.
    pub retention_hours: u32,
    /// Whether orders.latest is kept, the compacted twin of orders.
    pub orders_latest: bool,
    /// Further settings of librdkafka by their names.
    pub client: BTreeMap<String, String>,
}

/// How groups are formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupProtocolName {
    /// KIP-848: the broker assigns.
    Consumer,
    /// The members assign, cooperatively.
    Classic,
}

/// The orders in a CQL database.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct CqlSection {
    /// The datacenter whose nodes are asked; empty: all.
    pub datacenter: String,
    /// Of reads and writes, such as LOCAL_QUORUM.
    pub consistency: String,
    /// Of claims: LOCAL_SERIAL, or SERIAL where several datacenters have copies.
    pub serial_consistency: String,
    /// Statements in flight at once.
    pub concurrency: usize,
    /// Milliseconds a statement may take, with its retries.
    pub request_timeout_ms: u64,
    /// Who we are; empty: nobody asks.
    pub username: String,
    /// The file that holds the password.
    pub password_file: PathBuf,
    /// The authorities of the nodes' certificates, PEM; empty: the system's.
    pub ca_file: PathBuf,
    /// What `schema apply` makes a missing keyspace with; empty: three replicas (one with dev).
    pub replication: String,
}

impl Default for KafkaSection {
    fn default() -> Self {
        Self {
            epoch: 0,
            linger_ms: 0.0,
            delivery_timeout_ms: 4_000,
            group_protocol: GroupProtocolName::Consumer,
            session_timeout_ms: 10_000,
            username: String::new(),
            password_file: PathBuf::new(),
            sasl_mechanism: "SCRAM-SHA-512".to_owned(),
            ca_file: PathBuf::new(),
            partitions: 8,
            replication: 0,
            retention_hours: 168,
            orders_latest: true,
            client: BTreeMap::new(),
        }
    }
}

impl Default for CqlSection {
    fn default() -> Self {
        Self {
            datacenter: String::new(),
            consistency: "LOCAL_QUORUM".to_owned(),
            serial_consistency: "LOCAL_SERIAL".to_owned(),
            concurrency: 256,
            request_timeout_ms: 5_000,
            username: String::new(),
            password_file: PathBuf::new(),
            ca_file: PathBuf::new(),
            replication: String::new(),
        }
    }
}
