//! Owns what goes out of a partner's own scheme: a call put together with the keys that count, its address checked, and
//! where it carries an access token, with one. It can be put together again with another token, at another moment, and is the
//! same otherwise.

use std::sync::Arc;

use payfold_schemas::time::Time;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Client, Method, Request};

use super::tokens::{Carried, Tokens};
use crate::directory::Account;
use crate::outbound::{Reach, UrlProblem};
use crate::scheme::Scheme;
use crate::scheme::call::{
    self, ACCESS_TOKEN, AnswerContent, CallRule, Calling, Common, ORDER, Sent, Uncallable,
};
use crate::scheme::keys::CallKeys;

/// Which call of a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Create,
    Query,
    Token,
}

/// A call of a partner's own scheme, with the values of one payment.
#[derive(Clone)]
pub(super) struct OwnCall {
    pub(super) account: Arc<Account>,
    pub(super) which: Which,
    /// The partner's address of the settings.
    pub(super) api_url: String,
    pub(super) values: Vec<String>,
    pub(super) now: Time,
}

/// Why nothing goes out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unsendable {
    #[error("{0}")]
    Uncallable(Uncallable),
    #[error("{0} is no header")]
    Header(String),
    #[error("{0}")]
    Address(UrlProblem),
}

/// What a call is put together with.
pub(super) fn calling<'a>(
    account: &'a Account,
    (rule, accept): (&'a CallRule, Option<&'static str>),
    keys: CallKeys<'a>,
    api_url: &'a str,
) -> Calling<'a> {
    let scheme = account.profile().scheme().expect("only a scheme of their own is called so");
    let (limits, of) = (account.profile().limits(), account.of());
    let api_url = api_url.trim_end_matches('/');
    Calling { scheme, rule, limits, of, keys, api_url, accept, signature: None }
}

/// The rule of a call, and what its answer should come in. `None` if the scheme has no such call.
pub(super) fn rule(scheme: &Scheme, which: Which) -> Option<(&CallRule, Option<&'static str>)> {
    match which {
        Which::Create => scheme.create.as_ref().map(|create| {
            let content = create.offer.as_ref().map(|offer| offer.content);
            (&create.rule, content.and_then(AnswerContent::accept))
        }),
        Which::Query => {
            scheme.query.as_ref().map(|query| (&query.question, query.answer.content.accept()))
        }
        Which::Token => {
            scheme.oauth.as_ref().map(|oauth| (&oauth.rule, AnswerContent::Json.accept()))
        }
    }
}

impl OwnCall {
    fn rule(&self) -> (&CallRule, Option<&'static str>) {
        let scheme = self.account.profile().scheme();
        let rule = scheme.and_then(|scheme| rule(scheme, self.which));
        rule.expect("it was prepared by this rule")
    }

    /// Whether it carries an access token.
    fn carries_token(&self) -> bool {
        self.rule().0.names(ACCESS_TOKEN)
    }

    /// The same call at this moment: a token may have taken its time, and a nonce serves once.
    fn at(&self, now: Time) -> Self {
        let mut call = Self { now, ..self.clone() };
        let about = self.values[ORDER].clone();
        let (rule, _) = self.rule();
        Common { about: &about, format: &rule.now, now }.renew(&mut call.values);
        call
    }

    /// What goes out with this token. Errors: `Uncallable`.
    pub(super) fn sent(&self, token: &str) -> Result<Sent, Uncallable> {
        let rule = self.rule();
        let keys = self.account.scheme_keys().call_keys(rule.0, self.now);
        let mut values = self.values.clone();
        token.clone_into(&mut values[ACCESS_TOKEN]);
        calling(&self.account, rule, keys, &self.api_url).sent(values)
    }

    /// The same as a request to a checked address.
    pub(super) fn request(&self, token: &str) -> Result<Request, Unsendable> {
        let sent = self.sent(token).map_err(Unsendable::Uncallable)?;
        let reach = Reach::of(self.account.profile());
        let url = reach.check(&format!("{}{}", sent.base, sent.target));
        request(sent, url.map_err(Unsendable::Address)?)
    }
}

/// Errors: the name of a header whose value is none.
fn request(sent: Sent, url: url::Url) -> Result<Request, Unsendable> {
    let method = match sent.method {
        call::Method::Get => Method::GET,
        call::Method::Post => Method::POST,
    };
    let mut request = Request::new(method, url);
    for (name, value) in sent.headers {
        let known = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_str(&value);
        let (Ok(known), Ok(mut value)) = (known, value) else {
            return Err(Unsendable::Header(name));
        };
        value.set_sensitive(true);
        request.headers_mut().insert(known, value);
    }
    if !sent.body.is_empty() {
        *request.body_mut() = Some(sent.body.into());
    }
    Ok(request)
}

/// A request that waits to go out.
pub(super) enum Sending {
    Ready(Box<Request>),
    /// It carries an access token.
    WithToken(Box<WithToken>),
}

/// What a request is made of once there is a token.
pub(super) struct WithToken {
    call: OwnCall,
    client: Client,
    tokens: Arc<Tokens>,
}

impl Sending {
    /// A call whose request without a token is this one.
    pub(super) fn of(
        call: OwnCall,
        request: Request,
        (client, tokens): (&Client, &Arc<Tokens>),
    ) -> Self {
        if !call.carries_token() {
            return Self::Ready(Box::new(request));
        }
        let (client, tokens) = (client.clone(), Arc::clone(tokens));
        Self::WithToken(Box::new(WithToken { call, client, tokens }))
    }

    /// The token it carries, kept or asked for now; `spent` is one that the partner no longer takes. `None` where it carries
    /// none. Errors: why there is none, for the log; nothing was sent.
    pub(super) async fn token(
        &self,
        spent: Option<&Carried>,
        now: &impl Fn() -> Time,
    ) -> Result<Option<Carried>, String> {
        let Self::WithToken(waiting) = self else { return Ok(None) };
        let token = waiting.tokens.of(&waiting.call, &waiting.client, spent, now).await;
        token.map(Some).map_err(|why| format!("no access token: {why}"))
    }

    /// The request with its token, as it goes out now. Errors: why it can't be put together, for the log.
    pub(super) fn request(&self, token: Option<&Carried>, now: Time) -> Result<Request, String> {
        match self {
            Self::Ready(request) => {
                Ok(request.try_clone().expect("a body in memory can be sent again"))
            }
            Self::WithToken(waiting) => {
                let text = token.map_or("", Carried::text);
                waiting.call.at(now).request(text).map_err(|why| why.to_string())
            }
        }
    }
}
