//! The report of a run: its content and order, and that no text on it can become markup.

mod hostile;
mod markup;
mod totals;
mod worlds;

use markup::{Element, elements};
use payfold_schemas::finding::{Code, FindingStatus};
use worlds::TestDay;

use super::*;

/// Checks that these texts are on the page in this order.
fn assert_in_order(page: &str, texts: &[&str]) {
    texts.iter().fold(page, |rest, text| {
        let (_, rest) = rest
            .split_once(text)
            .unwrap_or_else(|| panic!("no {text:?} after the texts before it"));
        rest
    });
}

/// The text of the first element of this class.
fn text_of(found: &[Element], class: &str) -> String {
    let element = found.iter().find(|element| element.has_class(class));
    element.unwrap_or_else(|| panic!("no .{class}")).text.clone()
}

#[test]
fn the_most_important_comes_first() {
    let page = TestDay::sample().page();
    assert_in_order(
        &page,
        &[
            "9 differences are open, with 0.50 USD and 7,680,000 VND at risk",
            "What to do next",
            "Open differences by kind",
            "Open differences by age",
            "Open differences",
        ],
    );
    assert_in_order(
        &page,
        &[
            "id=\"open\"",
            "id=\"noted\"",
            "id=\"decided\"",
            "id=\"cleared\"",
            "id=\"totals\"",
            "id=\"records\"",
        ],
    );
}

#[test]
fn what_was_compared_is_counted_by_name() {
    let names = [
        "What was compared",
        "Lines in the file",
        "Entries",
        "Left out",
        "Not readable",
        "Orders",
        "Agree",
        "Pending",
        "Cut-off",
    ];
    assert_in_order(&TestDay::sample().page(), &names);
}

#[test]
fn a_finding_shows_both_sides_with_their_sources() {
    let found = elements(&TestDay::sample().page());
    let row = |id: &str| {
        let row = found.iter().find(|e| e.name == "tr" && e.text.contains(id));
        row.unwrap_or_else(|| panic!("no row {id}")).text.clone()
    };
    let missing = row("cart-21007");
    for part in [
        "MG7730355",
        "SUCCESS 2,750,000 VND",
        "the order",
        "nothing",
        "settlement-20260131.csv",
        "1 day",
    ] {
        assert!(missing.contains(part), "{part}: {missing}");
    }
    let amount = row("cart-21110");
    for part in
        ["129.99 USD", "129.49 USD", "0.50 USD", "settlement-20260131.csv line 240", "6 days"]
    {
        assert!(amount.contains(part), "{part}: {amount}");
    }
    // In the partner's zone.
    assert!(row("cart-20955").contains("2026-01-31 11:00:00 +07:00"));
}

#[test]
fn decisions_show_person_time_reason_and_evidence() {
    let world = TestDay::sample();
    let found = elements(&world.page());
    let waits = text_of(&found, "waits");
    for part in [
        "Waits for a second person",
        "anna.tran",
        "the partner's stands",
        "2026-02-02 09:15:30 +07:00",
        "console",
    ] {
        assert!(waits.contains(part), "{part}: {waits}");
    }
    let decided = found.iter().find(|e| e.name == "tr" && e.text.contains("third part")).unwrap();
    let evidence = world.finding("third part").decision.as_ref().unwrap().evidence.to_string();
    for part in [
        "anna.tran and minh.le",
        "the partner's stands",
        "REFUNDED 150.00 USD + 200.00 USD",
        &evidence,
    ] {
        assert!(decided.text.contains(part), "{part}: {}", decided.text);
    }
}

#[test]
fn a_decision_on_other_evidence_does_not_wait() {
    let mut world = TestDay::sample();
    for finding in &mut world.findings {
        finding.evidence = Digest::of_bytes(b"changed since");
    }
    let page = world.page();
    assert!(
        !page.contains("Waits for a second person") && !page.contains("for a second person, who")
    );
}

