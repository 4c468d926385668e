//! How finance compares a day in the console: with the partner's file or by asking the partner; and
//! what can't be compared or closed.

use std::time::Duration;

use super::{ORIGIN, SOON, Visitor, token_of};
use crate::support::demo::Demo;
use crate::support::notice::Notice;
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
            "{}{}content-type: multipart/form-data; boundary=b\r\ncontent-length: {}\r\n",
            self.header(),
            self.origin,
            body.len()
        );
        let head = request("POST /files", &headers, None);
        Connection::open(self.system.console()).exchange(&[&head, body.as_bytes()].concat())
    }

    /// The page of a file that was sent, once it is read; and its address.
    fn read(&self, sent: &Answer) -> (String, Answer) {
        assert_eq!(sent.status, 303, "{}", sent.text());
        let path = sent.header("location").expect("a page").to_owned();
        let page = until("the file is read", SOON, || {
            Some(self.get(&path)).filter(|page| !page.text().contains("Reading the file"))
        });
        (path, page)
    }

    /// Sends a partner's file; the page of it, once it is read.
    pub fn send_file(&self, partner: &str, name: &str, content: &str) -> (String, Answer) {
        let (token, records) = (self.post_token(), ("records", Some(name), content));
        let parts = [("post_token", None, &*token), ("partner", None, partner), records];
        self.read(&self.upload(&parts))
    }

    /// Has a file compared with the day that its page offers; with what is ticked.
    pub fn compare_read(&self, path: &str, page: &Answer, replace: &str) -> Answer {
        assert_eq!(page.status, 200, "{}", page.text());
        let page = page.text();
        let (_, form) = page.split_once("name=\"day\" value=\"").expect("a day");
        let day = form.split('"').next().expect("a value");
        let token = self.post_token();
        let path = path.split('?').next().expect("a path");
        self.send(path, self.origin, &format!("post_token={token}&day={day}{replace}"))
    }

    /// The page that a comparison leads to at its end.
    pub fn compared(&self, started: &Answer) -> (String, Answer) {
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
    let said = "The file did not arrive whole";
    assert!(answer.status == 400 && answer.text().contains(said), "{}", answer.text());
    assert_eq!(ann.json("/days").json()["periods"], serde_json::json!([]));
}

