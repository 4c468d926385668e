//! Reads our calls as the partner does: finds the values of a call in its request, builds the
//! request again with them, and compares the two.

use payfold_schemas::ids::OrderId;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use subtle::ConstantTimeEq;

use super::inverse::{apply, are_exact, split, unfiltered};
use crate::create::PresentationKind;
use crate::directory::account::Account;
use crate::limits::BodyLimits;
use crate::scheme::call::rule::{COMMON, CallRule, FieldsPlace, ORDER, SIGN};
use crate::scheme::call::{CallRequest, RequestBuilder};
use crate::scheme::create::rule as create;
use crate::scheme::create::rule::SchemeCreate;
use crate::scheme::document::{Document, parse_url_encoded};
use crate::scheme::filter::Filter;
use crate::scheme::json_document::JsonDocument;
use crate::scheme::query::rule as query;
use crate::scheme::request::NoticeRequest;
use crate::scheme::template::{Template, TemplateToken, TokenSource};
use crate::scheme::template_values::TemplateInputs;

/// Limits of the fields of a call. The server that receives it bounds its bytes.
const FIELD_LIMITS: BodyLimits = BodyLimits { body_bytes: 65_536, depth: 4, keys: 256 };

/// Why a request is not the call of a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallReadError {
    /// The profile makes no such call, or it goes elsewhere.
    #[error("the profile sends no such call to this address")]
    Address,
    /// The signature or the credential is not that of the account.
    #[error("{0} is not of this account")]
    Unauthenticated(&'static str),
    /// The call can't be built again.
    #[error("the call can't be built from its values: {0}")]
    Unbuildable(String),
    /// The request differs from what the profile writes.
    #[error("{0} is not as the profile writes it")]
    Part(String),
    /// A value can't be read.
    #[error("{0} can't be read")]
    Value(&'static str),
}

/// The values of a create call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadCreate {
    /// The order.
    pub order_id: OrderId,
    /// The amount.
    pub amount: Amount,
    /// Its currency.
    pub currency: Currency,
    /// The description. Empty if the call has none.
    pub description: String,
    /// Where the payer is sent back to. `None` if the call does not say it.
    pub return_url: Option<String>,
    /// Where notices are sent. `None` if the call does not say it.
    pub ipn_url: Option<String>,
    /// The end of the session. `None` if the call does not say it.
    pub expires_at: Option<Time>,
    /// Page or QR code, if the call says which.
    pub presentation: Option<PresentationKind>,
}

/// The values of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadQuery {
    /// The transaction. Empty if the query does not name it.
    pub provider_ref: String,
    /// The order. Empty if the query does not name it.
    pub order_id: String,
}

impl Account {
    /// Reads a create call of this account. Errors: `CallReadError`.
    pub fn read_create(
        &self,
        request: &NoticeRequest<'_>,
        now: Time,
    ) -> Result<ReadCreate, CallReadError> {
        let create = self.profile().scheme().create.as_ref().ok_or(CallReadError::Address)?;
        let values = self.read_call(&create.rule, create::VALUES.len(), request, now)?;
        let text = |number: usize| values[number].clone();
        let given = |number: usize| Some(text(number)).filter(|text| !text.is_empty());
        let currency = currency(create, &text(create::CURRENCY));
        let currency = currency.ok_or(CallReadError::Value("the currency"))?;
        let amount = create.amount.read_amount(&text(create::AMOUNT), currency);
        let presentation = given(create::PRESENTATION).map(|name| {
            let kinds = [PresentationKind::Page, PresentationKind::Qr];
            let kind = kinds.into_iter().find(|kind| kind.name() == name);
            kind.ok_or(CallReadError::Value("the presentation"))
        });
        Ok(ReadCreate {
            order_id: OrderId::parse(&text(ORDER))
                .map_err(|_| CallReadError::Value("the order"))?,
            amount: amount.map_err(|_| CallReadError::Value("the amount"))?,
            currency,
            description: text(create::DESCRIPTION),
            return_url: given(create::RETURN_URL),
            ipn_url: given(create::IPN_URL),
            expires_at: expires_at(create, &values, now)?,
            presentation: presentation.transpose()?,
        })
    }

