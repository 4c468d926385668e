//! Owns the search: one text leads to the order it names.

use actix_web::web::Query;
use actix_web::{Error, HttpResponse};
use maud::html;
use payfold_api::reads::SEARCH;
use payfold_report::text::isolated;
use payfold_views::search::SearchOrders;
use serde::{Deserialize, Serialize};

use crate::orders::{orders_table, path_of};
use crate::page;
use crate::redirect::{self, address};
use crate::visit::Visit;

/// The address of a search.
pub(crate) fn path_of_search(what: &str) -> String {
    address("/search", &Sought { what: what.to_owned() })
}

/// What a person searches for.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Sought {
    what: String,
}

/// Leads to the one order that a text names, or lists those it names.
pub(crate) async fn find(visit: Visit, sought: Query<Sought>) -> Result<HttpResponse, Error> {
    let what = sought.into_inner().what;
    let asked = SearchOrders { what: what.clone() };
    let (found, freshness) = visit.call_of_orders(&SEARCH, &[], &asked).await?;
    if let [only] = &*found.orders
        && !page::wants_json(&visit.request)
    {
        return Ok(redirect::to(path_of(only)));
    }
    Ok(visit.answer("Search", &found, || {
        html! {
            (freshness.render())
            h1 { "Orders named “" (isolated(&what)) "”" }
            @if found.orders.is_empty() {
                p {
                    "There is none. The search takes an order's id, or partner/merchant code/id; "
                    "the shop's reference; and the partner's reference of a payment: whole, as "
                    "it is written there."
                }
            } @else {
                (orders_table(&found.orders))
                @if found.has_more { p { "Older orders have this name, too." } }
            }
        }
    }))
}
