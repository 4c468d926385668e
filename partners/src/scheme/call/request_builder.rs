//! Owns building a request from a rule and the values of one payment. Pure.
//!
//! Invariants: every value in the address is percent-encoded, so no value leads to another address;
//! a part that holds the signature is built after signing and is not part of the signed text.

use payfold_schemas::digest::Digest;
use payfold_schemas::time::Time;

use crate::directory::account::Account;
use crate::limits::BodyLimits;
use crate::scheme::call::rule::{
    BodyContent, CallCredential, CallMethod, CallRule, CallSign, FieldsPlace, KEY_SERIAL, ORDER,
    SIGN, TIME_DEPENDENT, names_sign,
};
use crate::scheme::clock::TimeFormat;
use crate::scheme::compiled::Scheme;
use crate::scheme::crypt::{KeyStrength, ReadyKey};
use crate::scheme::document::{Document, Pair};
use crate::scheme::filter::Filter;
use crate::scheme::keys::CallKeys;
use crate::scheme::message::{ParsedMessage, TemplateContext};
use crate::scheme::request::NoticeRequest;
use crate::scheme::template::{Template, TemplatePiece, TokenSource};
use crate::scheme::template_values::{TemplateInputs, TemplateValueError};
use crate::secret::Secret;

/// A request as it is sent. It has no `Debug`, because it holds a credential.
pub(crate) struct CallRequest {
    pub(crate) method: CallMethod,
    /// The base address, without a `/` at its end.
    pub(crate) base: String,
    /// Path and query, appended to `base`.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The signed text and the signature. `None` where the profile signs nothing.
    pub(crate) signed: Option<(String, String)>,
}

/// Why a request can't be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallBuildError {
    #[error("no transaction is known yet, and the profile asks the partner by transaction only")]
    NoRef,
    #[error("the account has no key for this call that is valid now")]
    NoKey,
    #[error("{0}")]
    Value(#[from] TemplateValueError),
    #[error("{0} holds the separator of the signed text, so the call can't be signed")]
    Separator(String),
    #[error("a value of . or .. would change the path of the call")]
    PathStep,
    #[error("the order id does not fit the filters that the profile sends it with")]
    Order,
    #[error("the profile creates no payments in this currency")]
    Currency,
    #[error("the amount is no whole number of the units that the partner takes")]
    Amount,
    #[error(
        "the expiry is less than one whole second or minute ahead, the unit that the partner takes"
    )]
    Expiry,
    #[error("the profile sends the payer's address to the partner, and the shop gave none")]
    PayerIp,
}

/// Builds the request of one call.
pub(crate) struct RequestBuilder<'a> {
    pub(crate) scheme: &'a Scheme,
    pub(crate) rule: &'a CallRule,
    pub(crate) limits: BodyLimits,
    pub(crate) inputs: TemplateInputs<'a>,
    /// Our keys that are valid now; of several, the one that became valid last.
    pub(crate) keys: CallKeys<'a>,
    /// The partner's base address in the settings, without a `/` at its end.
    pub(crate) api_url: &'a str,
    /// The media type for `Accept`.
    pub(crate) accept: Option<&'static str>,
    /// A signature computed before. A draft shows it instead of computing one with the masked
    /// secret.
    pub(crate) signature: Option<&'a str>,
}

/// The parts of a request that are built so far. Templates may name them.
#[derive(Default)]
struct RequestDraft {
    base: String,
    target: String,
    body: String,
    fields: Vec<Pair>,
}

/// The inputs of `COMMON`, the values that every call's templates may name.
pub(crate) struct CommonValues<'a> {
    /// The order id, or the merchant code where the call is for an access token.
    pub(crate) subject: &'a str,
    /// The format of `{now}`.
    pub(crate) format: &'a TimeFormat,
    pub(crate) now: Time,
}

impl CommonValues<'_> {
    /// The values in the order of `COMMON`. `{sign}`, `{key_serial}` and `{access_token}` are empty
    /// and filled in later.
    pub(crate) fn values(&self) -> Vec<String> {
        let Self { subject, format, now } = *self;
        let ms = now.unix_ms();
        let seconds = ms.div_euclid(1_000).to_string();
        let nonce = Digest::of_bytes(format!("{subject}/{}", now.unix_nanos()).as_bytes());
        let nonce = nonce.to_string().chars().take(32).collect();
        let later = String::new;
        vec![
            subject.to_owned(),
            format.write(now),
            seconds,
            ms.to_string(),
            later(),
            nonce,
            later(),
            later(),
        ]
    }

    /// Replaces the times and the nonce by those of `now`: a token call may take seconds, and a
    /// nonce is valid once.
    pub(crate) fn renew(&self, values: &mut [String]) {
        for (number, value) in self.values().into_iter().enumerate() {
            if TIME_DEPENDENT.contains(&number) {
                values[number] = value;
            }
        }
    }
}

