//! Owns the settings of one partner: its profile, its API address and the source of its records.

use serde::{Deserialize, Serialize};

/// The settings of one partner.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PartnerSettings {
    /// The name of a shipped profile, or the path of a TOML file.
    pub profile: String,
    /// The partner's API address, for create calls and queries; empty: this system makes neither.
    #[serde(default)]
    pub api_url: String,
    /// The folder that receives its records; empty: `payfold reconcile run` is given a file.
    #[serde(default)]
    pub records_folder: String,
    /// When the records of a day are due: a cron expression in the time zone of the partner's days.
    #[serde(default = "six_in_the_morning")]
    pub records_due: String,
    /// The source of records that are compared automatically.
    #[serde(default)]
    pub records_by: RecordsBy,
    /// The time zone of its days, if its profile has no [records].
    #[serde(default = "utc")]
    pub records_zone: String,
}

/// Sources of records that are compared automatically.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordsBy {
    /// Files in its folder, if it has one.
    #[default]
    File,
    /// Queries, one for each payment of the day.
    Query,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn six_in_the_morning() -> String {
    "0 6 * * *".to_owned()
}
