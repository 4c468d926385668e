//! Owns the compiling of what `[query]` and `[create]` have in common: the request of a call. What would send a secret
//! in an address, or sign what the signature stands in, is refused.

use reqwest::header::HeaderName;
use toml::Spanned;

use super::Compiler;
use crate::scheme::BODY;
use crate::scheme::call::{
    ACCESS_TOKEN, BodyContent, COMMON, CallRule, Fields, FieldsPlace, Method, ORDER, SIGN, mentions,
};
use crate::scheme::clock::Format;
use crate::scheme::encoding::Encoding;
use crate::scheme::file::Text;
use crate::scheme::file::call::{BodyFile, CallFile, CredentialFile, MethodFile};
use crate::scheme::filter::Filter;
use crate::scheme::template::{Names, Source, Template};

/// Headers that are the connection's own.
const NOT_OURS: [&str; 5] = ["host", "content-length", "transfer-encoding", "connection", "expect"];
/// The document of the fields, in the templates of a call.
pub(super) const FIELDS: &str = "s";

/// The section of a call that is of no one payment.
const OAUTH: &str = "oauth";

/// Where a template of a call stands, for what may be in it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Address,
    Body,
    SignText,
    Header,
    /// What another is made of: it may stand anywhere.
    Text,
}

impl Compiler {
    /// Whether the secret stands in a text, or in one it is made of.
    pub(super) fn mentions_secret(&self, text: &Template) -> bool {
        text.tokens().into_iter().any(|token| match &token.source {
            Source::Secret => true,
            Source::Text(number) => {
                self.texts.get(*number).is_some_and(|t| self.mentions_secret(t))
            }
            _ => false,
        })
    }

    /// Templates may name constants and the values of a call from now on. What they could name before is given back.
    pub(super) fn begin_call(&mut self, own: &[&str]) -> Names {
        let constants = self.names.constants.clone();
        let values = COMMON.iter().chain(own).map(|name| (*name).to_owned()).collect();
        std::mem::replace(&mut self.names, Names { constants, values, ..Names::default() })
    }

    /// Templates may name the answer to that call from now on; what was sent only to be told that it can't be.
    pub(super) fn begin_answer(&mut self) {
        let Names { constants, values, .. } = std::mem::take(&mut self.names);
        let documents = vec!["a".to_owned()];
        self.names = Names { documents, constants, values, ..Names::default() };
    }

    pub(super) fn or_default(
        &mut self,
        name: &str,
        value: &Option<Spanned<usize>>,
        (default, range): (usize, std::ops::RangeInclusive<usize>),
    ) -> usize {
        value.as_ref().map_or(default, |value| self.within(name, value, range))
    }

    /// A call of the section `name`; what its templates may name stands in `names`.
    pub(super) fn call(
        &mut self,
        name: &'static str,
        file: &CallFile,
        method: Method,
    ) -> Option<CallRule> {
        self.section = name;
        let head = &file.head;
        let texts = self.texts_of_call(file);
        let fields = self.fields(file, method);
        let base = head.base.as_ref().map(|base| self.base(base));
        let path = self.of_call(&head.path, Part::Address);
        self.address(&head.path, path.as_ref());
        let headers = self.headers(file);
        let credential = self.credential(file);
        let body = self.body(file, method);
        let sign = file.sign.as_ref().map(|sign| self.call_sign(sign));
        let now = self.now(file);
        let (content, body) = body?;
        let rule = CallRule {
            method,
            base: base.map_or(Some(None), |base| base.map(Some))?,
            path: path?.escaped(&Filter::Url),
            headers: headers?,
            texts: texts?,
            key: head.key,
            credential: credential?,
            content,
            body,
            fields: fields?,
            sign: sign.map_or(Some(None), |sign| sign.map(Some))?,
            now: now?,
        };
        self.whole(file, &rule);
        Some(rule)
    }

    /// The method a call has to name.
    pub(super) fn method(&mut self, name: &str, file: &CallFile) -> Option<Method> {
        let Some(method) = &file.head.method else {
            self.wrong(file.span.clone(), format!("{name}.method is missing: GET or POST"));
            return None;
        };
        Some(match method.get_ref() {
            MethodFile::Get => Method::Get,
            MethodFile::Post => Method::Post,
        })
    }

