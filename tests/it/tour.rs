//! Checks that documents show what the program prints: the commands of `payfold` in the README's
//! tour are run, and each line that it shows is looked for in the output, in order.

use std::time::Duration;

use crate::support::notice::Notice;
use crate::support::system::System;
use crate::support::waits::{early_in_hour, until};

/// What a page shows below this command, up to the next one.
fn shown_below<'p>(page: &'p str, command: &str) -> Vec<&'p str> {
    let (_, rest) = page.split_once(&format!("$ {command}")).expect("the page has the command");
    let (block, _) = rest.split_once("```").expect("a block has an end");
    let lines = block.lines().skip(1).take_while(|line| !line.starts_with("$ "));
    lines.filter(|line| !line.trim().is_empty()).collect()
}

/// A word without what differs from run to run: each figure and each rest of an id is `#`, but for
/// counts and codes of up to three digits.
fn masked(word: &str) -> String {
    let alone = word.trim_end_matches([',', ';', '.']);
    if alone.len() <= 3 && alone.bytes().all(|byte| byte.is_ascii_digit()) {
        return word.to_owned();
    }
    let mut masked = String::new();
    let mut rest = word;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        masked.push_str(&rest[..at]);
        masked.push('#');
        rest = rest[at..].trim_start_matches(|c: char| c.is_ascii_hexdigit() || "-.:,".contains(c));
    }
    masked + rest
}

/// Whether a printed line is the shown one. `…` stands for the rest of a word or of the line.
fn is_shown(shown: &str, printed: &str) -> bool {
    let mut printed = printed.split_whitespace();
    for word in shown.split_whitespace() {
        if word == "…" {
            return true;
        }
        let Some(found) = printed.next() else { return false };
        let fits = match word.split_once('…') {
            Some((begin, _)) => masked(found).starts_with(masked(begin).trim_end_matches('#')),
            None => masked(word) == masked(found),
        };
        if !fits {
            return false;
        }
    }
    printed.next().is_none()
}

/// Checks that every shown line is printed, in this order.
fn assert_printed(shown: &[&str], printed: &str) {
    assert!(!shown.is_empty(), "the document shows nothing");
    let mut lines = printed.lines();
    for line in shown.iter().filter(|line| !line.starts_with('…')) {
        assert!(lines.any(|found| is_shown(line, found)), "{line}\nis not in\n{printed}");
    }
}

/// A page of the documents.
fn document(name: &str) -> String {
    let path = format!("{}/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("the repository has the page")
}

#[test]
fn the_tour_shows_what_the_program_prints() {
    let readme = document("README.md");
    let system = System::demo();
    let data = system.home().data().display().to_string();
    let as_in_tour =
        |text: &str| text.replace(&format!(" --data '{data}'"), "").replace(&data, "payfold-data");
    let run = |command: &str| {
        let arguments: Vec<_> = command.split_whitespace().skip(1).collect();
        as_in_tour(&system.payfold(&arguments).ok())
    };
    let banner = until("the banner is whole", Duration::from_secs(20), || {
        let printed = system.home().printed() + &system.home().log();
        printed.contains("payfold init").then_some(printed)
    });
    assert!(banner.contains(&format!("payfold --data '{data}' demo pay")), "{banner}");
    assert_printed(&shown_below(&readme, "payfold run"), &as_in_tour(&banner));

    run("payfold demo pay");
    let paid = system.payfold(&["order", "list", "--state", "PAID", "--output", "json"]).rows();
    let order = paid[0]["orderId"].as_str().expect("an id");
    assert_printed(
        &shown_below(&readme, "payfold order show"),
        &run(&format!("payfold order show sandbox/DEMO/{order} --facts")),
    );
    let notice = Notice::paid("DEMO", "my-order-1", "ref-1");
    let notice = notice.signed(&system.home().data_file("sandbox.key"));
    assert_eq!(system.post_ipn(&notice).status, 200);
    system.order_when(["sandbox", "DEMO", "my-order-1"], |order| order["state"] == "UNMATCHED");
    let tail = "payfold tail orders --no-follow";
    assert_printed(&shown_below(&readme, tail), &run(tail));
    let pay = "payfold demo pay --count 200 --trouble all --seed 7";
    let printed = run(pay);
    assert_printed(&shown_below(&readme, pay), &printed);
    let rows = printed.lines().filter(|line| line.ends_with(" ok")).count();
    let shown = shown_below(&readme, pay).iter().filter(|line| line.ends_with(" ok")).count();
    assert!(readme.contains(&format!("… {} more", rows - shown)), "of {rows}");
}

#[test]
fn the_lists_of_a_day_have_the_columns_that_its_page_shows() {
    early_in_hour(Duration::from_secs(60));
    let page = document("docs/how-to/reconcile-a-day.md");
    let system = System::demo();
    system.payfold(&["demo", "pay", "--count", "5", "--trouble", "second-ref"]).ok();
    let (records, day) = system.copy_records();
    let run = ["reconcile", "run", "sandbox", "--records", &records, "--day", &day];
    let printed = system.payfold(&run).stdout;
    let begins = |text: &str| text.split_whitespace().next().map(str::to_owned);
    let shown = shown_below(&page, "payfold reconcile run mygateway --day 2026-01-31 --records");
    let shown: Vec<_> = shown.into_iter().filter_map(begins).collect();
    assert_eq!(printed.lines().filter_map(begins).collect::<Vec<_>>(), shown);

    let columns = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    for list in ["payfold reconcile findings --open", "payfold reconcile totals"] {
        let arguments: Vec<_> = list.split_whitespace().skip(1).collect();
        let printed = system.payfold(&arguments).ok();
        let shown = shown_below(&page, list);
        assert_eq!(columns(printed.lines().next().expect("a head")), columns(shown[0]), "{list}");
    }
}

#[test]
fn a_line_is_compared_without_figures_and_ids() {
    for (shown, printed, is) in [
        ("public  http://127.0.0.1:8080 POST", "  public http://127.0.0.1:39121  POST", true),
        ("ord-01a1fe03-9a50-7133 v3 PENDING → PAID", "ord-0cdef-b v7 PENDING → PAID", true),
        ("ord-01a1fe03-9a… C", "ord-01b2 C", true),
        ("AMOUNT_MISMATCH CONTENT_VARIANT/… ok", "AMOUNT_MISMATCH X/ ok", false),
        ("never 5 201, EXPIRED", "never 5 201, PAID", false),
        ("create-slow 3 202, PAID", "create-slow 3 201, PAID", false),
        ("200 payments in 11.5 s,", "200 payments in 8.25 s,", true),
        ("CONTENT_VARIANT/…", "CONTENT_VARIANT/critical", true),
        ("ready in 0.1 s. …", "ready in 0.4 s. In another terminal:", true),
        ("ready in 0.1 s.", "ready in 0.4 s. In another terminal:", false),
    ] {
        assert_eq!(is_shown(shown, printed), is, "{shown} and {printed}");
    }
}
