//! Checks how support finds an order in the console, and how finance decides findings: with a
//! mouse, on a phone, light and dark, and with the keyboard alone.

use std::ffi::OsStr;
use std::path::Path;

use fantoccini::key::Key;
use serde_json::json;

use super::SOON;
use super::axe::Axe;
use super::driver::{Browser, DESKTOP, PHONE};
use crate::console::decisions::compare;
use crate::support::system::System;
use crate::support::waits::until;

/// A demo with orders in trouble, and the link that logs in.
pub fn demo() -> (System, String) {
    let system = System::demo();
    system.payfold(&["demo", "pay", "--count", "50", "--trouble", "all", "--seed", "7"]).ok();
    let link = link_of(&system);
    (system, link)
}

/// The link of a demo's banner.
pub fn link_of(system: &System) -> String {
    let printed = system.home().printed() + &system.home().log();
    let (before, rest) = printed.split_once("/login?code=").expect("the banner has the link");
    let host = before.rsplit(' ').next().expect("an address");
    let code = rest.split_whitespace().next().expect("a code");
    format!("{host}/login?code={code}")
}

/// The title of the page, once it is this one.
pub fn opens(browser: &Browser, title: &str) {
    until(&format!("the page {title} opens"), SOON, || {
        let found = browser.ask("return document.title");
        found.as_str().is_some_and(|found| found.starts_with(title)).then_some(())
    });
}

/// Logs in with the link of the banner, which leads to the first page.
pub fn log_in(browser: &Browser, link: &str) {
    browser.goto(link);
    opens(browser, "Log in");
    browser.click("main button");
    opens(browser, "Overview");
}

#[test]
#[ignore = "nightly: browser"]
fn support_finds_an_order_with_mouse_and_keyboard() {
    let Some(browser) = Browser::start(DESKTOP) else { return };
    let (system, link) = demo();
    log_in(&browser, &link);
    browser.screenshot("console-overview");
    browser.click("nav a[href='/orders']");
    opens(&browser, "Orders");
    browser.screenshot("console-orders");
    let listed = system.payfold(&["order", "list", "--flag", "DOUBLE_PAYMENT", "--output", "json"]);
    let order = listed.rows()[0].clone();
    let text = |name: &str| order[name].as_str().expect("a text").to_owned();
    // The first stop of the keyboard skips the bar; the search is some stops behind it.
    browser.press(&[Key::Tab]);
    assert_eq!(browser.ask("return document.activeElement.className"), "skip");
    browser.press(&[Key::Tab; 11]);
    assert_eq!(browser.ask("return document.activeElement.id"), "search");
    browser.type_text(&format!("{}\n", text("reference")));
    opens(&browser, &format!("Order {}", text("orderId")));
    let verdict = browser.text_in(".verdict");
    assert!(verdict.contains("do not deliver yet"), "{verdict}");
    browser.screenshot("console-order");
    browser.click(".person button");
    opens(&browser, "Log in");
    assert_eq!(browser.cookies(), 0, "the session is gone");
}

#[test]
#[ignore = "nightly: browser"]
fn finance_decides_all_of_a_kind_at_once() {
    let (Some(browser), Some(axe)) = (Browser::start(DESKTOP), Axe::fetch()) else { return };
    let (system, link) = demo();
    compare(&system);
    log_in(&browser, &link);
    browser.click("nav a[href='/findings']");
    opens(&browser, "Findings");
    browser.screenshot("console-findings");
    browser.click("section .choice input");
    browser.click("input[value=ours]");
    browser.click("textarea");
    browser.type_text("both orders were delivered");
    browser.click("fieldset button");
    opens(&browser, "Your ");
    browser.screenshot("console-decided");
    axe.assert_clear(&browser, "what was decided");
    browser.click("ul.outcomes a");
    until("the finding opens", SOON, || {
        let waits = browser.ask("return document.body.innerText.includes('Another person has to')");
        (waits == true).then_some(())
    });
    browser.screenshot("console-finding");
    axe.assert_clear(&browser, "a finding that waits for the second person");
    browser.click("nav a[href='/days']");
    opens(&browser, "Days");
    browser.screenshot("console-days");
    send_records(&browser, &system);
    browser.screenshot("console-file");
    axe.assert_clear(&browser, "a file that replaces another");
    browser.click("form[method=post] .choice input");
    browser.click("form[method=post][action^='/files/'] button");
    until("the day opens", SOON, || {
        let closes =
            browser.ask("return document.body.innerText.includes('It can be closed once')");
        (closes == true).then_some(())
    });
    browser.screenshot("console-day");
    axe.assert_clear(&browser, "a day that can't be closed");
}

