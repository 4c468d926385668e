//! Owns the list of findings: those alike together, with what to do about them and the form that
//! decides those that are ticked.

use std::collections::BTreeMap;

use actix_web::web::Query;
use actix_web::{Error, HttpResponse};
use maud::{Markup, html};
use payfold_api::decisions::DECIDE_FINDING;
use payfold_api::reads::FINDINGS;
use payfold_report::codes::{meaning_of, severity_meaning, title, title_of, verdict_text};
use payfold_report::finding_groups::{FindingGroups, alike, at_risk};
use payfold_report::money::list_sums;
use payfold_report::text::isolated;
use payfold_report::values::OurCurrencies;
use payfold_schemas::fact::Verdict;
use payfold_schemas::finding::{Code, FindingChanged, FindingStatus};
use payfold_views::findings::{FindingPage, ListFindings, ListedFinding};
use serde::{Deserialize, Serialize};

use crate::choice::Choice;
use crate::csv_file::{self, Lines};
use crate::decide::{DECISIONS, DecisionFields};
use crate::field::{UnfitField, day_of, given, partner_given, text_of};
use crate::finding_row::{FindingTable, action, subject_of};
use crate::redirect::address;
use crate::session::Session;
use crate::visit::Visit;

/// The path of the list as a file.
pub(crate) const FILE: &str = "/findings.csv";
/// Findings on a page: more make it larger than 100 KB.
const PAGE_ROWS: usize = 50;

/// Which findings are listed, as the page's address and its form have it. An empty text filters
/// nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FindingSelection {
    /// `all`; `waiting` for those with a first decision; or else open ones only.
    status: String,
    partner: String,
    day: String,
    code: String,
    after: String,
}

impl FindingSelection {
    /// The selection as the admin listener takes it. Errors: what is wrong with which field.
    fn parse(&self) -> Result<ListFindings, UnfitField> {
        Ok(ListFindings {
            open: self.status != "all",
            waiting: self.status == "waiting",
            partner: partner_given(&self.partner)?,
            day: given(&self.day, day_of, "a day, such as 2026-01-31")?,
            code: given(&self.code, Code::parse, "a kind, such as MISSING_HERE")?,
            limit: Some(PAGE_ROWS),
            after: text_of(&self.after),
            ..ListFindings::default()
        })
    }

    /// The address of the page after this cursor.
    fn next(&self, after: &str) -> String {
        address("/findings", &Self { after: after.to_owned(), ..self.clone() })
    }

    /// The address of the whole list as a file.
    fn file(&self) -> String {
        address(FILE, &Self { after: String::new(), ..self.clone() })
    }
}

/// Lists findings.
pub(crate) async fn list(
    visit: Visit,
    selection: Query<FindingSelection>,
) -> Result<HttpResponse, Error> {
    let asked = visit.selected(selection.parse())?;
    let page = visit.call(&FINDINGS, &[], &asked).await?;
    Ok(visit.answer("Findings", &page, || render(&selection, &page, &visit.session)))
}

/// Gives the list away, as a file.
pub(crate) async fn file(
    visit: Visit,
    selection: Query<FindingSelection>,
) -> Result<HttpResponse, Error> {
    let asked = ListFindings { limit: None, ..visit.selected(selection.parse())? };
    csv_file::answer(visit, "findings", async move |visit, after| {
        let asked = ListFindings { after, ..asked.clone() };
        let page = visit.call(&FINDINGS, &[], &asked).await?;
        let (now, currencies) = ((visit.console.now)(), OurCurrencies::new(&page.currencies));
        let rows = page.findings.iter();
        Lines::of(
            rows.map(|row| ListedFinding { row, now, currencies: &currencies }),
            page.next.clone(),
        )
    })
    .await
}

fn render(selection: &FindingSelection, page: &FindingPage, session: &Session) -> Markup {
    let groups = FindingGroups::new(page.findings.iter().map(|row| &row.finding));
    let table_with =
        |has_boxes| FindingTable { currencies: OurCurrencies::new(&page.currencies), has_boxes };
    let (table, without_boxes) = (table_with(session.may(&DECIDE_FINDING)), table_with(false));
    let back = address("/findings", selection);
    let waiting = Waiting::new(&groups.open, session);
    let form = DecisionFields::on(back.clone(), Choice::RECORDS);
    html! {
        h1 { "Findings" }
        (fields(selection))
        @if page.findings.is_empty() {
            p { "No finding is like this." }
        }
        @if !groups.open.is_empty() {
            p {
                "Open on this page: " b { (groups.open.len()) }
                @let risk = list_sums(&at_risk(&groups.open));
                @if !risk.is_empty() { ", " b { (risk) } " at risk" }
            }
        }
        @for (first, findings) in &waiting.for_others {
            (agreement(&table, first, findings, (&back, session)))
        }
        form method="post" action=(DECISIONS) {
            (groups_of(&table, &waiting.undecided))
            @if table.has_boxes && !waiting.undecided.is_empty() { (form.fields(session)) }
        }
        @if !waiting.own.is_empty() {
            h2 { "You decided these: they wait for another person" }
            (groups_of(&without_boxes, &waiting.own))
        }
        @if !groups.noted.is_empty() {
            h2 { "Worth knowing: nothing has to be decided" }
            (groups_of(&without_boxes, &groups.noted))
        }
        (groups_of(&table, &groups.decided))
        (groups_of(&table, &groups.cleared))
        @if !page.findings.is_empty() { (csv_file::link(&selection.file())) }
        @if let Some(after) = &page.next {
            p { a.next rel="next" href=(selection.next(after)) { "Next page" } }
        }
    }
}

