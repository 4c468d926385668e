//! Owns mapping a verified notice to the contract's fields: which event it is, and its checked
//! values. Pure. Whether the notice is in time is judged later, in ingest; whether it fits the
//! order, by the fold.

use payfold_schemas::ids::{EventRef, Nonce, ProviderRef};
use payfold_schemas::ipn::{MoneyContent, Status};
use payfold_schemas::money::{Amount, AmountError, Currency};
use payfold_schemas::text::{Text, TextRule};
use payfold_schemas::time::Time;

use super::found_value::ValueKind;
use super::message::TemplateContext;
use super::template::Template;
use super::template_values::TemplateValueError;
use crate::notice_content::{ContentFault, FaultKind, NoticeContent, PaymentEvent, fault};
use crate::profile::Profile;
use crate::profile::rules::NonceRule;
use crate::scheme::compiled::Scheme;
use crate::scheme::rules::{
    ConditionTest, EventOutcome, EventRule, FieldRule, JsonType, MapRule, MatchCondition,
    RefundAmount, SignRule, ValuePlaces,
};

/// Maps the notice of this context, which `sign` lets pass. Errors: `ContentFault`, with the place.
pub(crate) fn map_notice(
    profile: &Profile,
    context: TemplateContext<'_>,
    sign: &SignRule,
) -> Result<NoticeContent, ContentFault> {
    let scheme = context.message.scheme();
    let merchant = scheme.map.merchant.as_ref();
    let merchant = merchant.map(|merchant| context.render_string(merchant)).transpose()?;
    let Some(event) = find_event(scheme, context)? else {
        return fault(FaultKind::UnknownStatus, "no [[event]] of the profile is of this kind");
    };
    let status = match event.outcome {
        EventOutcome::Ignore => return Ok(NoticeContent::Ignored),
        EventOutcome::NoOrder => return Ok(NoticeContent::NoOrder),
        EventOutcome::Refuse => {
            return fault(FaultKind::UnknownStatus, "the profile refuses notices of this kind");
        }
        EventOutcome::Status(status) => status,
    };
    if merchant.is_some_and(|merchant| merchant.trim().is_empty()) {
        return fault(FaultKind::Missing, "merchant is required");
    }
    for rule in &scheme.fields {
        check_field(rule, context)?;
    }
    let places = EventValues { map: &scheme.map, own: &event.places, context };
    let currency = places.currency()?;
    let amount = places.amount(currency)?;
    let timestamp = read_time(scheme, context)?;
    let paid_at = places.paid_at(timestamp.filter(|_| is_paid_then(profile, event)))?;
    let provider_ref: ProviderRef = places.id("ref", |places| places.provider_ref.as_ref())?;
    let mut policy = profile.policy(provider_ref.as_str());
    policy.unconfirmed = scheme.confirms(sign);
    let event_ref: Option<EventRef> = places.optional_id(|places| places.event.as_ref())?;
    policy.refund_so_far = status == Status::Refunded
        && event_ref.is_none()
        && scheme.map.refunds == RefundAmount::Total;
    let nonce: Option<Nonce> = places.optional_id(|places| places.nonce.as_ref())?;
    if profile.nonce() == NonceRule::Required && nonce.is_none() {
        return fault(FaultKind::Missing, "nonce is required");
    }
    Ok(NoticeContent::Event(Box::new(PaymentEvent {
        order_id: places.id("order", |places| places.order.as_ref())?,
        provider_ref,
        status,
        money: MoneyContent { amount, currency, paid_at, event_ref },
        timestamp,
        nonce: nonce.filter(|_| profile.nonce() != NonceRule::Unused),
        policy,
    })))
}

/// The first event with conditions that all hold.
pub(crate) fn find_event<'s>(
    scheme: &'s Scheme,
    context: TemplateContext<'_>,
) -> Result<Option<&'s EventRule>, ContentFault> {
    for event in &scheme.events {
        if conditions_hold(&event.when, context)? {
            return Ok(Some(event));
        }
    }
    Ok(None)
}

