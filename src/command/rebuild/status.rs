//! `payfold rebuild status`: how far each generation is, once or until the one in the making is ready.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use crate::args::{Form, StatusArgs};
use crate::output::{self, Listing};
use crate::running::AdminClient;

const COLUMNS: [&str; 9] =
    ["generation", "state", "number", "folded", "of", "facts_per_s", "left", "throttle", "note"];
const POLL: Duration = Duration::from_millis(500);

pub fn run(client: &AdminClient, args: &StatusArgs) -> anyhow::Result<()> {
    if args.watch {
        watch(client)?;
    }
    print(&client.get("/v1/rebuild")?, args.output.output)
}

/// Prints the answer as a listing.
pub fn print(answer: &Value, form: Form) -> anyhow::Result<()> {
    let mut listing = Listing::new(form, &COLUMNS);
    for one in answer["generations"].as_array().into_iter().flatten() {
        let text = |name: &str| match &one[name] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let whole = |name: &str| one[name].as_f64().map_or(String::new(), |n| format!("{n:.0}"));
        let left = one["secondsLeft"].as_f64().map_or(String::new(), time_left);
        let mut note = text("error");
        if one["drill"] == true {
            note = format!("{note} a rule is broken on purpose").trim().to_owned();
        }
        let cells = vec![
            text("generation"),
            text("state"),
            text("number"),
            text("folded"),
            text("of"),
            whole("factsPerS"),
            left,
            text("throttle"),
            note,
        ];
        listing.row(cells, one)?;
    }
    listing.print()
}

fn time_left(seconds: f64) -> String {
    let whole = Duration::from_secs_f64(seconds.clamp(0.0, 1e9).ceil());
    humantime::format_duration(whole).to_string()
}

/// Waits until the generation in the making is ready, or there is none, or it can't go on.
fn watch(client: &AdminClient) -> anyhow::Result<()> {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} facts, {msg}")?;
    let bar = match output::is_terminal() {
        true => ProgressBar::new(0).with_style(style),
        false => ProgressBar::hidden(),
    };
    loop {
        let answer = client.get("/v1/rebuild")?;
        let all = answer["generations"].as_array().cloned().unwrap_or_default();
        let Some(one) = all.iter().find(|one| one["state"] == "building") else {
            bar.finish_and_clear();
            return Ok(());
        };
        bar.set_length(one["of"].as_u64().unwrap_or_default());
        bar.set_position(one["folded"].as_u64().unwrap_or_default());
        let left = one["secondsLeft"].as_f64().map_or("no estimate yet".to_owned(), time_left);
        bar.set_message(format!(
            "{:.0} a second, {left} left",
            one["factsPerS"].as_f64().unwrap_or(0.0)
        ));
        std::thread::sleep(POLL);
    }
}
