//! Owns one create call: its preparation, the request, and its outcome. `prepare_create` signs the
//! request to a checked address and keeps what is needed to judge the answer. It is sent again only
//! with a new access token; a request without a token is sent as it was prepared. If the profile
//! only builds an address, the payer gets it and nothing is sent.

use std::sync::Arc;
use std::time::Duration;

use payfold_schemas::time::Time;
use reqwest::{Client, StatusCode};

use super::prepared_call::PreparedCall;
use crate::create::{CreateRequest, CreateViolation, SessionOffer};
use crate::directory::account::Account;
use crate::outbound::Reach;
use crate::remote::answer::{read_body, reason};
use crate::remote::partner_call::{CallError, CallKind, PartnerCall, RequestError};
use crate::remote::partner_client::PartnerClient;
use crate::remote::tokens::CallToken;
use crate::scheme::call::CallBuildError;
use crate::scheme::create::{OfferError, RequestedSession};

/// The outcome of a create call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateOutcome {
    /// The partner opened a session.
    Opened(SessionOffer),
    /// Nothing was created, or the session can't be used. A new attempt may be made.
    Failed(CreateFailure),
    /// The partner may or may not have created a session. The call is never repeated; a notice, a
    /// query or the deadline settles the order. Holds the reason, for the log.
    Unknown(String),
}

/// Why a create call has failed for certain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateFailure {
    /// No connection could be made, or there is no access token. Nothing was sent, except perhaps
    /// one call that the partner refused with 401 for its token. Holds the reason, for the log:
    /// DNS, routing, TLS, a private address, or the refusal of the token.
    Unreachable(String),
    /// The partner answered with this 4xx.
    Refused(u16),
    /// A complete answer in which the partner declines. Holds the partner's reason code, limited to
    /// printable characters.
    Declined(String),
    /// A complete answer that breaks a rule of the contract.
    Violation(CreateViolation),
}

impl CreateFailure {
    /// The code in the `CreateFailed` fact and in the answer to the shop.
    pub fn code(&self) -> String {
        match self {
            Self::Unreachable(_) => "partner_unreachable".to_owned(),
            Self::Refused(_) | Self::Declined(_) => "partner_refused".to_owned(),
            Self::Violation(rule) => rule.code(),
        }
    }
}

/// Why a create call can't be prepared: a mistake in the configuration, or a payment that the
/// profile can't express. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The profile has no `[create]`.
    #[error("partner {0} takes no create calls: its profile has no [create]")]
    NoCreate(String),
    /// The profile creates no payments in this currency. Holds the partner.
    #[error("partner {0} takes no such currency")]
    Currency(String),
    /// The partner's amount format can't express this amount. Holds the partner.
    #[error("partner {0} takes no amount with such a fraction of the currency's unit")]
    Amount(String),
    /// The expiry is nearer than one unit of the partner's expiry field. Holds the partner.
    #[error(
        "the expiry is nearer than the shortest one that partner {0} accepts; ask for a later one"
    )]
    Expiry(String),
    /// The partner requires the payer's address, and the shop sent none. Holds the partner.
    #[error("partner {0} requires the payer's address; send payerIp with the payment")]
    PayerIp(String),
    /// The call can't be made.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// A create call that is ready to be made. The configuration, keys and address are checked.
pub struct CreateCall(CreateAction);

/// What a create call does.
enum CreateAction {
    /// Sends one request.
    Send(Box<CreateExchange>),
    /// Sends nothing: the payer's address is built from the profile alone.
    Redirect(SessionOffer),
}

/// One request, and what is needed to judge its answer.
struct CreateExchange {
    client: Client,
    prepared: PreparedCall,
    account: Arc<Account>,
    asked: RequestedSession,
    timeout_ms: u64,
    answer_bytes_max: usize,
}

impl PartnerClient {
    /// Signs a create request and checks its address. `api_url` is the partner's address in the
    /// settings. Errors: `CreateError`; nothing is sent.
    pub fn prepare_create(
        &self,
        account: &Arc<Account>,
        api_url: &str,
        asked_for: &CreateRequest,
        now: Time,
    ) -> Result<CreateCall, CreateError> {
        let scheme = account.profile().scheme();
        let create = scheme.create.as_ref();
        let create = create.ok_or_else(|| CreateError::NoCreate(account.partner().to_string()))?;
        let refused = |why| refused(account, why);
        let (values, asked) = create.values(scheme, asked_for, now).map_err(refused)?;
        let (which, api_url) = (CallKind::Create, api_url.to_owned());
        let call = PartnerCall { account: Arc::clone(account), which, api_url, values, now };
        let reach = Reach::of(account.profile());
        if create.offer.is_none() {
            let sent = call.sent("").map_err(refused)?;
            reach.check(&format!("{}{}", sent.base, sent.target)).map_err(CallError::Address)?;
            let offer = create.offer_of((&sent, &asked), &asked_for.ipn_url, reach);
            let offer = offer.map_err(|rule| {
                let why = format!("a browser can't open its address: {}", rule.name());
                CallError::unbuildable(account, &why)
            })?;
            return Ok(CreateCall(CreateAction::Redirect(offer)));
        }
        // Builds the request once without a token, so that a mistake on our side is found before a
        // token is requested.
        let request = call.request("");
        let request = request.map_err(|why| CallError::of_request(account, why))?;
        let client = self.clients.of(account, now);
        let client = client.map_err(|why| CallError::of_client(account, why))?;
        let prepared = PreparedCall::new(call, request, (&client, &self.tokens));
        Ok(CreateCall(CreateAction::Send(Box::new(CreateExchange {
            client,
            prepared,
            account: Arc::clone(account),
            asked,
            timeout_ms: create.timeout_ms,
            answer_bytes_max: create.bytes_max,
        }))))
    }
}

