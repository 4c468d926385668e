//! Writes signed notices: the values of one event are put where the profile reads them, and the
//! message is signed with the account's key.

use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;

use super::draft::{EncodedMessage, JsonKind, MessageDraft};
use super::error::SimulationError;
use super::inverse::split;
use super::sample::sample;
use crate::directory::account::Account;
use crate::scheme::ack::{AckBody, AckKind};
use crate::scheme::compiled::Scheme;
use crate::scheme::crypt::{KeyKind, KeyStrength, ReadyKey};
use crate::scheme::map::find_event;
use crate::scheme::message::{ParsedMessage, TemplateContext};
use crate::scheme::request::NoticeRequest;
use crate::scheme::rules::{
    ConditionTest, EventOutcome, EventRule, MapRule, MatchCondition, SignRule, ValuePlaces,
};
use crate::scheme::template::Template;
use crate::scheme::template_values::TemplateInputs;
use crate::secret::Secret;

/// The key of forged notices. It belongs to no account.
const FORGED_KEY: &[u8] = b"a key of no account, for notices that must be refused";

/// The values of a payment in a notice or an answer.
#[derive(Clone, Copy, Debug)]
pub struct PaymentValues<'a> {
    /// The merchant code, as the message names it.
    pub merchant_code: &'a str,
    /// The order.
    pub order_id: &'a str,
    /// The transaction.
    pub provider_ref: &'a str,
    /// The amount, in minor units.
    pub amount: Amount,
    /// The currency.
    pub currency: Currency,
    /// When the payment was made.
    pub paid_at: Option<Time>,
}

/// The values of a notice.
#[derive(Clone, Copy, Debug)]
pub struct NoticeValues<'a> {
    /// The payment.
    pub payment: PaymentValues<'a>,
    /// What happened.
    pub status: Status,
    /// The notice's own time.
    pub at: Time,
    /// A nonce, if the profile reads one.
    pub nonce: Option<&'a str>,
}

/// A flaw that a notice is written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeFlaw {
    /// Signed with a key of no account.
    WrongKey,
    /// Without the time of payment.
    NoPaidAt,
    /// The amount is a text instead of a JSON number, or the other way round.
    AmountKind,
}

/// A signed notice, ready to be sent to the address that it was written for. It has no `Debug`,
/// because some partners send the secret itself.
pub struct SimulatedNotice {
    /// The HTTP method.
    pub method: &'static str,
    /// The query to add to the address. Empty if there is none.
    pub query: String,
    /// The headers, `content-type` included.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Account {
    /// Writes a notice as the partner would send it to `url`, signed with the account's key that
    /// is valid at `now`. Errors: `SimulationError`.
    pub fn write_notice(
        &self,
        url: &str,
        values: &NoticeValues<'_>,
        flaw: Option<NoticeFlaw>,
        now: Time,
    ) -> Result<SimulatedNotice, SimulationError> {
        let scheme = self.profile().scheme();
        let writer = NoticeWriter { account: self, scheme, url, values };
        let mut refused = None;
        for event in &scheme.events {
            if event.outcome != EventOutcome::Status(values.status) {
                continue;
            }
            match writer.write(event, flaw, now) {
                Ok(notice) => return Ok(notice),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        let name = || SimulationError::NoEvent(values.status.as_str().to_owned());
        Err(refused.unwrap_or_else(name))
    }

    /// Whether this is how we acknowledge a notice.
    pub fn is_acknowledgement(&self, status: u16, body: &[u8]) -> bool {
        let Some(rule) = self.profile().scheme().acks.rule(AckKind::Accepted) else {
            return status == 200 && body.is_empty();
        };
        let is_body = match &rule.body {
            AckBody::Fixed(fixed) => body == fixed.as_bytes(),
            AckBody::Template(template) => {
                let (texts, inputs) = (&self.profile().scheme().texts, self.template_inputs());
                let text = std::str::from_utf8(body);
                text.is_ok_and(|text| split(template, texts, &inputs, text).is_some())
            }
        };
        status == rule.status && is_body
    }

    /// Whether a transaction may have this name in the partner's notices.
    pub fn takes_ref(&self, provider_ref: &str) -> bool {
        let scheme = self.profile().scheme();
        let draft = MessageDraft::of_notice(scheme, self.template_inputs());
        let of_events = scheme.events.iter().map(|event| &event.places);
        let mut places = std::iter::once(&scheme.map.places).chain(of_events);
        places.all(|places| {
            places.provider_ref.as_ref().is_none_or(|place| draft.fits(place, provider_ref))
        })
    }
}

struct NoticeWriter<'a> {
    account: &'a Account,
    scheme: &'a Scheme,
    url: &'a str,
    values: &'a NoticeValues<'a>,
}

impl<'a> NoticeWriter<'a> {
    fn method(&self) -> &'static str {
        if self.scheme.takes_method("POST") { "POST" } else { "GET" }
    }

