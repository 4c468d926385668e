//! Owns the visit of a hosted page over HTTP, as far as that goes without script: its headers, its buttons, the way
//! back. It keeps cookies apart, so that it can tell whether a page needs them, and goes nowhere a call may not go.

use payfold_partners::outbound::{Reach, UrlProblem};
use payfold_partners::remote::Remote;
use reqwest::header::{self, HeaderMap, HeaderName};
use reqwest::{Client, Method, Response};
use url::Url;

use super::markup;
use super::seen::{Cookies, Done, Hop, Page, PageProblem};

/// Redirects that are followed in a row.
const HOPS_MAX: usize = 10;
/// A page is read up to here.
const PAGE_BYTES_MAX: usize = 1_048_576;
/// Hops that are kept of a page.
const HOPS_KEPT: usize = 50;
/// How long one answer may take.
const ANSWER: std::time::Duration = std::time::Duration::from_secs(15);

/// What a payer means to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    Pay,
    Cancel,
}

impl Intent {
    /// The last word of a button that does it.
    const fn word(self) -> &'static str {
        match self {
            Self::Pay => "pay",
            Self::Cancel => "cancel",
        }
    }

    const fn done(self) -> Done {
        match self {
            Self::Pay => Done::Paid,
            Self::Cancel => Done::Cancelled,
        }
    }
}

/// A browser for one payment.
pub(super) struct Browser {
    partner: Client,
    home: Client,
    reach: Reach,
    return_url: String,
    intent: Intent,
}

/// What a request came to.
enum Landed {
    /// It led to the return address, and was followed there.
    Back,
    /// A document.
    Page { html: String, base: Url },
}

/// What can be done at a document.
enum Way {
    Press(Url),
    Follow(Url),
}

impl Browser {
    pub(super) fn new(remote: &Remote, reach: Reach, return_url: &str, intent: Intent) -> Self {
        // The return address is ours, wherever it is.
        let (partner, home) = (remote.visitor(reach), remote.visitor(Reach::Sandbox));
        Self { partner, home, reach, return_url: return_url.to_owned(), intent }
    }

    /// Visits the page once and does what it offers, without cookies if that is possible. What is seen goes into
    /// `page`; whether it led back is known by the return.
    pub(super) async fn visit(&self, address: &str, page: &mut Page) {
        if let Err(problem) = self.visit_or_fail(address, page).await {
            page.problem = Some(problem);
        }
    }

    /// Fetches the page once, for its headers, and does nothing there.
    pub(super) async fn look(&self, address: &str, page: &mut Page) {
        let looked = match Url::parse(address) {
            Ok(url) => self.go(Method::GET, url, None, (page, &mut Vec::new())).await.map(drop),
            Err(error) => Err(PageProblem::Address(error.to_string())),
        };
        if let Err(problem) = looked {
            page.problem = Some(problem);
        }
    }

    async fn visit_or_fail(&self, address: &str, page: &mut Page) -> Result<(), PageProblem> {
        let url = Url::parse(address).map_err(|error| PageProblem::Address(error.to_string()))?;
        let mut jar = Vec::new();
        let mut landed = self.go(Method::GET, url.clone(), None, (page, &mut jar)).await?;
        let mut cookies = Cookies::NotNeeded;
        if self.way(&landed).is_none() && !jar.is_empty() {
            // Nothing can be done here: perhaps with what it just set.
            let with = jar.join("; ");
            let again = self.go(Method::GET, url, Some(&with), (page, &mut Vec::new())).await?;
            if self.way(&again).is_some() {
                (landed, cookies) = (again, Cookies::Needed);
            }
        }
        let Some(way) = self.way(&landed) else { return Ok(()) };
        let with = (cookies == Cookies::Needed).then(|| jar.join("; "));
        let (method, url, done) = match way {
            Way::Press(url) => (Method::POST, url, self.intent.done()),
            Way::Follow(url) => (Method::GET, url, Done::FollowedBack),
        };
        let landed = self.go(method, url, with.as_deref(), (page, &mut jar)).await?;
        (page.done, page.cookies) = (done, cookies);
        // A page that says that it is done may lead back by a link.
        if let (Done::Paid | Done::Cancelled, Some(Way::Follow(url))) = (done, self.way(&landed)) {
            self.go(Method::GET, url, with.as_deref(), (page, &mut jar)).await?;
        }
        Ok(())
    }

