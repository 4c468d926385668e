//! Owns the closing of a day: a digest seals the day's totals and findings. A later change of the
//! totals or findings is an adjustment.

use chrono::NaiveDate;
use payfold_schemas::digest::Digest;
use payfold_schemas::event::EventAttributes;
use payfold_schemas::finding::Code;
use payfold_schemas::ids::{Author, PartnerCode};
use payfold_schemas::order_money::OrderMoney;
use payfold_schemas::run::{PERIOD_CLOSED_TYPE, PeriodClosed, RunEnded, RunResult};
use payfold_schemas::time::Time;

use super::changed_orders::ChangedOrders;
use super::day_rules::DayRules;
use super::error::ReconcileError;
use super::findings_store::{CountScope, FindingFilter, StatusFilter};
use super::flag_days::{DatedFlags, FlagDay, is_closed};
use super::flags::{OrderFlag, OrderFlags};
use super::ledger::{Ledger, PartnerDay};
use super::orders;
use super::ours::OurOrder;
use super::publish::{append, catch_up, message, wait_until_folded};
use super::setup::ReconcileSetup;
use super::transition::is_unchanged;
use crate::shared::SharedContext;

/// A request to close a day.
#[derive(Clone, Debug)]
pub struct CloseDayRequest {
    /// The partner.
    pub partner: PartnerCode,
    /// The day.
    pub day: NaiveDate,
    /// Who closes the day.
    pub author: Author,
}

/// Closes a day. Errors: why it can't be closed, for people; a halt.
pub(crate) async fn close_day(
    shared: &SharedContext,
    setup: &ReconcileSetup,
    ledger: &mut Ledger,
    request: CloseDayRequest,
) -> Result<PeriodClosed, ReconcileError> {
    let now = shared.storage.clock.now();
    let rules = setup.terms(&request.partner).map(|terms| terms.rules(request.day, now));
    if let Some(rules) = &rules {
        check_day_is_over(rules, &request)?;
    }
    let closed = seal_day(ledger, &request, now)?;
    if let Some(rules) = &rules {
        check_run_is_late_enough(ledger, rules, &request)?;
        wait_until_folded(shared, setup, now).await?;
        check_nothing_new(shared, ledger, (rules, &request)).await?;
    }
    let (id, kind, time) = (closed.event_id(), PERIOD_CLOSED_TYPE, closed.at);
    let attributes = EventAttributes { id, kind, time };
    append(&shared.storage, vec![message(closed.partner.to_string(), attributes, &closed)]).await?;
    catch_up(shared, ledger).await?;
    Ok(closed)
}

/// Errors: the day has not ended, or its last payments are still within the grace period.
fn check_day_is_over(
    rules: &DayRules,
    CloseDayRequest { partner, day, .. }: &CloseDayRequest,
) -> Result<(), ReconcileError> {
    let from = rules.judged_from();
    if rules.now >= from {
        return Ok(());
    }
    Err(ReconcileError::Refused(format!(
        "{day} of {partner} can't be closed yet: the partner's day ends at {}, and its last \
         payments can be judged from {from} on (cut_off_s and grace_s of [records]); compare the \
         day again after that, then close it",
        rules.until
    )))
}

/// Errors: the last run began before `DayRules::judged_from`.
fn check_run_is_late_enough(
    ledger: &Ledger,
    rules: &DayRules,
    CloseDayRequest { partner, day, .. }: &CloseDayRequest,
) -> Result<(), ReconcileError> {
    let run = last_run(ledger, &(partner.clone(), day.to_string()))?;
    let from = rules.judged_from();
    if run.started_at >= from {
        return Ok(());
    }
    Err(ReconcileError::Refused(format!(
        "the last run of {day} of {partner} began at {}, and the day's last payments can be \
         judged from {from} on: run it again, then close it",
        run.started_at
    )))
}

/// Errors: a payment or refund of the day is known since the last run; or an order of the day, or
/// of an earlier closed day, has open flags that are no findings yet, so the next run would open
/// them. Checks the orders of the day's window and those that have changed since the last run.
async fn check_nothing_new(
    shared: &SharedContext,
    ledger: &Ledger,
    (rules, CloseDayRequest { partner, day, .. }): (&DayRules, &CloseDayRequest),
) -> Result<(), ReconcileError> {
    let (mut new_flags, mut new_items) = (0, 0);
    let of_day = (partner.clone(), day.to_string());
    let mut count = |dated: DatedFlags| -> Result<(), ReconcileError> {
        new_flags += count_new_flags(ledger, (partner, &of_day.1), &dated)?;
        Ok(())
    };
    let from = rules.oldest_order(rules.day);
    orders::each_flags(shared, partner, (rules, from), &mut count).await?;
    let run = last_run(ledger, &of_day)?;
    let changed = ChangedOrders { partner, since: run.started_at, created_before: from };
    let mut pages = changed.pages(shared).await?;
    while let Some(page) = pages.next(shared).await? {
        for row in page {
            let money = OrderMoney::from(row);
            let flags = OrderFlags::of(&money).filter(|_| money.first_seen < from);
            let mut ours = OurOrder::of(money);
            orders::date_refunds(shared, &mut ours).await?;
            new_items += count_new_items(shared, run, rules, &ours).await?;
            flags.map_or(Ok(()), |flags| count(DatedFlags::of(flags, &ours, rules)))?;
        }
    }
    let new = match (new_items, new_flags) {
        (0, 0) => return Ok(()),
        (0, flags) => format!("{flags} flags of orders of {day} were raised"),
        (items, _) => format!("{items} payments or refunds of {day} became known"),
    };
    Err(ReconcileError::Refused(format!(
        "{new} after its last run: run it again, and decide what it finds"
    )))
}

