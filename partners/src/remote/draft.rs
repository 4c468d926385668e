//! Owns the draft of a create call: the request that a payment would send, shown to the author of a
//! profile. Nothing is sent. No secret is shown: `{secret}` and `{access_token}` stand in its
//! place.

use payfold_schemas::time::Time;
use serde::{Serialize, Serializer};

use super::create::refused;
use crate::create::CreateRequest;
use crate::directory::account::Account;
use crate::outbound::Reach;
use crate::remote::create::CreateError;
use crate::remote::partner_call::{CallError, CallKind, rule};
use crate::scheme::call::rule::ACCESS_TOKEN;
use crate::scheme::call::{CallRequest, RequestBuilder};
use crate::scheme::compiled::Scheme;
use crate::scheme::keys::CallKeys;

/// Shown in place of a secret.
const MASK: &[u8] = b"{secret}";
/// Shown in place of the access token.
const ACCESS_TOKEN_MASK: &str = "{access_token}";

/// The requests that a payment would send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateDraft {
    /// Whether a request is sent to the partner. If not, the payer gets the address.
    pub goes_out: bool,
    /// The request, or the address that the payer gets.
    #[serde(flatten)]
    pub create: DraftedRequest,
    /// The request for an access token, if the create call carries one.
    #[serde(rename = "accessToken", skip_serializing_if = "Option::is_none")]
    pub token: Option<DraftedRequest>,
    /// The session's expiry that applies if the answer gives none.
    pub expires_at: Time,
}

/// One request of a draft.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DraftedRequest {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// The complete URL.
    pub url: String,
    /// Names and values, in the order in which they are sent.
    #[serde(serialize_with = "as_map")]
    pub headers: Vec<(String, String)>,
    /// The body; empty if there is none.
    pub body: String,
    /// The signing text; `None` if the profile signs nothing.
    pub signing_text: Option<String>,
    /// The signature under the account's key.
    pub signature: Option<String>,
}

fn as_map<S: Serializer>(headers: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(headers.iter().map(|(name, value)| (name, value)))
}

impl Account {
    /// Drafts the requests of a payment. Errors: as `PartnerClient::prepare_create`.
    pub fn draft_create(
        &self,
        api_url: &str,
        request: &CreateRequest,
        now: Time,
    ) -> Result<CreateDraft, CreateError> {
        let no_create = || CreateError::NoCreate(self.partner().to_string());
        let scheme = self.profile().scheme();
        let create = scheme.create.as_ref().ok_or_else(no_create)?;
        let (values, asked) =
            create.values(scheme, request, now).map_err(|why| refused(self, why))?;
        let drafted = |which, values| self.drafted((scheme, which), values, api_url, now);
        let token = scheme.oauth.as_ref().filter(|_| create.rule.names(ACCESS_TOKEN));
        let token = token.map(|oauth| {
            drafted(CallKind::Token, oauth.values(self.merchant_code().as_str(), now))
        });
        Ok(CreateDraft {
            goes_out: create.offer.is_some(),
            create: drafted(CallKind::Create, values)?,
            token: token.transpose()?,
            expires_at: asked.expires_at,
        })
    }

    fn drafted(
        &self,
        (scheme, which): (&Scheme, CallKind),
        mut values: Vec<String>,
        api_url: &str,
        now: Time,
    ) -> Result<DraftedRequest, CreateError> {
        let call_rule = rule(scheme, which).expect("the profile has this call");
        ACCESS_TOKEN_MASK.clone_into(&mut values[ACCESS_TOKEN]);
        let keys = self.scheme_keys().call_keys(call_rule.0, now);
        let sent = |keys, signature| {
            let calling =
                RequestBuilder { signature, ..RequestBuilder::of(self, call_rule, keys, api_url) };
            calling.build(values.clone()).map_err(|why| refused(self, why))
        };
        let real = sent(keys, None)?;
        Reach::of(self.profile())
            .check(&format!("{}{}", real.base, real.target))
            .map_err(CallError::Address)?;
        // The real request is signed with the secret. The one that is shown is built again with the
        // mask in place of the secret, and gets the real signature.
        let signature = real.signed.map(|(_, signature)| signature);
        let masked = CallKeys { secret: keys.secret.map(|_| MASK), ..keys };
        let CallRequest { method, base, target, headers, body, signed } =
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
