//! Owns lists as CSV files: all pages of a list, each sent when it is read.

use actix_web::http::header::ContentDisposition;
use actix_web::{Error, HttpResponse, web::Bytes};
use futures_util::stream;
use maud::{Markup, html};
use payfold_views::listing::{Cells, Columns, Row, csv_lines};

use crate::visit::Visit;

/// What spreadsheets know UTF-8 by.
const MARK: char = '\u{feff}';

/// A page of a list, as lines of the file.
pub(crate) struct Lines {
    headings: String,
    text: String,
    next: Option<String>,
}

impl Lines {
    /// The lines of a page of rows, and where the next page starts. Errors: a row is no JSON.
    pub(crate) fn of<R: Row>(
        rows: impl IntoIterator<Item = R>,
        next: Option<String>,
    ) -> Result<Self, Error> {
        let columns = Columns::of::<R>(Cells::Csv);
        let texts = rows.into_iter().map(|row| columns.texts(&row)).collect::<Result<Vec<_>, _>>();
        Ok(Self { headings: columns.headings().join(","), text: csv_lines(&texts?), next })
    }
}

/// Answers with a list as a file. `read` reads the page that starts at a cursor. The
/// first page is read before the answer begins, so that a person sees why there is none; after that
/// the file breaks off, which browsers show as a failed download. Errors: those of the first page.
pub(crate) async fn answer(
    visit: Visit,
    name: &str,
    read: impl AsyncFn(&Visit, Option<String>) -> Result<Lines, Error> + 'static,
) -> Result<HttpResponse, Error> {
    let first = read(&visit, None).await?;
    let text = format!("{MARK}{}\n{}", first.headings, first.text);
    let pages = stream::try_unfold(
        (visit, read, Some(Lines { text, ..first })),
        async |(visit, read, lines)| {
            let Some(Lines { text, next, .. }) = lines else { return Ok(None) };
            let after = match next {
                Some(cursor) => Some(read(&visit, Some(cursor)).await?),
                None => None,
            };
            Ok::<_, Error>(Some((Bytes::from(text), (visit, read, after))))
        },
    );
    Ok(HttpResponse::Ok()
        .content_type("text/csv; charset=utf-8")
        .insert_header(ContentDisposition::attachment(format!("{name}.csv")))
        .streaming(pages))
}

/// The link to a list as a file.
pub(crate) fn link(address: &str) -> Markup {
    html! { p.hint { a href=(address) { "The whole list as a file for spreadsheets (CSV)" } } }
}