impl<'a> RequestBuilder<'a> {
    /// A builder of the requests of one account. `rule` has the media type for `Accept` with it.
    pub(crate) fn of(
        account: &'a Account,
        (rule, accept): (&'a CallRule, Option<&'static str>),
        keys: CallKeys<'a>,
        api_url: &'a str,
    ) -> Self {
        let scheme = account.profile().scheme();
        let (limits, inputs) = (account.profile().limits(), account.template_inputs());
        let api_url = api_url.trim_end_matches('/');
        Self { scheme, rule, limits, inputs, keys, api_url, accept, signature: None }
    }

    /// Builds the request with these values. Errors: `CallBuildError`.
    pub(crate) fn build(&self, mut values: Vec<String>) -> Result<CallRequest, CallBuildError> {
        let rule = self.rule;
        if !self.keys.suffice(rule) {
            return Err(CallBuildError::NoKey);
        }
        self.keys.serial.clone_into(&mut values[KEY_SERIAL]);
        if !self.keeps_order_id(&values[ORDER]) {
            return Err(CallBuildError::Order);
        }
        let mut draft = RequestDraft { base: self.api_url.to_owned(), ..RequestDraft::default() };
        if let Some(base) = &rule.base {
            draft.base = self.render(base, &draft, &values)?.trim_end_matches('/').to_owned();
        }
        self.add_fields(FieldGroup::WithoutSignature, &mut draft, &values)?;
        let (signed_path, signed_body) = self.rule.parts_with_signature();
        if !signed_path {
            draft.target = self.build_target(&draft, &values)?;
        }
        if !signed_body {
            draft.body = self.build_body(&draft, &values)?;
        }
        let mut signed = None;
        if let Some(sign) = &rule.sign {
            self.check_separator(sign, &draft, &values)?;
            let text = self.render(&sign.text, &draft, &values)?;
            values[SIGN] = self.sign_text(sign, text.as_bytes())?;
            signed = Some((text, values[SIGN].clone()));
        }
        self.add_fields(FieldGroup::WithSignature, &mut draft, &values)?;
        if signed_path {
            draft.target = self.build_target(&draft, &values)?;
        }
        if signed_body {
            draft.body = self.build_body(&draft, &values)?;
        }
        let path = draft.target.split('?').next().unwrap_or_default();
        // `.` and `..` are not percent-encoded, and HTTP clients resolve them, so a value could
        // leave its place in the path.
        if path.split('/').any(|step| matches!(step, "." | "..")) {
            return Err(CallBuildError::PathStep);
        }
        let headers = self.build_headers(&draft, &values)?;
        let RequestDraft { base, target, body, .. } = draft;
        Ok(CallRequest {
            method: rule.method,
            base,
            target,
            headers,
            body: body.into_bytes(),
            signed,
        })
    }

    /// Whether every token of the order id has a value left after its filters. A filter such as
    /// `uuid` leaves nothing of an id that does not fit it.
    fn keeps_order_id(&self, order: &str) -> bool {
        let templates = self.rule.templates();
        let tokens = templates.iter().flat_map(|template| template.tokens());
        let mut named = tokens.filter(|token| token.source == TokenSource::Value(ORDER));
        named.all(|token| {
            let filters = token.filters.iter();
            !filters.fold(order.as_bytes().to_vec(), |v, filter| filter.apply(v)).is_empty()
        })
    }

    /// Adds the fields of one group, in the order of the file.
    fn add_fields(
        &self,
        which: FieldGroup,
        draft: &mut RequestDraft,
        values: &[String],
    ) -> Result<(), CallBuildError> {
        let all = &self.rule.fields.all;
        for (name, template) in all.iter().filter(|(_, t)| FieldGroup::of(t) == which) {
            let value = self.render(template, draft, values)?;
            draft.fields.push(Pair::plain(name, &value));
        }
        let place = |pair: &Pair| all.iter().position(|(name, _)| name.as_bytes() == pair.name);
        draft.fields.sort_by_key(place);
        Ok(())
    }

    fn build_target(
        &self,
        draft: &RequestDraft,
        values: &[String],
    ) -> Result<String, CallBuildError> {
        let mut target = self.render(&self.rule.path, draft, values)?;
        if self.rule.place_of_fields() == Some(FieldsPlace::Address) {
            target.push(if target.contains('?') { '&' } else { '?' });
            target.push_str(&self.encode_fields(draft));
        }
        Ok(target)
    }

