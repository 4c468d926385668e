//! Owns the compiled `[records]` section of a profile.

use std::time::Duration;

use chrono_tz::Tz;
use payfold_schemas::ipn::Status;

use super::cells::{CsvDialect, TextEncoding};
use super::money::MoneyRule;
use super::plan::{RowCondition, RowText};
use super::tail::TailRule;
use super::time_format::RowTimeFormat;
use crate::records::types::MatchBy;
use crate::records::value_location::ValueLocation;
use crate::scheme::rules::EventOutcome;

/// How the columns of a CSV file are identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CsvHeader {
    /// By the names in the first row.
    Names,
    /// By number; every row has this many columns.
    Columns(usize),
}

/// The format of a file.
#[derive(Clone, Debug)]
pub(crate) enum FileFormat {
    Csv {
        dialect: CsvDialect,
        header: CsvHeader,
        skip_head: u64,
    },
    /// One JSON object a line.
    Jsonl,
}

/// The texts that make the values of an entry.
#[derive(Clone, Debug)]
pub(crate) struct RowValues {
    pub(crate) merchant: Option<RowText>,
    pub(crate) order: Option<RowText>,
    pub(crate) provider_ref: Option<RowText>,
    pub(crate) amount: RowText,
    pub(crate) currency: RowText,
    pub(crate) at: RowText,
    pub(crate) paid_at: Option<RowText>,
    pub(crate) event: Option<RowText>,
}

/// One kind of row. A row is of the first kind with conditions that all hold.
#[derive(Clone, Debug)]
pub(crate) struct RowRule {
    pub(crate) when: Vec<RowCondition>,
    pub(crate) outcome: EventOutcome,
    /// The reason that is reported for ignoring or refusing a row of this kind.
    pub(crate) why: String,
    /// The texts of an entry; `None` if rows of this kind are not entries.
    pub(crate) values: Option<RowValues>,
}

/// The time tolerances of the comparison with a partner's records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordsTolerances {
    pub(crate) grace: Duration,
    pub(crate) cut_off: Duration,
    pub(crate) time_tolerance: Option<Duration>,
}

/// A compiled `[records]` section: the format of a partner's file of payments, and the meaning of
/// its rows.
#[derive(Clone, Debug)]
pub struct RecordsSpec {
    pub(crate) shape: FileFormat,
    /// The character that begins a comment line.
    pub(crate) comment: Option<u8>,
    pub(crate) places: Vec<ValueLocation>,
    pub(crate) rules: Vec<RowRule>,
    pub(crate) money: MoneyRule,
    pub(crate) at: RowTimeFormat,
    pub(crate) paid_at: RowTimeFormat,
    pub(crate) tail: Option<TailRule>,
    pub(crate) may_be_empty: bool,
    pub(crate) match_by: MatchBy,
    pub(crate) zone: Tz,
    pub(crate) spans: RecordsTolerances,
    pub(crate) lists: Vec<Status>,
    pub(crate) file_name: Option<String>,
}

impl RecordsSpec {
    /// Which id of an entry finds its order.
    pub fn match_by(&self) -> MatchBy {
        self.match_by
    }

    /// The time zone of the partner's days.
    pub fn zone(&self) -> Tz {
        self.zone
    }

    /// How recent a payment may be to be missing from the file without a finding.
    pub fn grace(&self) -> Duration {
        self.spans.grace
    }

    /// How near to midnight a payment may be booked on the neighbouring day.
    pub fn cut_off(&self) -> Duration {
        self.spans.cut_off
    }

    /// How far our time and the partner's time of one payment may differ; `None` if they can't be
    /// compared.
    pub fn time_tolerance(&self) -> Option<Duration> {
        self.spans.time_tolerance
    }

    #[cfg(test)]
    /// Whether the file has only dates: then `PartnerEntry::at` is noon of that date.
    pub(crate) fn has_dates_only(&self) -> bool {
        self.at.is_day()
    }

    /// The statuses of which the file lists every payment. A payment of another status may be
    /// missing from the file without a finding.
    pub fn lists(&self) -> &[Status] {
        &self.lists
    }

    /// The name of a day's file in a watched folder: chrono's `strftime`, the day in `zone`.
    pub fn file_name(&self) -> Option<&str> {
        self.file_name.as_deref()
    }

    /// A description of the section in one line, for people.
    pub fn describe(&self) -> String {
        let shape = match &self.shape {
            FileFormat::Csv { dialect, header, .. } => {
                let delimiter = char::from(dialect.delimiter);
                let known = match header {
                    CsvHeader::Names => "with a header".to_owned(),
                    CsvHeader::Columns(count) => format!("of {count} columns"),
                };
                let encoding = match dialect.encoding {
                    TextEncoding::Utf8 => "",
                    TextEncoding::Latin1 => ", latin-1",
                };
                format!("CSV {known}, {delimiter:?} between cells{encoding}")
            }
            FileFormat::Jsonl => "JSON lines".to_owned(),
        };
        let by = match self.match_by {
            MatchBy::Order => "order",
            MatchBy::Ref => "ref",
        };
        let lists: Vec<_> = self.lists.iter().map(|status| status.as_str()).collect();
        let name = self.file_name.as_ref().map(|name| format!("; {name}")).unwrap_or_default();
        format!("{shape}; {} by {by}, days of {}{name}", lists.join(" "), self.zone)
    }
}
