//! Owns the report as an HTML document without external resources. All content comes from the
//! report, escaped. The signed JSON file is authoritative; the page shows its digest.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use payfold_schemas::time::Time;

use super::judge::{Finding, RuleResult};
use super::report::Report;

const STYLE: &str = include_str!("report_page.css");

/// Renders the HTML document. `digest` and `public_key` are those of the signed report, in hex.
pub fn render_report_page(report: &Report, digest: &str, public_key: &str) -> String {
    let subject = &report.subject;
    let title = format!("Certification of {}", subject.profile.partner);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy"
                    content="default-src 'none'; style-src 'unsafe-inline'";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (title) }
                    p.verdict.(report.verdict.as_str()) { (report.verdict.as_str()) }
                    p { (summarize_results(report)) }
                    dl {
                        dt { "Account" } dd { (subject.merchant_code) }
                        dt { "Profile" } dd {
                            "version " (subject.profile.version) ", stage "
                            (subject.stage.as_str()) ", SHA-256 "
                            code { (subject.profile.digest) }
                        }
                        dt { "Called at" } dd { code { (subject.api_url) } }
                        dt { "From, until" } dd {
                            (to_millis(subject.started_at)) ", " (to_millis(subject.finished_at))
                        }
                        dt { "Made by" } dd { "payfold " (env!("CARGO_PKG_VERSION")) }
                        dt { "Signed report" } dd { "SHA-256 " code { (digest) } }
                        dt { "Signed by" } dd { "Ed25519 " code { (public_key) } }
                    }
                    @for (title, outcome) in
                        [("Failed", RuleResult::Failed), ("Open", RuleResult::Open)]
                    {
                        @let found: Vec<_> = filter_findings(&report.findings, outcome).collect();
                        @if !found.is_empty() {
                            h2 { (title) }
                            (render_table(&found))
                        }
                    }
                    h2 { "Every rule" }
                    (render_table(&report.findings.iter().collect::<Vec<_>>()))
                }
            }
        }
    };
    page.into_string()
}

/// The number of rules for each result, in one line.
pub fn summarize_results(report: &Report) -> String {
    let outcomes = [
        RuleResult::Failed,
        RuleResult::Open,
        RuleResult::NotTested,
        RuleResult::NotApplicable,
        RuleResult::Attested,
        RuleResult::Passed,
    ];
    let counted = outcomes.iter().map(|outcome| (report.count_results(*outcome), outcome.as_str()));
    let counted = counted.filter(|(count, _)| *count > 0);
    let parts: Vec<_> =
        counted.map(|(count, name)| format!("{count} {}", name.replace('_', " "))).collect();
    format!("{} rules: {}", report.findings.len(), parts.join(", "))
}

fn filter_findings(findings: &[Finding], outcome: RuleResult) -> impl Iterator<Item = &Finding> {
    findings.iter().filter(move |finding| finding.outcome == outcome)
}

/// Truncates a time to milliseconds.
fn to_millis(time: Time) -> Time {
    Time::from_unix_ms(time.unix_ms())
}

fn render_table(findings: &[&Finding]) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr { th { "Rule" } th { "Clause" } th { "Result" } th { "Evidence" } } }
                tbody {
                    @for finding in findings {
                        tr {
                            td { code { (finding.rule.id()) } br; (finding.rule.title()) }
                            td { (finding.rule.clause()) }
                            td.(finding.outcome.as_str()) {
                                (finding.outcome.as_str().replace('_', " "))
                            }
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
    fn failures_come_first_and_texts_are_escaped() {
        let mut observed = runs::clean_run();
        observed.attested.pop();
        observed.attested[0].by = "<script>alert(1)</script>".to_owned();
        observed.payments[0].returns.clear();
        let report = Report::new(runs::subject(), &observed, judge::evaluate_rules(&observed));
        let page = render_report_page(&report, "d1935", "b4k3y");
        let places = ["<h2>Failed", "return.success", "<h2>Open", "page.webview", "<h2>Every rule"];
        let places = places.map(|text| page.find(text).unwrap_or_else(|| panic!("no {text}")));
        assert!(places.is_sorted(), "{places:?}");
        assert!(page.contains("&lt;script&gt;alert") && !page.contains("<script"));
        assert!(
            page.contains("d1935") && page.contains("b4k3y") && page.contains("1 failed, 1 open")
        );
        for sign in ["src=", "url(", "@import", "<link", "<iframe"] {
            assert!(!page.contains(sign), "{sign}: the page needs an external resource");
        }
    }
}
