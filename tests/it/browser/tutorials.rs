//! Walks the tutorial of finance as its page has it, and takes its pictures. The ways of support
//! and of on-call are walked in `console`.

use super::SOON;
use super::console::{link_of, log_in, opens, send_file};
use super::driver::{Browser, DESKTOP};
use crate::support::system::System;
use crate::support::waits::until;

/// Waits until the page has this text.
fn shows(browser: &Browser, text: &str) {
    until(&format!("the page has {text}"), SOON, || {
        browser.text_in("main").contains(text).then_some(())
    });
}

#[test]
#[ignore = "nightly: browser"]
fn two_people_decide_what_a_day_of_records_shows() {
    let Some(browser) = Browser::start(DESKTOP) else { return };
    let system = System::demo_with(&[("PAYFOLD_RECONCILER__SECOND_AFTER_HOURS", "0")]);
    system.payfold(&["demo", "pay", "--count", "50", "--trouble", "all", "--seed", "7"]).ok();
    let added = system.payfold(&["token", "add", "ann", "--role", "finance"]).ok();
    let ann = added.lines().next().expect("a token").trim().to_owned();
    log_in(&browser, &link_of(&system));

    browser.click("nav a[href='/days']");
    opens(&browser, "Days");
    send_file(&browser, &system.home().data().join("sandbox-records.jsonl"));
    browser.screenshot("tutorial-file");
    browser.click("form[method=post][action^='/files/'] button");
    shows(&browser, "Control totals");
    browser.screenshot("tutorial-day");

    browser.click("a[href^='/findings?']");
    opens(&browser, "Findings");
    browser.screenshot("tutorial-findings");
    browser.click("section .choice input");
    browser.click("input[value=partner]");
    browser.click("textarea");
    browser.type_text("the partner has the money");
    browser.click("fieldset button");
    opens(&browser, "Your ");
    shows(&browser, "waits for a second person");

    browser.click(".person button");
    opens(&browser, "Log in");
    browser.click("#token");
    browser.type_text(&format!("{ann}\n"));
    opens(&browser, "Overview");
    browser.click("nav a[href='/findings']");
    opens(&browser, "Findings");
    shows(&browser, "local decided");
    browser.click("main form[method=post] section .choice input");
    browser.click("textarea");
    browser.type_text("so it is in their console");
    browser.click("main form[method=post] fieldset button");
    opens(&browser, "Your ");
    shows(&browser, "local and ann");
}
