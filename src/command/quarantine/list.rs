//! `payfold quarantine list|show`: quarantined notices with people's decisions on them.

use payfold_schemas::position::Position;
use payfold_views::quarantine::{ListNotices, QuarantineRow};

use super::filter;
use crate::args::{OutputArgs, QuarantineListArgs};
use crate::listing::Listing;
use crate::output;
use crate::reads::Reads;

/// Prints quarantined notices, oldest first.
pub(crate) async fn list(reads: &Reads<'_>, args: &QuarantineListArgs) -> anyhow::Result<()> {
    let asked = ListNotices { open: args.open, ..filter::of(&args.notices)? };
    let mut listing = Listing::of::<QuarantineRow>(args.output.output);
    let take = |rows: Vec<QuarantineRow>| rows.iter().try_for_each(|row| listing.row(row));
    filter::read(reads, &asked, &args.page, take).await?;
    listing.print()
}

/// Prints one notice with every decision on it.
pub(crate) async fn show(
    reads: &Reads<'_>,
    position: Position,
    output: &OutputArgs,
) -> anyhow::Result<()> {
    output::object(output.output, &reads.notice(position).await?)
}
