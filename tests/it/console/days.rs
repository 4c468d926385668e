//! How finance compares a day in the console: with the partner's file or by asking the partner; and
//! what can't be compared or closed.

use std::time::Duration;

use super::decisions::records;
use super::{ORIGIN, SOON, Visitor, token_of};
use crate::support::system::System;
use crate::support::waits::{early_in_hour, until};
use crate::support::wire::{Answer, Connection, request};

/// A field of a form with a file: its name, its file's name or none, its value.
type Part<'p> = (&'p str, Option<&'p str>, &'p str);

impl Visitor<'_> {
    /// Sends a form with a file.
    fn upload(&self, parts: &[Part<'_>]) -> Answer {
        let mut body = String::new();
        for (name, file, value) in parts {
            let file = file.map_or(String::new(), |file| format!("; filename=\"{file}\""));
            body += &format!(
                "--b\r\ncontent-disposition: form-data; name=\"{name}\"{file}\r\n\r\n{value}\r\n"
            );
        }
        body += "--b--\r\n";
        self.upload_body(&body)
    }

    /// Sends the body of a form with a file.
    fn upload_body(&self, body: &str) -> Answer {
        let headers = format!(
            "{}{ORIGIN}content-type: multipart/form-data; boundary=b\r\ncontent-length: {}\r\n",
            self.header(),
            body.len()
        );
        let head = request("POST /comparisons", &headers, None);
        Connection::open(self.system.console()).exchange(&[&head, body.as_bytes()].concat())
    }

    /// The page that a comparison leads to at its end.
    fn compared(&self, started: &Answer) -> (String, Answer) {
        assert_eq!(started.status, 303, "{}", started.text());
        let progress = started.header("location").expect("a page").to_owned();
        until("the comparison has ended", SOON, || {
            let page = self.get(&progress);
            match page.status {
                303 => {
                    let day = page.header("location").expect("a day").to_owned();
                    Some((day.clone(), self.get(&day)))
                }
                _ if page.text().contains("Not compared") => Some((progress.clone(), page)),
                _ => None,
            }
        })
    }
}

/// What is no file, or not whole, is not compared.
fn assert_unfit_files_are_refused(ann: &Visitor<'_>, file: &str, day: &str) {
    let token = ann.post_token();
    let own = ("post_token", None, &*token);
    let (partner, records) = (("partner", None, "sandbox"), ("records", Some("day.jsonl"), file));
    let of_day = ("day", None, day);
    let long = "x".repeat(2_000);
    for (parts, status, said) in [
        (&[partner, of_day, records, own][..], 403, "The form is of another session"),
        (&[("post_token", None, "00"), partner, of_day, records], 403, "of another session"),
        (&[own, partner, of_day], 400, "No file was sent"),
        (&[own, partner, of_day, ("records", Some(""), "")], 400, "No file is chosen"),
        (&[own, ("partner", None, "../x"), records], 400, "is not the code of a partner"),
        (&[own, ("partner", None, ""), records], 400, "is not the code of a partner"),
        (&[own, partner, ("day", None, "today"), records], 400, "is not a day"),
        (&[own, partner, ("day", None, &long), records], 400, "a field is too long"),
    ] {
        let answer = ann.upload(parts);
        assert!(answer.status == status && answer.text().contains(said), "{}", answer.text());
    }
    // Without its end the file is not whole.
    let cut = format!(
        "--b\r\ncontent-disposition: form-data; name=\"post_token\"\r\n\r\n{token}\r\n--b\r\n\
         content-disposition: form-data; name=\"partner\"\r\n\r\nsandbox\r\n--b\r\n\
         content-disposition: form-data; name=\"records\"; filename=\"cut.jsonl\"\r\n\r\n{file}"
    );
    let answer = ann.upload_body(&cut);
    let said = "The file did not arrive whole, so nothing is compared";
    assert!(answer.status == 400 && answer.text().contains(said), "{}", answer.text());
    assert_eq!(ann.json("/days").json()["periods"], serde_json::json!([]));
}

#[test]
fn finance_compares_a_day_with_a_file_and_by_asking() {
    early_in_hour(Duration::from_secs(60));
    let system = System::demo();
    let pay = ["demo", "pay", "--count", "6", "--trouble", "second-ref", "--seed", "7"];
    system.payfold(&pay).ok();
    let [ann, vic] = [("ann", "finance"), ("vic", "viewer")]
        .map(|(name, role)| Visitor::log_in(&system, &token_of(&system, name, role)));
    let (file, day) = records(&system);
    assert!(ann.get("/days").text().contains("No day was compared yet."));
    let token = ann.post_token();
    let own = ("post_token", None, &*token);
    let (partner, records) = (("partner", None, "sandbox"), ("records", Some("day.jsonl"), &*file));
    let of_day = ("day", None, &*day);
    assert_unfit_files_are_refused(&ann, &file, &day);
    let of_vic = vic.post_token();
    let refused = vic.upload(&[("post_token", None, &of_vic), partner, of_day, records]);
    assert_eq!(refused.status, 403, "a viewer compares nothing: {}", refused.text());

    let (path, page) = ann.compared(&ann.upload(&[own, partner, of_day, records]));
    assert_eq!(path, format!("/days/sandbox/{day}"));
    let page = page.text();
    for said in
        ["Everything was compared. ", "day.jsonl", "Control totals", "Close the day", " open."]
    {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert!(!vic.get(&path).text().contains("Close the day"), "a viewer closes nothing");
    let listed = system.payfold(&["reconcile", "runs", "--output", "json"]).json();
    assert_eq!(ann.json(&path).json()["run"], listed[0]["run"], "it is the last run");
    assert!(ann.get("/days").text().contains(&path));
    let report = ann.get(&format!("{path}/report"));
    let name = format!("attachment; filename=\"report-sandbox-{day}.html\"");
    assert_eq!(report.header("content-disposition"), Some(&*name));
    assert!(report.text().contains("Reconciliation of sandbox"), "{}", report.text());

    let close = ann.send(&format!("{path}/close"), ORIGIN, &format!("post_token={token}"));
    assert!(
        close.status == 422 && close.text().contains("can't be closed yet"),
        "{}",
        close.text()
    );
    let unasked = ann.send(&format!("{path}/close"), ORIGIN, "post_token=00");
    assert_eq!(unasked.status, 403);
    let asked = format!("post_token={token}&partner=sandbox&day={day}");
    let (_, page) = ann.compared(&ann.send("/queries", ORIGIN, &asked));
    assert!(page.text().contains("--replace"), "another source would replace: {}", page.text());
    let (_, page) = ann.compared(&ann.send("/queries", ORIGIN, &format!("{asked}&replace=yes")));
    assert!(page.text().contains("Everything was compared"), "{}", page.text());
    assert_ne!(ann.json(&path).json()["run"], listed[0]["run"], "it is another run");
    for nowhere in ["/days/sandbox/1999-01-01", "/days/none/2026-01-01", "/days/sandbox/x"] {
        let page = ann.get(nowhere);
        assert!(page.status == 404 && page.text().contains("were compared"), "{}", page.text());
    }
    assert_eq!(ann.get("/comparisons/none").status, 404);
}
