//! Owns what a verified notice says in the contract's words: which kind of event it is, and its values, checked. Pure.
//! Whether it comes in time is judged elsewhere; whether it fits the order, by the fold.

use payfold_schemas::ids::{EventRef, Nonce, OrderId, ProviderRef};
use payfold_schemas::ipn::{IpnPolicy, MoneyContent, Status};
use payfold_schemas::money::{Amount, AmountError, Currency};
use payfold_schemas::text::{Text, TextError, TextRule};
use payfold_schemas::time::Time;

use super::document::Kind;
use super::reading::{Context, Unusable};
use super::template::Template;
use super::{Condition, EventRule, FieldRule, MapRule, Outcome, Places, Scheme, Shape, Test};
use crate::profile::{NonceRule, Profile};

/// What a notice says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Our order.
    pub order_id: OrderId,
    /// The partner's transaction.
    pub provider_ref: ProviderRef,
    /// What is said of it.
    pub status: Status,
    /// Which money, when.
    pub money: MoneyContent,
    /// The notice's own time, where the profile has one.
    pub timestamp: Option<Time>,
    /// Of this delivery.
    pub nonce: Option<Nonce>,
    /// What the fold has to know of the profile.
    pub policy: IpnPolicy,
}

/// What a genuine notice is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// An event of a payment.
    Event(Box<Mapped>),
    /// Of a kind the profile acknowledges and leaves alone.
    Ignored,
    /// Of a kind the profile acknowledges and has kept whole: it tells of money and names no order of ours.
    Kept,
}

/// What kind of thing is wrong with a genuine notice. The names are those of the refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// `missing_field`
    Missing,
    /// `empty_field`
    Empty,
    /// `wrong_type`
    WrongType,
    /// `unknown_status`: the profile refuses this kind of event.
    UnknownStatus,
    /// `amount_not_integer`
    AmountNotInteger,
    /// `amount_out_of_range`
    AmountOutOfRange,
    /// `unknown_currency`
    UnknownCurrency,
    /// `field_too_long`
    TooLong,
    /// `illegal_character`
    IllegalCharacter,
    /// `bad_timestamp`
    BadTimestamp,
    /// `duplicate_field`
    Repeated,
    /// `separator_in_field`: the signed text can be read in more than one way.
    Ambiguous,
}

/// Why a genuine notice can't be taken: what, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// Where; never a value.
    pub detail: String,
}

pub(crate) fn fault<T>(kind: FaultKind, detail: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { kind, detail: detail.into() })
}

impl From<Unusable> for Fault {
    fn from(unusable: Unusable) -> Self {
        let kind = match &unusable {
            Unusable::Repeated(_) => FaultKind::Repeated,
            Unusable::Composite(_) => FaultKind::WrongType,
            Unusable::NoConstant(_) | Unusable::NoSecret(_) => FaultKind::Missing,
        };
        Self { kind, detail: unusable.to_string() }
    }
}

