//! Owns the line of `payfold check --connect` on generations: which there are, and what waits for a person.

use payfold_engines::generations::Journal;
use payfold_projector::rebuild::standing::{Standing, State, standings};

use super::Row;
use crate::wiring::Engines;

const CHECK: &str = "generations";

/// One line for all of them; nothing where there is one, as always.
pub(super) async fn row(engines: &Engines) -> anyhow::Result<Option<Row>> {
    let base = engines.base()?;
    let known = Journal::new(base.clone()).read().await?;
    let all = standings(&*engines.log, &**base, &known).await?;
    if all.len() < 2 {
        return Ok(None);
    }
    let detail = all.iter().map(told).collect::<Vec<_>>().join("; ");
    let waits = all.iter().find_map(|one| waits_for(one.state));
    Ok(Some(match waits {
        Some(fix) => Row::warn(CHECK, detail, fix),
        None => Row::ok(CHECK, detail),
    }))
}

fn told(one: &Standing) -> String {
    let (generation, state) = (one.generation, one.state.as_str());
    match one.behind() {
        0 => format!("{generation} {state}"),
        behind => format!("{generation} {state}, {behind} of {} records behind", one.of),
    }
}

/// What a person has to do about it, if anything.
fn waits_for(state: State) -> Option<&'static str> {
    match state {
        State::Paused => Some(
            "it stands still: payfold rebuild resume, or payfold rebuild drop if it is not wanted",
        ),
        State::Switching => Some(
            "the switch is decided and not through: a projector has to run; payfold rebuild status shows where",
        ),
        State::Building | State::Ready | State::Live | State::Standby | State::Failed => None,
    }
}
