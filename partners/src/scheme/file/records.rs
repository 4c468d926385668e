//! Owns the TOML format of `[records]`: the format of a partner's payment file, and the meaning of
//! its lines.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use crate::profile::bounds;
use crate::profile::spanned::Spanned;
use crate::records::cells::TextEncoding;
use crate::records::money::RefundSign;
use crate::scheme::amount::AmountUnit;
use crate::scheme::file::schema_parts::{self, statuses_and};
use crate::scheme::file::tables::{ConditionFile, EventFile, SpannedText};

/// The section; `sections` reads its parts one by one.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RecordsFile {
    /// Where the section is in the file.
    #[schemars(skip)]
    pub(in crate::scheme) span: std::ops::Range<usize>,
    // `None` if it can't be read; its mistake is then among the errors. The same is true of the
    // other parts.
    #[schemars(flatten, required)]
    pub(in crate::scheme) head: Option<RecordsHeadFile>,
    /// Where a line holds the values: {r.NAME}, {n.3}.
    #[schemars(required)]
    pub(in crate::scheme) map: Option<RecordsMapFile>,
    /// Rows at the end that are no entries.
    pub(in crate::scheme) tail: Option<Spanned<TailFile>>,
    /// What a line means: the first event with all its conditions met. The last event must have no
    /// when.
    #[schemars(rename = "event", transform = records_events)]
    pub(in crate::scheme) events: Vec<EventFile>,
    /// Whether the part is in the file, even if it could not be read.
    #[schemars(skip)]
    pub(in crate::scheme) has_map: bool,
    #[schemars(skip)]
    pub(in crate::scheme) has_events: bool,
}

