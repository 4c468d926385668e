//! Owns quarantined notices as rows, with people's decisions on them.

use payfold_engines::log::{Delivered, Topic, walk};
use payfold_kit::search;
use payfold_reconcile::ledger::Ledger;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::KeyId;
use payfold_schemas::position::Position;
use payfold_schemas::record::{Parts, QuarantineRecord, Record};
use payfold_schemas::release::{NoticeDecided, NoticeVerdict};
use payfold_schemas::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::ReadError;
use crate::facts::mask;
use crate::listing::{Cells, Row};
use crate::messages::parse_position;
use crate::reader::Reader;

/// The most notices of one page.
pub const NOTICES_MAX: usize = 500;
/// How many notices are looked at for one page. A filter that few notices match gets short pages.
const LOOKED_AT_MAX: usize = 10_000;

/// A quarantined notice, with its decision or the decision that waits for a second person.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuarantineRow {
    /// The notice, without what a payer may have written.
    #[serde(flatten)]
    pub notice: QuarantineRecord,
    /// Its position in quarantine, such as 0-12.
    pub position: String,
    /// The number of bytes of its body; without a body, of its query.
    pub raw_bytes: usize,
    /// The key that its bytes are sealed with; null if they are stored as they came.
    pub raw_key_id: Option<KeyId>,
    /// The digest of the stored record, by which decisions name it.
    pub evidence: Digest,
    /// The decision, or the one that waits for a second person.
    pub decision: Option<NoticeDecided>,
}

impl Row for QuarantineRow {
    const COLUMNS: &'static str =
        "position received:receivedAt account code detail bytes:rawBytes request_id decided";

    fn shown(&self, column: &str, _cells: Cells) -> Option<Value> {
        (column == "decided").then(|| json!(self.decision.as_ref().map(decision_in_words)))
    }
}

/// A decision as a short text.
pub fn decision_in_words(said: &NoticeDecided) -> String {
    let by = match &said.seconded_by {
        Some(second) => format!("{} and {second}", said.author),
        None => said.author.to_string(),
    };
    match (said.decided, said.verdict) {
        (true, NoticeVerdict::Release) => format!("released by {by}"),
        (true, NoticeVerdict::Dismiss) => format!("dismissed by {by}"),
        (false, verdict) => format!("{by} decided {}, waits for a second person", verdict.as_str()),
    }
}

/// A quarantined notice, with every decision on it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NoticeHistory {
    /// The notice.
    #[serde(flatten)]
    pub row: QuarantineRow,
    /// Every decision and withdrawal on it, oldest first.
    pub decisions: Vec<NoticeDecided>,
}

/// Which notices to list, oldest first in each partition.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListNotices {
    /// Only notices of this partner.
    pub partner: Option<String>,
    /// Only notices refused with this code.
    pub code: Option<String>,
    /// Only notices received at or after this time.
    pub since: Option<Time>,
    /// Only notices received before this time.
    pub until: Option<Time>,
    /// Only undecided notices.
    #[serde(default)]
    pub open: bool,
    /// The most notices of the page, at most 500, which is the default.
    pub limit: Option<usize>,
    /// `next` of the previous page.
    pub after: Option<String>,
}

/// A page of notices. It may have fewer than the limit, and none, while there are more.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct NoticePage {
    /// The notices.
    pub notices: Vec<QuarantineRow>,
    /// The positions of records that can't be read: they are damaged.
    pub damaged: Vec<String>,
    /// Where the next page starts; absent at the end.
    pub next: Option<String>,
}

impl ListNotices {
    fn takes(&self, notice: &QuarantineRecord) -> bool {
        let partner = notice.account.split('/').next();
        self.partner.as_deref().is_none_or(|only| partner == Some(only))
            && self.code.as_ref().is_none_or(|only| notice.code == *only)
            && self.since.is_none_or(|since| notice.received_at >= since)
            && self.until.is_none_or(|until| notice.received_at < until)
    }
}

