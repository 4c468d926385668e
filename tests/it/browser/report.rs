//! Checks how a run's report is read: from a file, without network or script, on a phone and a
//! desktop, light, dark and on paper.

use payfold_report::{Report, render_page};
use payfold_schemas::digest::Digest;
use payfold_schemas::finding::FindingChanged;
use payfold_schemas::run::{BadLine, PeriodClosed, RunEnded, RunResult};
use payfold_schemas::time::Time;
use serde::Deserialize;
use serde_json::{Value, json};

use super::axe::Axe;
use super::driver::{Browser, DESKTOP, pictures};

/// A day with most kinds of findings.
const SAMPLE: &str = include_str!("../../../report/src/tests/sample.json");

#[derive(Deserialize)]
struct Day {
    ended: RunEnded,
    findings: Vec<FindingChanged>,
    closed: Option<PeriodClosed>,
    now: Time,
}

impl Day {
    fn sample() -> Self {
        serde_json::from_str(SAMPLE).expect("the sample is a day")
    }

    /// Words that have nowhere to break.
    fn crowded() -> Self {
        let mut day = Self::sample();
        let long = "W".repeat(255);
        day.ended.records.name = long.clone();
        for finding in &mut day.findings {
            finding.payment_ref = Some(long.parse().expect("as long as refs get"));
            finding.ours.value.clone_from(&long);
            finding.partners.source.clone_from(&long);
            finding.action.clone_from(&long);
            finding.money_at_risk = i64::MAX;
        }
        for total in &mut day.ended.totals {
            total.ours.amount = i64::MAX;
        }
        day
    }

    /// Closed with other totals.
    fn adjusted() -> Self {
        let mut day = Self::sample();
        let seal = Digest::of_bytes(b"seal");
        day.closed = Some(PeriodClosed {
            partner: day.ended.partner.clone(),
            day: day.ended.day.clone(),
            run: "0f3c2a9be4d17756".to_owned(),
            author: "minh.le".parse().expect("a name"),
            at: day.now,
            totals: day.ended.totals.clone(),
            findings: day.findings.iter().map(FindingChanged::event_id).collect(),
            seal,
        });
        for total in &mut day.ended.totals {
            total.ours.amount += 129_900;
            total.ours.count += 1;
        }
        day.ended.adjusts = Some(seal);
        day
    }

    /// Of a file that could not be read whole.
    fn incomplete() -> Self {
        let mut day = Self::sample();
        day.ended.result = RunResult::Incomplete;
        day.ended.problems = vec![format!("2 lines of {} can't be parsed", day.ended.records.name)];
        day.ended.records.bad = 2;
        let bad = |(line, problem): (u64, &str)| BadLine { line, problem: problem.to_owned() };
        let problems =
            [(214, "Amount: \"1.2oo\" is no amount"), (1_586, "it has 3 columns, not 9")];
        day.ended.records.bad_lines = problems.map(bad).to_vec();
        day
    }

    /// Its page as a file; its address.
    fn saved(&self, name: &str) -> String {
        let (ended, findings) = (&self.ended, self.findings.as_slice());
        let page =
            render_page(&Report { ended, findings, closed: self.closed.as_ref(), now: self.now });
        let path = pictures().join(format!("{name}.html"));
        std::fs::write(&path, page).expect("the target folder can be written");
        url::Url::from_file_path(path).expect("a whole path").into()
    }
}

/// Looks at all of the page in this width.
fn in_width(browser: &Browser, width: u64) {
    let of_height = |height: u64| {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        browser.command("Emulation.setDeviceMetricsOverride", size);
    };
    of_height(800);
    let height = browser.ask("return document.documentElement.scrollHeight");
    of_height(height.as_u64().expect("a number").min(12_000));
}

/// Scripts of pages are `forbidden` or `allowed`.
fn scripts_are(browser: &Browser, word: &str) {
    let value = word == "forbidden";
    browser.command("Emulation.setScriptExecutionDisabled", json!({ "value": value }));
}

