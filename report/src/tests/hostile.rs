//! Hostile text from partners and shops: it is shown and has no effect.

use payfold_schemas::finding::{Code, FindingStatus};
use payfold_schemas::ids::{Author, ProviderRef, Reference};

use super::markup::elements;
use super::worlds::{TestDay, currency};

const BAD: [&str; 7] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "'><a href=\"https://evil.example/\">x</a>",
    "</style><script>alert(1)</script>",
    "\\\"}@import 'https://evil.example/x.css';",
    "\u{202e}gpj.exe\u{2066}",
    "\0\u{7}\u{1b}[31mred",
];

/// A day with this text in every field that can hold it.
fn world(bad: &str) -> TestDay {
    let mut world = TestDay::sample();
    let ended = &mut world.ended;
    for text in [&mut ended.run, &mut ended.day, &mut ended.zone, &mut ended.records.name] {
        bad.clone_into(text);
    }
    ended.totals[0].day = bad.to_owned();
    for finding in &mut world.findings {
        for text in [&mut finding.finding_id, &mut finding.ours.value, &mut finding.partners.value]
        {
            bad.clone_into(text);
        }
        finding.ours.source = bad.to_owned();
        finding.partners.source = format!("{bad} line 3");
        finding.field = Some(bad.to_owned());
        finding.run = Some(bad.to_owned());
        finding.action = bad.to_owned();
        if let Some(decision) = &mut finding.decision {
            bad.clone_into(&mut decision.reason);
        }
        let printable: String = bad.chars().filter(char::is_ascii_graphic).collect();
        finding.payment_ref = ProviderRef::parse(&printable).ok();
        finding.reference = Reference::parse(&printable).ok();
        if let (Some(decision), Ok(author)) = (&mut finding.decision, Author::parse(&printable)) {
            decision.author = author;
        }
    }
    world.incomplete();
    world.ended.problems = vec![bad.to_owned()];
    world.ended.records.bad_lines[0].problem = bad.to_owned();
    world.close();
    world
}

#[test]
fn hostile_text_does_not_become_markup() {
    let known = elements(&TestDay::sample().page());
    for bad in BAD {
        let page = world(bad).page();
        let found = elements(&page);
        for element in &found {
            let name = element.name.as_str();
            assert!(
                !["script", "img", "a", "iframe", "link", "form", "object"].contains(&name),
                "{bad:?}: <{name}>"
            );
            for (name, value) in &element.attributes {
                let active = name.starts_with("on")
                    || ["src", "href", "style", "action", "srcset"].contains(&name.as_str());
                assert!(!active, "{bad:?}: {name}={value:?}");
            }
        }
        let styles = |found: &[super::Element]| found.iter().filter(|e| e.name == "style").count();
        assert_eq!((styles(&found), styles(&known)), (1, 1), "{bad:?}");
        let style = &found.iter().find(|e| e.name == "style").unwrap().text;
        assert!(!style.contains("@import") && !style.contains('<'), "{bad:?}");
        for sign in ['\0', '\u{7}', '\u{1b}', '\u{202e}', '\u{2066}'] {
            assert!(!page.contains(sign), "{bad:?}: {sign:?}");
        }
    }
}

#[test]
fn no_address_is_on_the_page() {
    let mut world = TestDay::sample();
    world.close();
    assert!(!world.page().contains("://"));
}

#[test]
fn long_texts_are_cut_and_long_refs_stay_whole() {
    let mut world = world("x");
    let long = "R".repeat(255);
    world.findings[0].payment_ref = ProviderRef::parse(&long).ok();
    world.findings[0].status = FindingStatus::Open;
    world.findings[0].partners.value = "v".repeat(100_000);
    let page = world.page();
    elements(&page);
    assert!(page.contains(&long));
    assert!(page.contains(&"v".repeat(300)) && !page.contains(&"v".repeat(301)));
}

#[test]
fn every_code_in_every_currency_is_written_exactly() {
    let first = TestDay::sample().findings[0].clone();
    for (code, whole, fraction) in [
        ("JPY", "150,000", ""),
        ("VND", "150,000", ""),
        ("USD", "1,500", ".00"),
        ("KWD", "150", ".000"),
    ] {
        let mut world = TestDay::empty();
        world.findings = Code::ALL
            .map(|kind| {
                let mut finding = first.clone();
                finding.finding_id = format!("{kind:0>32}");
                (finding.code, finding.severity) = (kind, kind.severity());
                finding.currency = Some(currency(code));
                finding.money_at_risk = 150_000;
                finding.field = Some("amount".to_owned());
                finding.ours.value = "150000".to_owned();
                finding
            })
            .to_vec();
        let page = world.page();
        elements(&page);
        let (value, bare) = (
            format!("{whole}{fraction} {code}"),
            format!("{whole}{fraction} <small class=\"unit\">{code}"),
        );
        assert_eq!(page.matches(&bare).count(), Code::ALL.len(), "{code}");
        // Each finding shows it on its own side, and in sums of one finding.
        assert!(page.matches(&value).count() >= Code::ALL.len(), "{code}");
        assert!(!page.contains("150000"), "{code}: no minor units");
    }
}

#[test]
fn a_value_that_is_no_number_is_shown_as_it_is() {
    let mut world = TestDay::sample();
    for finding in &mut world.findings {
        finding.field = Some("amount".to_owned());
        finding.ours.value = "1e999".to_owned();
        finding.partners.value = "9".repeat(60);
        finding.money_at_risk = i64::MIN;
    }
    let page = world.page();
    elements(&page);
    assert!(page.contains("1e999") && page.contains(&"9".repeat(60)));
    assert!(page.contains("−73,786,976,294,838,206,464 VND"), "eight times the smallest there is");
}
