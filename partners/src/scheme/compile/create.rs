//! Owns the compiling of `[create]`: what is sent for a payment, and what an answer offers. What would ask for another
//! amount than the order's, for any currency alike, or as nobody in particular is refused.

use std::collections::BTreeMap;

use payfold_schemas::money::Currency;
use toml::Spanned;

use super::Compiler;
use crate::scheme::BODY;
use crate::scheme::amount::AmountRule;
use crate::scheme::call::{
    ACCESS_TOKEN, AnswerContent, CallRule, Credential, FieldsPlace, Method, ORDER, mentions,
};
use crate::scheme::create::{
    AMOUNT, CURRENCY, EXPIRES, EXPIRES_IN_MIN, EXPIRES_IN_S, Expiry, ExpiryFormat, Kind, OfferRule,
    SchemeCreate, VALUES,
};
use crate::scheme::file::Text;
use crate::scheme::file::call::{AnswerFile, BodyFile};
use crate::scheme::file::create::{CreateFile, CreateHeadFile, KindFile, OfferFile};
use crate::scheme::filter::Filter;
use crate::scheme::template::{Source, Template};

impl From<KindFile> for Kind {
    fn from(kind: KindFile) -> Self {
        match kind {
            KindFile::Call => Self::Call,
            KindFile::SignedUrl => Self::SignedUrl,
            KindFile::FormPost => Self::FormPost,
        }
    }
}

impl Compiler {
    pub(super) fn create(&mut self, file: &CreateFile) -> Option<SchemeCreate> {
        let (head, kind) = (&file.head, *file.head.kind.get_ref());
        let outer = self.begin_call(&VALUES);
        let rule = match kind {
            KindFile::Call => {
                let method = self.method("create", &file.call);
                method.and_then(|method| self.call("create", &file.call, method))
            }
            KindFile::SignedUrl => {
                self.is_only_an_address(file);
                self.call("create", &file.call, Method::Get)
            }
            KindFile::FormPost => {
                self.is_only_an_address(file);
                let rule = self.call("create", &file.call, Method::Post);
                self.is_a_form(file, rule.as_ref());
                rule
            }
        };
        let expires =
            self.written_format("create.expires", (&head.expires_format, &head.expires_zone));
        self.begin_answer();
        let offer = self.offer(file, kind);
        self.names = outer;
        let (amount, currencies) = (self.amount(head), self.currencies(head));
        let times = self.times(head);
        let bytes_max = (65_536, 1_024..=65_536);
        let bytes_max = self.or_default("create.answer_bytes", &head.answer_bytes, bytes_max);
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
        self.all_of_create(file, &create);
        Some(create)
    }

    /// Time to live, time-out, grace, and how long an order waits for its session; ms.
    fn times(&mut self, head: &CreateHeadFile) -> [i64; 4] {
        let ttl_s = self.within("create.ttl_s", &head.ttl_s, 60..=31_536_000);
        let timeout_s = self.or_default("create.timeout_s", &head.timeout_s, (10, 1..=60));
        let grace_s = self.or_default("create.grace_s", &head.grace_s, (120, 0..=86_400));
        let longest = (1_800, 1..=604_800);
        let session_s = self.or_default("create.max_session_s", &head.max_session_s, longest);
        let ms = |seconds| i64::try_from(seconds).unwrap_or(1).saturating_mul(1_000);
        [ttl_s, timeout_s, grace_s, session_s].map(ms)
    }

    fn amount(&mut self, head: &CreateHeadFile) -> AmountRule {
        for (code, digits) in &head.exponents {
            if Currency::parse(code.get_ref()).is_err() || *digits > 4 {
                let problem = format!(
                    "exponents.{} must be a currency of ISO 4217 and 0 to 4 digits",
                    code.get_ref()
                );
                self.wrong(code.span(), problem);
            }
        }
        let exponents =
            head.exponents.iter().map(|(code, digits)| (code.get_ref().clone(), *digits));
        AmountRule { unit: head.amount_unit, exponents: exponents.collect() }
    }

    /// Our currency => the partner's word; the file has it the other way round, as [map] has it.
    fn currencies(&mut self, head: &CreateHeadFile) -> BTreeMap<String, String> {
        let mut currencies = BTreeMap::new();
        for (word, code) in &head.currencies {
            let name = format!("currencies.{}", word.get_ref());
            if Currency::parse(code.get_ref()).is_err() {
                self.wrong(code.span(), format!("{name} must be a currency of ISO 4217"));
            }
            let before = currencies.insert(code.get_ref().clone(), word.get_ref().clone());
            if before.is_some() {
                let problem = format!("{name} is a second word for {}; keep one", code.get_ref());
                self.wrong(code.span(), problem);
            }
        }
        currencies
    }

