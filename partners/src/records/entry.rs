//! Owns the reading of a row: its kind, and its checked values. Pure. No value is repaired or
//! guessed.

use std::borrow::Cow;

use payfold_schemas::ipn::Status;
use payfold_schemas::text::{Text, TextRule};
use payfold_schemas::time::Time;

use super::plan::{RowText, all_hold};
use super::row::Row;
use super::spec::{RecordsSpec, RowRule, RowValues};
use super::time_format::RowTimeFormat;
use crate::records::types::{MatchBy, PartnerEntry, RowFault, shown};
use crate::scheme::rules::EventOutcome;

/// The content of a row.
pub(super) enum RowContent<'s> {
    /// An entry, and the signed amount that it adds to the sum of the file.
    Entry(PartnerEntry, i128),
    Ignored(&'s str),
}

/// Reads a row. Its kind is that of the first rule with conditions that all hold. Errors: the fault
/// of the row.
pub(super) fn read_row<'s>(
    spec: &'s RecordsSpec,
    row: &Row<'_>,
    line: u64,
) -> Result<RowContent<'s>, RowFault> {
    for rule in &spec.rules {
        if !all_hold(&rule.when, row)? {
            continue;
        }
        return match (rule.outcome, &rule.values) {
            (EventOutcome::Ignore, _) => Ok(RowContent::Ignored(&rule.why)),
            (EventOutcome::Status(status), Some(values)) => {
                let (entry, signed) = entry((spec, values), status, row, line)?;
                Ok(RowContent::Entry(entry, signed))
            }
            (EventOutcome::NoOrder | EventOutcome::Refuse | EventOutcome::Status(_), _) => {
                Err(refused(rule))
            }
        };
    }
    Err(RowFault { column: None, problem: "no [[records.event]] matches this line".to_owned() })
}

fn refused(rule: &RowRule) -> RowFault {
    let problem = format!("the profile refuses lines of this kind: {}", rule.why);
    RowFault { column: None, problem }
}

fn entry(
    (spec, values): (&RecordsSpec, &RowValues),
    status: Status,
    row: &Row<'_>,
    line: u64,
) -> Result<(PartnerEntry, i128), RowFault> {
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
        Some(text) => match text.write_for(row)? {
            None => None,
            Some(written) => Some(time(&spec.paid_at, text, &written)?),
        },
    };
    let event_ref = optional_id(values.event.as_ref(), row)?;
    let entry = PartnerEntry {
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

fn missing(text: &RowText) -> RowFault {
    RowFault::of(&text.label, "it is empty, and every entry needs a value here")
}

fn required<'r>(text: &RowText, row: &Row<'r>) -> Result<Cow<'r, str>, RowFault> {
    text.write_for(row)?.ok_or_else(|| missing(text))
}

fn id<R: TextRule>(text: &RowText, value: &str) -> Result<Text<R>, RowFault> {
    Text::parse(value).map_err(|error| {
        RowFault::of(&text.label, format!("{} can't be used: {error}", shown(value)))
    })
}

fn optional_id<R: TextRule>(
    text: Option<&RowText>,
    row: &Row<'_>,
) -> Result<Option<Text<R>>, RowFault> {
    let Some(text) = text else { return Ok(None) };
    text.write_for(row)?.map(|value| id(text, &value)).transpose()
}

fn time(when: &RowTimeFormat, text: &RowText, value: &str) -> Result<Time, RowFault> {
    when.read(value).ok_or_else(|| {
        let problem = format!("{} is not a time in the profile's format", shown(value));
        RowFault::of(&text.label, problem)
    })
}
