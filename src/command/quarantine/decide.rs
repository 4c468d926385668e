//! Releases, dismisses and withdraws: one call of the admin listener for each notice, so that a
//! notice that can't be released does not stop the others. Repeating a command does no harm.

use payfold_reconcile::decided::{Decided, ReplacedDecision};
use payfold_schemas::position::Position;
use payfold_schemas::release::NoticeVerdict;
use payfold_schemas::released::Because;
use payfold_views::listing::show_money;
use payfold_views::quarantine::{QuarantineRow, decision_in_words};
use serde::Serialize;
use serde_json::{Value, json};

use super::filter;
use crate::admin_client::AdminClient;
use crate::args::{DismissArgs, Global, OutputArgs, PageArgs, ReleaseArgs, WithdrawNoticesArgs};
use crate::command::block_on::block_on;
use crate::error::Fixable;
use crate::listing::{self, Cells, Row};
use crate::output;
use crate::reads::Reads;
use crate::settings;
use payfold_api::decisions::WithdrawRequest;
use payfold_api::quarantine::{
    DECIDE, DecideNotice, JUDGE, Judge, JudgedNotice, ReadNotice, WITHDRAW,
};

/// The only refusal code of the rule on time.
const STALE: &str = "timestamp_out_of_window";

/// A notice to release, and its earlier release.
struct NoticeToRelease {
    position: Position,
    released: Option<String>,
}

/// The result for one notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum NoticeResult {
    Released,
    Dismissed,
    /// The decision needs a second person.
    Waits,
    /// Its author took the decision back.
    Withdrawn,
    /// The notice was released earlier.
    Already,
    /// Dry run: the notice can be released.
    WouldBe,
    Refused,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NoticeRow {
    position: String,
    #[serde(flatten)]
    reads: Option<ReadNotice>,
    result: NoticeResult,
    detail: String,
}

impl Row for NoticeRow {
    const COLUMNS: &'static str = "position order status amount result detail";
    /// The currency and the minor units have columns of their own.
    const CSV_COLUMNS: &'static str =
        "position order status amount amount_minor currency result detail";

    fn shown(&self, column: &str, cells: Cells) -> Option<Value> {
        let reads = self.reads.as_ref();
        match column {
            "order" => Some(json!(reads.map(|reads| reads.order.to_string()))),
            "status" => Some(json!(reads.map(|reads| reads.status))),
            _ => show_money(column, reads.map(|reads| (reads.amount, reads.currency)), cells),
        }
    }
}

/// Releases the given notices, or those that the filters match.
pub(crate) fn release(global: &Global, args: &ReleaseArgs) -> anyhow::Result<()> {
    let because = Because::from(args.because);
    let chosen = if args.positions.is_empty() {
        let loaded = settings::load(global)?;
        block_on(async { by_filter(&Reads::open(global, &loaded).await?, args).await })?
    } else {
        named(args)?
    };
    let client = AdminClient::find_for_command(global)?;
    let progress =
        output::progress_bar(args.output.output, u64::try_from(chosen.len())?, "notices");
    let mut rows = Vec::new();
    let ended = add_rows(&mut rows, &chosen, |one| {
        progress.inc(1);
        released(&client, args, (one, because))
    });
    progress.finish_and_clear();
    print_results(&rows, ended, &args.output)
}

/// Adds a row for each of these, up to an error that concerns all of them.
fn add_rows<T>(
    rows: &mut Vec<NoticeRow>,
    all: &[T],
    act: impl FnMut(&T) -> anyhow::Result<NoticeRow>,
) -> anyhow::Result<()> {
    all.iter().map(act).try_for_each(|row| row.map(|row| rows.push(row)))
}

/// The row of a notice: it is judged, then `act` says what becomes of it. Errors: the system can't
/// be reached, or refuses the caller.
fn row_of(
    client: &AdminClient,
    (position, because): (String, Option<Because>),
    act: impl FnOnce(&JudgedNotice) -> anyhow::Result<(NoticeResult, String)>,
) -> anyhow::Result<NoticeRow> {
    let (reads, acted) = match client.call(&JUDGE, &[&position], &Judge { because }) {
        Ok(judged) => {
            let acted = act(&judged);
            (judged.reads, acted)
        }
        Err(problem) => (None, Err(problem)),
    };
    let (result, detail) = match acted {
        Err(problem) if !problem.is::<Fixable>() => (NoticeResult::Refused, format!("{problem:#}")),
        acted => acted?,
    };
    Ok(NoticeRow { position, reads, result, detail })
}

fn named(args: &ReleaseArgs) -> anyhow::Result<Vec<NoticeToRelease>> {
    let filters = &args.notices;
    let has_filter = [&filters.partner, &filters.code, &filters.since, &filters.until];
    anyhow::ensure!(
        has_filter.iter().all(|filter| filter.is_none()),
        "both positions and filters are given; give only one of them"
    );
    let position = |text: &String| Ok(NoticeToRelease { position: text.parse()?, released: None });
    args.positions.iter().map(position).collect()
}

