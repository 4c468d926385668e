//! `payfold order stuck`: the orders partners are asked about, computed from the store as the reconciler does.

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::Topic;
use payfold_engines::orders::{Cursor, Page, Scan};
use payfold_reconciler::schedule::Schedule;
use payfold_reconciler::stuck::{Reason, reasons, unconfirmed};
use payfold_schemas::order::{Order, OrderState};
use payfold_schemas::time::Time;
use serde_json::json;

use crate::args::{OutputArgs, PageArgs};
use crate::output::{self, Listing};
use crate::settings::Loaded;
use crate::wiring::Engines;
use crate::{asking, demo, keys, search};

const COLUMNS: [&str; 6] = ["order", "state", "why", "since", "asked", "next_try"];
const PAGE: usize = 500;
/// So long after its last question an order is still listed.
const AFTERWARDS_MS: i64 = 24 * 3_600 * 1_000;

/// Why an order is asked about, and since when its times count.
struct Stuck {
    why: String,
    since: Time,
}

/// Pages through the orders that are young enough to be asked about.
pub async fn list(
    loaded: &Loaded,
    engines: &Engines,
    partner: Option<&str>,
    (page, output): (&PageArgs, &OutputArgs),
) -> anyhow::Result<()> {
    let schedule = asking::schedule(&loaded.settings, loaded.origin())?;
    let asked = partners(loaded)?;
    let now = SystemClock.now();
    let length_ms = schedule.ends(Time::from_unix_ms(0)).unix_ms();
    let from = now.plus_ms(-length_ms).plus_ms(-AFTERWARDS_MS);
    let scan = Scan::Created { from, until: now };
    let mut listing = Listing::new(output.output, &COLUMNS);
    let (mut rows, mut after) = (0, page.after.clone().map(Cursor));
    loop {
        let limit = PAGE.min(page.limit);
        let Page { entries, next } =
            engines.store()?.scan(scan.clone(), after.take(), limit).await?;
        let keys = entries.into_iter().map(|(key, _)| key);
        let keys = keys.filter(|key| partner.is_none_or(|only| key.partner.as_str() == only));
        for order in engines.store()?.load(keys.collect()).await?.into_iter().flatten() {
            let Some(stuck) = stuck(engines, &order).await? else { continue };
            let can_be_asked = asked.iter().any(|code| code == order.key.partner.as_str());
            let schedule = can_be_asked.then_some(&schedule);
            row(&mut listing, &order, &stuck, (schedule, now))?;
            rows += 1;
        }
        match next {
            Some(cursor) if rows >= page.limit => {
                output::error_line(&format!("more: --after {}", cursor.0));
                return listing.print();
            }
            Some(cursor) => after = Some(cursor),
            None => return listing.print(),
        }
    }
}

/// The partners that can be asked.
fn partners(loaded: &Loaded) -> anyhow::Result<Vec<String>> {
    let mut profiles = keys::profiles(&loaded.settings)?;
    if loaded.is_demo() {
        profiles.extend(demo::profile());
    }
    let asked = profiles
        .iter()
        .filter(|profile| asking::can_be_asked(&loaded.settings, profile, loaded.origin()));
    Ok(asked.map(|profile| profile.partner().to_string()).collect())
}

/// A notice that waits counts from its receipt, everything else from the order's creation.
async fn stuck(engines: &Engines, order: &Order) -> anyhow::Result<Option<Stuck>> {
    let why =
        |reasons: &[Reason]| reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    if let Some(waiting) = unconfirmed(order).last() {
        let found = search::message_at(&*engines.log, Topic::Intake, waiting.position).await?;
        let since = found.as_ref().map(search::received_at).transpose()?;
        let why = why(&[Reason::State(OrderState::Unconfirmed)]);
        return Ok(Some(Stuck { why, since: since.unwrap_or(order.first_seen) }));
    }
    let reasons = reasons(order);
    Ok((!reasons.is_empty()).then(|| Stuck { why: why(&reasons), since: order.first_seen }))
}

/// Without a schedule: the partner can't be asked.
fn row(
    listing: &mut Listing<'_>,
    order: &Order,
    stuck: &Stuck,
    (schedule, now): (Option<&Schedule>, Time),
) -> anyhow::Result<()> {
    let (key, state) = (&order.key, order.summary.state);
    let next = schedule.and_then(|schedule| schedule.next(stuck.since, now));
    let due = schedule.map(|schedule| (schedule.asked(stuck.since, now), schedule.times()));
    let asked = due.map_or("not asked".to_owned(), |(asked, times)| format!("{asked} of {times}"));
    let object = json!({
        "partner": key.partner, "merchantCode": key.merchant_code, "orderId": key.order_id,
        "state": state, "why": stuck.why, "since": stuck.since,
        "asked": due.map(|(asked, _)| asked), "times": due.map(|(_, times)| times),
        "nextTry": next,
    });
    let cells = vec![
        key.to_string(),
        state.to_string(),
        stuck.why.clone(),
        output::time(stuck.since),
        asked,
        next.map_or("-".to_owned(), output::time),
    ];
    listing.row(cells, &object)
}
