//! Owns the lookup of a row's values, in the cells of a record or in a JSON object. An empty value
//! and `null` count as absent.

use std::borrow::Cow;

use super::cells::Cells;
use crate::records::types::RowFault;
use crate::records::value_location::ValueLocation;
use crate::scheme::document::Document;
use crate::scheme::found_value::ValueKind;

/// The columns of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns {
    /// The column of each value location, from 0, in the order of `RecordsSpec::places`.
    pub(super) of_places: Vec<usize>,
    /// The name of each column; empty for a file without a header.
    pub(super) names: Vec<String>,
    /// The number of columns.
    pub(super) count: usize,
}

impl Columns {
    /// The name of a column in messages.
    pub(super) fn label(&self, column: usize) -> String {
        self.names.get(column).cloned().unwrap_or_else(|| format!("column {}", column + 1))
    }
}

/// One row of a file.
#[derive(Clone, Copy)]
pub(super) enum Row<'r> {
    /// A CSV record. `content` is the argument of `Cells::value`.
    Cells {
        cells: &'r Cells<'r>,
        content: Option<&'r str>,
        columns: &'r Columns,
    },
    Object {
        document: &'r Document,
        places: &'r [ValueLocation],
    },
}

impl<'r> Row<'r> {
    /// The value at the location of this number; `None` if it is absent. Errors: it is an object or
    /// an array, or has half of a surrogate pair.
    pub(super) fn value(
        &self,
        place: usize,
        raw: ValueMode,
    ) -> Result<Option<Cow<'r, str>>, RowFault> {
        match *self {
            Self::Cells { cells, content, columns } => {
                let text = cells.value(content, columns.of_places[place]);
                Ok(text.filter(|text| !text.is_empty()))
            }
            Self::Object { document, places } => {
                let ValueLocation::Path(path) = &places[place] else { return Ok(None) };
                // A find error means a duplicate name, which `parse_object` has refused already.
                let Ok(Some(value)) = document.find(path) else { return Ok(None) };
                let text = match (value.kind, raw) {
                    (ValueKind::Null, _) => b"",
                    (_, ValueMode::Raw) => value.raw,
                    (ValueKind::Composite, ValueMode::Decoded) => {
                        let problem =
                            "it is an object or an array; the profile needs a single value";
                        return Err(RowFault::of(&path.join("."), problem));
                    }
                    (_, ValueMode::Decoded) => value.text,
                };
                let text = std::str::from_utf8(text).map_err(|_| {
                    RowFault::of(&path.join("."), "it has half of a surrogate pair")
                })?;
                Ok(Some(text).filter(|text| !text.is_empty()).map(Cow::Borrowed))
            }
        }
    }
}

/// Whether a JSON value is returned as its source text or decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueMode {
    Raw,
    Decoded,
}
