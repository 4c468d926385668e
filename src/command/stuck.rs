//! `payfold order stuck`: the orders with an outcome that partners are queried for. Also the query
//! status of a single order as text, for other listings.

use payfold_schemas::ids::PartnerCode;
use payfold_views::reader::ORDERS_MAX;
use payfold_views::stuck::{ListStuck, StuckPage, StuckRow};

use super::pages;
use crate::args::{OutputArgs, PageArgs};
use crate::listing::Listing;
use crate::reads::Reads;

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
