//! `payfold quarantine list|show`: quarantined notices with people's decisions on them.

use payfold_schemas::position::Position;
use payfold_schemas::release::{NoticeDecided, NoticeVerdict};
use payfold_views::quarantine::{ListNotices, QuarantineRow};
use serde_json::{Value, json};

use super::filter;
use crate::args::{OutputArgs, OutputFormat, QuarantineListArgs};
use crate::listing::{Listing, Row};
use crate::output;
use crate::reads::Reads;

impl Row for QuarantineRow {
    const COLUMNS: &'static str =
        "position received:receivedAt account code detail bytes:rawBytes request_id decided";

    fn shown(&self, column: &str, _format: OutputFormat) -> Option<Value> {
        (column == "decided").then(|| json!(self.decision.as_ref().map(in_words)))
    }
}

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

/// A decision as a short text.
pub(super) fn in_words(said: &NoticeDecided) -> String {
    let by = match &said.seconded_by {
        Some(second) => format!("{} and {second}", said.author),
        None => said.author.to_string(),
    };
    match (said.decided, said.verdict) {
        (true, NoticeVerdict::Release) => format!("released by {by}"),
        (true, NoticeVerdict::Dismiss) => format!("dismissed by {by}"),
        (false, verdict) => format!("{by} decided {}, waits for a second person", verdict.as_str()),
    }
}
