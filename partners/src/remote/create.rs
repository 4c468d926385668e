//! Owns the preparation of a create call: the signed request to a checked address, and what is
//! needed to judge its answer. If the profile only builds an address, the payer gets it and nothing
//! is sent.

use std::sync::Arc;

use payfold_schemas::time::Time;

use super::prepared_call::PreparedCall;
use crate::create::CreateRequest;
use crate::directory::account::Account;
use crate::outbound::Reach;
use crate::remote::exchange::{
    CreateAction, CreateCall, CreateError, CreateExchange, no_client, no_key,
};
use crate::remote::partner_call::{CallKind, PartnerCall, RequestError};
use crate::remote::partner_client::PartnerClient;
use crate::scheme::call::CallBuildError;

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
        let refused = |why| refused(account, &why);
        let (values, asked) = create.values(scheme, asked_for, now).map_err(refused)?;
        let (which, api_url) = (CallKind::Create, api_url.to_owned());
        let call = PartnerCall { account: Arc::clone(account), which, api_url, values, now };
        let reach = Reach::of(account.profile());
        if create.offer.is_none() {
            let sent = call.sent("").map_err(refused)?;
            reach.check(&format!("{}{}", sent.base, sent.target))?;
            let offer = create.offer_of((&sent, &asked), &asked_for.ipn_url, reach);
            let offer = offer.map_err(|rule| {
                let why = format!("a browser can't open its address: {}", rule.name());
                CreateError::Uncallable(account.partner().to_string(), why)
            })?;
            return Ok(CreateCall(CreateAction::Redirect(offer)));
        }
        // Builds the request once without a token, so that a mistake on our side is found before a
        // token is requested.
        let request = call.request("").map_err(|why| unsendable(account, why))?;
        let client = self.clients.of(account, now).map_err(|why| no_client(account, why))?;
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

fn unsendable(account: &Account, why: RequestError) -> CreateError {
    match why {
        RequestError::Uncallable(why) => refused(account, &why),
        RequestError::Address(problem) => CreateError::Address(problem),
        RequestError::Header(_) => {
            CreateError::Uncallable(account.partner().to_string(), why.to_string())
        }
    }
}

pub(super) fn refused(account: &Account, why: &CallBuildError) -> CreateError {
    let partner = account.partner().to_string();
    match why {
        CallBuildError::NoKey => no_key(account),
        CallBuildError::Currency => CreateError::Currency(partner),
        CallBuildError::Amount => CreateError::Amount(partner),
        CallBuildError::Expiry => CreateError::Expiry(partner),
        CallBuildError::PayerIp => CreateError::PayerIp(partner),
        CallBuildError::NoRef
        | CallBuildError::Value(_)
        | CallBuildError::Separator(_)
        | CallBuildError::PathStep
        | CallBuildError::Order => CreateError::Uncallable(partner, why.to_string()),
    }
}

#[cfg(test)]
mod tests;
