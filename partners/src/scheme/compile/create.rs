//! Owns compiling `[create]`: what is sent for a payment, and what the answer offers. It refuses a
//! create that could ask for another amount than the order's, names no currency, or does not show
//! who calls.

use std::collections::BTreeMap;

use payfold_schemas::money::Currency;

use crate::profile::bounds::{self, EXPONENT};
use crate::profile::spanned::Spanned;
use crate::scheme::amount::AmountRule;
use crate::scheme::call::rule::{
    ACCESS_TOKEN, AnswerContent, CallCredential, CallMethod, CallRule, FieldsPlace, ORDER,
    names_source,
};
use crate::scheme::compile::compiler::ProfileCompiler;
use crate::scheme::compile::lint_mode::LintMode;
use crate::scheme::create::rule::{
    AMOUNT, CURRENCY, CreateKind, EXPIRES, EXPIRES_ASKED, EXPIRES_IN_MIN, EXPIRES_IN_S,
    ExpiryFormat, ExpirySource, OfferRule, SchemeCreate, VALUES,
};
use crate::scheme::file::call::{AnswerFile, BodyFile};
use crate::scheme::file::create::{CreateFile, CreateHeadFile, KindFile, OfferFile};
use crate::scheme::file::tables::SpannedText;
use crate::scheme::filter::Filter;
use crate::scheme::template::{Template, TokenSource};

impl From<KindFile> for CreateKind {
    fn from(kind: KindFile) -> Self {
        match kind {
            KindFile::Call => Self::Call,
            KindFile::SignedUrl => Self::SignedUrl,
            KindFile::FormPost => Self::FormPost,
        }
    }
}

impl ProfileCompiler {
    pub(super) fn compile_create(&mut self, file: &CreateFile) -> Option<SchemeCreate> {
        let (head, kind) = (&file.head, *file.head.kind.get_ref());
        // From here on templates may name values of the call, further down those of its answer.
        let outer = self.begin_call_names(&VALUES);
        let rule = match kind {
            KindFile::Call => {
                let method = self.parse_method("create", &file.call);
                method.and_then(|method| self.compile_call("create", &file.call, method))
            }
            KindFile::SignedUrl => {
                self.check_no_call(file);
                self.compile_call("create", &file.call, CallMethod::Get)
            }
            KindFile::FormPost => {
                self.check_no_call(file);
                let rule = self.compile_call("create", &file.call, CallMethod::Post);
                self.check_posted_fields(file, rule.as_ref());
                rule
            }
        };
        let expires =
            self.parse_written_format("create.expires", (&head.expires_format, &head.expires_zone));
        self.begin_answer_names();
        let offer = self.compile_offer(file, kind);
        self.names = outer;
        let (amount, currencies) = (self.compile_amount(head), self.compile_currencies(head));
        let times = self.compile_times(head);
        let bytes_max = (65_536, bounds::ANSWER_BYTES);
        let bytes_max =
            self.bounded_or_default("create.answer_bytes", &head.answer_bytes, bytes_max);
        let [ttl_ms, timeout_ms, grace_ms, max_session_ms] = times;
        let create = SchemeCreate {
            span: file.call.head.path.span(),
            kind: kind.into(),
            rule: rule?,
            offer: offer?,
            amount,
            currencies,
            expiry: *head.expiry.get_ref(),
            ttl_ms,
            expires: expires?,
            timeout_ms: u64::try_from(timeout_ms).unwrap_or(1),
            bytes_max,
            grace_ms,
            max_session_ms,
        };
        if self.lint == LintMode::Checked {
            self.check_whole_create(file, &create);
        }
        Some(create)
    }

