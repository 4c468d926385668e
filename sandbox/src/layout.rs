//! Owns the layout of the sandbox's pages and their response headers: one document each, without
//! external resources or cookies, allowed in any frame. maud escapes all content.

use actix_web::HttpResponse;
use actix_web::http::{StatusCode, header};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use payfold_schemas::ids::RequestId;
use payfold_schemas::money::{Amount, Currency};

/// The style of every page; light and dark, for widths from 320 px.
const STYLE: &str = include_str!("layout/style.css");
/// Counts down by the server's time. The page works without it.
pub(crate) const COUNTDOWN: &str = include_str!("layout/countdown.js");

/// The CSP nonce that allows this document its own style and script.
pub(crate) struct Nonce(String);

impl Nonce {
    pub(crate) fn new(id: RequestId) -> Self {
        Self(id.to_string().replace('-', ""))
    }
}

/// The parts of a document besides its body.
pub(crate) struct DocumentFrame<'a> {
    pub(crate) title: &'a str,
    pub(crate) script: Option<&'static str>,
}

/// Renders a complete document.
pub(crate) fn render_document(frame: &DocumentFrame<'_>, nonce: &Nonce, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                title { (frame.title) }
                style nonce=(nonce.0) { (PreEscaped(STYLE)) }
            }
            body {
                (body)
                @if let Some(script) = frame.script {
                    script nonce=(nonce.0) { (PreEscaped(script)) }
                }
            }
        }
    };
    page.into_string()
}

/// Responds with a document.
pub(crate) fn respond_html(status: u16, nonce: &Nonce, document: &str) -> HttpResponse {
    let policy = format!(
        // No form-action: browsers also apply it to redirects after a form, and these lead to the
        // shop.
        "default-src 'none'; style-src 'nonce-{0}'; script-src 'nonce-{0}'; base-uri 'none'; \
         frame-ancestors *",
        nonce.0
    );
    HttpResponse::build(StatusCode::from_u16(status).unwrap_or(StatusCode::OK))
        .insert_header((header::CONTENT_TYPE, "text/html; charset=utf-8"))
        .insert_header((header::CONTENT_SECURITY_POLICY, policy))
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .insert_header((header::REFERRER_POLICY, "no-referrer"))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .body(document.to_owned())
}

/// Renders the banner that says that no real money is involved.
pub(crate) fn render_ribbon() -> Markup {
    html! {
        p.ribbon role="note" { span.dot aria-hidden="true" {} "Sandbox: no real money" }
    }
}

/// Formats an amount for people: `1,234.56` for 123456 of a currency with two digits.
pub(crate) fn format_amount(amount: Amount, currency: Currency) -> String {
    let exponent = usize::from(currency.exponent());
    let digits = format!("{:0>width$}", amount.minor(), width = exponent + 1);
    let (whole, fraction) = digits.split_at(digits.len() - exponent);
    let mut grouped = String::with_capacity(digits.len() * 2);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if fraction.is_empty() { grouped } else { format!("{grouped}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_by_their_currency() {
        for (minor, code, expected) in [
            (1, "VND", "1"),
            (150_000, "VND", "150,000"),
            (1, "EUR", "0.01"),
            (99, "EUR", "0.99"),
            (100, "EUR", "1.00"),
            (123_456, "EUR", "1,234.56"),
            (1_234, "KWD", "1.234"),
            (1_000_000_000_000_000, "USD", "10,000,000,000,000.00"),
        ] {
            let money = (Amount::from_minor(minor).unwrap(), Currency::parse(code).unwrap());
            assert_eq!(format_amount(money.0, money.1), expected);
        }
    }
}
