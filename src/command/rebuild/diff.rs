//! `payfold rebuild diff`: two generations order by order, with a count by cause.

use std::collections::BTreeMap;

use payfold_engines::orders::Cursor;
use payfold_projector::rebuild::desk::in_the_making;
use payfold_projector::rebuild::difference::{Comparison, Difference, Why};
use payfold_projector::rebuild::join::Join;
use payfold_projector::rebuild::standing::standings;
use serde_json::json;

use super::{inspect, journal};
use crate::args::{DiffArgs, Form, Global};
use crate::command::block_on;
use crate::error::{DifferencesFound, Fixable};
use crate::output::{self, Listing};
use crate::settings;
use crate::wiring::{Engines, explain};

const COLUMNS: [&str; 5] = ["order", "field", "live", "new", "cause"];

pub fn run(global: &Global, args: &DiffArgs) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    block_on(async {
        let engines = Engines::open_to_read(&loaded.settings).await?;
        let mut told = Told::new(args);
        if args.order.is_some() || args.merchant.is_some() {
            inspect::run(&engines, args, &mut told).await?;
        } else {
            compare(&engines, args, &mut told).await?;
        }
        told.end()
    })
}

/// Compares the generation that is told with another.
async fn compare(engines: &Engines, args: &DiffArgs, told: &mut Told<'_>) -> anyhow::Result<()> {
    let known = journal(engines).await?;
    let tables = args.generation.or_else(|| in_the_making(&known)).ok_or_else(|| {
        Fixable::error(
            "no generation is in the making that could be compared",
            "payfold rebuild start makes one; --generation N names one that was told before",
        )
    })?;
    let base = engines.base()?;
    let all = standings(&*engines.log, &**base, &known).await.map_err(explain)?;
    let standing = all.iter().find(|one| one.generation == tables).ok_or_else(|| {
        Fixable::error(
            format!("there is no generation {tables}"),
            "payfold rebuild status lists them",
        )
    })?;
    if !standing.is_caught_up() {
        return Err(Fixable::error(
            format!(
                "generation {tables} is {} records behind: most orders would differ",
                standing.behind()
            ),
            "wait until payfold rebuild status says ready",
        ));
    }
    let (live, new) = (base.generation(known.told().tables).await?, base.generation(tables).await?);
    let comparison = Comparison::new(&*live, &*new);
    let mut join = Join::new(&*live, &*new, args.page.after.clone().map(Cursor));
    while let Some(pair) = join.next_unequal().await? {
        if let Some(difference) = comparison.judge(&pair).await? {
            told.tell(&difference, pair.cursor())?;
        }
    }
    told.compared = join.seen();
    Ok(())
}

/// What is printed: a page of rows, and the count of all.
pub struct Told<'a> {
    args: &'a DiffArgs,
    listing: Listing<'a>,
    listed: usize,
    /// Where the next page starts.
    next: Option<String>,
    last: Option<String>,
    counts: BTreeMap<(Why, String), u64>,
    /// Orders come by.
    pub compared: u64,
}

impl<'a> Told<'a> {
    fn new(args: &'a DiffArgs) -> Self {
        let listing = Listing::new(args.output.output, &COLUMNS);
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

    /// One order that differs.
    pub fn tell(&mut self, difference: &Difference, at: Option<Cursor>) -> anyhow::Result<()> {
        let fields: Vec<&str> = difference.fields.iter().map(|field| field.name).collect();
        *self.counts.entry((difference.cause, fields.join(" "))).or_default() += 1;
        if self.listed >= self.args.page.limit {
            self.next = self.next.take().or(self.last.take());
            return Ok(());
        }
        self.listed += 1;
        self.last = at.map(|cursor| cursor.0);
        let mut row = |field: &str, live: &str, new: &str| {
            let cells = [&difference.order, field, live, new, difference.cause.as_str()];
            let object = json!({
                "order": difference.order, "field": field, "live": live, "new": new,
                "cause": difference.cause.as_str(),
            });
            self.listing.row(cells.map(str::to_owned).to_vec(), &object)
        };
        for field in &difference.fields {
            row(field.name, &field.live, &field.new)?;
        }
        match difference.cause {
            Why::Missing => row("order", "there", "")?,
            Why::Added => row("order", "", "there")?,
            Why::Moving => row("order", "moving", "moving")?,
            Why::Rules | Why::Facts => {}
        }
        Ok(())
    }

    /// Errors: `DifferencesFound`.
    fn end(self) -> anyhow::Result<()> {
        if !self.counts.is_empty() || self.args.output.output != Form::Table {
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
            .filter(|((cause, _), _)| *cause != Why::Moving)
            .map(|(_, count)| *count)
            .sum();
        output::error_line(&format!("compared {} orders: {differing} differ", self.compared));
        if differing == 0 { Ok(()) } else { Err(DifferencesFound.into()) }
    }
}
