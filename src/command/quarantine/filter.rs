//! Owns the filter of quarantined notices that the arguments describe, and reading the notices page
//! by page.

use payfold_engines::clock::{Clock, SystemClock};
use payfold_schemas::time::Time;
use payfold_views::quarantine::{ListNotices, NOTICES_MAX, NoticePage, QuarantineRow};

use crate::args::{NoticesArgs, PageArgs};
use crate::command::pages;
use crate::error::Fixable;
use crate::output;
use crate::reads::Reads;

/// The filter of the arguments. Errors: a time that can't be parsed.
pub(super) fn of(args: &NoticesArgs) -> anyhow::Result<ListNotices> {
    let moment = |text: &Option<String>| text.as_deref().map(moment).transpose();
    Ok(ListNotices {
        partner: args.partner.clone(),
        code: args.code.clone(),
        since: moment(&args.since)?,
        until: moment(&args.until)?,
        ..Default::default()
    })
}

/// Parses a time, or an age before now.
fn moment(text: &str) -> anyhow::Result<Time> {
    if let Ok(time) = Time::parse(text) {
        return Ok(time);
    }
    let age = humantime::parse_duration(text).map_err(|_| {
        Fixable::error(
            format!("{text} is neither a time nor an age"),
            "write a time such as 2026-01-31T10:00:00Z, or an age such as 2h",
        )
    })?;
    Ok(SystemClock.now().plus_ms(-i64::try_from(age.as_millis())?))
}

/// Hands over the notices that match, page by page. A damaged record is named on standard error.
/// Errors: those of the reads and of `take`.
pub(super) async fn read(
    reads: &Reads<'_>,
    asked: &ListNotices,
    page: &PageArgs,
    take: impl FnMut(Vec<QuarantineRow>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let read = async |limit, after| {
        let asked = ListNotices { limit: Some(limit), after, ..asked.clone() };
        let NoticePage { notices, damaged, next } = reads.notices(&asked).await?;
        for position in damaged {
            output::error_line(&format!(
                "the record quarantine {position} can't be read; payfold log verify says more"
            ));
        }
        Ok((notices, next))
    };
    pages::read(page, NOTICES_MAX, read, take).await
}
