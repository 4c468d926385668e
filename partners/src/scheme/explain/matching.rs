//! Owns opening a request for one account, and comparing its signatures.

use crate::profile::Profile;
use crate::rejection::{RejectCode, Rejection};
use crate::scheme::compiled::Scheme;
use crate::scheme::crypt::ReadyKey;
use crate::scheme::message::ParsedMessage;
use crate::scheme::request::NoticeRequest;
use crate::scheme::rules::SignRule;
use crate::scheme::signature_check::read_claims;
use crate::scheme::template_values::TemplateInputs;

/// Why a request can't be parsed or decrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UnreadableRequest(String);

/// Parses a request and unwraps its documents. Errors: what can't be parsed or decrypted.
pub(crate) fn open_request<'r>(
    profile: &Profile,
    scheme: &'r Scheme,
    request: &'r NoticeRequest<'r>,
    inputs: &TemplateInputs<'_>,
) -> Result<ParsedMessage<'r>, UnreadableRequest> {
    let unreadable = |rejection: Rejection| {
        let place = rejection.detail().unwrap_or_default();
        UnreadableRequest(format!("{rejection} {place}").trim().to_owned())
    };
    let mut message = ParsedMessage::new(scheme, request, profile.limits()).map_err(unreadable)?;
    let is_sealed = scheme.documents.iter().any(|document| document.decrypt.is_some());
    message.unwrap_documents(inputs).map_err(|rejection| match rejection.code() {
        RejectCode::Unauthenticated if is_sealed && inputs.decryption_keys.is_empty() => {
            UnreadableRequest(
                "the account has no key of channel unwrap, which opens what is encrypted"
                    .to_owned(),
            )
        }
        RejectCode::Unauthenticated => {
            UnreadableRequest("no key of channel unwrap opens what is encrypted".to_owned())
        }
        _ => unreadable(rejection),
    })?;
    Ok(message)
}

pub(crate) fn is_match(
    sign: &SignRule,
    ready: &ReadyKey,
    text: &[u8],
    received: &[String],
) -> bool {
    ready.verify_any(text, &read_claims(sign, received)).is_some()
}