#[test]
fn groups_have_one_code_and_one_action() {
    let found = elements(&TestDay::sample().page());
    let groups: Vec<_> = found.iter().filter(|element| element.has_class("group")).collect();
    let codes: Vec<&str> = groups
        .iter()
        .filter_map(|group| {
            Code::ALL.map(Code::as_str).into_iter().find(|code| group.text.contains(code))
        })
        .collect();
    assert_eq!(
        codes,
        [
            "MISSING_HERE",
            "MISSING_THERE",
            "STATUS_DIFFERS",
            "AMOUNT_DIFFERS",
            "REFERENCE_PAID_TWICE",
            "DUPLICATED_THERE",
            "TIME_DIFFERS",
            // Its action names what it would become.
            "MISSING_THERE",
        ]
    );
    assert!(groups.iter().all(|group| group.text.contains("Do: ")));
}

#[test]
fn an_empty_day_is_a_short_page() {
    let page = TestDay::empty().page();
    elements(&page);
    assert_in_order(
        &page,
        &[
            "Complete. Nothing happened on this day",
            "payfold reconcile close mygateway --day 2026-01-31",
            "None.",
            "No money moved",
        ],
    );
    assert!(!page.contains("by age"));
}

#[test]
fn a_clean_day_and_a_closed_day_are_shown_as_such() {
    let mut world = TestDay::sample();
    world.findings.clear();
    let page = world.page();
    assert!(page.contains(
        "Complete. Nothing is open: the partner's records and the orders agree, and no order \
             has an open flag."
    ));
    world.close();
    let page = world.page();
    assert_in_order(
        &page,
        &["day closed", "Nothing: the day is closed.", "Closed by ", "as they were sealed"],
    );
}

#[test]
fn a_change_of_a_closed_day_is_an_adjustment() {
    let mut world = TestDay::sample();
    world.findings.clear();
    world.close();
    let closed = world.closed.as_mut().unwrap();
    closed.totals[1].ours.amount -= 12_999;
    closed.totals[1].ours.count -= 1;
    world.ended.adjusts = Some(closed.seal);
    let page = world.page();
    assert_in_order(
        &page,
        &[
            "this run is an adjustment",
            "Book the adjustment",
            "Adjustments: what has changed",
            "11,920.00",
            "12,049.99",
            "+129.99",
        ],
    );
}

#[test]
fn a_changed_finding_of_a_closed_day_is_named() {
    let mut world = TestDay::sample();
    world.close();
    assert!(!world.page().contains("changed after it was sealed"));
    world.findings.retain(|finding| finding.status != FindingStatus::Open);
    world.findings[0].version += 1;
    world.ended.adjusts = world.closed.as_ref().map(|closed| closed.seal);
    let page = world.page();
    assert!(!page.contains("Book the adjustment"), "no total has changed");
    let id = &world.findings[0].finding_id[..12];
    assert_in_order(
        &page,
        &["Its totals are as they were sealed.", "1 finding of the day came or changed", id],
    );
}

#[test]
fn an_unanswered_survey_is_to_be_repeated() {
    let mut world = TestDay::empty();
    world.incomplete();
    world.ended.records.name = payfold_reconcile::request::QUERIES.to_owned();
    let page = world.page();
    assert!(page.contains("payfold reconcile run mygateway --day 2026-01-31 --by query"));
    assert!(!page.contains("--records FILE"), "there is no file to fix");
}

#[test]
fn an_incomplete_run_is_never_shown_as_good() {
    let mut world = TestDay::empty();
    world.incomplete();
    let page = world.page();
    let found = elements(&page);
    let verdict = text_of(&found, "verdict");
    for part in [
        "Incomplete: not everything could be compared",
        "the file is cut off",
        "Others may be missing",
    ] {
        assert!(verdict.contains(part), "{part}: {verdict}");
    }
    assert_in_order(
        &page,
        &[
            "payfold reconcile run mygateway --day 2026-01-31 --records FILE",
            "None that could be found",
        ],
    );
    assert!(!page.contains("reconcile close") && !page.contains("Nothing happened"));
    assert!(page.contains("There are none: the run is incomplete") && !page.contains("No money"));
    let bad = text_of(&found, "bad");
    assert!(!bad.is_empty());
    let lines = found.iter().filter(|e| e.name == "table" && e.has_class("bad")).count();
    assert_eq!(lines, 1);
    assert_in_order(
        &page,
        &[
            "Lines that could not be read",
            "1,017",
            "amount: not a number",
            "1 more line could not be read",
        ],
    );
}