    fn inputs(&self) -> TemplateInputs<'a> {
        self.account.template_inputs()
    }

    fn write(
        &self,
        event: &EventRule,
        flaw: Option<NoticeFlaw>,
        now: Time,
    ) -> Result<SimulatedNotice, SimulationError> {
        let (sign, key) = signer(self.account, now)?;
        let ready = key.ready;
        let mut draft = self.filled(event, key.name)?;
        let written = self.signed(draft.clone(), sign, ready)?;
        if !self.is_read_as(event, &written) {
            return Err(SimulationError::OtherEvent(self.values.status.as_str().to_owned()));
        }
        let places = (&self.scheme.map, &event.places);
        let written = match flaw {
            None => written,
            Some(NoticeFlaw::WrongKey) => {
                let forged = Secret::from_bytes(FORGED_KEY.to_vec());
                let forged = ReadyKey::new(sign.algorithm, forged, KeyStrength::Any);
                let forged = forged.map_err(|_| NOT_OURS)?;
                self.signed(draft, sign, &forged)?
            }
            Some(NoticeFlaw::NoPaidAt) => {
                if let Some(paid_at) = place(places, |places| places.paid_at.as_ref()) {
                    draft.remove(paid_at);
                }
                self.signed(draft, sign, ready)?
            }
            Some(NoticeFlaw::AmountKind) => {
                if let Some(amount) = place(places, |places| places.amount.as_ref()) {
                    draft.change_kind(amount);
                }
                self.signed(draft, sign, ready)?
            }
        };
        let EncodedMessage { query, mut headers, body } = written;
        let content_type = self.scheme.content_types.first().filter(|_| !body.is_empty());
        headers.extend(content_type.map(|name| ("content-type".to_owned(), name.clone())));
        Ok(SimulatedNotice { method: self.method(), query, headers, body })
    }

    /// A draft with all values, not signed; it names the key that will sign it.
    fn filled(&self, event: &EventRule, key: &str) -> Result<MessageDraft<'a>, SimulationError> {
        let (scheme, values) = (self.scheme, self.values);
        let mut draft = MessageDraft::of_notice(scheme, self.inputs());
        if let Some(place) = &scheme.key.id {
            draft.put(place, key, JsonKind::Text)?;
        }
        let places = (&scheme.map, &event.places);
        put_payment(&mut draft, places, &values.payment)?;
        let nonce = place(places, |places| places.nonce.as_ref());
        if let (Some(place), Some(nonce)) = (nonce, values.nonce) {
            draft.put(place, nonce, JsonKind::Text)?;
        }
        if let Some((place, format)) = &scheme.time {
            draft.put(place, &format.write(values.at), JsonKind::Number)?;
        }
        meet(&mut draft, &event.when)?;
        for required in &scheme.require {
            let tokens = required.equals.tokens();
            let equals: Option<String> = match tokens.as_slice() {
                [] => Some(required.equals.literals().concat()),
                [token] if required.equals.single().is_some() => Some(draft.text(token)),
                _ => None,
            };
            let why = "the text it must equal is not known";
            let equals = equals.ok_or_else(|| SimulationError::place(&required.equals, why))?;
            draft.put(&required.value, &equals, JsonKind::Text)?;
        }
        for rule in &scheme.fields {
            let Some(pattern) = &rule.pattern else { continue };
            let is_needed = scheme.always_signs(&rule.at) && !pattern.is_match("");
            if is_needed && draft.text(&rule.at).is_empty() {
                let why = "no text that fits its pattern was found";
                let text = sample(pattern).ok_or(SimulationError::place(&rule.at.written, why))?;
                draft.put_token(&rule.at, &text, JsonKind::Text)?;
            }
        }
        Ok(draft)
    }

    /// Signs a draft and encodes it.
    fn signed(
        &self,
        mut draft: MessageDraft<'a>,
        sign: &SignRule,
        ready: &ReadyKey,
    ) -> Result<EncodedMessage, SimulationError> {
        let written = draft.clone().encode()?;
        let Some(place) = &sign.signature else { return Ok(written) };
        let inputs = self.inputs();
        let text = self.read(&written, &inputs, |message| {
            let bare = TemplateContext::without_key(message, &inputs);
            TemplateContext { secret: ready.secret(), ..bare }.render(&sign.text).ok()
        });
        let text = text.flatten().ok_or(SimulationError::Signature("its text can't be built"))?;
        let signature = ready.compute_signature(&text).ok_or(NOT_OURS)?;
        let signature = format!("{}{}", sign.prefix, sign.output.encode(&signature));
        draft.put_token(place, &signature, JsonKind::Text)?;
        draft.encode()
    }

    /// Whether the profile reads a notice as this event.
    fn is_read_as(&self, event: &EventRule, written: &EncodedMessage) -> bool {
        let inputs = self.inputs();
        let is_it = self.read(written, &inputs, |message| {
            let context = TemplateContext::without_key(message, &inputs);
            find_event(self.scheme, context)
                .is_ok_and(|found| found.is_some_and(|found| std::ptr::eq(found, event)))
        });
        is_it == Some(true)
    }

    /// Reads a notice as it comes to `url`. `None` if it can't be parsed.
    fn read<T>(
        &self,
        written: &EncodedMessage,
        inputs: &TemplateInputs<'_>,
        with: impl FnOnce(&ParsedMessage<'_>) -> T,
    ) -> Option<T> {
        let request = NoticeRequest {
            method: self.method(),
            query: &written.query,
            headers: written.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect(),
            body: &written.body,
            ..NoticeRequest::of_url(self.url)
        };
        let limits = self.account.profile().limits();
        let mut message = ParsedMessage::new(self.scheme, &request, limits).ok()?;
        message.unwrap_documents(inputs).ok()?;
        if self.scheme.items.is_some() {
            message.select_item(0);
        }
        Some(with(&message))
    }
}

