//! Owns what a run means for who has to act on it: one sentence, the figures behind it, and what to do next. Pure.

use maud::{Markup, html};
use payfold_reconciler::books::survey::QUERIES;
use payfold_schemas::order::Severity;
use payfold_schemas::run::RunResult;

use super::Report;
use super::parts::Parts;
use super::when::age_days;
use super::words::{argument, count, counted, len, said};
use crate::money;

/// How it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tone {
    Good,
    Open,
    Bad,
}

impl Tone {
    fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Open => "open",
            Self::Bad => "bad",
        }
    }
}

/// The verdict, the figures, the next steps.
pub(super) fn section(report: &Report<'_>, parts: &Parts<'_>) -> Markup {
    let (tone, sentence) = verdict(report, parts);
    html! {
        section.verdict.(tone.class()) aria-labelledby="verdict" {
            h2 #verdict { (sentence) }
            @if report.ended.result == RunResult::Incomplete {
                ul { @for problem in &report.ended.problems { li { (said(problem)) } } }
                p { "What was found holds. What was not found may still be there: no finding was cleared for being absent." }
            }
            @if report.ended.adjusts.is_some() && report.ended.result == RunResult::Complete {
                p { "The day was closed before and its totals have changed since: this run is an adjustment (see “Closing”)." }
            }
        }
        (figures(report, parts))
        section aria-labelledby="next" {
            h2 #next { "What to do next" }
            ol.steps { @for step in steps(report, parts) { li { (step) } } }
        }
    }
}

fn verdict(report: &Report<'_>, parts: &Parts<'_>) -> (Tone, String) {
    let ended = report.ended;
    let open = open_sentence(parts);
    if ended.result == RunResult::Incomplete {
        return (Tone::Bad, format!("Incomplete: not everything could be compared. {open}"));
    }
    if !parts.open.is_empty() {
        return (Tone::Open, format!("Complete. {open}"));
    }
    let sentence = match (ended.records.entries, ended.compared.orders, parts.decided.len()) {
        (0, 0, _) => "Complete. Nothing happened on this day: no entries, no orders.".to_owned(),
        (_, _, 0) => {
            "Complete. Nothing is open: the partner's records and the orders agree, and no order has an open flag.".to_owned()
        }
        (_, _, _) => {
            format!("Complete. Nothing is open: {} found and decided.", was(len(&parts.decided)))
        }
    };
    (Tone::Good, sentence)
}

fn open_sentence(parts: &Parts<'_>) -> String {
    let money = money::listed(&parts.at_risk());
    let open = len(&parts.open);
    let is = if open == 1 { "is" } else { "are" };
    let what = match (open - parts.flags(), parts.flags()) {
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
fn figures(report: &Report<'_>, parts: &Parts<'_>) -> Markup {
    let compared = &report.ended.compared;
    let oldest = parts.open.iter().map(|finding| age_days(finding.first_seen, report.now)).max();
    let critical =
        parts.open.iter().filter(|finding| finding.severity == Severity::Critical).count();
    html! {
        dl.figures {
            div { dt { "Open" } dd { (count(len(&parts.open))) small { (critical) " critical" } } }
            div { dt { "At risk" } dd.money {
                @for (currency, minor) in parts.at_risk().iter().filter(|(_, minor)| **minor != 0) {
                    span { (money::major(*minor, *currency)) " " small { (currency) } }
                }
                @if money::listed(&parts.at_risk()).is_empty() { span { "0" } }
            } }
            div { dt { "Oldest open" } dd { @match oldest {
                Some(days) => { (counted(days, "day")) },
                None => "–",
            } } }
            div { dt { "Decided" } dd { (count(len(&parts.decided))) } }
            div { dt { "Lines that agree" } dd { (count(compared.matched)) small { "of " (counted(report.ended.records.entries, "entry")) } } }
        }
    }
}

/// What to do, first things first.
fn steps(report: &Report<'_>, parts: &Parts<'_>) -> Vec<Markup> {
    let mut steps = Vec::new();
    let (partner, day) = (&report.ended.partner, argument(&report.ended.day));
    let was_asked = report.ended.records.name == QUERIES;
    if report.ended.result == RunResult::Incomplete && was_asked {
        steps.push(html! {
            "Ask once more; only what the partner did not answer is asked for: "
            code { "payfold reconcile run " (partner) " --day " (day) " --by query" }
        });
    } else if report.ended.result == RunResult::Incomplete {
        steps.push(html! {
            "Mend what makes the run incomplete, usually by fetching the partner's file again, and compare it once more: "
            code { "payfold reconcile run " (partner) " --day " (day) " --records FILE" }
        });
    }
    if parts.waiting() > 0 {
        steps.push(html! {
            "Ask a second person for " (counted(parts.waiting(), "decision")) " below: what is critical takes two, who say the \
             same, each with a token of their own. "
            code { "payfold reconcile decide FINDING --accept ours|partner|write-off --reason …" }
        });
    }
    if len(&parts.open) > parts.waiting() {
        steps.push(html! {
            "Go through the open differences below from top to bottom: each group says what to do. What a late notice or a \
             query mends clears by itself; decide the rest: "
            code { "payfold reconcile decide FINDING --accept ours|partner|write-off --reason …" }
        });
    }
    if !parts.noted.is_empty() {
        steps.push(html! {
            "Compare the next day's records when they come: they should list " (counted(len(&parts.noted), "payment")) " of this \
             day's end. The day can be closed after that."
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
            "Nothing is left to do. Close the day, so that what changes it later shows as an adjustment: "
            code { "payfold reconcile close " (partner) " --day " (day) }
        },
        Some(_) if report.ended.adjusts.is_some() => html! {
            "Book the adjustment under “Closing” below: the sealed totals themselves never change."
        },
        Some(_) => html! { "Nothing: the day is closed." },
    }
}
