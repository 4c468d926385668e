//! Owns a row of `payfold check`: the check, its result, detail and fix.

use serde::Serialize;

use crate::error;
use crate::listing::Row;
use crate::wiring::cluster_state::EngineState;

/// The result of one check.
#[derive(Serialize)]
pub(super) struct CheckRow {
    pub(super) check: &'static str,
    pub(super) result: &'static str,
    pub(super) detail: String,
    pub(super) fix: String,
    /// Whether nothing can be stored, or stored data is damaged or does not belong together; the
    /// command then exits with 3.
    #[serde(skip)]
    pub(super) is_grave: bool,
}

impl Row for CheckRow {
    const COLUMNS: &'static str = "check result detail fix";
}

impl CheckRow {
    pub(super) fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Self::new(check, "ok", detail.into(), String::new())
    }

    pub(super) fn warn(
        check: &'static str,
        detail: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(check, "warn", detail.into(), fix.into())
    }

    pub(super) fn failed(
        check: &'static str,
        detail: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(check, "failed", detail.into(), fix.into())
    }

    /// A failed check that means that nothing can be stored.
    pub(super) fn storing_nothing(
        check: &'static str,
        detail: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { is_grave: true, ..Self::failed(check, detail, fix) }
    }

    fn new(check: &'static str, result: &'static str, detail: String, fix: String) -> Self {
        Self { check, result, detail, fix, is_grave: false }
    }

    pub(super) fn of(check: &'static str, found: EngineState) -> Self {
        match found {
            EngineState::Good { detail } => Self::ok(check, detail),
            EngineState::Doubtful { detail, fix } => Self::warn(check, detail, fix),
            EngineState::Bad { detail, fix } => Self::failed(check, detail, fix),
        }
    }

    /// A failed check from an error; `otherwise` is the fix if the error has none.
    pub(super) fn of_error(check: &'static str, error: &anyhow::Error, otherwise: &str) -> Self {
        let (detail, fix) = error::describe(error);
        let is_grave = error::is_difference(error);
        let fix = fix.unwrap_or_else(|| otherwise.to_owned());
        Self { is_grave, ..Self::failed(check, detail, fix) }
    }
}
