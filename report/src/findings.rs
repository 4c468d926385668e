//! Owns the list of findings: open ones grouped by code and action, then those worth knowing,
//! decided and cleared ones. Invariant: at most `FINDINGS_MAX` on a page; the rest is counted.

use maud::{Markup, html};
use payfold_schemas::finding::{FindingChanged, FindingDecision, Side};
use payfold_schemas::order::Flag;
use payfold_schemas::run::RunResult;

use super::codes::{meaning_of, severity_meaning, title_of, verdict_text};
use super::finding_groups::{FindingGroups, alike, at_risk};
use super::report::Report;
use super::text::{count, counted, isolated, len, short_id};
use super::times::{PartnerZone, age_days};
use super::values::{OurCurrencies, ValueFormat, format_sides, source_of, what_differs};
use crate::money;

/// Findings that a page shows, at most.
pub const FINDINGS_MAX: usize = 2_000;

/// Renders tables of findings.
struct FindingTables<'a> {
    report: &'a Report<'a>,
    currencies: OurCurrencies<'a>,
    zone: PartnerZone,
}

/// The findings of a group that are shown, and the number of the others.
type ShownFindings<'a> = (&'a [&'a FindingChanged], u64);

/// All findings, group by group.
pub(super) fn section(report: &Report<'_>, groups: &FindingGroups<'_>) -> Markup {
    let rows = FindingTables {
        report,
        currencies: OurCurrencies::new(report.findings),
        zone: report.zone(),
    };
    let mut left = FINDINGS_MAX;
    let mut limit = |part| limit(&mut left, part);
    let (open, noted) = (limit(&groups.open), limit(&groups.noted));
    let (decided, cleared) = (limit(&groups.decided), limit(&groups.cleared));
    html! {
        section aria-labelledby="open" {
            h2 #open { "Open differences" (group_size(open)) }
            @if open.0.is_empty() {
                p { @match report.ended.result {
                    RunResult::Complete => "None.",
                    RunResult::Incomplete => "None that could be found: the run is incomplete.",
                } }
            }
            (rows.groups(open.0))
            (rows.rest(open.1, "open"))
        }
        @if !groups.noted.is_empty() {
            section aria-labelledby="noted" {
                h2 #noted { "Worth knowing" (group_size(noted)) }
                (rows.groups(noted.0))
                (rows.rest(noted.1, "open"))
            }
        }
        @if !groups.decided.is_empty() {
            section aria-labelledby="decided" {
                h2 #decided { "Decided" (group_size(decided)) }
                (rows.decided(decided.0))
                (rows.rest(decided.1, "decided"))
            }
        }
        @if !groups.cleared.is_empty() {
            section aria-labelledby="cleared" {
                h2 #cleared { "Cleared: the cause has gone" (group_size(cleared)) }
                (rows.cleared(cleared.0))
                (rows.rest(cleared.1, "cleared"))
            }
        }
    }
}

fn limit<'a>(left: &mut usize, part: &'a [&'a FindingChanged]) -> ShownFindings<'a> {
    let (shown, rest) = part.split_at(part.len().min(*left));
    *left -= shown.len();
    (shown, len(rest))
}

fn group_size((shown, rest): ShownFindings<'_>) -> Markup {
    html! { " " small { "(" (count(len(shown).saturating_add(rest))) ")" } }
}

impl<'a> FindingTables<'a> {
    fn format(&self) -> ValueFormat {
        ValueFormat { zone: Some(self.zone), money: money::major_named }
    }

    fn rest(&self, rest: u64, status: &str) -> Markup {
        html! { @if rest > 0 {
            p.rest {
                (counted(rest, "more finding")) " of this kind "
                @if rest == 1 { "is" } @else { "are" } " not on this page ("
                (status) "). All of them: "
                code { "payfold reconcile findings " (self.report.day_options()) " --output csv" }
            }
        } }
    }

    /// Tables of findings, one for each code and action.
    fn groups(&self, findings: &[&'a FindingChanged]) -> Markup {
        html! { @for group in alike(findings) {
            @if let Some(first) = group.first() {
                section.group {
                    h3 {
                        (title_of(first)) " " code { (what_kind(first)) } " "
                        span.badge.(first.severity.as_str()) { (first.severity.as_str()) }
                    }
                    p {
                        (meaning_of(first)) " Severity " (first.severity.as_str()) ": "
                        (severity_meaning(first.severity)) "."
                    }
                    p.do { b { "Do: " } (isolated(&first.action)) "." }
                    (self.table(group))
                }
            }
        } }
    }

    fn table(&self, group: &[&'a FindingChanged]) -> Markup {
        let risk = money::list_sums(&at_risk(group));
        let caption = html! {
            (counted(len(group), "finding")) @if !risk.is_empty() { ", " (risk) " at risk" }
        };
        let heads = [
            ("Payment", ""),
            ("Field", ""),
            ("Here", ""),
            ("Partner", ""),
            ("At risk", "num"),
            ("Open for", ""),
        ];
        table(
            &caption,
            &heads,
            &html! { @for finding in group {
                @let (ours, partners) = format_sides(finding, &self.currencies, self.format());
                tr role="row" {
                    (head_cell(&self.about(finding)))
                    (cell("Field", "", &html! { (isolated(what_differs(finding))) }))
                    (cell("Here", "", &side(&ours, finding, &finding.ours)))
                    (cell("Partner", "", &side(&partners, finding, &finding.partners)))
                    (cell("At risk", "num", &at_stake(finding)))
                    (cell("Open for", "", &self.open_since(finding)))
                }
                (self.waits(finding))
            } },
        )
    }

    /// The names of a finding: order, payment, reference, and its own id.
    fn about(&self, finding: &FindingChanged) -> Markup {
        let id = short_id(&finding.finding_id);
        let account = finding.merchant_code.as_ref();
        html! {
            @if let Some(order) = &finding.order_id { span.name { (isolated(order.as_str())) } }
            @else if finding.payment_ref.is_none() && finding.reference.is_none() {
                span.name { "no single payment" }
            }
            @if let Some(payment) = &finding.payment_ref {
                small { "ref " (isolated(payment.as_str())) }
            }
            @if let Some(reference) = &finding.reference {
                small { "shop's reference " (isolated(reference.as_str())) }
            }
            @if let Some(account) = account { small { "account " (isolated(account.as_str())) } }
            small { "finding " code { (isolated(id)) } }
        }
    }

    /// For how long the finding is open.
    fn open_since(&self, finding: &FindingChanged) -> Markup {
        html! {
            (counted(age_days(finding.first_seen, self.report.now), "day"))
            small { "since " (self.zone.moment(finding.first_seen)) }
        }
    }

    /// The first decision, if it waits for a second person, in a row of its own.
    fn waits(&self, finding: &FindingChanged) -> Markup {
        html! { @if let Some(first) = finding.first_decision() {
            tr.waits role="row" { td role="cell" colspan="6" { div {
                b { "Waits for a second person." } " "
                (isolated(first.author.as_str())) " decided “" (verdict_text(first.accept)) "”, "
                (self.zone.moment(first.at)) ": " (isolated(&first.reason))
            } } }
        } }
    }

    fn decided(&self, findings: &[&'a FindingChanged]) -> Markup {
        let caption = html! { "Who decided what, why, when, and on which evidence" };
        let heads =
            [("Payment", ""), ("Here", ""), ("Partner", ""), ("At risk", "num"), ("Decision", "")];
        table(
            &caption,
            &heads,
            &html! { @for finding in findings {
                @let (ours, partners) = format_sides(finding, &self.currencies, self.format());
                tr role="row" {
                    (head_cell(&html! { (kind(finding)) (self.about(finding)) }))
                    (cell("Here", "", &side(&ours, finding, &finding.ours)))
                    (cell("Partner", "", &side(&partners, finding, &finding.partners)))
                    (cell("At risk", "num", &at_stake(finding)))
                    (cell("Decision", "", &html! {
                        @if let Some(decision) = &finding.decision {
                            (self.decision(finding, decision))
                        }
                    }))
                }
            } },
        )
    }

    fn decision(&self, finding: &FindingChanged, decision: &FindingDecision) -> Markup {
        html! {
            b { (verdict_text(decision.accept)) } ", "
            (isolated(decision.author.as_str()))
            @if let Some(second) = &decision.seconded_by { " and " (isolated(second.as_str())) }
            ": " (isolated(&decision.reason))
            @if let Some(second) = &decision.second_reason { " – " (isolated(second)) }
            small {
                @if decision.seconded_by.is_some() && finding.flag.is_none() { "first decided " }
                (self.zone.moment(decision.at))
            }
            small { "evidence " code { (decision.evidence) } }
        }
    }

    fn cleared(&self, findings: &[&'a FindingChanged]) -> Markup {
        let caption = html! { "Findings that no longer have a cause" };
        let heads = [
            ("Payment", ""),
            ("Here, when found", ""),
            ("Partner, when found", ""),
            ("Cleared", ""),
        ];
        table(
            &caption,
            &heads,
            &html! { @for finding in findings {
                @let (ours, partners) = format_sides(finding, &self.currencies, self.format());
                tr role="row" {
                    (head_cell(&html! { (kind(finding)) (self.about(finding)) }))
                    (cell("Here, when found", "", &side(&ours, finding, &finding.ours)))
                    (cell("Partner, when found", "", &side(&partners, finding, &finding.partners)))
                    (cell("Cleared", "", &html! {
                        @match &finding.run {
                            Some(run) => { "by run " code { (isolated(run)) } },
                            None => { "by the order's own change: a notice or a query's answer" },
                        }
                        small { "found " (self.zone.moment(finding.first_seen)) }
                    }))
                }
            } },
        )
    }
}

fn kind(finding: &FindingChanged) -> Markup {
    html! { span.kind { (title_of(finding)) } }
}

/// A side's value and its source.
fn side(value: &str, finding: &FindingChanged, side: &Side) -> Markup {
    html! {
        span.value { (isolated(value)) }
        small { (isolated(source_of(side, finding))) }
    }
}

/// The code of a finding: of one about a flag, the flag.
fn what_kind(finding: &FindingChanged) -> &'static str {
    finding.flag.map_or(finding.code.as_str(), Flag::as_str)
}

fn at_stake(finding: &FindingChanged) -> Markup {
    html! { @match finding.currency {
        Some(currency) if finding.money_at_risk != 0 => {
            (money::major(i128::from(finding.money_at_risk), currency)) " "
            small.unit { (currency) }
        },
        _ => "–",
    } }
}

/// A table with rows that become cards on a narrow screen. The roles keep it a table for screen
/// readers.
fn table(caption: &Markup, heads: &[(&str, &str)], rows: &Markup) -> Markup {
    html! {
        table.cards.{ "of" (heads.len()) } role="table" {
            caption { (caption) }
            thead role="rowgroup" { tr role="row" {
                @for (head, class) in heads {
                    th role="columnheader" scope="col" class=(class) { (head) }
                }
            } }
            tbody role="rowgroup" { (rows) }
        }
    }
}

fn head_cell(inside: &Markup) -> Markup {
    html! { th.about role="rowheader" scope="row" { (inside) } }
}

fn cell(head: &str, class: &str, inside: &Markup) -> Markup {
    html! { td role="cell" data-head=(head) class=(class) { div { (inside) } } }
}
