//! Owns the calls of rebuilds. A change is decided when its call is answered; `BUILDS` returns the
//! progress of the work.

use payfold_partners::token::Permission;
use payfold_projector::rebuild::service::DecidedSwitch;
pub use payfold_projector::rebuild::status::BuildStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::call::{Call, Nothing};

pub const BUILDS: Call<Nothing, Builds> =
    Call::get("/v1/rebuild", "Shows the progress of each projection build");
pub const START: Call<StartBuild, Build> =
    Call::post(Permission::Operate, "/v1/rebuild", "Folds the log into new tables")
        .answered_with(202);
pub const PAUSE: Call<PaceBuild, PacedBuild> =
    Call::post(Permission::Operate, "/v1/rebuild/pause", "Pauses the build in progress");
pub const RESUME: Call<PaceBuild, PacedBuild> =
    Call::post(Permission::Operate, "/v1/rebuild/resume", "Resumes the build in progress");
pub const SWITCH: Call<MovePublication, DecidedSwitch> =
    Call::post(Permission::Operate, "/v1/rebuild/switch", "Publishes from the build in progress")
        .answered_with(202)
        .slow();
pub const ROLL_BACK: Call<MovePublication, DecidedSwitch> = Call::post(
    Permission::Operate,
    "/v1/rebuild/rollback",
    "Returns publication to an earlier build",
)
.answered_with(202)
.slow();
pub const DROP: Call<DropBuild, Build> =
    Call::post(Permission::Operate, "/v1/rebuild/drop", "Drops the tables of a build")
        .answered_with(202);

/// Starts a build.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct StartBuild {
    /// Why: 1 to 1,000 characters.
    pub reason: String,
    /// Whether one rule of the fold is broken on purpose; in the demo only.
    #[serde(default)]
    pub drill: bool,
    /// Facts a second at most; as fast as it can if absent.
    pub throttle: Option<u32>,
}

/// Pauses or resumes the build in progress.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PaceBuild {
    /// Why: 1 to 1,000 characters.
    pub reason: String,
    /// Facts a second at most from now on; as before if absent.
    pub throttle: Option<u32>,
}

/// Publishes from another build.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MovePublication {
    /// Why: 1 to 1,000 characters.
    pub reason: String,
    /// The build; if absent the build in progress, or for a rollback the previous build.
    pub build: Option<u32>,
    /// Whether to switch although orders are missing in the build.
    #[serde(default)]
    pub force: bool,
}

/// Drops a build.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DropBuild {
    /// Why: 1 to 1,000 characters.
    pub reason: String,
    /// The build.
    pub build: u32,
}

/// All projection builds.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Builds {
    /// One entry for each build.
    pub builds: Vec<BuildStatus>,
}

/// A build by its number.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Build {
    /// The number of its tables.
    pub build: u32,
}

/// A build that was paused or resumed.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
pub struct PacedBuild {
    /// The number of its tables.
    pub build: u32,
    /// Whether the build is paused.
    pub paused: bool,
}
