//! Owns compiling `[records]`: the format of a partner's payment file, and the meaning of its
//! lines. It refuses rules that leave a line without a meaning, an entry without an order, or a
//! payment without a day.

mod checks;
mod file_name;
pub(crate) mod mapped;
mod shape;

use std::time::Duration;

use chrono_tz::Tz;

use crate::profile::bounds::{self, Bounds, TAIL_LINES};
use crate::profile::mistake::ProfileMistake;
use crate::profile::spanned::Spanned;
use crate::records::money::MoneyRule;
use crate::records::plan::{NameScope, ValuePlan};
use crate::records::spec::{RecordsSpec, RecordsTolerances, RowRule, RowValues};
use crate::records::tail::TailRule;
use crate::records::time_format::RowTimeFormat;
use crate::scheme::amount::AmountUnit;
use crate::scheme::clock::TimeFormat;
use crate::scheme::compile::compiler::{ProfileCompiler, RECORDS};
use crate::scheme::compile::records::mapped::RecordsMapping;
use crate::scheme::compile::time_format::{TimeWork, has_offset};
use crate::scheme::file::read_records;
use crate::scheme::file::records::{
    FormatFile, RecordsFile, RecordsHeadFile, RecordsMapFile, TailFile,
};
use crate::scheme::file::tables::{MapFile, SpannedText};
use crate::scheme::rules::{EventOutcome, EventRule, ValuePlaces};
use crate::scheme::template::{self, Template};

/// Compiles `[records]` of a default-scheme profile, which has its other sections compiled by
/// `profile::file`. Errors: all mistakes.
pub(crate) fn records_of(text: &str) -> Result<Option<RecordsSpec>, Vec<ProfileMistake>> {
    let (file, wrong) = read_records(text);
    let mut compiler = ProfileCompiler { wrong, section: RECORDS, ..ProfileCompiler::default() };
    let spec = file.as_ref().and_then(|file| compiler.compile_records(file));
    compiler.wrong.sort_by_key(|wrong| wrong.span.start);
    if compiler.wrong.is_empty() { Ok(spec) } else { Err(compiler.wrong) }
}

