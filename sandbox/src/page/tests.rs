//! The hosted page: shop texts are escaped, there are no external resources, and the page works
//! without scripts.

use super::*;
use crate::qr;

fn sample_view(stage: PageState) -> PageView {
    PageView {
        page: "sbx-1".to_owned(),
        merchant: "SHOP".to_owned(),
        order: "ord-1".to_owned(),
        provider_ref: "sbx-1".to_owned(),
        description: "<img src=x onerror=\"alert('1')\"> & 'two' tickets".to_owned(),
        amount: Amount::from_minor(1_234_567).unwrap(),
        currency: Currency::parse("EUR").unwrap(),
        stage,
        expires_at: Time::parse("2026-01-31T10:15:07.250Z").unwrap(),
        left_ms: 125_400,
        length_ms: 900_000,
    }
}

fn sample_nonce() -> Nonce {
    Nonce::new("01939b1c-7a00-7000-8000-000000000001".parse().unwrap())
}

const RETURN_ADDRESS: &str = "http://127.0.0.1/back?a=1&b=\"><script>";

fn pages() -> Vec<String> {
    let ended = |status| PageState::Ended(status, Some(RETURN_ADDRESS.to_owned()));
    let stages = [
        PageState::Open,
        PageState::Planned,
        PageState::TimeOver,
        ended(Status::Success),
        ended(Status::Failed),
        ended(Status::Expired),
        ended(Status::Refunded),
    ];
    let mut pages: Vec<_> = stages
        .into_iter()
        .map(sample_view)
        .flat_map(|view| {
            [
                render_page(&view, &sample_nonce()),
                qr::render_page(&view, "payfold-sandbox:<x>", &sample_nonce()),
            ]
        })
        .collect();
    pages.push(render_unknown(&sample_nonce()));
    pages
}

#[test]
fn an_open_payment_shows_the_amount_and_the_buttons() {
    let page = render_page(&sample_view(PageState::Open), &sample_nonce());
    for part in [
        "12,345.67",
        "EUR",
        "Sandbox: no real money",
        "SHOP",
        "ord-1",
        "2:05",
        "until 10:15:07 UTC",
        "data-left-ms=\"125400\"",
        "<form method=\"post\" action=\"sbx-1/pay\">",
        "formaction=\"sbx-1/fail\"",
        "formaction=\"sbx-1/cancel\"",
        "close the tab",
        "width=device-width",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let code = qr::render_page(&sample_view(PageState::Open), "payfold-sandbox:x", &sample_nonce());
    assert!(code.contains("<svg") && code.contains("action=\"sbx-1/scan\""));
}

#[test]
fn an_ended_payment_has_no_buttons() {
    for page in pages().iter().filter(|page| !page.contains("data-left-ms")) {
        assert!(!page.contains("<form") && !page.contains("<button"), "{page}");
    }
    let back = render_page(
        &sample_view(PageState::Ended(Status::Success, Some(RETURN_ADDRESS.to_owned()))),
        &sample_nonce(),
    );
    assert!(back.contains("Paid") && back.contains("Back to the shop"));
    assert!(
        render_page(&sample_view(PageState::TimeOver), &sample_nonce())
            .contains("session has ended")
    );
}

#[test]
fn all_content_is_escaped() {
    for page in pages() {
        assert!(!page.contains("<img") && !page.contains("\"><script>"), "{page}");
    }
    assert!(
        render_page(&sample_view(PageState::Open), &sample_nonce())
            .contains("&lt;img src=x onerror=&quot;alert")
    );
}

#[test]
fn the_page_has_no_external_resources() {
    for page in pages() {
        let page = page.replace(
            &RETURN_ADDRESS
                .replace('&', "&amp;")
                .replace('"', "&quot;")
                .replace('<', "&lt;")
                .replace('>', "&gt;"),
            "",
        );
        for sign in [
            "http:",
            "https:",
            "src=\"",
            "url(",
            "@import",
            "<link",
            "<iframe",
            " style=\"",
            " onclick",
        ] {
            assert!(!page.contains(sign), "{sign} in {page}");
        }
        // Only scripts and styles with the nonce are allowed.
        for tag in ["<script", "<style"] {
            assert_eq!(page.matches(tag).count(), page.matches(&format!("{tag} nonce=\"")).count());
        }
    }
}
