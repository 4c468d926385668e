//! Owns the checks of `[records]` as a whole: every line matches an event, every entry has its
//! values and finds its order, and a place names only what a line holds.

use payfold_schemas::ipn::Status;

use crate::profile::spanned::Spanned;
use crate::records::plan::{NUMBERED, NameScope, ValuePlan};
use crate::records::spec::{CsvHeader, FileFormat};
use crate::records::types::MatchBy;
use crate::scheme::compile::compiler::ProfileCompiler;
use crate::scheme::compile::records::mapped::{RecordsMapping, statuses};
use crate::scheme::file::records::{MatchFile, RecordsFile, RecordsHeadFile};
use crate::scheme::file::tables::{EventFile, SpannedText};
use crate::scheme::rules::{ConditionTest, EventOutcome, EventRule};
use crate::scheme::template::{Template, TemplateToken, TokenSource};

impl ProfileCompiler {
    /// Checks that every place of the section names what a line has: a named or numbered column, or
    /// a path in an object.
    pub(super) fn check_places(&mut self, file: &RecordsFile, shape: Option<&FileFormat>) {
        let mut texts: Vec<&SpannedText> = Vec::new();
        if let Some(map) = &file.map {
            let places = [&map.merchant, &map.order, &map.provider_ref, &map.amount, &map.currency];
            texts.extend(places.into_iter().chain([&map.paid_at, &map.event]).flatten());
            texts.push(&map.at);
        }
        for EventFile {
            when, order, provider_ref, amount, currency, paid_at, event, nonce, ..
        } in &file.events
        {
            let places = [order, provider_ref, amount, currency, paid_at, event];
            texts.extend(places.into_iter().flatten());
            texts.extend(when.iter().map(|condition| &condition.get_ref().value));
            if let Some(nonce) = nonce {
                self.report(nonce.span(), "an entry has no nonce; remove it");
            }
        }
        if let Some(tail) = file.tail.as_ref().map(Spanned::get_ref) {
            texts.extend([&tail.count, &tail.sum].into_iter().flatten());
            texts.extend(tail.when.iter().map(|condition| &condition.get_ref().value));
        }
        for text in texts {
            // A template that can't be parsed is reported where it is compiled.
            let Ok(template) = Template::parse(text.get_ref(), &self.names) else { continue };
            let problem = template.tokens().into_iter().find_map(|token| of_line(token, shape));
            if let Some(problem) = problem {
                self.report(text.span(), problem);
            }
        }
    }

    /// Checks that only the last event has no condition, and that some event has a status.
    pub(super) fn check_event_order(&mut self, file: &RecordsFile, events: &[EventRule]) {
        for (at, event) in events.iter().enumerate() {
            let is_last = at + 1 == events.len();
            if event.when.is_empty() && !is_last {
                let problem = "it has no when, so the events after it are never reached";
                self.report(event.span.clone(), problem);
            }
            if is_last && !event.when.is_empty() {
                let problem = "the last [[records.event]] must have no when: it applies to all \
                    other lines, best with outcome = \"refuse\" or \"ignore\"";
                self.report(event.span.clone(), problem);
            }
        }
        if statuses(events).next().is_none() {
            let problem = "no [[records.event]] has a status as its outcome, so the file would \
                have no entries";
            self.report(file.span.clone(), problem);
        }
    }

    /// Checks that every event with a status has a place for amount and currency.
    pub(super) fn check_entry_values(
        &mut self,
        file: &RecordsFile,
        mapped: &RecordsMapping,
        events: &[EventRule],
    ) {
        let all = &mapped.map.places;
        let entries =
            events.iter().filter(|event| matches!(event.outcome, EventOutcome::Status(_)));
        for event in entries {
            let own = &event.places;
            // A place that could not be parsed is reported already, so it counts as present here.
            let map = file.map.as_ref();
            let is_written = |text: Option<&Option<SpannedText>>| text.is_some_and(Option::is_some);
            for (name, is_there) in [
                ("amount", own.amount.is_some() || is_written(map.map(|map| &map.amount))),
                ("currency", own.currency.is_some() || is_written(map.map(|map| &map.currency))),
            ] {
                if !is_there {
                    let problem = format!(
                        "its lines have no place for {name}; add {name} to it or to [records.map] \
                         (a text without braces is a constant)"
                    );
                    self.report(event.span.clone(), problem);
                }
            }
            if own.paid_at.is_some() && all.paid_at.is_none() {
                let problem =
                    "paid_at of a single event has no format; write paid_at into [records.map]";
                self.report(event.span.clone(), problem);
            }
        }
    }