/// Sends the sandbox's records, with a line that can't be read, from the page of days.
fn send_records(browser: &Browser, system: &System) {
    let records = system.home().read("data/sandbox-records.jsonl");
    let file = system.home().data().join("corrected.jsonl");
    std::fs::write(&file, format!("{records}{{\"record\":1}}\n")).expect("the home can be written");
    send_file(browser, &file);
}

/// Sends a partner's file from the page of days; its page opens.
pub fn send_file(browser: &Browser, file: &Path) {
    browser.choose_file("input[type=file]", file);
    browser.click("form[action='/files'] button");
    opens(browser, file.file_name().and_then(OsStr::to_str).expect("a name"));
}

#[test]
#[ignore = "nightly: browser"]
fn an_engineer_finds_why_a_notice_was_refused() {
    let (Some(browser), Some(axe)) = (Browser::start(DESKTOP), Axe::fetch()) else { return };
    let (_system, link) = demo();
    log_in(&browser, &link);
    browser.click("nav a[href='/quarantine']");
    opens(&browser, "Quarantine");
    browser.screenshot("console-quarantine");
    browser.click("[aria-label^=wrong_type] tbody a");
    opens(&browser, "Notice ");
    browser.screenshot("console-notice");
    let page = browser.text_in("main");
    assert!(page.contains("amount must be a JSON number"), "{page}");
    browser.click("a[href^='/bytes/']");
    opens(&browser, "Bytes at ");
    browser.click("textarea");
    browser.type_text("the partner asks which field");
    browser.click("fieldset button");
    until("the bytes are shown", SOON, || {
        browser.text_in("pre + h2 + pre").contains("\"amount\":\"").then_some(())
    });
    browser.screenshot("console-bytes");
    axe.assert_clear(&browser, "the bytes of a notice");
    browser.click("nav a[href='/partners']");
    opens(&browser, "Partners");
    browser.click("tbody a");
    opens(&browser, "Partner sandbox");
    browser.screenshot("console-partner");
}

