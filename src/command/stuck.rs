//! `payfold order stuck`: the orders with an outcome that partners are queried for. Also the query
//! status of a single order as text, for other listings.

use payfold_schemas::ids::PartnerCode;
use payfold_views::queries::QueryStatus;
use payfold_views::reader::ORDERS_MAX;
use payfold_views::stuck::{ListStuck, StuckPage, StuckRow};
use serde_json::{Value, json};

use super::pages;
use crate::args::{OutputArgs, OutputFormat, PageArgs};
use crate::listing::{Listing, Row};
use crate::output;
use crate::reads::Reads;

impl Row for StuckRow {
    const COLUMNS: &'static str = "order state reason since queried next_query findings";

    fn shown(&self, column: &str, _format: OutputFormat) -> Option<Value> {
        let QueryStatus { queries_due, queries_planned, .. } = self.query;
        Some(match column {
            "order" => format!("{}/{}/{}", self.partner, self.merchant_code, self.order_id).into(),
            "queried" => match queries_due.zip(queries_planned) {
                Some((due, planned)) => format!("{due} of {planned}").into(),
                None => "not queried".into(),
            },
            "findings" => json!(self.codes),
            _ => return None,
        })
    }
}

/// The status of the queries about an order, as the text of a table cell.
pub(crate) fn in_words(query: &QueryStatus) -> String {
    let next = query
        .next_query
        .map_or("no further query".to_owned(), |next| format!("next {}", output::time(next)));
    let since = output::time(query.since);
    match query.queries_due.zip(query.queries_planned) {
        None => format!("{}; the partner can't be queried", query.reason),
        Some((due, planned)) => {
            format!("{} since {since}: queried {due} of {planned} times, {next}", query.reason)
        }
    }
}

/// Prints the stuck orders among those that are young enough to be queried about.
pub(crate) async fn list(
    reads: &Reads<'_>,
    partner: Option<PartnerCode>,
    (page, output): (&PageArgs, &OutputArgs),
) -> anyhow::Result<()> {
    let mut listing = Listing::of::<StuckRow>(output.output);
    let read = async |limit, after| {
        let asked = ListStuck { partner: partner.clone(), limit: Some(limit), after };
        let StuckPage { orders, next } = reads.stuck(&asked).await?;
        Ok((orders, next))
    };
    pages::read(page, ORDERS_MAX, read, |rows| rows.iter().try_for_each(|row| listing.row(row)))
        .await?;
    listing.print()
}
