//! Owns the draft of a create in a partner's own scheme: what would be sent for a payment, for whoever writes the profile.
//! Nothing is called, and no secret is shown: `{secret}` and `{access_token}` stand where they would.

use payfold_schemas::time::Time;

use super::CallError;
use super::create::refused;
use super::sending::{Which, calling, rule};
use crate::create::CreateRequest;
use crate::directory::Account;
use crate::outbound::Reach;
use crate::scheme::Scheme;
use crate::scheme::call::{ACCESS_TOKEN, Calling, Sent};
use crate::scheme::keys::CallKeys;

/// What stands where a secret would.
const MASK: &[u8] = b"{secret}";
/// What stands where the access token would.
const ACCESS_TOKEN_MASK: &str = "{access_token}";

/// What would be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Whether the partner is called; else the payer is given the address.
    pub goes_out: bool,
    /// The request, or the address the payer is given.
    pub create: DraftedRequest,
    /// What an access token would be asked for with, where the request carries one.
    pub token: Option<DraftedRequest>,
    /// What the session's end is taken for, where the answer does not say it.
    pub expires_at: Time,
}

/// One request of a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftedRequest {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// The whole address.
    pub url: String,
    /// Names and values, in their order.
    pub headers: Vec<(String, String)>,
    /// The body; empty if there is none.
    pub body: String,
    /// What is signed; nothing where the profile signs nothing.
    pub signing_text: Option<String>,
    /// The signature under the account's key.
    pub signature: Option<String>,
}

impl Account {
    /// What would be sent for a payment. Errors: as `Remote::prepare`.
    pub fn draft_create(
        &self,
        api_url: &str,
        request: &CreateRequest,
        now: Time,
    ) -> Result<Draft, CallError> {
        let no_create = || CallError::NoCreate(self.partner().to_string());
        let scheme = self.profile().scheme().ok_or_else(no_create)?;
        let create = scheme.create.as_ref().ok_or_else(no_create)?;
        let (values, asked) =
            create.values(scheme, request, now).map_err(|why| refused(self, &why))?;
        let drafted = |which, values| self.drafted((scheme, which), values, api_url, now);
        let token = scheme.oauth.as_ref().filter(|_| create.rule.names(ACCESS_TOKEN));
        let token = token
            .map(|oauth| drafted(Which::Token, oauth.values(self.merchant_code().as_str(), now)));
        Ok(Draft {
            goes_out: create.offer.is_some(),
            create: drafted(Which::Create, values)?,
            token: token.transpose()?,
            expires_at: asked.expires_at,
        })
    }

    fn drafted(
        &self,
        (scheme, which): (&Scheme, Which),
        mut values: Vec<String>,
        api_url: &str,
        now: Time,
    ) -> Result<DraftedRequest, CallError> {
        let told = rule(scheme, which).expect("the profile has this call");
        ACCESS_TOKEN_MASK.clone_into(&mut values[ACCESS_TOKEN]);
        let keys = self.scheme_keys().call_keys(told.0, now);
        let sent = |keys, signature| {
            let calling = Calling { signature, ..calling(self, told, keys, api_url) };
            calling.sent(values.clone()).map_err(|why| refused(self, &why))
        };
        let real = sent(keys, None)?;
        Reach::of(self.profile()).check(&format!("{}{}", real.base, real.target))?;
        // Nothing of the real one is shown but its signature.
        let signature = real.signed.map(|(_, signature)| signature);
        let masked = CallKeys { secret: keys.secret.map(|_| MASK), ..keys };
        let Sent { method, base, target, headers, body, signed } =
            sent(masked, signature.as_deref())?;
        Ok(DraftedRequest {
            method: method.name(),
            url: format!("{base}{target}"),
            headers,
            body: String::from_utf8_lossy(&body).into_owned(),
            signing_text: signed.map(|(text, _)| text),
            signature,
        })
    }
}
