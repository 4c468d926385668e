//! `payfold trace`: everything the log has about a request, a partner's reference or an order, in
//! order of time.

use payfold_views::trace::FindTrace;

use super::block_on::block_on;
use crate::args::{Global, TraceArgs};
use crate::error::Fixable;
use crate::listing;
use crate::reads::Reads;
use crate::settings;

/// Prints the trace.
pub(crate) fn run(global: &Global, args: &TraceArgs) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    let asked = FindTrace { what: args.what.clone() };
    let found = block_on(async { Reads::open(global, &loaded).await?.trace(&asked).await })?;
    if found.steps.is_empty() {
        return Err(Fixable::error(
            format!("the log has nothing about {}", args.what),
            "check the spelling; a refused notice without a valid signature is not stored, and \
             `payfold tail quarantine` shows those with one",
        ));
    }
    listing::print(args.output.output, found.steps)
}
