//! Owns the settings of the distributed engines: connections to Kafka and the CQL database, and
//! what `topics apply` and `schema apply` create.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The log in Kafka.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct KafkaSection {
    /// Epoch of intake: how often the topic was replaced by one with more partitions.
    pub epoch: u32,
    /// Milliseconds that the producer waits to fill a batch.
    pub linger_ms: f64,
    /// Milliseconds after which an append that is not yet durable fails.
    pub delivery_timeout_ms: u64,
    /// Group protocol: consumer (KIP-848, Kafka 4) or classic.
    pub group_protocol: GroupProtocolName,
    /// With the classic protocol: milliseconds after which a silent member is removed from its
    /// group.
    pub session_timeout_ms: u64,
    /// SASL user name; empty: no login.
    pub username: String,
    /// The file with the password.
    pub password_file: PathBuf,
    /// SASL mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
    pub sasl_mechanism: String,
    /// Certificate authorities of the brokers, PEM; empty: the system's.
    pub ca_file: PathBuf,
    /// Number of partitions with which `topics apply` creates topics.
    pub partitions: u32,
    /// Replication factor with which `topics apply` creates topics; 0 is three (one with dev).
    pub replication: u16,
    /// Retention in hours with which `topics apply` creates orders.
    pub retention_hours: u32,
    /// Whether the projector fills orders.latest, the compacted copy of orders.
    pub orders_latest: bool,
    /// Further settings of librdkafka by their names.
    pub client: BTreeMap<String, String>,
}

/// Protocols of consumer groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupProtocolName {
    /// KIP-848: the broker assigns partitions.
    Consumer,
    /// The members assign partitions, cooperatively.
    Classic,
}

/// The orders in a CQL database.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct CqlSection {
    /// Requests go to the nodes of this datacenter; empty: to all nodes.
    pub datacenter: String,
    /// Consistency level of reads and writes, such as LOCAL_QUORUM.
    pub consistency: String,
    /// Serial consistency of claims (lightweight transactions): LOCAL_SERIAL, or SERIAL if several
    /// datacenters have replicas.
    pub serial_consistency: String,
    /// Maximum of statements in flight.
    pub concurrency: usize,
    /// Timeout of a statement with its retries, milliseconds.
    pub request_timeout_ms: u64,
    /// User name; empty: no login.
    pub username: String,
    /// The file with the password.
    pub password_file: PathBuf,
    /// Certificate authorities of the nodes, PEM; empty: the system's.
    pub ca_file: PathBuf,
    /// Replication with which `schema apply` creates a missing keyspace; empty: three replicas (one
    /// with dev).
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
