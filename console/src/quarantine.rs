//! Owns the list of quarantined notices: those of one account with one code together, with what to
//! do about them and the form that decides those that are ticked.

use std::collections::BTreeMap;

use actix_web::web::Query;
use actix_web::{Error, HttpResponse};
use maud::{Markup, html};
use payfold_api::quarantine::DECIDE;
use payfold_api::reads::NOTICES;
use payfold_report::text::{isolated, shown};
use payfold_schemas::release::{NoticeDecided, NoticeVerdict};
use payfold_views::quarantine::{ListNotices, NoticePage, QuarantineRow};
use serde::{Deserialize, Serialize};

use crate::choice::Choice;
use crate::csv_file::{self, Lines};
use crate::decide::{DECISIONS, DecisionFields};
use crate::field::{UnfitField, partner_given, text_of};
use crate::redirect::address;
use crate::refused::{action, usually};
use crate::session::Session;
use crate::subject::Subject;
use crate::table::{Head, table};
use crate::text::{moment, people, reasons};
use crate::visit::Visit;

/// The path of the list as a file.
pub(crate) const FILE: &str = "/quarantine.csv";
/// Notices on a page.
const PAGE_ROWS: usize = 50;

/// Which notices are listed, as the page's address and its form have it. An empty text filters
/// nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct NoticeSelection {
    /// `all`, or else undecided ones only.
    status: String,
    partner: String,
    code: String,
    after: String,
}

impl NoticeSelection {
    /// The selection as the admin listener takes it. Errors: what is wrong with which field.
    fn parse(&self) -> Result<ListNotices, UnfitField> {
        let partner = partner_given(&self.partner)?;
        Ok(ListNotices {
            partner: partner.map(|partner| partner.to_string()),
            code: text_of(self.code.trim()),
            open: self.status != "all",
            limit: Some(PAGE_ROWS),
            after: text_of(&self.after),
            ..ListNotices::default()
        })
    }

    /// The address of the page after this cursor.
    fn next(&self, after: &str) -> String {
        address("/quarantine", &Self { after: after.to_owned(), ..self.clone() })
    }

    /// The address of the whole list as a file.
    fn file(&self) -> String {
        address(FILE, &Self { after: String::new(), ..self.clone() })
    }
}

/// Lists quarantined notices, the oldest first.
pub(crate) async fn list(
    visit: Visit,
    selection: Query<NoticeSelection>,
) -> Result<HttpResponse, Error> {
    let asked = visit.selected(selection.parse())?;
    let page = visit.call(&NOTICES, &[], &asked).await?;
    Ok(visit.answer("Quarantine", &page, || render(&selection, &page, &visit.session)))
}

/// Gives the list away, as a file.
pub(crate) async fn file(
    visit: Visit,
    selection: Query<NoticeSelection>,
) -> Result<HttpResponse, Error> {
    let asked = ListNotices { limit: None, ..visit.selected(selection.parse())? };
    csv_file::answer(visit, "quarantine", async move |visit, after| {
        let page = visit.call(&NOTICES, &[], &ListNotices { after, ..asked.clone() }).await?;
        Lines::of(page.notices, page.next)
    })
    .await
}

fn render(selection: &NoticeSelection, page: &NoticePage, session: &Session) -> Markup {
    let mut groups: BTreeMap<(&str, &str), Vec<&QuarantineRow>> = BTreeMap::new();
    for row in &page.notices {
        let alike = (row.notice.code.as_str(), row.notice.account.as_str());
        groups.entry(alike).or_default().push(row);
    }
    let form = DecisionFields::on(address("/quarantine", selection), Choice::NOTICES);
    let can_decide = session.may(&DECIDE) && page.notices.iter().any(is_open);
    let table = NoticeTable { has_boxes: can_decide };
    html! {
        h1 { "Quarantine" }
        p { "Notices that a partner signed, and that could not be taken: none of these is in an \
            order unless it is released." }
        (fields(selection))
        @if page.notices.is_empty() {
            p {
                @if page.next.is_some() { "None so far is like this: the next page looks further." }
                @else { "No notice is like this." }
            }
        }
        @if !page.damaged.is_empty() {
            p.said { b { (page.damaged.len()) " records here can't be read: " }
                (page.damaged.join(", ")) ". Run " code { "payfold log verify" } "." }
        }
        form method="post" action=(DECISIONS) {
            @for ((code, account), rows) in &groups {
                (table.group(code, account, rows))
            }
            @if table.has_boxes { (form.fields(session)) }
        }
        @if !page.notices.is_empty() { (csv_file::link(&selection.file())) }
        @if let Some(after) = &page.next {
            p { a.next rel="next" href=(selection.next(after)) { "Next page" } }
        }
    }
}