/// What the notice of this context says. Errors: `Fault`, with the place.
pub(crate) fn said(
    profile: &Profile,
    context: Context<'_>,
    is_unsigned: Unsigned,
) -> Result<Said, Fault> {
    let scheme = context.reading.scheme();
    let Some(event) = event(scheme, context)? else {
        return fault(FaultKind::UnknownStatus, "no [[event]] of the profile is of this kind");
    };
    let status = match event.outcome {
        Outcome::Ignore => return Ok(Said::Ignored),
        Outcome::Keep => return Ok(Said::Kept),
        Outcome::Refuse => {
            return fault(FaultKind::UnknownStatus, "the profile refuses notices of this kind");
        }
        Outcome::Status(status) => status,
    };
    for rule in &scheme.fields {
        hold(rule, context)?;
    }
    let places = Chosen { map: &scheme.map, own: &event.places, context };
    let currency = places.currency()?;
    let amount = places.amount(currency)?;
    let timestamp = time(scheme, context)?;
    let paid_at = places.paid_at(timestamp.filter(|_| is_paid_then(profile, event)))?;
    let provider_ref: ProviderRef = places.id("ref", |places| places.provider_ref.as_ref())?;
    let mut policy = profile.policy(provider_ref.as_str());
    policy.unconfirmed = match scheme.confirm {
        super::Confirm::Never => false,
        super::Confirm::WhenUnsigned => is_unsigned == Unsigned::Yes,
        super::Confirm::Always => true,
    };
    let event_ref: Option<EventRef> = places.optional_id(|places| places.event.as_ref())?;
    policy.refund_so_far = status == Status::Refunded && event_ref.is_none();
    let nonce: Option<Nonce> = places.optional_id(|places| places.nonce.as_ref())?;
    if profile.nonce() == NonceRule::Required && nonce.is_none() {
        return fault(FaultKind::Missing, "nonce is required");
    }
    Ok(Said::Event(Box::new(Mapped {
        order_id: places.id("order", |places| places.order.as_ref())?,
        provider_ref,
        status,
        money: MoneyContent { amount, currency, paid_at, event_ref },
        timestamp,
        nonce: nonce.filter(|_| profile.nonce() != NonceRule::Unused),
        policy,
    })))
}

/// Whether the sign block that let a notice pass signs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsigned {
    Yes,
    No,
}

/// The first event whose conditions all hold.
fn event<'s>(scheme: &'s Scheme, context: Context<'_>) -> Result<Option<&'s EventRule>, Fault> {
    for event in &scheme.events {
        if holds(&event.when, context)? {
            return Ok(Some(event));
        }
    }
    Ok(None)
}

