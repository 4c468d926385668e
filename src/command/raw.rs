//! Reading a notice as it came: asked of the running system, which tells who reads and why before it gives the bytes out.

use anyhow::Context;
use payfold_schemas::record::Position;
use serde_json::{Value, json};

use crate::args::Global;
use crate::data_dir::DataDir;
use crate::output;
use crate::running::AdminClient;
use crate::settings::Settings;

/// Where bytes are asked for, and why.
pub struct Raw {
    client: AdminClient,
    reason: String,
}

impl Raw {
    /// Finds the running system. Errors: there is none.
    pub fn of(global: &Global, settings: &Settings, reason: &str) -> anyhow::Result<Self> {
        let client = AdminClient::find(global, &DataDir::of(settings))?;
        Ok(Self { client, reason: reason.to_owned() })
    }

    /// Prints the bytes of one record; what stood around them goes to standard error. Errors: there are none, or they
    /// were erased.
    pub fn print(&self, topic: &str, position: Position) -> anyhow::Result<()> {
        let path = format!("/v1/raw/{topic}/{position}");
        let told = self.client.post(&path, &json!({ "reason": self.reason }))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let request = &told["request"];
        if !text(&request["target"]).is_empty() {
            let method = request["method"].as_str().unwrap_or("POST");
            output::error_line(&format!("{method} {}", text(&request["target"])));
        }
        for header in request["headers"].as_array().into_iter().flatten() {
            output::error_line(&format!("{}: {}", text(&header[0]), text(&header[1])));
        }
        let raw = hex::decode(text(&told["raw"])).context("the admin listener's answer")?;
        Ok(output::raw(&raw)?)
    }
}
