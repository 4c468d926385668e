//! Owns what a row says: which kind it is of, and its values, checked. Pure; nothing of a row is repaired or guessed.

use std::borrow::Cow;

use payfold_schemas::ipn::Status;
use payfold_schemas::text::{Text as Id, TextRule};
use payfold_schemas::time::Time;

use super::plan::{Text, hold};
use super::row::Row;
use super::spec::{RecordsSpec, Rule, Values};
use super::when::When;
use super::{Entry, Fault, MatchBy, shown};
use crate::scheme::Outcome;

/// What a row is.
pub(super) enum Said<'s> {
    /// An entry, and what its amount adds to the sum of the file.
    Entry(Entry, i128),
    Ignored(&'s str),
}

/// What a row says. Errors: what is wrong with it.
pub(super) fn said<'s>(spec: &'s RecordsSpec, row: &Row<'_>, line: u64) -> Result<Said<'s>, Fault> {
    for rule in &spec.rules {
        if !hold(&rule.when, row)? {
            continue;
        }
        return match (rule.outcome, &rule.values) {
            (Outcome::Ignore, _) => Ok(Said::Ignored(&rule.why)),
            (Outcome::Status(status), Some(values)) => {
                let (entry, signed) = entry((spec, values), status, row, line)?;
                Ok(Said::Entry(entry, signed))
            }
            (Outcome::Keep | Outcome::Refuse | Outcome::Status(_), _) => Err(refused(rule)),
        };
    }
    Err(Fault { column: None, problem: "no [[records.event]] is of this kind".to_owned() })
}

fn refused(rule: &Rule) -> Fault {
    let problem = format!("the profile refuses lines of this kind: {}", rule.why);
    Fault { column: None, problem }
}

fn entry(
    (spec, values): (&RecordsSpec, &Values),
    status: Status,
    row: &Row<'_>,
    line: u64,
) -> Result<(Entry, i128), Fault> {
    let order_id = optional_id(values.order.as_ref(), row)?;
    let provider_ref = optional_id(values.provider_ref.as_ref(), row)?;
    match (spec.match_by, &order_id, &provider_ref, &values.order, &values.provider_ref) {
        (MatchBy::Order, None, _, Some(text), _) => return Err(missing(text)),
        (MatchBy::Ref, _, None, _, Some(text)) => return Err(missing(text)),
        _ => {}
    }
    let merchant_code = match &values.merchant {
        None => None,
        Some(text) => Some(id(text, &required(text, row)?)?),
    };
    let currency =
        spec.money.currency(&required(&values.currency, row)?, &values.currency.label)?;
    let amount = required(&values.amount, row)?;
    let (amount, signed) = spec.money.amount(&amount, (currency, status), &values.amount.label)?;
    let at = time(&spec.at, &values.at, &required(&values.at, row)?)?;
    let paid_at = match &values.paid_at {
        None => None,
        Some(text) => match text.of(row)? {
            None => None,
            Some(written) => Some(time(&spec.paid_at, text, &written)?),
        },
    };
    let event_ref = optional_id(values.event.as_ref(), row)?;
    let entry = Entry {
        line,
        merchant_code,
        order_id,
        provider_ref,
        status,
        amount,
        currency,
        at,
        paid_at,
        event_ref,
    };
    Ok((entry, signed))
}

fn missing(text: &Text) -> Fault {
    Fault::of(&text.label, "it is empty, and every entry must say it")
}

fn required<'r>(text: &Text, row: &Row<'r>) -> Result<Cow<'r, str>, Fault> {
    text.of(row)?.ok_or_else(|| missing(text))
}

fn id<R: TextRule>(text: &Text, value: &str) -> Result<Id<R>, Fault> {
    Id::parse(value)
        .map_err(|error| Fault::of(&text.label, format!("{} is none: {error}", shown(value))))
}

fn optional_id<R: TextRule>(text: Option<&Text>, row: &Row<'_>) -> Result<Option<Id<R>>, Fault> {
    let Some(text) = text else { return Ok(None) };
    text.of(row)?.map(|value| id(text, &value)).transpose()
}

fn time(when: &When, text: &Text, value: &str) -> Result<Time, Fault> {
    when.read(value).ok_or_else(|| {
        let problem = format!("{} is no time, written as the profile says", shown(value));
        Fault::of(&text.label, problem)
    })
}