    /// Compiles ttl, timeout, grace, and how long an order waits for its session; ms.
    fn compile_times(&mut self, head: &CreateHeadFile) -> [i64; 4] {
        let ttl_s = self.check_bounds("create.ttl_s", &head.ttl_s, bounds::SESSION_TTL_S);
        let timeout_s =
            self.bounded_or_default("create.timeout_s", &head.timeout_s, (10, bounds::TIMEOUT_S));
        let grace_s = self.bounded_or_default(
            "create.grace_s",
            &head.grace_s,
            (120, bounds::SESSION_GRACE_S),
        );
        let session = (1_800, bounds::MAX_SESSION_S);
        let session_s =
            self.bounded_or_default("create.max_session_s", &head.max_session_s, session);
        let ms = |seconds| i64::try_from(seconds).unwrap_or(1).saturating_mul(1_000);
        [ttl_s, timeout_s, grace_s, session_s].map(ms)
    }

    fn compile_amount(&mut self, head: &CreateHeadFile) -> AmountRule {
        for (code, digits) in &head.exponents {
            if Currency::parse(code.get_ref()).is_err() || !EXPONENT.contain(*digits) {
                let problem = format!(
                    "exponents.{} must be a currency of ISO 4217 and {EXPONENT} digits",
                    code.get_ref()
                );
                self.report(code.span(), problem);
            }
        }
        let exponents =
            head.exponents.iter().map(|(code, digits)| (code.get_ref().clone(), *digits));
        AmountRule { unit: head.amount_unit, exponents: exponents.collect() }
    }

    /// Compiles `currencies` into our code => the partner's code. The file has it the other way
    /// round, like [map].
    fn compile_currencies(&mut self, head: &CreateHeadFile) -> BTreeMap<String, String> {
        let mut currencies = BTreeMap::new();
        for (word, code) in &head.currencies {
            let name = format!("currencies.{}", word.get_ref());
            if Currency::parse(code.get_ref()).is_err() {
                self.report(code.span(), format!("{name} must be a currency of ISO 4217"));
            }
            let before = currencies.insert(code.get_ref().clone(), word.get_ref().clone());
            if before.is_some() {
                let problem = format!("{name} is a second code for {}; keep one", code.get_ref());
                self.report(code.span(), problem);
            }
        }
        currencies
    }

    /// Checks that a `signed_url` or `form_post` has no method, headers, credential, body or
    /// answer: we send nothing ourselves.
    fn check_no_call(&mut self, file: &CreateFile) {
        let head = &file.call.head;
        let given = [
            head.method.as_ref().map(Spanned::span),
            head.headers.keys().next().map(Spanned::span),
            head.credential.as_ref().map(Spanned::span),
            head.body.as_ref().map(Spanned::span),
            file.answer.as_ref().map(|answer| answer.provider_ref.span()),
        ];
        for span in given.into_iter().flatten() {
            let kind = match file.head.kind.get_ref() {
                KindFile::FormPost => "form_post",
                KindFile::Call | KindFile::SignedUrl => "signed_url",
            };
            let problem = format!(
                "kind = \"{kind}\" makes no call, so it has no method, headers, credential, body \
                 or [create.answer]"
            );
            self.report(span, problem);
        }
        if file.call.sign.is_none() {
            let problem = "without a signature anybody could build this address; write \
                [create.sign], and {sign} in the path or a field";
            self.report(file.head.kind.span(), problem);
        }
    }

    /// Checks a `form_post`: the payer sees its fields, so they hold no secret, and its address is
    /// the same for every payment.
    fn check_posted_fields(&mut self, file: &CreateFile, rule: Option<&CallRule>) {
        let head = &file.call.head;
        if head.content != BodyFile::Form || file.call.fields.is_empty() {
            let problem = "a browser posts a form: write content = \"form\" and [create.fields]";
            self.report(file.head.kind.span(), problem);
        }
        let Some(rule) = rule else { return };
        let is_fixed = |template: &Template| template.tokens().is_empty();
        if !is_fixed(&rule.path) || !rule.base.as_ref().is_none_or(is_fixed) {
            let problem = "a form is posted to one fixed address: path and base can't have tokens";
            self.report(head.path.span(), problem);
        }
        let names = rule.fields.all.iter();
        let secrets = [TokenSource::Secret, TokenSource::Value(ACCESS_TOKEN)];
        let is_secret = |template: &Template| secrets.iter().any(|s| names_source(template, s));
        for (name, _) in names.filter(|(_, template)| is_secret(template)) {
            let span = file.call.fields.keys().find(|key| key.get_ref() == name);
            let problem = "the payer sees the fields of a form; neither the secret nor a token \
                must stand in one";
            self.report(span.map_or_else(|| head.path.span(), Spanned::span), problem);
        }
    }

