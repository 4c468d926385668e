//! Two consoles beside a system that runs as several processes: a person's clicks reach either of
//! them, and each call the process that can answer it.

use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;

use super::decisions::{DECIDE, UNASKED, subject};
use super::{SOON, Visitor, token_of};
use crate::support::pair::Pair;
use crate::support::system::{Home, System};
use crate::support::waits::{early_in_hour, until};
use crate::support::wire::{bearer, request};

/// The address that browsers reach both consoles at.
const URL: (&str, &str) = ("PAYFOLD_CONSOLE__URL", "https://console.example");
const ORIGIN: &str = "origin: https://console.example\r\n";

/// The same person with clicks that reach another console.
fn at<'s>(visitor: &Visitor<'_>, console: &'s System) -> Visitor<'s> {
    Visitor { system: console, cookie: visitor.cookie.clone(), origin: ORIGIN }
}

/// Processes of a system, the one with the reconciler last.
fn system(pair: Pair) -> Option<Vec<System>> {
    let home = pair.home()?;
    Some(match pair {
        Pair::Sqlite => vec![home.boot_as("all", &[UNASKED])],
        Pair::KafkaAndCql => ["ingest,checkout,sandbox", "projector", "reconciler"]
            .map(|roles| home.boot_as(roles, &[UNASKED]))
            .into(),
    })
}

/// A day with a file that one console takes and the other one compares, and with findings that one
/// person decides at the first and another one at the second.
pub fn two_consoles_are_one(pair: Pair) {
    early_in_hour(Duration::from_secs(60));
    let Some(processes) = system(pair) else { return };
    let (front, reconciler) = (&processes[0], processes.last().expect("a process"));
    let url = format!("http://{}", front.admin());
    let pay = ["--count", "4", "--trouble", "second-ref", "--seed", "7", "--admin-url", &url];
    front.payfold(&[&["demo", "pay"][..], &pay].concat()).ok();
    // The first listener is of a process that has gone.
    let urls = processes.iter().map(|process| format!("http://{}", process.admin()));
    let admin_urls = ["http://127.0.0.1:1".to_owned()].into_iter().chain(urls);
    let admin_urls = admin_urls.collect::<Vec<_>>().join(",");
    let home = Home::configured("");
    let boot = || {
        Rc::clone(&home).boot_as("console", &[URL, ("PAYFOLD_CONSOLE__ADMIN_URLS", &admin_urls)])
    };
    let consoles = [boot(), boot()];
    let [ann, bob] = ["ann", "bob"].map(|name| token_of(reconciler, name, "finance"));
    for (process, token) in processes.iter().flat_map(|one| [(one, &ann), (one, &bob)]) {
        until("every process knows the token", SOON, || {
            let asked = process.ask_admin(&request("GET /v1/person", &bearer(token), None));
            (asked.status == 200).then_some(())
        });
    }
    let ann = Visitor::log_in_from(&consoles[0], &ann, ORIGIN);
    let bob = Visitor::log_in_from(&consoles[1], &bob, ORIGIN);
    let (ann_there, bob_there) = (at(&ann, &consoles[1]), at(&bob, &consoles[0]));

    let (file, day) = front.sandbox_records();
    let (path, page) = ann.send_file("sandbox", "day.jsonl", &file);
    let there = ann_there.get(&path);
    assert_eq!((there.status, there.text()), (200, page.text()), "either console shows the file");
    let (path, page) = ann.compared(&ann_there.compare_read(&path, &page, ""));
    assert_eq!(path, format!("/days/sandbox/{day}"));
    assert!(page.text().contains("Everything was compared. "), "{}", page.text());
    let findings = bob.json("/findings").json();
    let mut findings = findings["findings"].as_array().expect("findings").iter();
    let is_critical = |finding: &&Value| finding["severity"] == "critical";
    let finding = findings.find(is_critical).expect("a critical finding");
    let fields = "choice=ours&reason=both+were+delivered";
    let waits = ann.decide(DECIDE, &[&subject(finding)], fields);
    assert!(waits.contains("waits for a second person"), "{waits}");
    assert!(bob_there.get("/findings").text().contains("Agree</button>"));
    let agreed = bob.decide(DECIDE, &[&subject(finding)], fields);
    assert!(agreed.contains("ann</bdi> and <bdi>bob"), "{agreed}");
    let order = &bob_there.json("/orders?state=PAID").json()["orders"][0];
    let path = format!("/orders/sandbox/DEMO/{}", order["orderId"].as_str().expect("an id"));
    assert!(ann_there.get(&path).text().contains("What happened"));
    assert!(ann.get("/").text().contains(&format!("http://{}", front.admin())), "each is named");
}
