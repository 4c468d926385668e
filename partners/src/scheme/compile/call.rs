//! Owns compiling the request of a call, which `[query]`, `[create]` and `[oauth]` have in common.
//! A template that names a token outside the token's allowed parts is refused. `call_checks` checks
//! the whole call.

use reqwest::header::HeaderName;

use crate::profile::bounds::Bounds;
use crate::profile::spanned::Spanned;
use crate::scheme::call::rule::{
    ACCESS_TOKEN, BodyContent, COMMON, CallFields, CallMethod, CallRule, ORDER, SIGN,
};
use crate::scheme::clock::TimeFormat;
use crate::scheme::compile::compiler::ProfileCompiler;
use crate::scheme::compile::time_format::TimeWork;
use crate::scheme::encoding::PairEncoding;
use crate::scheme::file::call::{BodyFile, CallFile, CredentialFile, MethodFile};
use crate::scheme::file::tables::SpannedText;
use crate::scheme::filter::Filter;
use crate::scheme::template::{Template, TemplateNames, TokenSource};

/// Headers that the HTTP client sets.
const NOT_OURS: [&str; 5] = ["host", "content-length", "transfer-encoding", "connection", "expect"];
/// The name of the fields' document in a call's templates: `{s.name}`.
pub(super) const FIELDS: &str = "s";

/// The section of the token call, which is for no single payment.
const OAUTH: &str = "oauth";

/// Where a template is used; it decides which tokens the template may name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CallPart {
    Address,
    Body,
    SignText,
    Header,
    /// A `[[….text]]`, which other templates may name anywhere.
    Text,
}

impl ProfileCompiler {
    /// Whether a template names the secret, directly or through a text.
    pub(super) fn names_secret(&self, text: &Template) -> bool {
        text.tokens().into_iter().any(|token| match &token.source {
            TokenSource::Secret => true,
            TokenSource::Text(number) => {
                self.texts.get(*number).is_some_and(|t| self.names_secret(t))
            }
            _ => false,
        })
    }

    /// From now on templates may name constants and the values of a call. Returns the names that
    /// were valid before.
    pub(super) fn begin_call_names(&mut self, own: &[&str]) -> TemplateNames {
        let constants = self.names.constants.clone();
        let values = COMMON.iter().chain(own).map(|name| (*name).to_owned()).collect();
        std::mem::replace(
            &mut self.names,
            TemplateNames { constants, values, ..TemplateNames::default() },
        )
    }

    /// From now on templates may name the answer, `{a.…}`. The call's values stay known, so that
    /// naming one gives a better message.
    pub(super) fn begin_answer_names(&mut self) {
        let TemplateNames { constants, values, .. } = std::mem::take(&mut self.names);
        let documents = vec!["a".to_owned()];
        self.names = TemplateNames { documents, constants, values, ..TemplateNames::default() };
    }

    pub(super) fn bounded_or_default(
        &mut self,
        name: &str,
        value: &Option<Spanned<usize>>,
        (default, bounds): (usize, Bounds),
    ) -> usize {
        value.as_ref().map_or(default, |value| self.check_bounds(name, value, bounds))
    }

    /// Compiles the call of the section `name`; `names` holds what its templates may name.
    pub(super) fn compile_call(
        &mut self,
        name: &'static str,
        file: &CallFile,
        method: CallMethod,
    ) -> Option<CallRule> {
        self.section = name;
        let head = &file.head;
        let texts = self.compile_call_texts(file);
        let fields = self.compile_fields(file, method);
        let base = head.base.as_ref().map(|base| self.compile_base(base));
        let path = self.parse_call_template(&head.path, CallPart::Address);
        self.check_path(&head.path, path.as_ref());
        let headers = self.compile_headers(file);
        let credential = self.compile_credential(file);
        let body = self.compile_body(file, method);
        let sign = file.sign.as_ref().map(|sign| self.compile_call_sign(sign));
        let now = self.compile_now_format(file);
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
        self.check_whole_call(file, &rule);
        Some(rule)
    }

    /// The call's method, which must be set.
    pub(super) fn parse_method(&mut self, name: &str, file: &CallFile) -> Option<CallMethod> {
        let Some(method) = &file.head.method else {
            self.report(file.span.clone(), format!("{name}.method is missing: GET or POST"));
            return None;
        };
        Some(match method.get_ref() {
            MethodFile::Get => CallMethod::Get,
            MethodFile::Post => CallMethod::Post,
        })
    }

