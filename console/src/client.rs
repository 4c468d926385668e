//! Owns how admin listeners are asked, with a person's token.

use std::time::Duration;

use actix_web::http::StatusCode;
use futures_util::future;
use payfold_api::call::{Call, CallMethod, Nothing, Problem, query_of};
use payfold_api::reconcile::RUN;
use reqwest::{Body, Client, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::listeners::Listeners;

/// Timeout of a change: longer than a busy database takes for a claim.
const CHANGE_MAX: Duration = Duration::from_secs(30);
/// Timeout of a call that reads; another listener may be asked then.
const READ_MAX: Duration = Duration::from_secs(10);
/// Timeout of a call that may read every order before it answers.
const SLOW_MAX: Duration = Duration::from_secs(300);
/// Timeout of a call that every listener gets: a page waits for the slowest.
pub(crate) const EACH_MAX: Duration = Duration::from_secs(5);
/// Timeout of an upload.
const UPLOAD_MAX: Duration = Duration::from_secs(3_600);
/// How long an idle connection is kept: the listener closes it after 75 s.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Timeout of a connection.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// The codes of a listener in a process without the role for a call.
pub(crate) const NO_ROLE: [&str; 3] = ["no_orders", "no_reconciler", "no_projector"];

/// The codes of a listener that does not have what another may have: tickets are known to one.
const NOT_HERE: [&str; 2] = ["no_such_run", "no_such_file"];

/// The admin listeners.
pub(crate) struct ApiClient {
    http: Client,
    listeners: Listeners,
}

/// The admin listeners, asked with a person's token.
pub(crate) struct PersonalClient<'c> {
    client: &'c ApiClient,
    /// The listeners that are asked, in this order.
    urls: Vec<String>,
    token: &'c str,
}

/// What a listener that runs the role for a call answers.
struct Answered<'u, A> {
    url: &'u str,
    answer: Result<A, CallError>,
}

/// Why a call has no answer.
#[derive(Debug)]
pub(crate) enum CallError {
    /// No listener answers: why the last one does not.
    NoAnswer(String),
    /// The token is not, or no longer, in force.
    NoSession,
    /// The call was refused.
    Refused(StatusCode, Problem),
}

impl ApiClient {
    /// Makes a client of these listeners. Errors: the system's certificates can't be read.
    pub(crate) fn new(listeners: Listeners) -> Result<Self, reqwest::Error> {
        let builder = Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
        Ok(Self {
            http: builder.connect_timeout(CONNECT_MAX).pool_idle_timeout(IDLE_MAX).build()?,
            listeners,
        })
    }

    /// Looks for listeners that have come or gone.
    pub(crate) async fn refresh(&self) {
        self.listeners.refresh().await;
    }

    /// The listeners, asked with this token.
    pub(crate) fn with<'c>(&'c self, token: &'c str) -> PersonalClient<'c> {
        PersonalClient { client: self, urls: self.listeners.urls(), token }
    }
}

impl<'c> PersonalClient<'c> {
    /// The same with these listeners only.
    pub(crate) fn only(&self, urls: &[&str]) -> Self {
        let urls = urls.iter().map(|url| (*url).to_owned()).collect();
        Self { client: self.client, urls, token: self.token }
    }

