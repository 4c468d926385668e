//! Releasing and dismissing: one call of the admin listener for each notice, so that one that can't be released holds up no
//! other; doing it again does no harm.

use std::ops::ControlFlow;

use payfold_reconciler::books::ledger::Ledger;
use payfold_schemas::record::Position;
use payfold_schemas::release::{Because, NoticeVerdict};
use serde::Serialize;
use serde_json::{Value, json};

use super::pick::{self, Filter};
use super::{in_words, list, reading};
use crate::args::{DismissArgs, Global, OutputArgs, ReleaseArgs, WithdrawNoticesArgs};
use crate::data_dir::DataDir;
use crate::error::Fixable;
use crate::output::{self, Listing};
use crate::running::AdminClient;
use crate::settings;

const COLUMNS: [&str; 6] = ["position", "order", "status", "amount", "result", "detail"];
/// The only code a rule on time refuses with.
const STALE: &str = "timestamp_out_of_window";

/// A notice that is to be decided, and what was decided on it.
struct Chosen {
    position: Position,
    released: Option<String>,
}

/// What became of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Result {
    Released,
    Dismissed,
    /// It takes a second person.
    Waits,
    /// Its author took the decision back.
    Withdrawn,
    /// It was released before.
    Already,
    /// A dry run: it can be.
    WouldBe,
    Refused,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    position: String,
    #[serde(flatten)]
    reads: Value,
    result: Result,
    detail: String,
}

/// Releases what is named, or what the filters name.
pub fn release(global: &Global, args: &ReleaseArgs) -> anyhow::Result<()> {
    let because = Because::from(args.because);
    let chosen = reading(global, async |engines| {
        let ledger = list::ledger(engines).await?;
        if args.positions.is_empty() {
            by_filter(engines, &ledger, args).await
        } else {
            named(args)
        }
    })?;
    let client = client(global)?;
    let progress =
        output::progress_bar(args.output.output, u64::try_from(chosen.len())?, "notices");
    let mut rows = Vec::new();
    for one in &chosen {
        rows.push(released(&client, args, (one, because))?);
        progress.inc(1);
    }
    progress.finish_and_clear();
    tell(&rows, &args.output)
}

fn named(args: &ReleaseArgs) -> anyhow::Result<Vec<Chosen>> {
    let filters = &args.notices;
    let has_filter = [&filters.partner, &filters.code, &filters.since, &filters.until];
    anyhow::ensure!(
        has_filter.iter().all(|filter| filter.is_none()),
        "give positions or filters, not both"
    );
    let position = |text: &String| Ok(Chosen { position: text.parse()?, released: None });
    args.positions.iter().map(position).collect()
}

/// What the filters name and nobody has dismissed; where a rule on time is set aside, of that rule's only.
async fn by_filter(
    engines: &crate::wiring::Engines,
    ledger: &Ledger,
    args: &ReleaseArgs,
) -> anyhow::Result<Vec<Chosen>> {
    let filters = &args.notices;
    if [&filters.partner, &filters.code, &filters.since, &filters.until].iter().all(|f| f.is_none())
    {
        return Err(Fixable::error(
            "which notices? neither a position nor a filter is given",
            "name positions, or narrow it with --partner, --code, --since, --until; --dry-run shows what that names",
        ));
    }
    let filter = Filter::of(filters)?;
    let is_about_time = Because::from(args.because).is_about_time();
    let mut chosen = Vec::new();
    pick::each(engines, &filter, None, |picked| {
        let position = picked.message.position;
        let decided = ledger.decided_notice(position, picked.evidence);
        let is_dismissed = decided.is_some_and(|said| said.verdict == NoticeVerdict::Dismiss);
        if !is_dismissed && (!is_about_time || picked.record.code == STALE) {
            let released = decided.map(in_words);
            chosen.push(Chosen { position, released });
        }
        Ok(ControlFlow::Continue(()))
    })
    .await?;
    Ok(chosen)
}

fn released(
    client: &AdminClient,
    args: &ReleaseArgs,
    (one, because): (&Chosen, Because),
) -> anyhow::Result<Row> {
    let (position, word) = (one.position.to_string(), because.as_str());
    let looked = client.get(&format!("/v1/quarantine/{position}?because={word}"))?;
    let row = |result, detail: String| Row {
        position: position.clone(),
        reads: looked["reads"].clone(),
        result,
        detail,
    };
    if let Some(by) = &one.released {
        return Ok(row(Result::Already, by.clone()));
    }
    if let Some(problem) = looked["problem"].as_str() {
        return Ok(row(Result::Refused, problem.to_owned()));
    }
    if args.dry_run {
        let takes = if looked["reads"]["takesTwo"] == true { "two people" } else { "one person" };
        return Ok(row(Result::WouldBe, format!("takes {takes}")));
    }
    let said = json!({ "verdict": "release", "because": word, "reason": args.reason });
    let (result, detail) = decided(client, &position, (&said, Result::Released));
    Ok(row(result, detail))
}