/// A stored notice that matches a filter.
struct StoredNotice {
    position: Position,
    evidence: Digest,
    notice: QuarantineRecord,
    raw_bytes: usize,
    raw_key_id: Option<KeyId>,
}

impl StoredNotice {
    /// Takes a notice and its bytes, without what a payer may have written.
    fn of(
        message: &Delivered,
        mut notice: QuarantineRecord,
        raw: &[u8],
        raw_key_id: Option<KeyId>,
    ) -> Self {
        let query = notice.source.request.target.split_once('?');
        let query_bytes = query.map_or(0, |(_, query)| query.len());
        let raw_bytes = if raw.is_empty() { query_bytes } else { raw.len() };
        mask(&mut notice.source.request);
        let evidence = Digest::of_bytes(&message.value);
        Self { position: message.position, evidence, notice, raw_bytes, raw_key_id }
    }

    /// The notice with the decision on it, or the one that waits for a second person.
    fn row(self, ledger: &Ledger) -> QuarantineRow {
        let decided = ledger.decided_notice(self.position, self.evidence);
        let decision = decided.or_else(|| ledger.waiting_notice(self.position, self.evidence));
        QuarantineRow {
            notice: self.notice,
            position: self.position.to_string(),
            raw_bytes: self.raw_bytes,
            raw_key_id: self.raw_key_id,
            evidence: self.evidence,
            decision: decision.cloned(),
        }
    }
}

/// What was found in some messages of one partition.
#[derive(Default)]
struct FoundNotices {
    notices: Vec<StoredNotice>,
    damaged: Vec<Position>,
}

impl FoundNotices {
    fn among(messages: &[Delivered], asked: &ListNotices) -> Result<Self, ReadError> {
        let mut found = Self::default();
        for message in messages {
            match search::decode_undamaged(message).map_err(ReadError::Newer)? {
                None => found.damaged.push(message.position),
                Some(Record { parts: Parts::Quarantine(notice), raw, raw_key_id }) => {
                    if asked.takes(&notice) {
                        found.notices.push(StoredNotice::of(message, notice, &raw, raw_key_id));
                    }
                }
                Some(_) => {}
            }
        }
        Ok(found)
    }
}

impl Reader {
    /// Lists notices, one partition after the other. Errors: the log's; `Newer`; a cursor that is
    /// none.
    pub async fn notices(&self, asked: &ListNotices) -> Result<NoticePage, ReadError> {
        let limit = asked.limit.unwrap_or(NOTICES_MAX).clamp(1, NOTICES_MAX);
        let (mut page, mut looked_at) = (NoticePage::default(), 0);
        for mut place in self.notice_places(asked).await? {
            loop {
                let messages = self.log.read_after(Topic::Quarantine, place, NOTICES_MAX).await?;
                let Some(last) = messages.last().map(|last| last.position) else { break };
                let FoundNotices { notices, mut damaged } = FoundNotices::among(&messages, asked)?;
                let left = limit - page.notices.len();
                let mut rows = self.rows_of_notices(notices, asked).await?;
                let is_cut = rows.len() > left;
                rows.truncate(left);
                if is_cut {
                    // What lies behind the last row is the next page's.
                    place = rows.last().map_or(place, |(position, _)| *position);
                    damaged.retain(|position| position.offset < place.offset);
                } else {
                    place = last;
                }
                looked_at += messages.len();
                page.notices.extend(rows.into_iter().map(|(_, row)| row));
                page.damaged.extend(damaged.iter().map(Position::to_string));
                if is_cut || looked_at >= LOOKED_AT_MAX {
                    page.next = Some(place.to_string());
                    return Ok(page);
                }
            }
        }
        Ok(page)
    }

    /// Where each partition that is left is read from.
    async fn notice_places(&self, asked: &ListNotices) -> Result<Vec<Position>, ReadError> {
        match (&asked.after, asked.since) {
            (None, Some(since)) => {
                Ok(search::positions_before(&*self.log, Topic::Quarantine, since).await?)
            }
            (after, _) => {
                let after = after.as_deref().map(parse_position).transpose()?;
                Ok(walk::places_after(&*self.log, Topic::Quarantine, after).await?)
            }
        }
    }

