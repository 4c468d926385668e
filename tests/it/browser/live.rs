//! Checks what the console's script adds to its pages: they keep themselves up to date, their times
//! are the reader's, and ids can be copied.

use serde_json::json;

use super::SOON;
use super::console::{demo, log_in, opens};
use super::driver::{Browser, DESKTOP};
use crate::console::decisions::compare;
use crate::support::waits::until;

#[test]
#[ignore = "nightly: browser"]
fn an_open_page_is_kept_up_to_date_or_marked_as_old() {
    let Some(browser) = Browser::start(DESKTOP) else { return };
    let (system, link) = demo();
    log_in(&browser, &link);
    let title = browser.ask("return document.title");
    let process = "#overview th[scope=row] a";
    browser.ask(&format!("document.querySelector({process:?}).focus(); window.isSame = true"));
    compare(&system);
    until("the page shows what is at risk", SOON, || {
        browser.text_in("#overview .verdict").contains("At risk by open findings").then_some(())
    });
    assert_ne!(browser.ask("return document.title"), title, "the tab says that there is more");
    assert_eq!(browser.ask("return window.isSame"), true, "the page was not loaded anew");
    let keeps = format!("return document.activeElement.matches({process:?})");
    assert_eq!(browser.ask(&keeps), true, "who uses the keyboard stays where they are");
    assert_eq!(browser.text_in("#stale"), "");
    let (_home, _) = system.stop();
    until("the page says that it is not up to date", SOON, || {
        browser.text_in("#stale").starts_with("Not up to date since 2").then_some(())
    });
    browser.screenshot("console-stale");
}

#[test]
#[ignore = "nightly: browser"]
fn times_are_the_readers_and_ids_can_be_copied() {
    let Some(browser) = Browser::start(DESKTOP) else { return };
    let (system, link) = demo();
    browser.command("Emulation.setTimezoneOverride", json!({ "timezoneId": "Asia/Ho_Chi_Minh" }));
    log_in(&browser, &link);
    let listed = system.payfold(&["order", "list", "--state", "PAID", "--output", "json"]);
    let order = listed.rows()[0]["orderId"].as_str().expect("an id").to_owned();
    let home = link.split("/login").next().expect("an address");
    browser.goto(&format!("{home}/orders/sandbox/DEMO/{order}"));
    opens(&browser, "Order ");
    let wrong = browser.ask(
        "const shown = (utc) => new Date(Date.parse(utc) + 7 * 3600e3).toISOString()
            .slice(0, 19).replace('T', ' ') + ' GMT+7';
        return [...document.querySelectorAll('time')]
            .filter((time) => time.textContent !== shown(time.title))
            .map((time) => time.outerHTML)",
    );
    assert_eq!(wrong, json!([]));
    let said = browser.text_in(".payer");
    assert!(said.contains(" GMT+7.") && !said.contains("UTC"), "{said}");
    let permissions = json!({ "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"] });
    browser.command("Browser.grantPermissions", permissions);
    for (button, copied) in [("h1 .copy", order), (".payer .copy", answer_in(&said).to_owned())] {
        browser.click(button);
        until("it is copied", SOON, || {
            let copied = browser.text_in(button).starts_with("Copied");
            copied.then_some(())
        });
        let found = browser.ask_later("navigator.clipboard.readText().then(arguments[0])");
        assert_eq!(found, copied);
    }
    browser.screenshot("console-times");
}

/// The answer in the line about the payer.
fn answer_in(line: &str) -> &str {
    line.split(['“', '”']).nth(1).expect("a quoted answer")
}
