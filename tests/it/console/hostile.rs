//! What partners, shops and people write is text where the console shows it.

use serde_json::json;

use super::{ORIGIN, Visitor, first_code};
use crate::support::demo::Demo;
use crate::support::notice::Notice;

/// A text that would run, and turn the rest of its line round.
const HOSTILE: &str = "<script>alert(1)</script>\u{202e}'\"><img src=x onerror=alert(2)>";

/// Asserts that a page shows the text as text.
#[track_caller]
fn assert_is_text(page: &str) {
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
    for live in ["<script>", "<img src=x", "\u{202e}"] {
        assert!(!page.contains(live), "{live:?}: {page}");
    }
}

#[test]
fn what_partners_and_people_write_is_text() {
    let demo = Demo::boot();
    let system = &demo.system;
    let token = system.home().data_file("demo.key");
    // The part of it that an id may have.
    let in_ascii = HOSTILE.replace('\u{202e}', "");
    let payment = json!({
        "partner": "sandbox", "reference": in_ascii, "amount": 150_000, "currency": "VND",
        "description": "two tickets",
    });
    let made = system.create_payment(&token, "k-1", &payment);
    assert_eq!(made.status, 201, "{}", made.text());
    let order = made.json()["orderId"].as_str().expect("an id").to_owned();
    let long = format!("{in_ascii}{}", "x".repeat(255 - in_ascii.len()));
    demo.pay(&order, &long);
    system.order_when(["sandbox", "DEMO", &order], |order| order["state"] == "PAID");

    let huge = format!("{HOSTILE}{}", "x".repeat(12_000));
    let unfit = Notice::paid("DEMO", &order, &huge).signed(&demo.secret);
    let answer = system.post_ipn(&unfit);
    assert_eq!(answer.status, 400, "{}", answer.text());
    let list = ["quarantine", "list", "--output", "jsonl"];
    let kept = system.payfold(&list).json_lines();
    let position = kept[0]["position"].as_str().expect("a position");

    let visitor = Visitor::log_in(system, &first_code(system.home()));
    let encoded: String = url::form_urlencoded::byte_serialize(HOSTILE.as_bytes()).collect();
    let search = format!("/search?what={encoded}");
    for path in ["/orders", &format!("/orders/sandbox/DEMO/{order}"), &search] {
        assert_is_text(&visitor.get(path).text());
    }
    let bytes = format!("/bytes/quarantine/{position}");
    let fields = format!("post_token={}&reason={encoded}", visitor.post_token());
    let read = visitor.send(&bytes, ORIGIN, &fields);
    assert_eq!(read.status, 200, "{}", read.text());
    assert_is_text(&read.text());
    assert_is_text(&visitor.get("/people").text());
    let (records, _) = system.sandbox_records();
    let named = "<script>alert(1)</script>\u{202e}<img src=x>.jsonl";
    let (_, preview) = visitor.send_file("sandbox", named, &records);
    assert_eq!(preview.status, 200, "{}", preview.text());
    assert_is_text(&preview.text());
}
