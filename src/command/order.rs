//! `payfold order show|list|stuck`: orders as stored, and the facts behind one with what each changed.

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::Topic;
use payfold_engines::orders::{Cursor, Page, Scan};
use payfold_projector::fold;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::{MerchantCode, OrderId, OrderKey, PartnerCode, Reference};
use payfold_schemas::order::{Flag, KnownFacts, Order, OrderState, Summary};
use payfold_schemas::record::{FactRecord, Parts, Position, Record};
use payfold_schemas::time::Time;
use serde_json::{Value, json};

use super::raw::Raw;
use super::{block_on, stuck, tail};
use crate::accounts::accounts;
use crate::args::{Form, Global, OrderCommand, OutputArgs, PageArgs, RawArgs};
use crate::error::Fixable;
use crate::money::{major, named, plain};
use crate::output::{self, Listing};
use crate::search;
use crate::settings::{self, Loaded};
use crate::wiring::Engines;

const LIST: [&str; 8] =
    ["created", "partner", "merchant", "order", "state", "amount", "currency", "attention"];
/// In a spreadsheet the minor units stand beside the amount, which is in major units.
const LIST_CSV: [&str; 9] = [
    "created",
    "partner",
    "merchant",
    "order",
    "state",
    "amount",
    "amount_minor",
    "currency",
    "attention",
];
const FACTS: [&str; 8] =
    ["position", "received", "fact", "ref", "amount", "effect", "flags", "request_id"];
const PAGE: usize = 500;

/// Runs one of its commands.
pub fn run(global: &Global, command: &OrderCommand) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    block_on(async {
        let engines = Engines::open_to_read(&loaded.settings).await?;
        answer((global, &loaded), &engines, command).await
    })
}