#[test]
#[ignore = "nightly: browser"]
fn on_call_is_led_to_what_needs_somebody_and_decides_by_keyboard() {
    let (Some(browser), Some(axe)) = (Browser::start(DESKTOP), Axe::fetch()) else { return };
    let (system, link) = demo();
    let token = system.home().data_file("admin.token");
    let opened = system.open_order(&token, r#"{"amount":10000,"currency":"VND"}"#).json();
    let order = opened["order"]["orderId"].as_str().expect("an id");
    until("the order is folded", SOON, || {
        system.payfold(&["order", "stuck"]).ok().contains(order).then_some(())
    });
    log_in(&browser, &link);
    browser.click("a[href='/stuck']");
    opens(&browser, "Stuck orders");
    browser.screenshot("console-stuck");
    axe.assert_clear(&browser, "stuck orders");
    let page = browser.text_in("main");
    assert!(page.contains(order), "{order}: {page}");

    browser.click("nav a[href='/']");
    opens(&browser, "Overview");
    browser.click(".alerts a[href^='/help/']");
    until("the runbook is shown", SOON, || {
        let found = browser.ask("return document.querySelector(location.hash || 'none') !== null");
        (found == true).then_some(())
    });
    browser.click("nav a[href='/']");
    opens(&browser, "Overview");
    browser.click(".alerts a[href^='/orders?flag=']");
    opens(&browser, "Orders");
    browser.click("tbody a.id");
    opens(&browser, "Order ");
    browser.tab_to("summary");
    browser.press(&[Key::Enter]);
    browser.tab_to("input[name=choice]");
    browser.type_text(" ");
    browser.tab_to("textarea[name=reason]");
    browser.type_text("both were delivered");
    browser.tab_to("main fieldset button");
    browser.press(&[Key::Enter]);
    opens(&browser, "Your ");
    browser.screenshot("console-flag-decided");
    let page = browser.text_in("main");
    assert!(page.contains("waits for a second person"), "{page}");
}

#[test]
#[ignore = "nightly: browser"]
fn an_admin_sees_who_did_what_and_makes_a_build() {
    let Some(browser) = Browser::start(DESKTOP) else { return };
    let (system, link) = demo();
    compare(&system);
    log_in(&browser, &link);
    browser.click("nav a[href='/builds']");
    opens(&browser, "Builds");
    browser.click("summary");
    browser.click("textarea");
    browser.type_text("the rules changed");
    browser.click("main form button");
    until("the build has started", SOON, || {
        let said = browser.ask("return document.body.innerText.includes('Build 2 has started.')");
        (said == true).then_some(())
    });
    browser.screenshot("console-build");
    browser.click("nav a[href='/people']");
    opens(&browser, "People");
    browser.screenshot("console-people");
    let page = browser.text_in("main");
    for said in ["the rules changed", "local", "copy.jsonl"] {
        assert!(page.contains(said), "{said}: {page}");
    }
}

#[test]
#[ignore = "nightly: browser"]
fn every_page_fits_each_screen_and_each_reader_in_light_and_dark() {
    let (Some(browser), Some(axe)) = (Browser::start(PHONE), Axe::fetch()) else { return };
    let (system, link) = demo();
    let home = link.split("/login").next().expect("an address");
    compare(&system);
    browser.goto(home);
    opens(&browser, "Log in");
    log_in(&browser, &link);
    let listed = system.payfold(&["order", "list", "--flag", "DOUBLE_PAYMENT", "--output", "json"]);
    let order = listed.rows()[0]["orderId"].as_str().expect("an id").to_owned();
    let listed = system.payfold(&["reconcile", "findings", "--open", "--output", "json"]);
    let finding = listed.rows()[0]["findingId"].as_str().expect("an id").to_owned();
    let day = listed.rows()[0]["day"].as_str().expect("a day").to_owned();
    browser.goto(&format!("{home}/days"));
    send_records(&browser, &system);
    let file = browser.url().split_once(home).expect("a page of the console").1.to_owned();
    let mut broken = Vec::new();
    for scheme in ["light", "dark"] {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        browser.command("Emulation.setEmulatedMedia", json!({ "features": features }));
        for (name, path) in [
            ("overview", "/"),
            ("orders", "/orders"),
            ("stuck", "/stuck"),
            ("order", &*format!("/orders/sandbox/DEMO/{order}")),
            ("findings", "/findings"),
            ("finding", &*format!("/findings/{finding}")),
            ("days", "/days"),
            ("day", &*format!("/days/sandbox/{day}")),
            ("file", &*file),
            ("quarantine", "/quarantine"),
            ("notice", "/quarantine/0-2"),
            ("bytes", "/bytes/quarantine/0-2"),
            ("partners", "/partners"),
            ("partner", "/partners/sandbox"),
            ("builds", "/builds"),
            ("people", "/people"),
            ("help", "/help"),
            ("runbook", "/help/reference/metrics.md"),
            ("search", "/search?what=none"),
            ("unfit", "/orders?state=none"),
            ("nowhere", "/none"),
            ("login", "/login"),
        ] {
            browser.goto(&format!("{home}{path}"));
            let of_page = |rule| format!("{name}, {scheme}: {rule}");
            broken.extend(axe.violations(&browser).into_iter().map(of_page));
            for width in [360, 768, 1_280] {
                browser.resize(width);
                browser.screenshot(&format!("console-{name}-{width}-{scheme}"));
                assert!(browser.page_width() <= width, "{name} is wider than {width} points");
            }
            browser.resize(360);
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
