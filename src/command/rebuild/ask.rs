//! The verbs that change something, each with its reason.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::status;
use crate::args::{MoveArgs, StartArgs, WhyArgs};
use crate::error::Fixable;
use crate::output;
use crate::running::AdminClient;

/// Between two looks whether a switch is through.
const POLL: Duration = Duration::from_millis(200);

pub fn start(client: &AdminClient, args: &StartArgs) -> anyhow::Result<()> {
    let wish = json!({ "reason": args.why.reason, "drill": args.drill, "throttle": args.throttle });
    let answer = client.post("/v1/rebuild", &wish)?;
    output::line(&format!(
        "generation {} is in the making; payfold rebuild status --watch shows how far it is",
        answer["generation"]
    ));
    Ok(())
}

/// `pause` and `resume`.
pub fn pace(
    client: &AdminClient,
    (verb, throttle): (&str, Option<u32>),
    why: &WhyArgs,
) -> anyhow::Result<()> {
    let wish = json!({ "reason": why.reason, "throttle": throttle });
    let answer = client.post(&format!("/v1/rebuild/{verb}"), &wish)?;
    let how = if verb == "pause" { "stands still" } else { "goes on" };
    output::line(&format!("generation {} {how}", answer["generation"]));
    Ok(())
}

/// `switch` and `rollback`: decided, then waited for.
pub fn switch(client: &AdminClient, verb: &str, args: &MoveArgs) -> anyhow::Result<()> {
    let wish = json!({
        "reason": args.why.reason, "generation": args.generation, "force": args.force,
    });
    let answer = client.post_patiently(&format!("/v1/rebuild/{verb}"), &wish)?;
    let (publication, tally) = (&answer["publication"], &answer["tally"]);
    let generation = publication["tables"].as_u64().unwrap_or_default();
    output::line(&format!(
        "generation {generation} is told from here on, under number {}; of {} orders {} are seen in another way and told of",
        publication["number"], tally["orders"], tally["differing"]
    ));
    let until = Instant::now() + args.wait;
    loop {
        let standings = client.get("/v1/rebuild")?;
        if state_of(&standings, generation) == Some("live") {
            output::line("every partition has passed it, and readers follow");
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(Fixable::error(
                "not every partition has passed it yet; events of orders wait for that, notices are taken all the while",
                "payfold rebuild status shows which; payfold rebuild rollback takes it back once it is through",
            ));
        }
        std::thread::sleep(POLL);
    }
}

fn state_of(standings: &Value, generation: u64) -> Option<&str> {
    let mut all = standings["generations"].as_array()?.iter();
    all.find(|one| one["generation"].as_u64() == Some(generation))?["state"].as_str()
}

pub fn throw_away(
    client: &AdminClient,
    (generation, yes): (u32, bool),
    why: &WhyArgs,
) -> anyhow::Result<()> {
    if !yes {
        status::print(&client.get("/v1/rebuild")?, crate::args::Form::Table)?;
        return Err(Fixable::error(
            format!(
                "generation {generation} would be thrown away, and no rollback to it be possible"
            ),
            "add --yes if that is meant",
        ));
    }
    let wish = json!({ "reason": why.reason, "generation": generation });
    client.post("/v1/rebuild/drop", &wish)?;
    output::line(&format!("generation {generation} is thrown away"));
    Ok(())
}