    /// Compiles `[create.answer]`. `Some(None)` where no call is made.
    fn compile_offer(&mut self, file: &CreateFile, kind: KindFile) -> Option<Option<OfferRule>> {
        let offer = match (kind, &file.answer) {
            (KindFile::SignedUrl | KindFile::FormPost, _) => return Some(None),
            (KindFile::Call, Some(offer)) => offer,
            (KindFile::Call, None) => {
                let problem = "[create.answer] is missing: what the answer offers";
                self.report(file.head.kind.span(), problem);
                return None;
            }
        };
        let OfferFile { redirect, qr, refusal, expires, .. } = offer;
        let conditions = offer.success.iter().map(|condition| &condition.get_ref().value);
        for text in [redirect, qr, refusal, expires].into_iter().flatten().chain(conditions) {
            self.check_answer_template(text);
        }
        if redirect.is_none() && qr.is_none() {
            let problem =
                "[create.answer] needs redirect or qr: where the payer is sent, or what is shown";
            self.report(offer.provider_ref.span(), problem);
        }
        let success: Vec<_> = offer.success.iter().map(|c| self.compile_condition(c)).collect();
        let mut place =
            |text: &Option<SpannedText>| text.as_ref().and_then(|text| self.parse_template(text));
        let [redirect, qr, refusal] = [redirect, qr, refusal].map(&mut place);
        Some(Some(OfferRule {
            content: match offer.content {
                AnswerFile::Json => AnswerContent::Json,
                AnswerFile::Form => AnswerContent::Form,
            },
            is_strict: offer.strict,
            success: success.into_iter().collect::<Option<_>>()?,
            refusal,
            provider_ref: self.compile_offer_ref(&offer.provider_ref)?,
            // A value inside an address is percent-encoded; a value that is the whole address is
            // used as it is.
            redirect: redirect.map(|template| match template.single() {
                Some(_) => template,
                None => template.escaped(&Filter::Url),
            }),
            qr,
            expires: self.compile_offer_expiry(offer)?,
        }))
    }

    /// Compiles `ref`. `Some(None)` for "later": only the notice names the transaction.
    fn compile_offer_ref(&mut self, text: &SpannedText) -> Option<Option<Template>> {
        if text.get_ref() == "later" {
            return Some(None);
        }
        self.check_answer_template(text);
        let template = self.parse_template(text)?;
        if !template.tokens().iter().any(|token| matches!(token.source, TokenSource::Field(..))) {
            let problem = "ref is \"later\", where only the notice names the transaction, or its \
                place in the answer: {a.…}";
            self.report(text.span(), problem);
        }
        Some(Some(template))
    }

    fn compile_offer_expiry(
        &mut self,
        file: &OfferFile,
    ) -> Option<Option<(Template, ExpiryFormat)>> {
        let Some(text) = &file.expires else {
            for other in [&file.expires_format, &file.expires_zone].into_iter().flatten() {
                self.report(
                    other.span(),
                    "expires_format and expires_zone need expires = \"{a.…}\"",
                );
            }
            return Some(None);
        };
        let is_duration = file.expires_format.as_ref().is_some_and(|f| f.get_ref() == "in_s");
        let format = if is_duration {
            ExpiryFormat::InSeconds
        } else {
            ExpiryFormat::At(
                self.parse_moment_format(text, (&file.expires_format, &file.expires_zone))?,
            )
        };
        Some(Some((self.parse_template(text)?, format)))
    }

