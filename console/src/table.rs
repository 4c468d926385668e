//! Owns the frame of a table, which scrolls by itself on a narrow screen.

use maud::{Markup, html};

/// The head of a column.
pub(crate) enum Head {
    Text(&'static str),
    /// Of numbers, which stand right.
    Number(&'static str),
}

/// A table around its rows; the label is for those who can't see where it begins.
pub(crate) fn table(label: &str, heads: &[Head], rows: &Markup) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table {
                thead { tr {
                    @for head in heads {
                        @match head {
                            Head::Text(name) => th scope="col" { (name) },
                            Head::Number(name) => th.num scope="col" { (name) },
                        }
                    }
                } }
                tbody { (rows) }
            }
        }
    }
}
