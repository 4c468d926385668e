//! Owns the conversion of an HTTP request: into the request that schemes read, and into the
//! recorded parts that a later verification of its signature needs.

use std::borrow::Cow;

use actix_web::HttpRequest;
use actix_web::http::header;
use payfold_partners::scheme::{NoticeRequest, Scheme};
use payfold_partners::verified::VerifiedNotice;
use payfold_schemas::notice_source::{NoticeSource, RecordedRequest};

/// The scheme, host and port that a partner called.
pub(crate) struct PartnerFacingUrl<'r> {
    url: Cow<'r, str>,
    /// The `Host` header if `public_url` is not configured: a scheme that signs the URL has then
    /// signed this host.
    host: Option<&'r str>,
}

impl<'r> PartnerFacingUrl<'r> {
    /// `public_url` is the setting of that name. If it is empty, the `Host` header counts.
    pub(crate) fn from_request(request: &'r HttpRequest, public_url: &'r str) -> Self {
        if !public_url.is_empty() {
            return Self { url: Cow::Borrowed(public_url), host: None };
        }
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        Self { url: Cow::Owned(format!("http://{}", host.unwrap_or_default())), host }
    }
}

/// A received request with a signature that is not yet verified.
pub(crate) struct IncomingRequest<'r> {
    /// The request as schemes read it.
    pub(crate) request: NoticeRequest<'r>,
    /// The `Host` header, which is recorded with notices of a scheme that signs the URL.
    host: Option<&'r str>,
}

impl<'r> IncomingRequest<'r> {
    /// Reads a request without its headers and our address, which the default scheme doesn't need.
    pub(crate) fn without_headers(request: &'r HttpRequest, raw: &'r [u8]) -> Self {
        Self {
            host: None,
            request: NoticeRequest {
                method: request.method().as_str(),
                base_url: "",
                path: request.uri().path(),
                query: request.uri().query().unwrap_or_default(),
                headers: Vec::new(),
                body: raw,
            },
        }
    }

    /// Reads a request. Headers with values that are not UTF-8 are left out.
    pub(crate) fn whole(
        request: &'r HttpRequest,
        raw: &'r [u8],
        url: &'r PartnerFacingUrl<'r>,
    ) -> Self {
        let mut incoming = Self::without_headers(request, raw);
        let headers = request.headers().iter();
        let headers = headers.map(|(name, value)| (name.as_str(), value.as_bytes()));
        incoming.request.headers = NoticeRequest::text_headers(headers);
        incoming.request.base_url = &url.url;
        incoming.host = url.host;
        incoming
    }

    /// The source to record with a notice of this request: profile, key and request.
    pub(crate) fn notice_source(&self, notice: &VerifiedNotice) -> NoticeSource {
        let NoticeRequest { method, .. } = self.request;
        let request = RecordedRequest {
            target: self.request.target(),
            headers: self.recorded_headers(notice.profile().scheme()),
            method: (method != "POST").then(|| method.to_owned()),
            item: notice.item(),
            ..RecordedRequest::default()
        };
        build_notice_source(notice, request)
    }

    /// The headers that a later verification of the signature needs. The others are not recorded.
    fn recorded_headers(&self, scheme: &Scheme) -> Vec<(String, String)> {
        let wanted = scheme.headers();
        let is_wanted = |name: &str| wanted.iter().any(|other| other.eq_ignore_ascii_case(name));
        let recorded = self.request.headers.iter().filter(|(name, _)| is_wanted(name));
        let host = self.host.filter(|_| scheme.signs_address());
        let host = host.map(|host| (header::HOST.as_str(), host));
        let all = recorded.copied().chain(host);
        all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

/// The source of a verified notice: its profile, key and sign block, and `request`.
pub(crate) fn build_notice_source(
    notice: &VerifiedNotice,
    request: RecordedRequest,
) -> NoticeSource {
    NoticeSource {
        profile: notice.profile().stamp().clone(),
        key_id: notice.key_id().clone(),
        request: RecordedRequest { sign: notice.sign().map(str::to_owned), ..request },
        released: None,
    }
}

/// The recorded `Host` header of a request, if there is one.
pub(crate) fn recorded_host(recorded: &RecordedRequest) -> Option<&str> {
    let mut headers = recorded.headers.iter();
    let host = headers.find(|(name, _)| name.eq_ignore_ascii_case(header::HOST.as_str()));
    host.map(|(_, host)| host.as_str())
}