    fn build_body(
        &self,
        draft: &RequestDraft,
        values: &[String],
    ) -> Result<String, CallBuildError> {
        Ok(match self.rule.place_of_fields() {
            Some(FieldsPlace::FormBody) => self.encode_fields(draft),
            Some(FieldsPlace::JsonBody) => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let member = |pair: &Pair| (text(&pair.name), text(&pair.value).into());
                let object: serde_json::Map<_, _> = draft.fields.iter().map(member).collect();
                serde_json::Value::Object(object).to_string()
            }
            Some(FieldsPlace::Address) | None => self.render(&self.rule.body, draft, values)?,
        })
    }

    /// The fields as `a=1&b=2`.
    fn encode_fields(&self, draft: &RequestDraft) -> String {
        let mut text = Vec::new();
        for pair in &draft.fields {
            if !text.is_empty() {
                text.push(b'&');
            }
            self.rule.fields.encoding.write(&pair.name, &pair.raw_name, &mut text);
            text.push(b'=');
            self.rule.fields.encoding.write(&pair.value, &pair.raw_value, &mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    fn build_headers(
        &self,
        draft: &RequestDraft,
        values: &[String],
    ) -> Result<Vec<(String, String)>, CallBuildError> {
        let mut headers = Vec::new();
        for (name, template) in &self.rule.headers {
            headers.push((name.clone(), self.render(template, draft, values)?));
        }
        let is_there =
            |name: &str| self.rule.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        if let Some(accept) = self.accept.filter(|_| !is_there("accept")) {
            headers.push(("accept".to_owned(), accept.to_owned()));
        }
        let content_type = match self.rule.content {
            BodyContent::None => None,
            BodyContent::Json => Some("application/json"),
            BodyContent::Form => Some("application/x-www-form-urlencoded"),
        };
        if let Some(content_type) = content_type.filter(|_| !is_there("content-type")) {
            headers.push(("content-type".to_owned(), content_type.to_owned()));
        }
        let credential = match &self.rule.credential {
            CallCredential::None => None,
            CallCredential::Basic { user, password } => {
                let [user, password] = [user, password].map(|t| self.render(t, draft, values));
                let both = format!("{}:{}", user?, password?);
                let written = Filter::Base64.apply(both.into_bytes());
                Some(format!("Basic {}", String::from_utf8_lossy(&written)))
            }
            CallCredential::Bearer(token) => {
                Some(format!("Bearer {}", self.render(token, draft, values)?))
            }
        };
        headers.extend(credential.map(|credential| ("authorization".to_owned(), credential)));
        Ok(headers)
    }

    fn sign_text(&self, sign: &CallSign, text: &[u8]) -> Result<String, CallBuildError> {
        if let Some(made) = self.signature {
            return Ok(made.to_owned());
        }
        if let Some(algorithm) = self.rule.signs_with() {
            let signed = self.keys.private.and_then(|key| key.sign(algorithm, text));
            return Ok(sign.output.encode(&signed.ok_or(CallBuildError::NoKey)?));
        }
        let secret = Secret::from_bytes(self.keys.secret.ok_or(CallBuildError::NoKey)?.to_vec());
        // Algorithm and key length were checked when the profile and the vault were read.
        let ready = ReadyKey::new(sign.algorithm, secret, KeyStrength::Any);
        let signature = ready.ok().and_then(|ready| ready.compute_signature(text));
        Ok(sign.output.encode(&signature.ok_or(CallBuildError::NoKey)?))
    }

    /// Checks that no signed value holds the separator: text could move from one value into the
    /// next under the same signature. Errors: `Separator`.
    fn check_separator(
        &self,
        sign: &CallSign,
        draft: &RequestDraft,
        values: &[String],
    ) -> Result<(), CallBuildError> {
        let Some(separator) = sign.separator else { return Ok(()) };
        for token in sign.text.tokens() {
            let alone = Template { pieces: vec![TemplatePiece::Token(token.clone())] };
            if self.render(&alone, draft, values)?.contains(separator) {
                return Err(CallBuildError::Separator(token.written.clone()));
            }
        }
        Ok(())
    }

    fn render(
        &self,
        template: &Template,
        draft: &RequestDraft,
        values: &[String],
    ) -> Result<String, CallBuildError> {
        let (path, query) = draft.target.split_once('?').unwrap_or((&draft.target, ""));
        let (method, base_url) = (self.rule.method.name(), draft.base.as_str());
        let body = draft.body.as_bytes();
        let request = NoticeRequest { method, base_url, path, query, headers: Vec::new(), body };
        let fields = Document::Pairs(draft.fields.clone());
        let message =
            ParsedMessage::from_document(self.scheme, &request, self.limits, Some(fields));
        let inputs = TemplateInputs { values, ..self.inputs };
        let bare = TemplateContext::without_key(&message, &inputs);
        let lists = Some(self.rule.fields.pairs.as_slice());
        let texts = Some(self.rule.texts.as_slice());
        Ok(TemplateContext { secret: self.keys.secret, lists, texts, ..bare }
            .render_string(template)?)
    }
}

/// The fields by whether their template holds `{sign}`. Those without it are written first, because
/// the signature may be over them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldGroup {
    WithSignature,
    WithoutSignature,
}

impl FieldGroup {
    fn of(template: &Template) -> Self {
        if names_sign(template) { Self::WithSignature } else { Self::WithoutSignature }
    }
}
