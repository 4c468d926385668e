//! Owns the part of a profile that default and custom schemes have in common.

use payfold_schemas::notice_source::ProfileStamp;

use crate::limits::BodyLimits;
use crate::profile::rules::{NonceRule, Stage};
use crate::profile::time::TimeRule;

/// The part of a profile that default and custom schemes have in common.
#[derive(Clone, Debug)]
pub(crate) struct CommonRules {
    pub(crate) stamp: ProfileStamp,
    pub(crate) stage: Stage,
    pub(crate) nonce: NonceRule,
    pub(crate) ref_is_session: bool,
    pub(crate) placeholder_refs: Vec<String>,
    pub(crate) limits: BodyLimits,
    pub(crate) time: TimeRule,
    pub(crate) retry_horizon_ms: i64,
    pub(crate) client_certificate: bool,
}
