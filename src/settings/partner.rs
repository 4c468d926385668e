//! Owns the settings of one partner: how it is spoken to, and where its records come from.

use serde::{Deserialize, Serialize};

/// How a partner is spoken to.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PartnerSettings {
    /// A shipped profile's name, or a TOML file.
    pub profile: String,
    /// The partner's API address, for create calls and queries; empty: payments are neither created nor asked for.
    #[serde(default)]
    pub api_url: String,
    /// The folder its records come into; empty: they are given by hand.
    #[serde(default)]
    pub records_folder: String,
    /// When a day's records are due, a cron expression in the zone of the partner's days.
    #[serde(default = "six_in_the_morning")]
    pub records_due: String,
    /// Where its records come from by themselves.
    #[serde(default)]
    pub records_by: RecordsBy,
    /// The zone of its days where its profile says nothing of records.
    #[serde(default = "utc")]
    pub records_zone: String,
}

/// Where a partner's records come from by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordsBy {
    /// From its folder, if it has one.
    #[default]
    File,
    /// It is asked for each payment of the day.
    Query,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn six_in_the_morning() -> String {
    "0 6 * * *".to_owned()
}
