//! Owns compiling `[map]`, `[[event]]`, `[time]` and `[acks]`: where values are read, which notice
//! is which event, and answers.

use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;

use crate::profile::bounds::{ACK_STATUS, EXPONENT};
use crate::profile::spanned::Spanned;
use crate::scheme::ack::{AckBody, AckKind, AckRule, AckRules};
use crate::scheme::amount::AmountRule;
use crate::scheme::call::rule::names_source;
use crate::scheme::clock::TimeFormat;
use crate::scheme::compile::compiler::{ProfileCompiler, RECORDS};
use crate::scheme::file::tables::{
    AckFile, AcksFile, ConditionFile, EventFile, MapFile, SpannedText, TimeFile,
};
use crate::scheme::rules::{
    ConditionTest, EventOutcome, EventRule, MapRule, MatchCondition, ValuePlaces,
};
use crate::scheme::template::{Template, TokenSource};

impl ProfileCompiler {
    pub(in crate::scheme) fn compile_map(&mut self, file: &MapFile) -> MapRule {
        let merchant = file.merchant.as_ref().and_then(|text| self.parse_template(text));
        let MapFile { order, provider_ref, amount, currency, paid_at, event, nonce, .. } = file;
        let places =
            self.parse_places([order, provider_ref, amount, currency, paid_at, event, nonce]);
        let span = file.currency.as_ref().or(file.amount.as_ref()).map_or(0..0, Spanned::span);
        for (code, digits) in &file.exponents {
            if Currency::parse(code).is_err() || !EXPONENT.contain(*digits) {
                self.report(
                    span.clone(),
                    format!(
                        "exponents.{code} must be a currency of ISO 4217 and {EXPONENT} digits"
                    ),
                );
            }
        }
        for (word, code) in &file.currencies {
            if Currency::parse(code).is_err() {
                self.report(
                    span.clone(),
                    format!("currencies.{word} must be a currency of ISO 4217"),
                );
            }
        }
        // If only events map paid_at, paid_at_format still applies to them.
        let paid_at_format = match file.paid_at.as_ref().or(file.paid_at_format.as_ref()) {
            None => TimeFormat::Rfc3339,
            Some(at) => self
                .parse_moment_format(at, (&file.paid_at_format, &file.paid_at_zone))
                .unwrap_or(TimeFormat::Rfc3339),
        };
        MapRule {
            merchant,
            places,
            amount: AmountRule { unit: file.amount_unit, exponents: file.exponents.clone() },
            currencies: file.currencies.clone(),
            paid_at_format,
            refunds: file.refunds.as_ref().map(|refunds| *refunds.get_ref()).unwrap_or_default(),
        }
    }

    /// Parses the templates of order, ref, amount, currency, paid_at, event and nonce.
    fn parse_places(&mut self, texts: [&Option<SpannedText>; 7]) -> ValuePlaces {
        let places = texts.map(|text| text.as_ref().and_then(|text| self.parse_template(text)));
        let [order, provider_ref, amount, currency, paid_at, event, nonce] = places;
        ValuePlaces { order, provider_ref, amount, currency, paid_at, event, nonce }
    }

    /// Checks that an event with its own `paid_at` has a format in `[map]`.
    pub(super) fn check_event_formats(&mut self, map: &MapFile, events: &[EventFile]) {
        let places = events.iter().filter_map(|event| event.paid_at.as_ref());
        for at in places.filter(|_| map.paid_at.is_none() && map.paid_at_format.is_none()) {
            self.report(at.span(), "a time needs a format; write paid_at_format into [map]");
        }
    }

