//! Owns the help: the documentation of this very version, served from the program and without a
//! session, so that it is there when nothing else can be reached.

use actix_web::web::Path;
use actix_web::{Error, HttpRequest, HttpResponse};
use maud::{Markup, PreEscaped, html};
use payfold_report::text::shown;
use pulldown_cmark::{Alignment, CowStr, Event, Options, Parser, Tag, TagEnd};
use serde::Serialize;

use crate::failure;
use crate::page;

/// The path of the list of pages; theirs are below it.
pub(crate) const INDEX: &str = "/help";
/// The page with every alert and what to do about it.
const ALERTS: &str = "reference/metrics.md";

/// A page of the documentation.
struct HelpPage {
    /// Its path below the folder of the documentation.
    path: &'static str,
    markdown: &'static str,
}

const fn text(path: &'static str, markdown: &'static str) -> HelpPage {
    HelpPage { path, markdown }
}

/// The pages, those for trouble first.
static GROUPS: [(&str, &[HelpPage]); 5] = [
    (
        "When something is wrong",
        &[
            text("reference/metrics.md", include_str!("../../docs/reference/metrics.md")),
            text("errors.md", include_str!("../../docs/errors.md")),
            text("operations.md", include_str!("../../docs/operations.md")),
            text("how-to/partner-trouble.md", include_str!("../../docs/how-to/partner-trouble.md")),
            text("how-to/quarantine.md", include_str!("../../docs/how-to/quarantine.md")),
            text("how-to/storage-trouble.md", include_str!("../../docs/how-to/storage-trouble.md")),
            text("how-to/corrupt.md", include_str!("../../docs/how-to/corrupt.md")),
            text("how-to/wrong-clock.md", include_str!("../../docs/how-to/wrong-clock.md")),
        ],
    ),
    (
        "First steps",
        &[
            text("tutorials/support.md", include_str!("../../docs/tutorials/support.md")),
            text("tutorials/finance.md", include_str!("../../docs/tutorials/finance.md")),
            text("tutorials/on-call.md", include_str!("../../docs/tutorials/on-call.md")),
        ],
    ),
    (
        "How to",
        &[
            text("how-to/use-the-console.md", include_str!("../../docs/how-to/use-the-console.md")),
            text("how-to/reconcile-a-day.md", include_str!("../../docs/how-to/reconcile-a-day.md")),
            text("how-to/add-a-partner.md", include_str!("../../docs/how-to/add-a-partner.md")),
            text("certification.md", include_str!("../../docs/certification.md")),
            text("shop.md", include_str!("../../docs/shop.md")),
            text("how-to/rotate-keys.md", include_str!("../../docs/how-to/rotate-keys.md")),
            text("how-to/rebuild.md", include_str!("../../docs/how-to/rebuild.md")),
            text(
                "how-to/back-up-and-restore.md",
                include_str!("../../docs/how-to/back-up-and-restore.md"),
            ),
            text("how-to/prove-the-log.md", include_str!("../../docs/how-to/prove-the-log.md")),
            text("how-to/erase.md", include_str!("../../docs/how-to/erase.md")),
            text("how-to/upgrade.md", include_str!("../../docs/how-to/upgrade.md")),
            text("how-to/install.md", include_str!("../../docs/how-to/install.md")),
            text("how-to/reverse-proxy.md", include_str!("../../docs/how-to/reverse-proxy.md")),
            text("how-to/run-at-scale.md", include_str!("../../docs/how-to/run-at-scale.md")),
            text("how-to/grow-intake.md", include_str!("../../docs/how-to/grow-intake.md")),
            text("scale.md", include_str!("../../docs/scale.md")),
        ],
    ),
    (
        "What it means",
        &[
            text("glossary.md", include_str!("../../docs/glossary.md")),
            text("order-state.md", include_str!("../../docs/order-state.md")),
            text("reconciliation.md", include_str!("../../docs/reconciliation.md")),
            text("contract.md", include_str!("../../docs/contract.md")),
        ],
    ),
    (
        "Reference",
        &[
            text("commands.md", include_str!("../../docs/commands.md")),
            text("reference/settings.md", include_str!("../../docs/reference/settings.md")),
            text("reference/roles.md", include_str!("../../docs/reference/roles.md")),
            text("reference/files.md", include_str!("../../docs/reference/files.md")),
            text("reference/probes.md", include_str!("../../docs/reference/probes.md")),
            text("reference/admin-api.md", include_str!("../../docs/reference/admin-api.md")),
            text("events.md", include_str!("../../docs/events.md")),
            text("reference/profiles.md", include_str!("../../docs/reference/profiles.md")),
            text(
                "reference/reconciliation.md",
                include_str!("../../docs/reference/reconciliation.md"),
            ),
        ],
    ),
];

/// A page as programs get it.
#[derive(Serialize)]
struct HelpText {
    path: &'static str,
    title: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    markdown: Option<&'static str>,
}