    /// Parses a template of the call and checks its tokens against `part`.
    pub(super) fn parse_call_template(
        &mut self,
        text: &SpannedText,
        part: CallPart,
    ) -> Option<Template> {
        let template = self.parse_template(text)?;
        for token in template.tokens() {
            let is_sent = part == CallPart::Header || part == CallPart::SignText;
            let is_hidden = part != CallPart::Address && part != CallPart::Text;
            let may = match &token.source {
                TokenSource::Value(SIGN) => part != CallPart::SignText && part != CallPart::Text,
                TokenSource::Value(ORDER) => self.section != OAUTH,
                TokenSource::Value(ACCESS_TOKEN) => {
                    self.has_token && self.section != OAUTH && is_hidden
                }
                TokenSource::Value(_) | TokenSource::Merchant | TokenSource::Constant(_) => true,
                TokenSource::Field(..) | TokenSource::Pairs(_) => true,
                TokenSource::Secret => is_hidden,
                TokenSource::Body
                | TokenSource::Method
                | TokenSource::Path
                | TokenSource::Query
                | TokenSource::Url => is_sent,
                // A call's texts were checked as `CallPart::Text`, so they name nothing that is
                // refused here.
                TokenSource::Text(_) => true,
                TokenSource::Header(_) => false,
            };
            if !may {
                let problem = match (&token.source, part) {
                    (TokenSource::Secret, CallPart::Text) => {
                        "a text must not name the secret, because other templates may use it \
                         anywhere; sign with it"
                            .to_owned()
                    }
                    (TokenSource::Secret, CallPart::Address) => {
                        "the secret must not stand in an address; sign with it, or write a \
                         credential"
                            .to_owned()
                    }
                    (TokenSource::Value(ACCESS_TOKEN), _) if !self.has_token => {
                        "{access_token} needs [oauth]: how it is asked for".to_owned()
                    }
                    (TokenSource::Value(ACCESS_TOKEN), CallPart::Address) => {
                        "an access token must not stand in an address; write \
                         credential = \"bearer\" and token = \"{access_token}\""
                            .to_owned()
                    }
                    (TokenSource::Value(ORDER), _) => {
                        "the token call is for no single payment: {order} can't stand here"
                            .to_owned()
                    }
                    _ => format!("{} can't stand here", token.written),
                };
                self.report(text.span(), problem);
                return None;
            }
        }
        Some(template)
    }

    /// Parses `base`: literals and constants only.
    fn compile_base(&mut self, text: &SpannedText) -> Option<Template> {
        let template = self.parse_template(text)?;
        let mut tokens = template.tokens().into_iter();
        if let Some(other) = tokens.find(|token| !matches!(token.source, TokenSource::Constant(_)))
        {
            let problem = format!(
                "{}.base is an address or a constant; {} can't stand here",
                self.section, other.written
            );
            self.report(text.span(), problem);
            return None;
        }
        Some(template)
    }

    /// Parses the texts in the order of the file. A text may name those before it.
    fn compile_call_texts(&mut self, file: &CallFile) -> Option<Vec<Template>> {
        let mut texts = Some(Vec::new());
        for text in &file.texts {
            let template = self.parse_call_template(&text.text, CallPart::Text);
            self.check_name(&text.name, "text");
            self.names.texts.push(text.name.get_ref().clone());
            match (template, &mut texts) {
                (Some(template), Some(texts)) => texts.push(template),
                _ => texts = None,
            }
        }
        texts
    }

