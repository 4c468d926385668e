//! `payfold rebuild start|pause|resume|switch|rollback|drop`: the commands that change something,
//! each with a reason.

use std::time::{Duration, Instant};

use payfold_projector::rebuild::service::DecidedSwitch;
use payfold_projector::rebuild::status::BuildState;

use super::status;
use crate::admin_client::AdminClient;
use crate::args::{MoveArgs, ReasonArgs, StartArgs};
use crate::error::Fixable;
use crate::output;
use payfold_api::call::{Call, Nothing};
use payfold_api::rebuild::{
    BUILDS, DROP, DropBuild, MovePublication, PaceBuild, PacedBuild, START, StartBuild,
};

/// Interval between two checks whether a switch is complete.
const POLL: Duration = Duration::from_millis(200);

pub(crate) fn start(client: &AdminClient, args: &StartArgs) -> anyhow::Result<()> {
    let (reason, drill, throttle) = (args.why.reason.clone(), args.drill, args.throttle);
    let build = client.call(&START, &[], &StartBuild { reason, drill, throttle })?;
    output::line(&format!(
        "build {} has started; payfold rebuild status --watch shows its progress",
        build.build
    ));
    Ok(())
}

/// `pause` and `resume`.
pub(crate) fn pace(
    client: &AdminClient,
    call: &Call<PaceBuild, PacedBuild>,
    throttle: Option<u32>,
    why: &ReasonArgs,
) -> anyhow::Result<()> {
    let build = client.call(call, &[], &PaceBuild { reason: why.reason.clone(), throttle })?;
    let how = if build.paused { "is paused" } else { "goes on" };
    output::line(&format!("build {} {how}", build.build));
    Ok(())
}

/// `switch` and `rollback`: requests the switch, then waits until every partition has passed its
/// marker.
pub(crate) fn switch(
    client: &AdminClient,
    call: &Call<MovePublication, DecidedSwitch>,
    args: &MoveArgs,
) -> anyhow::Result<()> {
    let (reason, build, force) = (args.why.reason.clone(), args.build, args.force);
    let DecidedSwitch { publication, tally } =
        client.call(call, &[], &MovePublication { reason, build, force })?;
    output::line(&format!(
        "build {} is published from its markers on, under epoch {}; of {} orders {} differ, and \
         each of these gets an event",
        publication.build, publication.epoch, tally.orders, tally.differing
    ));
    let until = Instant::now() + args.wait;
    loop {
        let mut builds = client.call(&BUILDS, &[], &Nothing {})?.builds.into_iter();
        if builds.any(|one| one.build == publication.build && one.state == BuildState::Live) {
            output::line(
                "the switch is complete: every partition has passed its marker, and readers follow",
            );
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(Fixable::error(
                "the switch is not complete: not every partition has passed its marker; order \
                 events wait for it, notices are received as usual",
                "watch it with payfold rebuild status; once complete, payfold rebuild rollback \
                 can revert it",
            ));
        }
        std::thread::sleep(POLL);
    }
}

pub(crate) fn throw_away(
    client: &AdminClient,
    (build, yes): (u32, bool),
    why: &ReasonArgs,
) -> anyhow::Result<()> {
    if !yes {
        status::print(client, crate::args::OutputFormat::Table)?;
        return Err(Fixable::error(
            format!("build {build} would be deleted, and a rollback to it would be impossible"),
            "to delete it, repeat the command with --yes",
        ));
    }
    client.call(&DROP, &[], &DropBuild { reason: why.reason.clone(), build })?;
    output::line(&format!("build {build} is dropped"));
    Ok(())
}
