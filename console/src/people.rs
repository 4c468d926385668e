//! Owns the page of people: their tokens with the role of each, and the log of what they did, the
//! newest first.

use actix_web::web::Query;
use actix_web::{Error, HttpResponse};
use maud::{Markup, html};
use payfold_api::call::Nothing;
use payfold_api::raw::READ_RAW;
use payfold_api::reads::{ACTIONS, LOCAL_OWNER, TOKENS};
use payfold_report::text::{isolated, short_id, whole};
use payfold_schemas::ids::Author;
use payfold_schemas::token::TokenRole;
use payfold_views::actions::{ActionKind, ActionPage, Done, ListActions, PersonAction};
use payfold_views::tokens::{TokenRow, Tokens};
use serde::{Deserialize, Serialize};

use crate::bytes;
use crate::csv_file::{self, Lines};
use crate::field::{UnfitField, given, text_of};
use crate::redirect::address;
use crate::session::Session;
use crate::table::{Head, table};
use crate::text::moment;
use crate::visit::Visit;

/// The path of the page.
pub(crate) const PEOPLE: &str = "/people";
/// The path of the log of actions as a file.
pub(crate) const FILE: &str = "/people.csv";
/// Actions on a page.
const PAGE_ROWS: usize = 100;

/// Which actions are listed, as the page's address has it. An empty text filters nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ActionSelection {
    by: String,
    before: String,
}

impl ActionSelection {
    /// The selection as the admin listener takes it. Errors: there can be no such person.
    fn parse(&self) -> Result<ListActions, UnfitField> {
        let author = given(&self.by, |text| Author::parse(text).ok(), "a person's name")?;
        Ok(ListActions { author, limit: Some(PAGE_ROWS), before: text_of(&self.before) })
    }
}

/// What the page shows.
#[derive(Serialize)]
struct People {
    #[serde(flatten)]
    tokens: Tokens,
    #[serde(flatten)]
    page: ActionPage,
}

/// Shows the tokens, and what their owners did.
pub(crate) async fn show(
    visit: Visit,
    selection: Query<ActionSelection>,
) -> Result<HttpResponse, Error> {
    let asked = visit.selected(selection.parse())?;
    let tokens = visit.call(&TOKENS, &[], &Nothing {}).await?;
    let page = visit.call(&ACTIONS, &[], &asked).await?;
    let people = People { tokens, page };
    Ok(visit.answer("People", &people, || render(&selection, &people, &visit.session)))
}

/// Gives the log of actions away, as a file.
pub(crate) async fn file(
    visit: Visit,
    selection: Query<ActionSelection>,
) -> Result<HttpResponse, Error> {
    let asked = ListActions { limit: None, ..visit.selected(selection.parse())? };
    csv_file::answer(visit, "people", async move |visit, before| {
        let page = visit.call(&ACTIONS, &[], &ListActions { before, ..asked.clone() }).await?;
        Lines::of(page.actions, page.next)
    })
    .await
}

fn render(selection: &ActionSelection, people: &People, session: &Session) -> Markup {
    let People { tokens, page } = people;
    html! {
        h1 { "People" }
        h2 { "Tokens" }
        (token_table(&tokens.tokens))
        p.hint {
            "A decision that takes two people takes tokens that are known for a while: a day, \
            unless " code { "reconciler.second_after_hours" } " is another time. A token makes a \
            person, so adding one takes a shell on the machine with the vault: "
            code { "payfold token add NAME --role finance" } ", and "
            code { "payfold token retire NAME" } ", which ends the sessions of that person, too. \
            Reading is not recorded, but for the bytes of notices."
        }
        h2 #actions { "What people did" }
        (fields(selection))
        @if page.actions.is_empty() {
            p {
                @if selection.by.is_empty() { "Nothing is recorded." }
                @else {
                    "Nothing is recorded that " (isolated(&selection.by)) " did. Names are exact."
                }
            }
        } @else {
            (action_table(&page.actions, session))
            @let all = ActionSelection { before: String::new(), ..selection.clone() };
            (csv_file::link(&address(FILE, &all)))
        }
        @if let Some(next) = &page.next {
            p { a.next rel="next" href=(older(selection, next)) { "Earlier" } }
        }
    }
}

/// The address of the page after this cursor.
fn older(selection: &ActionSelection, next: &str) -> String {
    let selection = ActionSelection { before: next.to_owned(), ..selection.clone() };
    format!("{}#actions", address(PEOPLE, &selection))
}

fn token_table(tokens: &[TokenRow]) -> Markup {
    let heads = [
        Head::Text("Person"),
        Head::Text("Role"),
        Head::Text("Known since"),
        Head::Text("Last recorded action"),
    ];
    let rows = html! {
        @for TokenRow { name, role, recorded_at, last_action_at } in tokens {
            tr {
                th scope="row" { a href=(of_person(name)) { (isolated(name.as_str())) } }
                td { (role.as_str()) small { (may(*role)) } }
                td { @match recorded_at {
                    Some(at) => (moment(*at)),
                    None if name.as_str() == LOCAL_OWNER => "the data folder's own token",
                    None => "not yet",
                } }
                td { @match last_action_at {
                    Some(at) => (moment(*at)),
                    None => "none",
                } }
            }
        }
    };
    table("Tokens", &heads, &rows)
}

