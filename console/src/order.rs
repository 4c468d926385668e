//! Owns the page of one order: what is so, in words; the money; and each fact with what it changed.

use std::collections::BTreeSet;

use actix_web::web::Path;
use actix_web::{Error, HttpResponse};
use futures_util::future;
use maud::{Markup, html};
use payfold_api::call::Nothing;
use payfold_api::raw::READ_RAW;
use payfold_api::reads::{DECISIONS, FACTS, FINDINGS, ORDER};
use payfold_report::text::whole;
use payfold_report::values::OurCurrencies;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::{OrderKey, ProviderRef};
use payfold_schemas::ipn::Ipn;
use payfold_views::decisions::{DecisionPage, DecisionRow, ListDecisions};
use payfold_views::facts::FactRow;
use payfold_views::findings::{FindingPage, ListFindings};
use payfold_views::orders::OrderRow;
use serde::{Deserialize, Serialize};

use crate::bytes;
use crate::client::CallError;
use crate::failure;
use crate::finding_row::FindingTable;
use crate::freshness::Freshness;
use crate::order_flags::OrderFlags;
use crate::problem;
use crate::session::Session;
use crate::table::{Head, table};
use crate::text::{copy_button, moment, money, state};
use crate::verdict::{OrderVerdict, paid_refs};
use crate::visit::Visit;

/// The path of an order's page.
#[derive(Debug, Deserialize)]
pub(crate) struct OrderPath {
    partner: String,
    merchant: String,
    order: String,
}

/// An order with all that is known about it.
#[derive(Debug, Serialize)]
struct OrderContent {
    order: OrderRow,
    facts: Vec<FactRow>,
    #[serde(flatten)]
    beside: Beside,
}

/// What people and the partner's records say about an order.
#[derive(Debug, Default, Serialize)]
struct Beside {
    /// `None` if they can't be read now.
    findings: Option<FindingPage>,
    decisions: Vec<DecisionRow>,
    /// Why something of this can't be read now; the order itself can.
    #[serde(skip_serializing_if = "Option::is_none")]
    unread: Option<String>,
}

impl Beside {
    async fn read(visit: &Visit, key: &OrderKey) -> Result<Self, Error> {
        let order = Some(key.clone());
        let of_findings = ListFindings { order: order.clone(), ..ListFindings::default() };
        let of_decisions = ListDecisions { order, ..ListDecisions::default() };
        let client = visit.client();
        let (findings, decisions) = future::join(
            client.call(&FINDINGS, &[], &of_findings),
            client.call(&DECISIONS, &[], &of_decisions),
        )
        .await;
        let mut beside = Self::default();
        match findings {
            Ok(page) => beside.findings = Some(page),
            Err(CallError::Refused(_, problem)) => beside.unread = Some(problem.detail),
            Err(error) => return Err(failure::failed(&visit.request, &error)),
        }
        match decisions {
            Ok(DecisionPage { decisions, .. }) => beside.decisions = decisions,
            Err(CallError::Refused(_, problem)) => beside.unread = Some(problem.detail),
            Err(error) => return Err(failure::failed(&visit.request, &error)),
        }
        Ok(beside)
    }
}

/// Shows an order.
pub(crate) async fn show(visit: Visit, path: Path<OrderPath>) -> Result<HttpResponse, Error> {
    let names = [&*path.partner, &*path.merchant, &*path.order];
    let Ok(key) = OrderKey::parse(&names.join("/")) else {
        return Ok(problem::nowhere(visit.request.clone()).await);
    };
    let (order, freshness) = visit.call_of_orders(&ORDER, &names, &Nothing {}).await?;
    let facts = visit.call(&FACTS, &names, &Nothing {}).await?.facts;
    let beside = Beside::read(&visit, &key).await?;
    let content = OrderContent { order, facts, beside };
    let title = format!("Order {}", path.order);
    Ok(visit.answer(&title, &content, || render(&content, key, &freshness, &visit.session)))
}

fn render(
    content: &OrderContent,
    key: OrderKey,
    freshness: &Freshness,
    session: &Session,
) -> Markup {
    let OrderContent { order, facts, beside: Beside { findings, decisions, unread } } = content;
    let flags = OrderFlags { order: key, flags: &order.summary.flags, decisions, session };
    let against = findings.as_ref().map(|page| page.findings.iter().map(|row| &row.finding));
    let verdict = OrderVerdict::of(order, against).held_unless(freshness);
    html! {
        (freshness.render())
        p.over { (order.partner) "/" (order.merchant_code) }
        h1 {
            "Order " span { (order.order_id) } (copy_button("the order's id")) " "
            (state(order.summary.state))
        }
        section.verdict.(verdict.tone) aria-label="What is so" {
            h2 data-times { (verdict.heading) }
            @for todo in &verdict.todos { p { (todo) } }
            p.payer {
                b { "If the payer asks: " }
                "“" span data-times { (verdict.for_payer) } "”"
                (copy_button("the answer"))
            }
        }
        (figures(order))
        @if !order.summary.flags.is_empty() { (flags.render()) }
        @if let Some(page) = findings { (differences(page)) }
        @if let Some(why) = unread {
            p.said {
                "What the partner's records say, and what was decided, can't be read now: "
                (whole(why))
            }
        }
        h2 { "What happened" }
        (timeline(facts, session))
    }
}