const NOT_OURS: SimulationError =
    SimulationError::Signature("the profile takes a key that only the partner has");

/// A shared key of the account, for one way of signing.
struct SharedKey<'a> {
    ready: &'a ReadyKey,
    /// The partner's name for the key.
    name: &'a str,
}

/// The first way of signing that the account has a shared key for, and its newest one.
fn signer(account: &Account, now: Time) -> Result<(&SignRule, SharedKey<'_>), SimulationError> {
    let mut why = NOT_OURS;
    for (number, sign) in account.profile().scheme().signs.iter().enumerate() {
        if sign.algorithm.key_kind() == KeyKind::Public {
            continue;
        }
        let valid = account.scheme_keys().keys.iter().filter(|key| key.is_valid_at(now));
        let shared = valid.filter_map(|key| {
            let ready = key.ready[number].as_ref().filter(|ready| ready.secret().is_some())?;
            Some((key.window.begins, SharedKey { ready, name: key.name() }))
        });
        match shared.max_by_key(|(from, _)| *from) {
            Some((_, key)) => return Ok((sign, key)),
            None => why = SimulationError::Signature("no key for notices is valid now"),
        }
    }
    Err(why)
}

/// The template of a value: the event's own, or else the map's.
fn place<'t>(
    (map, own): (&'t MapRule, &'t ValuePlaces),
    of: impl Fn(&'t ValuePlaces) -> Option<&'t Template>,
) -> Option<&'t Template> {
    of(own).or_else(|| of(&map.places))
}

/// Puts the values of a payment where an event of this map, with places of its own, reads them.
pub(super) fn put_payment(
    draft: &mut MessageDraft<'_>,
    places: (&MapRule, &ValuePlaces),
    payment: &PaymentValues<'_>,
) -> Result<(), SimulationError> {
    let (map, _) = places;
    let paid_at = payment.paid_at.map(|at| map.paid_at_format.write(at));
    let code = payment.currency.code();
    let theirs = map.currencies.iter().find(|(_, ours)| *ours == code);
    let currency = theirs.map_or(code, |(theirs, _)| theirs.as_str());
    let texts = [
        (map.merchant.as_ref(), Some(payment.merchant_code)),
        (place(places, |places| places.order.as_ref()), Some(payment.order_id)),
        (place(places, |places| places.provider_ref.as_ref()), Some(payment.provider_ref)),
        (place(places, |places| places.paid_at.as_ref()), paid_at.as_deref()),
        (place(places, |places| places.currency.as_ref()), Some(currency)),
    ];
    for (place, text) in texts {
        if let (Some(place), Some(text)) = (place, text) {
            draft.put(place, text, JsonKind::Text)?;
        }
    }
    let Some(place) = place(places, |places| places.amount.as_ref()) else { return Ok(()) };
    let why = "the partner has no exact number for it";
    let text = map.amount.write_amount(payment.amount, payment.currency);
    let text = text.ok_or_else(|| SimulationError::place(place, why))?;
    // Some partners always write two decimals.
    let text = if draft.fits(place, &text) { text } else { format!("{text}.00") };
    draft.put(place, &text, JsonKind::Number)
}

/// Puts values with which all conditions hold. Errors: a condition that needs another value than
/// the one that is there.
pub(super) fn meet(
    draft: &mut MessageDraft<'_>,
    when: &[MatchCondition],
) -> Result<(), SimulationError> {
    for condition in when {
        let text = draft.text(&condition.value);
        if condition.test.takes(Some(text.as_str()).filter(|text| !text.is_empty())) {
            continue;
        }
        let wanted = match &condition.test {
            ConditionTest::Is(text) | ConditionTest::StartsWith(text) => Some(text.as_str()),
            ConditionTest::OneOf(texts) => texts.first().map(String::as_str),
            ConditionTest::Present => Some("1"),
            ConditionTest::IsNot(_) | ConditionTest::NoneOf(_) | ConditionTest::Absent => None,
        };
        let why = "a condition of the event needs another value";
        let wanted = wanted.ok_or_else(|| SimulationError::place(&condition.value.written, why))?;
        draft.put_token(&condition.value, wanted, JsonKind::Text)?;
    }
    Ok(())
}