    fn way(&self, landed: &Landed) -> Option<Way> {
        let Landed::Page { html, base } = landed else { return None };
        if let Some(link) = markup::link_to(html, &self.return_url) {
            return Url::parse(&link).ok().map(Way::Follow);
        }
        markup::button(html, self.intent.word()).and_then(|to| base.join(&to).ok()).map(Way::Press)
    }

    /// One request and the redirects after it.
    async fn go(
        &self,
        method: Method,
        url: Url,
        cookies: Option<&str>,
        (page, jar): (&mut Page, &mut Vec<String>),
    ) -> Result<Landed, PageProblem> {
        let (mut method, mut url) = (method, url);
        for _ in 0..HOPS_MAX {
            if markup::leads_to(url.as_str(), &self.return_url) {
                // The certifier's own address: whether it was reached is in its records.
                let _ = self.home.get(url).timeout(ANSWER).send().await;
                return Ok(Landed::Back);
            }
            self.reach.check(url.as_str()).map_err(|problem| {
                let what = format!("{} {problem}", bare(&url));
                match problem {
                    UrlProblem::NotHttps => PageProblem::Http(what),
                    _ => PageProblem::Address(what),
                }
            })?;
            let mut request = self.partner.request(method, url.clone()).timeout(ANSWER);
            if let Some(cookies) = cookies {
                request = request.header(header::COOKIE, cookies);
            }
            let response = request.send().await.map_err(|error| problem(&error))?;
            record(&response, &url, page, jar);
            let headers = response.headers();
            let next = response.status().is_redirection().then(|| headers.get(header::LOCATION));
            let next = next.flatten().and_then(|next| next.to_str().ok());
            let Some(next) = next.and_then(|next| url.join(next).ok()) else {
                return Ok(Landed::Page { html: read(response).await?, base: url });
            };
            (method, url) = (Method::GET, next);
        }
        Err(PageProblem::Unreachable(format!("over {HOPS_MAX} redirects in a row")))
    }
}

/// Without a query: it may hold what is worth something.
fn bare(url: &Url) -> String {
    let mut bare = url.clone();
    bare.set_query(None);
    bare.into()
}

fn record(response: &Response, url: &Url, page: &mut Page, jar: &mut Vec<String>) {
    let headers = response.headers();
    let set = texts(headers, &header::SET_COOKIE);
    page.cookies_set += set.len();
    let pair = |line: &String| line.split(';').next().map(|pair| pair.trim().to_owned());
    jar.extend(set.iter().filter_map(pair));
    if page.hops.len() < HOPS_KEPT {
        page.hops.push(Hop {
            address: bare(url),
            status: response.status().as_u16(),
            frame_options: texts(headers, &HeaderName::from_static("x-frame-options")),
            policies: texts(headers, &header::CONTENT_SECURITY_POLICY),
        });
    }
}

fn texts(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    let values = headers.get_all(name).iter();
    values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
}

async fn read(mut response: Response) -> Result<String, PageProblem> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| problem(&error))? {
        if body.len() + chunk.len() > PAGE_BYTES_MAX {
            return Err(PageProblem::Unreachable(format!(
                "the page is over {PAGE_BYTES_MAX} bytes"
            )));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// TLS is told apart: an untrusted certificate is a rule of its own.
fn problem(error: &reqwest::Error) -> PageProblem {
    let mut source: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
    let mut last = "no answer".to_owned();
    while let Some(cause) = source {
        if let Some(tls) = tls_in(cause) {
            return PageProblem::Tls(tls.to_string());
        }
        last = cause.to_string();
        source = cause.source();
    }
    PageProblem::Unreachable(last)
}

/// The libraries wrap it into errors of input and output, more than once.
fn tls_in<'e>(cause: &'e (dyn std::error::Error + 'static)) -> Option<&'e rustls::Error> {
    let here = cause.downcast_ref::<rustls::Error>();
    here.or_else(|| tls_in(cause.downcast_ref::<std::io::Error>()?.get_ref()?))
}

#[cfg(test)]
mod tests;