    /// Reads a query of this account. Errors: `CallReadError`.
    pub fn read_query(
        &self,
        request: &NoticeRequest<'_>,
        now: Time,
    ) -> Result<ReadQuery, CallReadError> {
        let rule = self.profile().scheme().query.as_ref().ok_or(CallReadError::Address)?;
        let mut values = self.read_call(&rule.question, query::VALUES.len(), request, now)?;
        let mut take = |number: usize| std::mem::take(&mut values[number]);
        let (order, without_ref) = (take(ORDER), take(query::ORDER_WITHOUT_REF));
        let order_id = if order.is_empty() { without_ref } else { order };
        Ok(ReadQuery { provider_ref: take(query::REF), order_id })
    }

    /// The values of a call: those of `COMMON`, then `more` of its own. Errors: the request is not
    /// the one that the profile makes of these values.
    fn read_call(
        &self,
        rule: &CallRule,
        more: usize,
        request: &NoticeRequest<'_>,
        now: Time,
    ) -> Result<Vec<String>, CallReadError> {
        if rule.method.name() != request.method {
            return Err(CallReadError::Address);
        }
        let found = found_values(rule, &self.template_inputs(), request)?;
        let values = (0..COMMON.len() + more).map(|number| value_of(number, &found));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let builder = RequestBuilder::of(
            self,
            (rule, None),
            self.scheme_keys().call_keys(rule, now),
            request.base_url,
        );
        let built = builder.build(values.clone());
        let built = built.map_err(|why| CallReadError::Unbuildable(why.to_string()))?;
        if let Some((_, signature)) = &built.signed {
            let mut claims = found.iter().filter(|(t, _)| t.source == TokenSource::Value(SIGN));
            let is_signed = |(token, claimed): &(&TemplateToken, String)| {
                bool::from(apply(&token.filters, signature).ct_eq(claimed.as_bytes()))
            };
            if !claims.all(is_signed) {
                return Err(CallReadError::Unauthenticated("the signature"));
            }
        }
        compare(&built, request)?;
        Ok(values)
    }
}

/// Checks that a request is the built one.
fn compare(built: &CallRequest, request: &NoticeRequest<'_>) -> Result<(), CallReadError> {
    for (name, value) in &built.headers {
        let mut sent = request.header_values(name);
        if sent.any(|sent| bool::from(sent.as_bytes().ct_eq(value.as_bytes()))) {
            continue;
        }
        return Err(match name.eq_ignore_ascii_case("authorization") {
            true => CallReadError::Unauthenticated("the credential"),
            false => CallReadError::Part(format!("the header {name}")),
        });
    }
    if built.target != request.target() {
        return Err(CallReadError::Part("the address".to_owned()));
    }
    if built.body != request.body {
        return Err(CallReadError::Part("the body".to_owned()));
    }
    Ok(())
}

