//! Owns what must hold of `[records]` as a whole: every line is of some kind, every entry has its values and finds an
//! order, and only what a line says stands in a place.

use payfold_schemas::ipn::Status;
use toml::Spanned;

use super::{Mapped, statuses};
use crate::records::MatchBy;
use crate::records::plan::{NUMBERED, Names, Plan};
use crate::records::spec::{Header, Shape};
use crate::scheme::compile::Compiler;
use crate::scheme::file::records::{MatchFile, RecordsFile, RecordsHeadFile};
use crate::scheme::file::{EventFile, Text};
use crate::scheme::template::{Source, Template, Token};
use crate::scheme::{EventRule, Outcome, Test};

impl Compiler {
    /// Holds every place of the section to what a line has: columns with names or numbers, or an object.
    pub(super) fn places_of(&mut self, file: &RecordsFile, shape: Option<&Shape>) {
        let mut texts: Vec<&Text> = Vec::new();
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
                self.wrong(nonce.span(), "an entry has no nonce; remove it");
            }
        }
        if let Some(tail) = file.tail.as_ref().map(Spanned::get_ref) {
            texts.extend([&tail.count, &tail.sum].into_iter().flatten());
            texts.extend(tail.when.iter().map(|condition| &condition.get_ref().value));
        }
        for text in texts {
            // What is no template is told elsewhere.
            let Ok(template) = Template::parse(text.get_ref(), &self.names) else { continue };
            let problem = template.tokens().into_iter().find_map(|token| of_line(token, shape));
            if let Some(problem) = problem {
                self.wrong(text.span(), problem);
            }
        }
    }

    /// The last event has no condition, no other has none, and one of them says a status.
    pub(super) fn kinds_of(&mut self, file: &RecordsFile, events: &[EventRule]) {
        for (at, event) in events.iter().enumerate() {
            let is_last = at + 1 == events.len();
            if event.when.is_empty() && !is_last {
                let problem = "it has no when, so those behind it are never reached";
                self.wrong(event.span.clone(), problem);
            }
            if is_last && !event.when.is_empty() {
                let problem = "the last [[records.event]] must have no when: say what becomes of all other lines, best outcome = \"refuse\" or \"ignore\"";
                self.wrong(event.span.clone(), problem);
            }
        }
        if statuses(events).next().is_none() {
            let problem =
                "no [[records.event]] has a status as its outcome, so the file would say nothing";
            self.wrong(file.span.clone(), problem);
        }
    }

    /// Every entry has a place for each value.
    pub(super) fn values_of(&mut self, file: &RecordsFile, mapped: &Mapped, events: &[EventRule]) {
        let all = &mapped.map.places;
        let entries = events.iter().filter(|event| matches!(event.outcome, Outcome::Status(_)));
        for event in entries {
            let own = &event.places;
            // One that could not be read is told already.
            let map = file.map.as_ref();
            let is_written = |text: Option<&Option<Text>>| text.is_some_and(Option::is_some);
            for (name, is_there) in [
                ("amount", own.amount.is_some() || is_written(map.map(|map| &map.amount))),
                ("currency", own.currency.is_some() || is_written(map.map(|map| &map.currency))),
            ] {
                if !is_there {
                    let problem = format!(
                        "its lines have no place for {name}; add {name} to it or to [records.map] (a text without braces is a constant)"
                    );
                    self.wrong(event.span.clone(), problem);
                }
            }
            if own.paid_at.is_some() && all.paid_at.is_none() {
                let problem =
                    "paid_at of one kind alone has no format; write paid_at into [records.map]";
                self.wrong(event.span.clone(), problem);
            }
        }
    }

    /// Which statuses the file lists.
    pub(super) fn lists(&mut self, head: &RecordsHeadFile, events: &[EventRule]) -> Vec<Status> {
        let told: Vec<Status> = statuses(events).collect();
        let Some(lists) = &head.lists else {
            let both = [Status::Success, Status::Refunded];
            return both.into_iter().filter(|status| told.contains(status)).collect();
        };
        let mut listed = Vec::new();
        for word in lists.get_ref() {
            match Status::parse(word.get_ref()) {
                None => {
                    let problem = "records.lists takes SUCCESS, FAILED, EXPIRED and REFUNDED";
                    self.wrong(word.span(), problem);
                }
                Some(status) if !told.contains(&status) => {
                    let problem = format!(
                        "no [[records.event]] has outcome = \"{status}\", so none is listed"
                    );
                    self.wrong(word.span(), problem);
                }
                Some(status) if listed.contains(&status) => {
                    self.wrong(word.span(), format!("{status} is listed twice; keep one"));
                }
                Some(status) => listed.push(status),
            }
        }
        if lists.get_ref().is_empty() {
            self.wrong(lists.span(), "records.lists is empty, so nothing could be missing there");
        }
        listed
    }

    /// By what entries find their orders: every one of them must.
    pub(super) fn match_by(
        &mut self,
        head: &RecordsHeadFile,
        mapped: &Mapped,
        events: &[EventRule],
    ) -> Option<MatchBy> {
        let all = &mapped.map.places;
        let entries = || events.iter().filter(|event| matches!(event.outcome, Outcome::Status(_)));
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
        self.wrong(span, problem);
        None
    }
}

/// Why a token can't stand in a place of a line; `None` if it can.
fn of_line(token: &Token, shape: Option<&Shape>) -> Option<String> {
    let written = &token.written;
    let names = match shape {
        Some(Shape::Jsonl) => Names::InObjects,
        Some(Shape::Csv { .. }) | None => Names::OfColumns,
    };
    if Plan::new(names).place(token).is_none() {
        let problem = match (&token.source, names) {
            (Source::Field(NUMBERED, _), Names::OfColumns) => {
                format!("{written}: columns are counted from 1; write {{n.3}} for the third")
            }
            (_, Names::OfColumns) => {
                format!("{written} is nothing a line says; write {{r.NAME}} or {{n.3}}")
            }
            (_, Names::InObjects) => {
                format!("{written} is nothing a line says; write {{r.PATH}}")
            }
        };
        return Some(problem);
    }
    let Some(Shape::Csv { header: Header::Columns(count), .. }) = shape else { return None };
    match &token.source {
        Source::Field(NUMBERED, path) => {
            let number = path.first().and_then(|number| number.parse::<usize>().ok());
            let is_over = number.is_none_or(|number| number > *count);
            is_over.then(|| format!("{written}: records.columns says there are {count}"))
        }
        _ => Some(format!("{written}: there is no header to find it in; write {{n.3}}")),
    }
}

/// What rows of a kind are known by, for people.
pub(super) fn why(event: &EventRule) -> String {
    let each = event.when.iter().map(|condition| {
        let place = &condition.value.written;
        match &condition.test {
            Test::Is(wanted) => format!("{place} is {wanted:?}"),
            Test::IsNot(wanted) => format!("{place} is not {wanted:?}"),
            Test::OneOf(wanted) => format!("{place} is one of {wanted:?}"),
            Test::NoneOf(wanted) => format!("{place} is none of {wanted:?}"),
            Test::StartsWith(start) => format!("{place} starts with {start:?}"),
            Test::Present => format!("{place} is there"),
            Test::Absent => format!("{place} is not there"),
        }
    });
    let why = each.collect::<Vec<_>>().join(", ");
    if why.is_empty() { "no other kind".to_owned() } else { why }
}
