//! Owns the pages for returning payers, and their content security policies. Invariants: only the
//! script of this file can run (the policy has its digest). The shop's address
//! comes from the configuration; of the request it contains only the signed order id, escaped. The
//! policy and `escape` serve the pages that post forms (`posting_page`), too.

/// First sends the surrounding page a message that the payer is back, then leaves the frame. The
/// surrounding page can close the frame if the browser does not let it navigate the window. The
/// message names no order and no result, so any origin (`'*'`) may read it.
const SCRIPT: &str = "\
var shop=document.getElementById('shop');\
if(window.parent!==window)window.parent.postMessage({type:'payfold:return'},'*');\
if(shop)try{window.top.location.replace(shop.href)}catch(e){}";

/// The policy of responses without a script.
pub(super) const NO_SCRIPT_POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'none'";

/// The policy of the page with `SCRIPT`: lets only `SCRIPT` run, by its SHA-256.
pub(super) const FRAME_SCRIPT_POLICY: &str = "default-src 'none'; base-uri 'none'; \
     form-action 'none'; script-src 'sha256-RApjPCWPK/p1FsUbA1c3LvlHEuKw4hj3pm5fDFHhogM='";

/// The page for a frame: opens the shop in the whole window. Without an address it only sends the
/// message of `SCRIPT`.
pub(super) fn render_frame_page(location: Option<&str>) -> String {
    let body = location.map_or_else(
        || GO_BACK.to_owned(),
        |location| {
            let href = escape(location);
            format!(
                "<p><a id=\"shop\" target=\"_top\" href=\"{href}\">Continue to the shop</a></p>\
                 <noscript><p>Please use the link to go back to the shop.</p></noscript>"
            )
        },
    );
    render_html(&format!("{body}<script>{SCRIPT}</script>"))
}

/// The page outside a frame if no shop is configured.
pub(super) fn render_plain_page() -> String {
    render_html(GO_BACK)
}

const GO_BACK: &str =
    "<p>Thank you. Please go back to the shop to see how your payment stands.</p>";

fn render_html(body: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>Back to the shop</title></head><body>{body}</body></html>"
    )
}

/// Escapes text for an HTML attribute in double quotes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len().saturating_add(16));
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
pub(crate) mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    /// Base64 of 32 bytes.
    fn base64(bytes: &[u8]) -> String {
        let mut text = String::new();
        for chunk in bytes.chunks(3) {
            let mut group = [0; 4];
            group[1..=chunk.len()].copy_from_slice(chunk);
            let bits = u32::from_be_bytes(group);
            for place in 0..4 {
                let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
                text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
            }
        }
        text
    }

    /// The hash source of a script in a content security policy.
    pub(crate) fn script_digest(script: &str) -> String {
        format!("'sha256-{}'", base64(&Sha256::digest(script)))
    }

    #[test]
    fn the_policy_lets_only_our_script_run() {
        let digest = script_digest(SCRIPT);
        assert!(FRAME_SCRIPT_POLICY.ends_with(&format!("script-src {digest}")), "{digest}");
        assert!(render_frame_page(None).contains(&format!("<script>{SCRIPT}</script>")));
        assert!(!render_plain_page().contains("<script"));
    }

    #[test]
    fn an_address_is_escaped_in_its_attribute() {
        assert_eq!(escape("a&b<c>\"d'"), "a&amp;b&lt;c&gt;&quot;d&#39;");
        let page = render_frame_page(Some("https://shop.example/?a=\"><script>"));
        assert!(page.contains("href=\"https://shop.example/?a=&quot;&gt;&lt;script&gt;\""));
    }
}