impl HelpPage {
    fn all() -> impl Iterator<Item = &'static Self> {
        GROUPS.iter().flat_map(|(_, pages)| *pages)
    }

    fn title(&self) -> &'static str {
        let first = self.markdown.lines().next().unwrap_or_default();
        first.trim_start_matches("# ")
    }

    /// Its text as a page. Pictures, and links to what is not in the help, are left out.
    fn html(&self) -> String {
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
        let events: Vec<_> = Parser::new_ext(self.markdown, options).collect();
        let (mut is_left_out, mut is_picture) = (false, false);
        let shown = events.iter().enumerate().flat_map(|(at, event)| match event {
            Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                let id = Some(CowStr::from(slug(&events[at + 1..])));
                let (classes, attrs) = (classes.clone(), attrs.clone());
                vec![Event::Start(Tag::Heading { level: *level, id, classes, attrs })]
            }
            // Without alignments, which would be styles in the page.
            Event::Start(Tag::Table(columns)) => vec![
                Event::Html("<div class=\"scroll\" tabindex=\"0\">".into()),
                Event::Start(Tag::Table(vec![Alignment::None; columns.len()])),
            ],
            Event::End(TagEnd::Table) => vec![event.clone(), Event::Html("</div>".into())],
            Event::Start(Tag::Link { dest_url, .. }) if !self.has_target(dest_url) => {
                is_left_out = true;
                Vec::new()
            }
            Event::End(TagEnd::Link) if std::mem::take(&mut is_left_out) => Vec::new(),
            Event::Start(Tag::Image { .. }) => {
                is_picture = true;
                Vec::new()
            }
            Event::End(TagEnd::Image) => {
                is_picture = false;
                Vec::new()
            }
            _ if is_picture => Vec::new(),
            _ => vec![event.clone()],
        });
        let mut html = String::with_capacity(2 * self.markdown.len());
        pulldown_cmark::html::push_html(&mut html, shown);
        html
    }

    /// Whether a link of this page leads to a page of the help, or to the internet.
    fn has_target(&self, link: &str) -> bool {
        let (path, _) = link.split_once('#').unwrap_or((link, ""));
        link.starts_with("https://") || path.is_empty() || find(&self.resolve(path)).is_some()
    }

    /// The path of a relative link of this page.
    fn resolve(&self, link: &str) -> String {
        let mut folders: Vec<_> = self.path.split('/').collect();
        folders.pop();
        for part in link.split('/') {
            match part {
                ".." => drop(folders.pop()),
                part => folders.push(part),
            }
        }
        folders.join("/")
    }
}

/// The id of a heading, by the events behind its start: as GitHub makes it.
fn slug(events: &[Event<'_>]) -> String {
    let mut slug = String::new();
    for event in events {
        match event {
            Event::Text(text) | Event::Code(text) => slug.push_str(&text.to_lowercase()),
            Event::End(TagEnd::Heading(_)) => break,
            _ => {}
        }
    }
    slug.retain(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '));
    slug.replace(' ', "-")
}

fn find(path: &str) -> Option<&'static HelpPage> {
    HelpPage::all().find(|page| page.path == path)
}

/// The address of what to do about an alert.
pub(crate) fn runbook(alert: &str) -> Option<String> {
    let anchor = format!("alert-{}", alert.to_lowercase());
    let is_known = find(ALERTS)?.markdown.contains(&format!("id=\"{anchor}\""));
    is_known.then(|| format!("{INDEX}/{ALERTS}#{anchor}"))
}

/// Lists the pages.
pub(crate) async fn index(request: HttpRequest) -> HttpResponse {
    let pages: Vec<_> = HelpPage::all()
        .map(|page| HelpText { path: page.path, title: page.title(), markdown: None })
        .collect();
    page::answer(&request, "Help", &pages, render_index)
}

fn render_index() -> Markup {
    html! {
        h1 { "Help" }
        p { "The documentation of the version that runs." }
        @for (title, pages) in &GROUPS {
            h2 { (title) }
            ul {
                @for page in *pages {
                    li { a href={ (INDEX) "/" (page.path) } { (page.title()) } }
                }
            }
        }
    }
}

/// Shows a page.
pub(crate) async fn show(request: HttpRequest, path: Path<String>) -> Result<HttpResponse, Error> {
    let page = find(&path).ok_or_else(|| {
        failure::missing(&request, &format!("The help has no page {}.", shown(&path)))
    })?;
    let (path, title, markdown) = (page.path, page.title(), Some(page.markdown));
    Ok(page::answer(&request, title, &HelpText { path, title, markdown }, || {
        html! {
            p.path { a href=(INDEX) { "Help" } }
            article.help { (PreEscaped(page.html())) }
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of an attribute in a page.
    fn values<'p>(page: &'p str, attribute: &'p str) -> impl Iterator<Item = &'p str> {
        let begin = format!(" {attribute}=\"");
        let rest: Vec<_> = page.split(&begin).skip(1).collect();
        rest.into_iter().filter_map(|rest| rest.split('"').next())
    }

    #[test]
    fn each_link_of_the_help_leads_to_a_heading_of_it() {
        let mut links = 0;
        for page in HelpPage::all() {
            let html = page.html();
            assert!(page.markdown.starts_with("# ") && html.starts_with("<h1"), "{}", page.path);
            assert!(!html.contains("style="), "{}", page.path);
            for link in values(&html, "href").filter(|link| !link.starts_with("https://")) {
                let (path, id) = link.split_once('#').unwrap_or((link, ""));
                let path = if path.is_empty() { page.path.to_owned() } else { page.resolve(path) };
                let target = find(&path).map(HelpPage::html);
                let target = target.unwrap_or_else(|| panic!("{}: {link}", page.path));
                let is_there = id.is_empty() || values(&target, "id").any(|known| known == id);
                assert!(is_there, "{}: {link}", page.path);
                links += 1;
            }
        }
        assert!(links > 100, "{links}");
    }

    #[test]
    fn each_alert_has_its_heading() {
        let rules = include_str!("../../deploy/prometheus/alerts.yaml");
        let alerts: Vec<_> = rules.lines().filter_map(|line| line.split_once("alert: ")).collect();
        assert!(alerts.len() > 15, "{alerts:?}");
        for (_, alert) in alerts {
            let expected = format!("/help/{ALERTS}#alert-{}", alert.to_lowercase());
            assert_eq!(runbook(alert), Some(expected));
        }
        assert_eq!(runbook("NotWatched"), None);
    }
}
