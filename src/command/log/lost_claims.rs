//! `payfold log accept-lost-claims`: lets the next start go on without claims that no copy holds,
//! once a person accepts the loss. Invariants: without `--yes` nothing is changed; claims of
//! another log are never accepted; no other process runs on the files meanwhile.

use payfold_checkout::paired_claims::{check_files, search};
use payfold_engines::EngineError;
use payfold_engines::log::EventLog;
use payfold_engines::log::sqlite::{SqliteLog, SqliteLogSettings};
use payfold_engines::orders::sqlite::PairedClaims;

use crate::args::AcceptLostClaimsArgs;
use crate::error::Fixable;
use crate::output;
use crate::settings::Settings;
use crate::wiring::explain::{explain, explain_pairing};
use crate::wiring::{self, ChosenEngines};

/// Prints how many claims are missing; with `--yes` lets the next start go on without them. Errors:
/// the engines are not embedded; the log does not exist; the claims are another log's; a process
/// runs on the files.
pub(crate) async fn run(settings: &Settings, args: &AcceptLostClaimsArgs) -> anyhow::Result<()> {
    let ChosenEngines::Embedded(paths) = wiring::choose_engines(settings)? else {
        return Err(Fixable::error(
            "this command is for SQLite files, and the claims are in a CQL database",
            "follow docs/how-to/corrupt.md, \"Claims that are lost for good\"",
        ));
    };
    if paths.is_new()? {
        return Err(Fixable::error(
            format!("the log {} does not exist", paths.log.display()),
            "give the data folder with --data DIR",
        ));
    }
    let opened = match args.yes {
        true => SqliteLog::open(&paths.log, SqliteLogSettings::default()),
        false => SqliteLog::open_read_only(&paths.log),
    };
    let (log, claims) = (opened.map_err(explain)?, PairedClaims::beside(&paths.orders));
    let Err(refusal) = check_files(&log, &claims).await else {
        output::line("the claims belong to the log; there is nothing to accept");
        return Ok(());
    };
    if !matches!(refusal, EngineError::Corrupt(_)) {
        return Err(explain(refusal));
    }
    let is_of_another_log = claims.exists().map_err(explain)?
        && claims.log_id().map_err(explain)?.is_some_and(|log_id| log_id != log.id());
    if is_of_another_log {
        return Err(explain_pairing(refusal));
    }
    let since = log.claims_since().map_err(explain)?.unwrap_or(0);
    let found = search(&log, &claims, since).await.map_err(explain)?;
    output::line(&refusal.to_string());
    output::line(&format!(
        "{} of the newest {} create requests have no claim in {}",
        found.unclaimed,
        found.searched,
        claims.path().display()
    ));
    if !args.yes {
        output::line(
            "Nothing was changed. First put the newest copy of the claims in place; then --yes \
             lets the next start go on with the claims that exist.",
        );
        return Ok(());
    }
    log.unpair_claims().map_err(explain)?;
    output::line(
        "The next start goes on without them. Warn the shops: a create request repeated with an \
         earlier Idempotency-Key may create a second payment, so they should first look for the \
         payment with GET /v1/payments?reference=",
    );
    Ok(())
}
