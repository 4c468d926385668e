//! Owns logging and the metrics registry. Log lines are for people on a terminal and JSON
//! otherwise; they never hold a body, a signature or a secret.

use std::io::IsTerminal;

use anyhow::Context;
use prometheus::{Registry, register_int_gauge_vec_with_registry};
use tracing_subscriber::EnvFilter;

use crate::settings::{LogFormat, Settings};

/// Starts logging to standard error. Errors: the filter of the settings can't be parsed.
pub(crate) fn start_logging(settings: &Settings) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&settings.log_filter).with_context(|| {
        format!("log_filter = \"{}\" is not a tracing filter", settings.log_filter)
    })?;
    let human = match settings.log_format {
        LogFormat::Auto => std::io::stderr().is_terminal(),
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = if human {
        builder.with_target(false).compact().try_init()
    } else {
        builder.json().flatten_event(true).try_init()
    };
    started.map_err(|error| anyhow::anyhow!("logging can't start: {error}"))
}

/// Makes a registry with `payfold_build_info`.
pub fn registry() -> anyhow::Result<Registry> {
    let registry = Registry::new();
    let build = register_int_gauge_vec_with_registry!(
        "payfold_build_info",
        "Always 1; the label is the program's version.",
        &["version"],
        registry
    )?;
    build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
    Ok(registry)
}