/// Whether all conditions hold. Errors: a place that can't be read.
pub(crate) fn holds(when: &[Condition], context: Context<'_>) -> Result<bool, Fault> {
    for condition in when {
        if !is_met(condition, context)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the notice's own time is when it was paid.
fn is_paid_then(profile: &Profile, event: &EventRule) -> bool {
    let is_event = profile.time().kind == crate::profile::TimeKind::Event;
    is_event && event.outcome == Outcome::Status(Status::Success)
}

fn is_met(condition: &Condition, context: Context<'_>) -> Result<bool, Fault> {
    // In a signed text nothing and an empty text are the same; so they are here.
    let text = || -> Result<Option<String>, Fault> {
        if !context.is_present(&condition.value)? {
            return Ok(None);
        }
        let text = context.token(&condition.value)?;
        Ok(Some(String::from_utf8_lossy(&text).into_owned()).filter(|text| !text.is_empty()))
    };
    // What is left of a value, where filters take something of it.
    let is_there = || match condition.value.filters.is_empty() {
        true => Ok(context.is_present(&condition.value)?),
        false => Ok::<_, Fault>(text()?.is_some()),
    };
    Ok(match &condition.test {
        Test::Present => is_there()?,
        Test::Absent => !is_there()?,
        test => test.takes(text()?.as_deref()),
    })
}

/// Holds a value to what the profile says it looks like; one that is absent is let pass.
fn hold(rule: &FieldRule, context: Context<'_>) -> Result<(), Fault> {
    let Some(value) = context.found(&rule.at)? else {
        // Where it stands in a signed text, a value left out is another reading of that text.
        return match &rule.pattern {
            Some(pattern)
                if context.reading.scheme().always_signs(&rule.at) && !pattern.is_match("") =>
            {
                fault(FaultKind::Missing, format!("{} is required", rule.at.written))
            }
            _ => Ok(()),
        };
    };
    let fits = match rule.shape {
        None => true,
        Some(Shape::String) => matches!(value.kind, Kind::String | Kind::Plain),
        Some(Shape::Number) => matches!(value.kind, Kind::Number | Kind::Plain),
        Some(Shape::Integer) => {
            let digits = value.text.strip_prefix('-').unwrap_or(value.text);
            let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            matches!(value.kind, Kind::Number | Kind::Plain) && all_digits
        }
        Some(Shape::Bool) => matches!(value.text, "true" | "false") && value.kind != Kind::String,
    };
    if !fits {
        return fault(FaultKind::WrongType, format!("{} has another type", rule.at.written));
    }
    match &rule.pattern {
        Some(pattern) if !pattern.is_match(value.text) => fault(
            FaultKind::IllegalCharacter,
            format!("{} does not fit its pattern", rule.at.written),
        ),
        _ => Ok(()),
    }
}

/// The notice's own time.
fn time(scheme: &Scheme, context: Context<'_>) -> Result<Option<Time>, Fault> {
    let Some((template, format)) = &scheme.time else { return Ok(None) };
    let text = context.string(template)?;
    if text.is_empty() {
        return fault(FaultKind::Missing, "time is required");
    }
    match format.read(&text) {
        Some(time) => Ok(Some(time)),
        None => fault(FaultKind::BadTimestamp, "time is not written as the profile says"),
    }
}

/// Where the values of the chosen event stand: its own places before the map's.
pub(crate) struct Chosen<'c> {
    pub(crate) map: &'c MapRule,
    pub(crate) own: &'c Places,
    pub(crate) context: Context<'c>,
}

impl Chosen<'_> {
    /// The text at a place; `None` where the profile has none or the notice nothing there.
    fn text<'t>(
        &'t self,
        place: impl Fn(&'t Places) -> Option<&'t Template>,
    ) -> Result<Option<String>, Fault> {
        let Some(template) = place(self.own).or_else(|| place(&self.map.places)) else {
            return Ok(None);
        };
        let text = self.context.string(template)?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    fn required<'t>(
        &'t self,
        name: &str,
        place: impl Fn(&'t Places) -> Option<&'t Template>,
    ) -> Result<String, Fault> {
        match self.text(place)? {
            Some(text) => Ok(text),
            None => fault(FaultKind::Missing, format!("{name} is required")),
        }
    }

    pub(crate) fn currency(&self) -> Result<Currency, Fault> {
        let text = self.required("currency", |places| places.currency.as_ref())?;
        let text = self.map.currencies.get(&text).unwrap_or(&text);
        match Currency::parse(text) {
            Ok(currency) => Ok(currency),
            Err(_) => {
                fault(FaultKind::UnknownCurrency, "currency is no ISO 4217 code with minor units")
            }
        }
    }

    pub(crate) fn amount(&self, currency: Currency) -> Result<Amount, Fault> {
        let text = self.required("amount", |places| places.amount.as_ref())?;
        self.map.amount.read(&text, currency).or_else(|error| match error {
            AmountError::NotInteger => fault(
                FaultKind::AmountNotInteger,
                "amount is no exact number of the currency's minor units",
            ),
            AmountError::OutOfRange => {
                fault(FaultKind::AmountOutOfRange, "amount is not between 1 and 10^15 minor units")
            }
        })
    }

    /// When it was paid; where the profile does not say, the time that stands for it.
    fn paid_at(&self, otherwise: Option<Time>) -> Result<Option<Time>, Fault> {
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
        place: impl Fn(&'t Places) -> Option<&'t Template>,
    ) -> Result<Text<R>, Fault> {
        id(&self.required(name, place)?)
    }

    fn optional_id<'t, R: TextRule>(
        &'t self,
        place: impl Fn(&'t Places) -> Option<&'t Template>,
    ) -> Result<Option<Text<R>>, Fault> {
        self.text(place)?.map(|text| id(&text)).transpose()
    }
}

fn id<R: TextRule>(text: &str) -> Result<Text<R>, Fault> {
    Text::parse(text).or_else(|error| {
        let kind = match error {
            TextError::Empty { .. } => FaultKind::Empty,
            TextError::TooLong { .. } => FaultKind::TooLong,
            TextError::IllegalCharacter { .. } => FaultKind::IllegalCharacter,
        };
        fault(kind, error.to_string())
    })
}
