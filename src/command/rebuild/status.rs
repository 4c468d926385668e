//! `payfold rebuild status`: state and progress of each build, once or until the build in progress
//! is ready.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use payfold_projector::rebuild::status::{BuildState, BuildStatus};
use serde_json::{Value, json};

use crate::admin_client::AdminClient;
use crate::args::{OutputFormat, StatusArgs};
use crate::listing::{self, Cells, Row, Shown};
use crate::output;
use payfold_api::call::Nothing;
use payfold_api::rebuild::BUILDS;

const POLL: Duration = Duration::from_millis(500);

pub(crate) fn run(client: &AdminClient, args: &StatusArgs) -> anyhow::Result<()> {
    if args.watch {
        watch(client)?;
    }
    print(client, args.output.output)
}

/// Prints all builds.
pub(crate) fn print(client: &AdminClient, format: OutputFormat) -> anyhow::Result<()> {
    listing::print(format, client.call(&BUILDS, &[], &Nothing {})?.builds.into_iter().map(Shown))
}

impl Row for Shown<BuildStatus> {
    const COLUMNS: &'static str = "build state epoch folded of facts_per_s left throttle note";

    fn shown(&self, column: &str, _cells: Cells) -> Option<Value> {
        let Self(build) = self;
        Some(match column {
            "facts_per_s" => json!(build.facts_per_s.map(|rate| format!("{rate:.0}"))),
            "left" => json!(build.seconds_left.map(time_left)),
            "note" => {
                let drill = build.drill.then_some("a rule is broken on purpose");
                json!(drill.into_iter().chain(build.error.as_deref()).collect::<Vec<_>>())
            }
            _ => return None,
        })
    }
}

fn time_left(seconds: f64) -> String {
    let whole = Duration::from_secs_f64(seconds.clamp(0.0, 1e9).ceil());
    humantime::format_duration(whole).to_string()
}

/// Shows progress until no build is in state building.
fn watch(client: &AdminClient) -> anyhow::Result<()> {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} facts, {msg}")?;
    let bar = match output::is_terminal() {
        true => ProgressBar::new(0).with_style(style),
        false => ProgressBar::hidden(),
    };
    loop {
        let builds = client.call(&BUILDS, &[], &Nothing {})?.builds;
        let Some(one) = builds.iter().find(|one| one.state == BuildState::Building) else {
            bar.finish_and_clear();
            return Ok(());
        };
        bar.set_length(one.of);
        bar.set_position(one.folded);
        let left = one.seconds_left.map_or("no estimate yet".to_owned(), time_left);
        bar.set_message(format!("{:.0} a second, {left} left", one.facts_per_s.unwrap_or(0.0)));
        std::thread::sleep(POLL);
    }
}
