//! Owns the verdict of a run: one sentence, the figures behind it, and what to do next. Pure.

use maud::{Markup, html};
use payfold_reconcile::request::QUERIES;
use payfold_schemas::order::Severity;
use payfold_schemas::run::RunResult;

use super::finding_groups::{FindingGroups, at_risk};
use super::report::Report;
use super::text::{argument, count, counted, isolated, len};
use super::times::age_days;
use crate::money;

/// The color of the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VerdictTone {
    Good,
    Open,
    Bad,
}

impl VerdictTone {
    fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Open => "open",
            Self::Bad => "bad",
        }
    }
}

/// The verdict, the figures and the next steps.
pub(super) fn section(report: &Report<'_>, groups: &FindingGroups<'_>) -> Markup {
    let (tone, sentence) = verdict(report, groups);
    html! {
        section.verdict.(tone.class()) aria-labelledby="verdict" {
            h2 #verdict { (sentence) }
            @if report.ended.result == RunResult::Incomplete {
                ul { @for problem in &report.ended.problems { li { (isolated(problem)) } } }
                p {
                    "Findings of this run are valid. Others may be missing: no finding was cleared \
                     because it was not found again."
                }
            }
            @if report.ended.adjusts.is_some() && report.ended.result == RunResult::Complete {
                p {
                    "The day was closed before and its totals have changed since: this run is an \
                     adjustment (see “Closing”)."
                }
            }
        }
        (figures(report, groups))
        section aria-labelledby="next" {
            h2 #next { "What to do next" }
            ol.steps { @for step in steps(report, groups) { li { (step) } } }
        }
    }
}

fn verdict(report: &Report<'_>, groups: &FindingGroups<'_>) -> (VerdictTone, String) {
    let ended = report.ended;
    let open = open_sentence(groups);
    if ended.result == RunResult::Incomplete {
        return (VerdictTone::Bad, format!("Incomplete: not everything could be compared. {open}"));
    }
    if !groups.open.is_empty() {
        return (VerdictTone::Open, format!("Complete. {open}"));
    }
    let sentence = match (ended.records.entries, ended.compared.orders, groups.decided.len()) {
        (0, 0, _) => "Complete. Nothing happened on this day: no entries, no orders.".to_owned(),
        (_, _, 0) => {
            "Complete. Nothing is open: the partner's records and the orders agree, and no order \
             has an open flag."
                .to_owned()
        }
        (_, _, _) => {
            format!("Complete. Nothing is open: {} found and decided.", was(len(&groups.decided)))
        }
    };
    (VerdictTone::Good, sentence)
}

fn open_sentence(groups: &FindingGroups<'_>) -> String {
    let money = money::list_sums(&groups.at_risk());
    let open = len(&groups.open);
    let is = if open == 1 { "is" } else { "are" };
    let what = match (open - groups.open_flags(), groups.open_flags()) {
        (differences, 0) => counted(differences, "difference"),
        (0, flags) => counted(flags, "flag"),
        (differences, flags) => {
            format!("{} and {}", counted(differences, "difference"), counted(flags, "flag"))
        }
    };
    match (open, money.as_str()) {
        (0, _) => "No difference is open so far.".to_owned(),
        (_, "") => format!("{what} {is} open, with no money at risk."),
        (_, money) => format!("{what} {is} open, with {money} at risk."),
    }
}

fn was(number: u64) -> String {
    let was = if number == 1 { "was" } else { "were" };
    format!("{} {was}", counted(number, "difference"))
}

/// The figures of the verdict.
fn figures(report: &Report<'_>, groups: &FindingGroups<'_>) -> Markup {
    let compared = &report.ended.compared;
    let oldest = groups.open.iter().map(|finding| age_days(finding.first_seen, report.now)).max();
    let critical =
        groups.open.iter().filter(|finding| finding.severity == Severity::Critical).count();
    html! {
        dl.figures {
            div { dt { "Open" } dd { (count(len(&groups.open))) small { (critical) " critical" } } }
            div { dt { "At risk" } dd.money {
                @for (currency, minor) in
                    groups.at_risk().iter().filter(|(_, minor)| **minor != 0)
                {
                    span { (money::major(*minor, *currency)) " " small { (currency) } }
                }
                @if money::list_sums(&groups.at_risk()).is_empty() { span { "0" } }
            } }
            div { dt { "Oldest open" } dd { @match oldest {
                Some(days) => { (counted(days, "day")) },
                None => "–",
            } } }
            div { dt { "Decided" } dd {
                (count(len(&groups.decided)))
                @let was_at_risk = money::list_sums(&at_risk(&groups.decided));
                @if !was_at_risk.is_empty() { small { (was_at_risk) " was at risk" } }
            } }
            div { dt { "Lines that agree" } dd {
                (count(compared.matched))
                small { "of " (counted(report.ended.records.entries, "entry")) }
            } }
        }
    }
}

/// The next steps, in the order they should be done.
fn steps(report: &Report<'_>, groups: &FindingGroups<'_>) -> Vec<Markup> {
    let mut steps = Vec::new();
    let (partner, day) = (&report.ended.partner, argument(&report.ended.day));
    let is_survey = report.ended.records.name == QUERIES;
    if report.ended.result == RunResult::Incomplete && is_survey {
        steps.push(html! {
            "Query the partner again; only payments without an answer are queried: "
            code { "payfold reconcile run " (partner) " --day " (day) " --by query" }
        });
    } else if report.ended.result == RunResult::Incomplete {
        steps.push(html! {
            "Fix what makes the run incomplete, usually by fetching the partner's file again, and \
             compare it again: "
            code { "payfold reconcile run " (partner) " --day " (day) " --records FILE" }
        });
    }
    if groups.waiting_decisions() > 0 {
        steps.push(html! {
            "Ask a second person for " (counted(groups.waiting_decisions(), "decision"))
            " below: a critical finding takes two people who decide \
             the same, each with their own token. "
            code { "payfold reconcile decide FINDING --accept ours|partner|write-off --reason …" }
        });
    }
    if len(&groups.open) > groups.waiting_decisions() {
        steps.push(html! {
            "Go through the open differences below from top to bottom: each group says what to \
             do. A finding clears by itself if a late notice or a query's answer removes its \
             cause; decide the others: "
            code { "payfold reconcile decide FINDING --accept ours|partner|write-off --reason …" }
        });
    }
    if !groups.noted.is_empty() {
        steps.push(html! {
            "Compare the next day's records when they come: they should list "
            (counted(len(&groups.noted), "payment")) " at the end \
             of this day. The day can be closed after that."
        });
    }
    if steps.is_empty() {
        steps.push(last_step(report));
    }
    steps
}

fn last_step(report: &Report<'_>) -> Markup {
    let (partner, day) = (&report.ended.partner, argument(&report.ended.day));
    match report.closed {
        None => html! {
            "Nothing is left to do. Close the day, so that a later change of it shows as an \
             adjustment: "
            code { "payfold reconcile close " (partner) " --day " (day) }
        },
        Some(closed) if closed.totals == report.ended.totals && report.ended.adjusts.is_some() => {
            html! { "Read under “Closing” below which findings have changed: the totals have not." }
        }
        Some(_) if report.ended.adjusts.is_some() => html! {
            "Book the adjustment under “Closing” below: the sealed totals themselves never change."
        },
        Some(_) => html! { "Nothing: the day is closed." },
    }
}
