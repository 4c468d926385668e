//! Owns the reading of a profile section by section, so that a mistake in one hides none in
//! another.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::call::{CallFile, CallHeadFile};
use super::create::CreateFile;
use super::oauth::{GrantFile, OauthFile};
use super::query::QueryFile;
use super::records::RecordsFile;
use crate::profile::mistake::ProfileMistake;
use crate::scheme::file::scheme_file::SchemeFile;
use crate::scheme::file::tables::HeadFile;

/// The sections that only a custom scheme has. A file with one of them is a custom scheme.
pub(in crate::scheme) const CUSTOM_SECTIONS: [&str; 4] = ["map", "sign", "notice", "event"];

/// Whether a file is a custom scheme rather than the default scheme.
pub(crate) fn is_custom_scheme(text: &str) -> bool {
    DeTable::parse(text).is_ok_and(|table| {
        let table = table.get_ref();
        CUSTOM_SECTIONS.iter().any(|name| table.contains_key(*name))
    })
}

/// Reads every section, and returns the mistakes.
pub(in crate::scheme) fn read(text: &str) -> (SchemeFile, Vec<ProfileMistake>) {
    let mut sections = match DeTable::parse(text) {
        Ok(table) => {
            Sections { wrong: Vec::new(), head: DeTable::new(), table: table.into_inner() }
        }
        Err(error) => return (SchemeFile::default(), vec![of_toml(&error)]),
    };
    let file = SchemeFile {
        limits: sections.one("limits"),
        notice: sections.one("notice"),
        constants: sections.one("constants").unwrap_or_default(),
        documents: sections.all("document"),
        items: sections.one("items"),
        pairs: sections.all("pairs"),
        texts: sections.all("text"),
        key: sections.one("key"),
        signs: sections.all("sign"),
        require: sections.all("require"),
        fields: sections.all("field"),
        map: sections.one("map"),
        events: sections.all("event"),
        time: sections.one("time"),
        acks: sections.one("acks").unwrap_or_default(),
        query: sections.query(),
        records: sections.records(),
        create: sections.create(),
        oauth: sections.oauth(),
        head: None,
    };
    let head = sections.head();
    (SchemeFile { head, ..file }, sections.wrong)
}

/// Reads `[records]` of a default-scheme profile.
pub(in crate::scheme) fn records(text: &str) -> (Option<RecordsFile>, Vec<ProfileMistake>) {
    let Ok(table) = DeTable::parse(text) else { return (None, Vec::new()) };
    let (wrong, head) = (Vec::new(), DeTable::new());
    let mut sections = Sections { table: table.into_inner(), head, wrong };
    (sections.records(), sections.wrong)
}

struct Sections<'i> {
    table: DeTable<'i>,
    head: DeTable<'i>,
    wrong: Vec<ProfileMistake>,
}

impl<'i> Sections<'i> {
    fn one<T: DeserializeOwned>(&mut self, name: &str) -> Option<T> {
        let value = self.table.remove(name)?;
        self.part(name, value)
    }

    /// Reads a section. A list is refused: serde would read its values as the section's fields.
    fn part<T: DeserializeOwned>(&mut self, name: &str, value: Spanned<DeValue<'i>>) -> Option<T> {
        if matches!(value.get_ref(), DeValue::Table(_)) {
            return self.read(value);
        }
        let problem = format!("{name} is a section; write [{name}]");
        self.wrong.push(ProfileMistake { span: value.span(), problem });
        None
    }

    fn all<T: DeserializeOwned>(&mut self, name: &str) -> Vec<T> {
        self.table.remove(name).map_or_else(Vec::new, |value| self.list(name, value))
    }

    fn list<T: DeserializeOwned>(&mut self, name: &str, value: Spanned<DeValue<'i>>) -> Vec<T> {
        let span = value.span();
        match value.into_inner() {
            DeValue::Array(items) => {
                items.into_iter().filter_map(|item| self.part(name, item)).collect()
            }
            _ => {
                let problem = format!("{name} is a list; write [[{name}]]");
                self.wrong.push(ProfileMistake { span, problem });
                Vec::new()
            }
        }
    }

    /// Reads `[query]` with its parts.
    fn query(&mut self) -> Option<QueryFile> {
        let (span, mut table) = self.section("query")?;
        let map = table.remove("map").and_then(|value| self.part("query.map", value));
        let events = table.remove("event");
        let events = events.map_or_else(Vec::new, |value| self.list("query.event", value));
        let call = self.call("query", span.clone(), &mut table);
        let head = self.rest(span, table);
        Some(QueryFile { call: call?, head: head?, map, events })
    }

    /// Reads `[create]` with its parts.
    fn create(&mut self) -> Option<CreateFile> {
        let (span, mut table) = self.section("create")?;
        let answer = table.remove("answer").map(|value| self.part("create.answer", value));
        let call = self.call("create", span.clone(), &mut table);
        let head = self.rest(span, table);
        // An answer that can't be read is reported already, so it does not count as missing.
        let answer = answer.map_or(Some(None), |answer| answer.map(Some));
        Some(CreateFile { call: call?, head: head?, answer: answer? })
    }

