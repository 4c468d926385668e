//! Owns the putting together of a request from a rule and the values of one payment. Pure.
//!
//! Invariants: what stands in the address is percent-encoded, so no value leads anywhere else; what the signature stands
//! in is put together after it, and is no part of its text.

use payfold_schemas::digest::Digest;
use payfold_schemas::time::Time;

use super::{
    BodyContent, CallRule, CallSign, Credential, FieldsPlace, KEY_SERIAL, Method, OF_THE_MOMENT,
    ORDER, SIGN, has_sign,
};
use crate::profile::Limits;
use crate::scheme::Scheme;
use crate::scheme::clock::Format;
use crate::scheme::crypt::{Ready, Strength};
use crate::scheme::document::{Document, Pair};
use crate::scheme::filter::Filter;
use crate::scheme::keys::CallKeys;
use crate::scheme::reading::{Context, Of, Reading, Unusable};
use crate::scheme::request::Request;
use crate::scheme::template::{Source, Template};
use crate::secret::Secret;

/// A call as it goes out. It has no `Debug`: a credential stands in it.
pub(crate) struct Sent {
    pub(crate) method: Method,
    /// The address it goes to, without a `/` at its end.
    pub(crate) base: String,
    /// Path and query behind it.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// What was signed, and the signature; nothing where the profile signs nothing.
    pub(crate) signed: Option<(String, String)>,
}

/// Why a call can't be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Uncallable {
    #[error("no transaction is known yet, and the partner is asked for transactions only")]
    NoRef,
    #[error("no key is valid now")]
    NoKey,
    #[error("{0}")]
    Unusable(#[from] Unusable),
    #[error("a value would lead to another address")]
    Elsewhere,
    #[error("the order's id has not the form its profile sends it in")]
    Order,
    #[error("its profile does not create payments in this currency")]
    Currency,
    #[error("the partner can't be asked for such a part of the currency's unit")]
    Amount,
    #[error("the expiry is nearer than the partner can be told")]
    Expiry,
    #[error("the partner is told the payer's address, and the shop gave none")]
    PayerIp,
}

/// What a call is put together with.
pub(crate) struct Calling<'a> {
    pub(crate) scheme: &'a Scheme,
    pub(crate) rule: &'a CallRule,
    pub(crate) limits: Limits,
    pub(crate) of: Of<'a>,
    /// The keys of our calls that count now.
    pub(crate) keys: CallKeys<'a>,
    /// The partner's address, without a `/` at its end.
    pub(crate) api_url: &'a str,
    /// What the answer should come in.
    pub(crate) accept: Option<&'static str>,
    /// The signature, where it was made before: of a draft that shows no secret.
    pub(crate) signature: Option<&'a str>,
}

/// What of a request is put together already.
#[derive(Default)]
struct Draft {
    base: String,
    target: String,
    body: String,
    fields: Vec<Pair>,
}

/// What the values of every call are made of.
pub(crate) struct Common<'a> {
    /// The order, or what else the call is about.
    pub(crate) about: &'a str,
    /// How `{now}` is written.
    pub(crate) format: &'a Format,
    pub(crate) now: Time,
}

impl Common<'_> {
    /// In the order of `COMMON`; the places of `{sign}`, `{key_serial}` and `{access_token}` are filled later.
    pub(crate) fn values(&self) -> Vec<String> {
        let Self { about, format, now } = *self;
        let ms = now.unix_ms();
        let seconds = ms.div_euclid(1_000).to_string();
        let nonce = Digest::of_bytes(format!("{about}/{}", now.unix_nanos()).as_bytes());
        let nonce = nonce.to_string().chars().take(32).collect();
        let later = String::new;
        vec![
            about.to_owned(),
            format.write(now),
            seconds,
            ms.to_string(),
            later(),
            nonce,
            later(),
            later(),
        ]
    }

    /// The same values at this moment: the times and the nonce are others.
    pub(crate) fn renew(&self, values: &mut [String]) {
        for (number, value) in self.values().into_iter().enumerate() {
            if OF_THE_MOMENT.contains(&number) {
                values[number] = value;
            }
        }
    }
}

