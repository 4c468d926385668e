//! Owns the draft of a create in a partner's own scheme: what would be sent for a payment, for whoever writes the profile.
//! Nothing is called, and no secret is shown: `{secret}` stands where one would.

use payfold_schemas::time::Time;

use super::CallError;
use super::create::{calling, refused};
use crate::create::CreateRequest;
use crate::directory::Account;
use crate::outbound::Reach;
use crate::scheme::call::Sent;

/// What stands where a secret would.
const MASK: &[u8] = b"{secret}";

/// What would be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Whether the partner is called; else the payer is given the address.
    pub goes_out: bool,
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
    /// What the session's end is taken for, where the answer does not say it.
    pub expires_at: Time,
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
        let asked = |secret| {
            let calling = calling((self, scheme), create, secret, api_url);
            create.asked(&calling, request, now).map_err(|why| refused(self, &why))
        };
        let secret = self.scheme_keys().asking_secret(create.rule.key, now);
        let (sent, asked_for) = asked(secret)?;
        let (masked, _) = asked(secret.map(|_| MASK))?;
        Reach::of(self.profile()).check(&format!("{}{}", sent.base, sent.target))?;
        let [ours, of_mask] = [&sent, &masked].map(signature);
        // Nothing of the real one is shown but its signature.
        let shown = |text: String| match (&ours, &of_mask) {
            (Some(ours), Some(of_mask)) => text.replace(of_mask, ours),
            _ => text,
        };
        let Sent { method, base, target, headers, body, signed } = masked;
        let headers = headers.into_iter().map(|(name, value)| (name, shown(value)));
        Ok(Draft {
            goes_out: create.offer.is_some(),
            method: method.name(),
            url: shown(format!("{base}{target}")),
            headers: headers.collect(),
            body: shown(String::from_utf8_lossy(&body).into_owned()),
            signing_text: signed.map(|(text, _)| text),
            signature: ours,
            expires_at: asked_for.expires_at,
        })
    }
}

fn signature(sent: &Sent) -> Option<String> {
    sent.signed.as_ref().map(|(_, signature)| signature.clone())
}