    /// Checks that need the whole section: what is sent, signed and shown, and whether `expiry`
    /// fits.
    fn check_whole_create(&mut self, file: &CreateFile, create: &SchemeCreate) {
        let (at, rule) = (file.call.head.path.span(), &create.rule);
        for (value, name) in [(ORDER, "order"), (AMOUNT, "amount")] {
            if !rule.sends(value) {
                let problem =
                    format!("{{{name}}} is not sent: the partner would not know which {name}");
                self.report(at.clone(), problem);
            } else if rule.sign.is_some() && !covers_value(rule, value) {
                let problem = format!(
                    "[create.sign] does not cover {{{name}}}: it could be changed on the way; put \
                     it, a list with it, or {{body}} into its text"
                );
                self.report(at.clone(), problem);
            }
        }
        if create.currencies.len() != 1 && !rule.sends(CURRENCY) {
            let problem = "{currency} is not sent, so the amount could be of any currency; send \
                it, or list the only one: currencies = { VND = \"VND\" }";
            self.report(at.clone(), problem);
        }
        if create.offer.is_some() && !authenticates_us(rule) && !self.has_certificate {
            let problem = "the call does not authenticate us: write a credential, or \
                [create.sign], or a header with {secret} or a constant, or \
                client_certificate = true";
            self.report(at, problem);
        }
        let sends_expiry =
            [EXPIRES, EXPIRES_IN_S, EXPIRES_IN_MIN].into_iter().any(|value| rule.sends(value));
        let answer_has_expiry = create.offer.as_ref().is_some_and(|offer| offer.expires.is_some());
        let problem = match create.expiry {
            ExpirySource::Request if !sends_expiry => {
                "expiry = \"request\" needs {expires}, {expires_in_s} or {expires_in_min} in what \
                 is sent"
            }
            ExpirySource::Ttl if sends_expiry || rule.sends(EXPIRES_ASKED) => {
                "an expiry is sent to the partner, so write expiry = \"request\""
            }
            ExpirySource::Response if !answer_has_expiry => {
                "expiry = \"response\" needs [create.answer] expires: where it stands"
            }
            ExpirySource::Request | ExpirySource::Ttl if answer_has_expiry => {
                "[create.answer] has expires, so write expiry = \"response\""
            }
            ExpirySource::Request | ExpirySource::Ttl | ExpirySource::Response => return,
        };
        self.report(file.head.expiry.span(), problem);
    }
}

/// Whether the signature covers the value of this index.
fn covers_value(rule: &CallRule, value: usize) -> bool {
    let Some(sign) = &rule.sign else { return false };
    let holds = |template: &Template| rule.reaches(template, &TokenSource::Value(value));
    let place = rule.place_of_fields();
    let in_fields = rule.fields.all.iter().any(|(_, template)| holds(template));
    let by_part = |source: &TokenSource| match source {
        TokenSource::Body => {
            let are_body = matches!(place, Some(FieldsPlace::FormBody | FieldsPlace::JsonBody));
            holds(&rule.body) || (are_body && in_fields)
        }
        TokenSource::Path | TokenSource::Query | TokenSource::Url => {
            holds(&rule.path) || (place == Some(FieldsPlace::Address) && in_fields)
        }
        _ => false,
    };
    holds(&sign.text) || sign.text.tokens().iter().any(|token| by_part(&token.source))
}

/// Whether a call authenticates us: by a signature, a credential, or our secret or constant.
pub(super) fn authenticates_us(rule: &CallRule) -> bool {
    let is_ours = |token: &&crate::scheme::template::TemplateToken| {
        matches!(
            token.source,
            TokenSource::Secret | TokenSource::Constant(_) | TokenSource::Value(ACCESS_TOKEN)
        )
    };
    let mut headers = rule.headers.iter().flat_map(|(_, template)| template.tokens());
    let is_secret = |template: &&Template| {
        names_source(template, &TokenSource::Secret)
            || names_source(template, &TokenSource::Value(ACCESS_TOKEN))
    };
    rule.sign.is_some()
        || !matches!(rule.credential, CallCredential::None)
        || headers.any(|token| is_ours(&token))
        || rule.sent_templates().iter().any(is_secret)
}