    /// A template of the call; `Part` says what may stand in it.
    pub(super) fn of_call(&mut self, text: &Text, part: Part) -> Option<Template> {
        let template = self.template(text)?;
        for token in template.tokens() {
            let is_sent = part == Part::Header || part == Part::SignText;
            let is_hidden = part != Part::Address && part != Part::Text;
            let may = match &token.source {
                Source::Value(SIGN) => part != Part::SignText && part != Part::Text,
                Source::Value(ORDER) => self.section != OAUTH,
                Source::Value(ACCESS_TOKEN) => self.has_token && self.section != OAUTH && is_hidden,
                Source::Value(_) | Source::Merchant | Source::Constant(_) => true,
                Source::Field(..) | Source::Pairs(_) => true,
                Source::Secret => is_hidden,
                Source::Body | Source::Method | Source::Path | Source::Query | Source::Url => {
                    is_sent
                }
                // Those of a call stand where none of these may be, and name none.
                Source::Text(_) => true,
                Source::Header(_) => false,
            };
            if !may {
                let problem = match (&token.source, part) {
                    (Source::Secret, Part::Text) => {
                        "the secret must not stand in a text, which may stand anywhere; sign with it".to_owned()
                    }
                    (Source::Secret, Part::Address) => {
                        "the secret must not stand in an address; sign with it, or write a credential".to_owned()
                    }
                    (Source::Value(ACCESS_TOKEN), _) if !self.has_token => {
                        "{access_token} needs [oauth]: how it is asked for".to_owned()
                    }
                    (Source::Value(ACCESS_TOKEN), Part::Address) => {
                        "an access token must not stand in an address; write credential = \"bearer\" and token = \"{access_token}\""
                            .to_owned()
                    }
                    (Source::Value(ORDER), _) => {
                        "an access token is of no one payment: {order} can't stand here".to_owned()
                    }
                    _ => format!("{} can't stand here", token.written),
                };
                self.wrong(text.span(), problem);
                return None;
            }
        }
        Some(template)
    }

    /// Another address: a text, or constants.
    fn base(&mut self, text: &Text) -> Option<Template> {
        let template = self.template(text)?;
        let mut tokens = template.tokens().into_iter();
        if let Some(other) = tokens.find(|token| !matches!(token.source, Source::Constant(_))) {
            let problem = format!(
                "{}.base is an address or a constant; {} can't stand here",
                self.section, other.written
            );
            self.wrong(text.span(), problem);
            return None;
        }
        Some(template)
    }

