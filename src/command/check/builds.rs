//! Owns the row of `payfold check --connect` on projection builds: their states, and what a person
//! must do.

use payfold_engines::{EngineError, pairing};
use payfold_projector::journal::Journal;
use payfold_projector::rebuild::status::{BuildState, BuildStatus, load_build_statuses};

use super::row::CheckRow;
use crate::wiring::Engines;

const CHECK: &str = "builds";

/// One row for all builds; `None` if there is only one.
pub(super) async fn row(engines: &Engines) -> anyhow::Result<Option<CheckRow>> {
    let base = engines.base()?;
    let known = Journal::new(base.clone()).read().await?;
    let all = load_build_statuses(&*engines.log, &**base, &known).await?;
    if all.len() < 2 {
        return Ok(None);
    }
    for BuildStatus { build, .. } in &all {
        let store = base.build(*build).await?;
        match pairing::check_build(&*engines.log, &*store).await {
            Ok(()) => {}
            Err(EngineError::Invalid(why)) => {
                let fix = "go back as it says, or drop the build if another one is published";
                return Ok(Some(CheckRow::warn(CHECK, format!("build {build}: {why}"), fix)));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let detail = all.iter().map(describe).collect::<Vec<_>>().join("; ");
    let waits = all.iter().find_map(|one| waits_for(one.state));
    Ok(Some(match waits {
        Some(fix) => CheckRow::warn(CHECK, detail, fix),
        None => CheckRow::ok(CHECK, detail),
    }))
}

fn describe(one: &BuildStatus) -> String {
    let (build, state) = (one.build, one.state.as_str());
    match one.behind() {
        0 => format!("{build} {state}"),
        behind => format!("{build} {state}, {behind} of {} records behind", one.of),
    }
}

/// What a person must do about a build in this state, if anything.
fn waits_for(state: BuildState) -> Option<&'static str> {
    match state {
        BuildState::Paused => Some(
            "a build is paused: payfold rebuild resume, or payfold rebuild drop if it is not \
             wanted",
        ),
        BuildState::Switching => Some(
            "a switch is decided but not complete: start a process with the projector role; \
             payfold rebuild status shows progress",
        ),
        BuildState::Building
        | BuildState::Ready
        | BuildState::Live
        | BuildState::Standby
        | BuildState::Failed => None,
    }
}
