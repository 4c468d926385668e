//! Owns the report as people read it: one HTML document that needs nothing else. What is in it comes from the report
//! alone, escaped; what counts is the signed file beside it, whose digest it shows.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use payfold_schemas::time::Time;

use super::judge::{Finding, Outcome};
use super::report::{Report, stage};

const STYLE: &str = include_str!("paper.css");

/// The document. `digest` and `public_key` are those of the signed report, in hex.
pub fn paper(report: &Report, digest: &str, public_key: &str) -> String {
    let subject = &report.subject;
    let title = format!("Certification of {}", subject.profile.partner);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (title) }
                    p.verdict.(report.verdict.as_str()) { (report.verdict.as_str()) }
                    p { (summary(report)) }
                    dl {
                        dt { "Account" } dd { (subject.merchant_code) }
                        dt { "Profile" } dd {
                            "version " (subject.profile.version) ", stage " (stage(subject.stage)) ", SHA-256 "
                            code { (subject.profile.digest) }
                        }
                        dt { "Called at" } dd { code { (subject.api_url) } }
                        dt { "From, until" } dd { (time(subject.started_at)) ", " (time(subject.finished_at)) }
                        dt { "Made by" } dd { "payfold " (env!("CARGO_PKG_VERSION")) }
                        dt { "Signed report" } dd { "SHA-256 " code { (digest) } }
                        dt { "Signed by" } dd { "Ed25519 " code { (public_key) } }
                    }
                    @for (title, outcome) in [("Failed", Outcome::Failed), ("Open", Outcome::Open)] {
                        @let found: Vec<_> = of(&report.findings, outcome).collect();
                        @if !found.is_empty() {
                            h2 { (title) }
                            (rules(&found))
                        }
                    }
                    h2 { "Every rule" }
                    (rules(&report.findings.iter().collect::<Vec<_>>()))
                }
            }
        }
    };
    page.into_string()
}

/// How many rules came to what.
pub fn summary(report: &Report) -> String {
    let outcomes = [
        Outcome::Failed,
        Outcome::Open,
        Outcome::NotTested,
        Outcome::NotApplicable,
        Outcome::Attested,
        Outcome::Passed,
    ];
    let counted = outcomes.iter().map(|outcome| (report.count(*outcome), outcome.as_str()));
    let counted = counted.filter(|(count, _)| *count > 0);
    let parts: Vec<_> =
        counted.map(|(count, name)| format!("{count} {}", name.replace('_', " "))).collect();
    format!("{} rules: {}", report.findings.len(), parts.join(", "))
}

fn of(findings: &[Finding], outcome: Outcome) -> impl Iterator<Item = &Finding> {
    findings.iter().filter(move |finding| finding.outcome == outcome)
}

/// To the millisecond.
fn time(time: Time) -> Time {
    Time::from_unix_ms(time.unix_ms())
}

fn rules(findings: &[&Finding]) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr { th { "Rule" } th { "Clause" } th { "Result" } th { "Evidence" } } }
                tbody {
                    @for finding in findings {
                        tr {
                            td { code { (finding.rule.id()) } br; (finding.rule.title()) }
                            td { (finding.rule.clause()) }
                            td.(finding.outcome.as_str()) { (finding.outcome.as_str().replace('_', " ")) }
                            td { (finding.evidence) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge::{self, tests as runs};
    use super::*;

    #[test]
    fn what_is_to_be_mended_comes_first_and_what_people_said_is_escaped() {
        let mut seen = runs::clean();
        seen.attested.pop();
        seen.attested[0].by = "<script>alert(1)</script>".to_owned();
        seen.payments[0].returns.clear();
        let report = Report::new(runs::subject(), &seen, judge::judge(&seen));
        let page = paper(&report, "d1935", "b4k3y");
        let places = ["<h2>Failed", "return.success", "<h2>Open", "page.webview", "<h2>Every rule"];
        let places = places.map(|text| page.find(text).unwrap_or_else(|| panic!("no {text}")));
        assert!(places.is_sorted(), "{places:?}");
        assert!(page.contains("&lt;script&gt;alert") && !page.contains("<script"));
        assert!(
            page.contains("d1935") && page.contains("b4k3y") && page.contains("1 failed, 1 open")
        );
        for sign in ["src=", "url(", "@import", "<link", "<iframe"] {
            assert!(!page.contains(sign), "{sign}: it needs nothing else");
        }
    }
}
