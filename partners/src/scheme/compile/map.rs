//! Owns the second half of compiling a profile: where values stand, which event is which, times and answers.

use std::collections::BTreeMap;

use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;
use toml::Spanned;

use super::{Compiler, RECORDS};
use crate::scheme::ack::{Ack, AckBody, AckRule, Acks};
use crate::scheme::amount::AmountRule;
use crate::scheme::call::mentions;
use crate::scheme::clock::{Format, Zone};
use crate::scheme::file::{AckFile, ConditionFile, EventFile, MapFile, Text, TimeFile};
use crate::scheme::template::{Source, Template};
use crate::scheme::{Condition, EventRule, MapRule, Outcome, Places, Test};

impl Compiler {
    pub(in crate::scheme) fn map(&mut self, file: &MapFile) -> MapRule {
        let merchant = file.merchant.as_ref().and_then(|text| self.template(text));
        let MapFile { order, provider_ref, amount, currency, paid_at, event, nonce, .. } = file;
        let places = self.places([order, provider_ref, amount, currency, paid_at, event, nonce]);
        let span = file.currency.as_ref().or(file.amount.as_ref()).map_or(0..0, Spanned::span);
        for (code, digits) in &file.exponents {
            if Currency::parse(code).is_err() || *digits > 4 {
                self.wrong(
                    span.clone(),
                    format!("exponents.{code} must be a currency of ISO 4217 and 0 to 4 digits"),
                );
            }
        }
        for (word, code) in &file.currencies {
            if Currency::parse(code).is_err() {
                self.wrong(
                    span.clone(),
                    format!("currencies.{word} must be a currency of ISO 4217"),
                );
            }
        }
        // Where only events say when it was paid, the format is theirs.
        let paid_at_format = match file.paid_at.as_ref().or(file.paid_at_format.as_ref()) {
            None => Format::Rfc3339,
            Some(at) => self
                .format(at, (&file.paid_at_format, &file.paid_at_zone))
                .unwrap_or(Format::Rfc3339),
        };
        MapRule {
            merchant,
            places,
            amount: AmountRule { unit: file.amount_unit, exponents: file.exponents.clone() },
            currencies: file.currencies.clone(),
            paid_at_format,
        }
    }

    /// Where order, ref, amount, currency, time of payment, event and nonce stand.
    fn places(&mut self, texts: [&Option<Text>; 7]) -> Places {
        let places = texts.map(|text| text.as_ref().and_then(|text| self.template(text)));
        let [order, provider_ref, amount, currency, paid_at, event, nonce] = places;
        Places { order, provider_ref, amount, currency, paid_at, event, nonce }
    }

    /// An event that says when it was paid says it in the format of the map.
    pub(super) fn formats_of_events(&mut self, map: &MapFile, events: &[EventFile]) {
        let places = events.iter().filter_map(|event| event.paid_at.as_ref());
        for at in places.filter(|_| map.paid_at.is_none() && map.paid_at_format.is_none()) {
            self.wrong(at.span(), "a time needs a format; write paid_at_format into [map]");
        }
    }

    pub(in crate::scheme) fn event(&mut self, file: &EventFile) -> Option<EventRule> {
        let outcome = match file.outcome.get_ref().as_str() {
            "ignore" => Outcome::Ignore,
            "keep" if self.section != RECORDS => Outcome::Keep,
            "refuse" => Outcome::Refuse,
            word => match Status::parse(word) {
                Some(status) => Outcome::Status(status),
                None => {
                    let others = if self.section == RECORDS { "ignore" } else { "ignore, keep" };
                    let problem = format!(
                        "event.outcome is SUCCESS, FAILED, EXPIRED, REFUNDED, {others} or refuse"
                    );
                    self.wrong(file.outcome.span(), problem);
                    return None;
                }
            },
        };
        let when = file.when.iter().filter_map(|condition| self.condition(condition)).collect();
        let EventFile { order, provider_ref, amount, currency, paid_at, event, nonce, .. } = file;
        let places = self.places([order, provider_ref, amount, currency, paid_at, event, nonce]);
        Some(EventRule { span: file.outcome.span(), when, outcome, places })
    }

