//! Owns the create call of a partner's own scheme: what is sent, to a checked address, and whose rules its answer is
//! judged by. Where the profile only builds an address, that is what the payer gets, and nobody is called.

use std::sync::Arc;

use payfold_schemas::time::Time;

use super::{Call, CallError, Exchange, Judge, Remote, Way, no_key, request};
use crate::create::{CreateRequest, Offer, judge};
use crate::directory::Account;
use crate::outbound::Reach;
use crate::scheme::Scheme;
use crate::scheme::call::{AnswerContent, Calling, Uncallable};
use crate::scheme::create::{self, NoOffer, OfferRule, SchemeCreate};

impl Remote {
    pub(super) fn prepare_own_create(
        &self,
        (account, scheme): (&Arc<Account>, &Scheme),
        api_url: &str,
        asked_for: &CreateRequest,
        now: Time,
    ) -> Result<Call, CallError> {
        let (profile, partner) = (account.profile(), || account.partner().to_string());
        let create = scheme.create.as_ref().ok_or_else(|| CallError::NoCreate(partner()))?;
        let secret = account.scheme_keys().asking_secret(create.rule.key, now);
        let calling = calling((account, scheme), create, secret, api_url);
        let asked = create.asked(&calling, asked_for, now);
        let (sent, asked) = asked.map_err(|why| refused(account, &why))?;
        let reach = Reach::of(profile);
        let url = reach.check(&format!("{}{}", sent.base, sent.target))?;
        if create.offer.is_none() {
            let offer =
                create.offer_of((&sent, &asked), &asked_for.ipn_url, reach).map_err(|rule| {
                    CallError::Uncallable(
                        partner(),
                        format!("no browser opens it: {}", rule.name()),
                    )
                })?;
            return Ok(Call(Way::Built(offer)));
        }
        let request = request(sent, url)
            .map_err(|name| CallError::Uncallable(partner(), format!("{name} is no header")))?;
        Ok(Call(Way::Sent(Box::new(Exchange {
            client: self.visitor(reach),
            request,
            reach,
            judge: Judge::Own(Arc::clone(account), asked),
            timeout_ms: create.timeout_ms,
            answer_bytes_max: create.bytes_max,
        }))))
    }
}

/// What a create is put together with.
pub(super) fn calling<'a>(
    (account, scheme): (&'a Account, &'a Scheme),
    create: &'a SchemeCreate,
    secret: Option<&'a [u8]>,
    api_url: &'a str,
) -> Calling<'a> {
    let content = create.offer.as_ref().map(|offer| offer.content);
    Calling {
        scheme,
        rule: &create.rule,
        limits: account.profile().limits(),
        of: account.of(),
        secret,
        api_url: api_url.trim_end_matches('/'),
        accept: content.and_then(AnswerContent::accept),
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
