//! Owns a call that is ready to be sent: signed with the keys valid now, to a checked address. A
//! call that carries an access token is built again for each token, with a new time and nonce.

use std::sync::Arc;

use payfold_schemas::time::Time;
use reqwest::{Client, Request};

use super::tokens::{CallToken, TokenCache};
use crate::reason::Reason;
use crate::remote::partner_call::PartnerCall;

/// A call that is ready to be sent.
pub(super) enum PreparedCall {
    Ready(Box<Request>),
    /// The call carries an access token and is built once there is one.
    WithToken(Box<CallWithToken>),
}

/// The parts of a request that is built once there is a token.
pub(super) struct CallWithToken {
    call: PartnerCall,
    client: Client,
    tokens: Arc<TokenCache>,
}

impl PreparedCall {
    /// Prepares a call. `request` is its request without a token.
    pub(super) fn new(
        call: PartnerCall,
        request: Request,
        (client, tokens): (&Client, &Arc<TokenCache>),
    ) -> Self {
        if !call.carries_token() {
            return Self::Ready(Box::new(request));
        }
        let (client, tokens) = (client.clone(), Arc::clone(tokens));
        Self::WithToken(Box::new(CallWithToken { call, client, tokens }))
    }

    /// The call's access token, from the cache or requested now. `spent` is a token that the
    /// partner has refused. `None` if the call carries no token. Errors: the reason why there is no
    /// token, for the log; the call was not sent.
    pub(super) async fn token(
        &self,
        spent: Option<&CallToken>,
        now: &impl Fn() -> Time,
    ) -> Result<Option<CallToken>, Reason> {
        let Self::WithToken(waiting) = self else { return Ok(None) };
        let token = waiting.tokens.get(&waiting.call, &waiting.client, spent, now).await;
        token.map(Some).map_err(|why| Reason(format!("no access token: {why}")))
    }

    /// The request with its token, built for `now`. Errors: the reason why it can't be built, for
    /// the log.
    pub(super) fn request(&self, token: Option<&CallToken>, now: Time) -> Result<Request, Reason> {
        match self {
            Self::Ready(request) => {
                Ok(request.try_clone().expect("a body in memory can be cloned"))
            }
            Self::WithToken(waiting) => {
                let text = token.map_or("", CallToken::text);
                waiting.call.at(now).request(text).map_err(|why| Reason(why.to_string()))
            }
        }
    }
}
