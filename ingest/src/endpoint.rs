//! Owns the checks of a request's head before its body is read: method, content type and sizes, as
//! the profile of the partner in the path requires. The shared path and partners with the default
//! scheme accept JSON by POST.

use actix_web::guard::GuardContext;
use actix_web::http::header::{self, HeaderValue};
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use payfold_partners::directory::Directory;

use crate::ingest::Ingest;
use crate::refusal::{Refusal, RefusalCode};
use crate::transport;

/// The refusal of a request before its body is read.
pub(crate) struct HeadRefusal {
    pub(crate) refusal: Refusal,
    /// The method for the `Allow` header of a 405 (RFC 9110, 15.5.6).
    allow: Option<&'static str>,
}

impl HeadRefusal {
    /// Adds the `Allow` header to the response of a 405.
    pub(crate) fn add_allow_header(&self, mut refused: HttpResponse) -> HttpResponse {
        if let Some(allow) = self.allow {
            refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        refused
    }
}

impl From<Refusal> for HeadRefusal {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, allow: None }
    }
}

/// Whether the partner in the path sends its notices by GET.
pub(crate) fn accepts_get(context: &GuardContext<'_>) -> bool {
    let partner = context.head().uri.path().strip_prefix("/api/payment/ipn/");
    let ingest = context.app_data::<Data<Ingest>>();
    partner.zip(ingest).is_some_and(|(partner, ingest)| {
        let directory = ingest.directory.load();
        directory.scheme(partner).is_some_and(|scheme| scheme.takes_method("GET"))
    })
}

/// Checks a request's head. Returns the size limit of its body, in bytes. Errors:
/// `method_not_allowed`, and those of `transport::check_head`.
pub(crate) fn check_head(
    directory: &Directory,
    request: &HttpRequest,
) -> Result<usize, HeadRefusal> {
    let partner = request.match_info().get("partner");
    let bytes_max = directory.limits(partner).body_bytes;
    let profile = partner.and_then(|partner| directory.profile(partner));
    let Some(custom) = profile.filter(|profile| !profile.is_default_scheme()) else {
        transport::check_head(request.head(), bytes_max, &transport::is_json)?;
        return Ok(bytes_max);
    };
    let scheme = custom.scheme();
    if !scheme.takes_method(request.method().as_str()) {
        let allow = if scheme.takes_method("GET") { "GET" } else { "POST" };
        let refusal = Refusal::new(RefusalCode::MethodNotAllowed);
        return Err(HeadRefusal { refusal, allow: Some(allow) });
    }
    let accepts_type = |content_type: Option<&str>| scheme.takes_content_type(content_type);
    transport::check_head(request.head(), bytes_max, &accepts_type)?;
    Ok(bytes_max)
}
