//! Owns the create call as it comes in (contract 2.1): who signed it, and whether every field is one. A call that is
//! not what the contract says is refused with the name of what is wrong.

mod fields;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use payfold_partners::create::Wish;
use payfold_partners::mac::SIGNATURE_BYTES;
use payfold_partners::outbound::Reach;
use payfold_partners::profile::{CreateField, CreateRule, Profile};
use payfold_partners::signing::create_signing_text;
use payfold_schemas::ids::{MerchantCode, OrderId};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use url::Url;

use crate::payment::Account;
use crate::problem::Problem;
use fields::{Fields, Shape};

/// A description is shown to people.
const DESCRIPTION_CHARS_MAX: usize = 1_024;
/// What an app's deep link ends in (contract 2.1).
const DEEP_LINK_HOST: &str = "payment-result";
/// Addresses that are remembered; nearly every call has the same two.
const ADDRESSES_MAX: usize = 64;

/// Takes create calls in.
#[derive(Debug)]
pub(crate) struct Reception {
    pub(crate) profile: Profile,
    pub(crate) rule: CreateRule,
    pub(crate) accounts: HashMap<MerchantCode, Arc<Account>>,
    addresses: Mutex<HashMap<String, Arc<Url>>>,
}

/// A create call that its account has signed.
#[derive(Debug)]
pub(crate) struct SignedCall {
    pub(crate) account: Arc<Account>,
    pub(crate) order_id: OrderId,
    values: Values,
    wish: Option<String>,
}

/// A create call that is what the contract says.
#[derive(Debug)]
pub(crate) struct CreateCall {
    pub(crate) account: Arc<Account>,
    pub(crate) order_id: OrderId,
    pub(crate) amount: Amount,
    pub(crate) currency: Currency,
    pub(crate) description: Box<str>,
    pub(crate) return_url: Arc<Url>,
    pub(crate) ipn_url: Arc<Url>,
    pub(crate) expires_at: Option<Time>,
    pub(crate) wish: Wish,
}

impl Reception {
    pub(crate) fn new(
        profile: Profile,
        rule: CreateRule,
        accounts: HashMap<MerchantCode, Arc<Account>>,
    ) -> Self {
        Self { profile, rule, accounts, addresses: Mutex::default() }
    }

    /// Finds who signed a call. Errors: 400 for what can't be read, 401 for what nobody here has signed.
    pub(crate) fn verify(&self, body: &[u8]) -> Result<SignedCall, Problem> {
        let fields =
            Fields::parse(body).map_err(|problem| Problem::new(400, "malformed_body", problem))?;
        let text = |name: &str, shape| {
            fields.text(name, shape).map_err(|problem| Problem::field(name, problem))
        };
        let mut values = Values::default();
        for field in CreateField::ALL {
            let shape = if field == CreateField::Amount { Shape::Number } else { Shape::Text };
            let value = text(field.name(), shape)?;
            if value.is_none() && field != CreateField::ExpiresAt {
                return Err(Problem::field(field.name(), "is required"));
            }
            values[place(field)] = value;
        }
        let claimed = text("signature", Shape::Text)?
            .ok_or_else(|| Problem::field("signature", "is required"))?;
        let wish = match &self.rule.presentation_field {
            Some(name) => text(name, Shape::Text)?,
            None => None,
        };
        let account = self.signer(&values, &claimed)?;
        let order_id = OrderId::parse(value(&values, CreateField::OrderId))
            .map_err(|problem| Problem::field("orderId", problem))?;
        Ok(SignedCall { account, order_id, values, wish })
    }

