//! `payfold order stuck`: the orders partners are asked about, computed from the store as the reconciler does; and the
//! same of a single order, for listings of what it is about.

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::Topic;
use payfold_engines::orders::{Cursor, Page, Scan};
use payfold_reconciler::books::ledger::Ledger;
use payfold_reconciler::schedule::Schedule;
use payfold_reconciler::stuck::{Reason, reasons, unconfirmed};
use payfold_schemas::finding::FindingChanged;
use payfold_schemas::order::{Order, OrderState};
use payfold_schemas::time::Time;
use serde_json::{Value, json};

use crate::args::{OutputArgs, PageArgs};
use crate::output::{self, Listing};
use crate::settings::Loaded;
use crate::wiring::Engines;
use crate::{asking, demo, keys, search};

const COLUMNS: [&str; 7] = ["order", "state", "why", "since", "asked", "next_try", "findings"];
const PAGE: usize = 500;
/// So long after its last question an order is still listed.
const AFTERWARDS_MS: i64 = 24 * 3_600 * 1_000;

/// Who is asked, and when.
pub struct Askings {
    schedule: Schedule,
    /// The partners that can be asked.
    partners: Vec<String>,
    now: Time,
}

/// What a partner is asked of an order.
pub struct Asking {
    why: String,
    /// Since when its times count.
    since: Time,
    /// How often so far, and how often in all; none: the partner can't be asked.
    asked: Option<(usize, usize)>,
    /// None: it was the last time.
    next: Option<Time>,
}

impl Askings {
    /// As the settings and profiles are.
    pub fn of(loaded: &Loaded) -> anyhow::Result<Self> {
        let schedule = asking::schedule(&loaded.settings, loaded.origin())?;
        Ok(Self { schedule, partners: partners(loaded)?, now: SystemClock.now() })
    }

    /// What is asked of an order; none if it wants nobody's word.
    pub async fn of_order(
        &self,
        engines: &Engines,
        order: &Order,
    ) -> anyhow::Result<Option<Asking>> {
        let Some((why, since)) = stuck(engines, order).await? else { return Ok(None) };
        let (schedule, now) = (&self.schedule, self.now);
        let can_be_asked = self.partners.iter().any(|code| code == order.key.partner.as_str());
        let asked = can_be_asked.then(|| (schedule.asked(since, now), schedule.times()));
        let next = schedule.next(since, now).filter(|_| can_be_asked);
        Ok(Some(Asking { why, since, asked, next }))
    }
}

impl Asking {
    /// In one cell.
    pub fn in_words(&self) -> String {
        let next = self.next.map_or("that was the last time".to_owned(), |next| {
            format!("next {}", output::time(next))
        });
        let since = output::time(self.since);
        match self.asked {
            None => format!("{}; the partner can't be asked", self.why),
            Some((asked, times)) => {
                format!("{} since {since}: asked {asked} of {times} times, {next}", self.why)
            }
        }
    }

    /// For programs.
    pub fn object(&self) -> Value {
        json!({
            "why": self.why, "since": self.since, "asked": self.asked.map(|(asked, _)| asked),
            "times": self.asked.map(|(_, times)| times), "nextTry": self.next,
        })
    }
}

/// Pages through the orders that are young enough to be asked about.
pub async fn list(
    loaded: &Loaded,
    engines: &Engines,
    partner: Option<&str>,
    (page, output): (&PageArgs, &OutputArgs),
) -> anyhow::Result<()> {
    let askings = Askings::of(loaded)?;
    let mut ledger = Ledger::in_memory()?;
    ledger.catch_up(&*engines.log).await?;
    let now = askings.now;
    let length_ms = askings.schedule.ends(Time::from_unix_ms(0)).unix_ms();
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
            let Some(asking) = askings.of_order(engines, &order).await? else { continue };
            row(&mut listing, &order, &asking, &ledger.of_order(&order.key)?)?;
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

/// Why an order is asked about, and since when. A notice that waits counts from its receipt, everything else from the
/// order's creation.
async fn stuck(engines: &Engines, order: &Order) -> anyhow::Result<Option<(String, Time)>> {
    let why =
        |reasons: &[Reason]| reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    if let Some(waiting) = unconfirmed(order).last() {
        let found = search::message_at(&*engines.log, Topic::Intake, waiting.position).await?;
        let since = found.as_ref().map(search::received_at).transpose()?;
        let why = why(&[Reason::State(OrderState::Unconfirmed)]);
        return Ok(Some((why, since.flatten().unwrap_or(order.first_seen))));
    }
    let reasons = reasons(order);
    Ok((!reasons.is_empty()).then(|| (why(&reasons), order.first_seen)))
}

fn row(
    listing: &mut Listing<'_>,
    order: &Order,
    asking: &Asking,
    findings: &[FindingChanged],
) -> anyhow::Result<()> {
    let (key, state) = (&order.key, order.summary.state);
    let mut object = asking.object();
    object["partner"] = key.partner.as_str().into();
    object["merchantCode"] = key.merchant_code.as_str().into();
    object["orderId"] = key.order_id.as_str().into();
    object["state"] = serde_json::to_value(state)?;
    let ids = findings.iter().map(|finding| finding.finding_id.as_str());
    object["findings"] = ids.collect::<Vec<_>>().into();
    let asked = asking.asked.map(|(asked, times)| format!("{asked} of {times}"));
    let codes: Vec<_> = findings.iter().map(|finding| finding.code.as_str()).collect();
    let cells = vec![
        key.to_string(),
        state.to_string(),
        asking.why.clone(),
        output::time(asking.since),
        asked.unwrap_or("not asked".to_owned()),
        asking.next.map_or("-".to_owned(), output::time),
        if codes.is_empty() { "-".to_owned() } else { codes.join(" ") },
    ];
    listing.row(cells, &object)
}
