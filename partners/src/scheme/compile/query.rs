//! Owns the compiling of `[query]`: the request a question becomes, and what its answers mean. What would send a secret
//! in an address, ask about nothing, or end a payment over an answer nobody expected is refused.

use payfold_schemas::ipn::Status;
use reqwest::header::HeaderName;
use toml::Spanned;

use super::Compiler;
use crate::profile::{QueryPace, Word};
use crate::scheme::clock::Format;
use crate::scheme::crypt::KeyKind;
use crate::scheme::file::query::{
    AnswerFile, BodyFile, CredentialFile, MethodFile, QueryEventFile, QueryFile, QueryHeadFile,
    QuerySignFile,
};
use crate::scheme::file::{MapFile, Text};
use crate::scheme::filter::Filter;
use crate::scheme::query::{
    AnswerContent, AnswerEvent, AnswerRule, BodyContent, Credential, Method, QuerySign,
    QuestionRule, REF, SIGN, SchemeQuery, VALUES, mentions,
};
use crate::scheme::template::{Names, Source, Template};
use crate::scheme::{MapRule, Places};

/// Headers that are the connection's own.
const NOT_OURS: [&str; 5] = ["host", "content-length", "transfer-encoding", "connection", "expect"];

/// Where a template of the question stands, for what may be in it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Body,
    SignText,
    Header,
}