fn of_person(name: &Author) -> String {
    let selection = ActionSelection { by: name.to_string(), ..ActionSelection::default() };
    format!("{}#actions", address(PEOPLE, &selection))
}

/// What a role may do.
fn may(role: TokenRole) -> &'static str {
    match role {
        TokenRole::Viewer => "reads, but no bytes of notices",
        TokenRole::Finance => "reads the bytes of notices, compares records, decides, closes days",
        TokenRole::Operator => "reads the bytes of notices, decides quarantined ones, rebuilds",
        TokenRole::Admin => "does everything",
    }
}

fn fields(selection: &ActionSelection) -> Markup {
    html! {
        form.filter action=(PEOPLE) {
            label { "Person " input type="search" name="by" value=(selection.by); }
            button type="submit" { "Show" }
        }
    }
}

fn action_table(actions: &[PersonAction], session: &Session) -> Markup {
    let heads = [
        Head::Text("When"),
        Head::Text("Who"),
        Head::Text("Did"),
        Head::Text("On"),
        Head::Text("Reason"),
    ];
    let rows = html! {
        @for action in actions {
            tr {
                td { (moment(action.at)) }
                td { @match &action.author {
                    Some(author) => a href=(of_person(author)) { (isolated(author.as_str())) },
                    None => "who has the vault",
                } }
                td {
                    (did(action.done))
                    @if let Some(detail) = &action.detail { small { (isolated(detail)) } }
                }
                td { (on(action, session)) }
                td { @if let Some(reason) = &action.reason { (whole(reason)) } }
            }
        }
    };
    table("What people did", &heads, &rows)
}

fn did(done: Done) -> &'static str {
    match done {
        Done::Decided => "decided",
        Done::Agreed => "agreed, as the second person",
        Done::Withdrawn => "took back a decision",
        Done::Compared => "had records compared",
        Done::Closed => "closed the day",
        Done::Read => "read the bytes",
        Done::Added => "gave a token",
        Done::Removed => "removed a token",
        Done::Started => "started the build",
        Done::Paced => "set the pace of the build",
        Done::Published => "published from the build",
        Done::Dropped => "dropped the build",
    }
}

/// What it was done to, with its page if the person may open it.
fn on(action: &PersonAction, session: &Session) -> Markup {
    let may_open = action.kind != ActionKind::Bytes || session.may(&READ_RAW);
    let Place { text, page } = place_of(action);
    html! {
        @match page.filter(|_| may_open) {
            Some(page) => a href=(page) { (isolated(&text)) },
            None => (isolated(&text)),
        }
    }
}

/// What people act on, and its page if it has one.
struct Place {
    text: String,
    page: Option<String>,
}

fn place_of(action: &PersonAction) -> Place {
    let on = &*action.on;
    let (text, page) = match action.kind {
        ActionKind::Finding => {
            (format!("finding {}", short_id(on)), Some(format!("/findings/{on}")))
        }
        ActionKind::Flag => (format!("order {on}"), Some(format!("/orders/{on}"))),
        ActionKind::Notice => (format!("notice {on}"), Some(format!("/quarantine/{on}"))),
        ActionKind::Day => (on.replace('/', " of "), Some(format!("/days/{on}"))),
        ActionKind::Bytes => {
            let at = on.split_once('/');
            (format!("notice {on}"), at.map(|(topic, position)| bytes::path(topic, position)))
        }
        ActionKind::Token => (on.to_owned(), None),
        ActionKind::Build => (format!("build {on}"), Some("/builds".to_owned())),
    };
    Place { text, page }
}

#[cfg(test)]
mod tests {
    use payfold_schemas::time::Time;

    use super::*;

    #[test]
    fn what_people_act_on_has_its_page() {
        for (kind, at, page) in [
            (ActionKind::Finding, "00ff", Some("/findings/00ff")),
            (ActionKind::Flag, "p/M/o", Some("/orders/p/M/o")),
            (ActionKind::Notice, "0-7", Some("/quarantine/0-7")),
            (ActionKind::Day, "p/2026-01-31", Some("/days/p/2026-01-31")),
            (ActionKind::Bytes, "intake/0-7", Some("/bytes/intake/0-7")),
            (ActionKind::Token, "ann", None),
            (ActionKind::Build, "2", Some("/builds")),
        ] {
            let place = place_of(&PersonAction {
                id: String::new(),
                at: Time::from_unix_ms(0),
                author: None,
                done: Done::Decided,
                kind,
                on: at.to_owned(),
                detail: None,
                reason: None,
            });
            assert_eq!(place.page.as_deref(), page, "{}", place.text);
        }
    }
}
