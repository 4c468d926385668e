//! Owns the calls that decide a finding or a flag, and those that withdraw such a decision.

use payfold_partners::token::Permission;
use payfold_reconcile::decided::Decided;
use payfold_reconcile::withdraw::WithdrawnDecision;
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Verdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::call::Call;

pub const DECIDE_FINDING: Call<DecideRequest, Decided> =
    Call::post(Permission::Settle, "/v1/findings/{finding}/decision", "Decides a finding");
pub const WITHDRAW_FINDING: Call<WithdrawRequest, WithdrawnDecision> = Call::post(
    Permission::Settle,
    "/v1/findings/{finding}/withdrawal",
    "Withdraws a first decision on a finding",
);
pub const DECIDE_FLAG: Call<DecideRequest, Decided> = Call::post(
    Permission::Settle,
    "/v1/orders/{partner}/{merchant}/{order}/flags/{flag}/decision",
    "Decides a flag of an order",
);
pub const WITHDRAW_FLAG: Call<WithdrawRequest, WithdrawnDecision> = Call::post(
    Permission::Settle,
    "/v1/orders/{partner}/{merchant}/{order}/flags/{flag}/withdrawal",
    "Withdraws a first decision on a flag",
);

/// Decides a finding or a flag.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DecideRequest {
    /// The record that is taken as right.
    pub accept: Verdict,
    /// Why: 1 to 1,000 characters.
    pub reason: String,
    /// `evidence` of the finding or flag that was seen. If it has another by now, nothing is
    /// decided, and the answer is a 422. Without it, what is there now is decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Digest>,
}

/// Withdraws a first decision; its author alone can.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WithdrawRequest {
    /// Why: 1 to 1,000 characters.
    pub reason: String,
}
