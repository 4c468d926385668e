//! Owns the name of an order in a request: `partner/merchantCode/orderId`.

use payfold_schemas::ids::OrderKey;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes the name.
pub(crate) fn serialize<S: Serializer>(order: &Option<OrderKey>, to: S) -> Result<S::Ok, S::Error> {
    order.as_ref().map(OrderKey::to_string).serialize(to)
}

/// Reads the name. Errors: it is none of an order.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<OrderKey>, D::Error> {
    let name = Option::<String>::deserialize(from)?;
    name.map(|name| OrderKey::parse(&name).map_err(D::Error::custom)).transpose()
}