    pub(in crate::scheme) fn compile_event(&mut self, file: &EventFile) -> Option<EventRule> {
        let outcome = match file.outcome.get_ref().as_str() {
            "ignore" => EventOutcome::Ignore,
            // Profiles of the first build call it `keep`.
            "no_order" | "keep" if self.section != RECORDS => EventOutcome::NoOrder,
            "refuse" => EventOutcome::Refuse,
            word => match Status::parse(word) {
                Some(status) => EventOutcome::Status(status),
                None => {
                    let others =
                        if self.section == RECORDS { "ignore" } else { "ignore, no_order" };
                    let problem = format!(
                        "event.outcome is SUCCESS, FAILED, EXPIRED, REFUNDED, {others} or refuse"
                    );
                    self.report(file.outcome.span(), problem);
                    return None;
                }
            },
        };
        let when =
            file.when.iter().filter_map(|condition| self.compile_condition(condition)).collect();
        let EventFile { order, provider_ref, amount, currency, paid_at, event, nonce, .. } = file;
        let places =
            self.parse_places([order, provider_ref, amount, currency, paid_at, event, nonce]);
        Some(EventRule { span: file.outcome.span(), when, outcome, places })
    }

    pub(super) fn compile_condition(
        &mut self,
        file: &Spanned<ConditionFile>,
    ) -> Option<MatchCondition> {
        let ConditionFile { value, is, is_not, one_of, none_of, starts_with, present } =
            file.get_ref();
        let value = self.parse_token(value)?;
        let mut tests = Vec::new();
        tests.extend(is.clone().map(ConditionTest::Is));
        tests.extend(is_not.clone().map(ConditionTest::IsNot));
        tests.extend(one_of.clone().map(ConditionTest::OneOf));
        tests.extend(none_of.clone().map(ConditionTest::NoneOf));
        tests.extend(starts_with.clone().map(ConditionTest::StartsWith));
        tests.extend(
            present.map(
                |present| if present { ConditionTest::Present } else { ConditionTest::Absent },
            ),
        );
        match (tests.pop(), tests.pop()) {
            (Some(test), None) if test.names_nothing() => {
                let problem =
                    "nothing and an empty text are the same; write present = false (or true)";
                self.report(file.span(), problem);
                None
            }
            (Some(test), None) => Some(MatchCondition { value, test }),
            _ => {
                let problem =
                    "a condition has one of is, is_not, one_of, none_of, starts_with, present";
                self.report(file.span(), problem);
                None
            }
        }
    }

    pub(in crate::scheme) fn compile_time(
        &mut self,
        time: &Spanned<TimeFile>,
    ) -> Option<(Template, TimeFormat)> {
        let TimeFile { value, format, zone, .. } = time.get_ref();
        let value = value.as_ref()?;
        let format = self.parse_moment_format(value, (format, zone))?;
        Some((self.parse_template(value)?, format))
    }

    pub(in crate::scheme) fn compile_acks(&mut self, file: &AcksFile) -> AckRules {
        let mut acks = AckRules::default();
        for ack in AckKind::ALL {
            let file = match ack {
                AckKind::Accepted => &file.accepted,
                AckKind::Ignored => &file.ignored,
                AckKind::BadSignature => &file.bad_signature,
                AckKind::NotAdmissible => &file.not_admissible,
                AckKind::Stale => &file.stale,
                AckKind::Unavailable => &file.unavailable,
            };
            acks.rules[ack as usize] = file.as_ref().and_then(|file| self.compile_ack(file));
        }
        acks
    }

    fn compile_ack(&mut self, file: &AckFile) -> Option<AckRule> {
        let status = *file.status.get_ref();
        if !ACK_STATUS.contain(status) {
            self.report(file.status.span(), format!("an answer's status is {ACK_STATUS}"));
        }
        let body = match (&file.body, &file.template) {
            (Some(_), Some(template)) => {
                self.report(template.span(), "an answer has a body or a template, not both");
                return None;
            }
            (_, Some(template)) => {
                let written = self.parse_template(template)?;
                if names_source(&written, &TokenSource::Secret) {
                    self.report(template.span(), "an answer must not hold the secret");
                }
                AckBody::Template(written)
            }
            (body, None) => AckBody::Fixed(body.clone().unwrap_or_default()),
        };
        Some(AckRule { status, content_type: file.content_type.clone(), body })
    }
}
