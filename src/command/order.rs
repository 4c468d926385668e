//! `payfold order show|list|stuck`: stored orders, and the facts of an order with what each
//! changed.

mod rows;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::Topic;
use payfold_engines::orders::{Cursor, Page, Scan};
use payfold_kit::search;
use payfold_projector::fold;
use payfold_report::money::major_named;
use payfold_schemas::ids::{OrderKey, Reference};
use payfold_schemas::order::{Flag, KnownFacts, Order, OrderState, Summary};
use payfold_schemas::position::Position;
use payfold_schemas::record::{FactRecord, Parts, Record};
use payfold_schemas::time::Time;

use self::rows::{FactRow, OrderRow};
use super::block_on::block_on;
use super::message::mask;
use super::raw::RawReader;
use super::stuck;
use crate::accounts::accounts;
use crate::args::{Global, OrderCommand, OutputArgs, OutputFormat, PageArgs, RawArgs};
use crate::error::Fixable;
use crate::listing::Listing;
use crate::output;
use crate::settings::{self, Loaded};
use crate::wiring::{self, Engines};

const PAGE: usize = 500;

/// Runs one of its commands.
pub(crate) fn run(global: &Global, command: &OrderCommand) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    block_on(async {
        let engines = wiring::open_to_read(&loaded.settings).await?;
        answer((global, &loaded), &engines, command).await
    })
}

async fn answer(
    (global, loaded): (&Global, &Loaded),
    engines: &Engines,
    command: &OrderCommand,
) -> anyhow::Result<()> {
    match command {
        OrderCommand::Show { order, facts, raw, output } => {
            let RawArgs { raw, reason } = raw;
            let name = order.join("/");
            let key = OrderKey::parse(&name).map_err(|error| {
                let is_whole = name.matches('/').count() >= 2;
                let why = if is_whole { error.to_string() } else { "it is not whole".to_owned() };
                Fixable::error(
                    format!("{name} can't name an order: {why}"),
                    "write PARTNER/MERCHANT/ORDER; payfold trace finds it by the order id alone",
                )
            })?;
            let order = load(engines, &key).await?;
            match (facts, raw) {
                (false, _) => show(&order, output),
                (true, false) => show_facts(engines, &order, output).await,
                (true, true) => {
                    let reason = reason.as_deref().unwrap_or_default();
                    let raw = RawReader::of(global, &loaded.settings, reason)?;
                    show_raw(engines, &order, &raw).await
                }
            }
        }
        OrderCommand::List { state, flag, reference, older, page, output } => {
            let filter = OrderFilter::parse(state.as_deref(), flag.as_deref())?;
            let until = match older {
                Some(age) => {
                    let age_ms = i64::try_from(humantime::parse_duration(age)?.as_millis())?;
                    SystemClock.now().plus_ms(-age_ms)
                }
                None => Time::from_unix_nanos(i64::MAX),
            };
            let scans = match reference {
                Some(reference) => references(loaded, reference)?,
                None => vec![Scan::Created { from: Time::from_unix_nanos(i64::MIN), until }],
            };
            list(engines, scans, &filter, (page, output)).await
        }
        OrderCommand::Stuck { partner, page, output } => {
            stuck::list(loaded, engines, partner.as_deref(), (page, output)).await
        }
    }
}

/// Loads one order. Errors: it does not exist.
pub(crate) async fn load(engines: &Engines, key: &OrderKey) -> anyhow::Result<Order> {
    let found = engines.store()?.load(vec![key.clone()]).await?.pop().flatten();
    found.ok_or_else(|| {
        Fixable::error(
            format!("order {key} does not exist"),
            "find it with payfold order list, or payfold trace ORDER_ID",
        )
    })
}

fn show(order: &Order, output: &OutputArgs) -> anyhow::Result<()> {
    if output.output != OutputFormat::Table {
        return output::object(output.output, &OrderRow::of(order));
    }
    let summary = &order.summary;
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let mut rows = vec![
        ("order", order.key.to_string()),
        ("state", format!("{}{}", summary.state, if summary.fulfil { " (fulfil)" } else { "" })),
        ("version", order.version.to_string()),
        ("amount", amount(summary)),
        ("paid", in_currency(summary, summary.paid_amount)),
        (
            "refunded",
            format!(
                "{}{}",
                if summary.refunded_at_least { "at least " } else { "" },
                in_currency(summary, summary.refunded_amount)
            ),
        ),
        ("reference", or_none(summary.reference.as_ref().map(ToString::to_string))),
        ("session ref", or_none(summary.session_ref.as_ref().map(ToString::to_string))),
        ("payment ref", or_none(summary.payment_ref.as_ref().map(ToString::to_string))),
        ("paid at", or_none(summary.paid_at.map(output::time))),
        ("deadline", or_none(summary.deadline.map(output::time))),
        ("first seen", output::time(order.first_seen)),
    ];
    for raised in &summary.flags {
        let decided =
            raised.decided_by.as_ref().map_or(String::new(), |id| format!(", decided by {id}"));
        let line = format!(
            "{} ({}{decided}) evidence {}",
            raised.flag,
            raised.severity.as_str(),
            raised.evidence
        );
        rows.push(("flag", line));
    }
    for (name, value) in rows {
        output::line(&format!("{name:<12} {value}"));
    }
    Ok(())
}

fn amount(summary: &Summary) -> String {
    let unknown = || "unknown: no create request".to_owned();
    summary.amount.map_or_else(unknown, |minor| in_currency(summary, minor))
}

/// Formats an amount of the order; in minor units while no `CreateRequested` gives the currency.
fn in_currency(summary: &Summary, minor: i64) -> String {
    match summary.currency {
        Some(currency) => major_named(minor.into(), currency),
        None => format!("{minor} (minor units, currency unknown)"),
    }
}