    /// An address that is only built has neither headers nor body nor an answer.
    fn is_only_an_address(&mut self, file: &CreateFile) {
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
                "kind = \"{kind}\" calls nobody: it has no method, headers, credential, body or [create.answer]"
            );
            self.wrong(span, problem);
        }
        if file.call.sign.is_none() {
            let problem = "an address anybody could have built; sign it: [create.sign], and {sign} in the path or a field";
            self.wrong(file.head.kind.span(), problem);
        }
    }

    /// A form is posted by a browser: its fields are seen by the payer, and where it goes hangs on no payment.
    fn is_a_form(&mut self, file: &CreateFile, rule: Option<&CallRule>) {
        let head = &file.call.head;
        if head.content != BodyFile::Form || file.call.fields.is_empty() {
            let problem = "a browser posts a form: write content = \"form\" and [create.fields]";
            self.wrong(file.head.kind.span(), problem);
        }
        let Some(rule) = rule else { return };
        let is_fixed = |template: &Template| template.tokens().is_empty();
        if !is_fixed(&rule.path) || !rule.base.as_ref().is_none_or(is_fixed) {
            let problem = "a form goes to one address: no token may stand in path or base";
            self.wrong(head.path.span(), problem);
        }
        let names = rule.fields.all.iter();
        let secrets = [Source::Secret, Source::Value(ACCESS_TOKEN)];
        let is_secret = |template: &Template| secrets.iter().any(|s| mentions(template, s));
        for (name, _) in names.filter(|(_, template)| is_secret(template)) {
            let span = file.call.fields.keys().find(|key| key.get_ref() == name);
            let problem = "the payer sees the fields of a form; neither the secret nor a token must stand in one";
            self.wrong(span.map_or_else(|| head.path.span(), Spanned::span), problem);
        }
    }

    /// What the answer offers; none where nothing is called.
    fn offer(&mut self, file: &CreateFile, kind: KindFile) -> Option<Option<OfferRule>> {
        let offer = match (kind, &file.answer) {
            (KindFile::SignedUrl | KindFile::FormPost, _) => return Some(None),
            (KindFile::Call, Some(offer)) => offer,
            (KindFile::Call, None) => {
                let problem = "[create.answer] is missing: what the answer offers";
                self.wrong(file.head.kind.span(), problem);
                return None;
            }
        };
        let OfferFile { redirect, qr, refusal, expires, .. } = offer;
        let conditions = offer.success.iter().map(|condition| &condition.get_ref().value);
        for text in [redirect, qr, refusal, expires].into_iter().flatten().chain(conditions) {
            self.of_answer(text);
        }
        if redirect.is_none() && qr.is_none() {
            let problem =
                "[create.answer] needs redirect or qr: where the payer is sent, or what is shown";
            self.wrong(offer.provider_ref.span(), problem);
        }
        let success: Vec<_> = offer.success.iter().map(|c| self.condition(c)).collect();
        let mut place = |text: &Option<Text>| text.as_ref().and_then(|text| self.template(text));
        let [redirect, qr, refusal] = [redirect, qr, refusal].map(&mut place);
        Some(Some(OfferRule {
            content: match offer.content {
                AnswerFile::Json => AnswerContent::Json,
                AnswerFile::Form => AnswerContent::Form,
            },
            success: success.into_iter().collect::<Option<_>>()?,
            refusal,
            provider_ref: self.ref_of_offer(&offer.provider_ref)?,
            // A value within an address is one of its parts; one that is the address stays as it is.
            redirect: redirect.map(|template| match template.single() {
                Some(_) => template,
                None => template.escaped(&Filter::Url),
            }),
            qr,
            expires: self.expires_of_offer(offer)?,
        }))
    }

    /// Where the transaction stands; none where it comes later.
    fn ref_of_offer(&mut self, text: &Text) -> Option<Option<Template>> {
        if text.get_ref() == "later" {
            return Some(None);
        }
        self.of_answer(text);
        let template = self.template(text)?;
        if !template.tokens().iter().any(|token| matches!(token.source, Source::Field(..))) {
            let problem = "ref is \"later\", where only the notice names the transaction, or its place in the answer: {a.…}";
            self.wrong(text.span(), problem);
        }
        Some(Some(template))
    }

    fn expires_of_offer(&mut self, file: &OfferFile) -> Option<Option<(Template, ExpiryFormat)>> {
        let Some(text) = &file.expires else {
            for other in [&file.expires_format, &file.expires_zone].into_iter().flatten() {
                self.wrong(other.span(), "it is about expires; write expires = \"{a.…}\"");
            }
            return Some(None);
        };
        let is_span = file.expires_format.as_ref().is_some_and(|f| f.get_ref() == "in_s");
        let format = if is_span {
            ExpiryFormat::InSeconds
        } else {
            ExpiryFormat::At(self.format(text, (&file.expires_format, &file.expires_zone))?)
        };
        Some(Some((self.template(text)?, format)))
    }

    /// What only the whole section shows.
    fn all_of_create(&mut self, file: &CreateFile, create: &SchemeCreate) {
        let (at, rule) = (file.call.head.path.span(), &create.rule);
        let is_sent = |value| rule.sent().iter().any(|t| mentions(t, &Source::Value(value)));
        for (value, name) in [(ORDER, "order"), (AMOUNT, "amount")] {
            if !is_sent(value) {
                let problem =
                    format!("{{{name}}} stands nowhere: the partner would not know which {name}");
                self.wrong(at.clone(), problem);
            } else if rule.sign.is_some() && !signs(rule, value) {
                let problem = format!(
                    "[create.sign] does not cover {{{name}}}: on its way it could be changed; put it, a list with it, or {{body}} into its text"
                );
                self.wrong(at.clone(), problem);
            }
        }
        if create.currencies.is_empty() && !is_sent(CURRENCY) {
            let problem = "{currency} stands nowhere, so the amount would mean any; name those it is for: currencies = { VND = \"VND\" }";
            self.wrong(at.clone(), problem);
        }
        if create.offer.is_some() && !shows_who(rule) && !self.has_certificate {
            let problem = "nothing shows who asks: write a credential, or [create.sign], or a header with {secret} or a constant, or \
                           client_certificate = true";
            self.wrong(at, problem);
        }
        let tells = [EXPIRES, EXPIRES_IN_S, EXPIRES_IN_MIN].into_iter().any(is_sent);
        let told = create.offer.as_ref().is_some_and(|offer| offer.expires.is_some());
        let problem = match create.expiry {
            Expiry::Request if !tells => {
                "expiry = \"request\" needs {expires}, {expires_in_s} or {expires_in_min} in what is sent"
            }
            Expiry::Ttl if tells => {
                "the partner is told when to end, so it is expiry = \"request\""
            }
            Expiry::Response if !told => {
                "expiry = \"response\" needs [create.answer] expires: where it stands"
            }
            Expiry::Request | Expiry::Ttl if told => {
                "the answer says when it ends, so it is expiry = \"response\""
            }
            Expiry::Request | Expiry::Ttl | Expiry::Response => return,
        };
        self.wrong(file.head.expiry.span(), problem);
    }
}

