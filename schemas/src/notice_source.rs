//! Owns the source of a notice: the profile that checked it, the key that signed it, and the
//! request around its body.

use minicbor::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::{KeyId, PartnerCode};
use crate::released::Released;

/// The profile that checked a notice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Encode, Decode, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileStamp {
    /// The partner's code.
    #[n(0)]
    pub partner: PartnerCode,
    /// The profile's version.
    #[n(1)]
    pub version: u32,
    /// The profile's digest.
    #[n(2)]
    pub digest: Digest,
}

/// The request that brought a notice, without parts that neither its signature nor its partner
/// depends on. The body is the envelope's raw part.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, Encode, Decode, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRequest {
    /// Path and query as received.
    #[n(0)]
    pub target: String,
    /// The headers the profile signs or reads, as received.
    #[n(1)]
    pub headers: Vec<(String, String)>,
    /// The method, where it is not POST.
    #[n(2)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Its index in the array of the request body, from 0.
    #[n(3)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// The sign block of the profile that matched, where the partner has its own scheme.
    #[n(4)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign: Option<String>,
}

/// The source of a fact that a partner sent over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Encode, Decode, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NoticeSource {
    /// The profile that checked it.
    #[n(0)]
    pub profile: ProfileStamp,
    /// The key its signature matched.
    #[n(1)]
    pub key_id: KeyId,
    /// The request around the body.
    #[n(2)]
    pub request: RecordedRequest,
    /// How it came out of quarantine, if it was refused at first.
    #[n(3)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<Released>,
}