impl Calling<'_> {
    /// The request a call with these values becomes. Errors: `Uncallable`.
    pub(crate) fn sent(&self, mut values: Vec<String>) -> Result<Sent, Uncallable> {
        let rule = self.rule;
        if !self.keys.suffice(rule) {
            return Err(Uncallable::NoKey);
        }
        self.keys.serial.clone_into(&mut values[KEY_SERIAL]);
        if !self.can_name(&values[ORDER]) {
            return Err(Uncallable::Order);
        }
        let mut draft = Draft { base: self.api_url.to_owned(), ..Draft::default() };
        if let Some(base) = &rule.base {
            draft.base = self.string(base, &draft, &values)?.trim_end_matches('/').to_owned();
        }
        self.put_fields(Signed::No, &mut draft, &values)?;
        let (signed_path, signed_body) = self.signed_parts();
        if !signed_path {
            draft.target = self.target(&draft, &values)?;
        }
        if !signed_body {
            draft.body = self.body(&draft, &values)?;
        }
        let mut signed = None;
        if let Some(sign) = &rule.sign {
            let text = self.string(&sign.text, &draft, &values)?;
            values[SIGN] = self.signature(sign, text.as_bytes())?;
            signed = Some((text, values[SIGN].clone()));
        }
        self.put_fields(Signed::Yes, &mut draft, &values)?;
        if signed_path {
            draft.target = self.target(&draft, &values)?;
        }
        if signed_body {
            draft.body = self.body(&draft, &values)?;
        }
        let path = draft.target.split('?').next().unwrap_or_default();
        if path.split('/').any(|step| matches!(step, "." | "..")) {
            return Err(Uncallable::Elsewhere);
        }
        let headers = self.headers(&draft, &values)?;
        let Draft { base, target, body, .. } = draft;
        Ok(Sent { method: rule.method, base, target, headers, body: body.into_bytes(), signed })
    }

    /// Whether something is left of the order's id wherever it is sent.
    fn can_name(&self, order: &str) -> bool {
        let templates = self.rule.templates();
        let tokens = templates.iter().flat_map(|template| template.tokens());
        let mut named = tokens.filter(|token| token.source == Source::Value(ORDER));
        named.all(|token| {
            let filters = token.filters.iter();
            !filters.fold(order.as_bytes().to_vec(), |v, filter| filter.apply(v)).is_empty()
        })
    }

    /// Whether the signature stands in the address, and whether in the body.
    fn signed_parts(&self) -> (bool, bool) {
        let rule = self.rule;
        let place = rule.place_of_fields().filter(|_| rule.signs_a_field());
        let in_path = rule.holds_sign(&rule.path) || place == Some(FieldsPlace::Address);
        let in_body = rule.holds_sign(&rule.body)
            || matches!(place, Some(FieldsPlace::FormBody | FieldsPlace::JsonBody));
        (in_path, in_body)
    }

    /// Adds the fields that hold the signature, or those that do not, in the order of the file.
    fn put_fields(
        &self,
        which: Signed,
        draft: &mut Draft,
        values: &[String],
    ) -> Result<(), Uncallable> {
        let all = &self.rule.fields.all;
        for (name, template) in all.iter().filter(|(_, t)| Signed::of(t) == which) {
            let value = self.string(template, draft, values)?;
            let (raw_name, raw_value) = (name.clone(), value.clone());
            draft.fields.push(Pair { name: name.clone(), value, raw_name, raw_value });
        }
        let place = |pair: &Pair| all.iter().position(|(name, _)| *name == pair.name);
        draft.fields.sort_by_key(place);
        Ok(())
    }

    fn target(&self, draft: &Draft, values: &[String]) -> Result<String, Uncallable> {
        let mut target = self.string(&self.rule.path, draft, values)?;
        if self.rule.place_of_fields() == Some(FieldsPlace::Address) {
            target.push(if target.contains('?') { '&' } else { '?' });
            target.push_str(&self.encoded(draft));
        }
        Ok(target)
    }

    fn body(&self, draft: &Draft, values: &[String]) -> Result<String, Uncallable> {
        Ok(match self.rule.place_of_fields() {
            Some(FieldsPlace::FormBody) => self.encoded(draft),
            Some(FieldsPlace::JsonBody) => {
                let member = |pair: &Pair| (pair.name.clone(), pair.value.clone().into());
                let object: serde_json::Map<_, _> = draft.fields.iter().map(member).collect();
                serde_json::Value::Object(object).to_string()
            }
            Some(FieldsPlace::Address) | None => self.string(&self.rule.body, draft, values)?,
        })
    }

    /// `a=1&b=2` of the fields.
    fn encoded(&self, draft: &Draft) -> String {
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

    fn headers(
        &self,
        draft: &Draft,
        values: &[String],
    ) -> Result<Vec<(String, String)>, Uncallable> {
        let mut headers = Vec::new();
        for (name, template) in &self.rule.headers {
            headers.push((name.clone(), self.string(template, draft, values)?));
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
            Credential::None => None,
            Credential::Basic { user, password } => {
                let [user, password] = [user, password].map(|t| self.string(t, draft, values));
                let both = format!("{}:{}", user?, password?);
                let written = Filter::Base64.apply(both.into_bytes());
                Some(format!("Basic {}", String::from_utf8_lossy(&written)))
            }
            Credential::Bearer(token) => {
                Some(format!("Bearer {}", self.string(token, draft, values)?))
            }
        };
        headers.extend(credential.map(|credential| ("authorization".to_owned(), credential)));
        Ok(headers)
    }

    fn signature(&self, sign: &CallSign, text: &[u8]) -> Result<String, Uncallable> {
        if let Some(made) = self.signature {
            return Ok(made.to_owned());
        }
        if let Some(algorithm) = self.rule.signs_with() {
            let signed = self.keys.private.and_then(|key| key.sign(algorithm, text));
            return Ok(sign.output.write(&signed.ok_or(Uncallable::NoKey)?));
        }
        let secret = Secret::from_bytes(self.keys.secret.ok_or(Uncallable::NoKey)?.to_vec());
        // Which algorithms are taken, and how long keys are, was held when both were read.
        let ready = Ready::new(sign.algorithm, secret, Strength::Any);
        let signature = ready.ok().and_then(|ready| ready.expected(sign.algorithm, text));
        Ok(sign.output.write(&signature.ok_or(Uncallable::NoKey)?))
    }

    fn string(
        &self,
        template: &Template,
        draft: &Draft,
        values: &[String],
    ) -> Result<String, Uncallable> {
        let (path, query) = draft.target.split_once('?').unwrap_or((&draft.target, ""));
        let (method, base_url) = (self.rule.method.name(), draft.base.as_str());
        let body = draft.body.as_bytes();
        let request = Request { method, base_url, path, query, headers: Vec::new(), body };
        let fields = Document::Pairs(draft.fields.clone());
        let reading = Reading::of_document(self.scheme, &request, self.limits, Some(fields));
        let of = Of { values, ..self.of };
        let bare = Context::bare(&reading, &of);
        let lists = Some(self.rule.fields.pairs.as_slice());
        let texts = Some(self.rule.texts.as_slice());
        Ok(Context { secret: self.keys.secret, lists, texts, ..bare }.string(template)?)
    }
}

/// Whether a field holds the signature.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Signed {
    Yes,
    No,
}

impl Signed {
    fn of(template: &Template) -> Self {
        if has_sign(template) { Self::Yes } else { Self::No }
    }
}