/// The tokens of the templates of a call, each with the text that the request has in its place.
fn found_values<'r>(
    rule: &'r CallRule,
    inputs: &TemplateInputs<'_>,
    request: &NoticeRequest<'_>,
) -> Result<Vec<(&'r TemplateToken, String)>, CallReadError> {
    let mut found = Vec::new();
    let mut of = |template: &'r Template, text: &str| -> Option<()> {
        found.extend(split(template, &rule.texts, inputs, text)?);
        Some(())
    };
    let place = rule.place_of_fields();
    let target = request.target();
    let path = match place {
        Some(FieldsPlace::Address) if rule.path.literals().concat().contains('?') => None,
        Some(FieldsPlace::Address) => Some(request.path),
        _ => Some(target.as_str()),
    };
    path.and_then(|path| of(&rule.path, path)).ok_or(CallReadError::Address)?;
    let body = String::from_utf8_lossy(request.body);
    if place.is_none() {
        of(&rule.body, &body).ok_or_else(|| CallReadError::Part("the body".to_owned()))?;
    }
    let fields = match place {
        Some(FieldsPlace::Address) => {
            parse_url_encoded(request.query.as_bytes(), FIELD_LIMITS).ok()
        }
        Some(FieldsPlace::FormBody) => parse_url_encoded(request.body, FIELD_LIMITS).ok(),
        Some(FieldsPlace::JsonBody) => {
            JsonDocument::parse(request.body, FIELD_LIMITS).ok().map(Document::Json)
        }
        None => None,
    };
    for (name, template) in rule.fields.all.iter().filter(|_| place.is_some()) {
        let path = std::slice::from_ref(name);
        let value = fields.as_ref().and_then(|fields| fields.find(path).ok().flatten());
        let text = value.map(|value| String::from_utf8_lossy(value.text).into_owned());
        let is_read = text.and_then(|text| of(template, &text));
        is_read.ok_or_else(|| CallReadError::Part(format!("the field {name}")))?;
    }
    for (name, template) in &rule.headers {
        let text = request.header_values(name).next();
        let is_read = text.and_then(|text| of(template, text));
        is_read.ok_or_else(|| CallReadError::Part(format!("the header {name}")))?;
    }
    Ok(found)
}

/// The value that all tokens naming it agree on. Empty if no token names it, or none lets it be
/// found.
fn value_of(number: usize, found: &[(&TemplateToken, String)]) -> Result<String, CallReadError> {
    let tokens = found.iter().filter(|(token, _)| token.source == TokenSource::Value(number));
    let named: Vec<(&[Filter], &str)> =
        tokens.map(|(token, text)| (token.filters.as_slice(), text.as_str())).collect();
    let agree = |value: &String| {
        named.iter().all(|(filters, text)| apply(filters, value) == text.as_bytes())
    };
    // A value that a filter changed is only taken where no token has it unchanged, and never as
    // the order.
    let (exact, changed): (Vec<_>, Vec<_>) =
        named.iter().partition(|(filters, _)| are_exact(filters));
    let changed = changed.into_iter().filter(|_| number != ORDER);
    let candidates: Vec<String> = exact
        .into_iter()
        .chain(changed)
        .flat_map(|(filters, text)| unfiltered(filters, text))
        .collect();
    match candidates.iter().find(|value| agree(value)) {
        Some(value) => Ok(value.clone()),
        None if number == ORDER && !named.is_empty() => Err(CallReadError::Value("the order")),
        None if candidates.is_empty() => Ok(String::new()),
        None => Err(CallReadError::Value("a value that the call names twice")),
    }
}

/// The currency of a create: of the partner's code in the call, or the only one there is.
fn currency(create: &SchemeCreate, code: &str) -> Option<Currency> {
    let mut known = create.currencies.iter();
    let ours = match (code, create.currencies.len()) {
        ("", 1) => known.next().map(|(ours, _)| ours.as_str()),
        (_, 0) => Some(code),
        _ => known.find(|(_, theirs)| *theirs == code).map(|(ours, _)| ours.as_str()),
    };
    Currency::parse(ours?).ok()
}

/// The end of a session that a create call asks for.
fn expires_at(
    create: &SchemeCreate,
    values: &[String],
    now: Time,
) -> Result<Option<Time>, CallReadError> {
    let unreadable = CallReadError::Value("the expiry");
    for number in [create::EXPIRES, create::EXPIRES_ASKED] {
        if !values[number].is_empty() {
            return create.expires.read(&values[number]).map(Some).ok_or(unreadable);
        }
    }
    for (number, unit_ms) in [(create::EXPIRES_IN_S, 1_000), (create::EXPIRES_IN_MIN, 60_000)] {
        if !values[number].is_empty() {
            let count: i64 = values[number].parse().map_err(|_| unreadable.clone())?;
            return Ok(Some(now.plus_ms(count.saturating_mul(unit_ms))));
        }
    }
    Ok(None)
}
