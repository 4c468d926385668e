//! Owns log lines and the metrics registry: human lines on a terminal, JSON otherwise; never a body,
//! a signature or a secret.

use std::io::IsTerminal;

use anyhow::Context;
use prometheus::{IntGaugeVec, Opts, Registry};
use tracing_subscriber::EnvFilter;

use crate::settings::{LogFormat, Settings};

/// Starts logging to standard error. Errors: a filter that can't be read.
pub fn start_logging(settings: &Settings) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&settings.log_filter).with_context(|| {
        format!("log_filter = \"{}\" is no tracing filter", settings.log_filter)
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

/// A registry with `payfold_build_info`.
pub fn registry() -> anyhow::Result<Registry> {
    let registry = Registry::new();
    let build = IntGaugeVec::new(
        Opts::new("payfold_build_info", "1, with the version as label."),
        &["version"],
    )?;
    build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
    registry.register(Box::new(build))?;
    Ok(registry)
}
