//! `payfold partner records`: shows a partner's records file line by line, to test a `[records]`
//! section before anything is compared. Exit 1 if the file as a whole can't be trusted, or a line
//! can't be read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::Context;
use payfold_partners::records::ReadLine;
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;
use serde_json::{Value, json};

use super::source::ProfileSource;
use crate::args::{RecordLineKind, RecordsArgs};
use crate::error::Fixable;
use crate::listing::{Cells, Listing, Row, Shown};
use crate::output;

impl Row for Shown<&ReadLine> {
    const COLUMNS: &'static str = "line result order ref status amount currency at detail";

    fn shown(&self, column: &str, _cells: Cells) -> Option<Value> {
        match (column, self.0) {
            ("line" | "result", _) => None,
            ("detail", _) => Some(detail(self.0).into()),
            ("order", ReadLine::Entry(entry)) => Some(json!(entry.order_id)),
            ("ref", ReadLine::Entry(entry)) => Some(json!(entry.provider_ref)),
            (_, ReadLine::Entry(_)) => None,
            (_, ReadLine::Ignored { .. } | ReadLine::Bad { .. }) => Some(Value::Null),
        }
    }
}

pub(super) fn run(source: &ProfileSource, args: &RecordsArgs) -> anyhow::Result<()> {
    let profile = source.profile()?;
    let Some(spec) = profile.records() else {
        return Err(Fixable::error(
            format!("the profile of {} has no [records]", source.code),
            "add [records] to it; docs/reference/profiles.md says how",
        ));
    };
    let after = args.page.after.as_deref().map_or(Ok(0), str::parse::<u64>);
    let mut page = RecordsPage {
        after: after.context("--after must be the number of a line")?,
        left: args.page.limit,
        last: None,
        only: args.only,
        listing: Listing::of::<Shown<&ReadLine>>(args.output.output),
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
            "none of it is used; if the file is right, correct [records] of the profile",
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
        format!("{} lines of {name} can't be read as [records] says", facts.bad),
        "list them with --only bad; then correct [records] of the profile, or ask the partner for \
         a correct file",
    ))
}

/// The page of lines to print, and the sums of all entries.
struct RecordsPage {
    after: u64,
    left: usize,
    last: Option<u64>,
    only: Option<RecordLineKind>,
    listing: Listing,
    /// Count and amount in minor units, by status and currency.
    sums: BTreeMap<(Status, Currency), (u64, i128)>,
    failed: anyhow::Result<()>,
}

impl RecordsPage {
    fn take(&mut self, read: &ReadLine) {
        let (line, fate) = match read {
            ReadLine::Entry(entry) => {
                let sum = self.sums.entry((entry.status, entry.currency)).or_default();
                *sum = (sum.0 + 1, sum.1 + i128::from(entry.amount.minor()));
                (entry.line, RecordLineKind::Entry)
            }
            ReadLine::Ignored { line, .. } => (*line, RecordLineKind::Ignored),
            ReadLine::Bad { line, .. } => (*line, RecordLineKind::Bad),
        };
        let is_asked = line > self.after && self.only.is_none_or(|only| only == fate);
        if !is_asked || self.left == 0 || self.failed.is_err() {
            return;
        }
        (self.left, self.last) = (self.left - 1, Some(line));
        self.failed = self.listing.row(&Shown(read));
    }
}

/// The `detail` column of a line.
fn detail(read: &ReadLine) -> String {
    match read {
        ReadLine::Entry(entry) => {
            let mut detail = Vec::new();
            detail.extend(entry.merchant_code.as_ref().map(|code| format!("of {code}")));
            detail.extend(entry.paid_at.map(|at| format!("paid {at}")));
            detail.extend(entry.event_ref.as_ref().map(|event| format!("event {event}")));
            detail.join(", ")
        }
        ReadLine::Ignored { why, .. } => why.clone(),
        ReadLine::Bad { column: Some(column), problem, .. } => format!("{column}: {problem}"),
        ReadLine::Bad { column: None, problem, .. } => problem.clone(),
    }
}

fn open(file: &Path) -> anyhow::Result<Box<dyn io::Read>> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let opened = File::open(file).with_context(|| format!("{} can't be read", file.display()))?;
    Ok(Box::new(opened))
}
