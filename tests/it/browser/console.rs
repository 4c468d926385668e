//! Checks how support finds an order in the console: with a mouse, on a phone, light and dark, and
//! with the keyboard alone.

use fantoccini::key::Key;
use serde_json::json;

use super::SOON;
use super::driver::{Browser, DESKTOP, PHONE};
use crate::support::system::System;
use crate::support::waits::until;

/// A demo with orders in trouble, and the link that logs in.
fn demo() -> (System, String) {
    let system = System::demo();
    system.payfold(&["demo", "pay", "--count", "50", "--trouble", "all", "--seed", "7"]).ok();
    let printed = system.home().printed() + &system.home().log();
    let (before, rest) = printed.split_once("/login?code=").expect("the banner has the link");
    let host = before.rsplit(' ').next().expect("an address");
    let code = rest.split_whitespace().next().expect("a code");
    let link = format!("{host}/login?code={code}");
    (system, link)
}

/// The title of the page, once it is this one.
fn opens(browser: &Browser, title: &str) {
    until(&format!("the page {title} opens"), SOON, || {
        let found = browser.ask("return document.title");
        found.as_str().is_some_and(|found| found.starts_with(title)).then_some(())
    });
}

#[test]
#[ignore = "nightly: browser"]
fn support_finds_an_order_with_mouse_and_keyboard() {
    let Some(browser) = Browser::start(DESKTOP) else { return };
    let (system, link) = demo();
    browser.goto(&link);
    opens(&browser, "Log in");
    browser.click("main button");
    opens(&browser, "Orders");
    browser.screenshot("console-orders");
    let listed = system.payfold(&["order", "list", "--flag", "DOUBLE_PAYMENT", "--output", "json"]);
    let order = listed.rows()[0].clone();
    let text = |name: &str| order[name].as_str().expect("a text").to_owned();
    // The first stop of the keyboard skips the bar; the search is some stops behind it.
    browser.press(&[Key::Tab]);
    assert_eq!(browser.ask("return document.activeElement.className"), "skip");
    browser.press(&[Key::Tab, Key::Tab, Key::Tab]);
    assert_eq!(browser.ask("return document.activeElement.id"), "search");
    browser.type_text(&format!("{}\n", text("reference")));
    opens(&browser, &format!("Order {}", text("orderId")));
    let verdict = browser.ask("return document.querySelector('.verdict').innerText");
    let verdict = verdict.as_str().expect("a text");
    assert!(verdict.contains("do not deliver yet"), "{verdict}");
    browser.screenshot("console-order");
    browser.click(".person button");
    opens(&browser, "Log in");
    assert_eq!(browser.cookies(), 0, "the session is gone");
}

#[test]
#[ignore = "nightly: browser"]
fn every_page_fits_a_phone_in_light_and_dark() {
    let Some(browser) = Browser::start(PHONE) else { return };
    let (system, link) = demo();
    let home = link.split("/login").next().expect("an address");
    browser.goto(home);
    opens(&browser, "Log in");
    browser.goto(&link);
    browser.click("main button");
    opens(&browser, "Orders");
    let listed = system.payfold(&["order", "list", "--flag", "DOUBLE_PAYMENT", "--output", "json"]);
    let order = listed.rows()[0]["orderId"].as_str().expect("an id").to_owned();
    for scheme in ["light", "dark"] {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        browser.command("Emulation.setEmulatedMedia", json!({ "features": features }));
        for (name, path) in [
            ("orders", "/orders"),
            ("order", &*format!("/orders/sandbox/DEMO/{order}")),
            ("search", "/search?what=none"),
            ("unfit", "/orders?state=none"),
            ("login", "/login"),
        ] {
            browser.goto(&format!("{home}{path}"));
            browser.screenshot(&format!("console-{name}-360-{scheme}"));
            assert!(browser.page_width() <= 360, "{name} is wider than the screen");
        }
    }
}
