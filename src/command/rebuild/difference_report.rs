//! Owns the report of orders that differ between two builds.

use std::collections::BTreeMap;

use payfold_engines::orders::Cursor;
use payfold_projector::rebuild::difference::{Difference, DifferenceCause};
use serde::Serialize;

use crate::args::{DiffArgs, OutputFormat};
use crate::error::DifferencesFound;
use crate::listing::{Listing, Row};
use crate::output;

#[derive(Serialize)]
struct DifferenceRow<'a> {
    order: &'a str,
    field: &'a str,
    live: &'a str,
    new: &'a str,
    cause: &'static str,
}

impl Row for DifferenceRow<'_> {
    const COLUMNS: &'static str = "order field live new cause";
}

/// A page of rows, and counts of all differences.
pub(crate) struct DifferenceReport<'a> {
    args: &'a DiffArgs,
    listing: Listing,
    listed: usize,
    /// The cursor of the next page.
    next: Option<String>,
    last: Option<String>,
    counts: BTreeMap<(DifferenceCause, String), u64>,
    /// Number of compared orders.
    pub compared: u64,
}

impl<'a> DifferenceReport<'a> {
    pub(super) fn new(args: &'a DiffArgs) -> Self {
        let listing = Listing::of::<DifferenceRow<'_>>(args.output.output);
        Self {
            args,
            listing,
            listed: 0,
            next: None,
            last: None,
            counts: BTreeMap::new(),
            compared: 0,
        }
    }

    /// Adds an order that differs.
    pub(crate) fn add(
        &mut self,
        difference: &Difference,
        at: Option<Cursor>,
    ) -> anyhow::Result<()> {
        let fields: Vec<&str> = difference.fields.iter().map(|field| field.name).collect();
        *self.counts.entry((difference.cause, fields.join(" "))).or_default() += 1;
        if self.listed >= self.args.page.limit {
            self.next = self.next.take().or(self.last.take());
            return Ok(());
        }
        self.listed += 1;
        self.last = at.map(|cursor| cursor.0);
        let (order, cause) = (&difference.order, difference.cause.as_str());
        let mut row = |field: &str, live: &str, new: &str| {
            self.listing.row(&DifferenceRow { order, field, live, new, cause })
        };
        for field in &difference.fields {
            row(field.name, &field.live, &field.new)?;
        }
        match difference.cause {
            DifferenceCause::Missing => row("order", "there", "")?,
            DifferenceCause::Added => row("order", "", "there")?,
            DifferenceCause::Moving => row("order", "moving", "moving")?,
            DifferenceCause::Rules | DifferenceCause::Facts => {}
        }
        Ok(())
    }

    /// Prints the rest of the report. Errors: `DifferencesFound`.
    pub(super) fn end(self) -> anyhow::Result<()> {
        if !self.counts.is_empty() || self.args.output.output != OutputFormat::Table {
            self.listing.print()?;
        }
        for ((cause, fields), count) in &self.counts {
            let fields = if fields.is_empty() { String::new() } else { format!(": {fields}") };
            output::error_line(&format!("{count} orders by {}{fields}", cause.as_str()));
        }
        if let Some(next) = self.next {
            output::error_line(&format!("more: --after {next}"));
        }
        let differing: u64 = (self.counts.iter())
            .filter(|((cause, _), _)| *cause != DifferenceCause::Moving)
            .map(|(_, count)| *count)
            .sum();
        output::error_line(&format!("compared {} orders: {differing} differ", self.compared));
        if differing == 0 { Ok(()) } else { Err(DifferencesFound.into()) }
    }
}