impl ProfileCompiler {
    pub(super) fn compile_records(&mut self, file: &RecordsFile) -> Option<RecordsSpec> {
        let head = file.head.as_ref();
        let is_jsonl = head.is_some_and(|head| *head.format.get_ref() == FormatFile::Jsonl);
        let documents = if is_jsonl { &["r"][..] } else { &["r", "n"] };
        let documents = documents.iter().map(|name| (*name).to_owned()).collect();
        let own = template::TemplateNames { documents, ..template::TemplateNames::default() };
        let outer = std::mem::replace(&mut self.names, own);
        let section = std::mem::replace(&mut self.section, RECORDS);
        let shape = head.and_then(|head| self.compile_shape(head));
        let comment = head.and_then(|head| self.compile_comment(head, shape.as_ref()));
        let mapped = file.map.as_ref().map(|map| self.compile_records_map(head, map));
        let events: Vec<_> = file.events.iter().map(|event| self.compile_event(event)).collect();
        let (has_all, events) = (events.iter().all(Option::is_some), events);
        let events: Vec<EventRule> = events.into_iter().flatten().collect();
        let tail = file.tail.as_ref().map(|tail| self.compile_tail(tail));
        self.check_places(file, shape.as_ref());
        let zone = head.and_then(|head| self.parse_records_zone(&head.zone));
        let spans = head.map(|head| self.compile_spans(head, mapped.as_ref()));
        let file_name =
            head.and_then(|head| head.file.as_ref()).map(|file| self.compile_file_name(file));
        (self.names, self.section) = (outer, section);

        if !file.has_map || !file.has_events {
            let name = if file.has_map { "[[records.event]]" } else { "[records.map]" };
            self.report(file.span.clone(), format!("{name} is missing: what a line means"));
        }
        if has_all && file.has_events {
            self.check_event_order(file, &events);
        }
        let (head, mapped) = (head?, mapped?);
        self.check_entry_values(file, &mapped, &events);
        let lists = self.compile_lists(head, &events);
        let match_by = self.compile_match_by(head, &mapped, &events)?;
        let shape = shape?;
        let names = if is_jsonl { NameScope::InObjects } else { NameScope::OfColumns };
        let mut plan = ValuePlan::new(names);
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

    fn compile_records_map(
        &mut self,
        head: Option<&RecordsHeadFile>,
        file: &RecordsMapFile,
    ) -> RecordsMapping {
        let zone = head.map(|head| &head.zone);
        let at_format =
            self.parse_records_time_format(&file.at, (&file.at_format, &file.at_zone), zone);
        let at = self.parse_template(&file.at);
        // paid_at has the format of `at` unless it has its own.
        let of_paid_at = match (&file.paid_at_format, &file.paid_at_zone) {
            (None, None) => (&file.at_format, &file.at_zone),
            (None, zone) => (&file.at_format, zone),
            (format, zone) => (format, zone),
        };
        let paid_at_format = match &file.paid_at {
            None => at_format.clone(),
            Some(paid_at) => self.parse_records_time_format(paid_at, of_paid_at, zone),
        };
        let one = |this: &mut Self, text: &Option<SpannedText>, known: &str, name: &str| {
            let text = text.as_ref()?;
            let mut chars = text.get_ref().chars();
            match (chars.next(), chars.next()) {
                (Some(c), None) if known.contains(c) => Some(c),
                _ => {
                    let problem = format!("records.map.{name} is one of the characters {known:?}");
                    this.report(text.span(), problem);
                    None
                }
            }
        };
        let point = one(self, &file.decimal_point, ".,", "decimal_point").unwrap_or('.');
        let group = one(self, &file.grouping, ",.' \u{a0}\u{202f}", "grouping");
        if let Some(grouping) = file.grouping.as_ref().filter(|_| group == Some(point)) {
            self.report(
                grouping.span(),
                "grouping is the decimal point; write decimal_point = \",\"",
            );
        }
        if let Some(text) =
            file.decimal_point.as_ref().filter(|_| file.amount_unit != AmountUnit::Major)
        {
            self.report(text.span(), "decimal_point is for amount_unit = \"major\"; remove it");
        }
        let map = MapFile {
            refunds: None,
            merchant: file.merchant.clone(),
            order: file.order.clone(),
            provider_ref: file.provider_ref.clone(),
            amount: file.amount.clone(),
            amount_unit: file.amount_unit,
            exponents: file.exponents.clone(),
            currency: file.currency.clone(),
            currencies: file.currencies.clone(),
            // paid_at is compiled above: here a date alone is a time.
            paid_at: None,
            paid_at_format: None,
            paid_at_zone: None,
            event: file.event.clone(),
            nonce: None,
        };
        let mut map = self.compile_map(&map);
        map.places.paid_at = file.paid_at.as_ref().and_then(|text| self.parse_template(text));
        RecordsMapping { map, at, at_format, paid_at_format, point, group }
    }

    /// Parses a time format; a pattern without a zone is in `records.zone`.
    fn parse_records_time_format(
        &mut self,
        at: &SpannedText,
        (format, zone): (&Option<SpannedText>, &Option<SpannedText>),
        days: Option<&SpannedText>,
    ) -> Option<RowTimeFormat> {
        let is_bare = format
            .as_ref()
            .is_some_and(|format| format.get_ref().contains('%') && !has_offset(format.get_ref()));
        let zone = match zone {
            None if is_bare => days.cloned(),
            zone => zone.clone(),
        };
        let written: TimeFormat = self.parse_time_format(at, (format, &zone), TimeWork::Read)?;
        match RowTimeFormat::of(written) {
            Ok(when) => Some(when),
            Err(problem) => {
                let span = format.as_ref().map_or_else(|| at.span(), Spanned::span);
                self.report(span, problem);
                None
            }
        }
    }

    fn parse_records_zone(&mut self, zone: &SpannedText) -> Option<Tz> {
        let parsed = zone.get_ref().parse().ok();
        if parsed.is_none() {
            let problem = "records.zone is the time zone of the partner's days: a name such as \
                Asia/Ho_Chi_Minh or UTC";
            self.report(zone.span(), problem);
        }
        parsed
    }

    fn compile_spans(
        &mut self,
        head: &RecordsHeadFile,
        mapped: Option<&RecordsMapping>,
    ) -> RecordsTolerances {
        let grace = self.bounded_or_default(
            "records.grace_s",
            &head.grace_s,
            (3_600, bounds::RECORDS_GRACE_S),
        );
        let cut_off = self.bounded_or_default(
            "records.cut_off_s",
            &head.cut_off_s,
            (1_800, bounds::CUT_OFF_S),
        );
        let tolerance = (300, bounds::TIME_TOLERANCE_S);
        let tolerance =
            self.bounded_or_default("records.time_tolerance_s", &head.time_tolerance_s, tolerance);
        let compared = mapped.and_then(|mapped| match mapped.map.places.paid_at {
            Some(_) => mapped.paid_at_format.as_ref(),
            None => mapped.at_format.as_ref(),
        });
        let is_day = compared.is_some_and(RowTimeFormat::is_day);
        if let Some(set) = head.time_tolerance_s.as_ref().filter(|_| is_day) {
            self.report(
                set.span(),
                "the file has dates only, so times can't be compared; remove it",
            );
        }
        let seconds = |seconds: usize| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        RecordsTolerances {
            grace: seconds(grace),
            cut_off: seconds(cut_off),
            time_tolerance: Some(seconds(tolerance)).filter(|span| !is_day && !span.is_zero()),
        }
    }

    fn compile_tail(&mut self, file: &Spanned<TailFile>) -> Option<TailTemplates> {
        let TailFile { when, lines, row, count, sum } = file.get_ref();
        if when.is_empty() && lines.is_none() {
            let problem = "records.tail needs when (the conditions of its first row) or lines (how \
                many rows it has)";
            self.report(file.span(), problem);
        }
        let lines = self.bounded_or_default("records.tail.lines", lines, (1, TAIL_LINES));
        let rows = Bounds::new(1, lines.clamp(TAIL_LINES.min, TAIL_LINES.max));
        let row = self.bounded_or_default("records.tail.row", row, (1, rows));
        let conditions: Vec<_> =
            when.iter().map(|condition| self.compile_condition(condition)).collect();
        let [count, sum] =
            [count, sum].map(|text| text.as_ref().map(|text| self.parse_template(text)));
        let when = conditions.into_iter().collect::<Option<Vec<_>>>()?;
        // A template that can't be parsed is reported already; the section is dropped.
        let (count, sum) = (
            count.map_or(Some(None), |text| text.map(Some))?,
            sum.map_or(Some(None), |text| text.map(Some))?,
        );
        Some(TailTemplates { when, lines, row, count, sum })
    }
}

/// `[records.tail]` before the plan has numbered its places.
struct TailTemplates {
    when: Vec<crate::scheme::rules::MatchCondition>,
    lines: usize,
    row: usize,
    count: Option<Template>,
    sum: Option<Template>,
}

impl TailTemplates {
    fn planned(&self, plan: &mut ValuePlan) -> TailRule {
        let when = self.when.iter().filter_map(|condition| plan.condition(condition)).collect();
        let count = self.count.as_ref().map(|text| plan.text(text));
        let sum = self.sum.as_ref().map(|text| plan.text(text));
        TailRule { when, lines: self.lines, row: self.row, count, sum }
    }
}

/// The rule of one event with its places numbered; the event's own places come before the map's.
fn rule(plan: &mut ValuePlan, mapped: &RecordsMapping, event: &EventRule) -> RowRule {
    let when = event.when.iter().filter_map(|condition| plan.condition(condition)).collect();
    let values = match event.outcome {
        EventOutcome::Status(_) => values(plan, mapped, &event.places),
        EventOutcome::Ignore | EventOutcome::NoOrder | EventOutcome::Refuse => None,
    };
    RowRule { when, outcome: event.outcome, why: checks::why(event), values }
}

fn values(plan: &mut ValuePlan, mapped: &RecordsMapping, own: &ValuePlaces) -> Option<RowValues> {
    let all = &mapped.map.places;
    let mut text = |own: &Option<Template>, all: &Option<Template>| {
        own.as_ref().or(all.as_ref()).map(|template| plan.text(template))
    };
    Some(RowValues {
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
