//! `payfold reconcile decisions`: who decided what on findings, flags and quarantined notices, and
//! which first decisions were withdrawn or replaced.

use payfold_schemas::ids::PartnerCode;
use payfold_views::decisions::{DecidedKind, DecisionRow, DecisionStatus, ListDecisions};
use serde_json::{Value, json};

use crate::args::{DecisionsArgs, OutputFormat};
use crate::listing::{Listing, Row};
use crate::reads::Reads;

impl Row for DecisionRow {
    const COLUMNS: &'static str =
        "at on code verdict author seconded_by reason second_reason evidence";

    fn shown(&self, column: &str, _format: OutputFormat) -> Option<Value> {
        Some(match column {
            "on" if self.kind == DecidedKind::Notice => format!("quarantine {}", self.on).into(),
            "verdict" => verdict_in_words(self).into(),
            // The first digits distinguish digests.
            "evidence" => {
                json!(self.evidence.map(|it| it.to_string().chars().take(12).collect::<String>()))
            }
            _ => return None,
        })
    }
}

/// The verdict, and what became of a decision that does not hold.
fn verdict_in_words(row: &DecisionRow) -> String {
    let verdict = row.because.map_or(row.verdict.as_str(), |because| because.as_str());
    match (row.status, &row.ended_by) {
        (DecisionStatus::Superseded | DecisionStatus::Final, _) => verdict.to_owned(),
        (DecisionStatus::Waiting, _) => format!("{verdict} (needs a second person)"),
        (DecisionStatus::Withdrawn, _) => format!("{verdict} (withdrawn)"),
        (DecisionStatus::Replaced, Some(by)) => format!("{verdict} (replaced by {by})"),
        (DecisionStatus::Replaced, None) => format!("{verdict} (replaced)"),
        (DecisionStatus::Reopened, _) => format!("{verdict} (opened again)"),
    }
}

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
