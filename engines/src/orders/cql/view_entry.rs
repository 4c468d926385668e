//! Owns decoding the entries of views into order keys.

use payfold_schemas::ids::{MerchantCode, OrderId, OrderKey, PartnerCode};
use payfold_schemas::text::TextError;

use super::link::Link;
use crate::EngineError;

/// The most rows that one statement fetches, so that no result exceeds a few hundred KiB.
pub(super) const CHUNK_ROWS_MAX: usize = 2_000;

/// The error of a view entry that names no order.
pub(super) fn unreadable(link: &Link, error: &TextError) -> EngineError {
    link.address.corrupt(&format!("a view entry does not decode: {error}"))
}

/// The key of the order that an entry of an account's view names.
pub(super) fn order_of(
    link: &Link,
    (partner, merchant_code): (&PartnerCode, &MerchantCode),
    order_id: &str,
) -> Result<OrderKey, EngineError> {
    let order_id = OrderId::parse(order_id).map_err(|error| unreadable(link, &error))?;
    Ok(OrderKey { partner: partner.clone(), merchant_code: merchant_code.clone(), order_id })
}