/// Counts the payments and refunds of this day that are known since the run began.
async fn count_new_items(
    shared: &SharedContext,
    run: &RunEnded,
    rules: &DayRules,
    ours: &OurOrder,
) -> Result<u64, ReconcileError> {
    let mut new = 0;
    for (_, position) in ours.items().filter(|(at, _)| rules.contains(*at)) {
        let since = orders::received_at(shared, position).await?;
        new += u64::from(since.is_some_and(|since| since >= run.started_at));
    }
    Ok(new)
}

/// Counts the open flags of an order that a run of this day would detect and that are no findings
/// yet.
fn count_new_flags(
    ledger: &Ledger,
    (partner, day): (&PartnerCode, &str),
    dated: &DatedFlags,
) -> Result<u64, ReconcileError> {
    let is_closed = is_closed(ledger, partner, &dated.day);
    if !dated.has_open() || (dated.day != day && !(is_closed && dated.day.as_str() < day)) {
        return Ok(0);
    }
    let uncleared = ledger.of_order(&dated.flags.key)?;
    let flag_day = FlagDay { of_order: &dated.day, is_closed, uncleared: &uncleared };
    let is_known = |flag: &OrderFlag| {
        let found = dated.flags.finding(*flag, flag_day.day_of_finding(flag.flag).unwrap_or(day));
        uncleared.iter().any(|known| known.finding_id == found.id && is_unchanged(known, &found))
    };
    let open = dated.flags.flags.iter().filter(|flag| flag.is_open);
    Ok(u64::try_from(open.filter(|flag| !is_known(flag)).count()).unwrap_or(u64::MAX))
}

/// Makes the event that closes a day. Errors: the day has open findings, or open cut-offs, or no
/// complete run.
fn seal_day(
    ledger: &Ledger,
    request: &CloseDayRequest,
    at: Time,
) -> Result<PeriodClosed, ReconcileError> {
    let day = (request.partner.clone(), request.day.to_string());
    let run = last_run(ledger, &day)?;
    let open = ledger.findings_store().count(&day.0, CountScope::Day(&day.1))?.open_above_info;
    if open > 0 {
        return Err(ReconcileError::Refused(format!(
            "{open} findings of {} are open, or wait for a second person: list them with `payfold \
             reconcile findings --open` and decide them with `payfold reconcile decide`",
            day.1
        )));
    }
    let waiting = count_open_cut_offs(ledger, &day)?;
    if waiting > 0 {
        return Err(ReconcileError::Refused(format!(
            "{waiting} payments at the end of {} wait for the records of the day after (CUT_OFF): \
             compare that day first, or decide them",
            day.1
        )));
    }
    let findings = ledger.findings_store().versions(&day.0, &day.1)?;
    let sealed = serde_json::to_vec(&(&day, &run.run, &run.totals, &findings)).expect("JSON");
    Ok(PeriodClosed {
        run: run.run.clone(),
        author: request.author.clone(),
        at,
        totals: run.totals.clone(),
        findings,
        seal: Digest::of_bytes(&sealed),
        partner: day.0,
        day: day.1,
    })
}

/// Counts the payments at the day's end that wait for the next day's records (open `CUT_OFF`
/// findings): whether they are missing is not known yet.
fn count_open_cut_offs(ledger: &Ledger, day: &PartnerDay) -> Result<usize, ReconcileError> {
    let (code, status) = (Some(Code::CutOff), Some(StatusFilter::Open));
    let (partner, day) = (Some(&day.0), Some(day.1.as_str()));
    let of_day = FindingFilter { partner, day, code, status, ..FindingFilter::default() };
    Ok(ledger.findings(of_day).collect::<Result<Vec<_>, _>>()?.len())
}

/// The last run of a day, which closing seals. Errors: the day is closed, was never compared, or
/// its last run is incomplete.
fn last_run<'a>(ledger: &'a Ledger, day: &PartnerDay) -> Result<&'a RunEnded, ReconcileError> {
    if let Some(closed) = ledger.closed(day) {
        return Err(ReconcileError::Refused(format!(
            "{} of {} was closed by {} at {}; a closed day stays closed",
            day.1, day.0, closed.author, closed.at
        )));
    }
    let Some(run) = ledger.run_of(day) else {
        return Err(ReconcileError::Refused(format!(
            "{} of {} was never compared: `payfold reconcile run {} --day {} --records FILE` \
             compares it",
            day.1, day.0, day.0, day.1
        )));
    };
    if run.result == RunResult::Incomplete {
        return Err(ReconcileError::Refused(format!(
            "the last run of {} is incomplete ({}): fix that and run it again",
            day.1,
            run.problems.first().map_or("", String::as_str)
        )));
    }
    Ok(run)
}
