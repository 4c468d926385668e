//! Owns the closing of a day: its totals and findings are sealed by a digest, and what changes them later is an adjustment.

use payfold_schemas::digest::Digest;
use payfold_schemas::run::{PERIOD_CLOSED_TYPE, PeriodClosed, RunResult};

use super::BooksError;
use super::day::{append, event};
use super::desk::Closing;
use super::ledger::Ledger;
use crate::run::Shared;

/// Closes a day that is done with.
pub(crate) async fn close(
    shared: &Shared,
    ledger: &mut Ledger,
    closing: Closing,
) -> Result<PeriodClosed, BooksError> {
    let closed = seal(ledger, &closing, shared.clock.now()).map_err(BooksError::Refused)?;
    let named = (closed.event_id(), PERIOD_CLOSED_TYPE, closed.at);
    append(shared, vec![event(closed.partner.to_string(), named, &closed)]).await?;
    super::day::catch_up(shared, ledger).await?;
    Ok(closed)
}

/// The seal of a day. Errors: why it is not done with, for people.
fn seal(
    ledger: &Ledger,
    closing: &Closing,
    at: payfold_schemas::time::Time,
) -> Result<PeriodClosed, String> {
    let day = (closing.partner.clone(), closing.day.to_string());
    if let Some(closed) = ledger.closed(&day) {
        return Err(format!(
            "{} of {} was closed by {} at {}",
            day.1, day.0, closed.author, closed.at
        ));
    }
    let Some(run) = ledger.run_of(&day) else {
        return Err(format!(
            "{} of {} was never compared: `payfold reconcile run {} --day {} --records FILE` first",
            day.1, day.0, day.0, day.1
        ));
    };
    if run.result == RunResult::Incomplete {
        return Err(format!(
            "the last run of {} is incomplete ({}): mend that and run it again",
            day.1,
            run.problems.first().map_or("", String::as_str)
        ));
    }
    let open = ledger.of_day(&day).filter(|finding| super::ledger::is_open(finding)).count();
    if open > 0 {
        return Err(format!(
            "{open} findings of {} are open: `payfold reconcile findings --open` lists them, `payfold reconcile \
             decide` settles them",
            day.1
        ));
    }
    let findings = ledger.sealed(&day);
    let sealed = serde_json::to_vec(&(&day, &run.run, &run.totals, &findings)).expect("JSON");
    Ok(PeriodClosed {
        partner: day.0,
        day: day.1,
        run: run.run.clone(),
        author: closing.author.clone(),
        at,
        totals: run.totals.clone(),
        findings,
        seal: Digest::of_bytes(&sealed),
    })
}
