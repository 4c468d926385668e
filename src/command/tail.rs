//! `payfold tail`: prints a topic's messages as they come. Raw bytes are never printed, only their number.

use std::time::Duration;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::{Delivered, EventLog, Topic};
use payfold_schemas::event::SOURCE;
use payfold_schemas::record::{Parts, Record};
use serde_json::{Value, json};

use super::block_on;
use crate::args::{Form, Global, TailArgs, TopicName};
use crate::error::Fixable;
use crate::walk::Walk;
use crate::wiring::Engines;
use crate::{output, search, settings, walk};

const PAGE: usize = 500;
const POLL: Duration = Duration::from_millis(200);

/// Prints until the end, or for ever.
pub fn run(global: &Global, args: &TailArgs) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    let topic = match args.topic {
        TopicName::Intake => Topic::Intake,
        TopicName::Orders => Topic::Orders,
        TopicName::Findings => Topic::Findings,
        TopicName::Quarantine => Topic::Quarantine,
    };
    if matches!(args.output.output, Form::Csv) {
        return Err(Fixable::error(
            "tail has no CSV form: messages differ in shape",
            "use --output table, jsonl or json",
        ));
    }
    block_on(async {
        let engines = Engines::open_to_read(&loaded.settings).await?;
        follow(&*engines.log, topic, args).await
    })
}

async fn follow(log: &dyn EventLog, topic: Topic, args: &TailArgs) -> anyhow::Result<()> {
    let places = match (&args.after, &args.since) {
        (Some(position), _) => walk::places_after(log, topic, Some(position.parse()?)).await?,
        (None, Some(age)) => {
            let age_ms = i64::try_from(humantime::parse_duration(age)?.as_millis())?;
            search::before_time(log, topic, SystemClock.now().plus_ms(-age_ms)).await?
        }
        (None, None) => walk::places_after(log, topic, None).await?,
    };
    let mut walk = Walk::from(log, topic, places);
    loop {
        let Some(page) = walk.next(PAGE).await? else {
            if args.no_follow {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
            continue;
        };
        for message in &page {
            let of_partner = args
                .partner
                .as_ref()
                .is_none_or(|partner| message.key.split('/').next() == Some(partner.as_str()));
            if of_partner {
                print(topic, message, args.output.output)?;
            }
        }
    }
}

fn print(topic: Topic, message: &Delivered, form: Form) -> anyhow::Result<()> {
    let value = show(message)?;
    match form {
        Form::Json => output::object(Form::Json, &value),
        Form::Jsonl | Form::Csv => output::object(Form::Jsonl, &value),
        Form::Table => {
            output::line(&for_people(topic, message, &value));
            Ok(())
        }
    }
}

/// A message as JSON: events as structured CloudEvents, records by their parts, of a damaged one what is wrong with it.
/// Errors: a record that a newer program wrote.
pub fn show(message: &Delivered) -> anyhow::Result<Value> {
    if let Some(event) = &message.event {
        return Ok(json!({
            "specversion": "1.0",
            "id": event.id,
            "source": SOURCE,
            "type": event.kind,
            "time": event.time,
            "subject": message.key,
            "datacontenttype": "application/json",
            "position": message.position.to_string(),
            "data": serde_json::from_slice::<Value>(&message.value)?,
        }));
    }
    let record = match Record::decode(&message.value) {
        Err(error) if !error.is_newer() => {
            let (position, key) = (message.position.to_string(), &message.key);
            return Ok(
                json!({ "position": position, "key": key, "unreadable": error.to_string() }),
            );
        }
        decoded => decoded?,
    };
    let mut value = match &record.parts {
        Parts::Fact(fact) => serde_json::to_value(fact)?,
        Parts::Quarantine(quarantined) => serde_json::to_value(quarantined)?,
        Parts::Switch(switch) => serde_json::to_value(switch)?,
        Parts::Parked(parked) => serde_json::to_value(parked)?,
    };
    value["position"] = message.position.to_string().into();
    value["rawBytes"] = record.raw.len().into();
    if let Some(id) = &record.raw_key_id {
        value["rawKeyId"] = id.as_str().into();
    }
    mask(&mut value);
    Ok(value)
}

/// Takes out of a record's request what a payer may have written; `--raw` shows it.
pub fn mask(record: &mut Value) {
    let Some(request) = record.pointer_mut("/source/request") else { return };
    if let Some((path, _)) = request["target"].as_str().and_then(|target| target.split_once('?')) {
        request["target"] = format!("{path}?…").into();
    }
    for header in request["headers"].as_array_mut().into_iter().flatten() {
        header[1] = "…".into();
    }
}

fn for_people(topic: Topic, message: &Delivered, value: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (position, key) = (message.position, &message.key);
    match topic {
        _ if !value["unreadable"].is_null() => {
            format!("{position:<12}  {key}  can't be read: {}", text(&value["unreadable"]))
        }
        Topic::Intake if !value["publication"].is_null() => format!(
            "{position:<12}  {}  {key}  from here on generation {} is told, under number {}",
            text(&value["at"]),
            value["publication"]["tables"],
            value["publication"]["number"]
        ),
        Topic::Intake if !value["parked"].is_null() => format!(
            "{position:<12}  {}  {key}  {} leaves record {}-{} out, which can't be read: {}",
            text(&value["at"]),
            text(&value["author"]),
            value["parked"]["partition"],
            value["parked"]["offset"],
            text(&value["reason"])
        ),
        Topic::Intake => {
            let fact = &value["fact"];
            let word = fact["status"].as_str().unwrap_or_default();
            format!(
                "{position:<12}  {}  {key}  {} {word}",
                text(&value["receivedAt"]),
                text(&fact["kind"])
            )
        }
        Topic::Orders => {
            let data = &value["data"];
            let before = data["previousState"].as_str().unwrap_or("new");
            let attention = match &data["attention"] {
                Value::Array(flags) if !flags.is_empty() => {
                    format!("  ! {}", flags.iter().map(&text).collect::<Vec<_>>().join(" "))
                }
                _ => String::new(),
            };
            format!(
                "{position:<12}  {}  {key}  v{}  {before} → {}{attention}",
                text(&value["time"]),
                data["version"],
                text(&data["state"])
            )
        }
        Topic::Findings => format!("{position:<12}  {key}  {}", value["data"]),
        Topic::Quarantine => format!(
            "{position:<12}  {}  {key}  {}  {}",
            text(&value["receivedAt"]),
            text(&value["code"]),
            text(&value["detail"])
        ),
    }
}
