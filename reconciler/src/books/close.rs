//! Owns the closing of a day: its totals and findings are sealed by a digest, and what changes them later is an adjustment.

use payfold_schemas::digest::Digest;
use payfold_schemas::finding::Code;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::run::{PERIOD_CLOSED_TYPE, PeriodClosed, RunEnded, RunResult};
use payfold_schemas::time::Time;

use super::changed::ChangedOrders;
use super::day::{self, append, event};
use super::desk::{Books, Closing};
use super::flag_days::{DatedFlags, FlagDay, is_closed};
use super::flags::OrderFlag;
use super::ledger::{Day, Ledger};
use super::rules::Rules;
use super::settle::is_same;
use super::shelf::{Of, Standing, Which};
use super::{BooksError, orders, terms};
use crate::run::Shared;

/// Closes a day that is done with.
pub(crate) async fn close(
    shared: &Shared,
    books: &Books,
    ledger: &mut Ledger,
    closing: Closing,
) -> Result<PeriodClosed, BooksError> {
    let now = shared.clock.now();
    let rules = terms(books, &closing.partner).map(|terms| terms.rules(closing.day, now));
    if let Some(rules) = &rules {
        is_over(rules, &closing)?;
    }
    let closed = seal(ledger, &closing, now)?;
    if let Some(rules) = &rules {
        was_compared_after(ledger, rules, &closing)?;
        day::folded_through(shared, books, now).await?;
        has_no_flag_since(shared, books, ledger, (rules, &closing)).await?;
    }
    let named = (closed.event_id(), PERIOD_CLOSED_TYPE, closed.at);
    append(shared, vec![event(closed.partner.to_string(), named, &closed)]).await?;
    super::day::catch_up(shared, ledger).await?;
    Ok(closed)
}

/// Errors: the day is not over, or the last payments of it are too young to be judged.
fn is_over(rules: &Rules, Closing { partner, day, .. }: &Closing) -> Result<(), BooksError> {
    let from = rules.judged_from();
    if rules.now >= from {
        return Ok(());
    }
    Err(BooksError::Refused(format!(
        "{day} of {partner} can't be closed yet: the partner's day ends at {}, and the payments of its end can be judged \
         after {from} (cut_off_s and grace_s of [records]); compare the day again after that, then close it",
        rules.until
    )))
}

/// Errors: the last run began before it could judge all payments of the day.
fn was_compared_after(
    ledger: &Ledger,
    rules: &Rules,
    Closing { partner, day, .. }: &Closing,
) -> Result<(), BooksError> {
    let run = last_run(ledger, &(partner.clone(), day.to_string()))?;
    let from = rules.judged_from();
    if run.started_at >= from {
        return Ok(());
    }
    Err(BooksError::Refused(format!(
        "the last run of {day} of {partner} began at {}, and the payments of the day's end can be judged after {from}: run \
         it again, then close it",
        run.started_at
    )))
}

/// Errors: an order of the day has got a flag since the last run, or an order of a closed day that the next run would find.
/// Looked at are the orders of the day's window, and those that have changed since.
async fn has_no_flag_since(
    shared: &Shared,
    books: &Books,
    ledger: &Ledger,
    (rules, Closing { partner, day, .. }): (&Rules, &Closing),
) -> Result<(), BooksError> {
    let mut unknown = 0;
    let mut count = |dated: DatedFlags| -> Result<(), BooksError> {
        unknown += unknown_flags(ledger, (partner, &day.to_string()), &dated)?;
        Ok(())
    };
    let from = rules.from.plus_ms(-books.lookback_ms);
    orders::flags(shared, partner, (rules, from), &mut count).await?;
    let since = last_run(ledger, &(partner.clone(), day.to_string()))?.started_at;
    let changed = ChangedOrders { partner, since, created_before: from };
    changed.flags(shared, rules, &mut count).await?;
    if unknown == 0 {
        return Ok(());
    }
    Err(BooksError::Refused(format!(
        "{unknown} flags of orders of {day} were raised after its last run: run it again, and decide what it finds"
    )))
}

