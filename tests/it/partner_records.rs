//! A partner's records through `payfold partner records`: the sandbox's, and those that the
//! documents show.

use crate::support::system::{Home, System};

/// The fenced texts of docs/reference/profiles.md, by what they begin with.
fn example(begins: &str) -> String {
    let text = include_str!("../../docs/reference/profiles.md");
    let fenced = text.split("```").skip(1).step_by(2);
    let mut found = fenced.filter_map(|block| block.split_once('\n')).map(|(_, block)| block);
    found.find(|block| block.starts_with(begins)).expect("the document has it").to_owned()
}

#[test]
fn the_records_of_the_sandbox_list_what_was_paid() {
    let system = System::demo();
    system.payfold(&["demo", "pay", "--count", "40", "--trouble", "all", "--seed", "5"]).ok();
    let file = &system.home().file("data/sandbox-records.jsonl");
    let text = system.home().read("data/sandbox-records.jsonl");
    let count = |record: &str| text.lines().filter(|line| line.contains(record)).count();
    let (payments, creates) = (count("\"record\":\"payment\""), count("\"record\":\"create\""));
    assert!(payments >= 40 && creates >= 40, "{text}");
    let read = |more: &[&str]| {
        let all = ["partner", "records", "sandbox", file, "--output", "jsonl", "--limit", "100000"];
        system.payfold(&[&all[..], more].concat())
    };
    let entries = read(&["--only", "entry"]).json_lines();
    assert_eq!(entries.len(), payments);
    for status in ["SUCCESS", "FAILED", "EXPIRED", "REFUNDED"] {
        assert!(entries.iter().any(|entry| entry["status"] == status), "{status}");
    }
    assert_eq!(read(&["--only", "ignored"]).json_lines().len(), creates);
    let done = read(&[]);
    assert!(done.stderr.contains(&format!("{payments} entries, {creates} ignored, 0 bad")));
    // A page goes on where the last one ended.
    let page = |more: &[&str]| {
        let all = ["partner", "records", "sandbox", file, "--output", "jsonl", "--limit", "3"];
        system.payfold(&[&all[..], more].concat())
    };
    let first = page(&[]);
    assert!(first.stderr.contains("there may be more: --after 3"), "{}", first.stderr);
    let lines = page(&["--after", "3"]).json_lines();
    assert_eq!(
        lines.iter().map(|row| row["line"].as_u64()).collect::<Vec<_>>(),
        [4, 5, 6].map(Some)
    );
}

#[test]
fn a_section_is_tried_on_a_file_before_anything_is_compared() {
    let home = Home::new();
    home.payfold(&["partner", "new", "acme", "--from", "hmac-body"]).ok();
    let profile = home.read("acme.toml");
    home.write("day.csv", &example("Type,Merchant order"));
    let read = |more: &[&str]| {
        let all = ["partner", "records", "acme", "day.csv", "--profile", "acme.toml"];
        home.payfold(&[&all[..], more].concat())
    };
    read(&[]).fails(&["has no [records]", "fix:"]);
    home.write("acme.toml", &format!("{profile}\n{}", example("[records]\nformat = \"csv\"")));
    let rows = read(&["--output", "json"]).json();
    let of = |field: &str| {
        rows.as_array().unwrap().iter().map(|row| row[field].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("result"), ["ignored", "entry", "entry", "ignored", "ignored"]);
    assert_eq!((&rows[2]["status"], &rows[2]["amount"]), (&"REFUNDED".into(), &50_000.into()));
    assert_eq!(rows[1]["at"], "2026-01-30T17:30:00Z");
    assert!(read(&[]).stderr.contains("; SUCCESS 1, 150000 VND; REFUNDED 1, 50000 VND"));
    let shown = home.payfold(&["partner", "show", "acme", "--profile", "acme.toml"]).ok();
    assert!(
        shown.contains("CSV with a header") && shown.contains("by order, days of Asia/Ho_Chi_Minh")
    );

    home.write(
        "day.csv",
        &example("Type,Merchant order").replace("VND,`2026-01-31 08", "DONG,`2026-01-31 08"),
    );
    let bad = read(&["--only", "bad"]);
    bad.fails(&["1 lines of day.csv can't be read"]);
    assert!(bad.stdout.contains("Currency: \"DONG\" is not a currency of ISO 4217"), "{bad:?}");
    home.write("day.csv", &example("Type,Merchant order").replace("Total,3", "Total,4"));
    read(&[]).fails(&["line 5: the tail counts \"4\" rows, and 3 stand before it"]);

    home.write("acme.toml", &format!("{profile}\n{}", example("[records]\nformat = \"jsonl\"")));
    let file = "{\"kind\":\"capture\",\"state\":\"done\",\"account\":\"S\",\"id\":\"T-1\",\
        \"meta\":{\"order\":\"o-1\"},\
        \"amount\":{\"value\":1500,\"currency\":\"VND\"},\"booked_at\":\"2026-01-31T10:00:00Z\"}\n";
    home.write("day.csv", file);
    let rows = read(&["--output", "json"]).json();
    assert_eq!((&rows[0]["status"], &rows[0]["orderId"]), (&"SUCCESS".into(), &"o-1".into()));
}