#[test]
fn an_incomplete_run_adjusts_nothing() {
    let mut world = TestDay::sample();
    world.close();
    world.incomplete();
    world.ended.totals.truncate(1);
    world.ended.adjusts = world.closed.as_ref().map(|closed| closed.seal);
    let page = world.page();
    assert!(page.contains("its totals are no adjustment"));
    assert!(!page.contains("is an adjustment") && !page.contains("Adjustments:"));
}

#[test]
fn a_page_is_bounded_and_counts_what_it_leaves_out() {
    let world = TestDay::of_many(5_000);
    let page = world.page();
    let found = elements(&page);
    let rows = found.iter().filter(|e| e.name == "th" && e.has_class("about")).count();
    assert_eq!(rows, FINDINGS_MAX);
    assert!(page.len() < 6_000_000, "{} bytes", page.len());
    assert_in_order(
        &page,
        &[
            "5,000 differences are open",
            "(5,000)",
            "3,000 more findings of this kind are not on this page",
            "payfold reconcile findings --partner mygateway --day 2026-01-31 --output csv",
        ],
    );
}

#[test]
fn open_findings_come_before_decided_ones_on_a_full_page() {
    let mut world = TestDay::of_many(3_000);
    for finding in world.findings.iter_mut().take(1_500) {
        finding.status = FindingStatus::Decided;
    }
    let page = world.page();
    assert_in_order(
        &page,
        &[
            "(1,500)",
            "id=\"decided\"",
            "1,000 more findings of this kind are not on this page (decided)",
        ],
    );
}

#[test]
fn the_content_security_policy_allows_only_this_style() {
    let found = elements(&TestDay::sample().page());
    let style = &found.iter().find(|element| element.name == "style").unwrap().text;
    let policy =
        found.iter().find_map(|e| e.attribute("content").filter(|c| c.contains("default-src")));
    let hash = STANDARD.encode(Digest::of_bytes(style.as_bytes()).as_bytes());
    assert_eq!(
        policy.unwrap(),
        format!(
            "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'"
        )
    );
    assert!(!style.contains("url(") && !style.contains("@import") && !style.contains('<'));
    assert!(
        style.contains("Payfold\\20 \\20 mygateway\\20 \\20 2026-01-31"),
        "on every printed page"
    );
}

#[test]
fn plots_have_their_numbers_as_text() {
    let found = elements(&TestDay::sample().page());
    let ageing = found.iter().find(|e| e.attribute("role") == Some("img")).unwrap();
    assert_eq!(
        ageing.attribute("aria-label"),
        Some("0–1 days: 6, 2–3 days: 1, 4–7 days: 1, 8–30 days: 0, over 30 days: 1")
    );
    let drawn: u64 = found
        .iter()
        .filter(|e| e.name == "rect" && e.attribute("x").is_some())
        .map(|e| e.attribute("height").unwrap().parse::<u64>().unwrap())
        .sum();
    // Nine findings, the six of the first age 96 high; what rounding takes is less than a point
    // each.
    assert!((141..=144).contains(&drawn), "{drawn}");
    for bar in found.iter().filter(|e| e.name == "svg" && e.has_class("bar")) {
        assert_eq!(bar.attribute("aria-hidden"), Some("true"), "its number is beside it");
    }
    for table in found.iter().filter(|e| e.name == "table") {
        assert!(!table.text.is_empty());
    }
    let captions = found.iter().filter(|e| e.name == "caption").count();
    assert_eq!(captions, found.iter().filter(|e| e.name == "table").count(), "every table has one");
}
