//! Owns the visit of a hosted page over HTTP, without scripts: its headers, its buttons, and the
//! link back. Cookies are sent only on a second attempt, so that the visit shows whether the page
//! needs them. The browser requests only addresses that `Reach` allows.

use payfold_partners::outbound::{Reach, UrlProblem};
use payfold_partners::remote::PartnerClient;
use reqwest::header::{self, HeaderMap, HeaderName};
use reqwest::{Client, Method, Response};
use url::Url;

use super::markup;
use super::observations::{CookieNeed, Hop, PageAction, PageProblem, VisitedPage};

/// The most redirects followed in a row.
const HOPS_MAX: usize = 10;
/// The largest page that is read, in bytes.
const PAGE_BYTES_MAX: usize = 1_048_576;
/// The most hops recorded for a page.
const HOPS_RECORDED_MAX: usize = 50;
/// The timeout of one request.
const REQUEST_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(15);

/// What the simulated payer does at the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PayerIntent {
    Pay,
    Cancel,
}

impl PayerIntent {
    /// The last path segment of the button's address.
    const fn button_name(self) -> &'static str {
        match self {
            Self::Pay => "pay",
            Self::Cancel => "cancel",
        }
    }

    const fn action(self) -> PageAction {
        match self {
            Self::Pay => PageAction::Paid,
            Self::Cancel => PageAction::Cancelled,
        }
    }
}

/// A browser for one payment.
pub(super) struct Browser {
    partner: Client,
    return_client: Client,
    reach: Reach,
    return_url: String,
    intent: PayerIntent,
}

/// Where a request and its redirects ended.
enum Arrival {
    /// At the return address, which was requested.
    ReturnUrl,
    /// At a document.
    Document { html: String, base: Url },
}

/// The next request that a document offers.
enum NextStep {
    PressButton(Url),
    FollowLink(Url),
}

impl Browser {
    pub(super) fn new(
        remote: &PartnerClient,
        reach: Reach,
        return_url: &str,
        intent: PayerIntent,
    ) -> Self {
        // The return address belongs to the certifier, so it may be on any machine.
        let (partner, return_client) = (remote.visitor(reach), remote.visitor(Reach::Sandbox));
        Self { partner, return_client, reach, return_url: return_url.to_owned(), intent }
    }

    /// Visits the page once and acts on it, without cookies if possible. The observations go into
    /// `page`. The receiver records whether the visit led back to the return address.
    pub(super) async fn visit(&self, address: &str, page: &mut VisitedPage) {
        if let Err(problem) = self.try_visit(address, page).await {
            page.problem = Some(problem);
        }
    }

    /// Requests the page once, for its headers, without acting on it.
    pub(super) async fn fetch_once(&self, address: &str, page: &mut VisitedPage) {
        let fetched = match Url::parse(address) {
            Ok(url) => self
                .request_and_follow(Method::GET, url, None, (page, &mut Vec::new()))
                .await
                .map(drop),
            Err(error) => Err(PageProblem::Address(error.to_string())),
        };
        if let Err(problem) = fetched {
            page.problem = Some(problem);
        }
    }

    async fn try_visit(&self, address: &str, page: &mut VisitedPage) -> Result<(), PageProblem> {
        let url = Url::parse(address).map_err(|error| PageProblem::Address(error.to_string()))?;
        let mut jar = Vec::new();
        let mut arrival =
            self.request_and_follow(Method::GET, url.clone(), None, (page, &mut jar)).await?;
        let mut cookies = CookieNeed::NotNeeded;
        if self.next_step(&arrival).is_none() && !jar.is_empty() {
            // The page offers nothing without cookies. Try again with those it just set.
            let with = jar.join("; ");
            let again = self
                .request_and_follow(Method::GET, url, Some(&with), (page, &mut Vec::new()))
                .await?;
            if self.next_step(&again).is_some() {
                (arrival, cookies) = (again, CookieNeed::Needed);
            }
        }
        let Some(step) = self.next_step(&arrival) else { return Ok(()) };
        let with = (cookies == CookieNeed::Needed).then(|| jar.join("; "));
        let (method, url, done) = match step {
            NextStep::PressButton(url) => (Method::POST, url, self.intent.action()),
            NextStep::FollowLink(url) => (Method::GET, url, PageAction::FollowedBack),
        };
        let arrival =
            self.request_and_follow(method, url, with.as_deref(), (page, &mut jar)).await?;
        (page.action, page.cookies) = (done, cookies);
        // A page that confirms the payment may offer a link back.
        if let (PageAction::Paid | PageAction::Cancelled, Some(NextStep::FollowLink(url))) =
            (done, self.next_step(&arrival))
        {
            self.request_and_follow(Method::GET, url, with.as_deref(), (page, &mut jar)).await?;
        }
        Ok(())
    }

