//! Owns the report as people read it: one HTML document that needs nothing else. What is in it comes from the report
//! alone, escaped; what counts is the signed file beside it, whose digest it shows.

use maud::{DOCTYPE, Markup, PreEscaped, html};

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
                        dt { "From, until" } dd { (subject.started_at) ", " (subject.finished_at) }
                        dt { "Made by" } dd { "payfold " (env!("CARGO_PKG_VERSION")) }
                        dt { "Signed report" } dd { "SHA-256 " code { (digest) } }
                        dt { "Signed by" } dd { "Ed25519 " code { (public_key) } }
                    }
                    (rules(&report.findings))
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

fn rules(findings: &[Finding]) -> Markup {
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