    fn signer(&self, values: &Values, claimed: &str) -> Result<Arc<Account>, Problem> {
        let merchant = value(values, CreateField::MerchantCode);
        let account = MerchantCode::parse(merchant).ok().and_then(|code| self.accounts.get(&code));
        let account = account.ok_or_else(|| {
            Problem::unauthenticated("merchantCode: there is no such account at this partner")
        })?;
        let mut signed = Vec::with_capacity(512);
        let value_of = |field| values[place(field)].as_deref();
        if let Some(field) = create_signing_text(&self.profile, &self.rule, value_of, &mut signed) {
            return Err(Problem::field(field.name(), "holds the separator of the signing text"));
        }
        let claimed: Option<[u8; SIGNATURE_BYTES]> = self.profile.output().read(claimed);
        let genuine = claimed.is_some_and(|claimed| account.key.verifies(&signed, &claimed));
        genuine.then(|| Arc::clone(account)).ok_or_else(|| {
            let fields: Vec<_> = self.rule.signed_fields.iter().map(|f| f.name()).collect();
            let separator = char::from(self.profile.separator());
            Problem::unauthenticated(format!(
                "signature: it is not HMAC-SHA256 under this account's key of {}",
                fields.join(&separator.to_string())
            ))
        })
    }

    /// Judges every field of a signed call. Errors: 400 with the field's name.
    pub(crate) fn read(&self, call: SignedCall) -> Result<CreateCall, Problem> {
        let value = |field| value(&call.values, field);
        let expires_at = call.values[place(CreateField::ExpiresAt)].as_deref();
        let expires_at = expires_at.map(Time::parse).transpose();
        let description = value(CreateField::Description);
        if description.chars().count() > DESCRIPTION_CHARS_MAX {
            let problem = format!("at most {DESCRIPTION_CHARS_MAX} characters are shown");
            return Err(Problem::field("description", problem));
        }
        Ok(CreateCall {
            amount: Amount::parse(value(CreateField::Amount))
                .map_err(|problem| Problem::field("amount", problem))?,
            currency: Currency::parse(value(CreateField::Currency))
                .map_err(|problem| Problem::field("currency", problem))?,
            description: description.into(),
            return_url: self.return_url(value(CreateField::ReturnUrl))?,
            ipn_url: self.address("ipnUrl", value(CreateField::IpnUrl))?,
            expires_at: expires_at.map_err(|problem| Problem::field("expiresAt", problem))?,
            wish: self.wish(call.wish.as_deref())?,
            account: call.account,
            order_id: call.order_id,
        })
    }

    fn wish(&self, word: Option<&str>) -> Result<Wish, Problem> {
        match word {
            None | Some("page") => Ok(Wish::Page),
            Some("qr") => Ok(Wish::Qr),
            Some(_) => {
                let name = self.rule.presentation_field.as_deref().unwrap_or("presentation");
                Err(Problem::field(name, "must be page or qr"))
            }
        }
    }

    /// Where notices and browsers may be sent: nowhere this profile's partner would not be let.
    fn address(&self, field: &str, text: &str) -> Result<Arc<Url>, Problem> {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = addresses.get(text) {
            return Ok(Arc::clone(known));
        }
        let reach =
            if self.profile.allows_private_addresses() { Reach::Sandbox } else { Reach::Public };
        let url = reach.check(text).map_err(|problem| Problem::field(field, problem))?;
        if addresses.len() == ADDRESSES_MAX {
            addresses.clear();
        }
        let url = Arc::new(url);
        addresses.insert(text.to_owned(), Arc::clone(&url));
        Ok(url)
    }

    /// An address like any other, or an app's deep link, `<scheme>://payment-result` (contract 2.1).
    fn return_url(&self, text: &str) -> Result<Arc<Url>, Problem> {
        match Url::parse(text) {
            Ok(url) if !is_of_the_web(url.scheme()) && url.host_str() == Some(DEEP_LINK_HOST) => {
                Ok(Arc::new(url))
            }
            _ => self.address("returnUrl", text),
        }
    }
}

fn is_of_the_web(scheme: &str) -> bool {
    ["http", "https", "ftp", "ws", "wss", "file", "blob", "data", "javascript", "about"]
        .contains(&scheme)
}

type Values = [Option<String>; CreateField::ALL.len()];

fn place(field: CreateField) -> usize {
    CreateField::ALL.iter().position(|known| *known == field).expect("ALL holds every field")
}

/// A required field's text.
fn value(values: &Values, field: CreateField) -> &str {
    values[place(field)].as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;