/// The records of an order's facts, in log order. Errors: the log's; a record is missing or can't
/// be read.
pub(crate) async fn records(
    engines: &Engines,
    order: &Order,
) -> anyhow::Result<Vec<(Position, FactRecord, Vec<u8>)>> {
    let mut found = Vec::new();
    for position in positions(&order.facts) {
        let message = search::message_at(&*engines.log, Topic::Intake, position)
            .await?
            .ok_or_else(|| anyhow::anyhow!("the log has no record at {position}"))?;
        let record = Record::decode(&message.value)?;
        if let Parts::Fact(fact) = record.parts {
            found.push((position, fact, record.raw));
        }
    }
    Ok(found)
}

/// The positions of an order's facts, in log order.
pub(crate) fn positions(facts: &KnownFacts) -> Vec<Position> {
    let mut positions: Vec<Position> = Vec::new();
    positions.extend(facts.creates.iter().map(|known| known.position));
    positions.extend(facts.sessions.iter().map(|known| known.position));
    positions.extend(facts.create_failures.iter().map(|known| known.position));
    positions.extend(facts.ipns.iter().map(|known| known.position));
    positions.extend(facts.deadlines_passed.iter().map(|known| known.position));
    positions.extend(facts.query_answers.iter().map(|known| known.position));
    positions.extend(facts.shared_refs.iter().map(|known| known.position));
    positions.extend(facts.decisions.iter().map(|known| known.position));
    positions.sort_unstable();
    positions
}

async fn show_facts(engines: &Engines, order: &Order, output: &OutputArgs) -> anyhow::Result<()> {
    let mut listing = Listing::of::<FactRow>(output.output);
    let (mut facts, mut before) = (KnownFacts::default(), None::<OrderState>);
    for (position, mut record, raw) in records(engines, order).await? {
        fold::apply(&mut facts, &record.fact, position);
        let summary = fold::summarize(&facts);
        let effect = match before {
            Some(state) if state == summary.state => format!("= {state}"),
            Some(state) => format!("{state} → {}", summary.state),
            None => format!("→ {}", summary.state),
        };
        before = Some(summary.state);
        record.source.iter_mut().for_each(|source| mask(&mut source.request));
        listing.row(&FactRow {
            position: position.to_string(),
            received_at: record.received_at,
            fact: record.fact,
            effect,
            flags: summary.flags.iter().map(|raised| raised.flag).collect(),
            request_id: record.request_id,
            source: record.source,
            raw_bytes: raw.len(),
        })?;
    }
    listing.print()
}

async fn show_raw(engines: &Engines, order: &Order, reading: &RawReader) -> anyhow::Result<()> {
    for (position, record, raw) in records(engines, order).await? {
        if !raw.is_empty() || record.source.is_some() {
            output::error_line(&format!(
                "{position} {} {}",
                record.fact.letter(),
                record.received_at
            ));
            if let Err(error) = reading.print(Topic::Intake.name(), position) {
                output::error_line(&format!("{error:#}"));
            }
        }
    }
    Ok(())
}

struct OrderFilter {
    state: Option<OrderState>,
    flag: Option<Flag>,
}

impl OrderFilter {
    fn parse(state: Option<&str>, flag: Option<&str>) -> anyhow::Result<Self> {
        let unknown = |what: &str, name: &str, all: Vec<&str>| {
            Fixable::error(
                format!("the {what} {name} does not exist"),
                format!("use one of {}", all.join(" ")),
            )
        };
        let state = state
            .map(|name| {
                OrderState::parse(name).ok_or_else(|| {
                    unknown("state", name, OrderState::ALL.iter().map(|s| s.as_str()).collect())
                })
            })
            .transpose()?;
        let flag = flag
            .map(|name| {
                Flag::parse(name).ok_or_else(|| {
                    unknown("flag", name, Flag::ALL.iter().map(|f| f.as_str()).collect())
                })
            })
            .transpose()?;
        Ok(Self { state, flag })
    }

    fn takes(&self, order: &Order) -> bool {
        let raised =
            |flag| order.summary.flags.iter().any(|raised| raised.flag == flag && raised.is_open());
        self.state.is_none_or(|state| order.summary.state == state) && self.flag.is_none_or(raised)
    }
}

fn references(loaded: &Loaded, reference: &str) -> anyhow::Result<Vec<Scan>> {
    let reference = Reference::parse(reference)?;
    let scan = |(partner, merchant)| Scan::Reference(partner, merchant, reference.clone());
    Ok(accounts(loaded)?.into_iter().map(scan).collect())
}

/// Reads the scans page by page and prints the orders that match the filter, up to the limit.
async fn list(
    engines: &Engines,
    scans: Vec<Scan>,
    filter: &OrderFilter,
    (page, output): (&PageArgs, &OutputArgs),
) -> anyhow::Result<()> {
    let mut listing = Listing::of::<OrderRow<'_>>(output.output);
    let mut rows = 0;
    let mut after = page.after.clone().map(Cursor);
    for scan in scans {
        loop {
            let Page { entries, next } =
                engines.store()?.scan(scan.clone(), after.take(), PAGE.min(page.limit)).await?;
            let keys = entries.into_iter().map(|(key, _)| key).collect();
            for order in engines.store()?.load(keys).await?.into_iter().flatten() {
                if filter.takes(&order) {
                    listing.row(&OrderRow::of(&order))?;
                    rows += 1;
                }
            }
            match next {
                Some(cursor) if rows >= page.limit => {
                    output::error_line(&format!("more: --after {}", cursor.0));
                    return listing.print();
                }
                Some(cursor) => after = Some(cursor),
                None => break,
            }
        }
    }
    listing.print()
}
