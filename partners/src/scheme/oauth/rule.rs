//! Owns the rule of the token call, and where its answer holds the token.

use crate::scheme::call::rule::CallRule;
use crate::scheme::rules::MatchCondition;
use crate::scheme::template::Template;
use crate::secret::Secret;

/// The compiled `[oauth]`.
#[derive(Clone, Debug)]
pub(crate) struct SchemeOauth {
    pub(crate) rule: CallRule,
    pub(crate) grant: TokenGrantRule,
    /// Timeout of the whole call, from connecting to the last byte of the answer, ms.
    pub(crate) timeout_ms: u64,
}

/// `[oauth.answer]`: where the answer holds the token.
#[derive(Clone, Debug)]
pub(crate) struct TokenGrantRule {
    /// Conditions that must hold; otherwise no token is granted.
    pub(crate) success: Vec<MatchCondition>,
    /// The partner's code for refusing, for our log.
    pub(crate) refusal: Template,
    pub(crate) token: Template,
    /// The token's lifetime in seconds.
    pub(crate) expires_in: Template,
    /// The token's lifetime if the answer does not say, s.
    pub(crate) ttl_s: u64,
}

/// A granted access token.
#[derive(Clone, Debug)]
pub(crate) struct TokenGrant {
    pub(crate) token: Secret,
    /// Its lifetime, s.
    pub(crate) lasts_s: u64,
}
