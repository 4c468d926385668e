//! Builds in the console: made, published, gone back from and dropped by those who may.

use super::{ORIGIN, SOON, Visitor, token_of};
use crate::support::system::System;
use crate::support::waits::until;

impl Visitor<'_> {
    /// Sends a form of the page, and returns status and page.
    fn change(&self, fields: &str) -> (u16, String) {
        let fields = format!("post_token={}&{fields}", self.post_token());
        let answer = self.send("/builds", ORIGIN, &fields);
        (answer.status, answer.text())
    }

    /// Waits until a build is in this state.
    fn sees(&self, build: usize, state: &str) {
        until(&format!("build {build} is {state}"), SOON, || {
            let builds = self.json("/builds").json();
            (builds["builds"][build - 1]["state"] == state).then_some(())
        });
    }
}

#[test]
fn an_operator_makes_publishes_and_drops_a_build() {
    let system = System::demo();
    system.payfold(&["demo", "pay", "--count", "3"]).ok();
    let [ops, fin] = [("ops", "operator"), ("fin", "finance")]
        .map(|(name, role)| Visitor::log_in(&system, &token_of(&system, name, role)));
    assert!(!fin.get("/builds").text().contains("<textarea"), "finance makes no builds");
    let page = ops.get("/builds").text();
    assert!(page.contains("Start a build") && !page.contains("Drop build"), "{page}");
    let start = "action=start&build=0&reason=the+rules+changed";
    assert_eq!(fin.change(start).0, 403);
    assert_eq!(ops.send("/builds", ORIGIN, start).status, 400, "it is no form of this session");
    let of_other = format!("{start}&post_token={}", fin.post_token());
    assert_eq!(ops.send("/builds", ORIGIN, &of_other).status, 403);
    for fields in ["action=start&build=0&reason=+", "action=burn&build=2&reason=x"] {
        assert_eq!(ops.change(fields).0, 400, "{fields}");
    }
    let (status, page) = ops.change(start);
    assert!(status == 200 && page.contains("Build 2 has started."), "{page}");
    ops.sees(2, "ready");
    let page = ops.get("/builds").text();
    assert!(page.contains("Publish from build 2") && !page.contains("Start a build"), "{page}");
    let (_, page) = ops.change("action=switch&build=2&reason=they+agree");
    assert!(page.contains("Of 3 orders 0 differ"), "{page}");
    ops.sees(2, "live");
    ops.sees(1, "standby");
    let (_, page) = ops.change("action=roll-back&build=1&reason=a+drill");
    assert!(page.contains("Build 1 is published from now on"), "{page}");
    ops.sees(2, "standby");
    for stale in ["action=drop&build=1", "action=pause&build=2", "action=start&build=3"] {
        let (status, page) = ops.change(&format!("{stale}&reason=x"));
        assert!(status == 400 && page.contains("The builds have changed"), "{stale}: {page}");
    }
    let (_, page) = ops.change("action=drop&build=2&reason=a+drill");
    assert!(page.contains("Build 2 is dropped."), "{page}");
}