/// Whether all conditions hold. Errors: a place that can't be read.
pub(crate) fn conditions_hold(
    when: &[MatchCondition],
    context: TemplateContext<'_>,
) -> Result<bool, ContentFault> {
    for condition in when {
        if !is_met(condition, context)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the notice's own time is used as paid_at: time.kind is "event", and it is a success.
fn is_paid_then(profile: &Profile, event: &EventRule) -> bool {
    let is_event = profile.time().kind == crate::profile::time::TimeKind::Event;
    is_event && event.outcome == EventOutcome::Status(Status::Success)
}

fn is_met(condition: &MatchCondition, context: TemplateContext<'_>) -> Result<bool, ContentFault> {
    // A signed text is the same for an absent and an empty value, so conditions treat both alike.
    let text = || -> Result<Option<String>, ContentFault> {
        if !context.is_present(&condition.value)? {
            return Ok(None);
        }
        let text = String::from_utf8(context.render_token(&condition.value)?)
            .map_err(|_| TemplateValueError::NotText(condition.value.written.clone()))?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    };
    // With filters, presence is tested on the filtered value.
    let is_there = || match condition.value.filters.is_empty() {
        true => Ok(context.is_present(&condition.value)?),
        false => Ok::<_, ContentFault>(text()?.is_some()),
    };
    Ok(match &condition.test {
        ConditionTest::Present => is_there()?,
        ConditionTest::Absent => !is_there()?,
        test => test.takes(text()?.as_deref()),
    })
}

/// Checks a value against its `[[field]]`. An absent value passes, unless it is always signed and
/// the pattern does not match the empty text.
fn check_field(rule: &FieldRule, context: TemplateContext<'_>) -> Result<(), ContentFault> {
    let Some(value) = context.find_value(&rule.at)?.filter(|value| value.kind != ValueKind::Null)
    else {
        // A value left out of a signed text would be another reading of that text.
        return match &rule.pattern {
            Some(pattern)
                if context.message.scheme().always_signs(&rule.at) && !pattern.is_match("") =>
            {
                fault(FaultKind::Missing, format!("{} is required", rule.at.written))
            }
            _ => Ok(()),
        };
    };
    let Ok(text) = std::str::from_utf8(value.text) else {
        return Err(TemplateValueError::NotText(rule.at.written.clone()).into());
    };
    if text.trim().is_empty() && value.kind == ValueKind::String && rule.refuses_empty {
        return fault(FaultKind::Empty, format!("{} is empty", rule.at.written));
    }
    let fits = match rule.shape {
        None => true,
        Some(JsonType::String) => matches!(value.kind, ValueKind::String | ValueKind::Plain),
        Some(JsonType::Number) => matches!(value.kind, ValueKind::Number | ValueKind::Plain),
        Some(JsonType::Integer) => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            matches!(value.kind, ValueKind::Number | ValueKind::Plain) && all_digits
        }
        Some(JsonType::Bool) => matches!(text, "true" | "false") && value.kind != ValueKind::String,
    };
    if !fits {
        return fault(FaultKind::WrongType, format!("{} has another type", rule.at.written));
    }
    match &rule.pattern {
        Some(pattern) if !pattern.is_match(text) => fault(
            FaultKind::IllegalCharacter,
            format!("{} does not fit its pattern", rule.at.written),
        ),
        _ => Ok(()),
    }
}

/// Reads the notice's own time.
fn read_time(scheme: &Scheme, context: TemplateContext<'_>) -> Result<Option<Time>, ContentFault> {
    let Some((template, format)) = &scheme.time else { return Ok(None) };
    let text = context.render_string(template)?;
    if text.is_empty() {
        return fault(FaultKind::Missing, "time is required");
    }
    match format.read(&text) {
        Some(time) => Ok(Some(time)),
        None => fault(FaultKind::BadTimestamp, "time is not written as the profile says"),
    }
}

/// Reads the values of the chosen event: from its own places, or else from the map's.
pub(crate) struct EventValues<'c> {
    pub(crate) map: &'c MapRule,
    pub(crate) own: &'c ValuePlaces,
    pub(crate) context: TemplateContext<'c>,
}

impl EventValues<'_> {
    /// The template of a value. `None` if the profile has none.
    pub(crate) fn place<'t>(
        &'t self,
        place: impl Fn(&'t ValuePlaces) -> Option<&'t Template>,
    ) -> Option<&'t Template> {
        place(self.own).or_else(|| place(&self.map.places))
    }

    /// The text of a value. `None` if the profile has no place for it, or the text is empty.
    fn text<'t>(
        &'t self,
        place: impl Fn(&'t ValuePlaces) -> Option<&'t Template>,
    ) -> Result<Option<String>, ContentFault> {
        let Some(template) = self.place(place) else { return Ok(None) };
        let text = self.context.render_string(template)?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    fn required<'t>(
        &'t self,
        name: &str,
        place: impl Fn(&'t ValuePlaces) -> Option<&'t Template>,
    ) -> Result<String, ContentFault> {
        match self.text(place)? {
            Some(text) => Ok(text),
            None => fault(FaultKind::Missing, format!("{name} is required")),
        }
    }

    pub(crate) fn currency(&self) -> Result<Currency, ContentFault> {
        let text = self.required("currency", |places| places.currency.as_ref())?;
        let text = self.map.currencies.get(&text).unwrap_or(&text);
        match Currency::parse(text) {
            Ok(currency) => Ok(currency),
            Err(_) => {
                fault(FaultKind::UnknownCurrency, "currency is no ISO 4217 code with minor units")
            }
        }
    }

    pub(crate) fn amount(&self, currency: Currency) -> Result<Amount, ContentFault> {
        let text = self.required("amount", |places| places.amount.as_ref())?;
        self.map.amount.read_amount(&text, currency).or_else(|error| match error {
            AmountError::NotInteger => fault(
                FaultKind::AmountNotInteger,
                "amount is no exact number of the currency's minor units",
            ),
            AmountError::OutOfRange => {
                fault(FaultKind::AmountOutOfRange, "amount is not between 1 and 10^15 minor units")
            }
        })
    }

    /// Reads paid_at; `otherwise` if the notice has none.
    fn paid_at(&self, otherwise: Option<Time>) -> Result<Option<Time>, ContentFault> {
        let Some(text) = self.text(|places| places.paid_at.as_ref())? else {
            return Ok(otherwise);
        };
        match self.map.paid_at_format.read(&text) {
            Some(time) => Ok(Some(time)),
            None => fault(FaultKind::BadTimestamp, "paid_at is not written as the profile says"),
        }
    }

    pub(crate) fn id<'t, R: TextRule>(
        &'t self,
        name: &str,
        place: impl Fn(&'t ValuePlaces) -> Option<&'t Template>,
    ) -> Result<Text<R>, ContentFault> {
        Ok(Text::parse(&self.required(name, place)?)?)
    }

    fn optional_id<'t, R: TextRule>(
        &'t self,
        place: impl Fn(&'t ValuePlaces) -> Option<&'t Template>,
    ) -> Result<Option<Text<R>>, ContentFault> {
        Ok(self.text(place)?.map(|text| Text::parse(&text)).transpose()?)
    }
}