fn in_scheme(browser: &Browser, scheme: &str) {
    let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
    browser.command("Emulation.setEmulatedMedia", json!({ "features": features }));
}

/// Text on its ground, in relative luminance: the least contrast of all texts there are.
const CONTRAST_MIN: &str = "
const parts = text => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
const ground = element => {
    for (; element; element = element.parentElement) {
        const color = parts(getComputedStyle(element).backgroundColor);
        if (color.length < 4 || color[3] > 0) return color;
    }
    return [255, 255, 255];
};
let least = { ratio: 99 };
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim()) continue;
    const style = getComputedStyle(element);
    const ink = parts(element.tagName === 'text' ? style.fill : style.color);
    const [a, b] = [light(ink), light(ground(element))].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < least.ratio) least = { ratio, text: walk.currentNode.data };
}
return least;";

fn is_legible(browser: &Browser, how: &str) {
    let least = browser.ask(CONTRAST_MIN);
    assert!(least["ratio"].as_f64().expect("a number") >= 4.5, "{how}: {least}");
}

#[test]
#[ignore = "nightly: browser"]
fn a_report_is_read_from_a_file_in_any_width_and_light() {
    let (Some(browser), Some(axe)) = (Browser::start(DESKTOP), Axe::fetch()) else { return };
    let mut broken = Vec::new();
    let days = [
        ("report", Day::sample()),
        ("report-crowded", Day::crowded()),
        ("report-adjusted", Day::adjusted()),
        ("report-incomplete", Day::incomplete()),
    ];
    for (name, day) in days {
        scripts_are(&browser, "forbidden");
        browser.goto(&day.saved(name));
        let loaded = browser.ask("return performance.getEntriesByType('resource').length");
        assert_eq!(loaded, 0, "it needs nothing else");
        let styled = "return getComputedStyle(document.querySelector('.unseen')).position";
        assert_eq!(browser.ask(styled), "absolute", "its own policy lets its style in");
        for scheme in ["light", "dark"] {
            in_scheme(&browser, scheme);
            for width in [360, 700, 1_200] {
                in_width(&browser, width);
                let seen = browser.page_width();
                assert!(seen <= width, "{name}: {seen} points are wider than {width}");
                // The other pages lie beside the pictures.
                if name == "report" {
                    browser.screenshot(&format!("{name}-{width}-{scheme}"));
                }
            }
            is_legible(&browser, scheme);
            scripts_are(&browser, "allowed");
            broken.extend(axe.violations(&browser));
            scripts_are(&browser, "forbidden");
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
#[ignore = "nightly: browser"]
fn a_report_prints_on_a4_with_nothing_cut() {
    use base64::Engine as _;
    let Some(browser) = Browser::start(DESKTOP) else { return };
    browser.goto(&Day::sample().saved("report-to-print"));
    in_scheme(&browser, "dark");
    let paper = json!({ "preferCSSPageSize": true, "printBackground": false });
    let printed = browser.command("Page.printToPDF", paper);
    let printed = printed["data"].as_str().expect("a document");
    let pdf = base64::engine::general_purpose::STANDARD.decode(printed).expect("base64");
    std::fs::write(pictures().join("report.pdf"), &pdf).expect("the target folder can be written");
    let text = String::from_utf8_lossy(&pdf);
    let pages = text.matches("/Type /Page\n").count();
    assert!((2..=6).contains(&pages), "{pages} pages");
    assert!(text.contains("/MediaBox [0 0 594.95996 841.91998]"), "A4");

    // The width of A4 between the margins, in CSS pixels; wider content is cut.
    browser.command("Emulation.setEmulatedMedia", json!({ "media": "print" }));
    let width = 688;
    in_width(&browser, width);
    assert!(browser.page_width() <= width, "{} points", browser.page_width());
    let cut = "return [...document.querySelectorAll('table, figure, dl, section')]
        .filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.className)";
    assert_eq!(browser.ask(cut), Value::Array(Vec::new()), "nothing is cut at the edge");
    is_legible(&browser, "print");
    browser.screenshot("report-print");
}
