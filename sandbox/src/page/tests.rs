//! The hosted page: nothing of a shop's gets into the markup, nothing comes from elsewhere, nothing is lost without
//! script.

use super::*;
use crate::qr;

fn shown(stage: Stage) -> Shown {
    Shown {
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

fn nonce() -> Nonce {
    Nonce::new("01939b1c-7a00-7000-8000-000000000001".parse().unwrap())
}

const WAY: &str = "http://127.0.0.1/back?a=1&b=\"><script>";

fn pages() -> Vec<String> {
    let ended = |status| Stage::Ended(status, Some(WAY.to_owned()));
    let stages = [
        Stage::Open,
        Stage::Scripted,
        Stage::Over,
        ended(Status::Success),
        ended(Status::Failed),
        ended(Status::Expired),
        ended(Status::Refunded),
    ];
    let mut pages: Vec<_> = stages
        .into_iter()
        .map(shown)
        .flat_map(|shown| {
            [page(&shown, &nonce()), qr::page(&shown, "payfold-sandbox:<x>", &nonce())]
        })
        .collect();
    pages.push(unknown(&nonce()));
    pages
}

#[test]
fn an_open_payment_says_what_is_to_be_paid_and_what_can_be_done() {
    let page = page(&shown(Stage::Open), &nonce());
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
    let code = qr::page(&shown(Stage::Open), "payfold-sandbox:x", &nonce());
    assert!(code.contains("<svg") && code.contains("action=\"sbx-1/scan\""));
}

#[test]
fn a_payment_that_is_over_has_no_buttons_to_press() {
    for page in pages().iter().filter(|page| !page.contains("data-left-ms")) {
        assert!(!page.contains("<form") && !page.contains("<button"), "{page}");
    }
    let back = page(&shown(Stage::Ended(Status::Success, Some(WAY.to_owned()))), &nonce());
    assert!(back.contains("Paid") && back.contains("Back to the shop"));
    assert!(page(&shown(Stage::Over), &nonce()).contains("session has ended"));
}

#[test]
fn everything_shown_is_escaped() {
    for page in pages() {
        assert!(!page.contains("<img") && !page.contains("\"><script>"), "{page}");
    }
    assert!(page(&shown(Stage::Open), &nonce()).contains("&lt;img src=x onerror=&quot;alert"));
}

#[test]
fn nothing_comes_from_elsewhere() {
    for page in pages() {
        let page = page.replace(
            &WAY.replace('&', "&amp;")
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
        // What may run is what carries the nonce.
        for tag in ["<script", "<style"] {
            assert_eq!(page.matches(tag).count(), page.matches(&format!("{tag} nonce=\"")).count());
        }
    }
}
