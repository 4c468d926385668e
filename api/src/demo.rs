//! Owns the call that opens an order of the demo.

use payfold_partners::token::Permission;
use payfold_schemas::ids::{OrderKey, ProviderRef};
use payfold_schemas::money::{Amount, Currency};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::call::Call;

pub const OPEN_ORDER: Call<DemoOrder, OpenedOrder> = Call::post(
    Permission::Operate,
    "/v1/demo/orders",
    "Opens an order on the sandbox account; in the demo only",
)
.answered_with(201);

/// An order to open.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DemoOrder {
    /// The amount in minor units.
    pub amount: Amount,
    /// ISO 4217, with minor units.
    pub currency: Currency,
}

/// An open order of the demo.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenedOrder {
    /// The key of the order.
    pub order: OrderKey,
    /// The ref of its session.
    pub provider_ref: ProviderRef,
}
