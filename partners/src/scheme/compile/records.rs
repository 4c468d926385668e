//! Owns the compiling of `[records]`: how a partner's file of payments is written, and what its lines mean. What would
//! leave a line unexplained, find no order, or put a payment into nobody's day is refused.

mod checks;
mod file_name;
mod shape;

use std::time::Duration;

use chrono_tz::Tz;
use payfold_schemas::ipn::Status;
use toml::Spanned;

use super::{Compiler, RECORDS};
use crate::profile::file::Wrong;
use crate::records::money::MoneyRule;
use crate::records::plan::{Names, Plan};
use crate::records::spec::{RecordsSpec, Rule, Spans, Values};
use crate::records::tail::TailRule;
use crate::records::when::When;
use crate::scheme::amount::Unit;
use crate::scheme::clock::Format;
use crate::scheme::file::records::{
    FormatFile, RecordsFile, RecordsHeadFile, RecordsMapFile, TailFile,
};
use crate::scheme::file::{MapFile, Text, read_records};
use crate::scheme::template::{self, Template};
use crate::scheme::{EventRule, MapRule, Outcome, Places};

/// `[records]` of a profile whose other sections are read elsewhere. Errors: all that is wrong with it.
pub(crate) fn records_of(text: &str) -> Result<Option<RecordsSpec>, Vec<Wrong>> {
    let (file, wrong) = read_records(text);
    let mut compiler = Compiler { wrong, section: RECORDS, ..Compiler::default() };
    let spec = file.as_ref().and_then(|file| compiler.records(file));
    compiler.wrong.sort_by_key(|wrong| wrong.span.start);
    if compiler.wrong.is_empty() { Ok(spec) } else { Err(compiler.wrong) }
}

/// What `[records.map]` became.
struct Mapped {
    map: MapRule,
    at: Option<Template>,
    at_format: Option<When>,
    paid_at_format: Option<When>,
    point: char,
    group: Option<char>,
}

impl Compiler {
    pub(super) fn records(&mut self, file: &RecordsFile) -> Option<RecordsSpec> {
        let head = file.head.as_ref();
        let is_jsonl = head.is_some_and(|head| *head.format.get_ref() == FormatFile::Jsonl);
        let documents = if is_jsonl { &["r"][..] } else { &["r", "n"] };
        let documents = documents.iter().map(|name| (*name).to_owned()).collect();
        let own = template::Names { documents, ..template::Names::default() };
        let outer = std::mem::replace(&mut self.names, own);
        let section = std::mem::replace(&mut self.section, RECORDS);
        let shape = head.and_then(|head| self.shape(head));
        let comment = head.and_then(|head| self.comment(head, shape.as_ref()));
        let mapped = file.map.as_ref().map(|map| self.records_map(head, map));
        let events: Vec<_> = file.events.iter().map(|event| self.event(event)).collect();
        let (has_all, events) = (events.iter().all(Option::is_some), events);
        let events: Vec<EventRule> = events.into_iter().flatten().collect();
        let tail = file.tail.as_ref().map(|tail| self.tail(tail));
        self.places_of(file, shape.as_ref());
        let zone = head.and_then(|head| self.days(&head.zone));
        let spans = head.map(|head| self.spans(head, mapped.as_ref()));
        let file_name = head.and_then(|head| head.file.as_ref()).map(|file| self.file_name(file));
        (self.names, self.section) = (outer, section);

        if !file.has_map || !file.has_events {
            let name = if file.has_map { "[[records.event]]" } else { "[records.map]" };
            self.wrong(file.span.clone(), format!("{name} is missing: what a line means"));
        }
        if has_all && file.has_events {
            self.kinds_of(file, &events);
        }
        let (head, mapped) = (head?, mapped?);
        self.values_of(file, &mapped, &events);
        let lists = self.lists(head, &events);
        let match_by = self.match_by(head, &mapped, &events)?;
        let shape = shape?;
        let names = if is_jsonl { Names::InObjects } else { Names::OfColumns };
        let mut plan = Plan::new(names);
        let rules = events.iter().map(|event| rule(&mut plan, &mapped, event)).collect();
        let tail = match tail {
            None => None,
            Some(tail) => Some(tail?.planned(&mut plan)),
        };
        Some(RecordsSpec {
            shape,
            comment,
            places: plan.places,
            rules,
            money: MoneyRule {
                amount: mapped.map.amount,
                refunds: head.refunds,
                point: mapped.point,
                group: mapped.group,
                currencies: mapped.map.currencies,
            },
            at: mapped.at_format?,
            paid_at: mapped.paid_at_format?,
            tail,
            may_be_empty: head.empty,
            match_by,
            zone: zone?,
            spans: spans?,
            lists,
            file_name: file_name.flatten(),
        })
    }

