//! Owns the calls that compare a partner's records with the orders. A comparison takes longer than
//! a request should: it is answered with a ticket at once, and `RUN` returns its progress.

use payfold_partners::token::Permission;
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
