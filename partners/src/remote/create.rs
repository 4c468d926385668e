//! Owns the create call of a partner's own scheme: what is sent, to a checked address, and whose rules its answer is
//! judged by. Where the profile only builds an address, that is what the payer gets, and nobody is called.

use std::sync::Arc;

use payfold_schemas::time::Time;

use super::sending::{OwnCall, Sending, Unsendable, Which};
use super::{Call, CallError, Exchange, Judge, Remote, Way, no_client, no_key};
use crate::create::{CreateRequest, Offer, judge};
use crate::directory::Account;
use crate::outbound::Reach;
use crate::scheme::Scheme;
use crate::scheme::call::Uncallable;
use crate::scheme::create::{self, NoOffer, OfferRule};

impl Remote {
    pub(super) fn prepare_own_create(
        &self,
        (account, scheme): (&Arc<Account>, &Scheme),
        api_url: &str,
        asked_for: &CreateRequest,
        now: Time,
    ) -> Result<Call, CallError> {
        let create = scheme.create.as_ref();
        let create = create.ok_or_else(|| CallError::NoCreate(account.partner().to_string()))?;
        let refused = |why| refused(account, &why);
        let (values, asked) = create.values(scheme, asked_for, now).map_err(refused)?;
        let (which, api_url) = (Which::Create, api_url.to_owned());
        let call = OwnCall { account: Arc::clone(account), which, api_url, values, now };
        let reach = Reach::of(account.profile());
        if create.offer.is_none() {
            let sent = call.sent("").map_err(refused)?;
            reach.check(&format!("{}{}", sent.base, sent.target))?;
            let offer = create.offer_of((&sent, &asked), &asked_for.ipn_url, reach);
            let offer = offer.map_err(|rule| {
                let why = format!("no browser opens it: {}", rule.name());
                CallError::Uncallable(account.partner().to_string(), why)
            })?;
            return Ok(Call(Way::Built(offer)));
        }
        // What is wrong on our side shows before anybody is asked for a token.
        let request = call.request("").map_err(|why| unsendable(account, why))?;
        let client = self.clients.of(account, now).map_err(|why| no_client(account, why))?;
        let sending = Sending::of(call, request, (&client, &self.tokens));
        Ok(Call(Way::Sent(Box::new(Exchange {
            client,
            sending,
            reach,
            judge: Judge::Own(Arc::clone(account), asked),
            timeout_ms: create.timeout_ms,
            answer_bytes_max: create.bytes_max,
        }))))
    }
}

fn unsendable(account: &Account, why: Unsendable) -> CallError {
    match why {
        Unsendable::Uncallable(why) => refused(account, &why),
        Unsendable::Address(problem) => CallError::Address(problem),
        Unsendable::Header(_) => {
            CallError::Uncallable(account.partner().to_string(), why.to_string())
        }
    }
}

pub(super) fn refused(account: &Account, why: &Uncallable) -> CallError {
    let partner = account.partner().to_string();
    match why {
        Uncallable::NoKey => no_key(account),
        Uncallable::Currency => CallError::Currency(partner),
        Uncallable::Amount => CallError::Amount(partner),
        Uncallable::Expiry => CallError::Expiry(partner),
        Uncallable::PayerIp => CallError::PayerIp(partner),
        Uncallable::NoRef | Uncallable::Unusable(_) | Uncallable::Elsewhere | Uncallable::Order => {
            CallError::Uncallable(partner, why.to_string())
        }
    }
}

impl Judge {
    pub(super) fn judge(&self, body: &[u8], reach: Reach, now: Time) -> Result<Offer, NoOffer> {
        match self {
            Self::Contract => Ok(judge(body, reach, now)?),
            Self::Own(account, asked) => {
                let profile = account.profile();
                let (scheme, offer) = own(account);
                let of = (profile.limits(), account.of());
                create::judge((scheme, offer), of, asked, body, (reach, now))
            }
        }
    }
}

fn own(account: &Account) -> (&Scheme, &OfferRule) {
    let scheme = account.profile().scheme().expect("it was called by its own scheme");
    let create = scheme.create.as_ref().expect("it was called by its create");
    (scheme, create.offer.as_ref().expect("only a call is answered"))
}

#[cfg(test)]
mod tests;
