//! Owns the list of stuck orders: those with an outcome that partners are asked for.

use actix_web::web::Query;
use actix_web::{Error, HttpResponse};
use maud::{Markup, html};
use payfold_api::reads::STUCK;
use payfold_report::codes::{flag_meaning, title};
use payfold_report::text::isolated;
use payfold_schemas::order::Flag;
use payfold_schemas::time::Time;
use payfold_views::stuck::{ListStuck, StuckPage, StuckRow};
use serde::{Deserialize, Serialize};

use crate::csv_file::{self, Lines};
use crate::field::{UnfitField, partner_given, text_of};
use crate::redirect::address;
use crate::table::{Head, table};
use crate::text::{age, moment, state};
use crate::visit::Visit;

/// The path of the list.
pub(crate) const STUCK_PATH: &str = "/stuck";
/// The path of the list as a file.
pub(crate) const FILE: &str = "/stuck.csv";
/// The most orders of a page.
const PAGE_ORDERS: usize = 100;

/// Which stuck orders are shown. An empty text filters nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StuckSelection {
    partner: String,
    after: String,
}

impl StuckSelection {
    /// The selection as the admin listener takes it. Errors: what is wrong with which field.
    fn parse(&self) -> Result<ListStuck, UnfitField> {
        Ok(ListStuck {
            partner: partner_given(&self.partner)?,
            limit: Some(PAGE_ORDERS),
            after: text_of(&self.after),
        })
    }
}

/// Lists stuck orders.
pub(crate) async fn list(
    visit: Visit,
    selection: Query<StuckSelection>,
) -> Result<HttpResponse, Error> {
    let asked = visit.selected(selection.parse())?;
    let (page, freshness) = visit.call_of_orders(&STUCK, &[], &asked).await?;
    let now = (visit.console.now)();
    Ok(visit.answer("Stuck orders", &page, || {
        html! { (freshness.render()) (render(&selection, &page, now)) }
    }))
}

/// Gives the list away, as a file.
pub(crate) async fn file(
    visit: Visit,
    selection: Query<StuckSelection>,
) -> Result<HttpResponse, Error> {
    let asked = ListStuck { limit: None, ..visit.selected(selection.parse())? };
    csv_file::answer(visit, "stuck", async move |visit, after| {
        let page = visit.call(&STUCK, &[], &ListStuck { after, ..asked.clone() }).await?;
        Lines::of(page.orders, page.next)
    })
    .await
}

fn render(selection: &StuckSelection, page: &StuckPage, now: Time) -> Markup {
    html! {
        h1 { "Stuck orders" }
        p {
            "The outcome of these is not known for sure, or contradicts itself, so their partners \
             are asked, less and less often. An answer settles what has no outcome by itself; a \
             flag may need a person all the same. Where no question is left, or the partner takes \
             none, ask its support, and decide what the order's page says."
        }
        form.filter action=(STUCK_PATH) {
            label { "Partner " input name="partner" value=(selection.partner); }
            button type="submit" { "Show" }
        }
        @if page.orders.is_empty() {
            p {
                @if page.next.is_some() { "None on this page; there are more to search." }
                @else { "No order that is young enough to be asked about is stuck." }
            }
        } @else {
            (orders(&page.orders, now))
            @let all = StuckSelection { after: String::new(), ..selection.clone() };
            (csv_file::link(&address(FILE, &all)))
        }
        @if let Some(after) = &page.next {
            @let next = StuckSelection { after: after.clone(), ..selection.clone() };
            p { a.next rel="next" href=(address(STUCK_PATH, &next)) { "Next page" } }
        }
    }
}

fn orders(rows: &[StuckRow], now: Time) -> Markup {
    let heads = [
        Head::Text("State"),
        Head::Text("Order"),
        Head::Text("Because of"),
        Head::Text("For"),
        Head::Text("Times to ask"),
        Head::Text("Next question"),
        Head::Text("Findings"),
    ];
    table("Stuck orders", &heads, &html! { @for stuck in rows { (row(stuck, now)) } })
}

/// Why the partner is asked: states, and flags with what they mean.
fn reason(names: &str) -> Markup {
    html! {
        (isolated(names))
        @for flag in names.split(' ').filter_map(Flag::parse) { small { (flag_meaning(flag)) } }
    }
}

fn row(stuck: &StuckRow, now: Time) -> Markup {
    let StuckRow { query, partner, merchant_code, order_id, findings, codes, .. } = stuck;
    html! {
        tr {
            td { (state(stuck.state)) }
            th scope="row" {
                a.id href={ "/orders/" (partner) "/" (merchant_code) "/" (order_id) } { (order_id) }
                small { (partner) "/" (merchant_code) }
            }
            td { (reason(&query.reason)) }
            td {
                (age(now.nanos_since(query.since) as f64 / 1e9))
                small { "since " (moment(query.since)) }
            }
            td {
                @match query.queries_due.zip(query.queries_planned) {
                    Some((due, planned)) => { (due) " of " (planned) " past" }
                    None => "the partner takes no questions",
                }
            }
            td {
                @match query.next_query {
                    Some(next) => (moment(next)),
                    None => "none is left",
                }
            }
            td {
                @for (finding, code) in findings.iter().zip(codes) {
                    a href={ "/findings/" (finding) } { (title(*code)) } " "
                }
            }
        }
    }
}