fn figures(order: &OrderRow) -> Markup {
    let summary = &order.summary;
    let currency = summary.currency;
    html! {
        dl.facts {
            div {
                dt { "Asked" }
                dd {
                    @if let Some(asked) = summary.amount { (money(asked, currency)) }
                    @else { "not known" }
                }
            }
            div { dt { "Received" } dd { (money(summary.paid_amount, currency)) } }
            @if summary.overpaid != 0 {
                div { dt { "Too much, not given back" } dd { (money(summary.overpaid, currency)) } }
            }
            @if summary.refunded_amount != 0 || summary.refunded_at_least {
                div {
                    dt { "Given back" }
                    dd {
                        @if summary.refunded_at_least { "at least " }
                        (money(summary.refunded_amount, currency))
                    }
                }
            }
            @if let Some(paid_at) = summary.paid_at {
                div { dt { "Paid" } dd { (moment(paid_at)) } }
            }
            @if let Some(deadline) = summary.deadline {
                div { dt { "Time to pay" } dd { "until " (moment(deadline)) } }
            }
            div { dt { "First seen" } dd { (moment(order.first_seen)) } }
            @if let Some(reference) = &summary.reference {
                div {
                    dt { "The shop's reference" }
                    dd {
                        code { (reference) }
                        (copy_button("the shop's reference"))
                        @if let Some(attempt) = summary.attempt { " (attempt " (attempt) ")" }
                    }
                }
            }
            @if let Some(paid_by) = summary.payment_ref.as_ref().or(summary.session_ref.as_ref()) {
                div {
                    dt { "The partner's reference" }
                    dd {
                        code { (paid_by) }
                        (copy_button("the partner's reference"))
                        @for other in others_paid(order, paid_by) {
                            " and " code { (other) } (copy_button("this reference"))
                        }
                    }
                }
            }
        }
    }
}

/// The further references under which a payment of the order was reported.
fn others_paid<'o>(order: &'o OrderRow, first: &'o ProviderRef) -> BTreeSet<&'o ProviderRef> {
    paid_refs(&order.facts).filter(|other| *other != first).collect()
}

/// What the partner's records say otherwise.
fn differences(page: &FindingPage) -> Markup {
    let currencies = OurCurrencies::new(&page.currencies);
    let table = FindingTable { currencies, has_boxes: false };
    let findings = page.findings.iter().map(|row| &row.finding);
    let findings: Vec<_> = findings.filter(|finding| finding.flag.is_none()).collect();
    html! {
        @if !findings.is_empty() {
            h2 { "What the partner's records say otherwise" }
            (table.render(&findings))
        }
    }
}

fn timeline(facts: &[FactRow], session: &Session) -> Markup {
    let heads = ["Received", "What", "The order", "Flags then", "From"].map(Head::Text);
    table("What happened", &heads, &html! { @for row in facts { (timeline_row(row, session)) } })
}

fn timeline_row(row: &FactRow, session: &Session) -> Markup {
    let content = serde_json::to_string_pretty(&row.fact).unwrap_or_default();
    html! {
        tr {
            td { (moment(row.received_at)) }
            th scope="row" {
                (what(&row.fact))
                details { summary { "all of it" } pre { (content) } }
            }
            td { (row.effect) }
            td { @for flag in &row.flags { (flag) " " } }
            td {
                @if let Some(source) = &row.source { "key " code { (source.key_id) } }
                small {
                    "request " code { (row.request_id) } " at "
                    @if row.source.is_some() && session.may(&READ_RAW) {
                        a href=(bytes::path("intake", &row.position)) { (row.position) }
                    } @else { code { (row.position) } }
                }
            }
        }
    }
}

/// A fact in words.
fn what(fact: &Fact) -> Markup {
    html! {
        @match fact {
            Fact::CreateRequested(create) => {
                "The shop asked for " (money(create.amount.minor(), Some(create.currency)))
            }
            Fact::SessionOpened(_) => { "The partner opened a page for the payer" }
            Fact::CreateFailed(_) => { "The payment could not be created" }
            Fact::Ipn(Ipn { status, money: moved, provider_ref, .. }) => {
                "The partner said " b { (status) } ": "
                (money(moved.amount.minor(), Some(moved.currency)))
                small { "reference " code { (provider_ref) } }
            }
            Fact::DeadlinePassed { .. } => { "The time to pay was over" }
            Fact::QueryAnswered(answer) => {
                "Asked, the partner answered " b { (answer.status) } ": "
                (money(answer.amount.minor(), Some(answer.currency)))
                small { "reference " code { (answer.provider_ref) } }
            }
            Fact::RefShared(_) => { "Another order has the same reference of the partner" }
            Fact::Decided(decision) => { "A person decided " (decision.flag) }
        }
    }
}
