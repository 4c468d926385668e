//! `payfold order show|find|list|stuck`: stored orders, and the facts of an order with what each
//! changed.

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::Topic;
use payfold_report::money::major_named;
use payfold_schemas::ids::{OrderKey, PartnerCode, Reference};
use payfold_schemas::order::{Flag, OrderState, Summary};
use payfold_views::facts::FactRow;
use payfold_views::listing::moment;
use payfold_views::orders::{ListOrders, OrderPage, OrderRow};
use payfold_views::reader::ORDERS_MAX;
use payfold_views::search::SearchOrders;

use super::block_on::block_on;
use super::raw::RawReader;
use super::{pages, stuck};
use crate::args::{Global, OrderCommand, OutputArgs, OutputFormat, PageArgs};
use crate::error::Fixable;
use crate::listing::{self, Listing};
use crate::output;
use crate::reads::Reads;
use crate::settings;

/// Runs one of its commands.
pub(crate) fn run(global: &Global, command: &OrderCommand) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    block_on(async {
        match command {
            OrderCommand::Show { order, facts, raw, output } => {
                let key = parse_key(&order.join("/"))?;
                let reads = Reads::open(global, &loaded).await?;
                match (facts, raw.raw) {
                    (false, _) => show(&reads.order(&key).await?, output),
                    (true, false) => listing::print(output.output, reads.facts(&key).await?.facts),
                    (true, true) => {
                        let reason = raw.reason.as_deref().unwrap_or_default();
                        let reading = RawReader::of(global, &loaded.settings, reason)?;
                        show_raw(&reading, &reads.facts(&key).await?.facts)
                    }
                }
            }
            OrderCommand::Find { what, output } => {
                find(&Reads::open(global, &loaded).await?, what, output).await
            }
            OrderCommand::List { state, flag, reference, older, newest, page, output } => {
                let before = match older {
                    Some(age) => {
                        let age_ms = i64::try_from(humantime::parse_duration(age)?.as_millis())?;
                        Some(SystemClock.now().plus_ms(-age_ms))
                    }
                    None => None,
                };
                let (state, flag) = parse_filter(state.as_deref(), flag.as_deref())?;
                let reference = reference.as_deref().map(Reference::parse).transpose()?;
                let (newest_first, none) = (*newest, ListOrders::default());
                let asked = ListOrders { state, flag, reference, before, newest_first, ..none };
                list(&Reads::open(global, &loaded).await?, asked, (page, output)).await
            }
            OrderCommand::Stuck { partner, page, output } => {
                let partner = partner.as_deref().map(PartnerCode::parse).transpose()?;
                stuck::list(&Reads::open(global, &loaded).await?, partner, (page, output)).await
            }
        }
    })
}

fn parse_key(name: &str) -> anyhow::Result<OrderKey> {
    OrderKey::parse(name).map_err(|error| {
        let is_whole = name.matches('/').count() >= 2;
        let why = if is_whole { error.to_string() } else { "it is not whole".to_owned() };
        Fixable::error(
            format!("{name} can't name an order: {why}"),
            "write PARTNER/MERCHANT/ORDER; `payfold order find` finds it by its id or a reference",
        )
    })
}

fn show(order: &OrderRow, output: &OutputArgs) -> anyhow::Result<()> {
    if output.output != OutputFormat::Table {
        return output::object(output.output, order);
    }
    let summary = &order.summary;
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let mut rows = vec![
        ("order", format!("{}/{}/{}", order.partner, order.merchant_code, order.order_id)),
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
        ("paid at", or_none(summary.paid_at.map(moment))),
        ("deadline", or_none(summary.deadline.map(moment))),
        ("first seen", moment(order.first_seen)),
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

/// Prints the bytes of each notice, as they came.
fn show_raw(reading: &RawReader, facts: &[FactRow]) -> anyhow::Result<()> {
    for fact in facts.iter().filter(|fact| fact.raw_bytes > 0 || fact.source.is_some()) {
        let FactRow { position, fact, received_at, .. } = fact;
        output::error_line(&format!("{position} {} {received_at}", fact.letter()));
        if let Err(error) = reading.print(Topic::Intake.name(), position.parse()?) {
            output::error_line(&format!("{error:#}"));
        }
    }
    Ok(())
}

fn parse_filter(
    state: Option<&str>,
    flag: Option<&str>,
) -> anyhow::Result<(Option<OrderState>, Option<Flag>)> {
    let unknown = |what: &str, name: &str, all: Vec<&str>| {
        Fixable::error(
            format!("the {what} {name} does not exist"),
            format!("use one of {}", all.join(" ")),
        )
    };
    let parse_state = |name| {
        let all = || OrderState::ALL.iter().map(|state| state.as_str()).collect();
        OrderState::parse(name).ok_or_else(|| unknown("state", name, all()))
    };
    let parse_flag = |name| {
        let all = || Flag::ALL.iter().map(|flag| flag.as_str()).collect();
        Flag::parse(name).ok_or_else(|| unknown("flag", name, all()))
    };
    Ok((state.map(parse_state).transpose()?, flag.map(parse_flag).transpose()?))
}

/// Prints the orders that a text names. Errors: there is none.
async fn find(reads: &Reads<'_>, what: &str, output: &OutputArgs) -> anyhow::Result<()> {
    let found = reads.search(&SearchOrders { what: what.to_owned() }).await?;
    if found.orders.is_empty() {
        return Err(Fixable::error(
            format!("no order is named {what}"),
            "write its id, PARTNER/MERCHANT/ORDER, the shop's reference, or the partner's \
             reference of a payment, whole as it is written there; `payfold trace` finds what is \
             not folded yet",
        ));
    }
    listing::print(output.output, found.orders)?;
    if found.has_more {
        output::error_line("older orders have this name, too: `payfold order list --reference`");
    }
    Ok(())
}

/// Prints the orders page by page, up to the limit.
async fn list(
    reads: &Reads<'_>,
    asked: ListOrders,
    (page, output): (&PageArgs, &OutputArgs),
) -> anyhow::Result<()> {
    let mut listing = Listing::of::<OrderRow>(output.output);
    let read = async |limit, after| {
        let asked = ListOrders { limit: Some(limit), after, ..asked.clone() };
        let OrderPage { orders, next } = reads.orders(&asked).await?;
        Ok((orders, next))
    };
    pages::read(page, ORDERS_MAX, read, |rows| rows.iter().try_for_each(|row| listing.row(row)))
        .await?;
    listing.print()
}