/// The file of a day, as it is shown before it is compared.
fn assert_is_read(preview: &serde_json::Value, page: &str, (file, day): (&str, &str)) {
    let entries = file.lines().filter(|line| line.contains("\"record\":\"payment\"")).count();
    assert!(entries > 6, "each order has one, and one has two: {file}");
    assert_eq!(preview["file"]["entries"], entries, "{preview}");
    assert_eq!(preview["sums"][0]["day"], day, "{preview}");
    for said in [
        "Every line of this file can be read.",
        &format!("Compare with the orders of {day}"),
        &format!("{entries} entries of {entries} are of that day."),
        "The first entries as they are read",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
}

#[test]
fn finance_compares_a_day_with_a_file_and_by_asking() {
    early_in_hour(Duration::from_secs(60));
    let system = System::demo();
    let pay = ["demo", "pay", "--count", "6", "--trouble", "second-ref", "--seed", "7"];
    system.payfold(&pay).ok();
    let [ann, vic] = [("ann", "finance"), ("vic", "viewer")]
        .map(|(name, role)| Visitor::log_in(&system, &token_of(&system, name, role)));
    let (file, day) = system.sandbox_records();
    assert!(ann.get("/days").text().contains("No day was compared yet."));
    let token = ann.post_token();
    let own = ("post_token", None, &*token);
    let (partner, records) = (("partner", None, "sandbox"), ("records", Some("day.jsonl"), &*file));
    let of_day = ("day", None, &*day);
    assert_unfit_files_are_refused(&ann, &file, &day);
    let of_vic = vic.post_token();
    let refused = vic.upload(&[("post_token", None, &of_vic), partner, of_day, records]);
    assert_eq!(refused.status, 403, "a viewer compares nothing: {}", refused.text());

    let (of_file, read) = ann.read(&ann.upload(&[own, partner, records]));
    assert_is_read(&ann.json(&of_file).json()["preview"], &read.text(), (&file, &day));
    assert!(!vic.get(&of_file).text().contains("Compare</button>"), "a viewer compares nothing");
    let stolen = format!("post_token={}&day={day}", vic.post_token());
    assert_eq!(vic.send(&of_file, ORIGIN, &stolen).status, 403);
    assert_eq!(ann.send(&of_file, ORIGIN, &stolen).status, 403);
    assert_eq!(ann.json("/days").json()["periods"], serde_json::json!([]), "nothing is compared");
    let (path, page) = ann.compared(&ann.compare_read(&of_file, &read, ""));
    assert_eq!(path, format!("/days/sandbox/{day}"));
    let page = page.text();
    for said in [
        "Everything was compared. ",
        "day.jsonl",
        "Control totals",
        "It can be closed once",
        " open.",
        "At risk by what is open",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert!(!vic.get(&path).text().contains("It can be closed"), "a viewer closes nothing");
    let listed = system.payfold(&["reconcile", "runs", "--output", "json"]).json();
    assert_eq!(ann.json(&path).json()["run"], listed[0]["run"], "it is the last run");
    assert!(ann.get("/days").text().contains(&path));
    let report = ann.get(&format!("{path}/report"));
    let name = format!("attachment; filename=\"report-sandbox-{day}.html\"");
    assert_eq!(report.header("content-disposition"), Some(&*name));
    assert!(report.text().contains("Reconciliation of sandbox"), "{}", report.text());

    let close =
        ann.send(&format!("{path}/close"), ORIGIN, &format!("post_token={token}&for_good=yes"));
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

#[test]
fn a_day_with_nothing_open_can_be_closed_but_for_quarantine() {
    early_in_hour(Duration::from_secs(60));
    let demo = Demo::boot();
    demo.system.payfold(&["demo", "pay", "--count", "2"]).ok();
    let ann = Visitor::log_in(&demo.system, &token_of(&demo.system, "ann", "finance"));
    let (file, day) = demo.system.sandbox_records();
    let (path, page) = ann.send_file("sandbox", "day.jsonl", &file);
    let (path, page) = ann.compared(&ann.compare_read(&path, &page, ""));
    assert_eq!(path, format!("/days/sandbox/{day}"));
    let page = page.text();
    for said in ["agreed", "Close the day", "this can't be taken back"] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert!(!page.contains("in quarantine"), "{page}");
    let stale = Notice::paid("DEMO", "o-1", "r-1").sent(-3_600);
    let answer = demo.system.post_ipn(&stale.signed(&demo.secret));
    assert_eq!(answer.code(), "timestamp_out_of_window", "{}", answer.text());
    let page = ann.get(&path).text();
    assert!(page.contains("in quarantine, and undecided"), "{page}");
    assert!(page.contains("href=\"/quarantine?partner=sandbox\""), "{page}");
}

/// The names of the files that people sent and that are kept.
fn uploads(system: &System) -> Vec<String> {
    let folder = std::fs::read_dir(system.home().data().join("reconcile")).expect("a folder");
    let names = folder.map(|entry| entry.expect("an entry").file_name().into_string());
    let names = names.map(|name| name.expect("a text"));
    names.filter(|name| name.starts_with("upload-")).collect()
}

/// A demo of three payments; its finance, the records, and their day.
fn paid() -> (System, String, String, String) {
    early_in_hour(Duration::from_secs(60));
    let system = System::demo();
    system.payfold(&["demo", "pay", "--count", "3", "--seed", "7"]).ok();
    let token = token_of(&system, "ann", "finance");
    let (file, day) = system.sandbox_records();
    (system, token, file, day)
}

#[test]
fn a_file_that_replaces_another_has_to_be_confirmed() {
    let (system, token, file, day) = paid();
    let ann = Visitor::log_in(&system, &token);
    let (whole, page) = ann.send_file("sandbox", "day.jsonl", &file);
    ann.compared(&ann.compare_read(&whole, &page, ""));
    assert_eq!(ann.get(&whole).status, 404, "what was compared is not kept");
    system.home().write("day.jsonl", &file);
    let sent = system.home().file("day.jsonl");
    let run = ["reconcile", "run", "sandbox", "--day", &day, "--records", &sent];
    let same = system.payfold(&run);
    assert!([0, 3].contains(&same.code()), "{}{}", same.stdout, same.stderr);
    let (_, again) = ann.send_file("sandbox", "day.jsonl", &file);
    assert!(again.text().contains("That day was compared with this very file"), "{}", again.text());
    assert!(!again.text().contains("It replaces"), "{}", again.text());

    let content = format!("{file}{{\"record\":1}}\n");
    let (partly, page) = ann.send_file("sandbox", "<b>2.jsonl", &content);
    let lines = file.lines().count();
    for said in [
        "A part of this file can’t be read.",
        &format!("line {}: ", lines + 1),
        "That day was compared with <bdi>day.jsonl</bdi>",
        "It replaces <bdi>day.jsonl</bdi>",
    ] {
        assert!(page.text().contains(said), "{said}: {}", page.text());
    }
    assert!(!page.text().contains("<b>2"), "a file's name is text: {}", page.text());
    let (refused, said) = ann.compared(&ann.compare_read(&partly, &page, ""));
    assert!(said.text().contains("would replace it"), "{}", said.text());
    let (_, of_day) = refused.split_once("?day=").expect("the day");
    let file_path = partly.split('?').next().expect("a path");
    let back = format!("{file_path}?day={}", &of_day[..10]);
    assert!(said.text().contains(&back), "it leads back to {back}: {}", said.text());
    let elsewhere = ann.get(&refused.replace("file=", "file=..%2F")).text();
    assert!(elsewhere.contains("Not compared") && !elsewhere.contains("Back to the file"));
    let other = format!("&replaces={}", "00".repeat(32));
    let (_, said) = ann.compared(&ann.compare_read(&back, &ann.get(&back), &other));
    assert!(said.text().contains("would replace it"), "it is not what was seen: {}", said.text());
    let page = page.text();
    let (_, of_box) = page.split_once("name=\"replaces\" value=\"").expect("a box");
    let replaces = format!("&replaces={}", &of_box[..64]);
    let (_, compared) = ann.compared(&ann.compare_read(&back, &ann.get(&back), &replaces));
    let said = "Not everything could be compared.";
    assert!(compared.text().contains(said), "{}", compared.text());
}

#[test]
fn a_file_that_can_not_be_used_is_named_and_not_kept() {
    let (system, token, file, day) = paid();
    let ann = Visitor::log_in(&system, &token);
    let created = file.lines().find(|line| line.contains("\"create\"")).expect("a line");
    for (partner, content, said) in [
        ("sandbox", "%PDF-1.7", "This file can’t be used."),
        ("none", &file, "there is no account at none"),
    ] {
        let (path, page) = ann.send_file(partner, "day.jsonl", content);
        assert!(page.text().contains(said), "{said}: {}", page.text());
        assert!(!page.text().contains("Compare</button>"), "{}", page.text());
        let of_day = format!("post_token={}&day={day}", ann.post_token());
        let answer = ann.send(&path, ORIGIN, &of_day);
        assert!(answer.status == 400 && answer.text().contains("read, so it"), "{}", answer.text());
    }
    assert_eq!(uploads(&system), [] as [&str; 0]);
    let (path, page) = ann.send_file("sandbox", "day.jsonl", created);
    let page = page.text();
    assert!(page.contains("This file lists no payment."), "{page}");
    assert!(
        page.contains("Compare with the orders of a day") && !page.contains("Compare</button>")
    );
    assert_eq!(uploads(&system).len(), 1);
    let of_day = ann.get(&format!("{path}?day=1999-01-01")).text();
    for said in ["No entry of this file is of 1999-01-01.", "Compare</button>"] {
        assert!(of_day.contains(said), "{said}: {of_day}");
    }
    let two_days = file.replace(&day, "1999-01-01");
    let (path, _) = ann.send_file("sandbox", "days.jsonl", &format!("{file}{two_days}"));
    let page = ann.get(&format!("{path}?day={day}")).text();
    assert!(page.contains("neither of that day nor of the days beside it"), "{page}");
    for (path, status, said) in [
        (&*format!("{path}?day=x"), 400, "is not a day"),
        ("/files/none", 404, "send it once more"),
    ] {
        let page = ann.get(path);
        assert!(page.status == status && page.text().contains(said), "{path}: {}", page.text());
    }
}
