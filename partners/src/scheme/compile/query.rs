//! Owns the compiling of `[query]`: the question, and what its answers mean. What would ask about nothing, or end a
//! payment over an answer nobody expected, is refused.

use payfold_schemas::ipn::Status;

use super::Compiler;
use crate::profile::{QueryPace, Word};
use crate::scheme::call::{AnswerContent, CallRule, ORDER};
use crate::scheme::file::call::AnswerFile;
use crate::scheme::file::query::{QueryEventFile, QueryFile};
use crate::scheme::file::{MapFile, Text};
use crate::scheme::query::{AnswerEvent, AnswerRule, REF, SchemeQuery, VALUES};
use crate::scheme::template::{Source, Template};
use crate::scheme::{MapRule, Places};

impl Compiler {
    pub(super) fn query(&mut self, file: &QueryFile) -> Option<SchemeQuery> {
        let outer = self.begin_call(&VALUES);
        let question = self.question(file);
        self.begin_answer();
        let answer = self.answer(file);
        self.names = outer;

        let head = &file.head;
        let timeout_s = self.or_default("query.timeout_s", &head.timeout_s, (10, 1..=60));
        let per_s = self.or_default("query.per_s", &head.per_s, (5, 1..=1_000));
        let pace = QueryPace {
            at_once: self.or_default("query.at_once", &head.at_once, (4, 1..=64)),
            per_s: u32::try_from(per_s).unwrap_or(1),
        };
        let timeout_ms = u64::try_from(timeout_s).unwrap_or(1).saturating_mul(1_000);
        Some(SchemeQuery { question: question?, answer: answer?, timeout_ms, pace })
    }

    fn question(&mut self, file: &QueryFile) -> Option<CallRule> {
        let method = self.method("query", &file.call)?;
        let rule = self.call("query", &file.call, method)?;
        if !rule.names(ORDER) && !rule.names(REF) {
            self.wrong(
                file.call.head.path.span(),
                "the question names neither {order} nor {ref}: it asks about no payment",
            );
        }
        Some(rule)
    }

    fn answer(&mut self, file: &QueryFile) -> Option<AnswerRule> {
        let head = &file.head;
        let bytes = (65_536, 1_024..=1_048_576);
        let bytes_max = self.or_default("query.answer_bytes", &head.answer_bytes, bytes);
        let not_found = match &head.not_found {
            None => vec![404],
            Some(listed) => {
                let is_other =
                    |s: &u16| !(400..=499).contains(s) || [401, 403, 408, 429].contains(s);
                if listed.get_ref().iter().any(is_other) {
                    let problem = "query.not_found takes 400 to 499, without 401, 403, 408 and 429";
                    self.wrong(listed.span(), problem);
                }
                listed.get_ref().clone()
            }
        };
        let events: Vec<_> = file.events.iter().map(|event| self.answer_event(event)).collect();
        let Some(map) = &file.map else {
            self.wrong(
                file.call.head.path.span(),
                "[query.map] is missing: where the answer says what",
            );
            return None;
        };
        let map = self.answer_map(map);
        let events = events.into_iter().collect::<Option<Vec<_>>>()?;
        self.kinds(file, &map, &events);
        let content = match head.answer {
            AnswerFile::Json => AnswerContent::Json,
            AnswerFile::Form => AnswerContent::Form,
        };
        Some(AnswerRule { content, not_found, bytes_max, map, events })
    }

    fn answer_map(&mut self, file: &MapFile) -> MapRule {
        for (name, text) in [
            ("paid_at", &file.paid_at),
            ("paid_at_format", &file.paid_at_format),
            ("paid_at_zone", &file.paid_at_zone),
            ("event", &file.event),
            ("nonce", &file.nonce),
        ] {
            if let Some(text) = text {
                self.wrong(text.span(), format!("query.map takes no {name}; remove it"));
            }
        }
        let places =
            [&file.merchant, &file.order, &file.provider_ref, &file.amount, &file.currency];
        for text in places.into_iter().flatten() {
            self.of_answer(text);
        }
        self.map(file)
    }

    /// Only what the answer says and what is fixed may stand in a place of it: an echo of the question proves nothing.
    pub(super) fn of_answer(&mut self, text: &Text) {
        let Ok(template) = Template::parse(text.get_ref(), &self.names) else { return };
        let other = template
            .tokens()
            .into_iter()
            .find(|token| !matches!(token.source, Source::Field(..) | Source::Constant(_)));
        if let Some(token) = other {
            let problem = format!("{} is nothing the answer says; write {{a.…}}", token.written);
            self.wrong(text.span(), problem);
        }
    }

    fn answer_event(&mut self, file: &QueryEventFile) -> Option<AnswerEvent> {
        let word = match file.outcome.get_ref().as_str() {
            "pending" => Some(Word::Pending),
            "unknown" => Some(Word::Unknown),
            word => Status::parse(word).map(Word::Terminal),
        };
        if word.is_none() {
            let problem =
                "query.event.outcome is SUCCESS, FAILED, EXPIRED, REFUNDED, pending or unknown";
            self.wrong(file.outcome.span(), problem);
        }
        if file.when.is_empty() && matches!(word, Some(Word::Terminal(_))) {
            let problem =
                "an answer of any kind must not end a payment; write its conditions into when";
            self.wrong(file.outcome.span(), problem);
        }
        for condition in &file.when {
            self.of_answer(&condition.get_ref().value);
        }
        let texts = [&file.order, &file.provider_ref, &file.amount, &file.currency];
        for text in texts.into_iter().flatten() {
            self.of_answer(text);
        }
        let when: Vec<_> = file.when.iter().map(|condition| self.condition(condition)).collect();
        let mut place = |text: &Option<Text>| text.as_ref().and_then(|text| self.template(text));
        let places = Places {
            order: place(&file.order),
            provider_ref: place(&file.provider_ref),
            amount: place(&file.amount),
            currency: place(&file.currency),
            ..Places::default()
        };
        Some(AnswerEvent { when: when.into_iter().collect::<Option<_>>()?, word: word?, places })
    }

    /// What only all kinds together show.
    fn kinds(&mut self, file: &QueryFile, map: &MapRule, events: &[AnswerEvent]) {
        if !events.iter().any(|event| event.status() == Some(Status::Success)) {
            let problem =
                "no [[query.event]] has outcome = \"SUCCESS\", so nothing could be confirmed";
            self.wrong(file.call.head.path.span(), problem);
        }
        for (at, event) in events.iter().enumerate() {
            let span = file.events[at].outcome.span();
            if event.when.is_empty() && at + 1 < events.len() {
                self.wrong(span.clone(), "it has no when, so those behind it are never reached");
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
                        "it ends a payment and has no place for {name}; add {name} to it or to [query.map]"
                    );
                    self.wrong(span.clone(), problem);
                }
            }
        }
    }
}
