//! Owns compiling `[query]`: the question and the meaning of its answers. It refuses a question
//! that names no payment, and an event that would end a payment without a condition.

use payfold_schemas::ipn::Status;

use crate::profile::bounds;
use crate::profile::query::{QueryPace, StatusMeaning};
use crate::scheme::call::rule::{AnswerContent, CallRule, ORDER};
use crate::scheme::compile::compiler::ProfileCompiler;
use crate::scheme::compile::lint_mode::LintMode;
use crate::scheme::file::call::AnswerFile;
use crate::scheme::file::query::{QueryEventFile, QueryFile};
use crate::scheme::file::tables::{MapFile, SpannedText};
use crate::scheme::query::rule::{
    AnswerEvent, AnswerRule, ORDER_WITHOUT_REF, REF, SchemeQuery, VALUES,
};
use crate::scheme::rules::{MapRule, ValuePlaces};
use crate::scheme::template::{Template, TokenSource};

impl ProfileCompiler {
    pub(super) fn compile_query(&mut self, file: &QueryFile) -> Option<SchemeQuery> {
        let outer = self.begin_call_names(&VALUES);
        let question = self.compile_question(file);
        self.begin_answer_names();
        let answer = self.compile_answer(file);
        self.names = outer;

        let head = &file.head;
        let timeout_s =
            self.bounded_or_default("query.timeout_s", &head.timeout_s, (10, bounds::TIMEOUT_S));
        let per_s = self.bounded_or_default("query.per_s", &head.per_s, (5, bounds::PER_S));
        let pace = QueryPace {
            at_once: self.bounded_or_default("query.at_once", &head.at_once, (4, bounds::AT_ONCE)),
            per_s: u32::try_from(per_s).unwrap_or(1),
        };
        let timeout_ms = u64::try_from(timeout_s).unwrap_or(1).saturating_mul(1_000);
        Some(SchemeQuery { question: question?, answer: answer?, timeout_ms, pace })
    }

    fn compile_question(&mut self, file: &QueryFile) -> Option<CallRule> {
        let method = self.parse_method("query", &file.call)?;
        let rule = self.compile_call("query", &file.call, method)?;
        let is_asked = [ORDER, REF, ORDER_WITHOUT_REF].iter().any(|value| rule.sends(*value));
        if !is_asked && self.lint == LintMode::Checked {
            self.report(
                file.call.head.path.span(),
                "the question sends neither {order} nor {ref}: it asks about no payment",
            );
        }
        Some(rule)
    }

    fn compile_answer(&mut self, file: &QueryFile) -> Option<AnswerRule> {
        let head = &file.head;
        let bytes = (65_536, bounds::ANSWER_BYTES);
        let bytes_max = self.bounded_or_default("query.answer_bytes", &head.answer_bytes, bytes);
        let not_found = match &head.not_found {
            None => vec![404],
            Some(listed) => {
                let is_other =
                    |s: &u16| !bounds::NOT_FOUND.contain(*s) || [401, 403, 408, 429].contains(s);
                if listed.get_ref().iter().any(is_other) {
                    let problem = format!(
                        "query.not_found takes {}, without 401, 403, 408 and 429",
                        bounds::NOT_FOUND
                    );
                    self.report(listed.span(), problem);
                }
                listed.get_ref().clone()
            }
        };
        let events: Vec<_> =
            file.events.iter().map(|event| self.compile_answer_event(event)).collect();
        let Some(map) = &file.map else {
            self.report(
                file.call.head.path.span(),
                "[query.map] is missing: where the answer holds the values",
            );
            return None;
        };
        let map = self.compile_answer_map(map);
        let events = events.into_iter().collect::<Option<Vec<_>>>()?;
        self.check_events(file, &map, &events);
        let content = match head.answer {
            AnswerFile::Json => AnswerContent::Json,
            AnswerFile::Form => AnswerContent::Form,
        };
        let is_strict = head.strict;
        Some(AnswerRule { content, is_strict, not_found, bytes_max, map, events })
    }

