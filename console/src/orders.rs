//! Owns the list of orders, by state, flag and time.

use actix_web::web::Query;
use actix_web::{Error, HttpResponse};
use maud::{Markup, html};
use payfold_api::reads::ORDERS;
use payfold_schemas::order::{Flag, OrderState};
use payfold_views::orders::{ListOrders, OrderPage, OrderRow};
use serde::{Deserialize, Serialize};

use crate::csv_file::{self, Lines};
use crate::field::{UnfitField, given, text_of, time_of};
use crate::redirect::address;
use crate::stuck::STUCK_PATH;
use crate::table::{Head, table};
use crate::text::{moment, money, state};
use crate::visit::Visit;

/// The path of the list as a file.
pub(crate) const FILE: &str = "/orders.csv";
/// Orders on a page.
const PAGE_ROWS: usize = 100;
/// The flag in a filter for orders with any critical flag.
pub(crate) const CRITICAL: &str = "critical";

/// Which orders are listed, as the page's address and its form have it. An empty text filters
/// nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct OrderFilter {
    state: String,
    flag: String,
    since: String,
    before: String,
    after: String,
}

impl OrderFilter {
    /// The filter as the admin listener takes it. Errors: what is wrong with which field.
    fn parse(&self) -> Result<ListOrders, UnfitField> {
        let state = given(&self.state, OrderState::parse, "a state, such as PAID")?;
        let critical = self.flag == CRITICAL;
        let flag = if critical { "" } else { &self.flag };
        let flag = given(flag, Flag::parse, "a flag, such as DOUBLE_PAYMENT")?;
        let time = |text: &str| given(text, time_of, "a time, such as 2026-01-31 23:59 (UTC)");
        let (since, before) = (time(&self.since)?, time(&self.before)?);
        let (after, limit) = (text_of(&self.after), Some(PAGE_ROWS));
        let none = ListOrders::default();
        let newest_first = true;
        Ok(ListOrders { state, flag, critical, since, before, newest_first, after, limit, ..none })
    }

    /// The address of the page after this cursor.
    fn next(&self, after: &str) -> String {
        let next = Self { after: after.to_owned(), ..self.clone() };
        address("/orders", &next)
    }

    /// The address of the whole list as a file.
    fn file(&self) -> String {
        address(FILE, &Self { after: String::new(), ..self.clone() })
    }
}

/// Lists orders.
pub(crate) async fn list(visit: Visit, filter: Query<OrderFilter>) -> Result<HttpResponse, Error> {
    let asked = visit.selected(filter.parse())?;
    let (page, freshness) = visit.call_of_orders(&ORDERS, &[], &asked).await?;
    Ok(visit.answer("Orders", &page, || html! { (freshness.render()) (render(&filter, &page)) }))
}

/// Gives the list away, as a file.
pub(crate) async fn file(visit: Visit, filter: Query<OrderFilter>) -> Result<HttpResponse, Error> {
    let asked = ListOrders { limit: None, ..visit.selected(filter.parse())? };
    csv_file::answer(visit, "orders", async move |visit, after| {
        let page = visit.call(&ORDERS, &[], &ListOrders { after, ..asked.clone() }).await?;
        Lines::of(page.orders, page.next)
    })
    .await
}

fn render(filter: &OrderFilter, page: &OrderPage) -> Markup {
    html! {
        h1 { "Orders" }
        form.filter action="/orders" {
            label { "State "
                select name="state" {
                    option value="" { "any" }
                    @for state in OrderState::ALL {
                        option value=(state) selected[state.as_str() == filter.state] { (state) }
                    }
                }
            }
            label { "Open flag "
                select name="flag" {
                    option value="" { "any or none" }
                    option value=(CRITICAL) selected[filter.flag == CRITICAL] { "any critical" }
                    @for flag in Flag::ALL {
                        option value=(flag) selected[flag.as_str() == filter.flag] { (flag) }
                    }
                }
            }
            label { "First seen from (UTC) "
                input name="since" value=(filter.since) placeholder="2026-01-31 00:00";
            }
            label { "until (UTC) " input name="before" value=(filter.before); }
            button type="submit" { "Show" }
        }
        p.hint { a href=(STUCK_PATH) { "Orders with an outcome that partners are asked for" } }
        @if page.orders.is_empty() {
            p {
                @if page.next.is_some() { "None on this page; there are more to search." }
                @else { "No order is like this." }
            }
        } @else {
            (orders_table(&page.orders))
            (csv_file::link(&filter.file()))
        }
        @if let Some(after) = &page.next {
            p { a.next rel="next" href=(filter.next(after)) { "Next page" } }
        }
    }
}

/// The address of an order's page.
pub(crate) fn path_of(order: &OrderRow) -> String {
    format!("/orders/{}/{}/{}", order.partner, order.merchant_code, order.order_id)
}

/// Orders as a table.
pub(crate) fn orders_table(orders: &[OrderRow]) -> Markup {
    let heads = [
        Head::Text("State"),
        Head::Text("Order"),
        Head::Number("Amount"),
        Head::Number("Received"),
        Head::Text("Needs a person"),
        Head::Text("First seen"),
        Head::Text("Reference"),
    ];
    table("Orders", &heads, &html! { @for order in orders { (row(order)) } })
}

fn row(order: &OrderRow) -> Markup {
    let summary = &order.summary;
    let (paid, currency) = (summary.paid_amount, summary.currency);
    html! {
        tr {
            td { (state(summary.state)) }
            th scope="row" {
                a.id href=(path_of(order)) { (order.order_id) }
                small { (order.partner) "/" (order.merchant_code) }
            }
            td.num {
                @if let Some(asked) = summary.amount { (money(asked, currency)) } @else { "–" }
            }
            td.num { @if paid != 0 { (money(paid, currency)) } @else { "–" } }
            td {
                @for raised in summary.flags.iter().filter(|raised| raised.needs_attention()) {
                    span.badge.(raised.severity.as_str()) { (raised.flag) } " "
                }
            }
            td { (moment(order.first_seen)) }
            td.id { @if let Some(reference) = &summary.reference { (reference) } @else { "–" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use payfold_schemas::time::Time;

    use super::*;

    #[test]
    fn a_filter_takes_what_people_write() {
        let filter = OrderFilter {
            state: "PAID".to_owned(),
            since: "2026-01-31 23:59".to_owned(),
            before: "2026-02-01".to_owned(),
            ..OrderFilter::default()
        };
        let asked = filter.parse().unwrap();
        assert_eq!(asked.state, Some(OrderState::Paid));
        assert_eq!(asked.since, Time::parse("2026-01-31T23:59:00Z").ok());
        assert_eq!(asked.before, Time::parse("2026-02-01T00:00:00Z").ok());
        assert_eq!((asked.flag, asked.after), (None, None));
        let next = filter.next("0-1&x");
        let mut members: Vec<_> = next.strip_prefix("/orders?").unwrap().split('&').collect();
        members.sort_unstable();
        let since = "since=2026-01-31+23%3A59";
        assert_eq!(members, ["after=0-1%26x", "before=2026-02-01", since, "state=PAID"]);
    }

    #[test]
    fn a_filter_names_what_it_does_not_take() {
        for (filter, problem) in [
            (OrderFilter { state: "paid?".into(), ..Default::default() }, "a state, such as PAID"),
            (OrderFilter { flag: "X".into(), ..Default::default() }, "a flag, such as"),
            (OrderFilter { since: "yesterday".into(), ..Default::default() }, "a time, such as"),
        ] {
            assert!(filter.parse().unwrap_err().to_string().contains(problem), "{problem}");
        }
    }
}
