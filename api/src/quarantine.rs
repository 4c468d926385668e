//! Owns the calls on a quarantined notice.

use payfold_partners::token::Permission;
use payfold_reconcile::decided::Decided;
use payfold_reconcile::withdraw::WithdrawnDecision;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::release::NoticeVerdict;
use payfold_schemas::released::Because;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::call::Call;
use crate::decisions::WithdrawRequest;

pub const JUDGE: Call<Judge, JudgedNotice> =
    Call::get("/v1/quarantine/{position}", "Judges a notice by the keys and profiles in force");
pub const DECIDE: Call<DecideNotice, Decided> = Call::post(
    Permission::Release,
    "/v1/quarantine/{position}/decision",
    "Releases or dismisses a notice",
);
pub const WITHDRAW: Call<WithdrawRequest, WithdrawnDecision> = Call::post(
    Permission::Release,
    "/v1/quarantine/{position}/withdrawal",
    "Withdraws a first decision on a notice",
);

/// Asks whether a notice can be released.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Judge {
    /// The reason for a release; if absent the notice is only read.
    pub because: Option<Because>,
}

/// A notice, judged by the keys and profiles in force.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct JudgedNotice {
    /// The digest of the stored record.
    pub evidence: Digest,
    /// The content of the notice; null if it can't be read.
    pub reads: Option<ReadNotice>,
    /// Why it can't be released, or read; null if it can.
    pub problem: Option<String>,
}

/// The content of a notice.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadNotice {
    /// The order it names.
    pub order: OrderKey,
    /// The status of the payment.
    pub status: Status,
    /// Minor units.
    pub amount: Amount,
    /// Its currency (ISO 4217).
    pub currency: Currency,
    /// Whether its release takes two people.
    pub needs_second_person: bool,
}

/// Releases or dismisses a notice.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DecideNotice {
    /// Whether the notice is released or dismissed.
    pub verdict: NoticeVerdict,
    /// Why the notice can be released now; for a release only.
    pub because: Option<Because>,
    /// Why: 1 to 1,000 characters.
    pub reason: String,
}
