//! Owns reading a notice as it was received. The running system publishes who reads it and why
//! before it returns the bytes.

use anyhow::Context;
use payfold_schemas::position::Position;

use crate::admin_client::AdminClient;
use crate::args::Global;
use crate::data_dir::DataDir;
use crate::output;
use crate::settings::Settings;
use payfold_api::raw::{READ_RAW, RawNotice, ReadRaw};

/// A client that reads notices as received, with the reason.
pub(crate) struct RawReader {
    client: AdminClient,
    reason: String,
}

impl RawReader {
    /// Finds the running system. Errors: none is running.
    pub(crate) fn of(global: &Global, settings: &Settings, reason: &str) -> anyhow::Result<Self> {
        let client = AdminClient::find(global, &DataDir::of(settings))?;
        Ok(Self { client, reason: reason.to_owned() })
    }

    /// Prints the bytes of one record on standard output, and the request line and headers on
    /// standard error. Errors: the record has no bytes, or they were erased.
    pub(crate) fn print(&self, topic: &str, position: Position) -> anyhow::Result<()> {
        let request = ReadRaw { reason: self.reason.clone() };
        let RawNotice { request, raw } =
            self.client.call(&READ_RAW, &[topic, &position.to_string()], &request)?;
        if !request.target.is_empty() {
            let method = request.method.as_deref().unwrap_or("POST");
            output::error_line(&format!("{method} {}", request.target));
        }
        for (name, value) in &request.headers {
            output::error_line(&format!("{name}: {value}"));
        }
        let raw = hex::decode(raw).context("the admin listener's answer")?;
        output::raw(&raw);
        Ok(())
    }
}
