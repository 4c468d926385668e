//! Owns the findings one by one: open ones grouped by what is to be done, then those worth knowing, decided and cleared.
//! Invariant: at most `FINDINGS_MAX` on a page; what is left out is counted.

use maud::{Markup, html};
use payfold_schemas::fact::Verdict;
use payfold_schemas::finding::{FindingChanged, FindingDecision, FindingStatus, Side};
use payfold_schemas::run::RunResult;

use super::kinds::{asks, meaning, title};
use super::parts::{Parts, at_risk, first_word};
use super::values::{Currencies, Manner, sides};
use super::when::{Zone, age_days};
use super::words::{count, counted, len, said};
use super::{FINDINGS_MAX, Report};
use crate::money;

/// So many digits of an id name a finding in commands.
const ID_CHARS: usize = 12;

/// What every row is written with.
struct Rows<'a> {
    report: &'a Report<'a>,
    currencies: Currencies<'a>,
    zone: Zone,
}

/// What is shown of a part, and how many are not.
type Cut<'a> = (&'a [&'a FindingChanged], u64);

/// All findings.
pub(super) fn section(report: &Report<'_>, parts: &Parts<'_>) -> Markup {
    let rows = Rows { report, currencies: Currencies::of(report.findings), zone: report.zone() };
    let mut left = FINDINGS_MAX;
    let mut cut = |part| cut(&mut left, part);
    let (open, noted) = (cut(&parts.open), cut(&parts.noted));
    let (decided, cleared) = (cut(&parts.decided), cut(&parts.cleared));
    html! {
        section aria-labelledby="open" {
            h2 #open { "Open differences" (of_all(open)) }
            @if open.0.is_empty() {
                p { @match report.ended.result {
                    RunResult::Complete => "None.",
                    RunResult::Incomplete => "None that could be found: the run is incomplete.",
                } }
            }
            (rows.groups(open.0))
            (rows.rest(open.1, "open"))
        }
        @if !parts.noted.is_empty() {
            section aria-labelledby="noted" {
                h2 #noted { "Worth knowing" (of_all(noted)) }
                (rows.groups(noted.0))
                (rows.rest(noted.1, "open"))
            }
        }
        @if !parts.decided.is_empty() {
            section aria-labelledby="decided" {
                h2 #decided { "Decided" (of_all(decided)) }
                (rows.decided(decided.0))
                (rows.rest(decided.1, "decided"))
            }
        }
        @if !parts.cleared.is_empty() {
            section aria-labelledby="cleared" {
                h2 #cleared { "Cleared: the cause has gone" (of_all(cleared)) }
                (rows.cleared(cleared.0))
                (rows.rest(cleared.1, "cleared"))
            }
        }
    }
}

fn cut<'a>(left: &mut usize, part: &'a [&'a FindingChanged]) -> Cut<'a> {
    let (shown, rest) = part.split_at(part.len().min(*left));
    *left -= shown.len();
    (shown, len(rest))
}

fn of_all((shown, rest): Cut<'_>) -> Markup {
    html! { " " small { "(" (count(len(shown).saturating_add(rest))) ")" } }
}

impl<'a> Rows<'a> {
    fn manner(&self) -> Manner {
        Manner { zone: Some(self.zone), money: money::named }
    }

    fn rest(&self, rest: u64, status: &str) -> Markup {
        html! { @if rest > 0 {
            p.rest {
                (counted(rest, "more finding")) " of this kind " @if rest == 1 { "is" } @else { "are" } " not on this page ("
                (status) "). All of them: "
                code { "payfold reconcile findings " (self.report.of_day()) " --output csv" }
            }
        } }
    }

    /// Those of one kind and one action together.
    fn groups(&self, findings: &[&'a FindingChanged]) -> Markup {
        let alike =
            |a: &&FindingChanged, b: &&FindingChanged| (a.code, &a.action) == (b.code, &b.action);
        html! { @for group in findings.chunk_by(alike) {
            @if let Some(first) = group.first() {
                section.group {
                    h3 {
                        (title(first.code)) " " code { (first.code) } " "
                        span.badge.(first.severity.as_str()) { (first.severity.as_str()) }
                    }
                    p { (meaning(first.code)) " Severity " (first.severity.as_str()) ": " (asks(first.severity)) "." }
                    p.do { b { "Do: " } (said(&first.action)) "." }
                    (self.table(group))
                }
            }
        } }
    }

    fn table(&self, group: &[&'a FindingChanged]) -> Markup {
        let risk = money::listed(&at_risk(group));
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
                @let (ours, partners) = sides(finding, &self.currencies, self.manner());
                tr role="row" {
                    (head_cell(&self.about(finding)))
                    (cell("Field", "", &html! { (said(what_differs(finding))) }))
                    (cell("Here", "", &side(&ours, finding, &finding.ours)))
                    (cell("Partner", "", &side(&partners, finding, &finding.partners)))
                    (cell("At risk", "num", &at_stake(finding)))
                    (cell("Open for", "", &self.standing(finding)))
                }
                (self.waits(finding))
            } },
        )
    }

    /// What names a finding: payment, order, reference, its own id.
    fn about(&self, finding: &FindingChanged) -> Markup {
        let id: String = finding.finding_id.chars().take(ID_CHARS).collect();
        let account = finding.merchant_code.as_ref();
        html! {
            @if let Some(order) = &finding.order_id { span.name { (said(order.as_str())) } }
            @else if finding.payment_ref.is_none() && finding.reference.is_none() { span.name { "no single payment" } }
            @if let Some(payment) = &finding.payment_ref { small { "ref " (said(payment.as_str())) } }
            @if let Some(reference) = &finding.reference { small { "shop's reference " (said(reference.as_str())) } }
            @if let Some(account) = account { small { "account " (said(account.as_str())) } }
            small { "finding " code { (said(&id)) } }
        }
    }

    /// How long.
    fn standing(&self, finding: &FindingChanged) -> Markup {
        html! {
            (counted(age_days(finding.first_seen, self.report.now), "day"))
            small { "since " (self.zone.moment(finding.first_seen)) }
        }
    }

    /// The first person's word, in a row of its own.
    fn waits(&self, finding: &FindingChanged) -> Markup {
        html! { @if let Some(first) = first_word(finding) {
            tr.waits role="row" { td role="cell" colspan="6" { div {
                b { "Waits for a second person." } " "
                (said(first.author.as_str())) " said “" (stands(first.accept)) "”, "
                (self.zone.moment(first.at)) ": " (said(&first.reason))
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
                @let (ours, partners) = sides(finding, &self.currencies, self.manner());
                tr role="row" {
                    (head_cell(&html! { (kind(finding)) (self.about(finding)) }))
                    (cell("Here", "", &side(&ours, finding, &finding.ours)))
                    (cell("Partner", "", &side(&partners, finding, &finding.partners)))
                    (cell("At risk", "num", &at_stake(finding)))
                    (cell("Decision", "", &html! { @if let Some(decision) = &finding.decision { (self.decision(decision)) } }))
                }
            } },
        )
    }

    fn decision(&self, decision: &FindingDecision) -> Markup {
        html! {
            b { (stands(decision.accept)) } ", "
            (said(decision.author.as_str()))
            @if let Some(second) = &decision.seconded_by { " and " (said(second.as_str())) }
            ": " (said(&decision.reason))
            small { (self.zone.moment(decision.at)) }
            small { "evidence " code { (decision.evidence) } }
        }
    }

    fn cleared(&self, findings: &[&'a FindingChanged]) -> Markup {
        let caption = html! { "What was found and has mended itself" };
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
                @let (ours, partners) = sides(finding, &self.currencies, self.manner());
                tr role="row" {
                    (head_cell(&html! { (kind(finding)) (self.about(finding)) }))
                    (cell("Here, when found", "", &side(&ours, finding, &finding.ours)))
                    (cell("Partner, when found", "", &side(&partners, finding, &finding.partners)))
                    (cell("Cleared", "", &html! {
                        @match &finding.run {
                            Some(run) => { "by run " code { (said(run)) } },
                            None => { "by the order's own change: a notice or a query's answer" },
                        }
                        small { "found " (self.zone.moment(finding.first_seen)) }
                    }))
                }
            } },
        )
    }
}

/// The field, or the flag.
fn what_differs(finding: &FindingChanged) -> &str {
    let flag = finding.flag.map(payfold_schemas::order::Flag::as_str);
    flag.or(finding.field.as_deref()).unwrap_or("–")
}

fn kind(finding: &FindingChanged) -> Markup {
    html! { span.kind { (title(finding.code)) } }
}

/// A side's value, and where it says so.
fn side(value: &str, finding: &FindingChanged, side: &Side) -> Markup {
    let named = finding.merchant_code.as_ref().zip(finding.order_id.as_ref());
    let own = named.is_some_and(|(merchant_code, order)| {
        side.source == format!("{}/{merchant_code}/{order}", finding.partner)
    });
    html! {
        span.value { (said(value)) }
        small { @if own { "the order" } @else { (said(&side.source)) } }
    }
}

fn at_stake(finding: &FindingChanged) -> Markup {
    html! { @match finding.currency {
        Some(currency) if finding.money_at_risk != 0 => {
            (money::major(i128::from(finding.money_at_risk), currency)) " " small.unit { (currency) }
        },
        _ if finding.status == FindingStatus::Cleared => "–",
        _ => "0",
    } }
}

fn stands(accept: Verdict) -> &'static str {
    match accept {
        Verdict::Ours => "ours stands",
        Verdict::Partner => "the partner's stands",
        Verdict::WriteOff => "written off",
    }
}

/// A table whose rows become cards where there is no room; the roles keep it a table for who listens to it.
fn table(caption: &Markup, heads: &[(&str, &str)], rows: &Markup) -> Markup {
    html! {
        table.cards.{ "of" (heads.len()) } role="table" {
            caption { (caption) }
            thead role="rowgroup" { tr role="row" {
                @for (head, class) in heads { th role="columnheader" scope="col" class=(class) { (head) } }
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