/// The fields that select notices.
fn fields(selection: &NoticeSelection) -> Markup {
    html! {
        form.filter action="/quarantine" {
            label { "Status "
                select name="status" {
                    option value="" { "undecided" }
                    option value="all" selected[selection.status == "all"] { "all" }
                }
            }
            label { "Partner " input name="partner" value=(selection.partner); }
            label { "Code " input name="code" value=(selection.code); }
            button type="submit" { "Show" }
        }
    }
}

/// Tables of notices.
struct NoticeTable {
    /// Whether an undecided notice has a box to tick.
    has_boxes: bool,
}

impl NoticeTable {
    /// Notices of one account with one code.
    fn group(&self, code: &str, account: &str, rows: &[&QuarantineRow]) -> Markup {
        let heads = [
            Head::Text("Notice"),
            Head::Text("Detail"),
            Head::Number("Bytes"),
            Head::Text("Decision"),
        ];
        let open: Vec<_> =
            rows.iter().filter(|row| is_open(row)).filter_map(|row| subject_of(row)).collect();
        let label = format!("{code} of {account}");
        html! {
            section {
                h2 { code { (shown(code)) } " of " (isolated(account)) " "
                    small { (rows.len()) " on this page" } }
                p { b { "Usually: " } (usually(code)) "." }
                p { b { "Do: " } (action(code)) "." }
                @if self.has_boxes { (DecisionFields::tick_all(&open)) }
                (table(&label, &heads, &html! { @for row in rows { (self.row(row)) } }))
            }
        }
    }

    fn row(&self, row: &QuarantineRow) -> Markup {
        let subject = subject_of(row).filter(|_| self.has_boxes && is_open(row));
        html! {
            tr {
                th scope="row" {
                    @if let Some(subject) = subject {
                        input type="checkbox" name="on" value=(subject)
                            aria-label={ "decide " (row.position) };
                        " "
                    }
                    a href={ "/quarantine/" (row.position) } { (row.position) }
                    small { (moment(row.notice.received_at)) }
                }
                td { (isolated(&row.notice.detail)) }
                td.num { (row.raw_bytes) }
                td { @if let Some(said) = &row.decision { (standing(said)) } @else { "–" } }
            }
        }
    }
}

/// Whether it is not decided for good.
pub(crate) fn is_open(row: &QuarantineRow) -> bool {
    row.decision.as_ref().is_none_or(|said| !said.decided)
}

/// What a decision on a notice is on.
pub(crate) fn subject_of(row: &QuarantineRow) -> Option<Subject> {
    row.position.parse().ok().map(Subject::Notice)
}

/// Who decided what, and why.
pub(crate) fn standing(said: &NoticeDecided) -> Markup {
    html! {
        (people(&said.author, said.seconded_by.as_ref()))
        @if said.withdrawn { " took it back" }
        @else {
            ": "
            b {
                @match said.verdict {
                    NoticeVerdict::Release => "release",
                    NoticeVerdict::Dismiss => "dismiss",
                }
                @if let Some(because) = said.because { " (" (because.as_str()) ")" }
            }
        }
        ", " (reasons(&said.reason, said.second_reason.as_deref()))
        @if !said.decided && !said.withdrawn { small.waits { "waits for a second person" } }
    }
}