/// The notices that the filters match, without dismissed ones. If the reason is about time, only
/// notices that the rule on time refused.
async fn by_filter(reads: &Reads<'_>, args: &ReleaseArgs) -> anyhow::Result<Vec<NoticeToRelease>> {
    let filters = &args.notices;
    if [&filters.partner, &filters.code, &filters.since, &filters.until].iter().all(|f| f.is_none())
    {
        return Err(Fixable::error(
            "neither positions nor filters are given",
            "give positions, or filter with --partner, --code, --since, --until; --dry-run shows \
             which notices match",
        ));
    }
    let is_about_time = Because::from(args.because).is_about_time();
    let mut chosen = Vec::new();
    let take = |rows: Vec<QuarantineRow>| {
        for row in rows {
            let decided = row.decision.as_ref().filter(|said| said.decided);
            let is_dismissed = decided.is_some_and(|said| said.verdict == NoticeVerdict::Dismiss);
            if !is_dismissed && (!is_about_time || row.notice.code == STALE) {
                let released = decided.map(decision_in_words);
                chosen.push(NoticeToRelease { position: row.position.parse()?, released });
            }
        }
        Ok(())
    };
    let all = PageArgs { limit: usize::MAX, after: None };
    filter::read(reads, &filter::of(filters)?, &all, take).await?;
    Ok(chosen)
}

fn released(
    client: &AdminClient,
    args: &ReleaseArgs,
    (one, because): (&NoticeToRelease, Because),
) -> anyhow::Result<NoticeRow> {
    let position = one.position.to_string();
    row_of(client, (position.clone(), Some(because)), |judged| {
        let reads = judged.reads.as_ref();
        let needs_second_person = reads.is_some_and(|reads| reads.needs_second_person);
        Ok(match (&one.released, &judged.problem) {
            (Some(by), _) => (NoticeResult::Already, by.clone()),
            (None, Some(problem)) => (NoticeResult::Refused, problem.clone()),
            (None, None) if args.dry_run => {
                let people = if needs_second_person { "two people" } else { "one person" };
                (NoticeResult::WouldBe, format!("takes {people}"))
            }
            (None, None) => {
                let (verdict, because) = (NoticeVerdict::Release, Some(because));
                let reason = args.reason.clone().unwrap_or_default();
                let request = DecideNotice { verdict, because, reason };
                decided(client, &position, &request)?
            }
        })
    })
}

/// Decides one notice. Errors: it is refused.
fn decided(
    client: &AdminClient,
    position: &str,
    request: &DecideNotice,
) -> anyhow::Result<(NoticeResult, String)> {
    let decided = client.call(&DECIDE, &[position], request)?;
    if !decided.decided {
        let Decided { author, replaces, .. } = &decided;
        return Ok((NoticeResult::Waits, waiting(author, replaces.as_ref())));
    }
    let done = match request.verdict {
        NoticeVerdict::Release => NoticeResult::Released,
        NoticeVerdict::Dismiss => NoticeResult::Dismissed,
    };
    Ok((done, format!("by {}", decided.people())))
}

/// The text for a decision that waits for a second person, with the decision that it replaces.
fn waiting(author: &str, replaces: Option<&ReplacedDecision>) -> String {
    let first = match replaces {
        Some(ReplacedDecision { author: before, said }) if before == author => {
            format!("decided by {author} in place of {said}")
        }
        Some(ReplacedDecision { author: before, said }) => {
            format!("decided by {author}, who disagrees with {before}: {said}, which is replaced")
        }
        None => format!("decided by {author}"),
    };
    format!("{first}; a second person must decide the same")
}

/// Withdraws the caller's first decisions.
pub(crate) fn withdraw(global: &Global, args: &WithdrawNoticesArgs) -> anyhow::Result<()> {
    let client = AdminClient::find_for_command(global)?;
    let request = WithdrawRequest { reason: args.reason.clone() };
    each(&args.positions, &args.output, &client, |position| {
        let said = client.call(&WITHDRAW, &[position], &request)?.said;
        Ok((NoticeResult::Withdrawn, format!("{said} is withdrawn; the notice is undecided")))
    })
}

/// Dismisses the given notices.
pub(crate) fn dismiss(global: &Global, args: &DismissArgs) -> anyhow::Result<()> {
    let client = AdminClient::find_for_command(global)?;
    let (verdict, reason) = (NoticeVerdict::Dismiss, args.reason.clone());
    let request = DecideNotice { verdict, because: None, reason };
    each(&args.positions, &args.output, &client, |position| decided(&client, position, &request))
}

/// Acts on each of these notices and prints a row for each.
fn each(
    positions: &[String],
    output: &OutputArgs,
    client: &AdminClient,
    act: impl Fn(&str) -> anyhow::Result<(NoticeResult, String)>,
) -> anyhow::Result<()> {
    // A mistyped position is found before anything is decided.
    let positions: Vec<Position> =
        positions.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let mut rows = Vec::new();
    let ended = add_rows(&mut rows, &positions, |position| {
        let position = position.to_string();
        row_of(client, (position.clone(), None), |_| act(&position))
    });
    print_results(&rows, ended, output)
}

/// Prints the rows and a summary. Errors: what ended the decisions early, or a notice could not be
/// decided.
fn print_results(
    rows: &[NoticeRow],
    ended: anyhow::Result<()>,
    output: &OutputArgs,
) -> anyhow::Result<()> {
    if !rows.is_empty() || ended.is_ok() {
        listing::print(output.output, rows)?;
    }
    let count = |wanted: NoticeResult| rows.iter().filter(|row| row.result == wanted).count();
    let refused = count(NoticeResult::Refused);
    if count(NoticeResult::Waits) > 0 {
        output::error_line(&format!(
            "{} wait for a second person, who runs the same command with their own token (payfold \
             token add NAME --role operator, then --admin-token-file FILE)",
            count(NoticeResult::Waits)
        ));
    }
    ended?;
    if refused > 0 {
        return Err(Fixable::error(
            format!("{refused} of {} notices could not be decided", rows.len()),
            "see the last column for the reason of each",
        ));
    }
    Ok(())
}
