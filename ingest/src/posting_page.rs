//! Owns the page that posts a payer's form to a partner: `GET /api/payment/form/{partner}`. The
//! query carries the fields that were signed when the payment was created. The browser posts them
//! unchanged.
//!
//! Invariants: the form's target comes from profile and configuration only. A query that is not
//! exactly the form's fields gets 404. Nothing is stored, and no part of a query is logged.

use std::collections::HashMap;
use std::sync::Arc;

use actix_web::web::{self, Data, Payload, Query, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse, guard};
use arc_swap::ArcSwap;
use payfold_partners::directory::Directory;
use payfold_partners::scheme::PostTarget;
use payfold_schemas::ids::PartnerCode;

use crate::browser_return::{escape, with_guard_headers};
use crate::{body, not_found};

/// The state of the page. One value, shared by all workers.
pub struct PaymentForms {
    /// The current profiles.
    pub directory: Arc<ArcSwap<Directory>>,
    /// The partners' API base URLs, from the configuration.
    pub api_urls: HashMap<PartnerCode, String>,
}

/// Posts the form as soon as it is loaded. A form with a field named `submit` has no `submit`
/// method of its own, hence the prototype. A payer without scripts uses the button.
const SCRIPT: &str = "HTMLFormElement.prototype.submit.call(document.getElementById('pay'))";

/// Lets only `SCRIPT` run, by its SHA-256. It has no form-action: browsers also apply form-action
/// to the partner's redirects after the form, and a request can't change the form's target. Nor
/// has it frame-ancestors: a shop may frame the partner's page (contract 4.4), and so this one.
const POLICY: &str = "default-src 'none'; base-uri 'none'; \
     script-src 'sha256-szbx8t9+xwgJ0aCkhdhFtrop3qUcIPPsYtOJ8CiM4tU='";

/// Registers the route of the payment form.
pub fn routes(config: &mut ServiceConfig) {
    config.service(
        web::resource("/api/payment/form/{partner}")
            .guard(guard::fn_guard(not_found::is_plain_path))
            .route(web::get().to(serve_page))
            .default_service(web::to(refuse_method)),
    );
}

async fn refuse_method(request: HttpRequest, unread: Payload) -> HttpResponse {
    not_found::respond_method_not_allowed(&request, unread, "GET")
}

/// Responds 200 with the form, which posts itself. Responds 404 if the partner has no form, or if
/// the query's fields are not those of the form.
async fn serve_page(
    request: HttpRequest,
    unread: Payload,
    forms: Data<PaymentForms>,
) -> HttpResponse {
    match build_page(&request, &forms) {
        Some(page) => {
            let response = HttpResponse::Ok().content_type("text/html; charset=utf-8").body(page);
            body::attach_unread(unread, with_guard_headers(response, POLICY))
        }
        None => not_found::respond_not_found(request, unread).await,
    }
}

fn build_page(request: &HttpRequest, forms: &PaymentForms) -> Option<String> {
    let partner = PartnerCode::parse(request.match_info().get("partner")?).ok()?;
    let directory = forms.directory.load();
    let profile = directory.profile(partner.as_str())?;
    let api_url = forms.api_urls.get(&partner).map_or("", String::as_str);
    let form = PostTarget::of(profile, api_url).ok()??;
    let filled = Query::<Vec<(String, String)>>::from_query(request.query_string()).ok()?;
    form.takes(&filled).then(|| render_page(&form, &filled))
}

fn render_page(form: &PostTarget, filled: &[(String, String)]) -> String {
    let mut inputs = String::new();
    for (name, value) in filled {
        let [name, value] = [name, value].map(|text| escape(text));
        inputs.push_str(&format!("<input type=\"hidden\" name=\"{name}\" value=\"{value}\">"));
    }
    let action = escape(&form.action);
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>To the payment</title></head><body>\
         <form id=\"pay\" method=\"post\" action=\"{action}\" accept-charset=\"utf-8\">{inputs}\
         <button>Continue to the payment</button></form><script>{SCRIPT}</script></body></html>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::browser_return::script_digest;

    #[test]
    fn the_policy_lets_only_our_script_run() {
        let digest = script_digest(SCRIPT);
        assert!(POLICY.ends_with(&format!("script-src {digest}")), "{digest}");
    }
}