/// Whether the signature covers a value.
fn signs(rule: &CallRule, value: usize) -> bool {
    let Some(sign) = &rule.sign else { return false };
    let holds = |template: &Template| rule.reaches(template, &Source::Value(value));
    let place = rule.place_of_fields();
    let in_fields = rule.fields.all.iter().any(|(_, template)| holds(template));
    sign.text.tokens().iter().any(|token| match &token.source {
        Source::Value(number) => *number == value,
        Source::Text(number) => holds(&rule.texts[*number]),
        Source::Field(BODY, path) => rule.field(path).is_some_and(holds),
        Source::Pairs(number) => {
            let list = &rule.fields.pairs[*number];
            let mut all = rule.fields.all.iter();
            all.any(|(name, template)| {
                holds(template) && list.covers((BODY, std::slice::from_ref(name)))
            })
        }
        Source::Body => {
            let is_theirs = matches!(place, Some(FieldsPlace::FormBody | FieldsPlace::JsonBody));
            holds(&rule.body) || (is_theirs && in_fields)
        }
        Source::Path | Source::Query | Source::Url => {
            holds(&rule.path) || (place == Some(FieldsPlace::Address) && in_fields)
        }
        _ => false,
    })
}

/// Whether a call shows who makes it.
pub(super) fn shows_who(rule: &CallRule) -> bool {
    let is_ours = |token: &&crate::scheme::template::Token| {
        matches!(token.source, Source::Secret | Source::Constant(_) | Source::Value(ACCESS_TOKEN))
    };
    let mut headers = rule.headers.iter().flat_map(|(_, template)| template.tokens());
    let body = rule.body.tokens().into_iter();
    let fields = rule.fields.all.iter().flat_map(|(_, template)| template.tokens());
    rule.sign.is_some()
        || !matches!(rule.credential, Credential::None)
        || headers.any(|token| is_ours(&token))
        || body
            .chain(fields)
            .any(|token| matches!(token.source, Source::Secret | Source::Value(ACCESS_TOKEN)))
}
