//! Owns the filter of quarantined notices, which reads the topic page by page.

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::walk::{self, Walk};
use payfold_engines::log::{Delivered, Topic};
use payfold_kit::search;
use payfold_schemas::digest::Digest;
use payfold_schemas::position::Position;
use payfold_schemas::record::{Parts, QuarantineRecord, Record};
use payfold_schemas::time::Time;

use crate::args::NoticesArgs;
use crate::error::Fixable;
use crate::output;
use crate::wiring::Engines;

const PAGE: usize = 500;

/// A notice that matches the filter.
pub(crate) struct QuarantinedNotice {
    /// The stored message.
    pub message: Delivered,
    /// The digest of the stored record, by which decisions name it.
    pub evidence: Digest,
    /// The decoded record.
    pub record: QuarantineRecord,
    /// Number of bytes of the body, or of the query for a notice without a body.
    pub raw_bytes: usize,
}

fn bytes_of(record: &QuarantineRecord, raw: &[u8]) -> usize {
    let query = record.source.request.target.split_once('?').map_or(0, |(_, query)| query.len());
    if raw.is_empty() { query } else { raw.len() }
}

/// The filter of a command.
pub(crate) struct NoticeFilter<'a> {
    args: &'a NoticesArgs,
    since: Option<Time>,
    until: Option<Time>,
}

impl<'a> NoticeFilter<'a> {
    /// Parses the arguments. Errors: a time can't be parsed.
    pub(crate) fn of(args: &'a NoticesArgs) -> anyhow::Result<Self> {
        let moment = |text: &Option<String>| text.as_deref().map(moment).transpose();
        Ok(Self { args, since: moment(&args.since)?, until: moment(&args.until)? })
    }

    fn takes(&self, record: &QuarantineRecord) -> bool {
        let partner = record.account.split('/').next();
        self.args.partner.as_deref().is_none_or(|only| partner == Some(only))
            && self.args.code.as_deref().is_none_or(|only| record.code == only)
            && self.since.is_none_or(|since| record.received_at >= since)
            && self.until.is_none_or(|until| record.received_at < until)
    }
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

/// Calls `take` with each matching notice after a position, until it breaks. A damaged record is
/// named on standard error. Errors: the log's; a newer program wrote a record.
pub(crate) async fn each(
    engines: &Engines,
    filter: &NoticeFilter<'_>,
    after: Option<Position>,
    mut take: impl FnMut(QuarantinedNotice) -> anyhow::Result<std::ops::ControlFlow<()>>,
) -> anyhow::Result<()> {
    let places = walk::places_after(&*engines.log, Topic::Quarantine, after).await?;
    let mut walk = Walk::from(&*engines.log, Topic::Quarantine, places);
    while let Some(messages) = walk.next(PAGE).await? {
        for message in messages {
            let Some(Record { parts, raw, .. }) = search::decode_undamaged(&message)? else {
                output::error_line(&format!(
                    "the record quarantine {} can't be read; payfold log verify says more",
                    message.position
                ));
                continue;
            };
            let Parts::Quarantine(record) = parts else { continue };
            if !filter.takes(&record) {
                continue;
            }
            let evidence = Digest::of_bytes(&message.value);
            let raw_bytes = bytes_of(&record, &raw);
            if take(QuarantinedNotice { message, evidence, record, raw_bytes })?.is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}