    fn records_map(&mut self, head: Option<&RecordsHeadFile>, file: &RecordsMapFile) -> Mapped {
        let zone = head.map(|head| &head.zone);
        let at_format = self.written(&file.at, (&file.at_format, &file.at_zone), zone);
        let at = self.template(&file.at);
        // Two times are written alike unless the second says how it is.
        let of_paid_at = match (&file.paid_at_format, &file.paid_at_zone) {
            (None, None) => (&file.at_format, &file.at_zone),
            (None, zone) => (&file.at_format, zone),
            (format, zone) => (format, zone),
        };
        let paid_at_format = match &file.paid_at {
            None => at_format.clone(),
            Some(paid_at) => self.written(paid_at, of_paid_at, zone),
        };
        let one = |this: &mut Self, text: &Option<Text>, known: &str, name: &str| {
            let text = text.as_ref()?;
            let mut chars = text.get_ref().chars();
            match (chars.next(), chars.next()) {
                (Some(c), None) if known.contains(c) => Some(c),
                _ => {
                    let problem = format!("records.map.{name} is one of the characters {known:?}");
                    this.wrong(text.span(), problem);
                    None
                }
            }
        };
        let point = one(self, &file.decimal_point, ".,", "decimal_point").unwrap_or('.');
        let group = one(self, &file.grouping, ",.' \u{a0}\u{202f}", "grouping");
        if let Some(grouping) = file.grouping.as_ref().filter(|_| group == Some(point)) {
            self.wrong(
                grouping.span(),
                "grouping is the decimal point; write decimal_point = \",\"",
            );
        }
        if let Some(text) = file.decimal_point.as_ref().filter(|_| file.amount_unit != Unit::Major)
        {
            self.wrong(text.span(), "decimal_point is for amount_unit = \"major\"; remove it");
        }
        let map = MapFile {
            merchant: file.merchant.clone(),
            order: file.order.clone(),
            provider_ref: file.provider_ref.clone(),
            amount: file.amount.clone(),
            amount_unit: file.amount_unit,
            exponents: file.exponents.clone(),
            currency: file.currency.clone(),
            currencies: file.currencies.clone(),
            // Its format is read above, where a date alone is one.
            paid_at: None,
            paid_at_format: None,
            paid_at_zone: None,
            event: file.event.clone(),
            nonce: None,
        };
        let mut map = self.map(&map);
        map.places.paid_at = file.paid_at.as_ref().and_then(|text| self.template(text));
        Mapped { map, at, at_format, paid_at_format, point, group }
    }

    /// How a time is written; a pattern without a zone is of the partner's days.
    fn written(
        &mut self,
        at: &Text,
        (format, zone): (&Option<Text>, &Option<Text>),
        days: Option<&Text>,
    ) -> Option<When> {
        let is_bare = format.as_ref().is_some_and(|format| {
            let format = format.get_ref();
            format.contains('%') && !["%z", "%:z", "%#z"].iter().any(|z| format.contains(z))
        });
        let zone = match zone {
            None if is_bare => days.cloned(),
            zone => zone.clone(),
        };
        let written: Format = self.format(at, (format, &zone))?;
        match When::of(written) {
            Ok(when) => Some(when),
            Err(problem) => {
                let span = format.as_ref().map_or_else(|| at.span(), Spanned::span);
                self.wrong(span, problem);
                None
            }
        }
    }

    fn days(&mut self, zone: &Text) -> Option<Tz> {
        let parsed = zone.get_ref().parse().ok();
        if parsed.is_none() {
            let problem = "records.zone is whose days the partner's days are: a name such as Asia/Ho_Chi_Minh or UTC";
            self.wrong(zone.span(), problem);
        }
        parsed
    }

