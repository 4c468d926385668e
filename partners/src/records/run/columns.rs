//! Owns the search for the columns that a profile reads in one file, and the messages about a file
//! with other columns.

use crate::records::row::Columns;
use crate::records::types::{RowFault, UnfitFile, shown};
use crate::records::value_location::ValueLocation;

/// Why a value location has no column, or more than one.
struct ColumnError(String);

impl ColumnError {
    fn err<T>(problem: String) -> Result<T, Self> {
        Err(Self(problem))
    }
}

impl Columns {
    /// Finds the column of every value location. Errors: it has no column, or two.
    pub(super) fn find(&mut self, places: &[ValueLocation], line: u64) -> Result<(), UnfitFile> {
        let found = places.iter().map(|place| self.column(place));
        self.of_places = found.collect::<Result<_, _>>().map_err(|ColumnError(problem)| {
            UnfitFile { line: Some(line).filter(|line| *line > 0), problem }
        })?;
        Ok(())
    }

    fn column(&self, place: &ValueLocation) -> Result<usize, ColumnError> {
        let name = match place {
            ValueLocation::Numbered(column) if *column < self.count => return Ok(*column),
            ValueLocation::Numbered(column) => {
                let (wanted, count) = (column + 1, self.count);
                return ColumnError::err(format!(
                    "[records] reads column {wanted}, and there are {count}"
                ));
            }
            ValueLocation::Named(name) => name,
            // A path is a location in objects only.
            ValueLocation::Path(path) => {
                return ColumnError::err(format!("{} is not a column", path.join(".")));
            }
        };
        let mut named = self.names.iter().enumerate().filter(|(_, other)| *other == name);
        match (named.next(), named.next()) {
            (Some((column, _)), None) => Ok(column),
            (Some((one, _)), Some((two, _))) => {
                let (one, two) = (one + 1, two + 1);
                ColumnError::err(format!(
                    "the header has {} twice, in columns {one} and {two}; write {{n.{one}}} or \
                     {{n.{two}}} instead of the name",
                    shown(name)
                ))
            }
            (None, _) => {
                let known: Vec<_> = self.names.iter().take(32).map(|name| shown(name)).collect();
                ColumnError::err(format!(
                    "the header has no column {}; it has {}: the delimiter differs, this is \
                     another file, or the format is new",
                    shown(name),
                    known.join(", ")
                ))
            }
        }
    }

    /// Checks the number of columns of a row. Errors: it differs from the header's.
    pub(super) fn check(&self, count: usize) -> Result<(), RowFault> {
        let wanted = self.count;
        if count == wanted {
            return Ok(());
        }
        let hint =
            if count < wanted { "is it cut off?" } else { "a delimiter in a cell without quotes?" };
        let problem = format!("it has {count} columns, not {wanted}: {hint}");
        Err(RowFault { column: None, problem })
    }
}
