//! Owns the verification of a create call of the contract (2.1): its signature and its fields. A
//! call that breaks the contract is refused; the refusal names the field if one is wrong.

mod fields;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use payfold_partners::create::PresentationKind;
use payfold_partners::directory::Account;
use payfold_partners::mac::SIGNATURE_BYTES;
use payfold_partners::outbound::Reach;
use payfold_partners::profile::{CreateField, CreateRule, CreateTerms, Profile};
use payfold_partners::signing::create_signing_text;
use payfold_schemas::ids::{MerchantCode, OrderId};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use url::Url;

use crate::problem::RequestProblem;
use fields::{JsonFields, JsonType};

/// The longest description, in characters.
const DESCRIPTION_CHARS_MAX: usize = 1_024;
/// The host of an app's deep link (contract 2.1).
const DEEP_LINK_HOST: &str = "payment-result";
/// At most this many checked addresses are cached. Nearly every call has the same two.
const ADDRESSES_MAX: usize = 64;

/// Verifies create calls.
#[derive(Debug)]
pub(crate) struct CreateEndpoint {
    pub(crate) profile: Profile,
    pub(crate) terms: CreateTerms,
    pub(crate) accounts: HashMap<MerchantCode, Arc<Account>>,
    addresses: Mutex<HashMap<String, Arc<Url>>>,
}

/// A create call with a verified signature.
#[derive(Debug)]
pub(crate) struct SignedCall {
    pub(crate) account: Arc<Account>,
    pub(crate) order_id: OrderId,
    values: FieldValues,
    presentation: Option<String>,
}

/// A create call with well-formed fields.
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
    /// `None` if the call does not choose: then both are offered.
    pub(crate) presentation: Option<PresentationKind>,
}

impl CreateEndpoint {
    pub(crate) fn new(
        profile: Profile,
        terms: CreateTerms,
        accounts: HashMap<MerchantCode, Arc<Account>>,
    ) -> Self {
        Self { profile, terms, accounts, addresses: Mutex::default() }
    }

    /// The rule of the contract's create call.
    fn rule(&self) -> &CreateRule {
        self.profile.create().expect("only calls of the contract are verified here")
    }

    /// Verifies the signature of a call. Errors: 400 if the body is not a JSON object, or a signed
    /// field is missing, of another type or contains the separator; 401 if no account signed it.
    ///
    /// The order id is parsed here, because the caller counts every signed call of an order before
    /// it checks the other fields.
    pub(crate) fn verify(&self, body: &[u8], now: Time) -> Result<SignedCall, RequestProblem> {
        let fields = JsonFields::parse(body)
            .map_err(|problem| RequestProblem::new(400, "malformed_body", problem.to_string()))?;
        let text = |name: &str, json_type| {
            fields.text(name, json_type).map_err(|problem| RequestProblem::field(name, problem))
        };
        let mut values = FieldValues::default();
        for field in CreateField::ALL {
            let json_type =
                if field == CreateField::Amount { JsonType::Number } else { JsonType::String };
            let value = text(field.name(), json_type)?;
            if value.is_none() && field != CreateField::ExpiresAt {
                return Err(RequestProblem::field(field.name(), "is required"));
            }
            values[index_of(field)] = value;
        }
        let claimed = text("signature", JsonType::String)?
            .ok_or_else(|| RequestProblem::field("signature", "is required"))?;
        let presentation = match &self.rule().presentation_field {
            Some(name) => text(name, JsonType::String)?,
            None => None,
        };
        let account = self.find_signer(&values, &claimed, now)?;
        let order_id = OrderId::parse(value(&values, CreateField::OrderId))
            .map_err(|problem| RequestProblem::field("orderId", problem))?;
        Ok(SignedCall { account, order_id, values, presentation })
    }