async fn answer(
    (global, loaded): (&Global, &Loaded),
    engines: &Engines,
    command: &OrderCommand,
) -> anyhow::Result<()> {
    match command {
        OrderCommand::Show { partner, merchant, order, facts, raw, output } => {
            let RawArgs { raw, reason } = raw;
            let key = OrderKey {
                partner: PartnerCode::parse(partner)?,
                merchant_code: MerchantCode::parse(merchant)?,
                order_id: OrderId::parse(order)?,
            };
            let order = load(engines, &key).await?;
            match (facts, raw) {
                (false, _) => show(&order, output),
                (true, false) => show_facts(engines, &order, output).await,
                (true, true) => {
                    let reason = reason.as_deref().unwrap_or_default();
                    let raw = Raw::of(global, &loaded.settings, reason)?;
                    show_raw(engines, &order, &raw).await
                }
            }
        }
        OrderCommand::List { state, flag, reference, older, page, output } => {
            let filter = Filter::parse(state.as_deref(), flag.as_deref())?;
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

/// One order. Errors: there is none.
pub async fn load(engines: &Engines, key: &OrderKey) -> anyhow::Result<Order> {
    let found = engines.store()?.load(vec![key.clone()]).await?.pop().flatten();
    found.ok_or_else(|| {
        Fixable::error(
            format!("there is no order {key}"),
            "payfold order list, or payfold trace with its id",
        )
    })
}

/// An order as programs read it: key, version and summary in one object; its facts under `facts`.
pub fn object(order: &Order) -> anyhow::Result<Value> {
    let mut value = serde_json::to_value(&order.summary)?;
    value["partner"] = order.key.partner.as_str().into();
    value["merchantCode"] = order.key.merchant_code.as_str().into();
    value["orderId"] = order.key.order_id.as_str().into();
    value["version"] = order.version.into();
    value["firstSeen"] = serde_json::to_value(order.first_seen)?;
    value["position"] = order.position.to_string().into();
    value["attention"] = serde_json::to_value(order.summary.attention().collect::<Vec<Flag>>())?;
    value["exponent"] = order.summary.currency.map(|currency| currency.exponent()).into();
    value["facts"] = serde_json::to_value(&order.facts)?;
    Ok(value)
}

fn show(order: &Order, output: &OutputArgs) -> anyhow::Result<()> {
    if output.output != Form::Table {
        return output::object(output.output, &object(order)?);
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

/// An amount of the order's; in minor units while no create request says its currency.
fn in_currency(summary: &Summary, minor: i64) -> String {
    match summary.currency {
        Some(currency) => named(minor.into(), currency),
        None => format!("{minor} (minor units, currency unknown)"),
    }
}

/// The records of an order's kept facts, in log order. Errors: the log's; one is not there or can't be read.
pub(crate) async fn records(
    engines: &Engines,
    order: &Order,
) -> anyhow::Result<Vec<(Position, FactRecord, Vec<u8>)>> {
    let mut found = Vec::new();
    for position in positions(&order.facts) {
        let message = search::message_at(&*engines.log, Topic::Intake, position)
            .await?
            .ok_or_else(|| anyhow::anyhow!("the record at {position} is not in the log"))?;
        let record = Record::decode(&message.value)?;
        if let Parts::Fact(fact) = record.parts {
            found.push((position, fact, record.raw));
        }
    }
    Ok(found)
}

/// Where the kept facts were first read, in log order.
pub fn positions(facts: &KnownFacts) -> Vec<Position> {
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
    let mut listing = Listing::new(output.output, &FACTS);
    let (mut facts, mut before) = (KnownFacts::default(), None::<OrderState>);
    for (position, record, raw) in records(engines, order).await? {
        fold::apply(&mut facts, &record.fact, position);
        let summary = fold::summarize(&facts);
        let effect = match before {
            Some(state) if state == summary.state => format!("= {state}"),
            Some(state) => format!("{state} → {}", summary.state),
            None => format!("→ {}", summary.state),
        };
        before = Some(summary.state);
        let flags: Vec<&str> = summary.flags.iter().map(|raised| raised.flag.as_str()).collect();
        let (provider_ref, amount) = ref_and_amount(&record.fact);
        let mut object = json!({
            "position": position.to_string(), "receivedAt": record.received_at, "fact": record.fact,
            "effect": effect, "flags": flags, "requestId": record.request_id, "source": record.source,
            "rawBytes": raw.len(),
        });
        tail::mask(&mut object);
        let cells = vec![
            position.to_string(),
            output::time(record.received_at),
            record.fact.letter().to_owned(),
            provider_ref,
            amount,
            effect,
            flags.join(" "),
            record.request_id.to_string(),
        ];
        listing.row(cells, &object)?;
    }
    listing.print()
}

async fn show_raw(engines: &Engines, order: &Order, reading: &Raw) -> anyhow::Result<()> {
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

fn ref_and_amount(fact: &Fact) -> (String, String) {
    match fact {
        Fact::CreateRequested(create) => {
            (String::new(), named(create.amount.minor().into(), create.currency))
        }
        Fact::SessionOpened(session) => (session.provider_ref.to_string(), String::new()),
        Fact::Ipn(ipn) => {
            let money = named(ipn.money.amount.minor().into(), ipn.money.currency);
            (ipn.provider_ref.to_string(), money)
        }
        Fact::QueryAnswered(answer) => {
            let money = named(answer.amount.minor().into(), answer.currency);
            (answer.provider_ref.to_string(), money)
        }
        Fact::RefShared(shared) => (shared.provider_ref.to_string(), String::new()),
        Fact::CreateFailed(_) | Fact::DeadlinePassed { .. } | Fact::Decided(_) => {
            Default::default()
        }
    }
}

struct Filter {
    state: Option<OrderState>,
    flag: Option<Flag>,
}

impl Filter {
    fn parse(state: Option<&str>, flag: Option<&str>) -> anyhow::Result<Self> {
        let unknown = |what: &str, word: &str, all: Vec<&str>| {
            Fixable::error(
                format!("there is no {what} {word}"),
                format!("one of {}", all.join(" ")),
            )
        };
        let state = state
            .map(|word| {
                OrderState::parse(word).ok_or_else(|| {
                    unknown("state", word, OrderState::ALL.iter().map(|s| s.as_str()).collect())
                })
            })
            .transpose()?;
        let flag = flag
            .map(|word| {
                Flag::parse(word).ok_or_else(|| {
                    unknown("flag", word, Flag::ALL.iter().map(|f| f.as_str()).collect())
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

/// Pages through the scans; prints what the filter takes, up to the limit.
async fn list(
    engines: &Engines,
    scans: Vec<Scan>,
    filter: &Filter,
    (page, output): (&PageArgs, &OutputArgs),
) -> anyhow::Result<()> {
    let form = output.output;
    let columns = if form == Form::Csv { &LIST_CSV[..] } else { &LIST[..] };
    let mut listing = Listing::new(form, columns);
    let mut rows = 0;
    let mut after = page.after.clone().map(Cursor);
    for scan in scans {
        loop {
            let Page { entries, next } =
                engines.store()?.scan(scan.clone(), after.take(), PAGE.min(page.limit)).await?;
            let keys = entries.into_iter().map(|(key, _)| key).collect();
            for order in engines.store()?.load(keys).await?.into_iter().flatten() {
                if filter.takes(&order) {
                    listing.row(cells(&order, form), &object(&order)?)?;
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

fn cells(order: &Order, form: Form) -> Vec<String> {
    let summary = &order.summary;
    let attention: Vec<&str> = summary.attention().map(Flag::as_str).collect();
    let write = if form == Form::Csv { plain } else { major };
    let money = summary.amount.zip(summary.currency);
    let mut cells = vec![
        output::time(order.first_seen),
        order.key.partner.to_string(),
        order.key.merchant_code.to_string(),
        order.key.order_id.to_string(),
        summary.state.to_string(),
        money.map_or(String::new(), |(minor, currency)| write(minor.into(), currency)),
    ];
    if form == Form::Csv {
        cells.push(summary.amount.map_or(String::new(), |minor| minor.to_string()));
    }
    cells.extend([
        summary.currency.map_or(String::new(), |currency| currency.to_string()),
        attention.join(" "),
    ]);
    cells
}
