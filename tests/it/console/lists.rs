//! Lists of the console as CSV files: whole, and safe to open in a spreadsheet.

use serde_json::json;

use super::decisions::{UNASKED, compared};
use super::{Visitor, first_code, open};
use crate::support::notice::Notice;
use crate::support::system::System;

impl Visitor<'_> {
    /// A file: its name and its lines.
    fn download(&self, path: &str) -> (String, Vec<String>) {
        let url = format!("http://{}{path}", self.system.console());
        let answer = ureq::get(&url).header("cookie", &self.cookie).call();
        let mut answer = answer.expect("an answer with the file");
        let header = |name: &str| answer.headers()[name].to_str().expect("text").to_owned();
        assert_eq!(header("content-type"), "text/csv; charset=utf-8");
        let name = header("content-disposition");
        let text = answer.body_mut().read_to_string().expect("the whole file");
        let lines = text.strip_prefix('\u{feff}').expect("the mark of UTF-8").lines();
        (name, lines.map(str::to_owned).collect())
    }
}

#[test]
fn a_list_is_one_file_however_many_pages_it_has() {
    let system = System::demo_with(&[UNASKED]);
    system.payfold(&["demo", "pay", "--count", "501", "--at-once", "50"]).ok();
    let token = system.home().data_file("demo.key");
    let payment = json!({
        "partner": "sandbox", "reference": "=HYPERLINK(\"http://x\")", "amount": 150_000,
        "currency": "VND", "description": "two tickets",
    });
    let made = system.create_payment(&token, "k-1", &payment);
    assert_eq!(made.status, 201, "{}", made.text());
    system
        .order_when(["sandbox", "DEMO", made.json()["orderId"].as_str().expect("an id")], |_| true);

    let visitor = Visitor::log_in(&system, &first_code(system.home()));
    let (name, lines) = visitor.download("/orders.csv");
    assert_eq!(name, "attachment; filename=\"orders.csv\"");
    assert_eq!(lines.len(), 503, "a heading, and more than a page of the admin listener has");
    assert!(lines[0].starts_with("created,partner,merchant,order,reference,state,amount"));
    assert!(
        lines[1].contains(",\"'=HYPERLINK(\"\"http://x\"\")\",PENDING,150000,150000,0,0,VND,"),
        "{}",
        lines[1]
    );
    let (_, paid) = visitor.download("/orders.csv?state=PAID&after=");
    assert_eq!(paid.len(), 502);
    let listed =
        system.payfold(&["order", "list", "--newest", "--limit", "502", "--output", "csv"]).ok();
    assert_eq!(lines, listed.lines().collect::<Vec<_>>(), "the command prints the same");
    assert_eq!(visitor.get("/orders.csv?state=paid%3F").status, 400, "a page says what is wrong");
    assert_eq!(open(&system, "/orders.csv", "").status, 303, "it takes a session");
}

#[test]
fn each_list_is_a_file_with_the_rows_of_its_page() {
    let system = compared();
    let secret = system.home().data_file("sandbox.key");
    let stale = Notice::paid("DEMO", "o-1", "r-1").sent(-3_600);
    assert_eq!(system.post_ipn(&stale.signed(&secret)).code(), "timestamp_out_of_window");
    let visitor = Visitor::log_in(&system, &first_code(system.home()));
    for (list, page, rows) in [
        ("findings", "/findings", "findings"),
        ("days", "/days", "periods"),
        ("quarantine", "/quarantine", "notices"),
        ("stuck", "/stuck", "orders"),
        ("people", "/people", "actions"),
    ] {
        let (name, lines) = visitor.download(&format!("/{list}.csv"));
        assert_eq!(name, format!("attachment; filename=\"{list}.csv\""));
        let shown = visitor.json(page).json()[rows].as_array().map_or(0, Vec::len);
        assert!(shown > 0, "{list} has rows");
        assert_eq!(lines.len(), shown + 1, "{list}: {lines:?}");
        assert!(visitor.get(page).text().contains(&format!("/{list}.csv")), "{list}");
    }
}