/// A line has no nonce, and its outcomes differ from a notice's.
fn records_events(schema: &mut Schema) {
    let event = schema_parts::items(schema);
    schema_parts::remove(event, &["nonce"]);
    let outcome = schema_parts::property(event, "outcome");
    outcome.insert("enum".to_owned(), statuses_and(&["ignore", "refuse"]).into());
    schema_parts::describe(outcome, "A status; ignore: fees, payouts; refuse: the line is bad.");
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::scheme) enum FormatFile {
    Csv,
    Jsonl,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::scheme) enum MatchFile {
    Order,
    Ref,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct RecordsHeadFile {
    /// csv, or jsonl: one JSON object a line. gzip is recognised by its first bytes.
    pub(in crate::scheme) format: Spanned<FormatFile>,
    /// The time zone of the partner's days: a name such as Asia/Ho_Chi_Minh.
    pub(in crate::scheme) zone: SpannedText,
    /// The name of a day's file, with the day as a strftime pattern.
    pub(in crate::scheme) file: Option<SpannedText>,
    /// One ASCII character. Default: a comma.
    pub(in crate::scheme) delimiter: Option<SpannedText>,
    /// One ASCII character; empty = there are no quotes. Default: ".
    pub(in crate::scheme) quote: Option<SpannedText>,
    /// Characters of which one may precede a value. It is not part of the value.
    pub(in crate::scheme) cell_prefix: Option<SpannedText>,
    /// The character encoding. Default: utf-8.
    pub(in crate::scheme) encoding: Option<Spanned<TextEncoding>>,
    /// false: the file has no header, and columns must be set. Default: true.
    pub(in crate::scheme) header: Option<Spanned<bool>>,
    /// With header = false: the number of columns of every row.
    #[schemars(range(min = bounds::COLUMNS.min, max = bounds::COLUMNS.max))]
    pub(in crate::scheme) columns: Option<Spanned<usize>>,
    /// The number of lines above the header, which are skipped. Default: 0.
    #[schemars(range(min = bounds::SKIP_HEAD.min, max = bounds::SKIP_HEAD.max))]
    pub(in crate::scheme) skip_head: Option<Spanned<usize>>,
    /// Lines that begin with this character are skipped.
    pub(in crate::scheme) comment: Option<SpannedText>,
    /// true: a file without any entry is a day without payments. Default: false.
    #[serde(default)]
    pub(in crate::scheme) empty: bool,
    /// What an entry finds its order by. Default: order, if it is mapped.
    #[serde(rename = "match")]
    pub(in crate::scheme) match_by: Option<Spanned<MatchFile>>,
    /// The statuses that the file lists whenever they happen. Default: SUCCESS and REFUNDED, if an
    /// event has them as its outcome.
    #[schemars(transform = schema_parts::items_of(&statuses_and(&[])))]
    pub(in crate::scheme) lists: Option<Spanned<Vec<SpannedText>>>,
    /// Which amounts are negative: positive: none; negative: those of refunds; either: refunds may
    /// be. Default: positive.
    #[serde(default)]
    pub(in crate::scheme) refunds: RefundSign,
    /// A payment younger than this many seconds may be missing. Default: 3600.
    #[schemars(range(min = bounds::RECORDS_GRACE_S.min, max = bounds::RECORDS_GRACE_S.max))]
    pub(in crate::scheme) grace_s: Option<Spanned<usize>>,
    /// A payment within this many seconds of midnight may be booked on the neighbouring day.
    /// Default: 1800.
    #[schemars(range(min = bounds::CUT_OFF_S.min, max = bounds::CUT_OFF_S.max))]
    pub(in crate::scheme) cut_off_s: Option<Spanned<usize>>,
    /// How many seconds the two times of one payment may differ; 0 = they are not compared.
    /// Default: 300.
    #[schemars(range(min = bounds::TIME_TOLERANCE_S.min, max = bounds::TIME_TOLERANCE_S.max))]
    pub(in crate::scheme) time_tolerance_s: Option<Spanned<usize>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct RecordsMapFile {
    /// Our account at the partner. Absent = each of the partner's accounts is tried, 8 at most.
    pub(in crate::scheme) merchant: Option<SpannedText>,
    /// Our order id.
    pub(in crate::scheme) order: Option<SpannedText>,
    /// The partner's transaction.
    #[serde(rename = "ref")]
    pub(in crate::scheme) provider_ref: Option<SpannedText>,
    /// Digits as received.
    pub(in crate::scheme) amount: Option<SpannedText>,
    /// minor: minor units; hundredths: hundredths in every currency; major: decimal text. Default:
    /// minor.
    #[serde(default)]
    pub(in crate::scheme) amount_unit: AmountUnit,
    /// For major amounts: the decimal mark, such as , in 1.234,50. Default: a point.
    pub(in crate::scheme) decimal_point: Option<SpannedText>,
    /// The character between groups of digits. Without it a number with groups is refused.
    pub(in crate::scheme) grouping: Option<SpannedText>,
    /// By currency: the number of decimal digits, where the partner's differs from ISO 4217.
    #[serde(default)]
    #[schemars(transform = schema_parts::values_within(bounds::EXPONENT))]
    pub(in crate::scheme) exponents: BTreeMap<String, u32>,
    /// An ISO 4217 code, or a key of currencies.
    pub(in crate::scheme) currency: Option<SpannedText>,
    /// The partner's code = the ISO 4217 code.
    #[serde(default)]
    pub(in crate::scheme) currencies: BTreeMap<String, String>,
    /// When the entry was booked. It decides which day the line belongs to.
    pub(in crate::scheme) at: SpannedText,
    /// The format of at: unix_s, unix_ms, rfc3339 or a strftime pattern; a date alone is enough.
    pub(in crate::scheme) at_format: Option<SpannedText>,
    /// The zone of a pattern without %z. Default: records.zone.
    pub(in crate::scheme) at_zone: Option<SpannedText>,
    /// When it was paid.
    pub(in crate::scheme) paid_at: Option<SpannedText>,
    /// The format of paid_at: unix_s, unix_ms, rfc3339 or a strftime pattern.
    pub(in crate::scheme) paid_at_format: Option<SpannedText>,
    /// The zone of a pattern without %z: a name or an offset.
    pub(in crate::scheme) paid_at_zone: Option<SpannedText>,
    /// The partner's id of this event. It distinguishes two refunds of one payment.
    pub(in crate::scheme) event: Option<SpannedText>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct TailFile {
    /// Conditions of its first row. Without them it is the last rows, whatever they hold.
    #[serde(default)]
    pub(in crate::scheme) when: Vec<Spanned<ConditionFile>>,
    /// How many rows it has. Default: 1.
    #[schemars(range(min = bounds::TAIL_LINES.min, max = bounds::TAIL_LINES.max))]
    pub(in crate::scheme) lines: Option<Spanned<usize>>,
    /// The row of the tail that holds count and sum. Default: 1.
    #[schemars(range(min = bounds::TAIL_LINES.min, max = bounds::TAIL_LINES.max))]
    pub(in crate::scheme) row: Option<Spanned<usize>>,
    /// The number of rows between header and tail.
    pub(in crate::scheme) count: Option<SpannedText>,
    /// The sum of the entries' amounts.
    pub(in crate::scheme) sum: Option<SpannedText>,
}
