//! Owns what a profile says of a partner's books: a compiled `[records]` section.

use std::io;
use std::time::Duration;

use chrono_tz::Tz;
use payfold_schemas::ipn::Status;

use super::cells::{Dialect, Encoding};
use super::money::MoneyRule;
use super::plan::{Condition, Place, Text};
use super::tail::TailRule;
use super::when::When;
use super::{FileFacts, MatchBy, Read, Unfit, run};
use crate::scheme::Outcome;

/// What the columns of a CSV file are known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// Names in the first row.
    Names,
    /// Numbers; every row has so many columns.
    Columns(usize),
}

/// What a file is.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Csv {
        dialect: Dialect,
        header: Header,
        skip_head: u64,
    },
    /// One JSON object a line.
    Jsonl,
}

/// Where the values of an entry stand.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    pub(crate) merchant: Option<Text>,
    pub(crate) order: Option<Text>,
    pub(crate) provider_ref: Option<Text>,
    pub(crate) amount: Text,
    pub(crate) currency: Text,
    pub(crate) at: Text,
    pub(crate) paid_at: Option<Text>,
    pub(crate) event: Option<Text>,
}

/// One kind of rows: the first whose conditions all hold says what it is.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) when: Vec<Condition>,
    pub(crate) outcome: Outcome,
    /// What a row of this kind is left alone or refused for.
    pub(crate) why: String,
    /// Where an entry's values stand; absent where it is none.
    pub(crate) values: Option<Values>,
}

/// How long things may take in a partner's books.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spans {
    pub(crate) grace: Duration,
    pub(crate) cut_off: Duration,
    pub(crate) time_tolerance: Option<Duration>,
}

/// A compiled `[records]` section: how a partner's file of payments is written, and what its lines mean.
#[derive(Clone, Debug)]
pub struct RecordsSpec {
    pub(crate) shape: Shape,
    /// Lines that begin with it say nothing.
    pub(crate) comment: Option<u8>,
    pub(crate) places: Vec<Place>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) money: MoneyRule,
    pub(crate) at: When,
    pub(crate) paid_at: When,
    pub(crate) tail: Option<TailRule>,
    pub(crate) may_be_empty: bool,
    pub(crate) match_by: MatchBy,
    pub(crate) zone: Tz,
    pub(crate) spans: Spans,
    pub(crate) lists: Vec<Status>,
    pub(crate) file_name: Option<String>,
}

impl RecordsSpec {
    /// Reads a stream to its end and calls `each` for every line, in order. Blocking; memory does not grow with the
    /// file; gzip is unpacked. Errors: `Unfit`; what was read before it must not be used then.
    pub fn read(
        &self,
        mut source: impl io::Read,
        each: &mut dyn FnMut(Read),
    ) -> Result<FileFacts, Unfit> {
        run::read(self, &mut source, each)
    }

    /// By what an entry finds its order.
    pub fn match_by(&self) -> MatchBy {
        self.match_by
    }

    /// Whose days the partner's days are.
    pub fn zone(&self) -> Tz {
        self.zone
    }

    /// How young a payment may be and be missing.
    pub fn grace(&self) -> Duration {
        self.spans.grace
    }

    /// How near to midnight a payment may be booked on the neighbouring day.
    pub fn cut_off(&self) -> Duration {
        self.spans.cut_off
    }

    /// How far the two times of one payment may differ; `None` where they can't be compared.
    pub fn time_tolerance(&self) -> Option<Duration> {
        self.spans.time_tolerance
    }

    /// Whether the books say dates only: then `Entry::at` is noon of one.
    pub fn has_dates_only(&self) -> bool {
        self.at.is_day()
    }

    /// Which statuses such a file lists whenever they happen: what is missing of another one says nothing.
    pub fn lists(&self) -> &[Status] {
        &self.lists
    }

    /// The name of a day's file in a watched folder: chrono's `strftime`, the day in `zone`.
    pub fn file_name(&self) -> Option<&str> {
        self.file_name.as_deref()
    }

    /// What it says, in one line for people.
    pub fn describe(&self) -> String {
        let shape = match &self.shape {
            Shape::Csv { dialect, header, .. } => {
                let delimiter = char::from(dialect.delimiter);
                let known = match header {
                    Header::Names => "with a header".to_owned(),
                    Header::Columns(count) => format!("of {count} columns"),
                };
                let encoding = match dialect.encoding {
                    Encoding::Utf8 => "",
                    Encoding::Latin1 => ", latin-1",
                };
                format!("CSV {known}, {delimiter:?} between cells{encoding}")
            }
            Shape::Jsonl => "JSON lines".to_owned(),
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
