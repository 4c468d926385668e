//! Owns the OpenAPI document as a page: RapiDoc, as it is published, and nothing from elsewhere. It
//! tries no operation, because a shop's key does not belong into a browser.

use actix_web::HttpResponse;
use actix_web::http::header::{self, ContentEncoding, HeaderName};

use crate::paths::{DOCS_SCRIPT, OPENAPI};
use crate::problem::Problem;
use crate::shop_request::ShopRequest;

/// RapiDoc 9.3.8, compressed.
const SCRIPT: &[u8] = include_bytes!("docs/rapidoc-min.js.gz");

/// Only our own files are loaded. The library writes its styles into the page.
const POLICY: (HeaderName, &str) = (
    header::CONTENT_SECURITY_POLICY,
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'unsafe-inline'; \
     img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// `GET /docs`
pub(crate) async fn page(_: &mut ShopRequest) -> Result<HttpResponse, Problem> {
    let page = format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>Payments for shops – Payfold</title>\
         <script src=\"{DOCS_SCRIPT}\" defer></script></head>\
         <body><rapi-doc spec-url=\"{OPENAPI}\" load-fonts=\"false\" show-header=\"false\" \
         allow-try=\"false\" allow-authentication=\"false\" allow-server-selection=\"false\" \
         render-style=\"read\" schema-style=\"table\" theme=\"light\" \
         primary-color=\"#1d4f7c\"></rapi-doc>\
         <noscript>This page needs JavaScript. The document itself is at \
         <a href=\"{OPENAPI}\">{OPENAPI}</a>.</noscript></body></html>"
    );
    Ok(HttpResponse::Ok().content_type("text/html; charset=utf-8").insert_header(POLICY).body(page))
}

/// `GET /docs/rapidoc.js`
pub(crate) async fn script(_: &mut ShopRequest) -> Result<HttpResponse, Problem> {
    Ok(HttpResponse::Ok()
        .content_type("text/javascript; charset=utf-8")
        .insert_header(ContentEncoding::Gzip)
        .insert_header((header::CACHE_CONTROL, "max-age=300"))
        .body(SCRIPT))
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    #[test]
    fn the_library_is_as_it_was_published() {
        let published = "b083f080f1727f019ccf551228392e0fc39a0be450ba19bca451ea31d6be2ec9";
        assert_eq!(format!("{:x}", Sha256::digest(SCRIPT)), published);
    }
}
