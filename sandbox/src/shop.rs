//! Owns the demo's shop page, the target of browser returns. It has no access to orders. It shows
//! the query parameters, escaped, and says that a return does not change the order.

use actix_web::HttpResponse;
use actix_web::web::{Data, Query};
use maud::html;
use serde::Deserialize;

use crate::layout::{self, DocumentFrame, Nonce};
use crate::partner::Partner;

/// The most characters of an order id that are shown.
const ORDER_CHARS_MAX: usize = 64;

#[derive(Debug, Default, Deserialize)]
pub(crate) struct ReturnQuery {
    #[serde(default)]
    verified: String,
    #[serde(default, rename = "orderId")]
    order_id: String,
}

/// Handles `GET /shop/result?verified=&orderId=`.
pub(crate) async fn show_result(
    partner: Data<Partner>,
    returned: Query<ReturnQuery>,
) -> HttpResponse {
    let nonce = Nonce::new(partner.clock.request_id());
    layout::respond_html(200, &nonce, &render_result_page(&returned, &nonce))
}

fn render_result_page(returned: &ReturnQuery, nonce: &Nonce) -> String {
    let verified = returned.verified == "true";
    let order: String = returned.order_id.chars().take(ORDER_CHARS_MAX).collect();
    let body = html! {
        main {
            (layout::render_ribbon())
            div.inside {
                h1 { "You are back at the shop" }
                p.outcome.what role="status" {
                    @if verified { "The partner signed this return" }
                    @else { "No known partner signed this return" }
                }
                p.quiet {
                    "The browser return does not change the order. Only the order's state says \
                     whether it is paid."
                }
                dl {
                    dt { "Signed" } dd { @if verified { "yes" } @else { "no" } }
                    @if !order.is_empty() { dt { "Order" } dd { code { (order) } } }
                }
            }
        }
    };
    layout::render_document(
        &DocumentFrame { title: "Back at the shop (sandbox)", script: None },
        nonce,
        &body,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(verified: &str, order_id: &str) -> String {
        let returned = ReturnQuery { verified: verified.to_owned(), order_id: order_id.to_owned() };
        let id = "01939b1c-7a00-7000-8000-000000000001".parse().unwrap();
        render_result_page(&returned, &Nonce::new(id))
    }

    #[test]
    fn it_shows_only_the_query_parameters() {
        let page = render("true", "ord-1");
        assert!(page.contains("The partner signed") && page.contains("<code>ord-1</code>"));
        assert!(page.contains("does not change the order"));
        for verified in ["false", "", "TRUE", "1", "true "] {
            assert!(render(verified, "").contains("No known partner signed"), "{verified:?}");
        }
        let page = render("true", "<script>alert(1)</script>");
        assert!(page.contains("&lt;script&gt;alert(1)") && !page.contains("<script>alert"));
        assert!(!render("true", &"x".repeat(65)).contains(&"x".repeat(65)));
    }
}
