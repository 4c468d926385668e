//! Owns the call that shows how a process is: its roles, what keeps them from working, the traffic
//! of partners, and what it measures.

use std::collections::BTreeMap;

use payfold_schemas::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::call::{Call, Nothing};

pub const PROCESS: Call<Nothing, ProcessState> = Call::get(
    "/v1/process",
    "Shows how the process is: its roles, what keeps them from working, traffic and measures",
);

/// The seconds of an interval of traffic.
pub const INTERVAL_S: i64 = 300;

/// How a process is.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessState {
    /// The version of the program.
    pub version: String,
    /// The roles that it runs.
    pub roles: Vec<String>,
    /// When it started.
    pub started_at: Time,
    /// Whether it takes work.
    pub phase: ProcessPhase,
    /// Why notices or payments can't be stored now.
    pub troubles: Vec<String>,
    /// The notices of each partner with an enabled account, and of none; empty without the role
    /// `ingest`.
    pub partners: Vec<PartnerTraffic>,
    /// The critical flags that orders got in the last day, as far as the process has run, each with
    /// their number; empty without the role `projector`.
    pub flags_raised: BTreeMap<String, u64>,
    /// Its counters and gauges, with the names and labels of `/metrics`.
    pub samples: Vec<MetricSample>,
}

/// Whether a process takes work.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcessPhase {
    /// It is starting.
    Starting,
    /// It takes work.
    Working,
    /// It ends, and finishes what it has.
    Draining,
    /// A role of it has ended with an error.
    Broken,
}

/// The notices of a partner, since the process started.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartnerTraffic {
    /// The partner's code; empty for notices that name no partner.
    pub partner: String,
    /// When its last notice was accepted; null if none was.
    pub last_accepted: Option<Time>,
    /// The last intervals with notices, oldest first; those without are left out.
    pub intervals: Vec<TrafficInterval>,
}

/// The notices of five minutes.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct TrafficInterval {
    /// When the five minutes began.
    pub from: Time,
    /// Accepted notices.
    pub accepted: u64,
    /// Refused notices.
    pub refused: u64,
}

/// The value of a counter or gauge.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct MetricSample {
    /// The name of the metric.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}