    /// The rows of these notices, without decided ones if only undecided ones are asked for.
    async fn rows_of_notices(
        &self,
        notices: Vec<StoredNotice>,
        asked: &ListNotices,
    ) -> Result<Vec<(Position, QuarantineRow)>, ReadError> {
        if notices.is_empty() {
            return Ok(Vec::new());
        }
        self.ledger(|ledger| {
            let rows = notices.into_iter().map(|stored| (stored.position, stored.row(ledger)));
            let is_open =
                |row: &QuarantineRow| row.decision.as_ref().is_none_or(|said| !said.decided);
            Ok(rows.filter(|(_, row)| !asked.open || is_open(row)).collect())
        })
        .await
    }

    /// One notice, with every decision on it. Errors: `NoNotice`, `Damaged`, `Newer`; the log's.
    pub async fn notice(&self, position: Position) -> Result<NoticeHistory, ReadError> {
        let found = search::message_at(&*self.log, Topic::Quarantine, position).await?;
        let message = found.ok_or(ReadError::NoNotice(position))?;
        let record = message
            .record()
            .map_err(|error| ReadError::of_record(Topic::Quarantine, position, error))?;
        let Record { parts: Parts::Quarantine(notice), raw, raw_key_id } = record else {
            return Err(ReadError::NoNotice(position));
        };
        let stored = StoredNotice::of(&message, notice, &raw, raw_key_id);
        self.ledger(|ledger| {
            let decisions = ledger.decisions_on_notice(position, stored.evidence);
            let decisions = decisions.cloned().collect();
            Ok(NoticeHistory { row: stored.row(ledger), decisions })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use payfold_engines::log::Message;

    use super::*;
    use crate::testbed::Testbed;

    /// The first bytes of the quarantine record of the fixtures.
    fn stored(bytes: usize) -> Message {
        let hexed = include_str!("../../schemas/fixtures/quarantine.hex");
        let mut value = hex::decode(hexed.split_whitespace().collect::<String>()).unwrap();
        value.truncate(bytes);
        Message { key: "p/M".to_owned(), event: None, value, mac: None }
    }

    #[tokio::test]
    async fn notices_are_listed_in_pages_and_damaged_ones_are_named() {
        let bed = Testbed::new();
        let whole = usize::MAX;
        let records = [whole, 8, whole, whole, 8, whole].map(stored);
        bed.append(Topic::Quarantine, records.into()).await;
        let (mut asked, mut pages) =
            (ListNotices { limit: Some(2), ..Default::default() }, Vec::new());
        loop {
            let page = bed.reader.notices(&asked).await.unwrap();
            let notices: Vec<_> = page.notices.into_iter().map(|row| row.position).collect();
            pages.push((notices, page.damaged));
            asked.after = page.next;
            if asked.after.is_none() {
                break;
            }
        }
        let texts = |all: [&str; 2]| all.map(str::to_owned).to_vec();
        let [first_page, second_page] = [texts(["0-1", "0-3"]), texts(["0-4", "0-6"])];
        let damaged = |position: &str| vec![position.to_owned()];
        assert_eq!(pages, [(first_page, damaged("0-2")), (second_page, damaged("0-5"))]);
        let other = ListNotices { code: Some("none".to_owned()), ..Default::default() };
        assert!(bed.reader.notices(&other).await.unwrap().notices.is_empty());
        let first = Position { partition: 0, offset: 1 };
        let history = bed.reader.notice(first).await.unwrap();
        assert_eq!((history.row.position.as_str(), history.decisions.len()), ("0-1", 0));
        let missing = bed.reader.notice(Position { partition: 0, offset: 9 }).await.unwrap_err();
        assert!(matches!(missing, ReadError::NoNotice(_)), "{missing}");
    }
}