    /// Compiles `lists`: the statuses the file lists whenever they happen.
    pub(super) fn compile_lists(
        &mut self,
        head: &RecordsHeadFile,
        events: &[EventRule],
    ) -> Vec<Status> {
        let mapped: Vec<Status> = statuses(events).collect();
        let Some(lists) = &head.lists else {
            let both = [Status::Success, Status::Refunded];
            return both.into_iter().filter(|status| mapped.contains(status)).collect();
        };
        let mut listed = Vec::new();
        for word in lists.get_ref() {
            match Status::parse(word.get_ref()) {
                None => {
                    let problem = "records.lists takes SUCCESS, FAILED, EXPIRED and REFUNDED";
                    self.report(word.span(), problem);
                }
                Some(status) if !mapped.contains(&status) => {
                    let problem = format!(
                        "no [[records.event]] has outcome = \"{status}\", so none is listed"
                    );
                    self.report(word.span(), problem);
                }
                Some(status) if listed.contains(&status) => {
                    self.report(word.span(), format!("{status} is listed twice; keep one"));
                }
                Some(status) => listed.push(status),
            }
        }
        if lists.get_ref().is_empty() {
            self.report(lists.span(), "records.lists is empty, so nothing could be missing there");
        }
        listed
    }

    /// How an entry finds its order. Every entry must be able to.
    pub(super) fn compile_match_by(
        &mut self,
        head: &RecordsHeadFile,
        mapped: &RecordsMapping,
        events: &[EventRule],
    ) -> Option<MatchBy> {
        let all = &mapped.map.places;
        let entries =
            || events.iter().filter(|event| matches!(event.outcome, EventOutcome::Status(_)));
        let have_order = all.order.is_some() || entries().all(|e| e.places.order.is_some());
        let have_ref =
            all.provider_ref.is_some() || entries().all(|e| e.places.provider_ref.is_some());
        let wanted = head.match_by.as_ref().map(|wanted| *wanted.get_ref());
        match wanted {
            None if have_order => return Some(MatchBy::Order),
            Some(MatchFile::Order) if have_order => return Some(MatchBy::Order),
            None | Some(MatchFile::Ref) if have_ref => return Some(MatchBy::Ref),
            None | Some(MatchFile::Order | MatchFile::Ref) => {}
        }
        let span = head.match_by.as_ref().map_or_else(|| head.format.span(), Spanned::span);
        let name = match wanted {
            None => "order or ref",
            Some(MatchFile::Order) => "order",
            Some(MatchFile::Ref) => "ref",
        };
        let problem =
            format!("an entry must find its order: [records.map] has no place for {name}");
        self.report(span, problem);
        None
    }
}

/// Why a token can't be read from a line. `None` if it can.
fn of_line(token: &TemplateToken, shape: Option<&FileFormat>) -> Option<String> {
    let written = &token.written;
    let names = match shape {
        Some(FileFormat::Jsonl) => NameScope::InObjects,
        Some(FileFormat::Csv { .. }) | None => NameScope::OfColumns,
    };
    if ValuePlan::new(names).place(token).is_none() {
        let problem = match (&token.source, names) {
            (TokenSource::Field(NUMBERED, _), NameScope::OfColumns) => {
                format!("{written}: columns are counted from 1; write {{n.3}} for the third")
            }
            (_, NameScope::OfColumns) => {
                format!("{written} is not read from a line; write {{r.NAME}} or {{n.3}}")
            }
            (_, NameScope::InObjects) => {
                format!("{written} is not read from a line; write {{r.PATH}}")
            }
        };
        return Some(problem);
    }
    let Some(FileFormat::Csv { header: CsvHeader::Columns(count), .. }) = shape else {
        return None;
    };
    match &token.source {
        TokenSource::Field(NUMBERED, path) => {
            let number = path.first().and_then(|number| number.parse::<usize>().ok());
            let is_over = number.is_none_or(|number| number > *count);
            is_over.then(|| format!("{written}: records.columns says there are {count}"))
        }
        _ => Some(format!("{written}: there is no header to find it in; write {{n.3}}")),
    }
}

/// Describes the conditions of an event, for people.
pub(super) fn why(event: &EventRule) -> String {
    let each = event.when.iter().map(|condition| {
        let place = &condition.value.written;
        match &condition.test {
            ConditionTest::Is(wanted) => format!("{place} is {wanted:?}"),
            ConditionTest::IsNot(wanted) => format!("{place} is not {wanted:?}"),
            ConditionTest::OneOf(wanted) => format!("{place} is one of {wanted:?}"),
            ConditionTest::NoneOf(wanted) => format!("{place} is none of {wanted:?}"),
            ConditionTest::StartsWith(start) => format!("{place} starts with {start:?}"),
            ConditionTest::Present => format!("{place} is there"),
            ConditionTest::Absent => format!("{place} is not there"),
        }
    });
    let why = each.collect::<Vec<_>>().join(", ");
    if why.is_empty() { "no other kind".to_owned() } else { why }
}
