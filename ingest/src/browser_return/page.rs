//! Owns the pages a returning payer may see, and the content policies they are sent with.
//! Invariants: the only script that runs is ours, word for word (the policy holds its digest); nothing of a
//! request is in a page but what `Target::location` writes, escaped.

/// Leaves the frame. It also tells the page around it, which may close the frame where the browser does not let
/// a frame navigate the window: the message says nothing but that the payer is back.
const SCRIPT: &str = "\
var shop=document.getElementById('shop');\
if(window.parent!==window)window.parent.postMessage({type:'payfold:return'},'*');\
if(shop)try{window.top.location.replace(shop.href)}catch(e){}";

/// The policy of answers without a script.
pub(super) const NO_SCRIPT: &str = "default-src 'none'; base-uri 'none'; form-action 'none'";

/// The policy of the page with `SCRIPT`, by its SHA-256.
pub(super) const OWN_SCRIPT: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; \
     script-src 'sha256-RApjPCWPK/p1FsUbA1c3LvlHEuKw4hj3pm5fDFHhogM='";

/// The page in a frame: on to the shop, in the whole window.
pub(super) fn leaving_the_frame(location: Option<&str>) -> String {
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
    page(&format!("{body}<script>{SCRIPT}</script>"))
}

/// The page where no shop is configured.
pub(super) fn without_a_shop() -> String {
    page(GO_BACK)
}

const GO_BACK: &str =
    "<p>Thank you. Please go back to the shop to see how your payment stands.</p>";

fn page(body: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>Back to the shop</title></head><body>{body}</body></html>"
    )
}

/// Text for an attribute in double quotes.
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

    /// How a policy names a script.
    pub(crate) fn digest_of(script: &str) -> String {
        format!("'sha256-{}'", base64(&Sha256::digest(script)))
    }

    #[test]
    fn the_policy_lets_our_script_run_and_no_other() {
        let digest = digest_of(SCRIPT);
        assert!(OWN_SCRIPT.ends_with(&format!("script-src {digest}")), "{digest}");
        assert!(leaving_the_frame(None).contains(&format!("<script>{SCRIPT}</script>")));
        assert!(!without_a_shop().contains("<script"));
    }

    #[test]
    fn an_address_stays_inside_its_attribute() {
        assert_eq!(escape("a&b<c>\"d'"), "a&amp;b&lt;c&gt;&quot;d&#39;");
        let page = leaving_the_frame(Some("https://shop.example/?a=\"><script>"));
        assert!(page.contains("href=\"https://shop.example/?a=&quot;&gt;&lt;script&gt;\""));
    }
}
