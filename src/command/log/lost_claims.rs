//! `payfold log accept-lost-claims`: lets the next start go on without claims that no copy holds, when a person says so.
//! Invariants: without `--yes` nothing is changed; claims of another log are never accepted; no process runs on the
//! files meanwhile.

use payfold_engines::EngineError;
use payfold_engines::log::EventLog;
use payfold_engines::log::sqlite::{SqliteLog, SqliteLogSettings};
use payfold_engines::orders::sqlite::PairedClaims;
use payfold_engines::pairing::claims::{check_files, search};

use crate::args::AcceptLostClaimsArgs;
use crate::error::Fixable;
use crate::output;
use crate::settings::Settings;
use crate::wiring::{self, Chosen, explain, explain_pairing};

/// Tells which claims are missing; with `--yes` lets the next start go on without them. Errors: the engines are not
/// embedded; there is no log, or the claims are another log's; somebody runs on the files.
pub async fn run(settings: &Settings, args: &AcceptLostClaimsArgs) -> anyhow::Result<()> {
    let Chosen::Embedded(paths) = wiring::chosen(settings)? else {
        return Err(Fixable::error(
            "the claims of a CQL database are not accepted as lost by payfold",
            "docs/operations.md, \"Claims that are lost for good\"",
        ));
    };
    if paths.is_new()? {
        return Err(Fixable::error(
            format!("there is no {}", paths.log.display()),
            "name the data folder with --data DIR",
        ));
    }
    let opened = match args.yes {
        true => SqliteLog::open(&paths.log, SqliteLogSettings::default()),
        false => SqliteLog::open_read_only(&paths.log),
    };
    let (log, claims) = (opened.map_err(explain)?, PairedClaims::beside(&paths.orders));
    let Err(refusal) = check_files(&log, &claims).await else {
        output::line("the claims belong to the log: there is nothing to accept");
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
            "Nothing was done. Put the newest copy of the claims in place first; with --yes the next start goes on with what is \
             there then.",
        );
        return Ok(());
    }
    log.unpair_claims().map_err(explain)?;
    output::line(
        "The next start goes on without them. Tell shops: a create request of before, sent again under its Idempotency-Key, may make \
         a second payment; they find theirs by GET /v1/payments?reference= first.",
    );
    Ok(())
}
