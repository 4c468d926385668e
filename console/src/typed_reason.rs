//! Owns the reason that a person typed into a form: an answer that does not take it shows it once
//! more, to be copied.

use actix_web::dev::ServiceRequest;
use actix_web::http::header;
use actix_web::web::Bytes;
use actix_web::{Error, HttpMessage as _, HttpRequest};
use maud::{Markup, html};

use crate::UPLOADS;
use crate::page::{self, local};
use crate::text::typed;

/// The reason that a form came with.
#[derive(Clone, Debug)]
pub(crate) struct TypedReason {
    reason: String,
    /// The page that the form is on.
    page: String,
}

impl TypedReason {
    /// Keeps the reason of a form beside its request, which stays as it came. Errors: the form is
    /// too large.
    pub(crate) async fn keep(request: &mut ServiceRequest) -> Result<(), Error> {
        // No form below UPLOADS has a reason, and bodies there may take long.
        let path = request.path();
        let has_none = page::is_open(path) || path.starts_with(UPLOADS);
        if request.method().is_safe() || has_none || !has_fields(request) {
            return Ok(());
        }
        let body = request.extract::<Bytes>().await?;
        let typed = Self::read(&body, request.path());
        request.set_payload(body.into());
        if let Some(typed) = typed {
            request.extensions_mut().insert(typed);
        }
        Ok(())
    }

    /// Reads a form; `None` without a reason.
    fn read(body: &[u8], path: &str) -> Option<Self> {
        let field = |name: &str| {
            let mut fields = url::form_urlencoded::parse(body);
            fields.find(|(field, _)| field == name).map(|(_, value)| value.into_owned())
        };
        let reason = field("reason").filter(|reason| !reason.trim().is_empty())?;
        let page = field("back").unwrap_or_else(|| path.to_owned());
        Some(Self { reason, page })
    }

    /// The reason that came with a request.
    pub(crate) fn of(request: &HttpRequest) -> Option<Self> {
        request.extensions().get::<Self>().cloned()
    }

    /// The page that the form is on.
    pub(crate) fn page(&self) -> &str {
        local(&self.page)
    }

    /// The reason, to be copied.
    pub(crate) fn render(&self) -> Markup {
        html! {
            (typed(&self.reason))
            p { a href=(self.page()) { "Back to the form" } }
        }
    }
}

/// Whether a request has the fields of a form, and no file.
fn has_fields(request: &ServiceRequest) -> bool {
    let sent = request.headers().get(header::CONTENT_TYPE);
    let sent = sent.and_then(|sent| sent.to_str().ok()).unwrap_or_default();
    sent.starts_with("application/x-www-form-urlencoded")
}
