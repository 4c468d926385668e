//! `payfold schema events|asyncapi`: what other teams may rely on, as documents made from the types that write the events.

use std::path::Path;

use anyhow::Context;
use payfold_schemas::contract::{self, contracts};
use serde_json::{Value, json};

use crate::args::{EventsArgs, Form};
use crate::error::Fixable;
use crate::output::{self, Listing};

const COLUMNS: [&str; 4] = ["type", "topic", "key", "told"];

/// Lists the event types, prints the schema of one, or writes all.
pub fn events(args: &EventsArgs) -> anyhow::Result<()> {
    if let Some(dir) = &args.write {
        return write(dir);
    }
    let contracts = contracts();
    if let Some(kind) = &args.kind {
        let contract = contracts.iter().find(|contract| contract.kind == kind);
        let contract = contract.ok_or_else(|| {
            Fixable::error(
                format!("there is no event type {kind}"),
                "`payfold schema events` lists them",
            )
        })?;
        return output::object(Form::Json, &contract.schema);
    }
    let mut listing = Listing::new(args.output.output, &COLUMNS);
    for contract in &contracts {
        let cells = [contract.kind, contract.topic, contract.key, contract.told];
        let object = json!({
            "type": contract.kind, "topic": contract.topic, "key": contract.key, "told": contract.told,
            "schema": contract.schema,
        });
        listing.row(cells.map(str::to_owned).into(), &object)?;
    }
    listing.print()
}

/// Prints the document of the topics.
pub fn asyncapi() -> anyhow::Result<()> {
    output::object(Form::Json, &document())
}

fn document() -> Value {
    contract::asyncapi(env!("CARGO_PKG_VERSION"))
}

fn write(dir: &Path) -> anyhow::Result<()> {
    let schemas = dir.join("schemas");
    std::fs::create_dir_all(&schemas)
        .with_context(|| format!("{} can't be made", schemas.display()))?;
    let file = |path: &Path, document: &Value| -> anyhow::Result<()> {
        let text = format!("{}\n", serde_json::to_string_pretty(document)?);
        std::fs::write(path, text)
            .with_context(|| format!("{} can't be written", path.display()))?;
        output::line(&path.display().to_string());
        Ok(())
    };
    for contract in contracts() {
        file(&schemas.join(format!("{}.json", contract.kind)), &contract.schema)?;
    }
    file(&dir.join("asyncapi.json"), &document())
}
