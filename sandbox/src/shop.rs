//! Owns the demo's shop page where a browser return ends. It knows nothing of orders: what it shows is what the
//! address says, escaped, and that this settles nothing.

use actix_web::HttpResponse;
use actix_web::web::{Data, Query};
use maud::html;
use serde::Deserialize;

use crate::look::{self, Frame, Nonce};
use crate::partner::Partner;

/// A longer order id is none.
const ORDER_CHARS_MAX: usize = 64;

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Returned {
    #[serde(default)]
    verified: String,
    #[serde(default, rename = "orderId")]
    order_id: String,
}

/// `GET /shop/result?verified=&orderId=`.
pub(crate) async fn result(partner: Data<Partner>, returned: Query<Returned>) -> HttpResponse {
    let nonce = Nonce::new(partner.clock.request_id());
    look::html(200, &nonce, &page(&returned, &nonce))
}

fn page(returned: &Returned, nonce: &Nonce) -> String {
    let verified = returned.verified == "true";
    let order: String = returned.order_id.chars().take(ORDER_CHARS_MAX).collect();
    let body = html! {
        main {
            (look::ribbon())
            div.inside {
                h1 { "You are back at the shop" }
                p.outcome.what role="status" {
                    @if verified { "The partner signed this return" } @else { "Nobody we know signed this return" }
                }
                p.quiet {
                    "The browser return settles nothing. Whether the order is paid is said by its state alone."
                }
                dl {
                    dt { "Signed" } dd { @if verified { "yes" } @else { "no" } }
                    @if !order.is_empty() { dt { "Order" } dd { code { (order) } } }
                }
            }
        }
    };
    look::document(&Frame { title: "Back at the shop (sandbox)", script: None }, nonce, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(verified: &str, order_id: &str) -> String {
        let returned = Returned { verified: verified.to_owned(), order_id: order_id.to_owned() };
        let id = "01939b1c-7a00-7000-8000-000000000001".parse().unwrap();
        page(&returned, &Nonce::new(id))
    }

    #[test]
    fn it_shows_what_the_address_says_and_no_more() {
        let page = shown("true", "ord-1");
        assert!(page.contains("The partner signed") && page.contains("<code>ord-1</code>"));
        assert!(page.contains("settles nothing"));
        for verified in ["false", "", "TRUE", "1", "true "] {
            assert!(shown(verified, "").contains("Nobody we know signed"), "{verified:?}");
        }
        let page = shown("true", "<script>alert(1)</script>");
        assert!(page.contains("&lt;script&gt;alert(1)") && !page.contains("<script>alert"));
        assert!(!shown("true", &"x".repeat(65)).contains(&"x".repeat(65)));
    }
}