    fn address(&mut self, path: &Text, template: Option<&Template>) {
        let text = path.get_ref();
        let is_plain = |literal: &&str| {
            literal.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '#' | '\\'))
        };
        let all_plain = template.is_none_or(|template| template.literals().iter().all(is_plain));
        if !text.starts_with('/') || text.starts_with("//") || !all_plain {
            let problem = format!(
                "{}.path must be a path that starts with /, without blanks and #",
                self.section
            );
            self.wrong(path.span(), problem);
        }
    }

    /// The texts in the order of the file; those behind may name those before.
    fn texts_of_call(&mut self, file: &CallFile) -> Option<Vec<Template>> {
        let mut texts = Some(Vec::new());
        for text in &file.texts {
            let template = self.of_call(&text.text, Part::Text);
            self.new_name(&text.name, "text");
            self.names.texts.push(text.name.get_ref().clone());
            match (template, &mut texts) {
                (Some(template), Some(texts)) => texts.push(template),
                _ => texts = None,
            }
        }
        texts
    }

    /// The fields in the order of the file, and the lists of pairs made of them; from then on templates may name them.
    fn fields(&mut self, file: &CallFile, method: Method) -> Option<Fields> {
        let mut listed: Vec<_> = file.fields.iter().collect();
        listed.sort_by_key(|(name, _)| name.span().start);
        let part = if method == Method::Get { Part::Address } else { Part::Body };
        let mut all = Some(Vec::new());
        for (name, text) in listed {
            match (self.of_call(text, part), &mut all) {
                (Some(template), Some(all)) => all.push((name.get_ref().clone(), template)),
                _ => all = None,
            }
        }
        if file.fields.is_empty() {
            let first = file.pairs.first().map(|pairs| pairs.name.span());
            let encoding = file.head.encoding.as_ref().map(Spanned::span);
            if let Some(span) = first.or(encoding) {
                let section = self.section;
                self.wrong(span, format!("it is about fields; write [{section}.fields]"));
            }
            return Some(Fields::default());
        }
        self.names.documents = vec![FIELDS.to_owned()];
        let pairs: Vec<_> = file.pairs.iter().map(|pairs| self.pairs(pairs)).collect();
        let encoding = file.head.encoding.as_ref().map_or(Encoding::Rfc3986, |e| *e.get_ref());
        if encoding.lets_marks_through() {
            let at = file.head.encoding.as_ref().map_or(file.span.clone(), Spanned::span);
            self.wrong(at, "what is sent is encoded; none and raw are for texts that are signed");
        }
        Some(Fields { all: all?, encoding, pairs: pairs.into_iter().collect::<Option<_>>()? })
    }

    fn headers(&mut self, file: &CallFile) -> Option<Vec<(String, Template)>> {
        let head = &file.head;
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
                let section = self.section;
                let problem =
                    format!("{section}.credential writes Authorization already; keep one");
                self.wrong(name.span(), problem);
            }
            match (self.of_call(text, Part::Header), &mut headers) {
                (Some(template), Some(headers)) => headers.push((name.get_ref().clone(), template)),
                _ => headers = None,
            }
        }
        headers
    }

    /// What our body is; a value in it is escaped for where it stands.
    fn body(&mut self, file: &CallFile, method: Method) -> Option<(BodyContent, Template)> {
        let head = &file.head;
        let (content, filter) = match head.content {
            BodyFile::None => (BodyContent::None, None),
            BodyFile::Json => (BodyContent::Json, Some(Filter::Json)),
            BodyFile::Form => (BodyContent::Form, Some(Filter::Url)),
        };
        match (&head.body, filter) {
            (None, None) if file.fields.is_empty() || method == Method::Get => {
                Some((content, Template::default()))
            }
            (None, Some(_)) if !file.fields.is_empty() && method == Method::Post => {
                Some((content, Template::default()))
            }
            (Some(body), Some(filter)) if method == Method::Post => {
                let template = self.of_call(body, Part::Body)?;
                Some((content, template.escaped(&filter)))
            }
            _ => {
                let method = head.method.as_ref().map(Spanned::span);
                let at = head.body.as_ref().map(Spanned::span).or(method);
                let section = self.section;
                let problem = format!(
                    "a body needs method = \"POST\", content = \"json\" or \"form\", and body: its template, or [{section}.fields]"
                );
                self.wrong(at.unwrap_or(file.span.clone()), problem);
                None
            }
        }
    }

    fn now(&mut self, file: &CallFile) -> Option<Format> {
        let head = &file.head;
        self.written_format("now", (&head.now_format, &head.now_zone))
    }

    /// How a time of ours is written; RFC 3339 where nothing is said.
    pub(super) fn written_format(
        &mut self,
        name: &str,
        (format, zone): (&Option<Text>, &Option<Text>),
    ) -> Option<Format> {
        let Some(at) = format else {
            if let Some(zone) = zone {
                self.wrong(zone.span(), format!("{name}_zone is for a pattern in {name}_format"));
            }
            return Some(Format::Rfc3339);
        };
        let written = self.format(at, (format, zone))?;
        if !written.writes() {
            self.wrong(at.span(), "this pattern is for reading only; write %z or %:z for the zone");
            return None;
        }
        Some(written)
    }

    /// What only the whole call shows.
    fn whole(&mut self, file: &CallFile, rule: &CallRule) {
        let (at, section) = (file.head.path.span(), self.section);
        for template in rule.templates() {
            let unknown = template.tokens().into_iter().find(|token| match &token.source {
                Source::Field(BODY, path) => rule.field(path).is_none(),
                _ => false,
            });
            if let Some(token) = unknown {
                let problem = format!("{} is none of [{section}.fields]", token.written);
                self.wrong(at.clone(), problem);
            }
        }
        if let Some(written) = shown_in_address(rule) {
            let problem = format!(
                "{written} has the secret or an access token in it, which must not stand in an address; sign with it, or \
                 write a credential"
            );
            self.wrong(at.clone(), problem);
        }
        let stands = rule.sent().iter().any(|template| mentions(template, &Source::Value(SIGN)));
        match &rule.sign {
            None if stands => self.wrong(at, format!("{{sign}} needs [{section}.sign]")),
            Some(_) if !stands => {
                let problem =
                    format!("[{section}.sign] makes {{sign}}, and {{sign}} stands nowhere");
                self.wrong(at, problem);
            }
            Some(sign) => {
                let over = |sources: &[Source]| sources.iter().any(|s| mentions(&sign.text, s));
                let place = rule.place_of_fields().filter(|_| rule.signs_a_field());
                let in_path = rule.holds_sign(&rule.path) || place == Some(FieldsPlace::Address);
                let in_body = rule.holds_sign(&rule.body)
                    || place.is_some_and(|place| place != FieldsPlace::Address);
                if (in_path && over(&[Source::Path, Source::Query, Source::Url]))
                    || (in_body && over(&[Source::Body]))
                    || rule.holds_sign(&sign.text)
                {
                    let problem = format!(
                        "{section}.sign.text is over what {{sign}} itself stands in; write that text out"
                    );
                    self.wrong(at, problem);
                }
            }
            None => {}
        }
    }
}

/// What brings a secret into the path by way of a field, as it is written there; addresses stand in everybody's logs.
fn shown_in_address(rule: &CallRule) -> Option<String> {
    let hidden = |template: &Template| {
        [Source::Secret, Source::Value(ACCESS_TOKEN)].iter().any(|one| mentions(template, one))
    };
    let shown = |source: &Source| match source {
        Source::Field(BODY, path) => rule.field(path).is_some_and(hidden),
        Source::Pairs(_) => rule.fields.all.iter().any(|(_, field)| hidden(field)),
        _ => false,
    };
    let tokens = rule.path.tokens();
    tokens.into_iter().find(|token| shown(&token.source)).map(|token| token.written.clone())
}
