//! `payfold reconcile decisions`: who decided what on findings, flags and quarantined notices, and
//! which first decisions were withdrawn or replaced.

use payfold_schemas::ids::PartnerCode;
use payfold_views::decisions::{DecisionRow, ListDecisions};

use crate::args::DecisionsArgs;
use crate::listing::Listing;
use crate::reads::Reads;

/// Prints decisions by time: for each finding the last one and those that ended; for flags and
/// notices all.
pub(crate) async fn list(reads: &Reads<'_>, args: &DecisionsArgs) -> anyhow::Result<()> {
    let DecisionsArgs { order, of } = args;
    let mut asked = ListDecisions {
        partner: of.partner.as_deref().map(PartnerCode::parse).transpose()?,
        day: of.day.map(|day| day.to_string()),
        order: order.clone(),
        after: None,
    };
    let mut listing = Listing::of::<DecisionRow>(of.output.output);
    loop {
        let page = reads.decisions(&asked).await?;
        page.decisions.iter().try_for_each(|row| listing.row(row))?;
        asked.after = page.next;
        if asked.after.is_none() {
            return listing.print();
        }
    }
}
