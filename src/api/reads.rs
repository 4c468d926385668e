//! Owns the calls that read: orders, findings and compared days.

use payfold_views::facts::OrderFacts;
use payfold_views::findings::{FindingPage, ListFindings};
use payfold_views::orders::{ListOrders, OrderPage, OrderRow};
use payfold_views::periods::{ListPeriods, Periods};
use payfold_views::stuck::{ListStuck, StuckPage};

use super::call::{Call, Nothing};

pub(crate) const ORDERS: Call<ListOrders, OrderPage> =
    Call::get("/v1/orders", "Lists orders by their first-seen time, newest last");
pub(crate) const ORDER: Call<Nothing, OrderRow> =
    Call::get("/v1/orders/{partner}/{merchant}/{order}", "Shows an order");
pub(crate) const FACTS: Call<Nothing, OrderFacts> = Call::get(
    "/v1/orders/{partner}/{merchant}/{order}/facts",
    "Lists the facts of an order, with what each changed",
);
pub(crate) const STUCK: Call<ListStuck, StuckPage> = Call::get(
    "/v1/stuck",
    "Lists the orders with an outcome that partners are queried for, with these queries",
)
.slow();
pub(crate) const FINDINGS: Call<ListFindings, FindingPage> =
    Call::get("/v1/findings", "Lists findings by id, with the queries about their orders").slow();
pub(crate) const PERIODS: Call<ListPeriods, Periods> =
    Call::get("/v1/periods", "Lists the days that were compared, each with its last run").slow();
