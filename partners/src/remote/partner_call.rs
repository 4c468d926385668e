//! Owns one call to a partner: the values of its payment, the HTTP request built from them, and why
//! a call can't be made.

use std::sync::Arc;

use payfold_schemas::time::Time;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Method, Request};

use super::clients::ClientError;
use crate::directory::account::Account;
use crate::keys::Channel;
use crate::outbound::{Reach, UrlProblem};
use crate::scheme::call::rule::{ACCESS_TOKEN, AnswerContent, CallRule, ORDER};
use crate::scheme::call::{CallBuildError, CallRequest, CommonValues, RequestBuilder};
use crate::scheme::compiled::Scheme;
use crate::validity;

/// The kinds of calls that a scheme may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    Create,
    Query,
    Token,
}

/// A call to a partner, with the values of one payment.
#[derive(Clone)]
pub(crate) struct PartnerCall {
    pub(super) account: Arc<Account>,
    pub(super) which: CallKind,
    /// The partner's address in the settings.
    pub(super) api_url: String,
    pub(super) values: Vec<String>,
    pub(super) now: Time,
}

/// Why a call to a partner can't be made. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No key of the account is valid now. Holds the account and the validity of its keys.
    #[error(
        "no key for calls of account {0}; check the clock of this machine, or add a key with \
         payfold key add, --channel create for a secret of calls alone, --channel sign for a \
         private key"
    )]
    NoKey(String),
    /// The profile requires a TLS client certificate, and no certificate of the account is valid
    /// now. Holds the account and the validity of its certificates.
    #[error(
        "no client certificate of account {0}; check the clock of this machine, or add one with \
         payfold key add --channel tls"
    )]
    NoCertificate(String),
    /// The request can't be built from the profile. Holds the partner and the reason, which never
    /// contains a value.
    #[error("the call to partner {0} can't be built: {1}")]
    Unbuildable(String, String),
    /// The partner's address is not allowed.
    #[error("the partner's address can't be called: {0}")]
    Address(UrlProblem),
}

impl CallError {
    pub(super) fn unbuildable(account: &Account, why: &impl ToString) -> Self {
        Self::Unbuildable(account.partner().to_string(), why.to_string())
    }

    pub(super) fn of_request(account: &Account, why: RequestError) -> Self {
        match why {
            RequestError::Uncallable(CallBuildError::NoKey) => {
                Self::NoKey(describe_keys(account, &[Channel::Create, Channel::Sign]))
            }
            RequestError::Address(problem) => Self::Address(problem),
            why => Self::unbuildable(account, &why),
        }
    }

    pub(super) fn of_client(account: &Account, why: ClientError) -> Self {
        match why {
            ClientError::NoCertificate => {
                Self::NoCertificate(describe_keys(account, &[Channel::Tls]))
            }
            ClientError::Unusable(why) => Self::unbuildable(account, &why),
        }
    }
}

/// The account's name, and when its keys of these channels are valid.
fn describe_keys(account: &Account, channels: &[Channel]) -> String {
    let keys = channels.iter().flat_map(|channel| account.keys_of(*channel).keys());
    format!("{} is valid now (it has {})", account.name(), validity::of_keys(keys))
}

/// Why a request can't be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("{0}")]
    Uncallable(CallBuildError),
    #[error("{0} is not a valid header")]
    Header(String),
    #[error("{0}")]
    Address(UrlProblem),
}

/// The rule of a call, and the value of its `Accept` header. `None` if the scheme has no such call.
pub(crate) fn rule(scheme: &Scheme, which: CallKind) -> Option<(&CallRule, Option<&'static str>)> {
    match which {
        CallKind::Create => scheme.create.as_ref().map(|create| {
            let content = create.offer.as_ref().map(|offer| offer.content);
            (&create.rule, content.and_then(AnswerContent::accept))
        }),
        CallKind::Query => {
            scheme.query.as_ref().map(|query| (&query.question, query.answer.content.accept()))
        }
        CallKind::Token => {
            scheme.oauth.as_ref().map(|oauth| (&oauth.rule, AnswerContent::Json.accept()))
        }
    }
}

impl PartnerCall {
    pub(crate) fn rule(&self) -> (&CallRule, Option<&'static str>) {
        rule(self.account.profile().scheme(), self.which).expect("it was prepared by this rule")
    }

    /// Whether the call carries an access token.
    pub(crate) fn carries_token(&self) -> bool {
        self.rule().0.names(ACCESS_TOKEN)
    }

    /// The same call with a new time and nonce. Fetching a token may have taken seconds, and a
    /// partner may refuse a nonce that it has seen.
    pub(crate) fn at(&self, now: Time) -> Self {
        let mut call = Self { now, ..self.clone() };
        let subject = self.values[ORDER].clone();
        let (rule, _) = self.rule();
        CommonValues { subject: &subject, format: &rule.now, now }.renew(&mut call.values);
        call
    }

    /// The parts of the request with this token. Errors: `CallBuildError`.
    pub(crate) fn sent(&self, token: &str) -> Result<CallRequest, CallBuildError> {
        let rule = self.rule();
        let keys = self.account.scheme_keys().call_keys(rule.0, self.now);
        let mut values = self.values.clone();
        token.clone_into(&mut values[ACCESS_TOKEN]);
        RequestBuilder::of(&self.account, rule, keys, &self.api_url).build(values)
    }

    /// The HTTP request with this token, to a checked address. Errors: `RequestError`.
    pub(crate) fn request(&self, token: &str) -> Result<Request, RequestError> {
        let sent = self.sent(token).map_err(RequestError::Uncallable)?;
        let reach = Reach::of(self.account.profile());
        let url = reach.check(&format!("{}{}", sent.base, sent.target));
        request(sent, url.map_err(RequestError::Address)?)
    }
}

/// Builds the HTTP request. Every header value is marked as sensitive, so that no log shows it.
/// Errors: the name of a header that HTTP does not allow.
pub(crate) fn request(sent: CallRequest, url: url::Url) -> Result<Request, RequestError> {
    let method = match sent.method {
        crate::scheme::call::rule::CallMethod::Get => Method::GET,
        crate::scheme::call::rule::CallMethod::Post => Method::POST,
    };
    let mut request = Request::new(method, url);
    for (name, value) in sent.headers {
        let known = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_str(&value);
        let (Ok(known), Ok(mut value)) = (known, value) else {
            return Err(RequestError::Header(name));
        };
        value.set_sensitive(true);
        request.headers_mut().insert(known, value);
    }
    if !sent.body.is_empty() {
        *request.body_mut() = Some(sent.body.into());
    }
    Ok(request)
}