pub(super) fn refused(account: &Account, why: CallBuildError) -> CreateError {
    let partner = account.partner().to_string();
    match why {
        CallBuildError::Currency => CreateError::Currency(partner),
        CallBuildError::Amount => CreateError::Amount(partner),
        CallBuildError::Expiry => CreateError::Expiry(partner),
        CallBuildError::PayerIp => CreateError::PayerIp(partner),
        why => CallError::of_request(account, RequestError::Uncallable(why)).into(),
    }
}

impl CreateCall {
    /// Whether a request is sent to the partner. If not, the payer only gets an address.
    pub fn goes_out(&self) -> bool {
        matches!(self.0, CreateAction::Send(_))
    }

    /// Makes the call. `now` is read again when the answer has arrived. Every outcome, failures
    /// included, is a `CreateOutcome`.
    pub async fn make(self, now: impl Fn() -> Time) -> CreateOutcome {
        match self.0 {
            CreateAction::Send(exchange) => exchange.make(&now).await,
            CreateAction::Redirect(offer) => CreateOutcome::Opened(offer),
        }
    }
}

impl CreateExchange {
    async fn make(&self, now: &impl Fn() -> Time) -> CreateOutcome {
        let unsent = |why| CreateOutcome::Failed(CreateFailure::Unreachable(why));
        let token = match self.prepared.token(None, now).await {
            Ok(token) => token,
            Err(why) => return unsent(why.0),
        };
        let created = self.with_timeout(token.as_ref(), now).await;
        let Some(spent) = token.filter(|token| token.was_cached) else { return created };
        if created
            != CreateOutcome::Failed(CreateFailure::Refused(StatusCode::UNAUTHORIZED.as_u16()))
        {
            return created;
        }
        // The partner may end a token before its stated expiry. A 401 means that nothing was
        // created, so it is safe to repeat the call with a new token.
        match self.prepared.token(Some(&spent), now).await {
            Ok(token) => self.with_timeout(token.as_ref(), now).await,
            Err(why) => unsent(why.0),
        }
    }

    async fn with_timeout(
        &self,
        token: Option<&CallToken>,
        now: &impl Fn() -> Time,
    ) -> CreateOutcome {
        let timeout = Duration::from_millis(self.timeout_ms);
        match tokio::time::timeout(timeout, self.run(token, now)).await {
            Ok(created) => created,
            Err(_) => {
                CreateOutcome::Unknown(format!("no whole answer within {} ms", timeout.as_millis()))
            }
        }
    }

    async fn run(&self, token: Option<&CallToken>, now: &impl Fn() -> Time) -> CreateOutcome {
        let request = match self.prepared.request(token, now()) {
            Ok(request) => request,
            Err(why) => return CreateOutcome::Failed(CreateFailure::Unreachable(why.0)),
        };
        let response = match self.client.execute(request).await {
            Ok(response) => response,
            // Connection refused, name not resolved, or no TLS: the request was not sent.
            Err(error) if error.is_connect() => {
                return CreateOutcome::Failed(CreateFailure::Unreachable(reason(&error)));
            }
            Err(error) => return CreateOutcome::Unknown(reason(&error)),
        };
        let status = response.status();
        if status.is_redirection() {
            return CreateOutcome::Failed(CreateFailure::Violation(CreateViolation::Redirect));
        }
        if status.is_client_error() && status != StatusCode::REQUEST_TIMEOUT {
            return CreateOutcome::Failed(CreateFailure::Refused(status.as_u16()));
        }
        if !status.is_success() {
            return CreateOutcome::Unknown(format!("the partner answered {}", status.as_u16()));
        }
        match read_body(response, self.answer_bytes_max).await {
            Ok(body) => match self.account.judge_offer(&self.asked, &body, now()) {
                Ok(offer) => CreateOutcome::Opened(offer),
                Err(OfferError::Declined(code)) => {
                    CreateOutcome::Failed(CreateFailure::Declined(code))
                }
                Err(OfferError::Violation(rule)) => {
                    CreateOutcome::Failed(CreateFailure::Violation(rule))
                }
            },
            Err(why) => CreateOutcome::Unknown(why.0),
        }
    }
}

#[cfg(test)]
mod tests;