    fn next_step(&self, arrival: &Arrival) -> Option<NextStep> {
        let Arrival::Document { html, base } = arrival else { return None };
        if let Some(link) = markup::find_link(html, &self.return_url) {
            return Url::parse(&link).ok().map(NextStep::FollowLink);
        }
        markup::find_button(html, self.intent.button_name())
            .and_then(|to| base.join(&to).ok())
            .map(NextStep::PressButton)
    }

    /// Sends one request and follows the redirects after it.
    async fn request_and_follow(
        &self,
        method: Method,
        url: Url,
        cookies: Option<&str>,
        (page, jar): (&mut VisitedPage, &mut Vec<String>),
    ) -> Result<Arrival, PageProblem> {
        let (mut method, mut url) = (method, url);
        for _ in 0..HOPS_MAX {
            if markup::leads_to(url.as_str(), &self.return_url) {
                // The receiver records whether this arrived, so the result does not matter here.
                let _ = self.return_client.get(url).timeout(REQUEST_TIMEOUT).send().await;
                return Ok(Arrival::ReturnUrl);
            }
            self.reach.check(url.as_str()).map_err(|problem| {
                let what = format!("{} {problem}", strip_query(&url));
                match problem {
                    UrlProblem::NotHttps => PageProblem::Http(what),
                    _ => PageProblem::Address(what),
                }
            })?;
            let mut request = self.partner.request(method, url.clone()).timeout(REQUEST_TIMEOUT);
            if let Some(cookies) = cookies {
                request = request.header(header::COOKIE, cookies);
            }
            let response = request.send().await.map_err(|error| classify_error(&error))?;
            record_hop(&response, &url, page, jar);
            let headers = response.headers();
            let next = response.status().is_redirection().then(|| headers.get(header::LOCATION));
            let next = next.flatten().and_then(|next| next.to_str().ok());
            let Some(next) = next.and_then(|next| url.join(next).ok()) else {
                return Ok(Arrival::Document { html: read_document(response).await?, base: url });
            };
            (method, url) = (Method::GET, next);
        }
        Err(PageProblem::Unreachable(format!("over {HOPS_MAX} redirects in a row")))
    }
}

/// The URL without its query, which may hold a secret token.
fn strip_query(url: &Url) -> String {
    let mut bare = url.clone();
    bare.set_query(None);
    bare.into()
}

fn record_hop(response: &Response, url: &Url, page: &mut VisitedPage, jar: &mut Vec<String>) {
    let headers = response.headers();
    let set = header_texts(headers, &header::SET_COOKIE);
    page.cookies_set += set.len();
    let pair = |line: &String| line.split(';').next().map(|pair| pair.trim().to_owned());
    jar.extend(set.iter().filter_map(pair));
    if page.hops.len() < HOPS_RECORDED_MAX {
        page.hops.push(Hop {
            address: strip_query(url),
            status: response.status().as_u16(),
            frame_options: header_texts(headers, &HeaderName::from_static("x-frame-options")),
            policies: header_texts(headers, &header::CONTENT_SECURITY_POLICY),
        });
    }
}

fn header_texts(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    let values = headers.get_all(name).iter();
    values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
}

async fn read_document(mut response: Response) -> Result<String, PageProblem> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| classify_error(&error))? {
        if body.len() + chunk.len() > PAGE_BYTES_MAX {
            return Err(PageProblem::Unreachable(format!(
                "the page is over {PAGE_BYTES_MAX} bytes"
            )));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// Classifies an error. TLS errors are separate, because an untrusted certificate breaks its own
/// rule.
fn classify_error(error: &reqwest::Error) -> PageProblem {
    let mut source: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
    let mut last = "no answer".to_owned();
    while let Some(cause) = source {
        if let Some(tls) = find_tls_error(cause) {
            return PageProblem::Tls(tls.to_string());
        }
        last = cause.to_string();
        source = cause.source();
    }
    PageProblem::Unreachable(last)
}

/// Finds a TLS error. The HTTP libraries wrap it in I/O errors, more than once.
fn find_tls_error<'e>(cause: &'e (dyn std::error::Error + 'static)) -> Option<&'e rustls::Error> {
    let here = cause.downcast_ref::<rustls::Error>();
    here.or_else(|| find_tls_error(cause.downcast_ref::<std::io::Error>()?.get_ref()?))
}

#[cfg(test)]
mod tests;
