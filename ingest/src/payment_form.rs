//! Owns the page that sends a payer to a partner who takes a form: `GET /api/payment/form/{partner}`, whose query carries
//! the fields that were signed when the payment was created. The browser posts them as they are.
//!
//! Invariants: where the form goes comes from profile and configuration alone; a query that is not exactly the form's
//! fields is no page; nothing is kept, and nothing of a query is in a log.

use std::collections::HashMap;
use std::sync::Arc;

use actix_web::web::{self, Data, Payload, Query, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse, guard};
use arc_swap::ArcSwap;
use payfold_partners::directory::Directory;
use payfold_partners::scheme::PaymentForm;
use payfold_schemas::ids::PartnerCode;

use crate::browser_return::{escape, guarded};
use crate::{body, elsewhere};

/// What the page works with. One value, shared by all workers.
pub struct PaymentForms {
    /// The profiles as they are now.
    pub directory: Arc<ArcSwap<Directory>>,
    /// Where partners are called.
    pub api_urls: HashMap<PartnerCode, String>,
}

/// Posts the form as soon as it is there, also one with a field that is named `submit`; who has no scripts uses the button.
const SCRIPT: &str = "HTMLFormElement.prototype.submit.call(document.getElementById('pay'))";

/// The only script that runs is `SCRIPT`, by its SHA-256. There is no form-action: browsers hold the partner's own
/// redirects to it, too, and where this form goes is no matter of what the page was asked for.
const POLICY: &str = "default-src 'none'; base-uri 'none'; script-src 'sha256-szbx8t9+xwgJ0aCkhdhFtrop3qUcIPPsYtOJ8CiM4tU='";

/// The route payers' browsers use.
pub fn routes(config: &mut ServiceConfig) {
    config.service(
        web::resource("/api/payment/form/{partner}")
            .guard(guard::fn_guard(elsewhere::is_plain_path))
            .route(web::get().to(form))
            .default_service(web::to(another_method)),
    );
}

async fn another_method(request: HttpRequest, unread: Payload) -> HttpResponse {
    elsewhere::method_not_allowed(&request, unread, "GET")
}

/// 200 with the form, which posts itself; 404 for a partner without one, and for other fields than the form has.
async fn form(request: HttpRequest, unread: Payload, forms: Data<PaymentForms>) -> HttpResponse {
    match page(&request, &forms) {
        Some(page) => {
            let response = HttpResponse::Ok().content_type("text/html; charset=utf-8").body(page);
            body::hold(unread, guarded(response, POLICY))
        }
        None => elsewhere::not_found(request, unread).await,
    }
}

fn page(request: &HttpRequest, forms: &PaymentForms) -> Option<String> {
    let partner = PartnerCode::parse(request.match_info().get("partner")?).ok()?;
    let directory = forms.directory.load();
    let profile = directory.profile(partner.as_str())?;
    let api_url = forms.api_urls.get(&partner).map_or("", String::as_str);
    let form = PaymentForm::of(profile, api_url).ok()??;
    let filled = Query::<Vec<(String, String)>>::from_query(request.query_string()).ok()?;
    form.takes(&filled).then(|| written(&form, &filled))
}

fn written(form: &PaymentForm, filled: &[(String, String)]) -> String {
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
    use crate::browser_return::digest_of_script;

    #[test]
    fn the_policy_lets_our_script_run_and_no_other() {
        let digest = digest_of_script(SCRIPT);
        assert!(POLICY.ends_with(&format!("script-src {digest}")), "{digest}");
    }
}