/// How many open flags of an order a run of this day would find that are no findings yet.
fn unknown_flags(
    ledger: &Ledger,
    (partner, day): (&PartnerCode, &str),
    dated: &DatedFlags,
) -> Result<u64, BooksError> {
    let is_closed = is_closed(ledger, partner, &dated.day);
    if !dated.has_open() || (dated.day != day && !(is_closed && dated.day.as_str() < day)) {
        return Ok(0);
    }
    let standing = ledger.of_order(&dated.flags.key)?;
    let flag_day = FlagDay { of_order: &dated.day, is_closed, standing: &standing };
    let is_known = |flag: &OrderFlag| {
        let found = dated.flags.finding(*flag, flag_day.of(flag.flag).unwrap_or(day));
        standing.iter().any(|known| known.finding_id == found.id && is_same(known, &found))
    };
    let open = dated.flags.flags.iter().filter(|flag| flag.is_open);
    Ok(u64::try_from(open.filter(|flag| !is_known(flag)).count()).unwrap_or(u64::MAX))
}

/// The seal of a day. Errors: why it is not done with.
fn seal(ledger: &Ledger, closing: &Closing, at: Time) -> Result<PeriodClosed, BooksError> {
    let day = (closing.partner.clone(), closing.day.to_string());
    let run = last_run(ledger, &day)?;
    let open = ledger.shelf().count(&day.0, Of::Day(&day.1))?.loud;
    if open > 0 {
        return Err(BooksError::Refused(format!(
            "{open} findings of {} are open: `payfold reconcile findings --open` lists them, `payfold reconcile \
             decide` settles them",
            day.1
        )));
    }
    let waiting = no_word_on_the_end(ledger, &day)?;
    if waiting > 0 {
        return Err(BooksError::Refused(format!(
            "{waiting} payments of the end of {} wait for the records of the day after (CUT_OFF): compare that day first, \
             or decide them",
            day.1
        )));
    }
    let findings = ledger.shelf().versions(&day.0, &day.1)?;
    let sealed = serde_json::to_vec(&(&day, &run.run, &run.totals, &findings)).expect("JSON");
    Ok(PeriodClosed {
        run: run.run.clone(),
        author: closing.author.clone(),
        at,
        totals: run.totals.clone(),
        findings,
        seal: Digest::of_bytes(&sealed),
        partner: day.0,
        day: day.1,
    })
}

/// How many payments of the day's end nobody has said anything of: whether they are missing is not known yet.
fn no_word_on_the_end(ledger: &Ledger, day: &Day) -> Result<usize, BooksError> {
    let (code, standing) = (Some(Code::CutOff), Some(Standing::Open));
    let of_day = Which { partner: Some(&day.0), day: Some(&day.1), code, standing, after: "" };
    Ok(ledger.findings(of_day).collect::<Result<Vec<_>, _>>()?.len())
}

/// The run that a day is closed with.
fn last_run<'a>(ledger: &'a Ledger, day: &Day) -> Result<&'a RunEnded, BooksError> {
    if let Some(closed) = ledger.closed(day) {
        return Err(BooksError::Refused(format!(
            "{} of {} was closed by {} at {}",
            day.1, day.0, closed.author, closed.at
        )));
    }
    let Some(run) = ledger.run_of(day) else {
        return Err(BooksError::Refused(format!(
            "{} of {} was never compared: `payfold reconcile run {} --day {} --records FILE` first",
            day.1, day.0, day.0, day.1
        )));
    };
    if run.result == RunResult::Incomplete {
        return Err(BooksError::Refused(format!(
            "the last run of {} is incomplete ({}): mend that and run it again",
            day.1,
            run.problems.first().map_or("", String::as_str)
        )));
    }
    Ok(run)
}

/// The seal of a closed day whose totals or findings are others now. A run that could not look at everything adjusts none.
pub(crate) fn adjusts(
    ledger: &Ledger,
    day: &Day,
    ended: &RunEnded,
) -> Result<Option<Digest>, BooksError> {
    let closed = ledger.closed(day).filter(|_| ended.result == RunResult::Complete);
    let Some(closed) = closed else { return Ok(None) };
    let findings = ledger.shelf().versions(&day.0, &day.1)?;
    let is_same = closed.totals == ended.totals && closed.findings == findings;
    Ok((!is_same).then_some(closed.seal))
}
