//! Owns where a row's values are found: in the cells of a record, or in an object. What is empty or `null` is nothing.

use std::borrow::Cow;

use super::Fault;
use super::cells::{Cell, Dialect, Record};
use super::plan::Place;
use crate::scheme::document::{Document, Kind};

/// The columns a file's places stand in.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns {
    /// The column of each place, from 0, by the place's number.
    pub(super) of_places: Vec<usize>,
    /// The name of each column; of a file without a header none.
    pub(super) names: Vec<String>,
    /// How many columns there are.
    pub(super) count: usize,
}

impl Columns {
    /// What a person calls a column.
    pub(super) fn label(&self, column: usize) -> String {
        self.names.get(column).cloned().unwrap_or_else(|| format!("column {}", column + 1))
    }
}

/// One row.
#[derive(Clone, Copy)]
pub(super) enum Row<'r> {
    Cells { record: Record<'r>, cells: &'r [Cell], columns: &'r Columns, dialect: &'r Dialect },
    Object { document: &'r Document, places: &'r [Place] },
}

impl<'r> Row<'r> {
    /// The value at a place; `None` for nothing. Errors: it can't be read.
    pub(super) fn value(&self, place: usize, raw: Raw) -> Result<Option<Cow<'r, str>>, Fault> {
        match *self {
            Self::Cells { record, cells, columns, dialect } => {
                let cell = cells.get(columns.of_places[place]);
                let text = cell.map(|cell| dialect.text(record, *cell));
                Ok(text.filter(|text| !text.is_empty()))
            }
            Self::Object { document, places } => {
                let Place::Path(path) = &places[place] else { return Ok(None) };
                // A name that comes twice is refused before.
                let Ok(Some(value)) = document.find(path) else { return Ok(None) };
                let text = match (value.kind, raw) {
                    (Kind::Null, _) => "",
                    (_, Raw::Yes) => value.raw,
                    (Kind::Composite, Raw::No) => {
                        let problem = "it is an object or an array, and one value is wanted";
                        return Err(Fault::of(&path.join("."), problem));
                    }
                    (_, Raw::No) => value.text,
                };
                Ok(Some(text).filter(|text| !text.is_empty()).map(Cow::Borrowed))
            }
        }
    }
}

/// Whether a value is wanted as it was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raw {
    Yes,
    No,
}