/// Open findings by what they wait for.
struct Waiting<'a> {
    undecided: Vec<&'a FindingChanged>,
    /// Those that others decided first, by author and side.
    for_others: BTreeMap<(&'a str, &'static str), Vec<&'a FindingChanged>>,
    /// Those that the person decided first.
    own: Vec<&'a FindingChanged>,
}

impl<'a> Waiting<'a> {
    fn new(open: &[&'a FindingChanged], session: &Session) -> Self {
        let mut waiting =
            Self { undecided: Vec::new(), for_others: BTreeMap::new(), own: Vec::new() };
        for finding in open {
            match finding.first_decision() {
                None => waiting.undecided.push(finding),
                Some(first) if first.author == session.person.name => waiting.own.push(finding),
                Some(first) => {
                    let by = (first.author.as_str(), first.accept.as_str());
                    waiting.for_others.entry(by).or_default().push(finding);
                }
            }
        }
        waiting
    }
}

/// Findings that another person decided first, with the form that agrees.
fn agreement(
    table: &FindingTable<'_>,
    (author, side): &(&str, &str),
    findings: &[&FindingChanged],
    (back, session): (&str, &Session),
) -> Markup {
    let accept = Verdict::parse(side).expect("a first decision has a side");
    let all: Vec<_> = findings.iter().map(|finding| subject_of(finding)).collect();
    let form = DecisionFields::on(back.to_owned(), Choice::agreeing(accept));
    html! {
        form method="post" action=(DECISIONS) {
            h2 {
                (isolated(author)) " decided: " (verdict_text(accept)) " "
                span.badge.high { "waits for a second person" } " "
                small { (findings.len()) " on this page" }
            }
            p.hint { "To decide something else, open the finding." }
            @if table.has_boxes { (DecisionFields::tick_all(&all)) }
            (groups_of(table, findings))
            @if table.has_boxes { (form.fields(session)) }
        }
    }
}

/// The fields that select findings.
fn fields(selection: &FindingSelection) -> Markup {
    html! {
        form.filter action="/findings" {
            label { "Status "
                select name="status" {
                    option value="" { "open" }
                    option value="waiting" selected[selection.status == "waiting"] {
                        "waiting for a second person"
                    }
                    option value="all" selected[selection.status == "all"] { "all" }
                }
            }
            label { "Kind "
                select name="code" {
                    option value="" { "any" }
                    @for code in Code::ALL {
                        option value=(code) selected[code.as_str() == selection.code] {
                            (title(code))
                        }
                    }
                }
            }
            label { "Partner " input name="partner" value=(selection.partner); }
            label { "Day " input type="date" name="day" value=(selection.day); }
            button type="submit" { "Show" }
        }
    }
}

/// Tables of findings, one for each kind and action.
fn groups_of(table: &FindingTable<'_>, findings: &[&FindingChanged]) -> Markup {
    html! {
        @for group in alike(findings) {
            @if let Some(first) = group.first() { (group_of(table, first, group)) }
        }
    }
}

fn group_of(table: &FindingTable<'_>, first: &FindingChanged, group: &[&FindingChanged]) -> Markup {
    let risk = list_sums(&at_risk(group));
    let all: Vec<_> = group.iter().map(|finding| subject_of(finding)).collect();
    html! {
        section {
            h2 {
                (title_of(first)) " "
                span.badge.(first.severity.as_str()) { (first.severity.as_str()) } " "
                @if first.status != FindingStatus::Open { (first.status.as_str()) " " }
                small {
                    (group.len()) " on this page"
                    @if !risk.is_empty() { ", " (risk) " at risk" }
                }
            }
            p {
                (meaning_of(first)) " Severity " (first.severity.as_str()) ": "
                (severity_meaning(first.severity)) "."
            }
            @if first.status == FindingStatus::Open {
                (action(&first.action))
                @if table.has_boxes { (DecisionFields::tick_all(&all)) }
            }
            (table.render(group))
        }
    }
}