/// Says a word on one notice.
fn decided(
    client: &AdminClient,
    position: &str,
    (said, done): (&Value, Result),
) -> (Result, String) {
    let decided = match client.post(&format!("/v1/quarantine/{position}/decision"), said) {
        Ok(decided) => decided,
        Err(problem) => return (Result::Refused, format!("{problem:#}")),
    };
    let author = decided["author"].as_str().unwrap_or_default();
    let by = match decided["secondedBy"].as_str() {
        Some(second) => format!("by {author} and {second}"),
        None => format!("by {author}"),
    };
    match decided["decided"] == true {
        true => (done, by),
        false => (Result::Waits, waiting(author, &decided["replaces"])),
    }
}

/// What waits, and what it takes the place of.
fn waiting(author: &str, replaces: &Value) -> String {
    let first = match (replaces["author"].as_str(), replaces["said"].as_str()) {
        (Some(before), Some(said)) if before == author => {
            format!("said by {author} in place of {said}")
        }
        (Some(before), Some(said)) => {
            format!("said by {author}, who disagrees with {before}: {said}, which counts no longer")
        }
        _ => format!("said by {author}"),
    };
    format!("{first}; a second person has to say the same")
}

/// Takes decisions back.
pub fn withdraw(global: &Global, args: &WithdrawNoticesArgs) -> anyhow::Result<()> {
    let client = client(global)?;
    let mut rows = Vec::new();
    for text in &args.positions {
        let position = text.parse::<Position>()?.to_string();
        let looked = client.get(&format!("/v1/quarantine/{position}"))?;
        let path = format!("/v1/quarantine/{position}/withdrawal");
        let (result, detail) = match client.post(&path, &json!({ "reason": args.reason })) {
            Ok(withdrawn) => {
                let said = withdrawn["said"].as_str().unwrap_or_default();
                (Result::Withdrawn, format!("{said} counts no longer; the notice is undecided"))
            }
            Err(problem) => (Result::Refused, format!("{problem:#}")),
        };
        rows.push(Row { position, reads: looked["reads"].clone(), result, detail });
    }
    tell(&rows, &args.output)
}

/// Dismisses what is named.
pub fn dismiss(global: &Global, args: &DismissArgs) -> anyhow::Result<()> {
    let client = client(global)?;
    let said = json!({ "verdict": "dismiss", "reason": args.reason });
    let mut rows = Vec::new();
    for text in &args.positions {
        let position: Position = text.parse()?;
        let looked = client.get(&format!("/v1/quarantine/{position}"))?;
        let position = position.to_string();
        let (result, detail) = decided(&client, &position, (&said, Result::Dismissed));
        rows.push(Row { position, reads: looked["reads"].clone(), result, detail });
    }
    tell(&rows, &args.output)
}

fn client(global: &Global) -> anyhow::Result<AdminClient> {
    let settings = settings::load(global)?.settings;
    AdminClient::find(global, &DataDir::of(&settings))
}

/// A row each, and what it came to. Errors: some could not be decided.
fn tell(rows: &[Row], output: &OutputArgs) -> anyhow::Result<()> {
    let mut listing = Listing::new(output.output, &COLUMNS);
    for row in rows {
        let text = |name: &str| match &row.reads[name] {
            Value::String(text) => text.clone(),
            Value::Null => "-".to_owned(),
            other => other.to_string(),
        };
        let amount = match row.reads["currency"].as_str() {
            Some(currency) => format!("{} {currency}", text("amount")),
            None => "-".to_owned(),
        };
        let result = serde_json::to_value(row.result)?;
        let cells = vec![
            row.position.clone(),
            text("order"),
            text("status"),
            amount,
            result.as_str().unwrap_or_default().to_owned(),
            row.detail.clone(),
        ];
        listing.row(cells, row)?;
    }
    listing.print()?;
    let count = |wanted: Result| rows.iter().filter(|row| row.result == wanted).count();
    let refused = count(Result::Refused);
    if count(Result::Waits) > 0 {
        output::error_line(&format!(
            "{} wait for a second person: the same command with another token (payfold token add NAME, then \
             --admin-token-file FILE)",
            count(Result::Waits)
        ));
    }
    if refused > 0 {
        return Err(Fixable::error(
            format!("{refused} of {} notices could not be decided", rows.len()),
            "the last column says why, notice by notice",
        ));
    }
    Ok(())
}