    /// Makes a call with these names in its path. It goes to the first listener that can be reached
    /// and runs the role for it. Errors: it is refused, or there is no answer.
    pub(crate) async fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        call: &Call<Q, A>,
        names: &[&str],
        request: &Q,
    ) -> Result<A, CallError> {
        self.ask(call, names, request, &[&NO_ROLE[..], &NOT_HERE].concat()).await?.answer
    }

    /// Sends a file to the first listener that can be reached and compares records. That one is
    /// looked for before, because a file can't be sent twice. Errors: as `call`.
    pub(crate) async fn upload<Q: Serialize, A: DeserializeOwned>(
        &self,
        call: &Call<Q, A>,
        names: &[&str],
        request: &Q,
        file: Body,
    ) -> Result<A, CallError> {
        let listener = self.ask(&RUN, &["none"], &Nothing {}, &NO_ROLE).await?;
        if let Err(CallError::NoSession) = listener.answer {
            return Err(CallError::NoSession);
        }
        // It knows no such run, so it would know one.
        let post = self.client.http.post(format!("{}{}", listener.url, path_of(call, names)?));
        let sent = post.query(&query_of(request)).bearer_auth(self.token).timeout(UPLOAD_MAX);
        match sent.body(file).send().await {
            Ok(answer) => read(answer).await,
            Err(error) => Err(CallError::NoAnswer(said(&error))),
        }
    }

    /// Makes a call of every listener, at once. One that takes too long has no answer.
    pub(crate) async fn each<A: DeserializeOwned>(
        &self,
        call: &Call<Nothing, A>,
        limit: Duration,
    ) -> Vec<(&str, Result<A, CallError>)> {
        let asked = self.urls.iter().map(async |url| {
            let answer = tokio::time::timeout(limit, async {
                let path = format!("{url}{}", call.path);
                match self.send(call, &path, &Nothing {}).await {
                    Ok(response) => read(response).await,
                    Err(error) => Err(CallError::NoAnswer(said(&error))),
                }
            });
            let late = || Err(CallError::NoAnswer(format!("no answer within {limit:?}")));
            (&**url, answer.await.unwrap_or_else(|_| late()))
        });
        future::join_all(asked).await
    }

    /// The answer of the first listener that can be reached and does not refuse with one of the
    /// codes `elsewhere`. Errors: there is none.
    async fn ask<Q: Serialize, A: DeserializeOwned>(
        &self,
        call: &Call<Q, A>,
        names: &[&str],
        request: &Q,
        elsewhere: &[&str],
    ) -> Result<Answered<'_, A>, CallError> {
        let path = path_of(call, names)?;
        let mut last = None;
        for url in &self.urls {
            let response = match self.send(call, &format!("{url}{path}"), request).await {
                Ok(response) => response,
                // Another listener may be asked: this one has not received the call, or it was to
                // change nothing.
                Err(error) if error.is_connect() || call.method == CallMethod::Get => {
                    outweigh(&mut last, CallError::NoAnswer(said(&error)));
                    continue;
                }
                Err(error) => return Err(CallError::NoAnswer(said(&error))),
            };
            match read(response).await {
                Err(CallError::Refused(status, problem)) if elsewhere.contains(&&*problem.code) => {
                    outweigh(&mut last, CallError::Refused(status, problem));
                }
                // Its vault may be another one: a projector needs none.
                Err(CallError::NoSession) => outweigh(&mut last, CallError::NoSession),
                answer => return Ok(Answered { url, answer }),
            }
        }
        let none = || CallError::NoAnswer("no admin listener is configured".to_owned());
        Err(last.unwrap_or_else(none))
    }

    async fn send<Q: Serialize, A>(
        &self,
        call: &Call<Q, A>,
        url: &str,
        request: &Q,
    ) -> Result<Response, reqwest::Error> {
        let http = &self.client.http;
        let sent = match call.method {
            CallMethod::Get => http.get(url).query(&query_of(request)),
            CallMethod::Post => http.post(url).json(request),
            CallMethod::PostQuery | CallMethod::Upload => http.post(url).query(&query_of(request)),
        };
        let limit = match (call.is_slow, call.method) {
            (true, _) => SLOW_MAX,
            (false, CallMethod::Get) => READ_MAX,
            (false, CallMethod::Post | CallMethod::PostQuery | CallMethod::Upload) => CHANGE_MAX,
        };
        sent.bearer_auth(self.token).timeout(limit).send().await
    }
}

/// The path of a call. Errors: a name can't be a part of one, so there is no such thing.
fn path_of<Q, A>(call: &Call<Q, A>, names: &[&str]) -> Result<String, CallError> {
    call.path_of(names).ok_or_else(|| {
        let detail = format!("{} names nothing", names.join(" "));
        CallError::Refused(StatusCode::NOT_FOUND, Problem { detail, ..Problem::default() })
    })
}

async fn read<A: DeserializeOwned>(answer: Response) -> Result<A, CallError> {
    let status = answer.status();
    if status.is_success() {
        return answer.json().await.map_err(|error| CallError::NoAnswer(said(&error)));
    }
    if status == reqwest::StatusCode::UNAUTHORIZED {
        return Err(CallError::NoSession);
    }
    let problem = answer.json::<Problem>().await.unwrap_or_else(|_| Problem {
        detail: format!("the admin listener answered {status}"),
        ..Problem::default()
    });
    let status = StatusCode::from_u16(status.as_u16()).unwrap_or(StatusCode::BAD_GATEWAY);
    Err(CallError::Refused(status, problem))
}

/// Keeps what says more about a call that no listener has answered. One without the role for it
/// knows the token; while one does not answer, it is not known whether the session is over.
fn outweigh(known: &mut Option<CallError>, error: CallError) {
    let weight = |error: &CallError| match error {
        CallError::NoSession => 0,
        CallError::NoAnswer(_) => 1,
        CallError::Refused(..) => 2,
    };
    if known.as_ref().is_none_or(|known| weight(known) <= weight(&error)) {
        *known = Some(error);
    }
}

/// The error with its causes; the last of them if there was no connection, which is all there is to
/// it. The URL in it has no token, but may have what a person searched for.
fn said(error: &reqwest::Error) -> String {
    let outermost: &dyn std::error::Error = error;
    let said: Vec<_> = std::iter::successors(Some(outermost), |error| error.source())
        .map(ToString::to_string)
        .collect();
    let first = if error.is_connect() { said.len() - 1 } else { 0 };
    said[first..].join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_listener_without_the_token_ends_no_session() {
        let said = |error: &CallError| match error {
            CallError::NoSession => "no session",
            CallError::NoAnswer(_) => "no answer",
            CallError::Refused(..) => "no role",
        };
        let error = |name: &str| match name {
            "no session" => CallError::NoSession,
            "no answer" => CallError::NoAnswer(String::new()),
            _ => CallError::Refused(StatusCode::NOT_FOUND, Problem::default()),
        };
        for (errors, shown) in [
            (&["no session", "no session"][..], "no session"),
            (&["no session", "no answer"], "no answer"),
            (&["no answer", "no session"], "no answer"),
            (&["no role", "no answer", "no session"], "no role"),
            (&["no session", "no role"], "no role"),
        ] {
            let mut last = None;
            errors.iter().for_each(|name| outweigh(&mut last, error(name)));
            assert_eq!(last.as_ref().map(said), Some(shown), "{errors:?}");
        }
    }
}