    /// Parses the fields in the order of the file, and the lists of pairs made of them. From then
    /// on templates may name them.
    fn compile_fields(&mut self, file: &CallFile, method: CallMethod) -> Option<CallFields> {
        let mut listed: Vec<_> = file.fields.iter().collect();
        listed.sort_by_key(|(name, _)| name.span().start);
        let part = if method == CallMethod::Get { CallPart::Address } else { CallPart::Body };
        let mut all = Some(Vec::new());
        for (name, text) in listed {
            match (self.parse_call_template(text, part), &mut all) {
                (Some(template), Some(all)) => all.push((name.get_ref().clone(), template)),
                _ => all = None,
            }
        }
        if file.fields.is_empty() {
            let first = file.pairs.first().map(|pairs| pairs.name.span());
            let encoding = file.head.encoding.as_ref().map(Spanned::span);
            if let Some(span) = first.or(encoding) {
                let section = self.section;
                self.report(
                    span,
                    format!("pairs and encoding are for fields; write [{section}.fields]"),
                );
            }
            return Some(CallFields::default());
        }
        self.names.documents = vec![FIELDS.to_owned()];
        let pairs: Vec<_> = file.pairs.iter().map(|pairs| self.compile_pairs(pairs)).collect();
        let encoding = file.head.encoding.as_ref().map_or(PairEncoding::Rfc3986, |e| *e.get_ref());
        if encoding.lets_marks_through() {
            let at = file.head.encoding.as_ref().map_or(file.span.clone(), Spanned::span);
            self.report(at, "fields are sent encoded; none and raw are for signed texts");
        }
        Some(CallFields { all: all?, encoding, pairs: pairs.into_iter().collect::<Option<_>>()? })
    }

    fn compile_headers(&mut self, file: &CallFile) -> Option<Vec<(String, Template)>> {
        let head = &file.head;
        let mut headers = Some(Vec::new());
        for (name, text) in &head.headers {
            let is_name = HeaderName::from_bytes(name.get_ref().as_bytes()).is_ok();
            let lower = name.get_ref().to_ascii_lowercase();
            let has_credential =
                head.credential.as_ref().is_some_and(|c| *c.get_ref() != CredentialFile::None);
            if !is_name || NOT_OURS.contains(&lower.as_str()) {
                let problem = format!("{} is no header that can be set here", name.get_ref());
                self.report(name.span(), problem);
            } else if lower == "authorization" && has_credential {
                let section = self.section;
                let problem =
                    format!("{section}.credential writes Authorization already; keep one");
                self.report(name.span(), problem);
            }
            match (self.parse_call_template(text, CallPart::Header), &mut headers) {
                (Some(template), Some(headers)) => headers.push((name.get_ref().clone(), template)),
                _ => headers = None,
            }
        }
        headers
    }

    /// The body's format and template. Values are escaped for the format.
    fn compile_body(
        &mut self,
        file: &CallFile,
        method: CallMethod,
    ) -> Option<(BodyContent, Template)> {
        let head = &file.head;
        let (content, filter) = match head.content {
            BodyFile::None => (BodyContent::None, None),
            BodyFile::Json => (BodyContent::Json, Some(Filter::Json)),
            BodyFile::Form => (BodyContent::Form, Some(Filter::Url)),
        };
        match (&head.body, filter) {
            (None, None) if file.fields.is_empty() || method == CallMethod::Get => {
                Some((content, Template::default()))
            }
            (None, Some(_)) if !file.fields.is_empty() && method == CallMethod::Post => {
                Some((content, Template::default()))
            }
            (Some(body), Some(filter)) if method == CallMethod::Post => {
                let template = self.parse_call_template(body, CallPart::Body)?;
                Some((content, template.escaped(&filter)))
            }
            _ => {
                let method = head.method.as_ref().map(Spanned::span);
                let at = head.body.as_ref().map(Spanned::span).or(method);
                let section = self.section;
                let problem = format!(
                    "a body needs method = \"POST\", content = \"json\" or \"form\", and body: its \
                     template, or [{section}.fields]"
                );
                self.report(at.unwrap_or(file.span.clone()), problem);
                None
            }
        }
    }

    fn compile_now_format(&mut self, file: &CallFile) -> Option<TimeFormat> {
        let head = &file.head;
        self.parse_written_format("now", (&head.now_format, &head.now_zone))
    }

    /// The format of a time we send; RFC 3339 by default.
    pub(super) fn parse_written_format(
        &mut self,
        name: &str,
        (format, zone): (&Option<SpannedText>, &Option<SpannedText>),
    ) -> Option<TimeFormat> {
        let Some(at) = format else {
            if let Some(zone) = zone {
                self.report(zone.span(), format!("{name}_zone is for a pattern in {name}_format"));
            }
            return Some(TimeFormat::Rfc3339);
        };
        let written = self.parse_time_format(at, (format, zone), TimeWork::Write)?;
        if !written.writes() {
            self.report(
                at.span(),
                "this pattern is for reading only; write %z or %:z for the zone",
            );
            return None;
        }
        Some(written)
    }
}