    /// Reads `[oauth]` with its parts.
    fn oauth(&mut self) -> Option<OauthFile> {
        let (span, mut table) = self.section("oauth")?;
        let answer = table.remove("answer").map(|value| self.part("oauth.answer", value));
        let call = self.call("oauth", span.clone(), &mut table);
        let head = self.rest(span, table);
        let answer = answer.unwrap_or_else(|| Some(GrantFile::default()));
        Some(OauthFile { call: call?, head: head?, answer: answer? })
    }

    fn section(&mut self, name: &str) -> Option<(Range<usize>, DeTable<'i>)> {
        let value = self.table.remove(name)?;
        let span = value.span();
        if let DeValue::Table(table) = value.into_inner() {
            return Some((span, table));
        }
        self.wrong
            .push(ProfileMistake { span, problem: format!("{name} is a section; write [{name}]") });
        None
    }

    /// Takes the keys of the call out of a section and reads them.
    fn call(
        &mut self,
        name: &str,
        span: Range<usize>,
        table: &mut DeTable<'i>,
    ) -> Option<CallFile> {
        let part = |part: &str| format!("{name}.{part}");
        let sign = table.remove("sign").map(|value| self.part(&part("sign"), value));
        let fields = table.remove("fields").map(|value| self.part(&part("fields"), value));
        let texts = table.remove("text");
        let texts = texts.map_or_else(Vec::new, |value| self.list(&part("text"), value));
        let pairs = table.remove("pairs");
        let pairs = pairs.map_or_else(Vec::new, |value| self.list(&part("pairs"), value));
        let mut head = DeTable::new();
        for key in CallHeadFile::KEYS {
            if let Some((key, value)) = table.remove_entry(key) {
                head.insert(key, value);
            }
        }
        let head = self.read(Spanned::new(span.clone(), DeValue::Table(head)))?;
        let sign = sign.map_or(Some(None), |sign: Option<_>| sign.map(Some))?;
        let fields = fields.unwrap_or_else(|| Some(BTreeMap::new()))?;
        Some(CallFile { span, head, fields, texts, pairs, sign })
    }

    /// Reads the rest of a section, after the call was taken out of it.
    fn rest<T: DeserializeOwned>(&mut self, span: Range<usize>, table: DeTable<'i>) -> Option<T> {
        let before = self.wrong.len();
        let read = self.read(Spanned::new(span, DeValue::Table(table)));
        for wrong in &mut self.wrong[before..] {
            if wrong.problem.starts_with("unknown field") {
                let keys = CallHeadFile::KEYS.map(|key| format!("`{key}`")).join(", ");
                wrong.problem.push_str(&format!("; and those of the call: {keys}"));
            }
        }
        read
    }

    /// Reads `[records]` with its parts.
    fn records(&mut self) -> Option<RecordsFile> {
        let value = self.table.remove("records")?;
        let span = value.span();
        let DeValue::Table(mut table) = value.into_inner() else {
            let problem = "records is a section; write [records]".to_owned();
            self.wrong.push(ProfileMistake { span, problem });
            return None;
        };
        let (map, events) = (table.remove("map"), table.remove("event"));
        let (has_map, has_events) = (map.is_some(), events.is_some());
        let map = map.and_then(|value| self.part("records.map", value));
        let tail = table.remove("tail").and_then(|value| self.part("records.tail", value));
        let events = events.map_or_else(Vec::new, |value| self.list("records.event", value));
        let head = self.read(Spanned::new(span.clone(), DeValue::Table(table)));
        Some(RecordsFile { span, head, map, tail, events, has_map, has_events })
    }

    fn read<T: DeserializeOwned>(&mut self, value: Spanned<DeValue<'i>>) -> Option<T> {
        let span = value.span();
        match T::deserialize(ValueDeserializer::from(value)) {
            Ok(section) => Some(section),
            Err(error) => {
                let span = error.span().unwrap_or(span);
                self.wrong.push(ProfileMistake { span, problem: error.message().to_owned() });
                None
            }
        }
    }

    /// Reads the keys before the first section, and reports unknown sections.
    fn head(&mut self) -> Option<HeadFile> {
        let rest = std::mem::take(&mut self.table);
        for (name, value) in rest {
            let is_section = matches!(value.get_ref(), DeValue::Table(_) | DeValue::Array(_))
                && !matches!(name.get_ref(), Cow::Borrowed("exceptions" | "placeholder_refs"));
            if is_section {
                let problem = format!(
                    "there is no section {}; there are limits, notice, constants, document, items, \
                     pairs, text, key, sign, require, field, map, event, time, acks, query, \
                     create, oauth, records",
                    name.get_ref()
                );
                self.wrong.push(ProfileMistake { span: name.span(), problem });
            } else {
                self.head.insert(name, value);
            }
        }
        let head = std::mem::take(&mut self.head);
        self.read(Spanned::new(0..0, DeValue::Table(head)))
    }
}

fn of_toml(error: &toml::de::Error) -> ProfileMistake {
    ProfileMistake { span: error.span().unwrap_or(0..0), problem: error.message().to_owned() }
}