    fn spans(&mut self, head: &RecordsHeadFile, mapped: Option<&Mapped>) -> Spans {
        const DAYS_31: usize = 31 * 86_400;
        let grace = self.or_default("records.grace_s", &head.grace_s, (3_600, 0..=DAYS_31));
        let cut_off = self.or_default("records.cut_off_s", &head.cut_off_s, (1_800, 0..=43_200));
        let tolerance = (300, 0..=DAYS_31);
        let tolerance =
            self.or_default("records.time_tolerance_s", &head.time_tolerance_s, tolerance);
        let compared = mapped.and_then(|mapped| match mapped.map.places.paid_at {
            Some(_) => mapped.paid_at_format.as_ref(),
            None => mapped.at_format.as_ref(),
        });
        let is_day = compared.is_some_and(When::is_day);
        if let Some(set) = head.time_tolerance_s.as_ref().filter(|_| is_day) {
            self.wrong(
                set.span(),
                "the file has dates only, so times can't be compared; remove it",
            );
        }
        let seconds = |seconds: usize| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        Spans {
            grace: seconds(grace),
            cut_off: seconds(cut_off),
            time_tolerance: Some(seconds(tolerance)).filter(|span| !is_day && !span.is_zero()),
        }
    }

    fn tail(&mut self, file: &Spanned<TailFile>) -> Option<Tail> {
        let TailFile { when, lines, row, count, sum } = file.get_ref();
        if when.is_empty() && lines.is_none() {
            let problem = "records.tail needs when: what its first row is known by, or lines: how many rows it has";
            self.wrong(file.span(), problem);
        }
        let lines = self.or_default("records.tail.lines", lines, (1, 1..=16));
        let row = self.or_default("records.tail.row", row, (1, 1..=lines.clamp(1, 16)));
        let conditions: Vec<_> = when.iter().map(|condition| self.condition(condition)).collect();
        let [count, sum] = [count, sum].map(|text| text.as_ref().map(|text| self.template(text)));
        let when = conditions.into_iter().collect::<Option<Vec<_>>>()?;
        // Of a place that is no template the mistake is told, and the section is not taken.
        let (count, sum) = (
            count.map_or(Some(None), |text| text.map(Some))?,
            sum.map_or(Some(None), |text| text.map(Some))?,
        );
        Some(Tail { when, lines, row, count, sum })
    }
}

/// A tail whose places are not numbered yet.
struct Tail {
    when: Vec<crate::scheme::Condition>,
    lines: usize,
    row: usize,
    count: Option<Template>,
    sum: Option<Template>,
}

impl Tail {
    fn planned(&self, plan: &mut Plan) -> TailRule {
        let when = self.when.iter().filter_map(|condition| plan.condition(condition)).collect();
        let count = self.count.as_ref().map(|text| plan.text(text));
        let sum = self.sum.as_ref().map(|text| plan.text(text));
        TailRule { when, lines: self.lines, row: self.row, count, sum }
    }
}

/// A kind of rows with its places numbered: its own before the map's.
fn rule(plan: &mut Plan, mapped: &Mapped, event: &EventRule) -> Rule {
    let when = event.when.iter().filter_map(|condition| plan.condition(condition)).collect();
    let values = match event.outcome {
        Outcome::Status(_) => values(plan, mapped, &event.places),
        Outcome::Ignore | Outcome::Keep | Outcome::Refuse => None,
    };
    Rule { when, outcome: event.outcome, why: checks::why(event), values }
}

fn values(plan: &mut Plan, mapped: &Mapped, own: &Places) -> Option<Values> {
    let all = &mapped.map.places;
    let mut text = |own: &Option<Template>, all: &Option<Template>| {
        own.as_ref().or(all.as_ref()).map(|template| plan.text(template))
    };
    Some(Values {
        merchant: text(&None, &mapped.map.merchant),
        order: text(&own.order, &all.order),
        provider_ref: text(&own.provider_ref, &all.provider_ref),
        amount: text(&own.amount, &all.amount)?,
        currency: text(&own.currency, &all.currency)?,
        at: text(&None, &mapped.at)?,
        paid_at: text(&own.paid_at, &all.paid_at),
        event: text(&own.event, &all.event),
    })
}

fn statuses(events: &[EventRule]) -> impl Iterator<Item = Status> {
    events.iter().filter_map(|event| match event.outcome {
        Outcome::Status(status) => Some(status),
        Outcome::Ignore | Outcome::Keep | Outcome::Refuse => None,
    })
}
