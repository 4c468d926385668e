//! `payfold schema events|asyncapi`: the contract of published events, generated from the types
//! that write them.

use std::path::Path;

use anyhow::Context;
use payfold_schemas::asyncapi;
use payfold_schemas::contract::{Contract, contracts};
use serde_json::Value;

use crate::args::{EventsArgs, OutputFormat};
use crate::error::Fixable;
use crate::listing::{self, Row, Shown};
use crate::output;

impl Row for Shown<Contract> {
    const COLUMNS: &'static str = "type topic key summary";
}

/// Lists the event types, prints the schema of one, or writes all.
pub(crate) fn events(args: &EventsArgs) -> anyhow::Result<()> {
    if let Some(dir) = &args.write {
        return write(dir);
    }
    let contracts = contracts();
    if let Some(kind) = &args.kind {
        let contract = contracts.iter().find(|contract| contract.kind == kind);
        let contract = contract.ok_or_else(|| {
            Fixable::error(
                format!("the event type {kind} does not exist"),
                "list the event types with `payfold schema events`",
            )
        })?;
        return output::object(OutputFormat::Json, &contract.schema);
    }
    listing::print(args.output.output, contracts.into_iter().map(Shown))
}

/// Prints the AsyncAPI document of the topics.
pub(crate) fn asyncapi() -> anyhow::Result<()> {
    output::object(OutputFormat::Json, &document())
}

fn document() -> Value {
    asyncapi::asyncapi(env!("CARGO_PKG_VERSION"))
}

fn write(dir: &Path) -> anyhow::Result<()> {
    let schemas = dir.join("schemas");
    std::fs::create_dir_all(&schemas)
        .with_context(|| format!("{} can't be created", schemas.display()))?;
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