    fn find_signer(
        &self,
        values: &FieldValues,
        claimed: &str,
        now: Time,
    ) -> Result<Arc<Account>, RequestProblem> {
        let merchant = value(values, CreateField::MerchantCode);
        let account = MerchantCode::parse(merchant).ok().and_then(|code| self.accounts.get(&code));
        let account = account.ok_or_else(|| {
            RequestProblem::unauthenticated("merchantCode: this partner has no such account")
        })?;
        let mut signed = Vec::with_capacity(512);
        let value_of = |field| values[index_of(field)].as_deref();
        if let Some(field) = create_signing_text(&self.profile, self.rule(), value_of, &mut signed)
        {
            return Err(RequestProblem::field(
                field.name(),
                "contains the separator of the signing text",
            ));
        }
        let claimed: Option<[u8; SIGNATURE_BYTES]> = self.profile.output().read(claimed);
        let is_authenticated =
            claimed.is_some_and(|claimed| account.has_signed_call(&signed, &claimed, now));
        is_authenticated.then(|| Arc::clone(account)).ok_or_else(|| {
            let fields: Vec<_> = self.rule().signed_fields.iter().map(|f| f.name()).collect();
            let separator = char::from(self.profile.separator());
            RequestProblem::unauthenticated(format!(
                "signature: it is not the HMAC-SHA256 of {} under this account's key",
                fields.join(&separator.to_string())
            ))
        })
    }

    /// Parses the remaining fields of a signed call. Errors: 400 with the field's name.
    pub(crate) fn parse_fields(&self, call: SignedCall) -> Result<CreateCall, RequestProblem> {
        let value = |field| value(&call.values, field);
        let expires_at = call.values[index_of(CreateField::ExpiresAt)].as_deref();
        let expires_at = expires_at.map(Time::parse).transpose();
        let description = value(CreateField::Description);
        if description.chars().count() > DESCRIPTION_CHARS_MAX {
            let problem = format!("must have at most {DESCRIPTION_CHARS_MAX} characters");
            return Err(RequestProblem::field("description", problem));
        }
        Ok(CreateCall {
            amount: Amount::parse(value(CreateField::Amount))
                .map_err(|problem| RequestProblem::field("amount", problem))?,
            currency: Currency::parse(value(CreateField::Currency))
                .map_err(|problem| RequestProblem::field("currency", problem))?,
            description: description.into(),
            return_url: self.check_return_url(value(CreateField::ReturnUrl))?,
            ipn_url: self.check_address("ipnUrl", value(CreateField::IpnUrl))?,
            expires_at: expires_at
                .map_err(|problem| RequestProblem::field("expiresAt", problem))?,
            presentation: Some(self.parse_presentation(call.presentation.as_deref())?),
            account: call.account,
            order_id: call.order_id,
        })
    }

    fn parse_presentation(
        &self,
        presentation: Option<&str>,
    ) -> Result<PresentationKind, RequestProblem> {
        match presentation {
            None | Some("page") => Ok(PresentationKind::Page),
            Some("qr") => Ok(PresentationKind::Qr),
            Some(_) => {
                let name = self.rule().presentation_field.as_deref().unwrap_or("presentation");
                Err(RequestProblem::field(name, "must be page or qr"))
            }
        }
    }

    /// Checks an address that notices or browsers are sent to. The profile's reach limits it.
    pub(crate) fn check_address(
        &self,
        field: &str,
        text: &str,
    ) -> Result<Arc<Url>, RequestProblem> {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = addresses.get(text) {
            return Ok(Arc::clone(known));
        }
        let url = Reach::of(&self.profile)
            .check(text)
            .map_err(|problem| RequestProblem::field(field, problem))?;
        if addresses.len() == ADDRESSES_MAX {
            addresses.clear();
        }
        let url = Arc::new(url);
        addresses.insert(text.to_owned(), Arc::clone(&url));
        Ok(url)
    }

    /// Checks the return URL: an ordinary address, or an app's deep link,
    /// `<scheme>://payment-result` (contract 2.1). Payfold never sends a deep link; a shop that
    /// calls a partner directly may.
    pub(crate) fn check_return_url(&self, text: &str) -> Result<Arc<Url>, RequestProblem> {
        match Url::parse(text) {
            Ok(url)
                if !is_browser_scheme(url.scheme()) && url.host_str() == Some(DEEP_LINK_HOST) =>
            {
                Ok(Arc::new(url))
            }
            _ => self.check_address("returnUrl", text),
        }
    }
}

/// Whether browsers handle the scheme themselves, so that no app may register it.
fn is_browser_scheme(scheme: &str) -> bool {
    ["http", "https", "ftp", "ws", "wss", "file", "blob", "data", "javascript", "about"]
        .contains(&scheme)
}

type FieldValues = [Option<String>; CreateField::ALL.len()];

fn index_of(field: CreateField) -> usize {
    CreateField::ALL.iter().position(|known| *known == field).expect("ALL holds every field")
}

/// The text of a required field.
fn value(values: &FieldValues, field: CreateField) -> &str {
    values[index_of(field)].as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;
