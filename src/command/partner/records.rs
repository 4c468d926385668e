//! `payfold partner records P FILE`: what a partner's file says, line by line, so that a `[records]` section can be tried
//! before anything is compared. Exit 1 if the file as a whole can't be trusted, or a line can't be read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::Context;
use payfold_partners::records::{Entry, Read};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;
use serde_json::{Value, json};

use super::Source;
use crate::args::{Fate, RecordsArgs};
use crate::error::Fixable;
use crate::output::{self, Listing};

const COLUMNS: [&str; 9] =
    ["line", "result", "order", "ref", "status", "amount", "currency", "at", "detail"];

pub(super) fn run(source: &Source, args: &RecordsArgs) -> anyhow::Result<()> {
    let profile = source.profile()?;
    let Some(spec) = profile.records() else {
        return Err(Fixable::error(
            format!("the profile of {} says nothing of records", source.code),
            "write [records] into it; docs/partners.md says how",
        ));
    };
    let after = args.page.after.as_deref().map_or(Ok(0), str::parse::<u64>);
    let mut page = Page {
        after: after.context("--after takes the number of a line")?,
        left: args.page.limit,
        last: None,
        only: args.only,
        listing: Listing::new(args.output.output, &COLUMNS),
        sums: BTreeMap::new(),
        failed: Ok(()),
    };
    let facts = spec.read(open(&args.file)?, &mut |read| page.take(&read));
    page.failed?;
    page.listing.print()?;
    let name = args.file.display();
    if let Some(last) = page.last.filter(|_| page.left == 0) {
        output::error_line(&format!("there may be more: --after {last}"));
    }
    let facts = facts.map_err(|unfit| {
        Fixable::error(
            format!("{name} can't be trusted as a whole: {unfit}"),
            "nothing of it is used; if the file is right, mend [records] of the profile",
        )
    })?;
    let sums: Vec<_> = (page.sums.iter())
        .map(|((status, currency), (count, sum))| format!("; {status} {count}, {sum} {currency}"))
        .collect();
    output::error_line(&format!(
        "{} lines: {} entries, {} ignored, {} bad{}",
        facts.lines,
        facts.entries,
        facts.ignored,
        facts.bad,
        sums.concat()
    ));
    output::error_line(&format!("{} bytes, sha256 {}", facts.bytes, facts.sha256));
    if facts.bad == 0 {
        return Ok(());
    }
    Err(Fixable::error(
        format!("{} of the lines of {name} can't be read as [records] says", facts.bad),
        "payfold partner records … --only bad; then mend [records], or ask the partner",
    ))
}

/// The lines that are asked for, and what the entries come to, all of them.
struct Page<'a> {
    after: u64,
    left: usize,
    last: Option<u64>,
    only: Option<Fate>,
    listing: Listing<'a>,
    /// How many, and minor units.
    sums: BTreeMap<(Status, Currency), (u64, i128)>,
    failed: anyhow::Result<()>,
}

impl Page<'_> {
    fn take(&mut self, read: &Read) {
        let (line, fate) = match read {
            Read::Entry(entry) => {
                let sum = self.sums.entry((entry.status, entry.currency)).or_default();
                *sum = (sum.0 + 1, sum.1 + i128::from(entry.amount.minor()));
                (entry.line, Fate::Entry)
            }
            Read::Ignored { line, .. } => (*line, Fate::Ignored),
            Read::Bad { line, .. } => (*line, Fate::Bad),
        };
        let is_asked = line > self.after && self.only.is_none_or(|only| only == fate);
        if !is_asked || self.left == 0 || self.failed.is_err() {
            return;
        }
        (self.left, self.last) = (self.left - 1, Some(line));
        let (cells, object) = row(read);
        self.failed = self.listing.row(cells, &object);
    }
}

fn row(read: &Read) -> (Vec<String>, Value) {
    let plain = |line: u64, result: &str, detail: String| {
        let mut cells = vec![String::new(); COLUMNS.len()];
        (cells[0], cells[1]) = (line.to_string(), result.to_owned());
        cells[COLUMNS.len() - 1] = detail;
        cells
    };
    match read {
        Read::Entry(entry) => (cells(entry), object(entry)),
        Read::Ignored { line, why } => (
            plain(*line, "ignored", why.clone()),
            json!({ "line": line, "result": "ignored", "why": why }),
        ),
        Read::Bad { line, column, problem } => {
            let detail = match column {
                Some(column) => format!("{column}: {problem}"),
                None => problem.clone(),
            };
            let object =
                json!({ "line": line, "result": "bad", "column": column, "problem": problem });
            (plain(*line, "bad", detail), object)
        }
    }
}

fn cells(entry: &Entry) -> Vec<String> {
    let mut detail = Vec::new();
    detail.extend(entry.merchant_code.as_ref().map(|code| format!("of {code}")));
    detail.extend(entry.paid_at.map(|at| format!("paid {at}")));
    detail.extend(entry.event_ref.as_ref().map(|event| format!("event {event}")));
    vec![
        entry.line.to_string(),
        "entry".to_owned(),
        entry.order_id.as_ref().map(ToString::to_string).unwrap_or_default(),
        entry.provider_ref.as_ref().map(ToString::to_string).unwrap_or_default(),
        entry.status.to_string(),
        entry.amount.to_string(),
        entry.currency.to_string(),
        entry.at.to_string(),
        detail.join(", "),
    ]
}

fn object(entry: &Entry) -> Value {
    json!({
        "line": entry.line, "result": "entry", "merchantCode": entry.merchant_code, "orderId": entry.order_id,
        "providerRef": entry.provider_ref, "status": entry.status, "amount": entry.amount,
        "currency": entry.currency, "at": entry.at, "paidAt": entry.paid_at, "eventRef": entry.event_ref,
    })
}

fn open(file: &Path) -> anyhow::Result<Box<dyn io::Read>> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let opened = File::open(file).with_context(|| format!("{} can't be read", file.display()))?;
    Ok(Box::new(opened))
}
