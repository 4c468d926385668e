//! Owns the call that returns the raw bytes of a notice.

use payfold_partners::token::Permission;
use payfold_schemas::notice_source::RecordedRequest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::call::Call;

pub const READ_RAW: Call<ReadRaw, RawNotice> = Call::post(
    Permission::ReadBytes,
    "/v1/raw/{topic}/{position}",
    "Returns the raw bytes of a notice, once the read is published on `findings`",
);

/// Asks for the bytes of a notice.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReadRaw {
    /// Why: 1 to 1,000 characters.
    pub reason: String,
}

/// The raw bytes of a notice.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct RawNotice {
    /// The request around the body.
    pub request: RecordedRequest,
    /// The body in hex.
    pub raw: String,
}