    pub(super) fn condition(&mut self, file: &Spanned<ConditionFile>) -> Option<Condition> {
        let ConditionFile { value, is, is_not, one_of, none_of, starts_with, present } =
            file.get_ref();
        let value = self.token(value)?;
        let mut tests = Vec::new();
        tests.extend(is.clone().map(Test::Is));
        tests.extend(is_not.clone().map(Test::IsNot));
        tests.extend(one_of.clone().map(Test::OneOf));
        tests.extend(none_of.clone().map(Test::NoneOf));
        tests.extend(starts_with.clone().map(Test::StartsWith));
        tests.extend(present.map(|present| if present { Test::Present } else { Test::Absent }));
        match (tests.pop(), tests.pop()) {
            (Some(test), None) if test.names_nothing() => {
                let problem =
                    "nothing and an empty text are the same; write present = false (or true)";
                self.wrong(file.span(), problem);
                None
            }
            (Some(test), None) => Some(Condition { value, test }),
            _ => {
                let problem =
                    "a condition has one of is, is_not, one_of, none_of, starts_with, present";
                self.wrong(file.span(), problem);
                None
            }
        }
    }

    pub(in crate::scheme) fn time(
        &mut self,
        time: &Spanned<TimeFile>,
    ) -> Option<(Template, Format)> {
        let TimeFile { value, format, zone, .. } = time.get_ref();
        let value = value.as_ref()?;
        let format = self.format(value, (format, zone))?;
        Some((self.template(value)?, format))
    }

    /// How a time is written: `rfc3339`, `unix_s`, `unix_ms`, or a pattern and its zone.
    pub(super) fn format(
        &mut self,
        at: &Text,
        (format, zone): (&Option<Text>, &Option<Text>),
    ) -> Option<Format> {
        let Some(written) = format else {
            self.wrong(
                at.span(),
                "a time needs a format: rfc3339, unix_s, unix_ms or a pattern such as %Y%m%d%H%M%S",
            );
            return None;
        };
        let simple = match written.get_ref().as_str() {
            "rfc3339" => Some(Format::Rfc3339),
            "unix_s" => Some(Format::UnixSeconds),
            "unix_ms" => Some(Format::UnixMilliseconds),
            _ => None,
        };
        if let (Some(_), Some(zone)) = (&simple, zone) {
            self.wrong(zone.span(), "a zone is for patterns; remove it");
        }
        if simple.is_some() {
            return simple;
        }
        let pattern = written.get_ref().clone();
        let says_zone =
            pattern.contains("%z") || pattern.contains("%:z") || pattern.contains("%#z");
        let is_pattern = pattern.contains('%')
            && !chrono::format::StrftimeItems::new(&pattern)
                .any(|item| matches!(item, chrono::format::Item::Error));
        let zone = match zone {
            _ if !is_pattern => {
                self.wrong(
                    written.span(),
                    "a format is rfc3339, unix_s, unix_ms or a pattern such as %Y%m%d%H%M%S",
                );
                return None;
            }
            None if says_zone => Zone::InText,
            Some(zone) if !says_zone => match Zone::parse(zone.get_ref()) {
                Some(zone) => zone,
                None => {
                    self.wrong(
                        zone.span(),
                        "a zone is an offset such as +07:00 or a name such as Asia/Ho_Chi_Minh",
                    );
                    return None;
                }
            },
            None | Some(_) => {
                self.wrong(
                    written.span(),
                    "a pattern needs a zone beside it, or %z in it, not both",
                );
                return None;
            }
        };
        Some(Format::Pattern(pattern, zone))
    }

    pub(in crate::scheme) fn acks(&mut self, files: &BTreeMap<String, AckFile>) -> Acks {
        let mut acks = Acks::default();
        for (name, file) in files {
            let Some(ack) = Ack::ALL.into_iter().find(|ack| ack.name() == name) else {
                let known: Vec<_> = Ack::ALL.iter().map(|ack| ack.name()).collect();
                self.wrong(
                    file.status.span(),
                    format!("there is no answer {name}; there are: {}", known.join(", ")),
                );
                continue;
            };
            acks.rules[ack as usize] = self.ack(file);
        }
        acks
    }

    fn ack(&mut self, file: &AckFile) -> Option<AckRule> {
        let status = *file.status.get_ref();
        if !(200..=599).contains(&status) {
            self.wrong(file.status.span(), "an answer's status is 200 to 599");
        }
        let body = match (&file.body, &file.template) {
            (Some(_), Some(template)) => {
                self.wrong(template.span(), "an answer has a body or a template, not both");
                return None;
            }
            (_, Some(template)) => {
                let written = self.template(template)?;
                if mentions(&written, &Source::Secret) {
                    self.wrong(template.span(), "the secret is nothing the partner is told");
                }
                AckBody::Template(written)
            }
            (body, None) => AckBody::Fixed(body.clone().unwrap_or_default()),
        };
        Some(AckRule { status, content_type: file.content_type.clone(), body })
    }
}
