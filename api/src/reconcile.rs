//! Owns the calls that compare a partner's records with the orders. A comparison takes longer than
//! a request should: it is answered with a ticket at once, and `RUN` returns its progress. A file
//! can be read first (`PREVIEW`), looked at (`PREVIEWED`), and then be compared
//! (`COMPARE_PREVIEWED`).

use payfold_partners::token::Permission;
pub use payfold_reconcile::preview::{LeftOutLines, RecordsPreview, RecordsSum};
use payfold_schemas::digest::Digest;
use payfold_schemas::run::{PeriodClosed, RunEnded};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::call::{Call, Nothing};

pub const COMPARE: Call<CompareFile, Ticket> = Call::upload(
    Permission::Settle,
    "/v1/reconcile/{partner}",
    "Compares the records in the body with the orders of a day",
)
.answered_with(202);
pub const PREVIEW: Call<PreviewFile, Ticket> = Call::upload(
    Permission::Settle,
    "/v1/reconcile/{partner}/preview",
    "Reads the records in the body without comparing them, and keeps them for an hour at most",
)
.answered_with(202);
pub const PREVIEWED: Call<Nothing, PreviewState> = Call::get(
    "/v1/reconcile/previews/{ticket}",
    "Shows how the lines of the records of a preview are read",
);
pub const COMPARE_PREVIEWED: Call<ComparePreviewed, Ticket> = Call::post_query(
    Permission::Settle,
    "/v1/reconcile/previews/{ticket}/compare",
    "Compares the records of a preview with the orders of a day",
)
.answered_with(202);
pub const QUERY: Call<QueryPartner, Ticket> = Call::post_query(
    Permission::Settle,
    "/v1/reconcile/{partner}/query",
    "Asks the partner for each payment of a day, and compares its answers",
)
.answered_with(202);
pub const RUN: Call<Nothing, RunState> =
    Call::get("/v1/reconcile/runs/{ticket}", "Shows the progress or result of a comparison");
pub const CLOSE: Call<Nothing, PeriodClosed> = Call::post_query(
    Permission::Settle,
    "/v1/periods/{partner}/{day}/close",
    "Closes a day on which all findings are settled",
)
.slow();

/// Compares a file with the orders of a day.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CompareFile {
    /// The day in the zone of the partner's records, such as 2026-01-31; yesterday if absent.
    pub day: Option<String>,
    /// The name of the file.
    pub name: String,
    /// Whether it replaces records of the day that have another name.
    #[serde(default)]
    pub replace: bool,
}

/// Reads a file without comparing it.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PreviewFile {
    /// The name of the file.
    pub name: String,
}

/// Compares the file of a preview with the orders of a day.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ComparePreviewed {
    /// The day in the zone of the partner's records, such as 2026-01-31.
    pub day: String,
    /// The SHA-256 of the records with another name that the day was compared with, if these are to
    /// be replaced; refused if the day has others by now.
    pub replaces: Option<Digest>,
}

/// The progress or result of a preview.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum PreviewState {
    /// The file is being read.
    Reading {
        /// How many lines were read.
        lines: u64,
    },
    /// The file was read to its end.
    Read {
        /// How its lines are read.
        preview: Box<RecordsPreview>,
    },
    /// The file can't be read.
    Refused {
        /// Why, and what to do.
        problem: String,
    },
}

/// Asks a partner for the payments of a day.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct QueryPartner {
    /// The day in the zone of the partner's records, such as 2026-01-31; yesterday if absent.
    pub day: Option<String>,
    /// Whether the answers replace a file.
    #[serde(default)]
    pub replace: bool,
}

/// A comparison that has begun.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Ticket {
    /// The id of the comparison.
    pub ticket: String,
}

/// The progress or result of a comparison.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum RunState {
    /// The comparison runs.
    Running {
        /// What the comparison does now.
        stage: String,
        /// How many it has done, in the unit that the stage counts.
        done: u64,
    },
    /// The comparison has ended.
    Ended {
        /// The result.
        run: Box<RunEnded>,
    },
    /// The comparison was refused.
    Refused {
        /// Why, and what to do.
        problem: String,
    },
}
