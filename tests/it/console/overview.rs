//! The first page of the console: what needs somebody, and how partners and processes are.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::decisions::compare;
use super::{SOON, Visitor, token_of};
use crate::support::system::{Home, System};
use crate::support::waits::until;

/// The names of what needs somebody, without what depends on the machine.
fn needs(page: &Value) -> Vec<&str> {
    let names = page["alerts"].as_array().expect("alerts").iter();
    let names = names.map(|alert| alert["name"].as_str().expect("a name"));
    names.filter(|name| *name != "CapacityOrKeyEnding").collect()
}

#[test]
fn the_first_page_has_what_needs_somebody() {
    let system = System::demo();
    let visitor = Visitor::log_in(&system, &token_of(&system, "vic", "viewer"));
    let page = visitor.json("/").json();
    assert_eq!(needs(&page), [] as [&str; 0]);
    let unheard =
        serde_json::json!([{ "partner": "sandbox", "lastAccepted": null, "intervals": [] }]);
    assert_eq!(page["traffic"], unheard);
    let text = visitor.get("/").text();
    for said in ["Nothing needs anybody now", "<a href=\"/findings\">0</a>", "<dd>0 s</dd>"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let pay = ["--count", "8", "--trouble", "stale,second-ref", "--seed", "7"];
    system.payfold(&[&["demo", "pay"][..], &pay].concat()).ok();
    compare(&system);
    let page = visitor.json("/").json();
    assert_eq!(
        needs(&page),
        ["MoneyAtRisk", "OrderFlagsOpen", "OrderFlagsRaised", "SignedQuarantine"],
        "{page}"
    );
    let traffic = &page["traffic"][0];
    assert_eq!(traffic["partner"], "sandbox");
    let accepted = &traffic["intervals"].as_array().expect("intervals").last().expect("one");
    assert!(accepted["accepted"].as_u64() >= Some(4), "{traffic}");
    assert!(accepted["refused"].as_u64() >= Some(1), "{traffic}");
    let process = &page["processes"][0];
    let all = ["ingest", "checkout", "projector", "reconciler", "console", "sandbox"];
    assert_eq!(process["roles"], serde_json::json!(all));
    assert_eq!(process["troubles"], serde_json::json!([]));
    let raised = &page["alerts"][2];
    let of_raised = visitor.json(raised["page"].as_str().expect("a page")).json();
    assert!(of_raised["orders"].as_array().is_some_and(|orders| orders.len() == 4), "{raised}");
    let text = visitor.get("/").text();
    for said in [
        "What needs somebody",
        "At risk by open findings: ",
        "href=\"/quarantine\"",
        "works",
        "<dt>Critical flags of the last day</dt><dd>4<",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

/// A page waits for the slowest process no longer than this.
const PAGE_MAX: Duration = Duration::from_secs(15);

#[test]
fn processes_that_hang_or_know_no_token_are_named() {
    let (system, other) = (System::demo(), System::demo());
    let token = token_of(&system, "vic", "viewer");
    // Connections are accepted, and nothing is ever read from them.
    let hanging = TcpListener::bind("127.0.0.1:0").expect("a port");
    let hanging = hanging.local_addr().expect("it is bound").to_string();
    let urls = [&hanging, &system.admin().to_string(), &other.admin().to_string()];
    let urls = urls.map(|address| format!("http://{address}")).join(",");
    let home = Home::configured("");
    let apart = home.boot_as("console", &[("PAYFOLD_CONSOLE__ADMIN_URLS", &urls)]);
    let visitor = Visitor::log_in(&apart, &token);
    for path in ["/", "/partners"] {
        let asked = Instant::now();
        let answer = visitor.json(path);
        assert!(asked.elapsed() < PAGE_MAX, "{path}: {:?}", asked.elapsed());
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        if path != "/" {
            continue;
        }
        let page = answer.json();
        let alerts = page["alerts"].as_array().expect("alerts").iter();
        let said: Vec<_> = alerts.map(|alert| alert["what"].as_str().expect("a text")).collect();
        assert!(said[0].contains(&format!("{hanging} does not answer")), "{said:?}");
        assert!(said[1].contains("it does not know your token"), "{said:?}");
        assert_eq!(needs(&page), ["Down", "NotWatched"], "{page}");
    }
    system.kill();
    let page = visitor.json("/");
    assert_eq!(page.status, 200, "the session is not over: {}", page.text());
    assert_eq!(needs(&page.json())[..2], ["Down", "Down"]);
}

#[test]
fn a_process_that_does_not_answer_is_named() {
    let system = System::demo();
    let token = token_of(&system, "vic", "viewer");
    let admin_urls = format!("http://127.0.0.1:1,http://{}", system.admin());
    let home = Home::configured("");
    let apart = home.boot_as("console", &[("PAYFOLD_CONSOLE__ADMIN_URLS", &admin_urls)]);
    let visitor = Visitor::log_in(&apart, &token);
    let page = visitor.json("/").json();
    assert_eq!(needs(&page), ["Down"], "{page}");
    let why = page["alerts"][0]["what"].as_str().expect("a text");
    let said = "The process at http://127.0.0.1:1 does not answer: Connection refused";
    assert!(why.starts_with(said), "{why}");
    let url = |at: usize| page["processes"][at]["url"].as_str().expect("an address");
    assert_eq!([url(0), url(1)].join(","), admin_urls);
    system.kill();
    let answer = visitor.get("/");
    assert_eq!(answer.status, 200);
    let text = answer.text();
    assert_eq!(text.matches("does not answer").count(), 4, "each twice: {text}");
    for said in [
        "No process that answers folds notices",
        "begin with the process above that is down",
        "nothing expires",
        "The quarantine can't be read",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn orders_that_nothing_folds_are_not_shown_as_if_up_to_date() {
    let home = Home::new();
    let system = home.boot_as("ingest,reconciler,console", &[]);
    let visitor = Visitor::log_in(&system, &token_of(&system, "vic", "viewer"));
    for path in ["/orders", "/stuck", "/search?what=o-1"] {
        let page = visitor.get(path);
        let said = "Orders are not up to date: nothing that answers folds";
        assert!(page.status == 200 && page.text().contains(said), "{path}: {}", page.text());
    }
    let flags =
        "<dt>Critical flags of the last day</dt><dd>unknown<small>no projector says how it is<";
    let overview = visitor.get("/").text();
    for said in [flags, "no day was compared whole yet", "missing in console.admin_urls"] {
        assert!(overview.contains(said), "{said}: {overview}");
    }
    let names = needs(&visitor.json("/").json()).join(" ");
    assert!(names.starts_with("ProjectorBehindOrHalted"), "{names}");
    let builds = visitor.get("/builds");
    let said = "No process that answers does this work";
    assert!(builds.status == 503 && builds.text().contains(said), "{}", builds.text());
}

#[test]
fn stuck_orders_are_listed_with_what_is_asked() {
    let system = System::demo();
    let visitor = Visitor::log_in(&system, &token_of(&system, "vic", "viewer"));
    assert!(visitor.get("/stuck").text().contains("young enough to be asked about is stuck."));
    let token = system.home().data_file("admin.token");
    let opened = system.open_order(&token, r#"{"amount":10000,"currency":"VND"}"#).json();
    let path =
        format!("/orders/sandbox/DEMO/{}", opened["order"]["orderId"].as_str().expect("an id"));
    let page = until("the order is listed", SOON, || {
        Some(visitor.get("/stuck").text()).filter(|page| page.contains(&path))
    });
    for said in [&*path, "PENDING", "0 of 9 past", "Next question"] {
        assert!(page.contains(said), "{said}: {page}");
    }
    let listed = system.payfold(&["order", "stuck", "--output", "json"]).json();
    let orders = visitor.json("/stuck").json()["orders"].clone();
    assert_eq!(orders[0]["orderId"], listed[0]["orderId"], "{orders}");
    let of_other = visitor.json("/stuck?partner=other").json();
    assert_eq!(of_other["orders"], serde_json::json!([]), "only one partner's: {of_other}");
    assert_eq!(visitor.get("/stuck?partner=../x").status, 400);
}
