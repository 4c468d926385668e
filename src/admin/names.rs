//! Owns the names in the path of an admin call.

use chrono::NaiveDate;
use payfold_engines::log::Topic;
use payfold_schemas::ids::{MerchantCode, OrderId, OrderKey, PartnerCode};
use payfold_schemas::order::Flag;
use payfold_schemas::position::{Position, PositionError};
use payfold_schemas::text::TextError;
use serde::Deserialize;

use super::answer::{Refusal, bad};

/// The names of an order in a path.
#[derive(Deserialize)]
pub(super) struct OrderNames {
    partner: String,
    merchant: String,
    order: String,
}

/// The names of a flag of an order in a path.
#[derive(Deserialize)]
pub(super) struct FlagNames {
    partner: String,
    merchant: String,
    order: String,
    flag: String,
}

/// Parses the code of a partner. Errors: `Bad`.
pub(super) fn partner_of(code: &str) -> Result<PartnerCode, Refusal> {
    PartnerCode::parse(code).map_err(|_| bad("that is no partner's code"))
}

/// Parses a day. Errors: `Bad`.
pub(super) fn day_of(day: &str) -> Result<NaiveDate, Refusal> {
    day.parse().map_err(|_| bad("a day is a date such as 2026-01-31"))
}

/// Parses the key of an order. Errors: `Bad`.
pub(super) fn order_of(names: &OrderNames) -> Result<OrderKey, Refusal> {
    let wrong = |error: TextError| bad(error.to_string());
    Ok(OrderKey {
        partner: partner_of(&names.partner)?,
        merchant_code: MerchantCode::parse(&names.merchant).map_err(wrong)?,
        order_id: OrderId::parse(&names.order).map_err(wrong)?,
    })
}

/// Parses a flag and the key of its order. Errors: `Bad`.
pub(super) fn flag_of(names: FlagNames) -> Result<(OrderKey, Flag), Refusal> {
    let FlagNames { partner, merchant, order, flag } = names;
    let order = order_of(&OrderNames { partner, merchant, order })?;
    let flag = Flag::parse(&flag)
        .ok_or_else(|| bad(format!("{flag} is no flag; docs/order-state.md has them")))?;
    Ok((order, flag))
}

/// Parses a position. Errors: `Bad`.
pub(super) fn position_of(text: &str) -> Result<Position, Refusal> {
    text.parse().map_err(|error: PositionError| bad(format!("{text}: {error}")))
}

/// Finds a topic by its name. Errors: `Bad`.
pub(super) fn topic_of(name: &str) -> Result<Topic, Refusal> {
    let found = Topic::ALL.into_iter().find(|topic| topic.name() == name);
    found.ok_or_else(|| bad(format!("{name} is no topic: intake, orders, findings, quarantine")))
}