impl Compiler {
    pub(super) fn query(&mut self, file: &QueryFile) -> Option<SchemeQuery> {
        let constants = self.names.constants.clone();
        let values = |count| VALUES.iter().take(count).map(|name| (*name).to_owned()).collect();
        let of_question = Names {
            constants: constants.clone(),
            values: values(VALUES.len()),
            ..Names::default()
        };
        let outer = std::mem::replace(&mut self.names, of_question);
        let question = self.question(file);
        let documents = vec!["a".to_owned()];
        self.names = Names { documents, constants, values: values(REF + 1), ..Names::default() };
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

    pub(super) fn or_default(
        &mut self,
        name: &str,
        value: &Option<Spanned<usize>>,
        (default, range): (usize, std::ops::RangeInclusive<usize>),
    ) -> usize {
        value.as_ref().map_or(default, |value| self.within(name, value, range))
    }

    fn question(&mut self, file: &QueryFile) -> Option<QuestionRule> {
        let head = &file.head;
        let path = self.of_question(&head.path, Part::Path).map(|path| path.escaped(Filter::Url));
        self.address(&head.path);
        let headers = self.headers(head);
        let credential = self.credential(head);
        let body = self.body(head);
        let sign = file.sign.as_ref().map(|sign| self.query_sign(sign));
        let now = match &head.now_format {
            None => {
                if let Some(zone) = &head.now_zone {
                    self.wrong(zone.span(), "now_zone is for a pattern in now_format");
                }
                Some(Format::Rfc3339)
            }
            Some(at) => self.format(at, (&head.now_format, &head.now_zone)),
        };
        let (content, body) = body?;
        let question = QuestionRule {
            method: match head.method.get_ref() {
                MethodFile::Get => Method::Get,
                MethodFile::Post => Method::Post,
            },
            path: path?,
            headers: headers?,
            key: head.key,
            credential: credential?,
            content,
            body,
            sign: sign.map_or(Some(None), |sign| sign.map(Some))?,
            now: now?,
        };
        self.whole(file, &question);
        Some(question)
    }

    /// A template of the question; `Part` says what may stand in it.
    fn of_question(&mut self, text: &Text, part: Part) -> Option<Template> {
        let template = self.template(text)?;
        for token in template.tokens() {
            let is_sent = part != Part::Path && part != Part::Body;
            let may = match &token.source {
                Source::Value(SIGN) => part != Part::SignText,
                Source::Value(_) | Source::Merchant | Source::Constant(_) => true,
                Source::Secret => part != Part::Path,
                Source::Body | Source::Method | Source::Path | Source::Query | Source::Url => {
                    is_sent
                }
                Source::Header(_) | Source::Field(..) | Source::Pairs(_) | Source::Text(_) => false,
            };
            if !may {
                let problem = match (&token.source, part) {
                    (Source::Secret, Part::Path) => {
                        "the secret must not stand in an address; sign with it, or write a credential".to_owned()
                    }
                    _ => format!("{} can't stand here", token.written),
                };
                self.wrong(text.span(), problem);
                return None;
            }
        }
        Some(template)
    }

    fn address(&mut self, path: &Text) {
        let text = path.get_ref();
        let is_plain = text.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '#' | '\\'));
        if !text.starts_with('/') || text.starts_with("//") || !is_plain {
            let problem = "query.path must be a path that starts with /, without blanks and #";
            self.wrong(path.span(), problem);
        }
    }

    fn headers(&mut self, head: &QueryHeadFile) -> Option<Vec<(String, Template)>> {
        let mut headers = Some(Vec::new());
        for (name, text) in &head.headers {
            let is_name = HeaderName::from_bytes(name.get_ref().as_bytes()).is_ok();
            let lower = name.get_ref().to_ascii_lowercase();
            let has_credential =
                head.credential.as_ref().is_some_and(|c| *c.get_ref() != CredentialFile::None);
            if !is_name || NOT_OURS.contains(&lower.as_str()) {
                let problem = format!("{} is no header that can be set here", name.get_ref());
                self.wrong(name.span(), problem);
            } else if lower == "authorization" && has_credential {
                self.wrong(name.span(), "query.credential writes Authorization already; keep one");
            }
            match (self.of_question(text, Part::Header), &mut headers) {
                (Some(template), Some(headers)) => headers.push((name.get_ref().clone(), template)),
                _ => headers = None,
            }
        }
        headers
    }

    fn credential(&mut self, head: &QueryHeadFile) -> Option<Credential> {
        let kind = head.credential.as_ref().map(|kind| *kind.get_ref()).unwrap_or_default();
        let span = head.credential.as_ref().map_or_else(|| head.method.span(), Spanned::span);
        let given = [&head.user, &head.password, &head.token].map(Option::is_some);
        match (kind, given) {
            (CredentialFile::None, [false, false, false]) => Some(Credential::None),
            (CredentialFile::Basic, [true, _, false]) => {
                let user = head.user.as_ref().and_then(|text| self.of_question(text, Part::Header));
                let password = match &head.password {
                    None => Some(Template::default()),
                    Some(text) => self.of_question(text, Part::Header),
                };
                Some(Credential::Basic { user: user?, password: password? })
            }
            (CredentialFile::Bearer, [false, false, true]) => {
                let token = head.token.as_ref()?;
                self.of_question(token, Part::Header).map(Credential::Bearer)
            }
            _ => {
                let problem = "a credential is none, \"basic\" with user and, if there is one, password, or \"bearer\" with token";
                self.wrong(span, problem);
                None
            }
        }
    }

    /// What our body is; a value in it is escaped for where it stands.
    fn body(&mut self, head: &QueryHeadFile) -> Option<(BodyContent, Template)> {
        let (content, filter) = match head.content {
            BodyFile::None => (BodyContent::None, None),
            BodyFile::Json => (BodyContent::Json, Some(Filter::Json)),
            BodyFile::Form => (BodyContent::Form, Some(Filter::Url)),
        };
        match (&head.body, filter) {
            (None, None) => Some((content, Template::default())),
            (Some(body), Some(filter)) if *head.method.get_ref() == MethodFile::Post => {
                let template = self.of_question(body, Part::Body)?;
                Some((content, template.escaped(filter)))
            }
            _ => {
                let at = head.body.as_ref().map_or_else(|| head.method.span(), Spanned::span);
                let problem = "a body needs method = \"POST\", content = \"json\" or \"form\", and body: its template";
                self.wrong(at, problem);
                None
            }
        }
    }

    fn query_sign(&mut self, file: &QuerySignFile) -> Option<QuerySign> {
        let algorithm = *file.algorithm.get_ref();
        if algorithm.key_kind() != KeyKind::Shared || !algorithm.signs_the_text() {
            let problem = "a question is signed with a shared secret: hmac-… or a plain digest; for a token write credential = \"bearer\"";
            self.wrong(file.algorithm.span(), problem);
        }
        let text = self.of_question(&file.text, Part::SignText)?;
        if algorithm.is_plain_digest() && !mentions(&text, &Source::Secret) {
            let problem = "a plain digest without {secret} in its text can be made by anybody";
            self.wrong(file.algorithm.span(), problem);
        }
        Some(QuerySign { algorithm, text, output: file.output })
    }

    /// What only the whole question shows.
    fn whole(&mut self, file: &QueryFile, question: &QuestionRule) {
        let at = file.head.path.span();
        let signed = |template: &Template| mentions(template, &Source::Value(SIGN));
        let stands = question.templates().iter().any(|template| signed(template));
        match &question.sign {
            None if stands => self.wrong(at.clone(), "{sign} needs [query.sign]"),
            Some(_) if !stands => {
                self.wrong(at.clone(), "[query.sign] makes {sign}, and {sign} stands nowhere");
            }
            Some(sign) => {
                let over = |sources: &[Source]| sources.iter().any(|s| mentions(&sign.text, s));
                let of_path = [Source::Path, Source::Query, Source::Url];
                if (signed(&question.path) && over(&of_path))
                    || (signed(&question.body) && over(&[Source::Body]))
                {
                    let problem =
                        "query.sign.text is over what {sign} itself stands in; write that text out";
                    self.wrong(at.clone(), problem);
                }
            }
            None => {}
        }
        let asks = |number| {
            let parts = question.templates();
            parts.iter().any(|template| mentions(template, &Source::Value(number)))
        };
        if !asks(0) && !asks(REF) {
            self.wrong(
                at,
                "the question names neither {order} nor {ref}: it asks about no payment",
            );
        }
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
            self.wrong(head.path.span(), "[query.map] is missing: where the answer says what");
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
        for (name, text) in
            [("paid_at", &file.paid_at), ("event", &file.event), ("nonce", &file.nonce)]
        {
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
    fn of_answer(&mut self, text: &Text) {
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
        for text in [&file.provider_ref, &file.amount, &file.currency].into_iter().flatten() {
            self.of_answer(text);
        }
        let when: Vec<_> = file.when.iter().map(|condition| self.condition(condition)).collect();
        let mut place = |text: &Option<Text>| text.as_ref().and_then(|text| self.template(text));
        let places = Places {
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
            self.wrong(file.head.path.span(), problem);
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