    fn compile_answer_map(&mut self, file: &MapFile) -> MapRule {
        for (name, text) in [
            ("paid_at", &file.paid_at),
            ("paid_at_format", &file.paid_at_format),
            ("paid_at_zone", &file.paid_at_zone),
            ("event", &file.event),
            ("nonce", &file.nonce),
        ] {
            if let Some(text) = text {
                self.report(text.span(), format!("query.map takes no {name}; remove it"));
            }
        }
        if let Some(refunds) = &file.refunds {
            self.report(refunds.span(), "query.map takes no refunds; remove it");
        }
        let places =
            [&file.merchant, &file.order, &file.provider_ref, &file.amount, &file.currency];
        for text in places.into_iter().flatten() {
            self.check_answer_template(text);
        }
        self.compile_map(file)
    }

    /// Checks that a template of the answer names only the answer and constants: an echo of our
    /// question would prove nothing.
    pub(super) fn check_answer_template(&mut self, text: &SpannedText) {
        let Ok(template) = Template::parse(text.get_ref(), &self.names) else { return };
        let other = template.tokens().into_iter().find(|token| {
            !matches!(token.source, TokenSource::Field(..) | TokenSource::Constant(_))
        });
        if let Some(token) = other {
            let problem = format!("{} is not read from the answer; write {{a.…}}", token.written);
            self.report(text.span(), problem);
        }
    }

    fn compile_answer_event(&mut self, file: &QueryEventFile) -> Option<AnswerEvent> {
        let meaning = match file.outcome.get_ref().as_str() {
            "pending" => Some(StatusMeaning::Pending),
            "unknown" => Some(StatusMeaning::Unknown),
            word => Status::parse(word).map(StatusMeaning::Terminal),
        };
        if meaning.is_none() {
            let problem =
                "query.event.outcome is SUCCESS, FAILED, EXPIRED, REFUNDED, pending or unknown";
            self.report(file.outcome.span(), problem);
        }
        if file.when.is_empty() && matches!(meaning, Some(StatusMeaning::Terminal(_))) {
            let problem =
                "an event without when must not end a payment; write its conditions into when";
            self.report(file.outcome.span(), problem);
        }
        for condition in &file.when {
            self.check_answer_template(&condition.get_ref().value);
        }
        let texts = [&file.order, &file.provider_ref, &file.amount, &file.currency];
        for text in texts.into_iter().flatten() {
            self.check_answer_template(text);
        }
        let when: Vec<_> =
            file.when.iter().map(|condition| self.compile_condition(condition)).collect();
        let mut place =
            |text: &Option<SpannedText>| text.as_ref().and_then(|text| self.parse_template(text));
        let places = ValuePlaces {
            order: place(&file.order),
            provider_ref: place(&file.provider_ref),
            amount: place(&file.amount),
            currency: place(&file.currency),
            ..ValuePlaces::default()
        };
        Some(AnswerEvent {
            when: when.into_iter().collect::<Option<_>>()?,
            meaning: meaning?,
            places,
        })
    }

    /// Checks that need all events: one is SUCCESS, all are reachable, and each that ends a payment
    /// has a ref, an amount and a currency.
    fn check_events(&mut self, file: &QueryFile, map: &MapRule, events: &[AnswerEvent]) {
        if !events.iter().any(|event| event.status() == Some(Status::Success)) {
            let problem =
                "no [[query.event]] has outcome = \"SUCCESS\", so nothing could be confirmed";
            self.report(file.call.head.path.span(), problem);
        }
        for (at, event) in events.iter().enumerate() {
            let span = file.events[at].outcome.span();
            if event.when.is_empty() && at + 1 < events.len() {
                self.report(
                    span.clone(),
                    "it has no when, so the events after it are never reached",
                );
            }
            if event.status().is_none() {
                continue;
            }
            let own = &event.places;
            for (name, is_there) in [
                ("ref", own.provider_ref.is_some() || map.places.provider_ref.is_some()),
                ("amount", own.amount.is_some() || map.places.amount.is_some()),
                ("currency", own.currency.is_some() || map.places.currency.is_some()),
            ] {
                if !is_there {
                    let problem = format!(
                        "it ends a payment and has no place for {name}; add {name} to it or to \
                         [query.map]"
                    );
                    self.report(span.clone(), problem);
                }
            }
        }
    }
}
